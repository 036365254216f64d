"""A table over its runs: sizes as they were after each commit, figures of the runs, and what cannot be shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

import lakeindex
from lakeindex.operations.look.report_history import table_report
from lakeindex.pipeline import default_checkpoints
from lakeindex.report.contents import TableReport
from lakeindex.report.page import _history_numbers, history_charts, render_history
from tests.cli_support import lakeindex as command
from tests.cli_support import validate
from tests.unit.cli.tables import new_table
from tests.unit.report.test_report import HOSTILE, rows

Size = tuple[int, int]


class Watched:
    """A table whose files are counted after every commit."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.path = new_table(folder, *options)
        self.handle = lakeindex.open_table(str(self.path))
        self.seen: dict[str, Size] = {}

    def look(self) -> None:
        files = self.handle.files()
        newest = self.handle.history()[0]
        self.seen[newest.instant] = (len(files), sum(one.bytes for one in files))

    def upsert(self, batch: pa.Table, **arguments: object) -> None:
        self.handle.upsert(batch, **arguments)
        self.look()


def sizes(found: TableReport) -> dict[str, tuple[int, int | None]]:
    return {one.instant: (one.files, one.bytes) for one in found.commits}


@pytest.mark.parametrize("version", ["6", "9"])
def test_sizes_are_those_that_there_were(tmp_path: Path, version: str):
    table = Watched(tmp_path, "--table-version", version)
    table.upsert(rows(0, 300, 1))
    table.upsert(rows(200, 300, 2, "us"))
    table.upsert(rows(0, 50, 3))
    table.handle.insert_overwrite(rows(0, 20, 4))
    table.look()
    table.handle.delete(pa.table({"id": ["k00001"], "region": ["eu"]}))
    table.look()
    table.handle.delete_partitions(["us"])
    table.look()
    table.upsert(rows(900, 10, 5, "us"))
    found = table.handle.report_history()
    assert sizes(found) == table.seen
    assert [one.instant for one in found.commits] == sorted(table.seen, reverse=True)
    assert [(one.inserts, one.updates) for one in found.commits][-3:] == [(0, 50), (300, 0), (300, 0)]
    assert all(one.small_files == one.files for one in found.commits)
    assert {one.source for one in found.commits} == {"run folder"}


def test_what_an_overwrite_replaced_was_of_the_last_commit_of_14_digits_in_its_second(tmp_path: Path):
    table = Watched(tmp_path)
    table.upsert(rows(0, 300, 1))
    table.upsert(rows(0, 900, 2))
    table.handle.insert_overwrite(rows(0, 20, 3))
    table.look()
    renamed = dict(zip(table.seen, ("20200101000000500", "20200101000000"), strict=False))
    for path in [one for one in table.path.rglob("*") if one.is_file()]:
        name = path.name
        for old, new in renamed.items():
            name = name.replace(old, new)
            if path.suffix != ".parquet":
                path.write_bytes(path.read_bytes().replace(old.encode(), new.encode()))
        path.rename(path.with_name(name))
    assert sizes(table.handle.report_history()) == {renamed.get(one, one): size for one, size in table.seen.items()}


def test_every_bar_of_the_files_is_as_long_as_there_are_files(tmp_path: Path):
    """Small files are some of the files: the parts of a bar add up to them."""
    table = Watched(tmp_path)
    for number in range(3):
        table.upsert(rows(0, 10, number + 1, f"r{number}"))
    commits = table.handle.report_history().commits
    made = [replace(one, small_files=small) for one, small in zip(commits, (1, 0, None), strict=True)]
    charts = {title: chart for title, _, chart in history_charts(made)}
    said = [[part.text for part in bar.parts] for bar in charts["Files"].bars]
    assert said == [["files of unknown size 1"], ["others 2"], ["others 2", "small 1"]]
    lengths = [round(sum(part.width for part in bar.parts)) for bar in charts["Files"].bars]
    assert lengths == [33, 67, 100]


def test_a_rolled_back_commit_has_no_line(tmp_path: Path):
    table = Watched(tmp_path)
    table.upsert(rows(0, 30, 1))
    newest = table.handle.upsert(rows(0, 30, 2))
    assert newest.instant is not None
    table.handle.rollback(newest.instant)
    assert sizes(table.handle.report_history()) == table.seen


def test_sizes_outlive_a_clean_as_far_as_somebody_knows_them(tmp_path: Path):
    """Files whose commit was archived, and that were cleaned, had a size that nobody knows: their number is known."""
    table = Watched(tmp_path)
    for number in range(12):
        table.upsert(rows(0, 30, number + 1, "eu" if number % 2 else "us"))
    keep = {"hoodie.cleaner.commits.retained": "1", "hoodie.keep.min.commits": "4"}
    table.handle.clean(options=keep)
    assert sizes(table.handle.report_history()) == table.seen
    table.handle.archive(options=keep)
    found = table.handle.report_history()
    left = sizes(found)
    assert len(left) == 4
    assert {instant: files for instant, (files, _) in left.items()} == {
        instant: files for instant, (files, _) in table.seen.items() if instant in left
    }
    (unknown,) = [one for one in found.commits if one.bytes is None]
    assert unknown.instant == min(left)
    assert any("The size after the oldest 1 commits is not known" in note for note in found.notes)
    assert "not known" in render_history(found)


