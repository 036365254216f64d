"""Keys that another writer has stored more than once: a delete takes every copy, an upsert says where they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import InvariantError, MetadataTableError, OptionError, QuarantineExceededError
from lakeindex.run.summary import RunSummary
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.builders import Row, batch_of, make_table, rows_of
from tests.golden import made_once
from tests.meanwhile import OVERTAKES, MemoryTable, writes_data
from tests.scheduling import some_of
from tests.stored_indexes import bound_to, clustered, inserted, runner_of, unseen

FIRST = [Row(key, "x", 1, "1") for key in "abc"] + [Row("a", "y", 1, "1")]
AGAIN = [Row("a", "x", 5, "5"), Row("a", "x", 3, "3"), Row("b", "x", 0, "0"), Row("n", "x", 1, "1")]
LOCAL = ("BLOOM", "SIMPLE", "INMEMORY", "RECORD_LEVEL_INDEX", "BUCKET")
GLOBAL = ("GLOBAL_BLOOM", "GLOBAL_SIMPLE", "RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX")


@made_once
def doubled(folder: Path, index: str, *, within: bool, **options: str) -> LakeTable:
    """``a`` three times and ``b`` twice in x; ``a`` once more in y, where it is another row."""
    given = {"hoodie.index.type": index, **options}
    if index == "BUCKET":
        given |= {"hoodie.bucket.index.num.buckets": "1"}
    table = make_table(folder, **{name.replace(".", "__"): text for name, text in given.items()})
    table.upsert(batch_of(FIRST))
    file = Table.open(open_storage(table.uri)).snapshot().base_files("x")[0]
    inserted(table, AGAIN, into=file.file_id if within else None)
    return table


def stored(table: LakeTable) -> list[tuple[str, str, int]]:
    return sorted((row["_hoodie_partition_path"], row["id"], row["ts"]) for row in rows_of(table))


def kinds() -> list[tuple[str, bool]]:
    return [(index, within) for index in LOCAL for within in (True, False) if within or index != "BUCKET"]


@pytest.mark.parametrize(("index", "within"), kinds())
@pytest.mark.few(3)
def test_a_delete_takes_every_copy(tmp_path: Path, index: str, within: bool):
    table = doubled(tmp_path / "t", index, within=within)
    gone = table.delete(batch_of([Row("a", "x", 0, None), Row("z", "x", 0, None)]).select(["id", "day"]))
    assert (gone.rows_in, gone.deletes, gone.copies, gone.ignored) == (2, 1, 2, 1)
    assert stored(table) == [("x", "b", 0), ("x", "b", 1), ("x", "c", 1), ("x", "n", 1), ("y", "a", 1)]
    table.delete(where="id = 'b' AND ts = 0")  # Hudi deletes keys, too
    assert stored(table) == [("x", "c", 1), ("x", "n", 1), ("y", "a", 1)]
    again = table.upsert(batch_of([Row(key, "x", 9, "9") for key in "abcn"]))
    assert (again.inserts, again.updates) == (2, 2)
    assert table.check().ok


@pytest.mark.parametrize(("version", "within"), [("6", False), ("9", False), ("9", True)])
def test_no_record_index_is_built_that_would_know_one_of_two_copies(tmp_path: Path, version: str, within: bool):
    kind = {"hoodie.index.type": "SIMPLE" if version == "9" else "GLOBAL_SIMPLE", "hoodie.write.table.version": version}
    table = make_table(tmp_path / "t", **{name.replace(".", "__"): text for name, text in kind.items()})
    table.upsert(batch_of(FIRST if version == "9" else FIRST[:3]))
    (file,) = Table.open(open_storage(table.uri)).snapshot().base_files("x")
    inserted(table, [Row("b", "x", 5, "5"), Row("n", "x", 1, "1")], into=file.file_id if within else None)
    with pytest.raises(MetadataTableError, match=r"record key 'b' is in x/.*parquet") as caught:
        table.metadata_build(["files", "record_index"])
    assert caught.value.culprit == "b"
    assert "record_index" not in [one.name for one in table.metadata_status().partitions]


@pytest.mark.parametrize("index", GLOBAL)
@pytest.mark.few(2)
def test_a_delete_takes_every_copy_in_every_partition_under_a_global_index(tmp_path: Path, index: str):
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    table.upsert(batch_of([*FIRST[:3], Row("d", "y", 1, "1")]))
    inserted(table, [Row("a", "y", 2, "2"), Row("d", "y", 0, "0")])
    inserted(table, [Row("a", "z", 3, "3")])
    gone = table.delete(batch_of([Row("a", "x", 0, None)]).select(["id", "day"]))
    assert (gone.rows_in, gone.deletes, gone.copies) == (1, 1, 2)
    table.delete(where="day = 'y' AND ts = 0")
    assert stored(table) == [("x", "b", 1), ("x", "c", 1)]
    again = table.upsert(batch_of([Row("a", "z", 9, "9"), Row("b", "x", 9, "9")]))
    assert (again.inserts, again.updates) == (1, 1)
    assert table.check().ok


@pytest.mark.parametrize("index", ["RECORD_LEVEL_INDEX", "RECORD_INDEX", "INMEMORY", "BLOOM"])
@pytest.mark.few(2)
def test_a_copy_that_a_condition_leaves_is_found_by_the_next_batch(tmp_path: Path, index: str):
    """In the file in which another copy goes, and in a file that is not written. Of ``b``, too, whose both copies go."""
    for within in (True, False):
        table = make_table(tmp_path / f"t{within}", hoodie__index__type=index)
        table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("d", "x", 1, "1")]))
        file = Table.open(open_storage(table.uri)).snapshot().base_files("x")[0]
        inserted(table, [Row("a", "x", 5, "5"), Row("b", "x", 1, "1")], into=file.file_id if within else None)
        gone = table.upsert(
            batch_of([Row("a", "x", 9, ""), Row("b", "x", 9, "")]), delete_if="old.v = '1'", update_if="FALSE"
        )
        assert (gone.deletes, gone.copies) == (2, 1)
        again = table.upsert(batch_of([Row("a", "x", 10, "n"), Row("b", "x", 10, "n")]))
        assert (again.inserts, again.updates) == (1, 1)
        assert stored(table) == [("x", "a", 10), ("x", "b", 10), ("x", "d", 1)]


@pytest.mark.parametrize("index", ["RECORD_LEVEL_INDEX", "RECORD_INDEX", "INMEMORY", "STATE"])
@pytest.mark.few(2)
def test_a_stored_index_knows_of_every_copy(tmp_path: Path, index: str):
    """Those that another writer inserts, those of them that a condition leaves, and of these the last one."""
    table, runner = make_table(tmp_path / "t", hoodie__index__type=index), runner_of(index)
    table.upsert(batch_of([Row(key, "x", 1, "1") for key in "abcd"]), runner=runner)
    inserted(table, [Row("a", "x", 3, "3"), Row("b", "x", 3, "3")])
    inserted(table, [Row("a", "x", 5, "5"), Row("b", "x", 5, "5"), Row("c", "x", 5, "5")])
    gone = table.delete(batch_of([Row("b", "x", 0, None)]).select(["id", "day"]), runner=runner)
    assert (gone.deletes, gone.copies) == (1, 2)
    with pytest.raises(InvariantError, match="key 'a' is stored 3 times"):
        table.upsert(batch_of([Row("a", "x", 9, "9")]), runner=runner)
    rows = batch_of([Row("a", "x", 9, ""), Row("c", "x", 9, "")])
    gone = table.upsert(rows, delete_if="old.v = '1'", update_if="FALSE", runner=runner)
    assert (gone.deletes, gone.copies) == (2, 0)
    assert stored(table) == [("x", "a", 3), ("x", "a", 5), ("x", "c", 5), ("x", "d", 1)]
    with pytest.raises(InvariantError, match="key 'a' is stored 2 times"):
        table.upsert(batch_of([Row("a", "x", 9, "9")]), runner=runner)
    table.upsert(rows, delete_if="old.v = '3'", update_if="FALSE", runner=runner)
    again = table.upsert(batch_of([Row(key, "x", 9, "9") for key in "abc"]), runner=runner)
    assert (again.inserts, again.updates) == (1, 2)
    assert stored(table) == [("x", "a", 9), ("x", "b", 9), ("x", "c", 9), ("x", "d", 1)]


@pytest.mark.parametrize("index", ["RECORD_LEVEL_INDEX", "RECORD_INDEX"])
@pytest.mark.parametrize("how", ["a delete", "a repair"])
@pytest.mark.few(2)
def test_a_stored_index_that_is_compacted_counts_copies_that_go(tmp_path: Path, index: str, how: str):
    """Before, while what another writer stored is read of its files, nobody has counted the keys."""
    table = doubled(tmp_path / "t", index, within=False)
    options = {"hoodie.metadata.compact.max.delta.commits": "1"}
    table.upsert(batch_of([Row("c", "x", 2, "2")]), options=options)
    if how == "a repair":
        table.repair_keys(apply=True)
    else:
        table.delete(batch_of([Row(key, "x", 0, None) for key in "ab"]).select(["id", "day"]))
    for number in (6, 7):
        done = table.upsert(batch_of([Row(key, "x", number, "9") for key in "abcn"]))
        assert done.rows_in == done.inserts + done.updates
    in_y = [("y", "a", 1)] if index == "RECORD_LEVEL_INDEX" else []
    assert stored(table) == [*(("x", key, 7) for key in "abcn"), *in_y]
    assert table.index_verify().ok


def test_what_another_writer_reads_of_one_copy_does_not_hide_the_others(tmp_path: Path):
    """It rewrites the file of one; a repair then says where the key is."""
    table, runner = make_table(tmp_path / "t", hoodie__index__type="STATE"), runner_of("STATE")
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]), runner=runner)
    inserted(table, [Row("a", "x", 5, "5"), Row("n", "x", 1, "1")])
    table.upsert(batch_of([Row("b", "x", 2, "2")]), runner=runner)
    unseen(table, "GLOBAL_SIMPLE", [Row("n", "x", 2, "2")])
    with pytest.raises(InvariantError, match="key 'a' is stored 2 times"):
        table.upsert(batch_of([Row("a", "x", 9, "9")]), runner=runner)
    assert table.repair_keys(keep="oldest", apply=True).keys == 1
    done = table.upsert(batch_of([Row(key, "x", 9, "9") for key in "abn"]), runner=runner)
    assert done.updates == 3
    assert keys_unknown(done) == 0
    assert stored(table) == [("x", "a", 9), ("x", "b", 9), ("x", "n", 9)]


def keys_unknown(summary: RunSummary) -> int:
    return next(one for one in summary.stages if one.name == "index_lookup").counters["keys_unknown"]


def test_keys_that_another_writer_only_puts_elsewhere_have_one_place(tmp_path: Path):
    """It moves one to another partition, and clusters the first; a condition takes the copy of another partition."""
    table, runner = make_table(tmp_path / "t", hoodie__index__type="STATE"), runner_of("STATE")
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1")]), runner=runner)
    unseen(table, "GLOBAL_SIMPLE", [Row("a", "y", 2, "2")], hoodie__simple__index__update__partition__path="true")
    clustered(table, "x")
    done = table.upsert(batch_of([Row(key, day, 3, "3") for key, day in ("ay", "bx", "cy")]), runner=runner)
    assert (done.updates, keys_unknown(done)) == (3, 0)
    inserted(table, [Row("b", "y", 1, "1"), Row("c", "x", 1, "1")])
    rows = batch_of([Row("b", "y", 9, ""), Row("c", "y", 9, "")])
    table.upsert(rows, delete_if="old.v = '1'", update_if="FALSE", runner=runner)
    assert stored(table) == [("x", "b", 3), ("y", "a", 3), ("y", "c", 3)]
    done = table.upsert(batch_of([Row(key, day, 9, "9") for key, day in ("ay", "bx", "cy")]), runner=runner)
    assert (done.updates, done.inserts, keys_unknown(done)) == (3, 0, 0)
    assert table.index_verify(runner=runner).ok


def test_a_copy_that_a_condition_leaves_stays_in_the_record_index_of_the_metadata_table(tmp_path: Path):
    table = make_table(tmp_path / "t", hoodie__index__type="GLOBAL_BLOOM")
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]))
    table.metadata_build(partitions=["record_index"])
    inserted(table, [Row("a", "x", 5, "5")])
    table.upsert(batch_of([Row("a", "x", 9, "")]), delete_if="old.v = '1'", update_if="FALSE")
    assert stored(table) == [("x", "a", 5), ("x", "b", 1)]
    assert table.metadata_verify().ok


def test_conditions_are_asked_of_each_copy_and_counted_once_a_row(tmp_path: Path):
    """Of ``a`` one copy is left by the condition and the others are later; of ``b`` the condition leaves both."""
    table = doubled(tmp_path / "t", "BLOOM", within=False)
    before = stored(table)
    rows = [Row("a", "x", 0, "late"), Row("b", "x", 9, "unmet"), Row("n", "x", 9, "unmet")]
    left = table.upsert(batch_of(rows), update_if="old.v <> '5' AND old.id = 'a'")
    assert (left.rows_in, left.ignored, left.unmet) == (3, 3, 2)
    assert stored(table) == before
    gone = table.upsert(batch_of([Row("a", "x", 9, "")]), delete_if="old.v = '5'", update_if="FALSE")
    assert (gone.deletes, gone.copies, gone.ignored, gone.unmet) == (1, 0, 0, 0)
    assert stored(table) == [one for one in before if one != ("x", "a", 5)]


def test_an_insert_counts_and_sets_aside_a_row_once_however_often_its_key_is_stored(tmp_path: Path):
    table = doubled(tmp_path / "t", "BLOOM", within=False)
    before, rows = stored(table), [Row("a", "x", 9, "again"), Row("new", "x", 1, "1")]
    left = table.insert(batch_of(rows[:1]), "ignore")
    assert (left.rows_in, left.ignored, left.quarantined) == (1, 1, 0)
    with pytest.raises(QuarantineExceededError, match="1 rows have keys that are stored already") as refused:
        table.insert(batch_of(rows))
    assert pq.read_table(str(refused.value.culprit).removeprefix("file://"))["v"].to_pylist() == ["again"]
    done = table.insert(batch_of(rows), max_quarantined=1)
    assert (done.rows_in, done.inserts, done.quarantined) == (2, 1, 1)
    assert stored(table) == sorted([*before, ("x", "new", 1)])


@pytest.mark.parametrize(("index", "within"), kinds())
@pytest.mark.few(3)
def test_a_repair_keeps_one_row_of_each_key(tmp_path: Path, index: str, within: bool):
    table = doubled(tmp_path / "t", index, within=within)
    before, commits = stored(table), len(table.history())
    with pytest.raises(InvariantError, match="key 'a' is stored 3 times: in x/") as refused:
        table.upsert(batch_of([Row("a", "x", 9, "9")]))
    assert "lakeindex repair keys" in str(refused.value.hint)
    planned = table.repair_keys()
    assert (planned.keys, planned.rows_removed, planned.keep, planned.scope) == (2, 3, "ordering", "partition")
    assert [(one.key, len(one.removed)) for one in planned.found] == [("a", 2), ("b", 1)]
    assert planned.dry_run
    assert planned.instant is None
    assert (stored(table), len(table.history())) == (before, commits)
    done = table.repair_keys(apply=True)
    assert (done.keys, done.rows_removed, done.found) == (2, 3, planned.found)
    assert stored(table) == [("x", "a", 5), ("x", "b", 1), ("x", "c", 1), ("x", "n", 1), ("y", "a", 1)]
    assert table.check().ok
    again = table.upsert(batch_of([Row(key, "x", 9, "9") for key in "abcnm"]))
    assert (again.inserts, again.updates) == (1, 4)
    assert table.repair_keys(apply=True).keys == 0
    if index.startswith("RECORD"):
        assert table.index_verify().ok


@pytest.mark.parametrize("index", GLOBAL)
@pytest.mark.few(2)
def test_a_repair_looks_into_every_partition_under_a_global_index(tmp_path: Path, index: str):
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    table.upsert(batch_of([*FIRST[:3], Row("d", "y", 1, "1")]))
    inserted(table, [Row("a", "y", 2, "2"), Row("d", "y", 0, "0")])
    inserted(table, [Row("a", "z", 0, "0"), Row("e", "z", 0, "0")])
    done = table.repair_keys(keep="oldest", apply=True)
    assert (done.keys, done.rows_removed, done.scope) == (2, 3, "table")
    assert stored(table) == [("x", "a", 1), ("x", "b", 1), ("x", "c", 1), ("y", "d", 1), ("z", "e", 0)]
    again = table.upsert(batch_of([Row(key, "z", 9, "9") for key in "abcde"]))
    assert (again.inserts, again.moved + again.updates) == (0, 5)
    assert table.check().ok
    if "RECORD" in index:
        assert table.index_verify().ok


def test_which_row_stays(tmp_path: Path):
    """By ordering the greatest value, whatever came last; by time the newest commit, and of its rows the last, though the
    file of an older one was written again since.
    """
    for keep, expected in (("ordering", 5), ("newest", 3), ("oldest", 1)):
        table = doubled(tmp_path / keep, "BLOOM", within=False)
        assert table.upsert(batch_of([Row("c", "x", 2, "2")])).updates == 1
        table.repair_keys(keep=keep, apply=True)
        assert [ts for day, key, ts in stored(table) if (day, key) == ("x", "a")] == [expected]
    plain = make_table(tmp_path / "plain", ordering=None)
    plain.upsert(batch_of(FIRST))
    inserted(plain, AGAIN)
    assert plain.repair_keys().keep == "newest"
    with pytest.raises(OptionError, match="no ordering field"):
        plain.repair_keys(keep="ordering")
    with pytest.raises(OptionError, match="keep cannot be 'best'"):
        plain.repair_keys(keep="best")


@pytest.mark.parametrize("version", some_of(["6", "8", "9"], {"9"}.__contains__, pytest.mark.slow))
def test_the_metadata_table_and_its_record_index_follow_a_repair(tmp_path: Path, version: str):
    """The index names one place of a key. After the repair it is the one that stays, though its file was not written."""
    for number, keep in enumerate(("oldest", "newest")):
        options = {"hoodie__write__table__version": version, "hoodie__index__type": "GLOBAL_SIMPLE"}
        table = make_table(tmp_path / f"t{number}", **options)
        table.upsert(batch_of([*FIRST[:3], Row("d", "y", 1, "1"), Row("e", "y", 1, "1")]))
        table.metadata_build(["record_index", "column_stats"])
        inserted(table, [Row("a", "x", 2, "2"), Row("b", "x", 2, "2"), Row("q", "x", 2, "2")])
        inserted(table, [Row("d", "z", 3, "3")])
        done = table.repair_keys(keep=keep, apply=True)
        assert (done.keys, done.rows_removed) == (3, 3)
        assert table.metadata_verify().ok
        assert table.check().ok
        with bound_to(table, "RECORD_INDEX"):  # asks the index of the metadata table
            again = table.upsert(batch_of([Row(key, "x", 9, "9") for key in "abcdeqn"]))
        assert (again.inserts, again.moved + again.updates) == (1, 6)
        assert table.check().ok


def test_of_the_rows_of_one_commit_the_last_one_stays(tmp_path: Path):
    """The tenth is behind the ninth, whatever their texts are."""
    table = make_table(tmp_path / "t", ordering=None)
    table.upsert(batch_of([Row("z", "x", 1, "1")]))
    inserted(table, [Row("a" if n in (9, 10) else f"k{n}", "x", n, str(n)) for n in range(12)])
    assert table.repair_keys(keep="newest", apply=True).rows_removed == 1
    assert [ts for _, key, ts in stored(table) if key == "a"] == [10]


def test_of_the_tasks_of_one_commit_the_last_one_counts_before_its_rows(tmp_path: Path):
    """By number, whatever their texts are, and wherever the rows lie in the file."""
    places = ["10_1", "9_7", "0_12", "10_0"]
    for keep, expected in (("newest", 0), ("oldest", 2)):
        table = make_table(tmp_path / keep, ordering=None)
        table.upsert(batch_of([Row("z", "x", 1, "1")]))
        inserted(table, [Row("a", "x", n, str(n)) for n in range(4)], places=places)
        assert table.repair_keys(keep=keep, apply=True).rows_removed == 3
        assert [ts for _, key, ts in stored(table) if key == "a"] == [expected]


def test_copies_with_virtual_keys_are_told_apart_by_their_files(tmp_path: Path):
    """Their rows do not say which commit wrote them."""
    for keep, expected in (("newest", 9), ("oldest", 1)):
        table = make_table(tmp_path / keep, ordering=None, hoodie__populate__meta__fields="false")
        table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]))
        for version in (5, 2, 7, 9):
            inserted(table, [Row("a", "x", version, "")])
        assert table.repair_keys(keep=keep, apply=True).rows_removed == 4
        assert sorted(zip(*(table.read(meta=False)[name].to_pylist() for name in ("id", "ts")), strict=True)) == [
            ("a", expected),
            ("b", 1),
        ]


@pytest.mark.parametrize(("index", "other"), [("BLOOM", "x"), ("GLOBAL_SIMPLE", "y")])
def test_two_repairs_at_once_leave_a_row_of_each_key(index: str, other: str):
    """Each takes out the copy that the other one keeps, and neither changes a file that the other one changes."""
    world = MemoryTable(index)
    world.upsert([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")])
    inserted(world.table, [Row("a", other, 5, "5")])
    done = world.once(writes_data, lambda: world.table.repair_keys(keep="oldest", apply=True, options=OVERTAKES))
    late = world.table.repair_keys(keep="newest", apply=True, progress=False)
    assert done
    assert (late.instant, late.rows_removed) == (None, 0)
    assert stored(world.table) == [("x", "a", 1), ("x", "b", 1)]
    assert world.table.check().ok
