"""What the charts of a report show, as shares of the width there is: the page draws them with its own style, so that
their texts are as large on a phone as beside them, and no number lies on a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from lakeindex.frozen import Frozen
from lakeindex.report.contents import STEPS_OF_FATES, FunnelStep, PastRun, RangeMap, RunReport, SizeBin
from lakeindex.run.summary import OUTSIDE, STARTUP, WAITING, RunSummary
from lakeindex.showing.text import human_bytes, human_count

WORK: Final = "work: the longest task"
AROUND: Final = "work: plan, start of tasks, turns of other tasks"
COLOURS: Final = ("blue", "orange", "green", "pink", "brown", "grey", "red")
_BESIDE: Final = {STARTUP: "grey", WAITING: "red", OUTSIDE: "brown"}
_SET_ASIDE: Final = ("combined", "quarantined")


class Part(Frozen):
    """A piece of a bar: percent of the chart's width, its colour, and what it is."""

    width: float
    colour: str
    text: str


class Bar(Frozen):
    """A line of a chart: its name, its pieces, and what stands beside them."""

    name: str
    parts: tuple[Part, ...]
    text: str


class Chart(Frozen):
    """Bars, and the colours that need a word."""

    bars: tuple[Bar, ...]
    legend: tuple[Part, ...] = ()


class RangeGroup(Frozen):
    """The files of a partition: for each where its range begins and how wide it is, in percent, and its name."""

    partition: str
    lines: tuple[tuple[float, float, str], ...]


def colours_of(names: Sequence[str]) -> dict[str, str]:
    return {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)} | _BESIDE


def percent(value: float, top: float) -> float:
    """Share of a chart's width."""
    return round(100 * value / top, 2) if top else 0.0


def funnel_charts(report: RunReport) -> list[tuple[str, Chart]]:
    """Rows until they are looked up, and pairs of a key and a file from all that are possible to those that are
    found: bars of one middle, which are to scale within each.
    """
    steps = [step for step in report.funnel if step.name not in STEPS_OF_FATES]
    titles = (("rows", "Rows"), ("pairs", "Pairs of a key and a file that may hold it"))
    found = [(title, _funnel([step for step in steps if step.unit == unit])) for unit, title in titles]
    return [(title, chart) for title, chart in found if chart.bars]


def _funnel(steps: Sequence[FunnelStep]) -> Chart:
    top = max((step.count for step in steps), default=0)
    bars = []
    for at, step in enumerate(steps):
        colour = "blue" if step.unit == "rows" else "orange"
        before = steps[at - 1].count if at else 0
        kept = f" ({step.count / before:.1%})" if before and step.count < before else ""
        bars.append(Bar(step.name, (Part(percent(step.count, top), colour, ""),), human_count(step.count) + kept))
    return Chart(tuple(bars))


def fates_chart(report: RunReport) -> Chart:
    """What became of the rows that came in: one bar."""
    shown = sorted(report.run.fates.items(), key=lambda one: one[0] in _SET_ASIDE)  # those last
    parts = tuple(
        Part(percent(count, report.run.rows_in), COLOURS[at % len(COLOURS)], f"{human_count(count)} {name}")
        for at, (name, count) in enumerate(shown)
    )
    return Chart((Bar("", parts, ""),) if parts else (), parts)


def time_chart(report: RunReport) -> Chart:
    """What the seconds of the run were: one bar."""
    run = report.run
    work = sum(stage.seconds for stage in run.stages)
    shares = [("work of the stages", work, "blue")]
    shares += [(name, value, _BESIDE[name]) for name, value in run.beside_stages.items()]
    parts = tuple(Part(percent(value, run.seconds), colour, f"{value:.2f} s {name}") for name, value, colour in shares)
    return Chart((Bar("", parts, ""),), parts)