@pytest.mark.parametrize("version", ["6", "9"])
def test_sizes_of_files_whose_commit_was_archived_are_known_while_they_are_there(tmp_path: Path, version: str):
    table = Watched(tmp_path, "--table-version", version)
    for number in range(6):
        table.upsert(rows(0, 30, number + 1, "eu" if number % 2 else "us"))
    table.handle.maintain(["metadata"])
    assert table.handle.archive(
        options={"hoodie.cleaner.commits.retained": "1", "hoodie.keep.min.commits": "3"}
    ).instants
    left = sizes(table.handle.report_history())
    assert len(left) == 3
    assert left == {instant: size for instant, size in table.seen.items() if instant in left}


def test_figures_of_a_run_come_from_its_folder_and_else_from_the_ledger(tmp_path: Path):
    table = Watched(tmp_path)
    options = {"lakeindex.checkpoint.keep.runs": 2}
    for number in range(4):
        table.upsert(rows(0, 40, number + 1), options=options)
    found = table.handle.report_history()
    assert [one.source for one in found.commits] == ["run folder"] * 2 + ["ledger"] * 2
    assert all(one.seconds and one.rows_in == 40 and "merge_write" in one.stage_seconds for one in found.commits)
    assert [one.false_positives is not None for one in found.commits] == [True] * 4
    assert any(note.startswith("2 of 4 commits have no run folder") for note in found.notes)


def test_a_batch_that_was_committed_once_more_has_the_figures_of_each_commit(tmp_path: Path):
    """Its folder has those of the second alone."""
    table = Watched(tmp_path)
    for force in (False, True):
        table.upsert(rows(0, 40, 1), batch_id="b", run_id="r", force=force)
    second, first = table.handle.report_history().commits
    assert (second.run_id, first.run_id) == ("r", "r")
    assert (second.source, first.source) == ("run folder", "ledger")
    assert (second.inserts, first.inserts) == (0, 40)


def test_what_nobody_wrote_down_is_said(tmp_path: Path):
    table = Watched(tmp_path)
    table.upsert(rows(0, 10, 1))
    table.upsert(rows(0, 10, 2))
    shutil.rmtree(default_checkpoints(str(table.path)))
    first, second = sorted((table.path / ".hoodie/.lakeindex/ledger").rglob("*.json"), key=lambda path: path.name)
    first.write_bytes(b"")  # torn
    second.unlink()
    found = table.handle.report_history()
    assert [one.source for one in found.commits] == [None, None]
    assert any("2 commits are lakeindex's, but neither" in note for note in found.notes)
    assert sizes(found) == table.seen


def test_another_writer_s_commits_have_sizes_and_no_seconds(tmp_path: Path):
    table = Watched(tmp_path)
    table.upsert(rows(0, 10, 1))
    (commit,) = (table.path / ".hoodie").glob("*.commit")
    said = json.loads(commit.read_text())
    said["extraMetadata"] = {"schema": said["extraMetadata"]["schema"]}
    commit.write_text(json.dumps(said))
    found = table.handle.report_history()
    assert [(one.batch_id, one.source, one.seconds) for one in found.commits] == [(None, None, None)]
    assert sizes(found) == table.seen
    assert any("1 commits are other writers'" in note for note in found.notes)
    assert "another writer&#39;s" in render_history(found)


def test_an_empty_table(tmp_path: Path):
    found = lakeindex.open_table(str(new_table(tmp_path))).report_history()
    assert found.commits == ()
    assert "<h2>Commits</h2>" not in render_history(found)


def test_the_command(tmp_path: Path):
    table = Watched(tmp_path)
    table.upsert(rows(0, 50, 1), batch_id=HOSTILE)
    table.upsert(rows(0, 10, 2))
    page = tmp_path / "history.html"
    answer = command("report", table.path, "--history", "--json", "--html", page)
    validate("report-history", answer.json)
    assert [one["updates"] for one in answer.json["commits"]] == [10, 0]
    text = page.read_text(encoding="utf-8")
    assert "<script" not in text
    assert "What this page can show" in text
    shown = command("report", table.path, "--history")
    assert "over 2 commits" in shown.stdout
    other = command("report", table.path, "--history", "--json", "--checkpoints", tmp_path / "elsewhere")
    assert [one["source"] for one in other.json["commits"]] == ["ledger", "ledger"]
    assert command("report", "x", "--checkpoints", "y").exit_code == 2
    assert command("report", tmp_path / "nothing", "--history").exit_code == 4


def test_only_the_newest_commits_are_drawn(tmp_path: Path):
    table = Watched(tmp_path)
    table.upsert(rows(0, 5, 1))
    line = table.handle.report_history().commits[0]
    many = TableReport("t", "u", "c", (line,) * 50, ())
    page = render_history(many)
    assert "The newest 30 of 50 commits" in page
    assert page.count('class="line"') == 4 * 30


def test_it_reads_again_if_the_table_is_gone(tmp_path: Path):
    with pytest.raises(lakeindex.errors.TableNotFoundError):
        table_report(str(tmp_path / "none"))


def test_the_figures_above_the_charts(tmp_path: Path):
    """Sums over all commits, whatever they did; sizes of the newest."""
    table = Watched(tmp_path)
    table.upsert(rows(0, 5, 1))
    line = table.handle.report_history().commits[0]
    figures = {"inserts": 1, "updates": 20, "deletes": 300, "bytes_written": 7, "seconds": 1.5}
    newest = replace(line, **figures, files=9, small_files=4, bytes=11)
    older = replace(line, **{**figures, "seconds": None}, files=8, small_files=8, bytes=10)
    report = TableReport("t", "u", "c", (newest, older), ())
    assert dict(_history_numbers(report)) == {
        "commits": "2",
        "size": "11 B",
        "files": "9",
        "small files": "4",
        "rows changed": "642",
        "bytes written": "14 B",
        "seconds of 1 runs": "1.50",
    }
