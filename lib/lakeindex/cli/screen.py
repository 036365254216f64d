"""Where commands show a person their results: a terminal, which rich draws, or a pipe, for which it is not even loaded.

Texts have rich's marks (``[bold]``, ``[red]``); foreign ones go through
:func:`lakeindex.showing.grid.escape`. On a pipe a line is a line, however long: nothing is folded, and it depends on
nobody's window.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from lakeindex.showing.grid import Grid, unmarked
from lakeindex.showing.notebook import Screen

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH: Final = 200
"""Columns that what is laid out by the width there is has on a pipe."""


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
    return bool(os.environ.get("FORCE_COLOR")) or (stream is not None and stream.isatty())  # None: closed (2>&-)
