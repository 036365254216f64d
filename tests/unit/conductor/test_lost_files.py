"""A base file that is lost while an older slice of its file group is there: nobody builds on that one, and nothing is read
where no later commit can name a newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import TableCorruptError
from lakeindex.files import file_system_view
from lakeindex.model import IndexType
from lakeindex.storage.memory import Call
from lakeindex.table.handle import Table
from tests.builders import Row, batch_of, content_of, make_table
from tests.golden import made_once
from tests.meanwhile import MemoryTable, When, begins_to_write, writes_data
from tests.scheduling import some_indexes
from tests.unit.operations.test_repair import is_whole, live_of, table_of_two

pytestmark = pytest.mark.usefixtures("time_leaps")
INDEXES: Final = ("BLOOM", "GLOBAL_BLOOM", "SIMPLE", "GLOBAL_SIMPLE", "BUCKET", "INMEMORY", "RECORD_INDEX")


@made_once
def table_of_one_left(folder: Path, index: str = "BLOOM", version: str = "9") -> LakeTable:
    """A table whose partition x has lost the newer of its two slices, which alone has the key g."""
    table = table_of_two(folder, version, index=index)
    live_of(table, "x").unlink()
    return table


def keys(*names: str) -> pa.Table:
    return batch_of([Row(name, "x", 9, "") for name in names]).select(["id", "day"])


WRITES: Final[dict[str, Callable[[LakeTable], object]]] = {
    "update": lambda table: table.upsert(batch_of([Row("a", "x", 9, "new")])),
    "lost key": lambda table: table.upsert(batch_of([Row("g", "x", 9, "new")])),
    "insert": lambda table: table.insert(batch_of([Row("n", "x", 9, "new")])),
    "delete": lambda table: table.delete(keys("a")),
    "delete by a condition": lambda table: table.delete(where="v = 'first a'"),
    "update by a condition": lambda table: table.update({"v": "'new'"}, where="id = 'a'"),
    "dry run": lambda table: table.upsert(batch_of([Row("a", "x", 9, "new")]), dry_run=True),
    "beside others": lambda table: table.upsert(batch_of([Row("b", "y", 9, "new"), Row("a", "x", 9, "new")])),
}


@pytest.mark.parametrize("index", some_indexes(INDEXES))
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.few(8)
def test_nothing_is_built_on_an_older_slice(tmp_path: Path, index: str, write: str) -> None:
    table = table_of_one_left(tmp_path, index)
    before = len(table.history())
    with pytest.raises(TableCorruptError, match="is missing") as caught:
        WRITES[write](table)
    assert caught.value.culprit.startswith("x/")
    assert "lakeindex repair" in caught.value.hint
    assert len(table.history()) == before
    done = table.repair(apply=True)
    assert [one.path for one in done.files] == [caught.value.culprit]
    WRITES[write](table)
    assert table.check().ok


@pytest.mark.parametrize("version", ["6", "8"])
def test_of_two_lost_slices_the_newest_is_named(tmp_path: Path, version: str) -> None:
    table = table_of_two(tmp_path, version)
    table.upsert(batch_of([Row("g", "x", 3, "third")]))
    newest = live_of(table, "x")
    newest.unlink()
    live_of(table, "x")  # the second, which counts now
    with pytest.raises(TableCorruptError, match="is missing") as caught:
        table.upsert(batch_of([Row("a", "x", 9, "new")]))
    assert caught.value.culprit == f"x/{newest.name}"
    live_of(table, "x").unlink()
    with pytest.raises(TableCorruptError, match="is missing") as caught:
        table.upsert(batch_of([Row("a", "x", 9, "new")]))
    assert caught.value.culprit == f"x/{newest.name}"
    is_whole(table)


def test_what_does_not_touch_the_file_group_is_written(tmp_path: Path) -> None:
    """Nor needs anything its rows that takes its place as a whole."""
    table = table_of_one_left(tmp_path)
    table.upsert(batch_of([Row("b", "y", 9, "new"), Row("n", "w", 9, "new")]))
    with pytest.raises(TableCorruptError, match="is missing"):
        table.read(meta=False)
    table.insert_overwrite(batch_of([Row("a", "x", 9, "new")]))
    assert {row for row in content_of(table) if row[0] == "x"} == {("x", "a", "x", 9, "new")}
    is_whole(table)


@pytest.mark.parametrize("left", [True, False])
def test_buckets_are_not_cut_anew_of_an_older_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    """Nor where nothing is left of one: the bucket would be empty, and the rows not be missed any more."""
    monkeypatch.setattr(file_system_view, "_COMMITS_READ", 0)
    table = table_of_one_left(tmp_path, "BUCKET")
    for file in () if left else (tmp_path / "t" / "x").glob("*.parquet"):
        file.unlink()
    with pytest.raises(TableCorruptError, match="is missing"):
        table.rescale(2)
    assert table.rescale(partitions={"y": 2}).files_replaced == 1
    table.repair(apply=True)
    rows = content_of(table)
    table.rescale(2)
    assert content_of(table) == rows


@pytest.mark.parametrize("schedule", [False, True])
def test_an_older_slice_is_not_clustered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schedule: bool) -> None:
    monkeypatch.setattr(file_system_view, "_COMMITS_READ", 0)  # such work asks all commits
    table = make_table(tmp_path / "t")
    alone = {"hoodie.parquet.small.file.limit": "0"}
    for key in "ab":
        table.upsert(batch_of([Row(key, "x", 1, "first")]), options=alone)
    table.upsert(batch_of([Row("b", "x", 2, "second")]), options=alone)
    (lost,) = (tmp_path / "t" / "x").glob(f"*_{table.history()[0].instant}.parquet")
    lost.unlink()
    before = len(table.history())
    with pytest.raises(TableCorruptError, match="is missing"):
        table.cluster(["x"], schedule=schedule)
    assert len(table.history()) == before
    table.repair(apply=True)
    rows = content_of(table)
    assert len(rows) == 2
    table.cluster(["x"])
    assert content_of(table) == rows


def test_no_metadata_table_is_built_that_would_not_know_of_the_loss(tmp_path: Path) -> None:
    """A write would take the older slice, which it names, for the newest."""
    table = table_of_one_left(tmp_path)
    with pytest.raises(TableCorruptError, match="is missing"):
        table.metadata_build(["files"])
    assert "hoodie.table.metadata.partitions" not in table.properties
    table.repair(apply=True)
    assert table.metadata_build(["files"]).built == ("files",)
    is_whole(table)


@pytest.mark.parametrize("index", some_indexes(INDEXES))
def test_no_key_is_told_by_an_older_slice(tmp_path: Path, index: str) -> None:
    """Nor as missing: it may be in the lost file. With a metadata table, which names that file, its own keys alone are
    asked there.
    """
    table = table_of_one_left(tmp_path, index)
    asked: list[tuple[str, str | None]] = [("a", None), ("g", None), ("a", "x"), ("g", "x")]
    if index != "RECORD_INDEX":
        asked += [("b", None), ("nowhere", "x")]
    for key, partition in asked:
        with pytest.raises(TableCorruptError, match=r"base file x/.* is missing") as caught:
            table.get([key], partition=partition)
        assert "lakeindex repair" in caught.value.hint
    assert table.get(["b"], partition="y").rows.num_rows == 1
    table.repair(apply=True)
    assert table.get(["a", "b"]).rows.num_rows == 2


def test_a_file_group_of_which_nothing_is_left_hides_no_key(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    for file in (tmp_path / "t" / "y").glob("*.parquet"):
        file.unlink()
    for partition in (None, "y"):
        with pytest.raises(TableCorruptError, match=r"base file y/.* is missing"):
            table.get(["b"], partition=partition)
    assert table.get(["a"], partition="x").rows.num_rows == 1


def test_what_was_replaced_and_cleaned_away_is_not_missed(tmp_path: Path) -> None:
    table = table_of_two(tmp_path)
    table.insert_overwrite(batch_of([Row("a", "x", 9, "new")]))
    table.clean(1)
    assert table.get(["a"]).rows["v"].to_pylist() == ["new"]


def test_keys_are_not_proven_unique_nor_chosen_among_copies_by_an_older_slice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_system_view, "_COMMITS_READ", 0)
    table = table_of_one_left(tmp_path)
    before = len(table.history())
    works: list[Callable[[], object]] = [lambda: table.index_migrate(IndexType.GLOBAL_BLOOM), table.repair_keys]
    for work in works:
        with pytest.raises(TableCorruptError, match="is missing"):
            work()
    assert len(table.history()) == before
    of_the_table = table_of_one_left(tmp_path / "global", "GLOBAL_BLOOM")
    with pytest.raises(TableCorruptError, match="is missing"):  # nor to lie where their columns say
        of_the_table.index_migrate(IndexType.BLOOM)
    table.repair(apply=True)
    assert table.repair_keys().keys == 0
    assert table.index_migrate(IndexType.GLOBAL_BLOOM).instant is not None
    assert table.check().ok


FIRST: Final = [Row("a", "x", 1, "first"), Row("b", "y", 1, "first")]
LATER: Final = [[Row("b", "y", ts, "later")] for ts in (2, 3, 4)]


def commits_read(world: MemoryTable, partition: str) -> list[str]:
    """The commits that are read to know that the files of a partition are the newest, newest first."""
    snapshot = Table.open(world.store).snapshot()
    files = snapshot.base_files(partition)
    read: list[str] = []
    world.store.hook = lambda call: read.append(call.path) if call.name == "read" else None
    snapshot.check_newest(files)
    world.store.hook = None
    assert all(path.endswith(".commit") for path in read)
    return [path.rpartition("/")[2].partition(".")[0].partition("_")[0] for path in read]


def test_only_commits_are_read_that_are_newer_than_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    world = MemoryTable.holding(FIRST, *LATER)
    times = [one.time for one in world.timeline().completed_writes]
    assert sorted(commits_read(world, "x")) == times[1:]
    assert commits_read(world, "y") == []
    monkeypatch.setattr(file_system_view, "_COMMITS_READ", 2)
    assert sorted(commits_read(world, "x")) == times[2:]


def test_get_reads_the_newest_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    world = MemoryTable.holding(FIRST, *LATER)
    times = [one.time for one in world.timeline().completed_writes]
    monkeypatch.setattr(file_system_view, "_COMMITS_READ", 2)
    read: set[str] = set()
    world.store.hook = lambda call: read.add(call.path) if call.name == "read" else None
    assert world.table.get(["a"]).rows.num_rows == 1
    world.store.hook = None
    assert {time for time in times if any(f"/{time}" in path and ".commit" in path for path in read)} == {*times[-2:]}


def test_where_the_metadata_table_names_the_files_no_commit_is_read() -> None:
    world = MemoryTable.holding(FIRST, *LATER)
    world.table.metadata_build(["files"])
    world.store.delete(Table.open(world.store).snapshot().base_files("y")[0].path)
    snapshot = Table.open(world.store).snapshot()
    files = snapshot.base_files("x")
    world.store.hook = lambda call: pytest.fail(f"{call} is not needed")
    snapshot.check_newest(files)
    world.store.hook = None
    with pytest.raises(TableCorruptError, match="is missing"):
        world.upsert([Row("b", "y", 9, "new")])


@pytest.mark.parametrize("when", [begins_to_write, writes_data], ids=lambda one: one.__name__)
def test_a_file_that_is_lost_while_it_is_rewritten_is_named_with_a_cure(when: When) -> None:
    world = MemoryTable.holding(FIRST)
    lost = Table.open(world.store).snapshot().base_files("x")[0].path
    happened = world.once(when, lambda: world.store.delete(lost))
    with pytest.raises(TableCorruptError, match=f"base file {lost} of the commit .* is missing") as caught:
        world.upsert([Row("a", "x", 2, "")])
    assert happened
    assert caught.value.culprit == lost
    assert "lakeindex repair" in caught.value.hint


@pytest.mark.parametrize("read", ["rows", "stream", "get", "cluster"])
def test_a_file_that_is_lost_while_it_is_read_is_named_with_a_cure(read: str) -> None:
    """After its footer."""
    world = MemoryTable.holding(FIRST, LATER[0])
    lost = Table.open(world.store).snapshot().base_files("x")[0].path
    asked: list[str] = []

    def is_second(call: Call) -> bool:
        asked.extend([call.name] if call.path == lost and call.name.startswith("read") else [])
        return len(asked) > 1

    happened = world.once(is_second, lambda: world.store.delete(lost))
    with pytest.raises(TableCorruptError, match=f"base file {lost} of the commit .* is missing"):
        {
            "rows": lambda: world.table.read(meta=False),
            "stream": lambda: list(world.table.scan().to_batches()),
            "get": lambda: world.table.get(["a"]),
            "cluster": lambda: world.table.cluster(sort="columns", columns=["v"]),
        }[read]()
    assert happened


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_commit_is_not_archived_that_alone_knows_of_a_lost_file(tmp_path: Path, version: str) -> None:
    """An older slice would count again, and nobody would tell of the rows."""
    table = table_of_one_left(tmp_path, version=version)
    lost = table.history()[0].instant
    for ts in (2, 3, 4):
        table.upsert(batch_of([Row("b", "y", ts, "later")]))
    keep = {"hoodie.cleaner.commits.retained": "1"}
    table.clean(1)
    for done in (table.archive(1, dry_run=True, options=keep), table.archive(1, options=keep)):
        assert lost in str(done.held_by)
        assert "lakeindex check" in str(done.held_by)
        assert lost not in [one.time for one in done.instants]
    with pytest.raises(TableCorruptError, match="is missing"):
        table.read(meta=False)
    table.repair(apply=True)
    assert lost in [one.time for one in table.archive(1, options=keep).instants]
    assert table.check().ok


def test_a_lost_file_of_a_partition_that_is_no_more_keeps_no_commit(tmp_path: Path) -> None:
    table = table_of_one_left(tmp_path)
    table.delete_partitions(["x"])
    table.upsert(batch_of([Row("b", "y", 3, "later")]))
    table.clean(1)
    done = table.archive(1, options={"hoodie.cleaner.commits.retained": "1"})
    assert done.held_by is None
    assert len(done.instants) >= 3


def test_a_feed_with_a_lost_file_names_it_with_a_cure_and_goes_on_after_it(tmp_path: Path) -> None:
    table = table_of_one_left(tmp_path)
    with pytest.raises(TableCorruptError, match=r"base file x/.* is missing") as caught:
        table.changes().to_arrow()
    assert "lakeindex repair" in caught.value.hint
    table.repair(apply=True)
    assert sorted(table.changes().to_arrow()["id"].to_pylist()) == sorted(table.read(meta=False)["id"].to_pylist())
