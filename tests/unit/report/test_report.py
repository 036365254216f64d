"""The report of runs: built from what stages leave, read back, shown as a page and in a terminal, compared."""

from __future__ import annotations

import html.parser
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace
from rich.console import Console

import lakeindex
from lakeindex.errors import UsageError
from lakeindex.pipeline import default_checkpoints
from lakeindex.report.compared_runs import compare
from lakeindex.report.contents import FalsePositives, PastRun, RangeMap, RunReport, SizeBin
from lakeindex.report.make_report import Finding, advise, find_report
from lakeindex.report.page import render_page
from lakeindex.report.terminal import show_report
from lakeindex.run.summary import RunSummary, StageSummary
from tests.cli_support import lakeindex as command
from tests.cli_support import validate
from tests.unit.cli.tables import new_table

HOSTILE = "<script>alert(1)</script>\x07'\"&:b:"


def rows(first: int, count: int, ts: int, region: str = "eu") -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number:05d}" for number in range(first, first + count)],
            "region": [region] * count,
            "ts": pa.array([ts] * count, pa.int64()),
            "val": [f"v{ts}"] * count,
        }
    )


def run_folder(table: Path, run: RunSummary) -> Path:
    return Path(default_checkpoints(str(table))) / run.run_id


def upserted(table: Path, batch: pa.Table, **arguments: object) -> tuple[RunSummary, RunReport]:
    run = lakeindex.open_table(str(table)).upsert(batch, **arguments)
    return run, find_report(str(run_folder(table, run)))


def test_a_run_s_numbers(tmp_path: Path):
    table = new_table(tmp_path)
    _, first = upserted(table, rows(0, 500, 1))
    run, report = upserted(table, pa.concat_tables([rows(400, 200, 2), rows(400, 10, 1)]))
    assert report.run == replace(run, stages=report.run.stages)
    assert [(step.name, step.count) for step in report.funnel] == [
        ("rows in", 210),
        ("after quarantine and combining", 200),
        ("pairs possible", 200),
        ("left by ranges", 100),
        ("left by filters", 100),
        ("found in their file", 100),
        ("updates", 100),
        ("inserts", 100),
    ]
    assert report.false_positives is not None
    assert (report.false_positives.probed, report.false_positives.observed) == (100, 0)
    assert report.ranges is not None
    assert (report.ranges.files, report.ranges.files_per_key) == (1, 0.5)
    assert [(line.low, line.high) for line in report.ranges.lines] == [(0.0, 1.0)]
    assert [(one.in_scope, one.written) for one in report.sizes if one.in_scope or one.written] == [(1, 1)]
    (file,) = report.slowest
    assert (file.rows, file.changed) == (600, 200)
    assert file.seconds > 0
    assert [one.run_id for one in report.past] == [first.run.run_id]
    assert all(stage.tasks and stage.bytes_written and stage.peak_bytes for stage in report.run.stages)
    assert all(stage.median_task_seconds <= stage.slowest_task_seconds for stage in report.run.stages)


def test_it_is_json_and_comes_back_equal(tmp_path: Path):
    table = new_table(tmp_path)
    upserted(table, rows(0, 20, 1))
    _, report = upserted(table, rows(10, 20, 2))
    raw = json.loads(report.to_json())
    validate("report", raw)
    assert RunReport.from_json(report.to_json()) == report


def of_a_later_version(value: Any) -> Any:
    """The same JSON, each object of it with a field more; ``counters`` and the like have names of any kind."""
    if isinstance(value, list):
        return [of_a_later_version(one) for one in value]
    if not isinstance(value, dict):
        return value
    named = {
        name: one if name in {"counters", "stage_seconds"} else of_a_later_version(one) for name, one in value.items()
    }
    return {**named, "of_a_later_version": 1}


