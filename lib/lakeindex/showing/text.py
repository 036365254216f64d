"""Numbers, foreign texts and tables without lines, of texts with rich's marks (``[bold]``, ``[red]``), for a terminal
or a pipe.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, field

from lakeindex.frozen import Frozen

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

_STEP: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, marks that turn the direction of writing, and what XML has no place for."""


def human_bytes(size: int) -> str:
    """``1.5 MiB``."""
    value = float(size)
    for unit in _UNITS[:-1]:
        if value < _STEP:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} {_UNITS[-1]}"


def human_count(count: int) -> str:
    """``12,345``."""
    return f"{count:,}"


def printable(text: str) -> str:
    """A text of somebody else's (a key, a path, a message) without what could change how it is shown."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


_GAP: Final = 2
_MARK: Final = re.compile(r"(\\*)\[([a-z#/@][^[]*?)\]")
_MARK_TO_ESCAPE: Final = re.compile(r"(\\*)(\[[a-z#/@].*?\])")
_TAB: Final = 8


class Column(Frozen):
    """A column of a grid.

    Attributes:
        most: columns that it may have on a terminal.
        least: columns that it may be folded to; without, it is folded only where nothing else makes room.
        spare: if a terminal is too narrow, the columns with the greatest go first; with 0 it stays.
    """

    name: str = ""
    align: Literal["left", "right"] = "left"
    style: str | None = None
    most: int | None = None
    least: int | None = None
    spare: int = 0


class Grid(Struct):
    """A table without lines, of marked texts.

    Attributes:
        rows: grow by :meth:`add_row`.
    """

    columns: Sequence[Column]
    title: str | None = None
    headed: bool = True
    rows: list[tuple[str, ...]] = field(default_factory=list)

    @classmethod
    def of(
        cls, *names: str, text: int = 1, spare: Sequence[str] = (), folded: Sequence[str] = (), fold: int = 12
    ) -> Grid:
        """With these columns, of which the first ``text`` are text and the others numbers.

        On a narrow terminal the folded ones are folded to ``fold`` columns; then the spare ones go, first one first.
        """
        ranks = {name: rank for rank, name in enumerate(reversed(spare), 1)}
        return cls(
            [
                Column(
                    name,
                    "left" if at < text else "right",
                    least=fold if name in folded else None,
                    spare=ranks.get(name, 0),
                )
                for at, name in enumerate(names)
            ]
        )

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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        shown = self.within(options.max_width)
        yield shown.drawn(options.max_width)
        if gone := [one.name for one in self.columns if one not in shown.columns]:
            yield Text(f"no room for {', '.join(gone)}: a wider terminal, a pipe or --json shows them", style="dim")

    def within(self, width: int) -> Grid:
        """Without the spare columns for which there is no room."""
        spare = [at for at, one in enumerate(self.columns) if one.spare]
        if not spare or self._least_width() <= width:
            return self
        gone = max(spare, key=lambda at: (self.columns[at].spare, at))
        columns = [one for at, one in enumerate(self.columns) if at != gone]
        rows = [tuple(cell for at, cell in enumerate(row) if at != gone) for row in self.rows]
        return Grid(columns, self.title, self.headed, rows).within(width)

    def _least_width(self) -> int:
        needed = (
            wide if one.least is None else min(wide, one.least)
            for one, wide in zip(self.columns, self._widths(), strict=True)
        )
        return sum(needed) + _GAP * len(self.columns)

    def drawn(self, width: int) -> Table:
        """As rich has it; where columns with a least width make room enough, the others are not folded."""
        from rich.table import Table

        gaps, title = (0, _GAP, 0, 0), self.title
        made = Table(
            title=title, title_justify="left", show_header=self.headed, box=None, header_style="bold", padding=gaps
        )
        makes_room = self._least_width() <= width and any(one.least is not None for one in self.columns)
        for one in self.columns:
            stays = makes_room and one.least is None
            made.add_column(
                one.name, justify=one.align, style=one.style, max_width=one.most, overflow="fold", no_wrap=stays
            )
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
