"""Readers beside a rollback and a clean: what they had listed is gone, and they read the table as it is then."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import TableCorruptError, WriteConflictError
from lakeindex.operations.consistent_read import TRIES
from lakeindex.storage.local import LocalStorage
from lakeindex.storage.port import Listing
from tests.builders import Row, batch_of, make_table
from tests.golden import made_once

KEYS = [f"k{n}" for n in range(50)]


@made_once
def rewritten(folder: Path) -> LakeTable:
    """A table whose second commit has rewritten its only file."""
    made = make_table(folder)
    made.upsert(batch_of([Row(key, "d", 1, "old") for key in KEYS]))
    made.upsert(batch_of([Row("k7", "d", 2, "new")]))
    return made


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return rewritten(tmp_path / "t")


def all_rows(table: LakeTable, _: Path) -> pa.Table:
    return table.read(meta=True)


def by_key(table: LakeTable, _: Path) -> pa.Table:
    return table.get(KEYS).rows


def to_file(table: LakeTable, folder: Path) -> pa.Table:
    from lakeindex.operations.rows.scan import write_rows

    write_rows(table.uri, str(folder / "out.parquet"))
    return pq.read_table(folder / "out.parquet")


def scanned(table: LakeTable, _: Path) -> pa.Table:
    return table.scan(meta=True, where="ts > 0").to_arrow()


def scanned_by_key(table: LakeTable, _: Path) -> pa.Table:
    return table.scan(meta=True, where=f"id IN ({', '.join(map(repr, KEYS))})").to_arrow()


def streamed(table: LakeTable, _: Path) -> pa.Table:
    return table.scan(meta=True).to_batches().read_all()


WAYS = pytest.mark.parametrize("way", [all_rows, by_key, to_file, scanned, scanned_by_key, streamed])
Way = Callable[[LakeTable, Path], pa.Table]


def before_files_are_opened(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen whenever a reader is about to open a base file; what it does itself opens as ever."""
    inside: list[bool] = []
    read_range = LocalStorage.read_range

    def watched(self: LocalStorage, path: str, start: int, length: int) -> bytes:
        if path.endswith(".parquet") and ".hoodie" not in path and not inside:
            inside.append(True)
            try:
                happens()
            finally:
                inside.clear()
        return read_range(self, path, start, length)

    monkeypatch.setattr(LocalStorage, "read_range", watched)