def test_what_a_later_version_says_more_is_left_out(tmp_path: Path):
    table = lakeindex.open_table(str(new_table(tmp_path)))
    table.upsert(rows(0, 20, 1))
    table.metadata_build(["column_stats", "bloom_filters"])
    shutil.rmtree(tmp_path / "t" / ".hoodie" / ".lakeindex" / "cache")
    run = table.upsert(rows(10, 20, 2), options={"hoodie.bloom.index.use.metadata": "true"})
    report, planned = table.report(run), table.upsert(rows(20, 20, 3), dry_run=True)
    parts = (report.ranges, report.false_positives, report.metadata, report.past, report.run.estimate, planned.changes)
    assert all(parts)
    assert RunReport.from_json(json.dumps(of_a_later_version(json.loads(report.to_json())))) == report
    assert RunSummary.from_json(json.dumps(of_a_later_version(json.loads(planned.to_json())))) == planned


def test_a_run_is_named_by_its_id_or_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A path of one part is a folder below the one that the caller is in."""
    table = lakeindex.open_table(new_table(tmp_path))
    run = table.upsert(rows(0, 5, 1))
    table.upsert(rows(5, 5, 1))
    folder = run_folder(tmp_path / "t", run)
    named = [run, run.run_id, str(folder), folder]
    assert {table.report(one).run.run_id for one in named} == {run.run_id}
    elsewhere = folder.rename(tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    assert table.report(Path("kept")).run.run_id == table.report(elsewhere).run.run_id == run.run_id
    with pytest.raises(UsageError):
        table.report("kept")


def test_an_empty_batch_and_one_done_before(tmp_path: Path):
    table = new_table(tmp_path)
    _, empty = upserted(table, rows(0, 0, 1))
    assert [step.count for step in empty.funnel] == [0, 0]
    run, _ = upserted(table, rows(0, 5, 1), batch_id="b")
    again, report = upserted(table, rows(0, 5, 1), batch_id="b")
    assert (again.noop, report.run.instant) == (True, run.instant)
    for one in (empty, report):
        assert 'class="chart funnel"' in render_page(one)


@pytest.mark.parametrize(("given", "left"), [("html", {"json", "html"}), ("json", {"json"}), ("none", set())])
def test_what_is_left_of_a_report(tmp_path: Path, given: str, left: set[str]):
    table = new_table(tmp_path)
    run = lakeindex.open_table(str(table)).upsert(rows(0, 5, 1), options={"lakeindex.report": given})
    assert {path.suffix[1:] for path in run_folder(table, run).glob("report.*")} == left
    assert find_report(str(run_folder(table, run))).run.inserts == 5  # made anew if it was not left


def test_the_newest_run_of_a_root_and_no_run(tmp_path: Path):
    table = new_table(tmp_path)
    run, _ = upserted(table, rows(0, 5, 1))
    assert find_report(default_checkpoints(str(table)) + "/").run.run_id == run.run_id
    assert find_report(str(table)).run.run_id == run.run_id
    with pytest.raises(UsageError, match="neither a table nor the folder of a finished run"):
        find_report(str(tmp_path / "nothing"))
    (Path(default_checkpoints(str(table))) / "begun" / "stage_input").mkdir(parents=True)
    (Path(default_checkpoints(str(table))) / "begun" / "stage_input" / "rows.parquet").write_bytes(b"")
    with pytest.raises(UsageError, match="neither a table nor the folder of a finished run"):
        find_report(default_checkpoints(str(table)) + "/begun")


def test_figures_that_one_run_has_not_are_compared_with_nothing():
    shared = made(stages=(stage("index_lookup", pairs_in=10, pairs_out=5),), amplification=2.0)
    found = {figure.name: (figure.first, figure.second) for figure in compare(made(), shared).figures}
    assert found["pairs kept"] == (None, 0.5)
    assert found["bytes written for a byte of the batch"] == (None, 2.0)


def test_a_run_that_staged_nothing_has_no_amplification(tmp_path: Path):
    """A change of partitions has no batch, and its rewrites are of nothing that was handed in."""
    table = new_table(tmp_path)
    upserted(table, rows(0, 5, 1))
    done = lakeindex.open_table(str(table)).delete_partitions(["eu"])
    report = find_report(str(run_folder(table, done)))
    assert (report.bytes_staged, report.amplification) == (0, None)


def test_the_newest_run_of_a_table_among_those_of_others(tmp_path: Path):
    """A root of run folders may be that of many tables."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one, other = new_table(tmp_path / "a"), new_table(tmp_path / "b")
    root = str(tmp_path / "runs")
    ours = lakeindex.open_table(str(one)).upsert(rows(0, 5, 1), checkpoints=root)
    theirs = lakeindex.open_table(str(other)).upsert(rows(0, 5, 1), checkpoints=root)
    assert find_report(root).run.run_id == theirs.run_id
    assert find_report(str(one), root).run.run_id == ours.run_id
    assert lakeindex.open_table(str(one)).report(checkpoints=root).run.run_id == ours.run_id
    with pytest.raises(UsageError, match=r"no finished run of table .*a/.* in .*\.lakeindex"):
        find_report(str(one))


