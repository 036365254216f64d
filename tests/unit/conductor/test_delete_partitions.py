"""Partitions are taken out of the table as a whole: no row is read, and everything can go back."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import BatchIdReusedError, PendingInstantError, UsageError
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import RequestedReplace, parse_requested_replace
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.golden import made_once
from tests.meanwhile import WAITS, once_ready
from tests.unit.operations.test_rescaling import put_pending

pytestmark = pytest.mark.usefixtures("time_leaps")

FIRST = [Row(f"k{n}", "xyz"[n % 3], 1, "1") for n in range(12)]


@made_once
def made(folder: Path, **options: str) -> tuple[LakeTable, Oracle]:
    table, oracle = make_table(folder / "t", **options), Oracle()
    table.upsert(batch_of(FIRST), batch_id="first")
    oracle.apply(FIRST)
    return table, oracle


def without(oracle: Oracle, *places: str) -> None:
    oracle.rows = {key: row for key, row in oracle.rows.items() if row[0] not in places}


def commit_of(table: LakeTable, time: str) -> CommitMetadata:
    opened = Table.open(open_storage(table.uri))
    timeline = opened.load_timeline()
    (instant,) = (one for one in timeline.completed_writes if one.time == time)
    assert instant.action == "replacecommit"
    return timeline.commit_metadata(opened.storage, instant)


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_the_rows_are_gone_and_the_commit_is_as_hudis(tmp_path: Path, version: str) -> None:
    table, oracle = made(tmp_path, hoodie__write__table__version=version)
    done = table.delete_partitions(["x", "z"])
    without(oracle, "x", "z")
    assert content_of(table) == oracle.content()
    assert (done.operation, done.noop, done.rows_in) == ("DELETE_PARTITION", False, 0)
    assert (done.files_replaced, done.rows_replaced) == (2, 8)
    assert done.instant is not None
    commit = commit_of(table, done.instant)
    assert commit.operation == "DELETE_PARTITION"
    assert not commit.write_stats
    assert {path: len(ids) for path, ids in commit.replaced_file_ids.items()} == {"x": 1, "z": 1}
    assert commit.schema_text is not None
    (requested,) = Path(table.uri).rglob(f"{done.instant}.replacecommit.requested")
    assert parse_requested_replace(requested.read_bytes(), "") == RequestedReplace()
    (entry,) = [one for one in table.history() if one.instant == done.instant]
    assert (entry.operation, entry.files_removed) == ("DELETE_PARTITION", 2)
    assert table.check().ok
    again = [Row("k0", "x", 0, "back"), Row("new", "y", 1, "1")]
    table.upsert(batch_of(again))
    oracle.apply(again)
    assert content_of(table) == oracle.content(), "an older row is none where nothing is stored any more"


def test_truncate_takes_every_row(tmp_path: Path) -> None:
    table, _ = made(tmp_path)
    assert not table.truncate(dry_run=True).noop
    done = table.truncate()
    assert (done.files_replaced, done.rows_replaced) == (3, 12)
    assert content_of(table) == set()
    assert table.read(meta=True).num_rows == 0
    assert table.truncate(dry_run=True).noop
    assert table.truncate().noop
    assert table.upsert(batch_of(FIRST)).inserts == 12
    assert table.check().ok


def test_a_table_without_partitions_is_truncated(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partitions=())
    table.upsert(batch_of(FIRST))
    assert table.truncate().rows_replaced == 12
    assert table.read(meta=True).num_rows == 0


@pytest.mark.parametrize("asked", [["nowhere"], ["x", "day=x"], [], "x"])
def test_what_names_no_partition_is_refused(tmp_path: Path, asked: list[str]) -> None:
    table, oracle = made(tmp_path)
    with pytest.raises(UsageError, match=r"nowhere|day=x|partitions to delete|a list of texts"):
        table.delete_partitions(asked)
    assert content_of(table) == oracle.content()
    assert table.check().ok
    assert table.upsert(batch_of(FIRST)).updates == 12, "nothing was left behind"


def test_a_batch_id_is_committed_once(tmp_path: Path) -> None:
    table, _ = made(tmp_path)
    done = table.delete_partitions(["x"], batch_id="drop x")
    table.upsert(batch_of([Row("late", "x", 1, "1")]))
    again = table.delete_partitions(["x"], batch_id="drop x")
    assert (again.noop, again.instant, again.rows_replaced) == (True, done.instant, 4)
    assert "late" in table.read(meta=True).column("id").to_pylist()
    assert table.delete_partitions(["x", "x"], batch_id="drop x").noop, "named twice, it is the same"
    with pytest.raises(BatchIdReusedError):
        table.delete_partitions(["y"], batch_id="drop x")
    assert table.delete_partitions(["y"], batch_id="drop x", force=True, dry_run=True).files_replaced == 1
    with pytest.raises(BatchIdReusedError):
        table.delete_partitions(["x"], batch_id="first")


def test_it_goes_back_and_is_cleaned(tmp_path: Path) -> None:
    table, oracle = made(tmp_path)
    before = set(oracle.content())
    done = table.delete_partitions(["x"])
    assert done.instant is not None
    table.rollback(done.instant)
    assert content_of(table) == before
    table.delete_partitions(["x"])
    without(oracle, "x")
    rows = [Row("n", "x", 1, "1")]
    table.upsert(batch_of(rows))
    oracle.apply(rows)
    cleaned = table.clean(keep_commits=1)
    assert len(cleaned.files) == 1
    assert content_of(table) == oracle.content()
    table.archive(keep_commits=2, options={"hoodie.cleaner.commits.retained": "1"})
    assert content_of(table) == oracle.content()
    assert table.check().ok


@pytest.mark.parametrize("partition", ["x", "new"])
def test_who_writes_meanwhile_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition: str) -> None:
    """A truncation that was planned is planned anew: what was committed meanwhile is taken away, too."""
    table, _ = made(tmp_path)
    once_ready(
        monkeypatch, lambda: LakeTable(table.uri).upsert(batch_of([Row("meanwhile", partition, 1, "1")]), options=WAITS)
    )
    done = table.truncate()
    assert done.rows_replaced == 13
    assert content_of(table) == set()
    assert table.check().ok


def test_who_writes_meanwhile_into_a_partition_that_is_named_and_has_no_row_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, oracle = made(tmp_path)
    table.delete_partitions(["y"])
    late = [Row("meanwhile", "y", 1, "1")]
    once_ready(monkeypatch, lambda: LakeTable(table.uri).upsert(batch_of(late), options=WAITS))
    assert table.delete_partitions(["x", "y"]).rows_replaced == 5
    without(oracle, "x", "y")
    assert content_of(table) == oracle.content()


def test_an_upsert_into_a_partition_that_was_deleted_meanwhile_is_planned_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A late row of it was ignored: there is nothing any more that it is later than."""
    table, oracle = made(tmp_path)
    batch = [Row("k0", "x", 0, "late"), Row("new", "x", 1, "1")]
    options = {"hoodie.parquet.small.file.limit": "0"}  # the new row makes a file group of its own
    once_ready(monkeypatch, lambda: LakeTable(table.uri).delete_partitions(["x"], options=WAITS))
    done = table.upsert(batch_of(batch), options=options)
    assert (done.inserts, done.ignored) == (2, 0)
    without(oracle, "x")
    oracle.apply(batch)
    assert content_of(table) == oracle.content()
    assert table.check().ok


