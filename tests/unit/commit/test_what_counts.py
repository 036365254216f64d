"""What is part of the table: after archiving, savepoints, restores, and rollbacks that come too late."""

import io
from collections.abc import Callable, Mapping

import fastavro
import pytest

from lakeindex.commit.ledger import find_batch
from lakeindex.commit.services.archive import archive_table, archived_lately
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.commit.sweep import find_strays
from lakeindex.errors import FencedError, TableUnsupportedError
from lakeindex.storage.memory import MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.table.index_changes import index_in_force, index_record, store_index_change
from lakeindex.timeline.archived_timeline import load_archived_timeline
from lakeindex.timeline.avro_schemas import ROLLBACK_METADATA
from tests.model.world import CONFIG, Batch, file_id, initial_objects, live_rows, sweep_strays
from tests.unit.commit.protocol_support import FIRST, GROUPS, World
from tests.unit.commit.savepoints import savepoint_bytes
from tests.unit.table.test_index_changes import BOUND, buckets
from tests.unit.timeline.archives import ARCHIVE, put_log


@pytest.fixture
def history(world: World) -> list[str]:
    rows: list[Mapping[str, str]] = [{"a1": "1"}, {"a2": "2", "new": "2"}, {"b1": "3"}, {"a1": "4"}]
    return [FIRST, *(world.upsert(Batch(f"run {n}", one)) for n, one in enumerate(rows))]


def save(world: World, *times: str) -> None:
    for time in times:
        world.store.write(f".hoodie/{time}.savepoint.inflight", b"")
        world.store.write(f".hoodie/{time}.savepoint", savepoint_bytes({}))


def take_off(world: World, *times: str) -> None:
    """Instants leave the timeline."""
    for name in world.names():
        if name.partition(".")[0] in times:
            world.store.delete(f".hoodie/{name}")


def archive_beyond(world: World, *times: str) -> None:
    """Hudi's ``hoodie.archive.beyond.savepoint``: instants go though an older one is savepointed."""
    put_log(world.store, times)
    take_off(world, *times)


def test_all_commits_are_savepointed_and_the_older_ones_archived(world: World, history: list[str]) -> None:
    """Nightly savepoints do this. 25 of 105 rows were read, and the next upsert doubled keys."""
    before = live_rows(world.store)
    archive_table(Table.open(world.store), 2, CONFIG, host=world.host("archiver"))
    save(world, *history[3:])
    assert live_rows(world.store) == before
    world.upsert(Batch("after", {"a2": "9", "b1": "9"}))
    assert live_rows(world.store) == {**before, "a2": ["9"], "b1": ["9"]}


def test_commits_archived_beyond_a_savepoint_are_part_of_the_table(world: World, history: list[str]) -> None:
    before = live_rows(world.store)
    save(world, history[0])
    archive_beyond(world, *history[1:4])
    assert live_rows(world.store) == before
    assert find_strays(Table.open(world.store)) == ()
    files = {path for path in world.store.snapshot() if path.endswith(".parquet")}
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    assert files <= set(world.store.snapshot())
    world.upsert(Batch("after", {"a1": "9"}))
    assert live_rows(world.store) == {**before, "a1": ["9"]}


def test_a_rescale_archived_beyond_a_savepoint_stays_in_force(world: World, history: list[str]) -> None:
    store_index_change(world.store, history[2], index_record(buckets(8)))
    save(world, history[0])
    archive_beyond(world, *history[1:4])
    assert index_in_force(world.store, Table.open(world.store).load_timeline(), BOUND) == buckets(8)


def test_an_archived_rescale_stays_in_force_when_all_that_is_left_is_savepointed(
    world: World, history: list[str]
) -> None:
    store_index_change(world.store, history[1], index_record(buckets(8)))
    archive_table(Table.open(world.store), 2, CONFIG, host=world.host("archiver"))
    save(world, *history[3:])
    assert index_in_force(world.store, Table.open(world.store).load_timeline(), BOUND) == buckets(8)


