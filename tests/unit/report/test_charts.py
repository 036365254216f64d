"""What the charts of a report show: to scale, complete, and in words."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.pipeline import Stage
from lakeindex.report import charts
from lakeindex.report.build import _SKEW
from lakeindex.report.page import render_page, title_of
from lakeindex.report.run_report import FunnelStep, PastRun, RangeLine, RangeMap, RunReport, SizeBin
from lakeindex.run.summary import FATES, RunSummary
from tests.unit.report.test_report import made, stage

FUNNEL = tuple(
    FunnelStep(name, count, unit)
    for name, count, unit in (
        ("rows in", 200, "rows"),
        ("after quarantine and combining", 100, "rows"),
        ("pairs possible", 1000, "pairs"),
        ("left by ranges", 10, "pairs"),
        ("updates", 60, "rows"),
    )
)


def test_a_funnel_is_to_scale_and_says_what_is_left():
    rows, pairs = charts.funnel_charts(made(funnel=FUNNEL))
    assert [title for title, _ in (rows, pairs)] == ["Rows", "Pairs of a key and a file that may hold it"]
    assert [(bar.parts[0].width, bar.text) for bar in rows[1].bars] == [(100.0, "200"), (50.0, "100 (50.0%)")]
    assert [(bar.parts[0].width, bar.text) for bar in pairs[1].bars] == [(100.0, "1,000"), (1.0, "10 (1.0%)")]


def test_every_row_is_in_the_bar_of_fates():
    chart = charts.fates_chart(made({"rows_in": 100, "inserts": 60, "updates": 30, "combined": 10}))
    (bar,) = chart.bars
    assert [(part.width, part.text) for part in bar.parts] == [
        (60, "60 inserts"),
        (30, "30 updates"),
        (10, "10 combined"),
    ]
    assert charts.fates_chart(made({"rows_in": 0, "inserts": 0})).bars == ()
    every = charts.fates_chart(made({"rows_in": 7, **dict.fromkeys(FATES, 1)}))
    assert len({part.colour for part in every.legend}) == len(FATES)


def test_work_waiting_and_what_is_around_are_told_apart():
    stages = (stage("index_lookup", seconds=2.0, slowest_task_seconds=0.5, tasks=4), stage("merge_write", seconds=4.0))
    chart = charts.stages_chart(made({"seconds": 7.0}, stages))
    assert [part.text for part in chart.legend] == [charts.WORK, charts.AROUND, charts.OUTSIDE]
    assert [[part.width for part in bar.parts] for bar in chart.bars] == [[12.5, 37.5], [0.0, 100.0], [25.0]]
    assert [bar.text for bar in chart.bars] == ["2.00 s, 4 tasks", "4.00 s", "1.00 s"]


seconds = st.floats(0, 1e6, allow_nan=False)


@given(st.lists(st.tuples(seconds, seconds), max_size=6), seconds)
def test_no_bar_leaves_its_chart(times: list[tuple[float, float]], total: float):
    stages = tuple(stage(f"s{n}", seconds=a, slowest_task_seconds=b) for n, (a, b) in enumerate(times))
    report = made({"seconds": total}, stages)
    past = (PastRun("r", "t", 1, total, 0, 0, None, {one.name: one.seconds for one in stages}),)
    for chart in (charts.stages_chart(report), charts.past_chart(report, past)):
        for bar in chart.bars:
            assert all(part.width >= 0 for part in bar.parts)
            assert sum(part.width for part in bar.parts) <= 100.1


def test_earlier_runs_come_first_and_colours_are_named_once():
    past = tuple(PastRun(f"r{n}", f"2026-11-2{n}T10:00:00+00:00", 1, 2.0, 0, 0, None, {"a": 2.0}) for n in (5, 4))
    chart = charts.past_chart(made({"seconds": 1.0}, (stage("a"), stage("b", seconds=0.0))), past)
    assert [bar.name for bar in chart.bars] == ["2026-11-24 10:00:00", "2026-11-25 10:00:00", "this run"]
    assert [part.text for part in chart.legend] == ["a", "b"]
    assert [bar.parts[0].width for bar in chart.bars] == [100.0, 100.0, 50.0]


def test_ranges_are_named_by_partition_and_file():
    lines = (RangeLine("p", "f1", 0.0, 0.5), RangeLine("p", "f2", 0.5, 1.0), RangeLine("q", "f3", 0.25, 0.25))
    groups = charts.range_groups(RangeMap(3, 0, 1.0, lines))
    assert [(group.partition, group.lines) for group in groups] == [
        ("p", ((0.0, 50.0, "f1"), (50.0, 50.0, "f2"))),
        ("q", ((25.0, 0.0, "f3"),)),
    ]
    page = render_page(made(ranges=RangeMap(3, 0, 1.0, lines)))
    assert all(text in page for text in ("least key", "greatest key", ">p ", "f3"))


def test_sizes_have_names_and_counts():
    chart = charts.sizes_chart((SizeBin(2**20, 4, 1), SizeBin(2**23, 0, 0), SizeBin(None, 0, 2)))
    assert [(bar.name, bar.text) for bar in chart.bars] == [
        ("below 1.0 MiB", "4 looked into"),
        ("", "1 written"),
        ("8.0 MiB or more", "2 written"),
    ]


@pytest.mark.parametrize(
    ("batch", "title"),
    [
        ("upsert_table/c_good/-1", "upsert into flights: run c_good of upsert_table"),
        ("upsert_tables/scheduled__2026/3", "upsert into flights: run scheduled__2026, part 3 of upsert_tables"),
        ("orders/2026-11-21", "upsert into flights: orders/2026-11-21"),
    ],
)
def test_the_title_says_table_and_run(batch: str, title: str):
    run = RunSummary("1", batch, "r", "UPSERT", noop=False)
    report: RunReport = dataclasses.replace(made(), run=run, table="s3://lake/flights")
    assert title_of(report) == title
    assert f"<h1>{title}</h1>" in render_page(report)
    assert f"batch {batch}" in render_page(report)


@pytest.mark.parametrize(("runs", "said"), [(1, "Beside the last run<"), (2, "Beside the last 2 runs<")])
def test_one_run_is_no_runs(runs: int, said: str):
    past = tuple(PastRun(f"r{n}", "", 1, 1.0, 0, 0, None, {}) for n in range(runs))
    assert said in render_page(made(past=past))


def test_a_slow_task_has_a_cause_and_a_cure_in_every_stage():
    assert _SKEW.keys() == set(Stage)
