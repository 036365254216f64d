"""The power is cut before every storage call of every operation of the protocol; running again makes it right."""

import os
from dataclasses import replace

import pytest

from lakeindex.format.instants import parse_instant
from lakeindex.metadata_upkeep.switch import NOTE
from lakeindex.storage.memory import Call, MemoryStorage
from lakeindex.table.property_keys import PROPERTIES_BACKUP_PATH, PROPERTIES_PATH
from lakeindex.timeline.verdicts import load_verdict
from tests.model.harness import Operation, count_calls
from tests.model.power import DiskStorage, Machine, cut_power_everywhere
from tests.model.test_faults import (
    ARCHIVE,
    ARCHIVE_METADATA,
    BUILD,
    CLEAN,
    COMPACT,
    DROP,
    FIRST_BATCH,
    KEEP,
    KEPT,
    LET_GO,
    LOCKED,
    RESCALE,
    RESTORE,
    ROLLBACK,
    SWEEP,
    UNDO,
    UNSCALE,
    UPSERT,
    build,
    host,
)
from tests.model.world import LAYOUT, upsert
from tests.scheduling import some_of

SEEDS = int(os.environ.get("LAKEINDEX_POWER_SEEDS", "4"))
"""Random subsets of what was not synced, a power cut, beside the three plain ones."""


def swept_again(store: MemoryStorage) -> None:
    """Records of a dead run that were deleted, and not synced, may be back: the next sweep finds them."""
    SWEEP.run(store)
    SWEEP.check(store)


OPERATIONS = (
    *(UPSERT, ROLLBACK, DROP, replace(SWEEP, check=swept_again), RESCALE, UNDO, CLEAN, ARCHIVE),
    *(RESTORE, UNSCALE, KEEP, LET_GO, BUILD, COMPACT, ARCHIVE_METADATA, *KEPT),
    LOCKED[0],  # the file: object stores lose nothing
)


IN_SHORT = (UPSERT, ROLLBACK, RESCALE, CLEAN, ARCHIVE, RESTORE, BUILD, COMPACT, KEPT[0], LOCKED[0])
"""Those that ``make test`` plays; ``make model`` in ``.ci/run`` the others, and weekly every call."""


@pytest.mark.parametrize(
    "operation", some_of(OPERATIONS, IN_SHORT.__contains__, pytest.mark.model), ids=lambda one: one.name
)
@pytest.mark.few(4)
def test_power_may_be_cut_at_some_calls(operation: Operation) -> None:
    report = cut_power_everywhere(operation, seeds=1, every=29, first=5)
    assert report.histories > 4 * (report.calls // 29)
    assert report.acknowledged


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.name)
def test_power_may_be_cut_at_every_call(operation: Operation) -> None:
    report = cut_power_everywhere(operation, seeds=SEEDS)
    assert report.histories == report.calls * (3 + SEEDS) + 3 + max(SEEDS, 40)
    print(operation.name, report.calls, "calls,", report.histories, "histories")  # noqa: T201 - for docs/reliability.md


TORN = {
    "a lock": "/.lakeindex/lock/",
    "a claim": "/.lakeindex/instants/",
    "an attempt": "/attempts/",
    "a plan": "/plan-",
    "a verdict": "/.lakeindex/verdicts/",
    "a ledger entry": "/.lakeindex/ledger/",
    "a marker": "/.temp/",
    "a commit": ".commit",
}


@pytest.mark.parametrize("left", [b"", b"{", bytes(64)], ids=["empty", "cut short", "zeros"])
@pytest.mark.parametrize("what", TORN)
@pytest.mark.few(8)
def test_any_record_may_be_torn_at_any_moment(what: str, left: bytes) -> None:
    """Also one that was synced: whatever tore it. A killed writer, one torn file, a retry."""
    torn = 0
    if left == b"{" and what == "a commit" and LAYOUT.has_completion_times:
        left = b"Obj"  # Avro begins so
    for number in range(5, count_calls(UPSERT) + 2, 5):
        machine = Machine(DiskStorage())
        store = machine.stores[0]
        store.restore(UPSERT.prepare())
        before = set(store.snapshot())
        machine.run_until(UPSERT.run, number)
        for path in store.snapshot():
            is_empty = path.endswith(".requested")
            if path not in before and TORN[what] in path and not is_empty and not _is_last_word(store, path):
                torn += 1
                objects = store.snapshot()
                store.restore(objects | {path: left})
                UPSERT.run(store)
                UPSERT.check(store)
                store.restore(objects)
    assert torn


def _is_last_word(store: MemoryStorage, path: str) -> bool:
    """A commit whose verdict has been shrunk: no other file says what it said."""
    instant = parse_instant(path.rpartition("/")[2])
    if instant is None or not instant.is_completed:
        return False
    verdict = load_verdict(store, instant.time)
    return verdict is None or verdict.commit is None


def new_partition() -> dict[str, bytes]:
    """The model's table before it had a partition."""
    return {path: data for path, data in UPSERT.prepare().items() if not path.endswith("_partition_metadata")}


def kept_commit() -> dict[str, bytes]:
    """A commit that has a delta commit."""
    store = MemoryStorage()
    store.restore(UPSERT.prepare())
    build(store)
    upsert(store, FIRST_BATCH, host())
    return store.snapshot()