RESTORE = {
    "type": "record",
    "name": "HoodieRestoreMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "startRestoreTime", "type": "string"},
        {"name": "timeTakenInMillis", "type": "long"},
        {"name": "instantsToRollback", "type": {"type": "array", "items": "string"}},
        {
            "name": "hoodieRestoreMetadata",
            "type": {"type": "map", "values": {"type": "array", "items": ["null", ROLLBACK_METADATA]}},
        },
    ],
}


def restore(world: World, time: str, *undone: str) -> None:
    """What Hudi's restore to a savepoint does to the newest commits."""
    for path in list(world.store.snapshot()):
        if path.endswith(".parquet") and any(f"_{one}." in path for one in undone):
            world.store.delete(path)
    take_off(world, *undone)
    record = {
        "startRestoreTime": time,
        "timeTakenInMillis": 1,
        "instantsToRollback": list(undone),
        "hoodieRestoreMetadata": {},
    }
    out = io.BytesIO()
    fastavro.writer(out, RESTORE, [record])
    world.store.write(f".hoodie/{time}.restore.inflight", b"")
    world.store.write(f".hoodie/{time}.restore", out.getvalue())


@pytest.mark.parametrize("archived", ["with an archive", "without its archive"])
def test_a_batch_whose_commit_was_restored_away_may_come_again(world: World, history: list[str], archived: str) -> None:
    """The instant is older than the timeline in the end: the archive, or the restore, tells that it was never archived."""
    save(world, history[2])
    restore(world, str(int(history[4]) + 1), history[3], history[4])
    store_index_change(world.store, history[3], index_record(buckets(8)))
    table = Table.open(world.store)
    assert find_batch(world.store, table.load_timeline(), "batch of run 2") is None
    take_off_savepoints(world)
    world.clock.sleep(1)
    later = [world.upsert(Batch(f"later {n}", {"a1": f"later {n}"})) for n in range(3)]
    archive_table(table, 1, CONFIG, host=world.host("archiver"))
    if archived == "without its archive":
        for one in world.store.list(".hoodie/archived"):
            world.store.delete(one.path)
    timeline = table.load_timeline()
    assert timeline.first_write_time == later[-1]
    assert find_batch(world.store, timeline, "batch of run 2") is None
    assert index_in_force(world.store, timeline, BOUND) == BOUND
    entry = find_batch(world.store, timeline, "batch of run 0")
    assert entry is not None
    assert entry.instant == history[1]
    world.upsert(Batch("run 2", {"b1": "3"}), "again")
    assert live_rows(world.store)["b1"] == ["3"]


def take_off_savepoints(world: World) -> None:
    for name in world.names():
        if ".savepoint" in name:
            world.store.delete(f".hoodie/{name}")


def test_the_last_commit_of_an_archived_timeline_is_not_rolled_back(world: World, history: list[str]) -> None:
    """It left an empty table, and the next upsert doubled every key."""
    archive_table(Table.open(world.store), 1, CONFIG, host=world.host("archiver"))
    before = live_rows(world.store)
    with pytest.raises(TableUnsupportedError, match="last commit on the timeline"):
        rollback_instant(Table.open(world.store), history[-1], CONFIG, host=world.host("operator"))
    assert live_rows(world.store) == before


def test_nor_the_last_one_that_a_killed_archiving_left_whole(world: World, history: list[str]) -> None:
    put_log(world.store, history[:-1])
    with pytest.raises(TableUnsupportedError, match="last commit on the timeline"):
        rollback_instant(Table.open(world.store), history[-1], CONFIG, host=world.host("operator"))


class Meanwhile(MemoryStorage):
    """Something happens right before a file is created whose name has a certain text."""

    def when(self, text: str, then: Callable[[], object]) -> None:
        self._text, self._then = text, then

    def create(self, path: str, data: bytes) -> None:
        if getattr(self, "_text", None) and self._text in path:
            then, self._text = self._then, ""
            then()
        super().create(path, data)


