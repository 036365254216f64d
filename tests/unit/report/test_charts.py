"""What the charts of a report show: to scale, complete, and in words."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

import lakeindex
from lakeindex.model import Change, Operation
from lakeindex.pipeline import Stage, default_checkpoints
from lakeindex.report import charts
from lakeindex.report.contents import (
    _CHANGES,
    _OPERATIONS,
    FunnelStep,
    PastRun,
    RangeLine,
    RangeMap,
    RunReport,
    SizeBin,
    done_to,
    title_of,
)
from lakeindex.report.make_report import _SKEW, find_report
from lakeindex.report.page import render_page
from lakeindex.report.terminal import show_report
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


TIMED = {"seconds": 10.0, "startup_seconds": 2.0, "waiting_seconds": 1.0}
LOOKUP = stage("index_lookup", seconds=2.0, slowest_task_seconds=0.5, tasks=4, startup_seconds=1.5, waiting_seconds=1.0)
MERGE = stage("merge_write", seconds=4.0, startup_seconds=0.5)


def test_what_was_work_start_up_waiting_and_between_is_told_apart():
    (bar,) = charts.time_chart(made(TIMED, (LOOKUP, MERGE))).bars
    assert [(part.width, part.text) for part in bar.parts] == [
        (60.0, "6.00 s work of the stages"),
        (20.0, "2.00 s start-up"),
        (10.0, "1.00 s waiting"),
        (10.0, "1.00 s between the stages"),
    ]
    chart = charts.stages_chart(made(TIMED, (LOOKUP, MERGE)))
    assert [part.text for part in chart.legend] == [charts.WORK, charts.AROUND]
    assert [(bar.name, [part.width for part in bar.parts], bar.text) for bar in chart.bars] == [
        ("index_lookup", [12.5, 37.5], "2.00 s, 4 tasks"),
        ("merge_write", [0.0, 100.0], "4.00 s"),
        ("start-up", [37.5, 12.5], "2.00 s"),
        ("waiting", [25.0], "1.00 s"),
        ("between the stages", [25.0], "1.00 s"),
    ]
    assert [part.text for part in chart.bars[2].parts] == ["index_lookup 1.50 s", "merge_write 0.50 s"]


def test_start_up_and_waiting_stand_in_the_page_and_in_the_terminal():
    report = made(TIMED, (LOOKUP, MERGE))
    page = render_page(report)
    assert all(f'data-name="{name}">{value}<' in page for name, value in (("start-up", "1.50"), ("waiting", "1.00")))
    console = Console(file=io.StringIO(), width=120)
    show_report(console, report)
    shown = console.file.getvalue()
    assert [
        " ".join(line.split()) for line in shown.splitlines() if line.startswith(("start-up", "waiting", "between"))
    ] == [
        "start-up 2.00",
        "waiting 1.00",
        "between the stages 1.00",
    ]


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
    waited = charts.past_chart(made({"seconds": 4.0, "waiting_seconds": 3.0}, (stage("a"),)), past)
    assert [part.text for part in waited.legend] == ["a", "waiting"]
    assert waited.bars[-1].parts[-1].text == "waiting 3.00 s"


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
        ("upsert_tables/scheduled__2026/0", "upsert into flights: run scheduled__2026, part 0 of upsert_tables"),
        ("orders/2026-11-21", "upsert into flights: orders/2026-11-21"),
    ],
)
def test_the_title_says_table_and_run(batch: str, title: str):
    run = RunSummary("1", batch, "r", "UPSERT", noop=False)
    report: RunReport = replace(made(), run=run, table="s3://lake/flights")
    assert title_of(report) == title
    assert f"<h1>{title}</h1>" in render_page(report)
    assert f"batch {batch}" in render_page(report)


@pytest.mark.parametrize(
    ("operation", "change", "said"),
    [
        ("UPSERT", None, "upsert into"),
        ("INSERT", None, "insert into"),
        ("BULK_INSERT", None, "bulk insert into"),
        ("INSERT_OVERWRITE", None, "overwrite of partitions of"),
        ("INSERT_OVERWRITE_TABLE", None, "overwrite of"),
        ("DELETE", None, "delete from"),
        ("DELETE_PARTITION", None, "delete of partitions of"),
        ("DELETE", "delete", "delete from"),
        ("DELETE_PARTITION", "delete", "delete from"),
        ("UPSERT", "update", "update of"),
        ("UPSERT", "replace", "replacement of rows of"),
    ],
)
def test_a_title_reads_as_what_was_done(operation: str, change: str | None, said: str):
    assert done_to(RunSummary("1", "b", "r", operation, noop=False, change=change)) == said


def test_an_operation_of_a_later_release_has_words():
    assert done_to(RunSummary("1", "b", "r", "COMPACT_LATER", noop=False)) == "compact_later of"


def test_every_operation_has_its_words():
    assert _OPERATIONS.keys() == set(Operation)
    assert _CHANGES.keys() == set(Change)


@pytest.mark.parametrize(("runs", "said"), [(1, "Beside the last run<"), (2, "Beside the last 2 runs<")])
def test_one_run_is_no_runs(runs: int, said: str):
    past = tuple(PastRun(f"r{n}", "", 1, 1.0, 0, 0, None, {}) for n in range(runs))
    assert said in render_page(made(past=past))


def test_a_slow_task_has_a_cause_and_a_cure_in_every_stage():
    assert _SKEW.keys() == set(Stage)


def test_the_title_of_rows_that_a_condition_chose(tmp_path: Path):
    table = lakeindex.create_table(str(tmp_path / "t"), like=pa.table({"id": ["a"], "v": [1]}), key=["id"])
    table.upsert(pa.table({"id": ["a", "b", "c"], "v": [1, 2, 3]}))
    for run, said in (
        (table.update({"v": 9}, where="v = 2"), "update of t"),
        (table.delete(where="v = 9"), "delete from t"),
        (table.replace_where(pa.table({"id": ["d"], "v": [3]}), where="v = 3"), "replacement of rows of t"),
        (table.truncate(), "delete of partitions of t"),
    ):
        report = find_report(f"{default_checkpoints(str(tmp_path / 't'))}/{run.run_id}")
        assert title_of(report).startswith(f"{said}: ")
