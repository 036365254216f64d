"""What older lakeindex code wrote: read, upserted on, retried, checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.commit import session as commit
from lakeindex.commit.run_records import Attempt
from lakeindex.errors import BatchIdReusedError
from lakeindex.run.run_folders import run_id_for
from tests.older_support import DOORS, STATES, WHOLE, Older, stored, unpack_older


def upserted(table: LakeTable, story: list[dict[str, object]]) -> list[dict[str, object]]:
    """A batch of an update, a delete and an insert; the rows that must be there then."""
    batch = pa.table(
        {
            "id": ["k0000", "k0001", "new"],
            "day": ["d0", "d1", "d2"],
            "ts": [99, 99, 99],
            "v": ["now", "now", "now"],
            "_hoodie_is_deleted": [False, True, False],
        }
    )
    summary = table.upsert(batch, batch_id="now")
    assert (summary.updates, summary.deletes, summary.inserts) == (1, 1, 1)
    rows = {str(row["id"]): row for row in story}
    rows["k0000"] = {"id": "k0000", "day": "d0", "ts": 99, "v": "now"}
    rows["new"] = {"id": "new", "day": "d2", "ts": 99, "v": "now"}
    del rows["k0001"]
    return [rows[key] for key in sorted(rows)]


def is_right(table: LakeTable, rows: list[dict[str, object]]) -> None:
    assert stored(table) == rows
    report = table.check()
    assert report.ok, report.violations


@pytest.mark.parametrize("name", WHOLE)
def test_a_table_of_older_code_is_read_upserted_on_and_maintained(name: str, tmp_path: Path):
    older = unpack_older(name, tmp_path)
    is_right(older.table, older.story["rows"])
    rows = upserted(older.table, older.story["rows"])
    is_right(older.table, rows)
    steps = older.table.maintain(options={"hoodie.cleaner.commits.retained": "1", "hoodie.keep.min.commits": "2"}).steps
    assert {step.step for step in steps} >= {"settle", "clean", "archive"}
    is_right(older.table, rows)


@pytest.mark.parametrize("name", WHOLE)
def test_a_batch_that_older_code_committed_is_a_noop(name: str, tmp_path: Path):
    older = unpack_older(name, tmp_path)
    for batch in older.story["committed"]:  # archived ones and those whose run folder is there
        assert older.table.upsert(older.batch(batch), batch_id=batch).noop, batch
    is_right(older.table, older.story["rows"])


def test_a_batch_id_that_older_code_used_is_refused_for_other_input(tmp_path: Path):
    older = unpack_older("bloom", tmp_path)
    with pytest.raises(BatchIdReusedError):
        older.table.upsert(older.batch("b8"), batch_id="b7")


@pytest.mark.parametrize("name", WHOLE)
def test_a_batch_that_was_taken_back_runs_again(name: str, tmp_path: Path):
    older = unpack_older(name, tmp_path)
    again = older.table.upsert(older.batch("b3"), batch_id="b3")
    assert not again.noop
    assert older.table.check().ok


@contextmanager
def fencing(table: LakeTable) -> Iterator[list[int]]:
    """Numbers of the attempts that are started meanwhile."""
    numbers: list[int] = []
    real = commit.start_attempt

    def watched(*arguments: Any) -> Attempt:
        attempt = real(*arguments)
        numbers.append(attempt.number)
        return attempt

    commit.start_attempt = watched  # type: ignore[assignment] # restored below
    try:
        yield numbers
    finally:
        commit.start_attempt = real


def claimed_instant(older: Older) -> str:
    (pending,) = unpack_older(older.folder.name, older.folder / "again").folder.glob(
        "table/.hoodie/.lakeindex/instants/*.json"
    )
    return pending.stem


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("state", STATES)
class TestAKilledRun:
    @pytest.fixture
    def older(self, state: str, door: str, tmp_path: Path) -> Older:
        return unpack_older(f"{state}_{door}", tmp_path)

    def test_is_retried_under_the_name_it_had(self, older: Older, state: str):
        run = older.story["killed"]
        summary = older.table.upsert(older.batch("b3"), batch_id="b3", run_id=run["run_id"])
        assert summary.noop is (state == "committed")
        is_right(older.table, older.story["rows_after"])
        taken_over = {stage.name for stage in summary.stages if stage.reused}
        if state in {"index_lookup", "verify_keys", "planned"}:
            assert "stage_input" in taken_over

    def test_leaves_the_table_to_others(self, older: Older, state: str):
        """Somebody else's batch comes first: it settles what is dead."""
        before = older.story["rows_after" if state == "committed" else "rows"]
        rows = upserted(older.table, before)
        is_right(older.table, rows)

    def test_is_retried_by_its_batch(self, older: Older, state: str):
        run_id = older.story["killed"]["run_id"]
        named = run_id_for("b3", older.table.uri, str(older.runs))
        assert (
            named == run_id
        )  # whichever door began it: so its attempts are fenced, its checkpoints and plan taken over
        with fencing(older.table) as superseded:
            summary = older.table.upsert(older.batch("b3"), batch_id="b3")
        if state == "planned":
            assert summary.instant == claimed_instant(older)  # the plan that the older attempt put on the table
            assert superseded == [2]
        assert summary.noop is (state == "committed")
        if state in {"index_lookup", "verify_keys", "planned"}:
            assert "stage_input" in {stage.name for stage in summary.stages if stage.reused}
        is_right(older.table, older.story["rows_after"])
        assert older.table.upsert(older.batch("b3"), batch_id="b3").noop
