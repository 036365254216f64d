"""What every result prints at 80 columns, beside the text that was read and found right (``shown_texts/NAME.txt``).

A result is filled by its fields' types, each value another one; the file has what is printed of it, and what is printed otherwise when
one field is empty, or another member of its set. ``LAKEINDEX_WRITE_TEXTS=1`` writes the files anew: read what `git diff` shows of them.
"""

from __future__ import annotations

import difflib
import io
import itertools
import os
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from rich.console import Console

from lakeindex.frozen import Frozen
from lakeindex.model import VERSION
from lakeindex.report.contents import RunReport, TableReport
from lakeindex.report.page import render_history, render_page
from lakeindex.showing.notebook import Shown, shower
from tests.unit.test_showing import all_below

TEXTS = Path(__file__).parent / "shown_texts"
for _name in (
    "api.table", "cli.doctor", "operations.advise", "operations.changes", "operations.cluster_run", "operations.create_table",
    "operations.importing.import_table", "operations.index", "operations.look.find_tables", "operations.look.inspect",
    "operations.maintain", "operations.metadata", "operations.migrate_index", "operations.repair", "operations.repair_keys",
    "operations.repair_kept", "operations.repair_properties", "operations.rescale_run", "operations.restore",
    "operations.rows.get", "operations.rows.scan", "operations.table_services", "report.make_report", "report.compared_runs",
    "catalogs.syncing",
):  # fmt: skip
    import_module(f"lakeindex.{_name}")
#: Texts that are one of a set, by the field's name.
WORDS = {"action": ("made", "there", "deleted"), "unit": ("rows", "pairs")}
#: What a result usually is not.
SELDOM = ("noop", "dry_run", "scheduled", "checked", "existed", "undone")
TIMES = (
    "instant",
    "time",
    "since",
    "until",
    "as_of",
    "commit",
    "generation",
    "covered_through",
    "finished_at",
    "to",
    "through",
)


def results() -> list[type[Shown]]:
    """All that have fields and a text of their own."""
    found = [
        one for one in all_below(Shown) if issubclass(one, Frozen) and one.__struct_fields__ and "shown_by" in vars(one)
    ]
    return sorted({getattr(import_module(one.__module__), one.__name__) for one in found}, key=lambda one: one.__name__)


class Filler:
    """Values by type, each another one."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def of(self, kind: Any, name: str) -> Any:
        arguments = [one for one in typing.get_args(kind) if one is not type(None)]
        origin = typing.get_origin(kind)
        if origin in (typing.Union, types.UnionType):
            return self.of(arguments[0], name)
        if origin is tuple:
            several = [arguments[0]] * 2 if arguments[-1] is Ellipsis else arguments
            return tuple(self.of(one, name) for one in several)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {key: self.of(arguments[1], f"{name}.{key}") for key in ("one", "two")}
        if isinstance(kind, type) and issubclass(kind, Frozen):
            hints = typing.get_type_hints(kind)
            return kind(**{field: self.of(hints[field], field) for field in kind.__struct_fields__})
        return self._plain(kind, name)

    def _plain(self, kind: Any, name: str) -> Any:
        if kind is bool:
            return name not in SELDOM
        if kind is str and name in WORDS:
            return WORDS[name][0]
        number = next(self._numbers)
        if kind is int:
            return number * 1_003
        if kind is float:
            return number + 0.25
        if isinstance(kind, type) and issubclass(kind, Enum):
            return next(iter(kind))
        if kind is pa.Table:
            return pa.table({"id": [f"key-{number}"], "v": [number]})
        return f"20260102030405{number:03d}" if name.rpartition("_")[2] in TIMES else f"{name}-{number}"


def others(kind: Any, value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """What may stand in a field's place, and how that is called."""
    if type(None) in typing.get_args(kind):
        yield f"no {name}", None
    if isinstance(value, bool):
        yield f"not {name}", not value
    elif isinstance(value, int | float):
        yield f"{name} 0", type(value)(0)
    elif isinstance(value, Enum):
        yield from ((f"{name} {one.name}", one) for one in type(value) if one is not value)
    elif isinstance(value, tuple) and typing.get_args(kind)[-1:] == (Ellipsis,):
        yield f"no {name}", ()
        yield f"one of {name}", value[:1]
    elif isinstance(value, dict):
        yield f"no {name}", {}
    elif name in WORDS:
        yield from ((f"{name} {word}", word) for word in WORDS[name][1:])
    elif isinstance(value, str):
        yield f"{name} empty", ""


def variants(value: Any, *, deep: bool = True) -> Iterator[tuple[str, Any]]:
    """The value with one field changed; of a field that holds results of their own, with one of theirs."""
    hints = typing.get_type_hints(type(value))
    for name in value.__struct_fields__:
        held = getattr(value, name)
        for what, other in others(hints[name], held, name):
            yield what, replace(value, **{name: other})
        first = held[0] if isinstance(held, tuple) and held else held
        if deep and isinstance(first, Frozen):
            theirs = typing.get_type_hints(type(first))
            shared = [inner for inner in first.__struct_fields__ if theirs[inner] == hints.get(inner)]
            alike = [(f"the same {inner}", replace(first, **{inner: getattr(value, inner)})) for inner in shared]
            for what, other in [*alike, *variants(first)]:
                changed = (other, *held[1:]) if isinstance(held, tuple) else other
                yield f"{name}: {what}", replace(value, **{name: changed})


def printed(value: Shown) -> list[str]:
    written = io.StringIO()
    shower(value.shown_by)(Console(file=written, width=80), value)
    return [line.rstrip() for line in written.getvalue().splitlines()]


def page_of(value: Any) -> list[str]:
    """What the report's page says; without its head."""
    page = render_page(value) if isinstance(value, RunReport) else render_history(value)
    return [
        line.strip() for line in page.partition("<main>")[2].replace(VERSION, "VERSION").splitlines() if line.strip()
    ]


def text_of(kind: type[Any], show: Callable[[Any], list[str]] = printed, *, deep: bool = True) -> str:
    value = Filler().of(kind, kind.__name__)
    full = show(value)
    lines = [*full]
    for what, other in variants(value, deep=deep):
        found = show(other)
        if found != full:
            changes = [
                one for one in difflib.unified_diff(full, found, n=0, lineterm="") if one[:2] not in ("--", "++", "@@")
            ]
            lines += ["", f"=== {what}", *changes]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("kind", results(), ids=lambda kind: kind.__name__)
def test_what_a_result_prints(kind: type[Shown]) -> None:
    compare(TEXTS / f"{kind.__name__}.txt", text_of(kind))


@pytest.mark.parametrize("kind", [RunReport, TableReport])
def test_what_the_page_of_a_report_says(kind: type[Shown]) -> None:
    compare(TEXTS / f"{kind.__name__}.html", text_of(kind, page_of, deep=False))


def compare(file: Path, text: str) -> None:
    if os.environ.get("LAKEINDEX_WRITE_TEXTS"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_no_text_is_of_nobody() -> None:
    assert {one.stem for one in TEXTS.glob("*.txt")} == {one.__name__ for one in results()}
