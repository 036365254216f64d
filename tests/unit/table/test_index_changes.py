"""The index in force: as bound, or as the newest change whose instant counts says."""

import pytest

from lakeindex.errors import InvariantError, TableCorruptError, TimelineChangedError
from lakeindex.format.instants import completed_name, requested_name
from lakeindex.model import IndexSpec, IndexType
from lakeindex.storage.memory import Call, Fault, MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.table.index_changes import (
    changed_index,
    every_index,
    forget_dead_changes,
    index_change_path,
    index_in_force,
    index_record,
    store_index_change,
)
from lakeindex.timeline.avro_instants import RollbackMetadata, format_rollback_metadata
from lakeindex.timeline.verdicts import Outcome, Verdict, decide
from tests.unit.commit.protocol_support import BATCH, FIRST, World

COUNT = "hoodie.bucket.index.num.buckets"
BOUND = IndexSpec(IndexType.BLOOM)
LATER, NEWEST, OLDER = "20260101000000000", "20260102000000000", "20250101000000000"


def buckets(count: int) -> IndexSpec:
    return IndexSpec(IndexType.BUCKET, ((COUNT, str(count)),))


def put(store: MemoryStorage, time: str, count: int, *, completed: bool = True) -> None:
    store.write(f".hoodie/{requested_name(time, 'replacecommit')}", b"")
    if completed:
        store.write(f".hoodie/{completed_name(time, 'replacecommit')}", b'{"partitionToWriteStats": {}}')
    store_index_change(store, time, index_record(buckets(count)))


def in_force(store: MemoryStorage) -> IndexSpec:
    return index_in_force(store, Table.open(store).load_timeline(), BOUND)


def test_without_a_change_it_is_what_is_bound() -> None:
    store = World().store
    assert in_force(store) == BOUND
    assert changed_index(store, Table.open(store).load_timeline) is None


def test_the_newest_completed_change_counts() -> None:
    store = World().store
    put(store, LATER, 8)
    assert in_force(store) == buckets(8)
    put(store, NEWEST, 16, completed=False)
    assert in_force(store) == buckets(8)
    store.write(f".hoodie/{completed_name(NEWEST, 'replacecommit')}", b'{"partitionToWriteStats": {}}')
    assert in_force(store) == buckets(16)
    assert changed_index(store, Table.open(store).load_timeline) == buckets(16)


def test_a_change_that_is_rolled_back_while_it_is_read_is_no_damage() -> None:
    store = World().store
    put(store, LATER, 8)
    timeline = Table.open(store).load_timeline()

    def roll_back(call: Call) -> Fault | None:
        if call.name == "read" and call.path == index_change_path(LATER):
            store.hook = None
            store.delete(call.path)
        return None

    store.hook = roll_back
    with pytest.raises(TimelineChangedError, match=LATER):
        index_in_force(store, timeline, BOUND)


def test_a_change_of_an_archived_instant_counts() -> None:
    store = World().store
    store_index_change(store, OLDER, index_record(buckets(8)))
    assert OLDER < FIRST
    assert in_force(store) == buckets(8)


def test_every_index_that_there_was_is_told_and_no_checksum_beside() -> None:
    """Whether or not it is in force: a row may lie where one of them left it."""
    store = World().store
    put(store, LATER, 8)
    put(store, NEWEST, 16, completed=False)
    store_index_change(store, OLDER, index_record(buckets(2)))
    store.write(f".hoodie/.lakeindex/buckets/.{LATER}.json.crc", b"crc")
    assert every_index(store, BOUND) == [BOUND, buckets(2), buckets(8), buckets(16)]
    assert in_force(store) == buckets(8)


def test_a_change_of_an_undone_instant_is_removed_and_no_other() -> None:
    world = World()
    store = world.store
    put(store, LATER, 8)
    put(store, NEWEST, 16, completed=False)
    store_index_change(store, OLDER, index_record(buckets(2)))
    gone, undone = "20260103000000000", ("20250101000000001", "20250101000000002", "20260104000000000")
    for time in (gone, *undone):
        store_index_change(store, time, index_record(buckets(4)))
    for time in undone:
        decide(store, Verdict(time, Outcome.ROLLED_BACK, "token"))
    forget_dead_changes(store, Table.open(store).load_timeline)
    left = {path.rpartition("/")[2] for path in store.snapshot() if "/buckets/" in path}
    assert left == {f"{time}.json" for time in (LATER, NEWEST, OLDER, gone)}, "of that nothing is proven"
    assert in_force(store) == buckets(8), "but it does not count"


def test_our_next_write_removes_what_another_writer_undid() -> None:
    world = World()
    store_index_change(world.store, "20250601000000000", index_record(buckets(4)))
    store_index_change(world.store, "20251231000000001", index_record(buckets(4)))
    undone = RollbackMetadata("20251231000000002", "20251231000000001", "replacecommit")
    world.store.write(".hoodie/20251231000000002.rollback", format_rollback_metadata(undone))
    world.upsert(BATCH)
    assert index_change_path("20251231000000001") not in world.store.snapshot()
    assert index_change_path("20250601000000000") in world.store.snapshot()


def test_storing_again_changes_nothing_and_another_change_is_refused() -> None:
    store = MemoryStorage()
    store_index_change(store, LATER, index_record(buckets(4)))
    store_index_change(store, LATER, index_record(buckets(4)))
    with pytest.raises(InvariantError, match=LATER):
        store_index_change(store, LATER, index_record(buckets(8)))


@pytest.mark.parametrize(
    "data", [b"{", b"{}", b'{"index_type": "NEW", "options": {}}', b'{"index_type": "BUCKET", "options": 3}']
)
def test_a_damaged_change_is_named(data: bytes) -> None:
    store = World().store
    put(store, LATER, 8)
    store.write(index_change_path(LATER), data)
    with pytest.raises(TableCorruptError, match=LATER):
        in_force(store)
