"""What several runs tell a stored index, at once or one after the death of another: its deltas count in the order of their instants."""

from collections.abc import Callable

import pytest

from lakeindex.errors import StorageError
from lakeindex.index.locations.change_log import ChangeLog, CoveredFile, Delta, instant_of
from lakeindex.index.locations.stored_index import DELTA_SCHEMA
from lakeindex.model import IndexType
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from tests.builders import Row, rows_of
from tests.meanwhile import MemoryTable, writes_data
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
