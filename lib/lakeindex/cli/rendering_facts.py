"""What a table holds, for a person: lines that a shell's tools can read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakeindex.cli.screen import Screen
from lakeindex.report.grid import Grid, escape
from lakeindex.report.text import human_bytes

if TYPE_CHECKING:
    from lakeindex.commands.look.find_tables import FoundTable, TablesFound
    from lakeindex.commands.look.live_files import (
        TableColumns,
        TableCount,
        TableEntries,
        TableFiles,
        TablePartitions,
    )


def _line(console: Screen, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


def show_columns(console: Screen, found: TableColumns) -> None:
    """A line a column."""
    for column in found.columns:
        _line(console, f"{column.name} {column.type}{'' if column.nullable else ' not null'}")


def show_entries(console: Screen, found: TableEntries) -> None:
    """A line a property."""
    for name, value in sorted(found.properties.items()):
        _line(console, f"{name}={value}")


def show_count(console: Screen, found: TableCount) -> None:
    """The number alone."""
    _line(console, str(found.rows))


def show_files(console: Screen, found: TableFiles) -> None:
    """A line a file."""
    for file in found.files:
        _line(console, f"{file.path}  {file.rows:,} rows  {human_bytes(file.bytes)}")


def show_partitions(console: Screen, found: TablePartitions) -> None:
    """A line a partition."""
    for one in found.partitions:
        _line(console, f"{one.path or '(the table)'}  {one.files:,} files  {one.rows:,} rows  {human_bytes(one.bytes)}")


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
