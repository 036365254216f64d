"""What several runs tell a stored index, at once or one after the death of another: its deltas count in the order of their instants."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pyarrow as pa
import pytest

from lakeindex.errors import IndexChangedError, LockTimeoutError, StorageError, WriteConflictError
from lakeindex.index.locations.change_log import ChangeLog, CoveredFile, Delta, catch_up_name, instant_of
from lakeindex.index.locations.stored_index import DELTA_SCHEMA, Change
from lakeindex.model import IndexType
from lakeindex.operations.index import OpenedIndex, build_index, compact_index, opened_index
from lakeindex.operations.table_services import rollback_table
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, rows_of
from tests.meanwhile import OVERTAKES, MemoryTable, writes_data
from tests.stored_indexes import unseen

FIRST = [Row("a", "x", 1, "1")]
APART = {"hoodie__parquet__small__file__limit": "0"}
FOLD = {"hoodie__metadata__compact__max__delta__commits": "1"}


@pytest.mark.parametrize("day", ["x", "y", "z"])
@pytest.mark.parametrize("index", ["RECORD_INDEX", "RECORD_LEVEL_INDEX"])
def test_a_key_that_came_and_went_while_a_write_was_made_is_found_where_that_put_it(index: str, day: str):
    """Those that began later have said that it is nowhere."""
    world = MemoryTable.holding(FIRST, index=index)

    def others() -> None:
        world.upsert([Row("n", day, 2, "2"), Row("m", day, 2, "2")], **APART)
        world.upsert([Row("n", day, 3, None, deleted=True)], **APART)

    done = world.once(writes_data, others)
    ours = world.upsert([Row("n", "z", 4, "4"), Row("a", "x", 4, "4")], **APART)
    assert done
    assert len(world.rollbacks()) == (1 if index == "RECORD_INDEX" or day == "z" else 0)
    assert (ours.inserts, ours.updates) == (1, 1)
    again = world.upsert([Row("n", "z", 5, "5")], **APART)
    assert (again.inserts, again.updates) == (0, 1)
    assert sorted((row["id"], row["v"]) for row in rows_of(world.table)) == [("a", "4"), ("m", "2"), ("n", "5")]
    assert world.table.index_verify().ok


def test_writes_that_change_other_keys_are_in_nobodys_way():
    world = MemoryTable.holding(FIRST, index="RECORD_INDEX")

    def others() -> None:
        world.upsert([Row("m", "y", 2, "2")])

    done = world.once(writes_data, others)
    world.upsert([Row("n", "z", 4, "4")])
    assert done
    assert not world.rollbacks()
    assert world.table.index_verify().ok
    assert {row["id"] for row in world.table.get(["a", "m", "n"]).rows.to_pylist()} == {"a", "m", "n"}


@pytest.mark.parametrize("times", [1, 9])
def test_keys_are_known_though_others_enter_those_of_an_older_snapshot_behind_them(times: int):
    """A write that began before the newest one was completed since; who has not seen that enters the file before it."""
    world = MemoryTable.holding(FIRST, index="RECORD_INDEX")
    unseen(world.table, "GLOBAL_SIMPLE", [Row("n", "x", 2, "2")])
    (file,) = Table.open(world.store).snapshot().base_files("x")
    log = ChangeLog(world.store, IndexType.RECORD_INDEX)
    others: list[str] = []

    def hook(call: Call) -> None:
        """Before the log is listed again, when keys were entered."""
        entered = [path for path in world.store.snapshot() if ".c-" in path and "/log/" in path]
        if call.name == "list_folder" and call.path.endswith("/log") and len(entered) > 2 * len(others) < 2 * times:
            name = entered[-1].rpartition("/")[2].removesuffix(".parquet")
            others.append(f"{name[:-12]}{'z' * 12}")
            older = CoveredFile("x", file.file_id, "older", 0)
            log.put(Delta(others[-1], (older,), (), (older.group,)), [DELTA_SCHEMA.empty_table()])

    world.store.hook = hook
    done = world.upsert([Row("n", "x", 3, "3"), Row("a", "x", 3, "3")])
    assert len(others) == times
    assert instant_of(others[0]) == world.table.history()[1].instant
    assert (done.inserts, done.updates) == (0, 2)
    assert world.table.index_verify().ok


def leave_deltas(world: MemoryTable) -> None:
    """Of what was built the list is lost: the log has deltas of which nobody knows what was built of them."""
    for path in [one for one in world.store.snapshot() if "/built-" in one]:
        world.store.write(path, b"torn")


def die_behind_the_list(world: MemoryTable) -> None:
    """A build that died when what it built was in force, and nothing of before was removed."""
    world.store.hook = lambda call: Fault.ERROR if call.name == "delete" and "/index/" in call.path else None
    with pytest.raises(StorageError):
        world.table.index_build()
    world.store.hook = None


@pytest.mark.parametrize("before", [leave_deltas, die_behind_the_list])
def test_what_is_built_stands_above_all_that_was_told_before(before: Callable[[MemoryTable], None]):
    """A key that was deleted then, and has come again since."""
    world = MemoryTable.holding(FIRST, index="RECORD_INDEX")
    world.upsert([Row("a", "x", 2, None, deleted=True), Row("b", "x", 2, "2")], **FOLD)
    unseen(world.table, "GLOBAL_SIMPLE", [Row("a", "x", 3, "3")], **APART)
    before(world)
    if before is leave_deltas:
        assert world.table.index_build().rows == 2
    done = world.upsert([Row("a", "x", 4, "4"), Row("b", "x", 4, "4")])
    assert (done.inserts, done.updates) == (0, 2)
    assert world.table.index_verify().ok


def session_of(world: MemoryTable) -> AbstractContextManager[OpenedIndex]:
    """The index of a table, as a command opens it."""
    table = Table.open(world.store)
    snapshot = table.snapshot()
    spec = table.index(snapshot.timeline)
    assert spec is not None
    return opened_index(table, snapshot, spec, LocalRunner(1), f"memory://{world.name}-runs", {})


def rows_of_delta(*keys: str) -> list[pa.Table]:
    n = len(keys)
    columns = [list(keys), ["x"] * n, ["f-0"] * n, pa.array([int(Change.INSERT)] * n, pa.int8())]
    return [pa.table(columns, schema=DELTA_SCHEMA)]


def test_in_the_way_of_a_commit_is_a_later_one_that_is_completed_and_no_catch_up():
    world = MemoryTable.holding(FIRST, index="RECORD_INDEX")
    later = world.upsert([Row("b", "x", 2, "2")]).instant
    assert later is not None
    log, ours = ChangeLog(world.store, IndexType.RECORD_INDEX), "20200101000000000"
    log.put(Delta(ours), rows_of_delta("n"))
    for at in (later, "20200101000000001"):  # or of one that was archived since
        log.put(Delta(catch_up_name(at, ())), rows_of_delta("n"))
    log.put(Delta("20990101000000000"), rows_of_delta("n"))
    with session_of(world) as opened:
        timeline = world.timeline()
        opened.session.check_order(ours, timeline)
        log.put(Delta(later), rows_of_delta("m", "n"))
        with pytest.raises(WriteConflictError, match=f"{later} has changed a key of {ours} meanwhile"):
            opened.session.check_order(ours, timeline)


def commits(call: Call) -> bool:
    """A commit is about to be completed: what it tells the index is in the log."""
    return call.name == "create" and call.path.endswith(".commit")


@pytest.mark.parametrize("others", [compact_index, build_index])
def test_what_a_commit_tells_that_is_just_being_made_is_neither_taken_back_nor_taken_in(others: Callable[..., object]):
    world = MemoryTable.holding(FIRST, index="RECORD_INDEX")
    runs = f"memory://{world.name}-runs"
    done = world.once(commits, lambda: others(world.table.uri, LocalRunner(1), runs, options=OVERTAKES))
    instant = world.upsert([Row("a", "x", 2, None, deleted=True), Row("n", "x", 2, "2")]).instant
    assert done
    assert world.table.index_status().files_behind == 0
    assert world.upsert([Row("n", "x", 3, "3"), Row("a", "x", 3, "3")]).inserts == 1
    names = ChangeLog(world.store, IndexType.RECORD_INDEX).names()
    assert instant in names
    assert not [one for one in names if ".c-" in one]
    assert world.table.index_verify().ok


def test_what_was_folded_before_counts_no_more_where_a_compaction_died_before_it_tidied():
    world = MemoryTable.holding(FIRST, index="RECORD_INDEX")
    world.upsert([Row("a", "x", 2, None, deleted=True), Row("b", "x", 2, "2")], **FOLD)
    world.store.hook = lambda call: Fault.ERROR if call.name == "delete" and "/index/" in call.path else None
    world.upsert([Row("a", "x", 3, "3")], **FOLD)
    world.store.hook = None
    state = ChangeLog(world.store, IndexType.RECORD_INDEX).at(world.timeline())
    assert (len(state.names), state.in_force, state.broken) == (3, (), ())
    assert world.table.index_status().files_behind == 0


def test_an_index_begins_empty_under_the_lock_and_once():
    world = MemoryTable("RECORD_INDEX")

    def others() -> None:
        with pytest.raises(LockTimeoutError):
            world.upsert(FIRST)

    done = world.once(lambda call: call.name == "create" and "/built-" in call.path, others)
    world.upsert(FIRST)
    assert done


def test_a_build_of_what_is_older_than_the_index_in_force_is_begun_anew():
    world = MemoryTable.holding(FIRST, index="RECORD_INDEX")
    with session_of(world) as opened:
        last = world.upsert([Row("n", "x", 2, "2")], **FOLD).instant
        with pytest.raises(IndexChangedError):
            opened.session.build(opened.snapshot)
    rollback_table(world.table.uri, str(last))
    assert world.table.index_build().rows == 1


@pytest.mark.parametrize("by", [compact_index, build_index])
def test_what_is_put_again_when_it_was_folded_and_forgotten_counts_no_more(by: Callable[..., object]):
    """Whoever put it stood still in the middle of the call, and others are two compactions ahead."""
    world = MemoryTable.holding(FIRST, index="RECORD_INDEX")
    gone = world.upsert([Row("a", "x", 2, None, deleted=True), Row("b", "x", 2, "2")], **FOLD).instant
    path = f"{ChangeLog(world.store, IndexType.RECORD_INDEX).folder}/log/{gone}.parquet"
    data = world.store.read(path)
    for version in (3, 4, 5):
        world.upsert([Row("a", "x", version, "v"), Row(f"n{version}", "x", version, "v")], **FOLD, **APART)
    by(world.table.uri, LocalRunner(1), f"memory://{world.name}-runs")
    assert path not in world.store.snapshot()
    world.store.write(path, data)
    done = world.upsert([Row("a", "x", 6, "6"), Row("b", "x", 6, "6")])
    assert (done.inserts, done.updates) == (0, 2)
    assert world.table.index_verify().ok
