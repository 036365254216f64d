"""What is printed fits the width there is, and nothing is cut without a sign."""

from __future__ import annotations

import io
import re

import pyarrow as pa
import pytest
from rich.console import Console

from lakeindex.cli.shared import PIPED_WIDTH, drawn_by_rich, screen
from lakeindex.operations.check_violations import Broken, Checked, CheckReport, Violation
from lakeindex.operations.look.live_files import LiveFile
from lakeindex.operations.rows.get import GetReport, GetResult
from lakeindex.showing.facts import show_live_files
from lakeindex.showing.results import show_check, show_get
from lakeindex.showing.text import Grid
from tests.cli_support import lakeindex

PATH = "day=2026-11-01/" + "0123456789" * 30 + ".parquet"
ROWS = pa.table(
    {
        **{f"a_column_with_a_long_name_{number}": [f"v{number}", None] for number in range(12)},
        "long": ["x" * 500 + "!", "[bold]y[/bold]"],
    }
)


def printed(show: object, value: object, width: int, *, terminal: bool) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=terminal, color_system=None, highlight=False)
    show(console, value)
    return text.getvalue()


def show_rows_alone(console: Console, found: GetResult) -> None:
    show_get(console, found, Console(file=io.StringIO()))


def got(rows: pa.Table) -> GetResult:
    names = dict.fromkeys(GetReport.__struct_fields__, 0) | {"index_type": "BLOOM", "notes": ()}
    return GetResult(rows, (), GetReport(**names))


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("terminal", [True, False])
def test_rows_fit_and_are_whole(width: int, terminal: bool):
    text = printed(show_rows_alone, got(ROWS), width, terminal=terminal)
    assert max(map(len, text.splitlines())) <= width
    squeezed = re.sub(r"\s", "", text)
    assert "x" * 500 + "!" in squeezed
    assert all(f"{name}v{name[26:]}" in squeezed for name in ROWS.column_names[:-1])
    assert ("row 2 of 2" in text, "[bold]y[/bold]" in text) == (True, True)
    assert "\N{HORIZONTAL ELLIPSIS}" not in text


def test_rows_that_fit_are_lines():
    text = printed(show_rows_alone, got(ROWS.select([0, 1])), 80, terminal=True)
    assert [line.split() for line in text.splitlines()] == [ROWS.column_names[:2], ["v0", "v1"], []]


def test_a_finding_is_whole_at_any_width_and_a_line_when_piped():
    counts = dict.fromkeys(Checked.__struct_fields__, 1) | {"unique_scope": "partition"}
    found = Violation(next(iter(Broken)), PATH, f"[x] {PATH} holds something else", "restore it " * 30)
    fields = {"violations": (found,), "checked": Checked(**counts), "notes": ("n" * 300,), "seconds": 1.0}
    report = CheckReport(**{name: fields.get(name, "t") for name in CheckReport.__struct_fields__})
    narrow = printed(show_check, report, 40, terminal=True)
    assert max(map(len, narrow.splitlines())) <= 40
    assert PATH in re.sub(r"\s", "", narrow)
    piped = printed(show_check, report, PIPED_WIDTH, terminal=False).splitlines()
    assert [line for line in piped if PATH in line and "[x]" in line and line.endswith("something else")]
    assert f"  cure: {'restore it ' * 30}".rstrip() in [line.rstrip() for line in piped]
    assert "note: " + "n" * 300 in piped


def test_what_matters_least_goes_before_anything_is_folded():
    """A number, an instant or a stage is never folded where a column can go; what went is named."""
    grid = Grid.of("stage", "text", "rows", "pairs", "read", text=2, spare=("read", "pairs"), folded=("text",))
    grid.add_row("between the stages", "a text that may be folded " * 3, "1,234,567", "7,654,321", "123.4 MiB")
    shown = {width: printed(Console.print, grid, width, terminal=True) for width in (200, 80, 62, 50, 30)}
    for width, text in shown.items():
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    for width, gone in ((200, []), (80, []), (62, ["read"]), (50, ["pairs", "read"])):
        heading = shown[width].splitlines()[0].split()
        assert heading == [name for name in ("stage", "text", "rows", "pairs", "read") if name not in gone]
        assert "between the stages" in shown[width]
        assert ("no room for " + ", ".join(gone) in " ".join(shown[width].split())) is bool(gone)
    assert grid.lines()[0].split() == ["stage", "text", "rows", "pairs", "read"]  # piped: all of them


def test_piped_width_is_fixed_whatever_the_window(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "30")
    assert screen().width == drawn_by_rich().width == PIPED_WIDTH


def test_a_path_is_whole_on_a_narrow_terminal():
    """So that it can be copied: the terminal wraps the line."""
    files = [LiveFile(PATH, "", "f", "1", 1_000, 5), LiveFile("a.parquet", "", "g", "1", 2_000_000, 1_234)]
    lines = printed(show_live_files, files, 80, terminal=True).splitlines()
    assert [line.split()[0] for line in lines] == [PATH, "a.parquet"]
    assert lines[1].endswith("1,234 rows  1.9 MiB")
    assert printed(show_live_files, [], 80, terminal=True) == ""


def test_options_are_paragraphs_on_a_terminal_and_a_table_in_a_pipe(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert lakeindex("options").stdout.startswith("| option | valid |")
    monkeypatch.setenv("FORCE_COLOR", "1")
    for words in (("options",), ("options", "--create")):
        lines = re.sub("\x1b\\[[0-9;]*m", "", lakeindex(*words).stdout).splitlines()
        assert max(map(len, lines)) <= 80
        assert "hoodie.index.type" in lines
    assert "  default  false" in [line.rstrip() for line in lines]
