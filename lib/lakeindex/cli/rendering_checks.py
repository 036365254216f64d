"""A diagnosis for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakeindex.doctor.findings import CheckVerdict
from lakeindex.showing.grid import Column, Grid, escape
from lakeindex.showing.notebook import Screen

if TYPE_CHECKING:
    from lakeindex.doctor.findings import Diagnosis

_STYLES: Final = {CheckVerdict.OK: "green", CheckVerdict.WARN: "yellow", CheckVerdict.FAIL: "bold red"}


def show_diagnosis(console: Screen, found: Diagnosis) -> None:
    """A line a check, and what to do."""
    grid = Grid(tuple(map(Column, ("", "check", "found", "what to do"))))
    for check in found.checks:
        style = _STYLES[check.verdict]
        grid.add_row(
            f"[{style}]{check.verdict}[/{style}]", escape(check.name), escape(check.found), escape(check.cure or "")
        )
    console.print(grid)
    counts = [f"{sum(check.verdict is verdict for check in found.checks)} {verdict}" for verdict in CheckVerdict]
    console.print(", ".join(counts))
