"""What older lakeindex code wrote: read, upserted on, retried, checked."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import BatchIdReusedError
from tests.older_support import KILLED, WHOLE, Older, stored, unpack_older
from tests.scheduling import some_of


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
@pytest.mark.few(4)
def test_a_table_of_older_code_is_read_upserted_on_and_maintained(name: str, tmp_path: Path):
    older = unpack_older(name, tmp_path)
    is_right(older.table, older.story["rows"])
    rows = upserted(older.table, older.story["rows"])
    is_right(older.table, rows)
    steps = older.table.maintain(options={"hoodie.cleaner.commits.retained": "1", "hoodie.keep.min.commits": "2"}).steps
    assert {step.step for step in steps} >= {"settle", "clean", "archive"}
    is_right(older.table, rows)


@pytest.mark.parametrize("name", some_of(WHOLE, {"bloom_6", "bucket", "record_9"}.__contains__, pytest.mark.slow))
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


@pytest.mark.parametrize("name", KILLED)
class TestAKilledRun:
    """What it left in its run folder is as that code had it, and may be made again; what it left on the table counts."""

    @pytest.fixture
    def older(self, name: str, tmp_path: Path) -> Older:
        return unpack_older(name, tmp_path)

    def test_leaves_the_table_to_others(self, older: Older, name: str):
        """Somebody else's batch comes first: it settles what is dead."""
        before = older.story["rows_after" if name.startswith("committed") else "rows"]
        rows = upserted(older.table, before)
        is_right(older.table, rows)

    @pytest.mark.few(4)
    def test_is_retried_by_its_batch(self, older: Older, name: str):
        summary = older.table.upsert(older.batch("b3"), batch_id="b3")
        assert summary.run_id == older.story["killed"]["run_id"]  # so its attempt is fenced
        assert summary.noop is name.startswith("committed")
        is_right(older.table, older.story["rows_after"])
        assert older.table.upsert(older.batch("b3"), batch_id="b3").noop


def test_a_planned_run_is_carried_on_from_its_checkpoints(tmp_path: Path):
    """Its plan is followed only if what is planned now is the same, which the bytes of checkpoints are part of."""
    older = unpack_older("planned_6", tmp_path)
    summary = older.table.upsert(older.batch("b3"), batch_id="b3")
    assert "stage_input" in {stage.name for stage in summary.stages if stage.reused}