@pytest.fixture
def slow() -> World:
    world = World()
    world.store = Meanwhile(now_ms=world.clock.now_ms)
    world.store.restore(initial_objects(GROUPS))
    return world


def outlive(world: World, then: Callable[[], object]) -> Callable[[], object]:
    """The rollback stalls for longer than lease and grace; another writer goes on."""

    def stall() -> None:
        world.clock.sleep(60)
        then()

    return stall


def test_a_rollback_that_stalls_before_it_is_decided_loses(slow: World) -> None:
    undone = slow.upsert(Batch("one", {"a1": "1", "new": "1"}))
    assert isinstance(slow.store, Meanwhile)
    slow.store.when(
        f"verdicts/{undone}.rollback-", outlive(slow, lambda: slow.upsert(Batch("two", {"a1": "2"}), "second"))
    )
    with pytest.raises(FencedError, match="lost the table's lock"):
        rollback_instant(Table.open(slow.store), undone, CONFIG, host=slow.host("operator"))
    rows = live_rows(slow.store)
    assert (rows["a1"], rows["new"]) == (["2"], ["1"])


def test_a_rollback_that_stalls_after_it_was_decided_is_carried_out_by_the_next_writer(slow: World) -> None:
    undone = slow.upsert(Batch("one", {"a1": "1", "new": "1"}))
    assert isinstance(slow.store, Meanwhile)
    slow.store.when(f"instants/{undone}.json", outlive(slow, lambda: slow.upsert(Batch("two", {"a1": "2"}), "second")))
    rollback_instant(Table.open(slow.store), undone, CONFIG, host=slow.host("operator"))
    rows = live_rows(slow.store)
    assert rows["a1"] == ["2"]
    assert "new" not in rows
    assert slow.upsert(Batch("one", {"a1": "1", "new": "1"}), "third") > undone
    assert live_rows(slow.store)["new"] == ["1"]


def test_what_a_zombie_writes_of_an_instant_that_was_rolled_back_is_never_seen(world: World) -> None:
    """On a young table nothing on the timeline is older than the instant: Hudi takes its files for archived ones."""
    world.store.restore({path: data for path, data in world.store.snapshot().items() if FIRST not in path})
    undone = world.upsert(Batch("first", {"k": "1"}))
    rollback_instant(Table.open(world.store), undone, CONFIG, host=world.host("operator"))
    world.upsert(Batch("second", {"k": "2"}))
    assert Table.open(world.store).load_timeline().first_write_time > undone
    zombie = f"p/{file_id(9)}_0-0-0_{undone}.parquet"
    world.store.write(zombie, b'{"k": "zombie"}')
    assert live_rows(world.store) == {"k": ["2"]}
    world.upsert(Batch("third", {"k": "3"}))
    assert live_rows(world.store) == {"k": ["3"]}
    assert zombie not in world.store.snapshot(), "and the next write into its partition takes it away"


def test_the_archive_of_another_table_at_the_same_url_is_not_taken_for_this_one() -> None:
    """Made anew within one process, or at another endpoint: the logs have one name, and often one size."""
    for at_ms, time in ((1, FIRST), (2, "20250101000000000")):
        store = MemoryStorage("same", now_ms=lambda at_ms=at_ms: at_ms)
        put_log(store, [time])
        assert load_archived_timeline(store, ARCHIVE).writes == {time}


def test_an_archived_log_with_other_fields_is_damaged(world: World) -> None:
    """A bit of the schema in it has flipped: it was a KeyError for whoever asked for the archive."""
    put_log(world.store, [FIRST], rolled_back=[("20250102000000000", "20250101000000000")])
    (log,) = world.store.list(ARCHIVE)
    whole = world.store.read(log.path)
    world.store.write(log.path, whole.replace(b'"partitionMetadata"', b'"partitionMetadatb"'))
    assert load_archived_timeline(world.store, ARCHIVE).damaged == (log.path,)
    world.store.write(log.path, whole.replace(b'"actionState"', b'"actionStatf"'))
    assert archived_lately(Table.open(world.store)) == frozenset()