def test_past_runs_are_chained_and_bounded(tmp_path: Path):
    table = new_table(tmp_path)
    reports = [upserted(table, rows(n, 1, n + 1))[1] for n in range(13)]
    assert [len(report.past) for report in reports] == [*range(11), 10, 10]
    ids = [report.run.run_id for report in reports]
    assert [one.run_id for one in reports[-1].past] == ids[-2:1:-1]
    newest = Path(default_checkpoints(str(table))) / ids[-1] / "report.json"
    newest.write_text("{")
    assert [one.run_id for one in upserted(table, rows(0, 1, 99))[1].past] == ids[-2:1:-1]


def test_a_report_that_cannot_be_written_is_no_failure(tmp_path: Path):
    table = new_table(tmp_path)
    (Path(default_checkpoints(str(table))) / "r" / "report.json" / "in the way").mkdir(parents=True)
    run = lakeindex.open_table(str(table)).upsert(rows(0, 5, 1), run_id="r")
    assert (run.inserts, run.noop) == (5, False)
    (note,) = run.notes
    assert note.startswith("the run's report could not be written: StorageError")


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_keys_and_names_are_data_in_the_page(tmp_path: Path):
    table = new_table(tmp_path)
    region = HOSTILE.replace("/", "|").replace("\x07", "")
    upserted(table, rows(0, 50, 1, region))
    run, _ = upserted(table, rows(0, 50, 2, region), batch_id=HOSTILE)
    report = find_report(str(run_folder(table, run)))
    page = render_page(replace(report, advice=(HOSTILE,)))
    found = _Tags()
    found.feed(page)
    assert not found.tags & {"script", "iframe", "object", "img", "link", "a", "image", "use"}
    assert not {name for name in found.attributes if name.startswith("on")} | found.attributes & {
        "src",
        "href",
        "xlink:href",
    }
    assert "default-src 'none'; style-src 'unsafe-inline'" in page
    assert "alert(1)" in found.text
    assert "\x07" not in page


def test_the_command_line(tmp_path: Path):
    table = new_table(tmp_path)
    one, _ = upserted(table, rows(0, 30, 1))
    other, _ = upserted(table, rows(20, 30, 2), batch_id=HOSTILE)
    folders = [run_folder(table, run) for run in (one, other)]
    shown = command("report", folders[1])
    assert shown.exit_code == 0
    assert "left by filters" in shown.stdout
    assert HOSTILE.replace("\x07", "\N{REPLACEMENT CHARACTER}") in shown.stdout
    answer = command("report", folders[1], "--html", tmp_path / "page.html", "--json")
    validate("report", answer.json)
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
    compared = command("compare", *folders, "--json")
    validate("compare", compared.json)
    figures = {figure["name"]: figure for figure in compared.json["figures"]}
    assert (figures["inserts"]["first"], figures["inserts"]["second"], figures["inserts"]["ratio"]) == (30, 20, 0.667)
    assert "verify_keys seconds" in command("compare", *folders).stdout
    missing = command("report", tmp_path / "gone", "--json")
    assert (missing.exit_code, missing.error["class"]) == (2, "UsageError")


