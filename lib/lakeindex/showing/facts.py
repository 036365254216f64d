"""What a table holds, for a person: lines that a shell's tools can read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from lakeindex.showing.notebook import Screen
from lakeindex.showing.text import Column, Grid, escape, human_bytes

if TYPE_CHECKING:
    from lakeindex.cli.doctor import Diagnosis
    from lakeindex.operations.look.find_tables import FoundTable, TablesFound
    from lakeindex.operations.look.live_files import (
        LiveFile,
        LivePartition,
        TableColumns,
        TableCount,
        TableEntries,
        TableFiles,
        TablePartitions,
    )


def _line(console: Screen, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


def facts_of(title: str, facts: Mapping[str, object]) -> Grid:
    """A title, and a line a fact; those that are None or empty are left out."""
    grid = Grid((Column(style="bold"), Column()), title=escape(title), headed=False)
    for name, value in facts.items():
        if value is not None and value not in ("", ()):
            grid.add_row(name, escape(_text(value)))
    return grid


def _text(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(str(one) for one in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def show_fields(console: Screen, result: Any) -> None:
    """What a result holds, field by field."""
    facts = {name.replace("_", " "): getattr(result, name) for name in result.__struct_fields__}
    console.print(facts_of(facts.pop("table", None) or type(result).__name__, facts))


def show_columns(console: Screen, found: TableColumns) -> None:
    for column in found.columns:
        _line(console, f"{column.name} {column.type}{'' if column.nullable else ' not null'}")


def show_entries(console: Screen, found: TableEntries) -> None:
    for name, value in sorted(found.properties.items()):
        _line(console, f"{name}={value}")


def show_count(console: Screen, found: TableCount) -> None:
    _line(console, str(found.rows))


def show_files(console: Screen, found: TableFiles) -> None:
    show_live_files(console, found.files)


def show_live_files(console: Screen, files: Iterable[LiveFile]) -> None:
    _sizes(console, ((file.path, f"{file.rows:,} rows", human_bytes(file.bytes)) for file in files))


def show_partitions(console: Screen, found: TablePartitions) -> None:
    show_live_partitions(console, found.partitions)


def show_live_partitions(console: Screen, partitions: Iterable[LivePartition]) -> None:
    _sizes(
        console,
        (
            (one.path or "(the table)", f"{one.files:,} files", f"{one.rows:,} rows", human_bytes(one.bytes))
            for one in partitions
        ),
    )


def _sizes(console: Screen, rows: Iterable[tuple[str, ...]]) -> None:
    """A path and counts in each line; a terminal wraps it, so that a path can be copied as it is."""
    shown = [(escape(path), *counts) for path, *counts in rows]
    if not shown:
        return
    grid = Grid([Column(), *(Column(align="right") for _ in shown[0][1:])], headed=False, rows=shown)
    if not console.is_terminal:
        console.print(grid)
        return
    for line in grid.lines():
        _line(console, line)


_COLOURS: Final = {"ok": "green", "attention": "yellow", "broken": "red"}


def show_tables(console: Screen, found: TablesFound) -> None:
    """A line a table, and below what is to be said of it."""
    grid = Grid.of(
        *("table", "type", "index", "last commit", "health", "version", "files", "size"),
        text=5,
        spare=("version", "type", "last commit", "index"),
        folded=("table",),
    )
    for table in found.tables:
        grid.add_row(*_cells(table, found.uri))
    if found.tables:
        console.print(grid)
    else:
        _line(console, f"no tables below {found.uri} ({found.folders:,} folders listed)")
    for table in found.tables:
        for finding in table.findings:
            _line(console, f"{_place(table, found.uri)}: {finding}")
    if not found.complete:
        _line(console, f"{found.skipped:,} folders were not listed, or more: name one of them, or a greater --depth")


def _place(table: FoundTable, root: str) -> str:
    return table.uri.removeprefix(root).strip("/") or table.uri.rpartition("/")[2]


def _cells(table: FoundTable, root: str) -> list[str]:
    kind = (table.table_type or "").lower().replace("_", "-")
    sizes = ("" if table.files is None else f"{table.files:,}", "" if table.bytes is None else human_bytes(table.bytes))
    colour = _COLOURS[table.health]
    texts = (kind, table.index_type or "", table.last_commit_time or "")
    health = f"[{colour}]{table.health}[/{colour}]"
    return [escape(_place(table, root)), *map(escape, texts), health, str(table.version or ""), *sizes]


_VERDICTS: Final = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def show_diagnosis(console: Screen, found: Diagnosis) -> None:
    """A line a check, and what to do."""
    grid = Grid(tuple(map(Column, ("", "check", "found", "what to do"))))
    for check in found.checks:
        style = _VERDICTS[check.verdict]
        grid.add_row(
            f"[{style}]{check.verdict}[/{style}]", escape(check.name), escape(check.found), escape(check.cure or "")
        )
    console.print(grid)
    counts = [f"{sum(check.verdict == verdict for check in found.checks)} {verdict}" for verdict in _VERDICTS]
    console.print(", ".join(counts))


def show_options(console: Screen, options: Iterable[tuple[str, str, str, str]]) -> None:
    """A paragraph an option, for a terminal; whoever pipes them gets a table of Markdown."""
    for key, valid, default, meaning in options:
        console.print(f"[bold]{escape(key)}[/bold]")
        grid = Grid((Column(), Column()), headed=False)
        for name, text in (("valid", valid), ("default", default), ("", meaning)):
            if text:
                grid.add_row(f"  {name}", escape(text))
        console.print(grid)