OWN = ".hoodie/.lakeindex"
HOODIE, BACKUP, METADATA = PROPERTIES_PATH, PROPERTIES_BACKUP_PATH, ".hoodie/metadata/"
ORDER = {
    "data before it is planned": (UPSERT, "write", "p/", (f"{OWN}/instants/", ".requested", ".inflight", "_metadata")),
    "data in a new partition": (replace(UPSERT, prepare=new_partition), "write", "p/", ("_partition_metadata",)),
    "the verdict before its files": (UPSERT, "create", f"{OWN}/verdicts/", ("p/", "_metadata", f"{OWN}/instants/")),
    "the commit before its verdict": (UPSERT, "create", ".commit", (f"{OWN}/verdicts/", "p/")),
    "the ledger before its commit": (UPSERT, "create", f"{OWN}/ledger/", (".commit",)),
    "the text dropped before the ledger": (UPSERT, "write", f"{OWN}/verdicts/", (f"{OWN}/ledger/", ".commit")),
    "the index before its change": (RESCALE, "create", f"{OWN}/verdicts/", (f"{OWN}/buckets/", "p/")),
    "a rollback before it can be resumed": (
        ROLLBACK,
        "delete",
        ".commit",
        (f"{OWN}/instants/", f"{OWN}/verdicts/", ".rollback.requested"),
    ),
    "data of a commit that stands": (ROLLBACK, "delete", "p/", (".commit",)),
    "a restore before it can be resumed": (
        RESTORE,
        "create",
        ".restore.inflight",
        (f"{OWN}/verdicts/", ".restore.requested"),
    ),
    "a write before readers take it for gone": (
        RESTORE,
        "delete",
        ".commit",
        (".restore.inflight", ".restore.requested"),
    ),
    "data of a write that a restore has not taken away": (RESTORE, "delete", "p/", (".commit",)),
    "a restore that is not done": (RESTORE, "create", ".restore", (".commit", ".restore.inflight")),
    "a clean before its plan": (CLEAN, "delete", "p/", (".clean.requested",)),
    "a clean that is not done": (CLEAN, "create", ".clean", ("p/",)),
    "the properties before it is noted what for": (DROP, "write", BACKUP, (NOTE,)),
    "the properties before their backup": (DROP, "delete", HOODIE, (BACKUP, NOTE)),
    "a metadata table before nobody uses it": (DROP, "delete", METADATA, (HOODIE, BACKUP, NOTE)),
    "the backup before the properties": (DROP, "delete", BACKUP, (HOODIE, METADATA)),
    "the note of a drop before all is done": (DROP, "delete", NOTE, (HOODIE, BACKUP, METADATA)),
    "a metadata table before it is noted": (BUILD, "write", METADATA, (NOTE,)),
    "a metadata table before it is whole": (BUILD, "write", BACKUP, (METADATA, NOTE)),
    "the backup before what is built": (BUILD, "delete", BACKUP, (HOODIE, METADATA)),
    "the note of a building before all is done": (BUILD, "delete", NOTE, (HOODIE, BACKUP, METADATA)),
    "a delta commit that is taken back before its logs": (
        replace(ROLLBACK, prepare=kept_commit),
        "delete",
        f"{METADATA}files/",
        (".deltacommit",),
    ),
    "a compaction before it is planned": (COMPACT, "write", f"{METADATA}files/", ("compaction.requested",)),
    "a compaction before its files": (COMPACT, "create", ".commit", (f"{METADATA}files/", "compaction.inflight")),
    "a commit before the lock says whose it is": (LOCKED[0], "create", f"{OWN}/verdicts/", (".hoodie/lock",)),
    "instants before they are archived": (
        ARCHIVE,
        "delete",
        ".commit",
        (f"{LAYOUT.archive_folder}/", ".requested", ".inflight"),
    ),
}


@pytest.mark.parametrize("case", ORDER)
def test_what_is_not_done_before_something_else_is_durable(case: str) -> None:
    operation, name, where, wanted = ORDER[case]
    store = DiskStorage()
    store.restore(operation.prepare())
    before = store.snapshot()
    met: list[str] = []
    early: list[str] = []

    def hook(call: Call) -> None:
        if call.name != name or not (call.path.startswith(where) or call.path.endswith(where)):
            return
        met.append(call.path)
        changed = {path for path in {*before, *store.snapshot()} if not store.is_durable(path)}
        early.extend(path for path in changed if path != call.path and _is_one_of(path, wanted))

    store.hook = hook
    operation.run(store)
    store.hook = None
    assert met
    assert not early, f"{met[0]} came before these were durable: {sorted(set(early))}"


def _is_one_of(path: str, wanted: tuple[str, ...]) -> bool:
    return any(
        path.startswith(one)
        or (path.endswith(one) and not one.startswith(".hoodie/"))
        or (one[0] == "/" and one in path)
        for one in wanted
    )


def test_a_file_lock_that_was_let_go_of_does_not_come_back() -> None:
    store = DiskStorage()
    store.restore(LOCKED[0].prepare())
    LOCKED[0].run(store)
    assert ".hoodie/lock" not in store.snapshot()
    assert store.is_durable(".hoodie/lock")


def test_what_a_run_says_is_committed_is_durable() -> None:
    store = DiskStorage()
    store.restore(UPSERT.prepare())
    before = set(store.snapshot())
    UPSERT.run(store)
    lasting = [path for path in store.snapshot() if path not in before and store.is_durable(path)]
    kinds = ("p/", f"{OWN}/ledger/", ".commit", "0.inflight", "0.commit.requested")
    assert all(any(_is_one_of(path, (kind,)) for path in lasting) for kind in kinds)
    loose = [path for path in store.snapshot() if not store.is_durable(path)]
    assert not [path for path in loose if _is_one_of(path, kinds)]
