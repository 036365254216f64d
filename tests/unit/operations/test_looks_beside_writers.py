"""What looks for faults, or reads, tells none where writers come between what it compares."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lakeindex.errors import WriteConflictError
from lakeindex.operations.check_violations import Broken
from lakeindex.storage.memory import Call
from tests.builders import Row
from tests.meanwhile import MemoryTable, When

FIRST = [Row("a", "x", 1, "1"), Row("b", "y", 1, "1")]
SECOND = [Row("a", "x", 2, "2"), Row("c", "z", 1, "1")]
LOOKS = {
    "check": lambda world: world.table.check().ok,
    "deep check": lambda world: world.table.check(deep=True).ok,
    "verify": lambda world: world.table.metadata_verify().ok,
}


def world_of() -> MemoryTable:
    world = MemoryTable.holding(FIRST)
    world.table.metadata_build(["column_stats"])
    world.upsert(SECOND)
    return world


def calls_of(world: MemoryTable, look: Callable[[MemoryTable], object]) -> int:
    before = world.store.calls
    look(world)
    return world.store.calls - before


def at_call(world: MemoryTable, number: int) -> When:
    """At the n-th call from now on."""
    first = world.store.calls
    return lambda call: call.number - first == number


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
@pytest.mark.few(1)
def test_no_fault_is_told_of_what_a_writer_did_at_any_call(look: Callable[[MemoryTable], bool]):
    world = world_of()
    objects = world.store.snapshot()
    found = []
    for number in range(1, calls_of(world, look) + 1, 7):  # tests/contract/test_turns.py has others
        world.store.restore(objects)
        done = world.once(at_call(world, number), lambda: world.upsert(FIRST))
        found.append((look(world), bool(done)))
        world.store.hook = None
    assert set(found) == {(True, True)}


def test_faults_that_are_there_are_told_beside_a_writer():
    world = world_of()
    (lost,) = [path for path in world.store.snapshot() if re.match(r"y/.*\.parquet", path)]
    world.store.delete(lost)
    done = world.once(lambda call: call.path.startswith("x"), lambda: world.upsert(SECOND))
    report = world.table.check()
    assert done
    assert (report.ok, {one.kind for one in report.violations} >= {Broken.MISSING_FILE}) == (False, True)
    assert not any("other writers" in note for note in report.notes)


@pytest.mark.few(0)
def test_a_table_that_never_stands_still_is_said_to_be_one():
    """Somebody writes in each look."""
    world = world_of()
    (lost,) = [path for path in world.store.snapshot() if re.match(r"y/.*\.parquet", path)]
    world.store.delete(lost)
    is_writing = False

    def hook(call: Call) -> None:
        nonlocal is_writing
        if not is_writing and call.name == "list" and call.path.startswith("x"):
            is_writing = True
            world.upsert(SECOND)
            is_writing = False

    world.store.hook = hook
    assert any("in each of 5 looks" in note for note in world.table.check().notes)
    with pytest.raises(WriteConflictError, match="in each of 5 looks"):
        world.table.metadata_verify()


def test_rows_are_read_while_the_metadata_table_is_dropped():
    world = world_of()
    objects, where = world.store.snapshot(), "ts >= 1 AND v != 'none'"
    calls = calls_of(world, lambda one: one.table.scan(where=where).to_arrow())
    for number in range(1, calls + 1):
        world.store.restore(objects)
        done = world.once(at_call(world, number), world.table.metadata_drop)
        assert world.table.scan(where=where).to_arrow().num_rows == 3
        assert done
        world.store.hook = None


def restored_beside(world: MemoryTable) -> list[Call]:
    """The metadata table knows of the last commit no more, when who has listed the timeline before asks it."""
    first = world.timeline().completed_writes[0].time
    return world.once(
        lambda call: call.name.startswith("list") and call.path.startswith(".hoodie/metadata/.hoodie"),
        lambda: world.table.restore(first),
    )


ROWS = {
    "count": lambda world: world.table.count(),
    "scan": lambda world: world.table.scan(where="ts >= 1").to_arrow().num_rows,
    "get": lambda world: world.table.get(["a", "b", "c"]).rows.num_rows,
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_of_a_commit_that_a_restore_takes_back_nobody_says_that_it_was_not_kept_up(rows: Callable[[MemoryTable], int]):
    world = world_of()
    done = restored_beside(world)
    assert rows(world) == 2
    assert done


PLANS: dict[str, tuple[str, Callable[[MemoryTable], object]]] = {
    "cluster": ("BLOOM", lambda world: world.table.cluster(dry_run=True)),
    "delete partitions by a condition": ("BLOOM", lambda world: world.table.delete(where="day = 'x'", dry_run=True)),
    "rescale": ("BUCKET", lambda world: world.table.rescale(8, dry_run=True)),
    "rescale a partition": ("BUCKET", lambda world: world.table.rescale(partitions={"x": 8}, dry_run=True)),
    "migrate to buckets": ("BLOOM", lambda world: world.table.index_migrate("BUCKET", dry_run=True)),
}


@pytest.mark.parametrize(("index", "plan"), PLANS.values(), ids=PLANS)
def test_what_is_planned_is_planned_anew_where_a_restore_takes_a_commit_back(
    index: str, plan: Callable[[MemoryTable], object]
):
    world = MemoryTable(index)
    world.upsert(FIRST)
    world.table.metadata_build(["column_stats"])
    world.upsert(SECOND)
    done = restored_beside(world)
    assert plan(world)
    assert done


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_a_savepoint_that_is_not_completed_hides_nothing_of_its_commit(version: str):
    """It has the commit's time; another program is at it, or was killed."""
    world = MemoryTable(hoodie__write__table__version=version)
    world.upsert(FIRST)
    if not world.table.metadata_status().partitions:
        world.table.metadata_build(["column_stats"])
    world.upsert(SECOND)
    instant = world.timeline().completed_writes[-1].time
    world.table.savepoint_create()
    (done,) = [path for path in world.store.snapshot() if path.endswith(".savepoint")]
    world.store.delete(done)
    assert any(path.endswith(f"{instant}.savepoint.inflight") for path in world.store.snapshot())
    assert world.table.count() == 3
    assert world.table.scan(where="ts >= 2").to_arrow().num_rows == 1
    assert world.table.check(deep=True).ok
    assert world.table.metadata_verify().ok
    assert world.upsert(FIRST).inserts == 0
    world.table.savepoint_create(instant)
    assert instant in world.timeline().savepoints
