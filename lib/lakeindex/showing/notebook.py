"""Results in a notebook: what a command prints of them, as HTML in the notebook's own style. Every text is escaped."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, Final, Protocol

from lakeindex.showing.text import Grid, printable, unmarked

_MOST_ROWS: Final = 100


class Screen(Protocol):
    """What results are printed to; rich's console is one. Texts have rich's marks (``[bold]``, ``[red]``)."""

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


class Page:
    """A screen that keeps what is printed as HTML."""

    is_terminal = False
    width = 1_000_000

    def __init__(self) -> None:
        self.html = ""

    def print(self, *what: Any, markup: bool | None = None, **_: Any) -> None:
        """See :class:`Screen`; what else there is to say is for terminals."""
        for one in what:
            text = one if isinstance(one, Grid) or markup is False else unmarked(str(one))
            self.html += _grid_html(text) if isinstance(text, Grid) else f"<p>{_escaped(str(text))}</p>"


class Shown:
    """A result that a notebook shows as the command line does."""

    __slots__ = ()
    shown_by: ClassVar[str]
    """The function that prints it to a screen, ``module:name`` in this package, or anywhere."""

    def _repr_html_(self) -> str:
        return html_of(shower(self.shown_by), self)


def shower(link: str) -> Callable[[Screen, Any], None]:
    """What prints a result to a screen, by its name."""
    module, _, name = link.partition(":")
    found: Callable[[Screen, Any], None] = getattr(
        import_module(module if "." in module else f"lakeindex.showing.{module}"), name
    )
    return found


def html_of(show: Callable[[Screen, Any], None], value: object) -> str:
    """What a function prints of a value, as HTML.

    >>> html_of(lambda screen, value: screen.print(value, markup=False), "a [b] < c")
    '<p>a [b] &lt; c</p>'
    """
    page = Page()
    show(page, value)
    return page.html


def _grid_html(grid: Grid) -> str:
    """The first rows under their columns, and how many more there are.

    >>> grid = Grid.of("a")
    >>> for text in ("x & y", *"z" * 101):
    ...     grid.add_row(text)
    >>> html = _grid_html(grid)
    >>> html[:72]
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>x &amp; y</td></'
    >>> html[-25:]
    '</table><p>and 2 more</p>'
    """
    title = "" if grid.title is None else f"<p><strong>{_cell(grid.title)}</strong></p>"
    names = "".join(f"<th>{_cell(one.name)}</th>" for one in grid.columns)
    head = f"<thead><tr>{names}</tr></thead>" if grid.headed else ""
    tags = ["th" if one.style == "bold" else "td" for one in grid.columns]
    rows = (
        "".join(f"<{tag}>{_cell(text)}</{tag}>" for tag, text in zip(tags, row, strict=True))
        for row in grid.rows[:_MOST_ROWS]
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    more = len(grid.rows) - _MOST_ROWS
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    return f"{title}<table>{head}<tbody>{body}</tbody></table>{rest}"


def _cell(text: str) -> str:
    return _escaped(unmarked(text))


def _escaped(text: str) -> str:
    import html

    return html.escape(printable(text))
