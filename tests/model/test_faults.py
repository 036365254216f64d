"""Every storage call of every operation of the protocol fails once, in every way; running again makes it right."""

import time
from functools import cache
from itertools import count

import pytest
from msgspec.structs import replace

from lakeindex.commit.services.archive import archive_table
from lakeindex.commit.services.clean import clean_table
from lakeindex.commit.services.metadata_service import (
    archive_metadata_table,
    build_metadata_table,
    compact_metadata_table,
    drop_metadata_table,
)
from lakeindex.commit.services.restore import restore_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.commit.services.savepoints import create_savepoint, delete_savepoint, list_savepoints
from lakeindex.errors import MetadataTableError, UsageError
from lakeindex.format.java_properties import format_properties, parse_properties
from lakeindex.metadata.metadata_table import FILES
from lakeindex.metadata_upkeep.switch import METADATA_FOLDERS
from lakeindex.options.types import LockProvider
from lakeindex.storage.memory import Fault, MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.table.properties import metadata_table_of
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import Outcome, Verdict, decide
from tests.model.buckets import Rescale, check_buckets, counts_of, group_id
from tests.model.buckets import write as write_buckets
from tests.model.harness import Operation, count_calls, fail_every_call
from tests.model.scheduling import START_MS
from tests.model.shared_lock import SHARED
from tests.model.stories import BUCKET_GROUPS, BUCKET_ROWS, GROUPS, JANITOR
from tests.model.world import (
    CONFIG,
    PROPERTIES,
    Batch,
    PlainClock,
    archived_instants,
    check_metadata,
    check_table,
    file_id,
    initial_objects,
    live_rows,
    make_host,
    sweep_strays,
    upsert,
)
from tests.scheduling import some_of

BATCH = Batch("run", {"a1": "new", "x": "new"})
FIRST_BATCH = Batch("before", {"a1": "before", "w": "before"})
BASE = {key: value for group in GROUPS for key, value in group.items()}


_hosts = count()


def host(name: str = "h"):
    """Another process each time: its tokens are nobody else's."""
    return make_host(f"{name}{next(_hosts)}", PlainClock(START_MS), lambda _: False)


def prepare() -> dict[str, bytes]:
    return initial_objects(GROUPS)


def tidied(store: MemoryStorage) -> None:
    """The next run finishes what the last one left; the batch's own second run says that it is done, and no more."""
    upsert(store, JANITOR, host("janitor"))
    sweep_strays(Table.open(store), CONFIG, host("sweeper"))


def check_upserted(store: MemoryStorage) -> None:
    tidied(store)
    check_table(store, [BATCH, JANITOR], BASE, {})


UPSERT = Operation("upsert", prepare, lambda store: upsert(store, BATCH, host()), check_upserted)


