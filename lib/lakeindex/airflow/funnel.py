"""The funnel of a run as text: how many rows and (key, file) pairs each stage took in and let through.

Without Airflow: the demo prints it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_COLUMNS: Final = (
    "rows_in",
    "rows_out",
    "pairs_in",
    "pairs_out",
    "bytes_read",
    "requests",
    "seconds",
    "startup_seconds",
    "waiting_seconds",
)
#: What came in, and what can happen to a row; names of the run's summary.
FATES: Final = ("rows_in", "combined", "quarantined", "inserts", "updates", "deletes", "moved", "ignored")


def funnel_text(stages: Sequence[Mapping[str, Any]]) -> str:
    """A table, one line a stage, with the share of pairs that the stage dropped."""
    lines = [["stage", *_COLUMNS, "pairs dropped"]]
    for stage in stages:
        cells = [_number(stage.get(column)) for column in _COLUMNS]
        lines.append([str(stage["name"]), *cells, _dropped(stage)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def fates(summary: Mapping[str, Any]) -> dict[str, int]:
    """What happened to the incoming rows, out of a run's summary."""
    return {name: int(summary.get(name, 0)) for name in FATES}


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _dropped(stage: Mapping[str, Any]) -> str:
    taken, kept = stage.get("pairs_in"), stage.get("pairs_out")
    return f"{100 * (1 - kept / taken):.2f} %" if taken and kept is not None else "-"