@pytest.mark.parametrize("version", ["6", "9"])
def test_the_metadata_table_says_so(tmp_path: Path, version: str) -> None:
    table, oracle = made(tmp_path, hoodie__index__type="RECORD_INDEX", hoodie__write__table__version=version)
    oracle.is_global = True
    table.metadata_build(
        ["files", "column_stats", "bloom_filters", "record_index", "partition_stats"][: 4 + (version == "9")]
    )
    table.delete_partitions(["x"])
    assert table.metadata_verify().ok
    rows = [Row("k0", "y", 5, "5"), Row("k1", "y", 5, "5")]
    done = table.upsert(batch_of(rows))
    assert (done.inserts, done.updates) == (1, 1)
    done = table.truncate()
    assert table.metadata_verify().ok
    assert done.instant is not None
    table.rollback(done.instant)
    assert table.metadata_verify().ok
    assert table.upsert(batch_of(rows)).updates == 2
    assert table.check().ok


@pytest.mark.parametrize("dry_run", [True, False])
def test_partitions_of_a_pending_clustering_are_refused_in_a_dry_run_too(tmp_path: Path, dry_run: bool) -> None:
    table, _ = made(tmp_path)
    table.upsert(batch_of([Row("n", "x", 1, "1")]), options={"hoodie.parquet.small.file.limit": "0"})
    plan = table.cluster(["x"], schedule=True)
    before = content_of(table)
    for call in (lambda **how: table.delete_partitions(["y", "x"], **how), table.truncate):
        with pytest.raises(PendingInstantError, match=str(plan.instant)):
            call(dry_run=dry_run)
    assert content_of(table) == before
    assert table.delete_partitions(["y"], dry_run=dry_run).files_replaced == 1


def test_what_was_done_to_other_writers_is_noted_where_nothing_is_deleted_too(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    for rows in ([], [Row("k", "x", 1, "1")]):
        if rows:
            table.upsert(batch_of(rows))
        theirs = put_pending(table)
        done = table.truncate(force=True)
        assert done.noop is not bool(rows)
        assert [note for note in done.notes if note.startswith(f"instant {theirs} (commit) of another writer")]
