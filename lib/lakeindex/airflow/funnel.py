"""The funnel of a run as text: how many rows and (key, file) pairs each stage took in and let through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_COLUMNS: Final = ("rows_in", "rows_out", "pairs_in", "pairs_out", "bytes_read", "requests", "seconds")
#: What happened to the rows: counters of the merge and of staging, in the order they are reported.
FATES: Final = ("rows_in", "combined", "quarantined", "inserts", "updates", "deletes", "moved", "ignored")


def funnel_text(stages: Sequence[Mapping[str, Any]]) -> str:
    """A table, one line a stage, with the share of pairs that the stage dropped."""
    lines = [["stage", *_COLUMNS, "pairs dropped"]]
    for stage in stages:
        cells = [_number(stage.get(column)) for column in _COLUMNS]
        lines.append([str(stage["stage"]), *cells, _dropped(stage)])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def fates(stages: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """What happened to the incoming rows, over all stages of a run.

    ``rows_in``, ``combined`` and ``quarantined`` are counted by the first stage, the rest by the last.
    """
    counts: dict[str, int] = {}
    for stage in stages:
        counts.update({name: int(stage[name]) for name in FATES if name in stage and name not in counts})
    return counts


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _dropped(stage: Mapping[str, Any]) -> str:
    taken, kept = stage.get("pairs_in"), stage.get("pairs_out")
    return f"{100 * (1 - kept / taken):.2f} %" if taken and kept is not None else "-"
