"""A report, or two side by side, for a terminal."""

from __future__ import annotations

from statistics import median

from lakeindex.format.instants import TIME_DIGITS
from lakeindex.report.compared_runs import Compared, Comparison
from lakeindex.report.contents import CommitLine, RunReport, TableReport, title_of
from lakeindex.report.page import MOST_SHOWN, name_of
from lakeindex.showing.notebook import Screen
from lakeindex.showing.text import Column, Grid, escape, human_bytes, human_count, printable

_BAR = 40


def show_report(console: Screen, report: RunReport) -> None:
    """What stands out, the funnel, the stages, the files that took longest."""
    run = report.run
    console.print(f"[bold]{_text(title_of(report))}[/bold]: {run.outcome}, {run.seconds:.2f} s")
    console.print(f"{_text(report.table)}, {report.index_type}, {report.finished_at}")
    for sentence in report.advice:
        what, *more = _text(sentence).split("\n")
        console.print(f"[yellow]![/yellow] {what}")
        for line in more:
            console.print(f"  {line}")
    console.print(_funnel(report))
    console.print(_stages(report))
    if report.false_positives is not None:
        wrong = report.false_positives
        console.print(
            f"{human_count(wrong.probed)} pairs asked of filters: {wrong.expected:,.1f} false answers expected, "
            f"{human_count(wrong.observed)} found"
        )
    if report.ranges is not None:
        console.print(
            f"ranges left {report.ranges.files_per_key:.2f} of {human_count(report.ranges.files)} files for a key"
        )
    if report.metadata is not None:
        console.print(f"metadata table: {report.metadata.in_words}")
    if report.slowest:
        console.print(_slowest(report))
    if report.past:
        seconds = [one.seconds for one in report.past]
        console.print(
            f"the last {len(seconds)} runs took {min(seconds):.2f} to {max(seconds):.2f} s, "
            f"median {median(seconds):.2f} s"
            if len(seconds) > 1
            else f"the run before took {seconds[0]:.2f} s"
        )


def _text(text: str) -> str:
    return escape(printable(text))


def _funnel(report: RunReport) -> Grid:
    grid = Grid([Column(), Column(align="right"), Column(spare=1)], headed=False)
    top = {unit: max((s.count for s in report.funnel if s.unit == unit), default=0) for unit in ("rows", "pairs")}
    for step in report.funnel:
        bar = "\N{BOX DRAWINGS HEAVY HORIZONTAL}" * round(_BAR * step.count / max(top[step.unit], 1))
        grid.add_row(step.name, f"{human_count(step.count)} {step.unit}", bar)
    return grid


def _stages(report: RunReport) -> Grid:
    names = ("stage", "seconds", "read", "written", "requests", "tasks", "slowest", "median", "peak memory")
    grid = Grid.of(*names, spare=("median", "tasks", "requests", "slowest", "written"), folded=("stage",))
    for stage in report.run.stages:
        grid.add_row(
            stage.name + (" (taken over)" if stage.reused else ""),
            f"{stage.seconds:.2f}",
            human_bytes(stage.bytes_read),
            human_bytes(stage.bytes_written),
            human_count(stage.requests),
            human_count(stage.tasks),
            f"{stage.slowest_task_seconds:.2f} s",
            f"{stage.median_task_seconds:.2f} s",
            human_bytes(stage.peak_bytes) if stage.peak_bytes else "unknown",
        )
    for name, seconds in report.run.beside_stages.items():
        grid.add_row(name, f"{seconds:.2f}")
    return grid


def _slowest(report: RunReport) -> Grid:
    numbers = [Column(name, "right") for name in ("seconds", "size", "rows", "changed")]
    grid = Grid([*numbers, Column("file", least=20), Column("why", least=12)])
    for one in report.slowest:
        counts = (human_count(one.rows), human_count(one.changed))
        grid.add_row(f"{one.seconds:.2f}", human_bytes(one.bytes), *counts, _text(one.path), _text(one.reason))
    return grid


def show_comparison(console: Screen, found: Comparison) -> None:
    """Both runs' figures; those that are nothing in both are left out."""
    grid = Grid.of("", _text(found.first), _text(found.second), "ratio")
    for one in found.figures:
        if one.first or one.second:
            ratio = "" if one.ratio is None else f"{one.ratio:.2f} x"
            grid.add_row(one.name, _figure(one, one.first), _figure(one, one.second), ratio)
    console.print(grid)


def _figure(one: Compared, value: float | None) -> str:
    if value is None:
        return ""
    if one.unit == "bytes":
        return human_bytes(int(value))
    if one.unit == "seconds":
        return f"{value:.2f} s"
    return f"{value:.4g}" if one.unit == "share" else human_count(int(value))


def show_table_report(console: Screen, found: TableReport) -> None:
    """The newest commits of a table, the size after each, what its run took, and what cannot be shown."""
    shown = found.commits[:MOST_SHOWN]
    console.print(f"[bold]{_text(found.table)}[/bold] over {len(found.commits):,} commits, {_text(found.uri)}")
    names = (
        "commit",
        "size",
        "files",
        "small",
        "changed",
        "written",
        "seconds",
        "start-up",
        "waiting",
        "false positives",
    )
    spare = ("waiting", "false positives", "start-up", "written", "small")
    grid = Grid.of(*names, spare=spare, folded=("commit",), fold=TIME_DIGITS)
    for one in shown:
        grid.add_row(*_commit_cells(one))
    console.print(grid)
    if len(shown) < len(found.commits):
        console.print(f"and {len(found.commits) - len(shown):,} older commits: --json lists them")
    for note in found.notes:
        console.print(f"[dim]{_text(note)}[/dim]")


def _commit_cells(one: CommitLine) -> tuple[str, ...]:
    wrong = one.false_positives
    return (
        _text(name_of(one)),
        "?" if one.bytes is None else human_bytes(one.bytes),
        human_count(one.files),
        "?" if one.small_files is None else human_count(one.small_files),
        human_count(one.inserts + one.updates + one.deletes),
        human_bytes(one.bytes_written),
        "?" if one.seconds is None else f"{one.seconds:.2f}",
        "?" if one.startup_seconds is None else f"{one.startup_seconds:.2f}",
        "?" if one.waiting_seconds is None else f"{one.waiting_seconds:.2f}",
        "" if wrong is None else f"{human_count(wrong.observed)} of {human_count(wrong.probed)}",
    )
