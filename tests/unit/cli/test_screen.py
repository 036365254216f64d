"""What is piped is laid out without rich, and says what rich would show."""

from __future__ import annotations

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console
from rich.markup import escape as escape_of_rich
from rich.text import Text

from lakeindex.cli.shared import Pipe, screen
from lakeindex.showing.text import Column, Grid, escape, unmarked

TEXTS = st.text(st.sampled_from("ab[]\\/#@= 1é日\n"), max_size=12)


@given(TEXTS)
@example("\\[bold]x[/bold]")
@example("[a]\\")
def test_a_foreign_text_is_escaped_as_by_rich_and_comes_back(text: str) -> None:
    assert escape(text) == escape_of_rich(text)
    assert unmarked(escape(text) + "[bold]!") == Text.from_markup(escape(text) + "[bold]!", emoji=False).plain


def grid() -> Grid:
    found = Grid(
        [Column("name", style="bold"), Column("rows", "right"), Column("")], title="what [bold]is[/bold] there"
    )
    found.add_row(escape("[x]"), "1,000", "日本")
    found.add_row("two\nlines", "2")
    return found


def test_a_grid_is_what_rich_draws_without_blanks_at_the_ends() -> None:
    drawn = io.StringIO()
    Console(file=drawn, width=100, force_terminal=False, emoji=False).print(grid())
    assert grid().lines() == [line.rstrip() for line in drawn.getvalue().splitlines()]
    assert grid().width == 4 + 2 + 5 + 2 + 4 + 2 + 1  # "lines" is the widest name


def test_a_pipe_folds_nothing_and_loads_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    pipe = screen()
    assert isinstance(pipe, Pipe)
    pipe.print(f"[bold]{'long ' * 100}[/bold]", style="dim")
    pipe.print("[x]", markup=False)
    pipe.print()
    screen(err=True).print("aside")
    out, err = capsys.readouterr()
    assert out.splitlines() == ["long " * 100, "[x]", ""]
    assert err == "aside\n"


def test_a_terminal_is_richs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert isinstance(screen(), Console)