def locking(provider: LockProvider) -> Operation:
    """An upsert that holds Hudi's lock, too: the next one clears what a failed one left of it."""
    config = replace(SHARED, lock_provider=provider)

    def run(store: MemoryStorage, batch: Batch = BATCH) -> str:
        clock = PlainClock(time.time_ns() // 1_000_000)  # the store's, by which a torn file expires
        return upsert(store, batch, make_host(f"h{next(_hosts)}", clock, lambda _: False), config=config)

    def check(store: MemoryStorage) -> None:
        run(store, JANITOR)
        left = store.snapshot()
        assert ".hoodie/lock" not in left
        assert b'"expired":false' not in left.get(".hoodie/.locks/table_lock.json", b"")
        check_upserted(store)

    name = f"upsert under the {provider.name} lock"
    return Operation(name, prepare, run, check)


LOCKED = [locking(provider) for provider in LockProvider]


def committed_table() -> dict[str, bytes]:
    store = MemoryStorage()
    store.restore(prepare())
    upsert(store, FIRST_BATCH, host())
    return store.snapshot()


def newest_commit(store: MemoryStorage) -> str:
    return Table.open(store).load_timeline().completed_writes[-1].time


def roll_back_newest(store: MemoryStorage) -> None:
    table = Table.open(store)
    target = "20260101000000000"
    try:
        rollback_instant(table, target, CONFIG, host=host())
    except UsageError:
        # A run that failed late had done it: the second one says that there is nothing left to roll back.
        assert target not in {one.time for one in table.load_timeline().completed_writes}


def check_rolled_back(store: MemoryStorage) -> None:
    upsert(store, FIRST_BATCH, host("again"))
    tidied(store)
    check_table(store, [FIRST_BATCH, JANITOR], BASE, {})


ROLLBACK = Operation("rollback", committed_table, roll_back_newest, check_rolled_back)


def table_with_metadata() -> dict[str, bytes]:
    extra = {
        "hoodie.table.metadata.partitions": "files,column_stats",
        "hoodie.table.metadata.partitions.inflight": "",
        "hoodie.table.index.defs.path": ".hoodie/.index_defs/index.json",
    }
    return prepare() | {
        ".hoodie/hoodie.properties": format_properties(PROPERTIES | extra),
        ".hoodie/.hoodie.properties.crc": b"crc\x00",
        ".hoodie/metadata/.hoodie/hoodie.properties": b"hoodie.table.name=model_metadata",
        ".hoodie/metadata/files/files-0000-0_0-1-2_3.hfile": b"x",
        ".hoodie/.index_defs/index.json": b"{}",
    }


def check_dropped(store: MemoryStorage) -> None:
    objects = store.snapshot()
    found = parse_properties(objects[".hoodie/hoodie.properties"])
    assert {key: found[key] for key in found if key != "hoodie.table.checksum"} == PROPERTIES
    assert not [path for path in objects if path.startswith(tuple(f"{folder}/" for folder in METADATA_FOLDERS))]
    assert not [path for path in objects if "properties.backup" in path or path.endswith(".crc") or "dropping" in path]
    check_upserted(store)


def drop_and_upsert(store: MemoryStorage) -> None:
    drop_metadata_table(Table.open(store), (), CONFIG, host=host())
    upsert(store, BATCH, host())


DROP = Operation("drop the metadata table", table_with_metadata, drop_and_upsert, check_dropped)


def build(store: MemoryStorage) -> None:
    """As often as somebody asks."""
    try:
        build_metadata_table(Table.open(store), CONFIG, (FILES,), host=host())
    except MetadataTableError:
        assert Table.open(store).properties.metadata_partitions == ("files",)


def kept(operation: Operation) -> Operation:
    """An operation on a table that has a metadata table: that is true before and after, whatever happens between."""

    def prepare() -> dict[str, bytes]:
        store = MemoryStorage()
        store.restore(operation.prepare())
        build(store)
        check_metadata(store)
        return store.snapshot()

    def check(store: MemoryStorage) -> None:
        operation.check(store)
        check_metadata(store)

    return Operation(f"{operation.name}, metadata table kept", prepare, operation.run, check)


def check_built(store: MemoryStorage) -> None:
    check_metadata(store)
    check_rolled_back(store)
    check_metadata(store)


BUILD = Operation("build the metadata table", committed_table, build, check_built)


def table_to_compact() -> dict[str, bytes]:
    store = MemoryStorage()
    store.restore(prepare())
    build(store)
    for number in range(3):
        upsert(store, Batch(f"h{number}", {"a1": str(number)}), host())
        compact(store)
    upsert(store, FIRST_BATCH, host())
    return store.snapshot()


def compact(store: MemoryStorage) -> None:
    compact_metadata_table(Table.open(store), CONFIG, host=host())


def check_compacted(store: MemoryStorage) -> None:
    """Also the last commit is in base files: taking it back needs entries that say so."""
    check_metadata(store)
    newest = Table.open(store).load_timeline().completed_writes[-1].time
    rollback_instant(Table.open(store), newest, CONFIG, host=host())
    check_metadata(store)
    upsert(store, BATCH, host("after"))
    check_metadata(store)


COMPACT = Operation("compact the metadata table", table_to_compact, compact, check_compacted)


def table_with_stray() -> dict[str, bytes]:
    objects = committed_table()
    name = next(path for path in objects if path.startswith("p/") and path.endswith("20260101000000000.parquet"))
    time = "20251231000000001"
    stray = name.replace("20260101000000000", time)
    proven = MemoryStorage()
    decide(proven, Verdict(time, Outcome.ROLLED_BACK, "token"))
    return objects | proven.snapshot() | {stray: b"{}", ".hoodie/.lakeindex/runs/dead/plan-000001.json": b"{}"}


def check_swept(store: MemoryStorage) -> None:
    check_table(store, [FIRST_BATCH], BASE, {})
    assert not [path for path in store.snapshot() if "/runs/dead/" in path]


SWEEP = Operation("sweep", table_with_stray, lambda store: sweep_strays(Table.open(store), CONFIG, host()), check_swept)


RESCALING = Rescale("rescale", {}, count=3)
LATER = Batch("later", {"n": "later", "b1": "later"})


def prepare_buckets() -> dict[str, bytes]:
    return initial_objects(BUCKET_GROUPS, group_id)


def check_rescaled(store: MemoryStorage) -> None:
    write_buckets(store, LATER, host("later"))
    sweep_strays(Table.open(store), CONFIG, host("sweeper"))
    check_table(store, [RESCALING, LATER], BUCKET_ROWS, {})
    check_buckets(store)
    assert len(counts_of(store)) == 3


def rescaled_table() -> dict[str, bytes]:
    store = MemoryStorage()
    store.restore(prepare_buckets())
    write_buckets(store, RESCALING, host())
    return store.snapshot()


def check_rescaling_rolled_back(store: MemoryStorage) -> None:
    assert set(counts_of(store)) == {group_id(0), group_id(1)}
    write_buckets(store, LATER, host("later"))
    check_buckets(store)
    check_table(store, [LATER], BUCKET_ROWS, {})


RESCALE = Operation("rescale", prepare_buckets, lambda store: write_buckets(store, RESCALING, host()), check_rescaled)
UNDO = Operation("rollback of a rescaling", rescaled_table, roll_back_newest, check_rescaling_rolled_back)


def table_with_history() -> dict[str, bytes]:
    """Four commits, and a file group that is rewritten by each."""
    store = MemoryStorage()
    store.restore(prepare())
    for number in range(3):
        upsert(store, Batch(f"h{number}", {"a1": str(number)}), host())
    return store.snapshot()


HISTORY = [Batch(f"h{number}", {"a1": str(number)}) for number in range(3)]


def restore_to(store: MemoryStorage, count: int) -> None:
    """Restore to the n-th commit of the table."""
    table = Table.open(store)
    to = table.load_timeline().completed_writes[count - 1].time
    restore_table(table, to, CONFIG, host=host())


def check_restored(store: MemoryStorage) -> None:
    """The batches that went are sent again; then there is what there was."""
    timeline = Table.open(store).load_timeline()
    assert not timeline.pending
    assert len(timeline.completed_writes) == 2
    assert live_rows(store)["a1"] == ["0"]
    for batch in HISTORY[1:]:
        upsert(store, batch, host("again"))
    tidied(store)
    check_table(store, [*HISTORY, JANITOR], BASE, {})


RESTORE = Operation("restore", table_with_history, lambda store: restore_to(store, 2), check_restored)


def check_undone_rescaling(store: MemoryStorage) -> None:
    """Replaced file groups live again, with the number of buckets that was in force."""
    check_rescaling_rolled_back(store)


def rescaled_and_written() -> dict[str, bytes]:
    store = MemoryStorage()
    store.restore(rescaled_table())
    write_buckets(store, FIRST_BATCH, host())
    return store.snapshot()


UNSCALE = Operation(
    "restore before a rescaling", rescaled_and_written, lambda store: restore_to(store, 1), check_undone_rescaling
)


def keep_newest(store: MemoryStorage) -> None:
    create_savepoint(Table.open(store), None, "me", "", CONFIG, host=host())


def check_kept(store: MemoryStorage) -> None:
    """A clean leaves what it names, and a restore brings it back."""
    table = Table.open(store)
    (kept,) = list_savepoints(table)
    assert kept.savepoint is not None
    assert sorted(kept.savepoint.files["p"]) == sorted(one.name for one in table.snapshot().base_files("p"))
    upsert(store, BATCH, host("later"))
    clean_table(table, 1, CONFIG, host=host("cleaner"))
    restore_table(table, kept.time, CONFIG, host=host("operator"))
    delete_savepoint(table, kept.time, CONFIG, host=host("operator"))
    tidied(store)
    check_table(store, [*HISTORY, JANITOR], BASE, {})


def savepointed_table() -> dict[str, bytes]:
    store = MemoryStorage()
    store.restore(table_with_history())
    keep_newest(store)
    return store.snapshot()


def delete_kept(store: MemoryStorage) -> None:
    """As an operator: what is gone needs no more."""
    table = Table.open(store)
    for one in list_savepoints(table):  # what is left of one that was deleted in part, too
        delete_savepoint(table, one.time, CONFIG, host=host())


def check_deleted(store: MemoryStorage) -> None:
    table = Table.open(store)
    delete_kept(store)
    assert not table.load_timeline().savepoints
    clean_table(table, 1, CONFIG, host=host("cleaner"))
    assert len([path for path in store.snapshot() if path.startswith(f"p/{file_id(0)}_")]) == 2


KEEP = Operation("make a savepoint", table_with_history, keep_newest, check_kept)
LET_GO = Operation("delete a savepoint", savepointed_table, delete_kept, check_deleted)


def check_cleaned(store: MemoryStorage) -> None:
    """Nothing pending, only what two commits need; and the table goes on."""
    timeline = Table.open(store).load_timeline()
    assert not timeline.pending
    assert len([path for path in store.snapshot() if path.startswith(f"p/{file_id(0)}_")]) == 3
    tidied(store)
    check_table(store, [*HISTORY, JANITOR], BASE, {})


def check_archived(store: MemoryStorage) -> None:
    """One entry in the archive for each instant that went; the table goes on, and the batches are still known."""
    timeline = Table.open(store).load_timeline()
    assert not timeline.pending
    assert len(timeline.completed_writes) == 2
    done = archived_instants(store)
    assert len(done) == len(set(done)) == 2
    before = live_rows(store)
    for batch in HISTORY:
        upsert(store, batch, host("again"))
    assert live_rows(store) == before
    upsert(store, JANITOR, host("janitor"))
    assert live_rows(store) == before | {"zz": ["janitor"]}


CLEAN = Operation(
    "clean",
    table_with_history,
    lambda store: clean_table(Table.open(store), 2, CONFIG, host=host()),
    check_cleaned,
)
ARCHIVE = Operation(
    "archive",
    table_with_history,
    lambda store: archive_table(Table.open(store), 2, CONFIG, host=host()),
    check_archived,
)


@cache
def table_with_long_metadata_timeline() -> dict[str, bytes]:
    store = MemoryStorage()
    store.restore(prepare())
    build(store)
    for number in range(30):
        upsert(store, Batch(f"h{number}", {"a1": str(number)}), host())
    compact(store)
    archive_table(Table.open(store), 3, CONFIG, host=host())
    return store.snapshot()


def archive_metadata(store: MemoryStorage) -> None:
    archive_metadata_table(Table.open(store), CONFIG, host=host())


def check_metadata_archived(store: MemoryStorage) -> None:
    """No delta commit is lost between timeline and archive, none is only begun, and what is left is still of use."""
    table = Table.open(store)
    metadata = metadata_table_of(store, table.properties)
    assert metadata is not None
    timeline = metadata.load_timeline()
    before = MemoryStorage()
    before.restore(table_with_long_metadata_timeline())
    known = Timeline.load(before, metadata.layout).completed_write_times
    assert known == timeline.completed_write_times | timeline.archived.writes
    assert not timeline.pending
    assert not timeline.archived.damaged
    assert len(timeline.completed_writes) <= len(known) - 10
    check_metadata(store)
    newest = table.load_timeline().completed_writes[-1].time
    rollback_instant(table, newest, CONFIG, host=host("operator"))
    check_metadata(store)
    upsert(store, BATCH, host("after"))
    check_metadata(store)


ARCHIVE_METADATA = Operation(
    "archive the metadata table", table_with_long_metadata_timeline, archive_metadata, check_metadata_archived
)
KEPT = tuple(kept(one) for one in (UPSERT, ROLLBACK, RESCALE, UNDO, CLEAN, RESTORE))


OPERATIONS = (
    *(UPSERT, *LOCKED, ROLLBACK, RESTORE, UNSCALE, KEEP, LET_GO, DROP, SWEEP, RESCALE, UNDO),
    *(CLEAN, ARCHIVE, BUILD, COMPACT, *KEPT, ARCHIVE_METADATA),
)


@pytest.mark.parametrize(
    ("first", "operation"),
    some_of(
        [(1 + number % 3, one) for number, one in enumerate(OPERATIONS)],
        lambda case: case[1] not in (*LOCKED[1:], *KEPT[1:], RESTORE, RESCALE),
        pytest.mark.model,
    ),
    ids=[one.name for one in OPERATIONS],
)
@pytest.mark.few(6)
def test_a_third_of_the_calls_may_fail_in_every_way(operation: Operation, first: int) -> None:
    report = fail_every_call(operation, every=11 if operation is ARCHIVE_METADATA else 3, first=first)
    assert report.outcomes["fine"] > 0


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_every_call_may_fail_in_every_way(operation: Operation) -> None:
    report = fail_every_call(operation)
    assert report.histories >= report.calls
    assert report.outcomes["fine"] > 0


def test_a_torn_data_file_is_never_committed() -> None:
    store = MemoryStorage()
    store.restore(prepare())
    torn: list[str] = []

    def hook(call: object) -> Fault | None:
        path = getattr(call, "path", "")
        if path.endswith(".parquet") and getattr(call, "name", "") == "write":
            torn.append(path)
            return Fault.TORN
        return None

    store.hook = hook
    with pytest.raises(Exception, match="torn"):
        upsert(store, BATCH, host())
    store.hook = None
    assert torn
    assert live_rows(store) == {key: [value] for key, value in BASE.items()}


def test_the_harness_counts_and_checks() -> None:
    assert count_calls(UPSERT) > 50


def test_the_harness_can_fail() -> None:
    def forgetful(store: MemoryStorage) -> None:
        store.write("half", b"1")
        store.write("other half", b"2")

    def check(store: MemoryStorage) -> None:
        assert store.snapshot().get("half") == b"1"
        assert "leak" not in store.snapshot()

    fine = Operation("two writes", dict, forgetful, check)
    assert fail_every_call(fine).histories == 6

    def leaky(store: MemoryStorage) -> None:
        if "half" in store.snapshot():
            store.write("leak", b"")
        forgetful(store)

    with pytest.raises(AssertionError, match=r"two writes: call 1 .write half. failed with done but failed"):
        fail_every_call(Operation("two writes", dict, leaky, check))


def test_extra_metadata_tells_whose_commit_it_is() -> None:
    store = MemoryStorage()
    store.restore(prepare())
    instant = upsert(store, BATCH, host())
    timeline = Table.open(store).load_timeline()
    commit = timeline.completed_write(instant)
    assert commit is not None
    extra = timeline.commit_metadata(store, commit).extra_metadata
    assert extra["lakeindex.run_id"] == "run"
    assert extra["lakeindex.batch_id"] == "batch of run"
    assert extra["lakeindex.input_digest"] == "d1"
    assert extra["lakeindex.attempt"]
    assert extra["schema"] == "{}"
