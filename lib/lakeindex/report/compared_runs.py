"""Two runs side by side."""

from __future__ import annotations

from typing import ClassVar

from lakeindex.frozen import Frozen
from lakeindex.report.contents import RunReport
from lakeindex.report.make_report import pairs_kept
from lakeindex.run.summary import StageSummary
from lakeindex.showing.json_result import SCHEMA_VERSION, JsonResult


class Compared(Frozen):
    """One figure of both runs.

    Attributes:
        name: what it is; ``STAGE seconds`` and the like for a stage's.
        unit: ``rows``, ``files``, ``pairs``, ``share``, ``bytes``, ``requests`` or ``seconds``.
        first: of the first run; None if it has no such figure.
        second: of the second.
        ratio: second to first; None if that is no number.
    """

    name: str
    unit: str
    first: float | None
    second: float | None
    ratio: float | None


class Comparison(JsonResult):
    """Two runs, and all their figures."""

    shown_by: ClassVar[str] = "lakeindex.report.terminal:show_comparison"

    first: str
    second: str
    figures: tuple[Compared, ...]
    schema_version: int = SCHEMA_VERSION


def compare(first: RunReport, second: RunReport) -> Comparison:
    """Every figure of two runs, in one order."""
    one, other = _figures(first), _figures(second)
    lines = []
    for name, unit in dict.fromkeys([*one, *other]):
        a, b = one.get((name, unit)), other.get((name, unit))
        ratio = round(b / a, 3) if a and b is not None else None
        lines.append(Compared(name, unit, a, b, ratio))
    return Comparison(first.run.run_id, second.run.run_id, tuple(lines))


def _figures(report: RunReport) -> dict[tuple[str, str], float]:
    run = report.run
    fates = ("rows_in", "combined", "quarantined", "inserts", "updates", "deletes", "moved", "ignored", "rows_copied")
    figures: dict[tuple[str, str], float] = {
        ("seconds", "seconds"): run.seconds,
        ("start-up", "seconds"): run.startup_seconds,
        ("waiting", "seconds"): run.waiting_seconds,
    }
    figures |= {(name, "rows"): float(getattr(run, name)) for name in fates}
    figures |= {(name, "files"): float(getattr(run, name)) for name in ("files_created", "files_rewritten")}
    figures["bytes_written", "bytes"] = float(run.bytes_written)
    kept = pairs_kept(run)
    if kept is not None:
        figures["pairs kept", "share"] = round(kept, 6)
    if report.amplification is not None:
        figures["bytes written for a byte of the batch", "share"] = report.amplification
    for stage in run.stages:
        figures |= _of_stage(stage)
    return figures


def _of_stage(stage: StageSummary) -> dict[tuple[str, str], float]:
    found = {
        ("seconds", "seconds"): stage.seconds,
        ("read", "bytes"): float(stage.bytes_read),
        ("requests", "requests"): float(stage.requests),
        ("slowest task", "seconds"): stage.slowest_task_seconds,
    }
    return {(f"{stage.name} {name}", unit): value for (name, unit), value in found.items()}
