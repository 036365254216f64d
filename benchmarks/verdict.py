"""The targets, and whether the saved results meet them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchmarks.report import WorkloadResult
from benchmarks.timings import Measurement, grid

#: Runs from which a median counts.
ENOUGH_RUNS: Final = 5
LOCAL: Final = ("lakeindex-nosync", "lakeindex")
SPARK: Final = ("lakeindex-spark",)
HUDI: Final = ("hudi", "hudi-simple", "hudi-bucket", "hudi-record", "hudi-v6")

What = Literal["seconds", "peak"]


@dataclass(frozen=True)
class Figure:
    """What one peer took on one workload."""

    seconds: float
    peak: float
    runs: int


Figures = dict[tuple[str, str], Figure]


@dataclass(frozen=True)
class Target:
    """One cell of the targets' table.

    Attributes:
        group: its line.
        runner: its column.
        text: the target as it was set.
        workload: where ours is measured.
        ours: peers of ours, each judged by itself.
        theirs: what it is compared with: the best of these peers; nobody: the figure itself is judged.
        their_workload: where theirs is measured, if not where ours is; with ``theirs`` empty, the same peer there.
        most: highest value of ours / theirs, or of ours.
        least: lowest value of theirs / ours; given instead of ``most``.
        what: wall time or peak memory.
    """

    group: str
    runner: Literal["local", "Spark", "DAG"]
    text: str
    workload: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...] = ()
    their_workload: str | None = None
    most: float | None = None
    least: float | None = None
    what: What = "seconds"


def _growth(runner: Literal["local", "Spark"], ours: tuple[str, ...]) -> Target:
    text = "20 M rows < 1.3 x 1 M rows"
    return Target("growth, tail batch", runner, text, "G20_tail", ours, (), "G1_tail", most=1.3)


_DELTA: Final = ("delta-rs",)
_FLOOR: Final = ("floor",)
_READ: Final = ("delta-read",)
_DELTA_SPARK: Final = ("delta-spark",)
_SUBMIT: Final = ("hudi-submit",)
_COLD: Final = "cold, 1 k batch into 1 M rows: "
TARGETS: Final = (
    Target("M mono", "local", "<= 0.8 x the floor", "M_mono", LOCAL, _FLOOR, most=0.8),
    Target("M mono", "local", "not slower than delta-rs", "M_mono", LOCAL, _DELTA, most=1.0),
    Target("M mono", "Spark", "<= 1.15 x the local runner", "M_mono", SPARK, LOCAL[1:], most=1.15),
    Target("M mono", "Spark", ">= 6 x faster than Hudi's best", "M_mono", SPARK, HUDI, least=6.0),
    Target("M mono", "Spark", ">= 3 x faster than Delta", "M_mono", SPARK, _DELTA_SPARK, least=3.0),
    Target("M uuid", "local", "<= 0.7 x the floor", "M_uuid", LOCAL, _FLOOR, most=0.7),
    Target("M uuid", "local", "faster than delta-rs", "M_uuid", LOCAL, _DELTA, most=1.0),
    Target("M uuid", "Spark", ">= 6 x faster than Hudi's best", "M_uuid", SPARK, HUDI, least=6.0),
    Target("M uuid", "Spark", ">= 2.5 x faster than Delta", "M_uuid", SPARK, _DELTA_SPARK, least=2.5),
    Target("L tail", "local", "<= 0.3 x the floor", "L_tail", LOCAL, _FLOOR, most=0.3),
    Target("L tail", "local", ">= 3 x faster than delta-rs", "L_tail", LOCAL, _DELTA, least=3.0),
    Target("L tail", "Spark", ">= 10 x faster than Hudi's best", "L_tail", SPARK, HUDI, least=10.0),
    Target("S mono", "local", "<= 1.2 x the floor", "S_mono", LOCAL, _FLOOR, most=1.2),
    Target("S mono", "Spark", ">= 6 x faster than Hudi's best", "S_mono", SPARK, HUDI, least=6.0),
    Target("1 k batch into L", "local", "<= 0.25 x the floor", "L_small", LOCAL, _FLOOR, most=0.25),
    Target("1 k batch into L", "local", ">= 4 x faster than delta-rs", "L_small", LOCAL, _DELTA, least=4.0),
    Target("peak memory, M uuid", "local", "below delta-rs", "M_uuid", LOCAL, _DELTA, most=1.0, what="peak"),
    Target("peak memory, M mono", "local", "below delta-rs", "M_mono", LOCAL, _DELTA, most=1.0, what="peak"),
    Target("peak memory, M uuid", "Spark", "below 0.75 x Hudi's lowest", "M_uuid", SPARK, HUDI, most=0.75, what="peak"),
    Target("peak memory, M mono", "Spark", "below 0.75 x Hudi's lowest", "M_mono", SPARK, HUDI, most=0.75, what="peak"),
    *(
        Target(kind, "local", "not slower than delta-rs", kind, LOCAL, _DELTA, most=1.0)
        for kind in ("wide", "nested", "text", "all", "one", "inserts", "deletes")
    ),
    Target("parts", "local", "without syncs <= 1.3 x delta-rs", "parts", LOCAL[:1], _DELTA, most=1.3),
    Target("parts", "local", "<= 2.5 x delta-rs", "parts", LOCAL[1:], _DELTA, most=2.5),
    _growth("local", LOCAL),
    _growth("Spark", SPARK),
    Target("bulk load of 5 M rows", "local", "not slower than delta-rs", "bulk_load M_mono", LOCAL, _DELTA, most=1.0),
    Target(
        "bulk load of 5 M rows", "Spark", ">= 3 x faster than bulk_insert", "bulk_load M_mono", SPARK, HUDI, least=3.0
    ),
    Target(
        "partial update, 2 of 200 columns", "local", "<= 0.4 x the whole upsert",
        "operations partial", ("partial",), ("whole",), most=0.4,
    ),
    Target(
        "insert of 1 M rows, BUCKET", "local", "<= 1.1 x bulk_insert",
        "operations insert", ("insert",), ("bulk-insert",), most=1.1,
    ),
    Target(
        "peak memory, stream of 20 M rows", "local", "<= 600 MB",
        "operations stream", ("stream",), most=600e6, what="peak",
    ),
    Target(
        "2,000 commits on the timeline", "local", "<= 1.15 x without them",
        "operations commits", ("long",), ("short",), most=1.15,
    ),
    Target("read of 5 M rows", "local", "not slower than delta-rs", "operations read", ("read",), _READ, most=1.0),
    Target(
        "peak memory, read of 5 M rows", "local", "below delta-rs",
        "operations read", ("read",), _READ, most=1.0, what="peak",
    ),
    Target(
        "get of one key, process warm", "local", "not slower than delta-rs",
        "operations get", ("get",), ("delta-get",), most=1.0,
    ),
    Target("get of one key, first call", "local", "<= 0.1 s", "operations get", ("first-get",), most=0.1),
    Target(
        "2,000 footers, 10 ms away", "local", "from the cache >= 20 x faster",
        "footers far_2000", ("cached",), ("without",), least=20.0,
    ),
    Target(
        "1,000 rows into 10 of 2,000 files, 10 ms away", "local", "not slower than delta-rs",
        "objects objects", ("lakeindex",), _DELTA, most=1.0,
    ),
    Target(
        "metadata table kept, M mono", "local", "<= 1.15 x without one",
        "metadata M_mono_v9", ("statistics", "record-index", "filters"), ("none",), most=1.15,
    ),
    Target(
        "100 k keys in the record index, M mono", "local", ">= 5 x faster than Hudi's look-up",
        "metadata M_mono_v9", ("locate-metadata", "look-up-metadata"), ("look-up-hudi",), least=5.0,
    ),
    *(
        Target(f"{_COLD}{title}", "local", f"<= {most} s", "cold thousand", (peer,), most=most)
        for title, peer, most in (
            ("`lakeindex upsert`", "upsert", 0.9), ("a script that upserts", "script", 1.0),
            ("`lakeindex history`", "history", 0.5), ("`lakeindex inspect`", "inspect", 0.5),
            ("`lakeindex get`", "get", 0.5),
        )
    ),
    Target(
        f"{_COLD}`lakeindex upsert`", "local", "<= 1.2 x delta-rs's script",
        "cold thousand", ("upsert",), _DELTA, most=1.2,
    ),
    Target("whole DAG, 1 k batch", "DAG", "five jobs <= 24 s", "dag L_small", ("dag",), most=24.0),
    Target("whole DAG, 1 k batch", "DAG", "one job <= 14 s", "dag L_small", ("dag-single",), most=14.0),
    Target(
        "whole DAG, M mono", "DAG", "no slower than one cold spark-submit of Hudi's upsert",
        "dag M_mono", ("dag", "dag-single"), _SUBMIT, most=1.0,
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """A target, and what was measured for each of our peers.

    Attributes:
        values: by peer; a peer that was not measured, or has nothing to be compared with, is left out.
        beaten: by peer: whether it meets the target.
        best: which of their peers it was compared with.
        few_runs: whether some median is of too few runs.
    """

    target: Target
    values: dict[str, float]
    beaten: dict[str, bool]
    best: str | None
    few_runs: bool


def figures(workloads: Iterable[WorkloadResult], measurements: Iterable[Measurement]) -> Figures:
    """Everything that has a right result, by workload (of a measurement: its name and its workload) and peer."""
    found: Figures = {}
    for result in workloads:
        for peer in result.peers:
            if peer.failed is None and peer.correct and peer.seconds:
                found[result.workload, peer.peer] = Figure(peer.median, float(peer.peak_bytes), len(peer.seconds))
    for one in measurements:
        for timing in one.timings:
            if timing.failed is None and timing.seconds:
                figure = Figure(timing.median, float(timing.peak_bytes), len(timing.seconds))
                found[f"{one.name} {timing.workload}", timing.peer] = figure
    return found


def judge(known: Figures, targets: Sequence[Target] = TARGETS) -> list[Finding]:
    """All targets, measured or not."""
    return [_judge(known, target) for target in targets]


def _judge(known: Figures, target: Target) -> Finding:
    values: dict[str, float] = {}
    best = None
    few = False
    for peer in target.ours:
        mine = known.get((target.workload, peer))
        rivals = _rivals(known, target, peer)
        if mine is None or (not rivals and not _is_absolute(target)):
            continue
        value = _of(mine, target.what)
        used = [mine]
        if rivals:
            best, rival = min(rivals.items(), key=lambda one: _of(one[1], target.what))
            used.append(rival)
            other = _of(rival, target.what)
            value = value / other if target.most is not None else other / value
        values[peer] = value
        few = few or any(one.runs < ENOUGH_RUNS for one in used)
    return Finding(target, values, {peer: _meets(target, value) for peer, value in values.items()}, best, few)


def _is_absolute(target: Target) -> bool:
    return not target.theirs and target.their_workload is None


def _rivals(known: Figures, target: Target, peer: str) -> dict[str, Figure]:
    where = target.their_workload or target.workload
    names = target.theirs or (() if _is_absolute(target) else (peer,))
    return {name: known[where, name] for name in names if (where, name) in known}


def _of(figure: Figure, what: What) -> float:
    return figure.seconds if what == "seconds" else figure.peak


def _meets(target: Target, value: float) -> bool:
    if target.most is not None:
        return value <= target.most
    assert target.least is not None
    return value >= target.least


def table(findings: Sequence[Finding]) -> str:
    """As Markdown; a target that two of our peers stand for names both."""
    rows = []
    for finding in findings:
        target = finding.target
        shown = ", ".join(f"{_label(peer)}{_figure(target, value)}" for peer, value in finding.values.items())
        told = shown or "not measured"
        rows.append([target.group, target.runner, target.text, told, finding.best or "", _met(finding)])
    return grid(["workload", "runner", "target", "measured", "beside", "met"], rows)


_LABELS: Final = {
    "lakeindex": "with sync",
    "dag": "five jobs",
    "dag-single": "one job",
    "statistics": "with statistics",
    "record-index": "with the record index",
    "filters": "with filters",
    "locate-metadata": "file groups",
    "look-up-metadata": "and positions in files",
}


def _figure(target: Target, value: float) -> str:
    if not _is_absolute(target):
        return f"{value:.2f} x"
    return f"{value:.2f} s" if target.what == "seconds" else f"{value / 1e6:.0f} MB"


def _label(peer: str) -> str:
    return f"{_LABELS[peer]} " if peer in _LABELS else ""


def _met(finding: Finding) -> str:
    """Yes, no, or which of our peers does."""
    met = [peer for peer, is_met in finding.beaten.items() if is_met]
    if not finding.beaten:
        return ""
    if len(met) in {0, len(finding.beaten)}:
        word = "yes" if met else "no"
    else:
        word = f"{' and '.join(_LABELS.get(peer, 'without sync') for peer in met)} only"
    return word + (" (few runs)" if finding.few_runs else "")
