"""A run's report, and the history of a table, each as one HTML page: no network, no scripts, light and dark."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

import jinja2
from markupsafe import Markup

from lakeindex.model import VERSION
from lakeindex.report import charts
from lakeindex.report.charts import Bar, Chart, Part, colours_of, percent
from lakeindex.report.contents import CommitLine, RunReport, TableReport, title_of
from lakeindex.run.summary import STARTUP, WAITING, RunSummary
from lakeindex.showing.text import human_bytes, human_count, printable


def render_page(report: RunReport) -> str:
    """The page. Everything that comes from a table or a batch is escaped; the page forbids scripts and the network."""
    return template("page.html.jinja").render(
        report=report,
        run=report.run,
        title=title_of(report),
        numbers=_numbers(report.run),
        charts=charts,
        version=VERSION,
    )


def _numbers(run: RunSummary) -> list[tuple[str, str]]:
    shown = [("rows in", human_count(run.rows_in))]
    shown += [(name, human_count(count)) for name, count in run.fates.items()]
    shown += [
        ("seconds", f"{run.seconds:.2f}"),
        ("files written", human_count(run.files_created + run.files_rewritten)),
    ]
    return [*shown, ("written", human_bytes(run.bytes_written))]


@functools.cache
def template(name: str) -> jinja2.Template:
    """A template of this package. Every text is escaped, and shown as far as it can be."""
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda one: files("lakeindex.report").joinpath(one).read_text("utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    environment.filters |= {"count": human_count, "bytes": human_bytes}
    return environment.get_template(name)


def _shown(value: Any) -> Any:
    """Foreign texts without what could change how they are shown; markup as it is."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


MOST_SHOWN: Final = 30
"""Commits that the page and the terminal show, the newest; the JSON has all."""
_UNKNOWN: Final = "not known"


def render_history(report: TableReport) -> str:
    """The page. Everything that comes from a table or a batch is escaped; the page forbids scripts and the network."""
    shown = report.commits[:MOST_SHOWN]
    return template("history.html.jinja").render(
        report=report,
        shown=shown,
        numbers=_history_numbers(report),
        charts=history_charts(shown),
        version=VERSION,
    )


def history_charts(commits: Sequence[CommitLine]) -> list[tuple[str, str, Chart]]:
    """Title, explanation and bars of each chart; a bar is a commit, the oldest first."""
    oldest_first = commits[::-1]
    names = [*dict.fromkeys(name for one in oldest_first for name in one.stage_seconds), STARTUP, WAITING]
    return [
        (
            "Size of the table",
            "Live base files after each commit, in bytes.",
            _bars(oldest_first, lambda one: {"bytes": one.bytes or 0}, lambda one: _bytes(one.bytes)),
        ),
        (
            "Files",
            "Live base files after each commit; those below 8 MiB are small.",
            _bars(
                oldest_first,
                _files,
                lambda one: (
                    human_count(one.files)
                    + ("" if one.small_files is None else f", {human_count(one.small_files)} small")
                ),
            ),
        ),
        (
            "Rows that changed",
            "As the commits count them.",
            _bars(
                oldest_first,
                lambda one: {"inserts": one.inserts, "updates": one.updates, "deletes": one.deletes},
                lambda one: human_count(one.inserts + one.updates + one.deletes),
            ),
        ),
        (
            "Seconds by stage",
            "Of the runs whose figures are known; start-up and waiting are no stage's.",
            _bars(
                [one for one in oldest_first if one.seconds is not None],
                lambda one: {name: _seconds(one).get(name, 0.0) for name in names},
                lambda one: f"{one.seconds:.2f} s",
                digits=2,
            ),
        ),
    ]


def _seconds(one: CommitLine) -> dict[str, float]:
    return {**one.stage_seconds, STARTUP: one.startup_seconds or 0.0, WAITING: one.waiting_seconds or 0.0}


def _files(one: CommitLine) -> dict[str, float]:
    small = one.small_files
    return {"files of unknown size": one.files} if small is None else {"others": one.files - small, "small": small}


def _bars(
    commits: Iterable[CommitLine],
    values: Callable[[CommitLine], Mapping[str, float]],
    text: Callable[[CommitLine], str],
    digits: int = 0,
) -> Chart:
    told = [(one, values(one)) for one in commits]
    names = list(dict.fromkeys(name for _, found in told for name in found))
    colour = colours_of(names)
    top = max((sum(found.values()) for _, found in told), default=0.0)
    bars = tuple(
        Bar(
            name_of(one),
            tuple(
                Part(percent(value, top), colour[name], f"{name} {value:,.{digits}f}")
                for name, value in found.items()
                if value
            ),
            text(one),
        )
        for one, found in told
    )
    return Chart(bars, tuple(Part(0, colour[name], name) for name in names) if len(names) > 1 else ())


def name_of(one: CommitLine) -> str:
    """When a commit was made, and what it did, if that is no upsert."""
    when = one.instant if one.time is None else one.time.partition(".")[0].removesuffix("Z").replace("T", " ")
    operation = (one.operation or "write").lower().replace("_", " ")
    return when if operation == "upsert" else f"{when} {operation}"


def _bytes(size: int | None) -> str:
    return _UNKNOWN if size is None else human_bytes(size)


def _history_numbers(report: TableReport) -> list[tuple[str, str]]:
    if not report.commits:
        return [("commits", "0")]
    newest = report.commits[0]
    changed = sum(one.inserts + one.updates + one.deletes for one in report.commits)
    numbers = [
        ("commits", human_count(len(report.commits))),
        ("size", _bytes(newest.bytes)),
        ("files", human_count(newest.files)),
        ("small files", _UNKNOWN if newest.small_files is None else human_count(newest.small_files)),
        ("rows changed", human_count(changed)),
        ("bytes written", human_bytes(sum(one.bytes_written for one in report.commits))),
    ]
    seconds = [one.seconds for one in report.commits if one.seconds is not None]
    return [*numbers, (f"seconds of {len(seconds)} runs", f"{sum(seconds):.2f}")] if seconds else numbers