def test_comparing_with_itself_is_all_ones(tmp_path: Path):
    _, report = upserted(new_table(tmp_path), rows(0, 30, 1))
    assert {figure.ratio for figure in compare(report, report).figures} <= {1.0, None}


def test_a_figure_that_became_nothing_has_a_ratio_and_one_that_was_nothing_has_none(tmp_path: Path):
    table = new_table(tmp_path)
    (_, first), (_, second) = upserted(table, rows(0, 30, 1)), upserted(table, rows(0, 30, 2))
    ratios = {figure.name: figure.ratio for figure in compare(first, second).figures}
    assert (ratios["inserts"], ratios["updates"]) == (0.0, None)


def stage(name: str, **more: object) -> StageSummary:
    counts = {
        "seconds": 1.0,
        "rows_in": 100,
        "rows_out": 100,
        "pairs_in": 0,
        "pairs_out": 0,
        "bytes_read": 0,
        "requests": 0,
    }
    return StageSummary(name, **{**counts, **more})


def made(run: dict[str, object] | None = None, stages: tuple[StageSummary, ...] = (), **more: object) -> RunReport:
    counts: dict[str, object] = {"rows_in": 100, "inserts": 100, "seconds": 3.0}
    summary = RunSummary("1", "b", "r", "UPSERT", noop=False, stages=stages, **{**counts, **(run or {})})
    base = RunReport("t", "BLOOM", "", summary, (), None, None, (), 0, None, (), (), ())
    return advise(replace(base, **more))


PAST = tuple(PastRun(f"r{n}", "", 100, 1.0, 0, 1, None, {"merge_write": 0.5}) for n in range(3))
RANGES = RangeMap(10, 0, 9.0, ())
LOOKED_UP = stage("index_lookup", pairs_in=1000, pairs_out=970)


@pytest.mark.parametrize(
    ("report", "start"),
    [
        (made({"quarantined": 3}), "3 bad rows were quarantined"),
        (made({"combined": 20}), "20% of the rows were older duplicates"),
        (made({"ignored": 20}), "20% of the rows were ignored"),
        (made(stages=(LOOKED_UP,), ranges=RANGES), "Ranges kept 97% of the pairs: 9.0 files were candidates for a key.\nCause: Keys look random, as UUIDs"),
        (made(stages=(stage("index_lookup", pairs_in=10),), ranges=replace(RANGES, without_range=2)), "2 of 10 files have no key range"),
        (made(stages=(stage("bloom_check", counters={"filters_saturated": 4}),), false_positives=FalsePositives(9, 1.0, 0)), "4 filters are too full"),
        (made(stages=(stage("bloom_check", counters={"files_without_filter": 4}),), false_positives=FalsePositives(9, 1.0, 0)), "4 files have no filter"),
        (made(stages=(stage("bloom_check"),), false_positives=FalsePositives(9, 1.0, 21)), "21 false positives, 1.0 expected"),
        (made({"rows_copied": 20_000, "files_rewritten": 7}), "Each changed row rewrote 200 others.\nCause: The batch is spread over 7 files"),
        (made(sizes=(SizeBin(2**20, 9, 0), SizeBin(None, 5, 0))), "9 of 14 files are below 8 MiB"),
        (made(stages=(stage("merge_write", tasks=8, slowest_task_seconds=5.0, median_task_seconds=1.0),)), "merge_write: one of 8 tasks took 5.0 s, half of them less than 1.0 s.\nCause: One file has most of the changed rows"),
        (made(stages=(stage("merge_write", seconds=2.0),), past=PAST), "3.0 s, 3.0 times the median of the last 3 runs; merge_write grew most, by 1.5 s.\nCause: The batch is no larger than usual"),
        (made({"rows_in": 300, "inserts": 300, "startup_seconds": 1.4}, (stage("merge_write"),), past=PAST), "3.0 s, 3.0 times the median of the last 3 runs; start-up grew most, by 1.4 s.\nCause: The batch has 3.0 times the rows."),
        (made(stages=(stage("bloom_check"),), false_positives=FalsePositives(9000, 990.0, 1000)), "1,000 of 9,000 pairs were false positives"),
        (made({"retries": 2}), "2 attempts at the merge were lost to other writers."),
        (made({"waiting_seconds": 1.5}, (stage("merge_write", waiting_seconds=1.5),)), "1.5 of 3.0 s were waiting.\nCause: Other writers were at the table"),
        (made({"waiting_seconds": 1.5}, (stage("verify_keys", waiting_seconds=1.5), stage("merge_write"))), "1.5 of 3.0 s were waiting.\nCause: Most was in verify_keys"),
        (made({"startup_seconds": 2.5}, (stage("merge_write", startup_seconds=2.5),)), "2.5 of 3.0 s were start-up.\nCause: Before a process works it loads the library, and with the Spark runner Spark. For a small batch that is most of the time."),
        (made({"startup_seconds": 2.5}, (stage("stage_input", startup_seconds=1.2), stage("merge_write", startup_seconds=1.3))), "2.5 of 3.0 s were start-up.\nCause: Before a process works it loads the library, and a spark-submit Java and Spark; 2 stages of this run began so."),
    ],
)  # fmt: skip
def test_what_stands_out(report: RunReport, start: str):
    (text,) = report.advice
    assert text.startswith(start)
    what, cause, cure = text.split("\n")
    assert all(line.endswith(".") for line in (what, cause, cure))
    assert cause.startswith("Cause: ")
    assert cure.startswith("What to do: ")