def stages_chart(report: RunReport) -> Chart:
    """Seconds of each stage, those of its longest task apart; and, on lines of their own, start-up and waiting, by the
    stage before or in which they were, and what was between the stages.
    """
    run = report.run
    beside = run.beside_stages
    top = max([*(stage.seconds for stage in run.stages), *beside.values()], default=0.0)
    bars = []
    for stage in run.stages:
        work = min(stage.slowest_task_seconds, stage.seconds)
        parts = (
            Part(percent(work, top), "blue", WORK),
            Part(percent(stage.seconds - work, top), "orange", AROUND),
        )
        name = stage.name + (" (taken over)" if stage.reused else "")
        tasks = f", {stage.tasks:,} tasks" if stage.tasks > 1 else ""
        bars.append(Bar(name, parts, f"{stage.seconds:.2f} s{tasks}"))
    by_stage = {
        STARTUP: [(stage.name, stage.startup_seconds) for stage in run.stages],
        WAITING: [(stage.name, stage.waiting_seconds) for stage in run.stages],
    }
    for name, total in beside.items():
        shares = [share for share in by_stage.get(name, [(name, total)]) if share[1]]
        pieces = tuple(Part(percent(value, top), _BESIDE[name], f"{stage} {value:.2f} s") for stage, value in shares)
        bars.append(Bar(name, pieces, f"{total:.2f} s"))
    return Chart(tuple(bars), (Part(0, "blue", WORK), Part(0, "orange", AROUND)))


def sizes_chart(sizes: Sequence[SizeBin]) -> Chart:
    """How many files there are of which size: those that were looked into, and those that were written."""
    top = max((max(one.in_scope, one.written) for one in sizes), default=0)
    bars = []
    for at, one in enumerate(sizes):
        name = _label(sizes, at)
        for count, colour, what in ((one.in_scope, "blue", "looked into"), (one.written, "orange", "written")):
            if count:
                bars.append(Bar(name, (Part(percent(count, top), colour, what),), f"{count:,} {what}"))
                name = ""
    return Chart(tuple(bars), (Part(0, "blue", "looked into"), Part(0, "orange", "written")) if bars else ())


def _label(sizes: Sequence[SizeBin], at: int) -> str:
    below = sizes[at].below_bytes
    if below is None:
        return f"{human_bytes(sizes[at - 1].below_bytes or 0)} or more" if at else "any size"
    return f"below {human_bytes(below)}"


def range_groups(ranges: RangeMap) -> list[RangeGroup]:
    """Key ranges of files, one below the other, by partition."""
    groups = []
    for partition, lines in groupby(ranges.lines, key=lambda line: line.partition):
        places = tuple((percent(one.low, 1), percent(one.high - one.low, 1), one.file_id) for one in lines)
        groups.append(RangeGroup(partition, places))
    return groups


def past_chart(report: RunReport, past: Sequence[PastRun]) -> Chart:
    """Seconds of earlier runs by stage, the oldest first, and of this one."""
    run = report.run
    runs = [(one.finished_at, _with_beside(one.stage_seconds, one), one.seconds) for one in reversed(past)]
    runs.append(("this run", _with_beside({stage.name: stage.seconds for stage in run.stages}, run), run.seconds))
    names = list(dict.fromkeys(stage for _, seconds, _ in runs for stage in seconds))
    colour = colours_of(names)
    top = max((max(total, sum(seconds.values())) for _, seconds, total in runs), default=0.0)
    bars = tuple(
        Bar(
            when.removesuffix("+00:00").replace("T", " "),
            tuple(Part(percent(value, top), colour[name], f"{name} {value:.2f} s") for name, value in seconds.items()),
            f"{total:.2f} s",
        )
        for when, seconds, total in runs
    )
    return Chart(bars, tuple(Part(0, colour[name], name) for name in names))


def _with_beside(stages: Mapping[str, float], run: PastRun | RunSummary) -> dict[str, float]:
    """Seconds by stage, and those of start-up and waiting, if there were any."""
    beside = {STARTUP: run.startup_seconds, WAITING: run.waiting_seconds}
    return {**stages, **{name: value for name, value in beside.items() if value}}
