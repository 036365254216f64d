"""A diagnosis for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from lakeindex.doctor.findings import CheckVerdict

if TYPE_CHECKING:
    from lakeindex.doctor.findings import Diagnosis

_STYLES: Final = {CheckVerdict.OK: "green", CheckVerdict.WARN: "yellow", CheckVerdict.FAIL: "bold red"}


def show_diagnosis(console: Console, found: Diagnosis) -> None:
    """A line a check, and what to do."""
    grid = Grid(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("", "check", "found", "what to do"):
        grid.add_column(name, overflow="fold")
    for check in found.checks:
        style = _STYLES[check.verdict]
        grid.add_row(
            f"[{style}]{check.verdict}[/{style}]", escape(check.name), escape(check.found), escape(check.cure or "")
        )
    console.print(grid)
    counts = [f"{sum(check.verdict is verdict for check in found.checks)} {verdict}" for verdict in CheckVerdict]
    console.print(", ".join(counts))