@WAYS
def test_who_reads_beside_a_rollback_gets_the_rows_before_it(
    table: LakeTable, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    todo = [one.instant for one in table.history() if one.operation == "UPSERT"][:1]
    before_files_are_opened(monkeypatch, lambda: todo and table.rollback(todo.pop()))
    rows = way(table, tmp_path)
    assert not todo, "the rollback came between the listing and the reading"
    assert sorted(rows.column("_hoodie_record_key").to_pylist()) == sorted(KEYS)
    assert len(set(rows.column("_hoodie_commit_time").to_pylist())) == 1


@WAYS
def test_who_reads_beside_a_clean_gets_the_newest_rows(
    table: LakeTable, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def overtaken() -> None:
        if todo:
            todo.clear()
            for ts in (3, 4):
                table.upsert(batch_of([Row("k7", "d", ts, "newest")]))
            assert table.clean(keep_commits=1).files

    todo = [True]
    before_files_are_opened(monkeypatch, overtaken)
    rows = way(table, tmp_path)
    assert not todo
    assert rows.num_rows == len(KEYS)
    assert len(set(rows.column("_hoodie_commit_time").to_pylist())) == 2


@made_once
def archived(folder: Path, *, has_metadata: bool) -> LakeTable:
    """A table whose commits are in the archive, but the newest; with a metadata table they stay on the timeline."""
    made = make_table(folder)
    made.upsert(batch_of([Row(key, "d", 1, "old") for key in KEYS]))
    for ts in (1, 2):
        made.upsert(batch_of([Row("e0", "e", ts, "old")]))
    if has_metadata:
        made.metadata_build(["files"])
    else:
        assert made.archive(keep_commits=1, options={"hoodie.cleaner.commits.retained": "1"}).instants
    return made


def before_files_are_listed(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> list[object]:
    """Let something happen once when a reader, which has its timeline, is about to list files, or to ask the metadata table for them;
    what comes back is empty then.
    """
    todo: list[object] = [happens]
    list_folder, list_names = LocalStorage.list_folder, LocalStorage.list_names

    def look(storage: LocalStorage, prefix: str) -> None:
        if todo and (not prefix or ".hoodie/metadata" in f"{storage.root}/{prefix}"):
            todo.clear()
            happens()

    def watched_folder(self: LocalStorage, prefix: str = "") -> Listing:
        look(self, prefix)
        return list_folder(self, prefix)

    def watched_names(self: LocalStorage, prefix: str = "") -> tuple[str, ...]:
        look(self, prefix)
        return list_names(self, prefix)

    monkeypatch.setattr(LocalStorage, "list_folder", watched_folder)
    monkeypatch.setattr(LocalStorage, "list_names", watched_names)
    return todo


@pytest.mark.parametrize("has_metadata", [False, True])
@WAYS
def test_who_lists_files_when_a_clean_has_overtaken_its_timeline_gets_the_newest_rows(
    way: Way, has_metadata: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of a file group that was written meanwhile nothing is left that counts by that timeline, and no commit on it names a slice that is missed."""
    table = archived(tmp_path / "t", has_metadata=has_metadata)

    def overtaken() -> None:
        for ts in (3, 4):
            table.upsert(batch_of([Row("k7", "d", ts, "newest")]))
        assert table.clean(keep_commits=1).files

    todo = before_files_are_listed(monkeypatch, overtaken)
    rows = way(table, tmp_path)
    assert not todo
    assert set(rows.column("_hoodie_record_key").to_pylist()) >= set(KEYS)
    assert "newest" in rows.column("v").to_pylist()


def test_a_key_that_moves_behind_the_timeline_of_who_asks_the_record_index_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The index says where it is now; of that file group the reader has the slice of before."""
    table = make_table(tmp_path / "t", hoodie__index__type="RECORD_INDEX")
    table.upsert(batch_of([*(Row(key, "d", 1, "old") for key in KEYS), Row("e0", "e", 1, "old")]))
    table.metadata_build(["files", "record_index"])
    moves = {"hoodie.record.index.update.partition.path": "true"}
    for ts, (way, day) in enumerate([(by_key, "e"), (scanned_by_key, "d")], 2):
        moved = batch_of([Row("k7", day, ts, "moved")])
        with monkeypatch.context() as patch:
            todo = before_files_are_listed(patch, partial(table.upsert, moved, options=moves))
            rows = way(table, tmp_path)
        assert not todo
        assert sorted(rows.column("_hoodie_record_key").to_pylist()) == sorted(KEYS), way


@WAYS
@pytest.mark.few(3)
def test_who_is_overtaken_in_every_try_is_told_to_come_back(
    table: LakeTable, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tries: list[int] = []

    def overtaken() -> None:
        tries.append(len(tries) + 3)
        table.upsert(batch_of([Row("k7", "d", tries[-1], "newer")]))
        table.clean(keep_commits=1)

    before_files_are_opened(monkeypatch, overtaken)
    with pytest.raises(WriteConflictError, match=f"each of {TRIES} tries"):
        way(table, tmp_path)
    assert len(tries) >= TRIES


@WAYS
def test_a_file_that_is_gone_beside_an_unchanged_timeline_is_damage(
    table: LakeTable, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = Path(table.uri.removeprefix("file://"))

    def lost() -> None:
        for path in (folder / "d").glob("*.parquet"):
            path.unlink()

    before_files_are_opened(monkeypatch, lost)
    with pytest.raises(TableCorruptError):
        way(table, tmp_path)


def in_two_files(table: LakeTable) -> None:
    """A second partition, so that a stream has given something out before it is overtaken."""
    table.upsert(batch_of([Row(f"e{n}", "e", 1, "old") for n in range(20)]))
    table.upsert(batch_of([Row("e7", "e", 2, "new")]))


def overtake(table: LakeTable) -> None:
    for ts in (3, 4):
        table.upsert(batch_of([Row("k7", "d", ts, "newest"), Row("e7", "e", ts, "newest")]))
    assert table.clean(keep_commits=1).files


def test_a_stream_that_has_given_rows_out_does_not_begin_anew(table: LakeTable):
    in_two_files(table)
    batches = table.scan(where="ts > 0").to_batches()
    assert batches.read_next_batch().num_rows
    overtake(table)
    with pytest.raises(WriteConflictError, match="after 50 rows were given out") as caught:
        batches.read_all()
    assert "cleaner.commits.retained" in str(caught.value)


def test_a_stream_that_nobody_has_read_of_begins_anew(table: LakeTable):
    in_two_files(table)
    batches = table.scan().to_batches()
    overtake(table)
    assert batches.read_all().num_rows == len(KEYS) + 20


def test_a_stream_whose_columns_changed_before_it_begins_anew_ends(table: LakeTable):
    """It has told its columns: rows with others, or with a column less, are not what its reader asked for."""
    batches = table.scan().to_batches()
    wider = batch_of([Row("k7", "d", ts := 3, "newest")]).append_column("extra", pa.array(["x"]))
    table.upsert(wider, options={"lakeindex.schema.mode": "add"})
    table.upsert(batch_of([Row("k7", "d", ts + 1, "newest")]).append_column("extra", pa.array(["y"])))
    assert table.clean(keep_commits=1).files
    with pytest.raises(WriteConflictError, match="its columns were changed"):
        batches.read_all()
    assert "extra" in table.scan().to_batches().schema.names


def test_a_lazy_frame_stays_at_its_snapshot_or_says_that_it_is_gone(table: LakeTable):
    in_two_files(table)
    frame, relation = table.scan().to_polars(), table.scan(where="ts > 0").to_duckdb()
    overtake(table)
    with pytest.raises(Exception, match="changed by other writers"):
        frame.collect()
    with pytest.raises(Exception, match="changed by other writers"):
        relation.fetchall()