def test_a_finding_is_three_lines_in_the_page_and_in_the_terminal():
    report = made({"retries": 1})
    (text,) = report.advice
    assert text == Finding(*(line.split(": ")[-1] for line in text.split("\n"))).text
    assert f"<li>{text.split(chr(10))[0]}\nCause: " in render_page(report)
    console = Console(file=io.StringIO(), width=60)
    show_report(console, report)
    lines = [line for line in console.file.getvalue().splitlines() if line.startswith(("!", "  "))]
    assert lines[0] == "! One attempt at the merge was lost to other writers."
    assert lines[1].startswith("  Cause: ")
    assert any(line.startswith("  What to do: ") for line in lines)
    assert all(line.startswith("  ") for line in lines[1:])


def test_nothing_stands_out_of_an_ordinary_run():
    quiet = stage("index_lookup", pairs_in=1000, pairs_out=100)
    assert made(stages=(quiet,), ranges=RANGES, past=PAST[:2]).advice == ()
    for some in (
        made(stages=(LOOKED_UP,), ranges=replace(RANGES, files=1)),
        made(stages=(LOOKED_UP,), ranges=replace(RANGES, files_per_key=1.0)),
        made(stages=(stage("index_lookup", pairs_in=1000, pairs_out=800),), ranges=RANGES),
        made(stages=(stage("merge_write", tasks=8, slowest_task_seconds=1.0, median_task_seconds=0.01),)),
        made(stages=(stage("merge_write", tasks=1, slowest_task_seconds=9.0, median_task_seconds=0.1),)),
        made(stages=(stage("merge_write", tasks=8, slowest_task_seconds=4.0, median_task_seconds=1.0),)),
        made({"waiting_seconds": 1.0}, (stage("merge_write", waiting_seconds=1.0),)),
        made({"seconds": 30.0, "waiting_seconds": 6.0}, (stage("merge_write", waiting_seconds=6.0),)),
        made({"combined": 10, "ignored": 10}),
    ):
        assert some.advice == (), some
    (waited,) = made(
        {"waiting_seconds": 1.5}, (stage("stage_input", waiting_seconds=0.1), stage("merge_write", waiting_seconds=1.4))
    ).advice
    assert "Other writers were at the table" in waited
