"""Where commands show a person their results: a terminal, which rich draws, or a pipe, for which it is not even loaded.

Texts have rich's marks (``[bold]``, ``[red]``); foreign ones go through :func:`escape`. On a pipe a line is a line,
however long: nothing is folded, and it depends on nobody's window.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import click

from lakeindex.report.text import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH: Final = 200
"""Columns that what is laid out by the width there is has on a pipe."""
_GAP: Final = 2
_MARK: Final = re.compile(r"(\\*)\[([a-z#/@][^[]*?)\]")
_MARK_TO_ESCAPE: Final = re.compile(r"(\\*)(\[[a-z#/@].*?\])")
_TAB: Final = 8


class Screen(Protocol):
    """What is printed to; rich's console is one."""

    @property
    def is_terminal(self) -> bool:
        """Whether somebody looks at it."""

    @property
    def width(self) -> int:
        """Columns."""

    def print(
        self, *what: Any, style: str | None = ..., markup: bool | None = ..., soft_wrap: bool | None = ...
    ) -> None:
        """Print texts or a grid."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a grid; what is too wide for a terminal is folded.

    Attributes:
        name: its heading.
        align: where its texts are.
        style: of its texts, on a terminal.
        most: columns that it may have on a terminal.
    """

    name: str = ""
    align: Literal["left", "right"] = "left"
    style: str | None = None
    most: int | None = None


@dataclass(slots=True)
class Grid:
    """A table without lines, of marked texts.

    Attributes:
        columns: of it.
        title: a line above it.
        headed: whether the columns' names are shown.
        rows: grow by :meth:`add_row`.
    """

    columns: Sequence[Column]
    title: str | None = None
    headed: bool = True
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add_row(self, *cells: str) -> None:
        """One more; cells that it lacks are empty."""
        self.rows.append((*cells, *("" for _ in self.columns[len(cells) :])))

    @property
    def width(self) -> int:
        """Columns that it needs to be shown without a fold."""
        return sum(self._widths()) + _GAP * len(self.columns)

    def lines(self) -> list[str]:
        """Laid out as wide as it is."""
        widths = self._widths()
        found = [] if self.title is None else [unmarked(self.title)]
        for row in self._shown():
            cells = [_lines(cell) for cell in row]
            for number in range(max(map(len, cells), default=0)):
                texts = (cell[number] if number < len(cell) else "" for cell in cells)
                placed = map(_placed, texts, widths, self.columns)
                found.append((" " * _GAP).join(placed).rstrip())
        return found

    def __rich__(self) -> Table:
        from rich.table import Table

        gaps, title = (0, _GAP, 0, 0), self.title
        made = Table(
            title=title, title_justify="left", show_header=self.headed, box=None, header_style="bold", padding=gaps
        )
        for one in self.columns:
            made.add_column(one.name, justify=one.align, style=one.style, max_width=one.most, overflow="fold")
        for row in self.rows:
            made.add_row(*row)
        return made

    def _shown(self) -> list[tuple[str, ...]]:
        return [*([tuple(one.name for one in self.columns)] if self.headed else []), *self.rows]

    def _widths(self) -> list[int]:
        shown = self._shown()
        return [
            max((cells(line) for row in shown for line in _lines(row[at])), default=0)
            for at in range(len(self.columns))
        ]


class Pipe:
    """Output that goes to a file or a program, as plain lines.

    Args:
        err: to stderr.
    """

    is_terminal = False
    width = PIPED_WIDTH

    def __init__(self, *, err: bool = False) -> None:
        self._err = err

    def print(self, *what: Any, markup: bool | None = None, **_: Any) -> None:
        """See :class:`Screen`; what else there is to say is for terminals."""
        grids = [line for one in what if isinstance(one, Grid) for line in one.lines()]
        texts = [str(one) if markup is False else unmarked(str(one)) for one in what if not isinstance(one, Grid)]
        click.echo("\n".join([*grids, *([" ".join(texts)] if texts or not grids else [])]), err=self._err)


def screen(*, err: bool = False) -> Screen:
    """Stdout, or stderr, for a person."""
    return drawn_by_rich(err=err) if is_terminal(err=err) else Pipe(err=err)


def drawn_by_rich(*, err: bool = False) -> Console:
    """Stdout, or stderr, for what only rich draws: bars, tables with lines."""
    from rich.console import Console

    width = None if is_terminal(err=err) else PIPED_WIDTH
    return Console(stderr=err, highlight=False, emoji=False, width=width)


def is_terminal(*, err: bool = False) -> bool:
    """Whether somebody looks at stdout, or stderr; ``FORCE_COLOR`` says so, too, as everywhere."""
    stream = sys.stderr if err else sys.stdout
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def escape(text: str) -> str:
    """A foreign text without marks, as :func:`rich.markup.escape` gives it."""
    safe = _MARK_TO_ESCAPE.sub(lambda found: f"{found[1] * 2}\\{found[2]}", text)
    ends = len(safe) - len(safe.rstrip("\\"))
    return safe + "\\" if ends % 2 else safe


def unmarked(text: str) -> str:
    """What rich shows of a marked text."""
    parts, at = [], 0
    for mark in _MARK.finditer(text):
        backslashes, is_escaped = divmod(len(mark[1]), 2)
        shown = text[mark.start(2) - 1 : mark.end()] if is_escaped else ""
        parts += [text[at : mark.start()].replace("\\[", "["), "\\" * backslashes, shown]
        at = mark.end()
    return "".join([*parts, text[at:].replace("\\[", "[")])


def cells(text: str) -> int:
    """Columns of a line."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in text)


def _lines(text: str) -> list[str]:
    return printable(unmarked(text)).expandtabs(_TAB).split("\n")


def _placed(text: str, width: int, column: Column) -> str:
    gap = " " * (width - cells(text))
    return gap + text if column.align == "right" else text + gap
