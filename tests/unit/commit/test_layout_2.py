"""The protocol on a timeline whose completed files say when they were completed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.commit.services.archive import archive_table, archived_lately, plan_archiving
from lakeindex.commit.services.clean import clean_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import StorageError, TimelineChangedError
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.java_properties import format_properties, parse_properties
from lakeindex.model import Instant, InstantState
from lakeindex.options.types import Version10, WriteConfig
from lakeindex.storage.memory import Call, Fault, MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.table.properties import metadata_table_of
from lakeindex.table.property_keys import PROPERTIES_PATH
from lakeindex.timeline.verdicts import load_verdict
from tests.builders import Oracle, Row, batch_of, make_table, rows_of
from tests.unit.commit.protocol_support import PROPERTIES

CONFIG = WriteConfig(cleaner_commits=1, version10=Version10.WRITE)
WRITE = {"lakeindex.table.version10": "write"}


class Versioned:
    """A table of a later version in memory, and what it must hold."""

    def __init__(self, name: str, version: int) -> None:
        self.uri = f"memory://layout2-{name}-{version}"
        self.store = MemoryStorage.named(self.uri.removeprefix("memory://"))
        asked = {name.replace(".", "__"): value for name, value in WRITE.items()}
        self.table = make_table(self.uri, **asked, hoodie__write__table__version=str(version))
        self.oracle = Oracle()
        self.ts = 0

    def upsert(self, *keys: str) -> str:
        self.ts += 1
        rows = [Row(key, "x", self.ts, f"v{self.ts}") for key in keys]
        runs = f"{self.uri}-runs"
        summary = self.table.upsert(batch_of(rows), batch_id=f"b{self.ts}", checkpoints=runs, options=WRITE)
        self.oracle.apply(rows)
        assert summary.instant is not None
        return summary.instant

    def opened(self) -> Table:
        return Table.open(self.store)

    def completed(self) -> list[Instant]:
        return list(self.opened().load_timeline().completed)

    def holds(self) -> set[tuple[object, ...]]:
        return {
            (row["_hoodie_partition_path"], row["id"], row["day"], row["ts"], row["v"]) for row in rows_of(self.table)
        }


def test_a_write_stays_as_long_as_one_that_ended_before_it_and_so_on() -> None:
    """What began third ended first: with it the second stays, and with that the first."""
    store = MemoryStorage()
    properties = {**PROPERTIES, "hoodie.table.version": "9", "hoodie.timeline.layout.version": "2"}
    store.write(PROPERTIES_PATH, format_properties(properties))
    layout = Table.open(store).properties.timeline_layout
    for number, end in ((1, 16), (2, 19), (3, 15), (4, 18)):
        for state, at in ((InstantState.REQUESTED, None), (InstantState.COMPLETED, f"202601010000000{end}")):
            path = layout.path(Instant(f"202601010000000{number:02d}", "commit", state, at))
            store.write(path, layout.encode_commit(CommitMetadata({}, "UPSERT")) if at else b"")
    plan = plan_archiving(Table.open(store), 1)
    assert plan.instants == ()
    assert str(plan.held_by).startswith("20260101000000002, which was completed after a newer write")


@pytest.fixture(params=[8, 9, 10])
def versioned(request: pytest.FixtureRequest) -> Versioned:
    return Versioned(request.node.name.replace("[", "-").rstrip("]"), request.param)


def test_instants_and_completions_are_unique_and_grow(versioned: Versioned) -> None:
    for _ in range(3):
        versioned.upsert("a", "b")
    clean_table(versioned.opened(), 1, CONFIG)
    versioned.upsert("c")
    done = versioned.completed()
    times = [time for one in done for time in (one.time, one.completion_time)]
    assert None not in times
    assert times == sorted(times, key=str)
    assert len(times) == len(set(times)) == 10
    assert versioned.holds() == versioned.oracle.content()


def test_a_clock_that_stands_still_stands_in_nobodys_way(versioned: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeindex.timeline.clock.time.time_ns", lambda: 1_767_225_600_000_000_000)
    options = {"lakeindex.clock.max.skew": "0", **WRITE}
    for number in range(3):
        versioned.table.upsert(
            batch_of([Row("k", "x", number, "v")]),
            batch_id=f"s{number}",
            checkpoints=f"{versioned.uri}-r",
            options=options,
        )
    times = [time for one in versioned.completed() for time in (one.time, one.completion_time)]
    assert len(set(times)) == 6


def test_what_the_metadata_table_is_told_is_completed_first(
    versioned: Versioned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a commit, a clean, a rollback and a restore, though the clock stands still: readers find what is gone said before it is."""
    monkeypatch.setattr("lakeindex.timeline.clock.time.time_ns", lambda: 1_767_225_600_000_000_000)
    options = {"lakeindex.clock.max.skew": "0", **WRITE}
    config = replace(CONFIG, clock_max_skew_seconds=0)

    def upsert(number: int) -> str:
        rows = batch_of([Row("k", "x", number, "v")])
        return str(versioned.table.upsert(rows, checkpoints=f"{versioned.uri}-runs", options=options).instant)

    told: dict[str, str] = {}

    def look() -> None:
        """Its timeline is archived by maintenance."""
        opened = versioned.opened()
        metadata = metadata_table_of(opened.storage, opened.properties)
        assert metadata is not None
        told.update({one.time: str(one.completion_time) for one in metadata.load_timeline().completed})

    upsert(0)
    versioned.table.metadata_build(["files"], options=options)
    upsert(1)
    upsert(2)
    assert clean_table(versioned.opened(), 1, config).instant is not None
    last = upsert(3)
    look()
    versioned.table.maintain(["metadata"], options=options)
    versioned.table.rollback(last, options=options)
    kept = upsert(4)
    upsert(5)
    look()
    versioned.table.maintain(["metadata"], options=options)
    versioned.table.restore(kept, options=options)
    look()
    ends = {one.action: (told[one.time], str(one.completion_time)) for one in versioned.completed() if one.time in told}
    assert set(ends) == {"commit", "clean", "rollback", "restore"}
    assert all(before < end for before, end in ends.values()), ends


def test_a_commit_says_what_each_file_was_before(versioned: Versioned) -> None:
    versioned.upsert("a")
    first = {file.name for file in versioned.opened().snapshot().base_files_all()}
    versioned.upsert("a", "n")
    timeline = versioned.opened().load_timeline()
    stats = list(timeline.commit_metadata(versioned.store, timeline.completed_writes[-1]).stats())
    assert {one.prev_base_file for one in stats} == first
    before = list(timeline.commit_metadata(versioned.store, timeline.completed_writes[0]).stats())
    assert {one.prev_base_file for one in before} == {None}


def test_a_completed_commit_is_taken_back_under_the_name_it_has(versioned: Versioned) -> None:
    versioned.upsert("a")
    kept = versioned.oracle.content()
    taken = versioned.upsert("a", "b")
    rollback_instant(versioned.opened(), taken, CONFIG)
    assert versioned.opened().load_timeline().find(taken) == ()
    assert versioned.holds() == kept
    verdict = load_verdict(versioned.store, taken)
    assert verdict is not None
    assert not verdict.is_committed
    assert verdict.completion_time is not None, "who finds its file put again later knows its name"


@pytest.mark.parametrize("was_listed", [True, False])
def test_a_commit_put_again_while_it_is_taken_back_goes(versioned: Versioned, was_listed: bool) -> None:
    """A stalled publisher wakes between the listing of the timeline and the deletions; the rollback may be begun."""
    versioned.upsert("a")
    taken = versioned.upsert("a", "b")
    path = next(one.path for one in versioned.store.list(".hoodie/timeline") if f"{taken}_" in one.path)
    data = versioned.store.read(path)

    def stops(call: Call) -> Fault | None:
        return Fault.ERROR if call.name == "delete" and call.path.startswith("x/") else None

    def wakes(call: Call) -> Fault | None:
        if call.path.endswith(".rollback.inflight"):
            versioned.store.hook = None
            versioned.store.write(path, data)
        return None

    if not was_listed:
        versioned.store.hook = stops
        with pytest.raises(StorageError):
            rollback_instant(versioned.opened(), taken, CONFIG)
        assert path not in {one.path for one in versioned.store.list(".hoodie/timeline")}
    versioned.store.hook = wakes
    rollback_instant(versioned.opened(), taken, CONFIG, force=True)
    assert versioned.store.hook is None
    assert versioned.opened().load_timeline().find(taken) == ()


def test_what_is_archived_goes_into_the_tree_and_batches_are_still_known(versioned: Versioned) -> None:
    gone = [versioned.upsert("a", "b") for _ in range(3)]
    kept = versioned.upsert("c")
    clean_table(versioned.opened(), 1, CONFIG)
    done = archive_table(versioned.opened(), 1, CONFIG)
    assert [one.time for one in done.plan.instants if one.action == "commit"] == gone
    table = versioned.opened()
    assert [one.time for one in table.load_timeline().completed_writes] == [kept]
    assert table.load_timeline().archived.writes == set(gone)
    assert archived_lately(table) >= {(time, "commit") for time in gone}
    again = versioned.table.upsert(
        batch_of([Row("a", "x", 1, "v1"), Row("b", "x", 1, "v1")]), batch_id="b1", options=WRITE
    )
    assert again.noop
    assert versioned.holds() == versioned.oracle.content()
    assert versioned.table.check().ok


@pytest.mark.parametrize(("before", "after"), [("6", "9"), ("9", "6"), ("6", "10")])
def test_another_version_under_an_open_handle_is_noticed(before: str, after: str) -> None:
    uri = f"memory://changed-{before}-{after}"
    table = make_table(uri, hoodie__write__table__version=before)
    table.upsert(batch_of([Row("a", "x", 1, "v")]), batch_id="b", checkpoints=f"{uri}-runs")
    store = MemoryStorage.named(uri.removeprefix("memory://"))
    opened = Table.open(store)
    entries = parse_properties(store.read(PROPERTIES_PATH), PROPERTIES_PATH)
    changed = {"hoodie.table.version": after, "hoodie.timeline.layout.version": "1" if after == "6" else "2"}
    store.write(PROPERTIES_PATH, format_properties({**entries, **changed}))
    for one in store.list_folder(opened.properties.timeline_layout.folder).objects:
        if "properties" not in one.path:
            store.delete(one.path)  # moved to where the other version has them
    with pytest.raises(TimelineChangedError, match=f"from version {before} to {after}"):
        opened.load_timeline()
    with pytest.raises(TimelineChangedError, match=f"from version {before} to {after}"):
        archive_table(opened, 1, CONFIG)
    assert isinstance(LakeTable(uri).read(meta=True).num_rows, int)


def test_a_replacecommit_that_began_as_a_clustering_is_rolled_back_whole(versioned: Versioned) -> None:
    """Hudi names its pending files so: what stayed of them would be carried out or refused by whoever comes next."""
    versioned.upsert("a", "b")
    migrated = versioned.table.index_migrate("BUCKET", options={"hoodie.bucket.index.num.buckets": "2", **WRITE})
    assert migrated.instant is not None
    timeline = versioned.opened().load_timeline()
    for one in timeline.files:
        if one.time == migrated.instant and not one.is_completed:
            path = timeline.path(one)
            versioned.store.write(path.replace(".replacecommit.", ".clustering."), versioned.store.read(path))
            versioned.store.delete(path)
    assert {one.action for one in versioned.opened().load_timeline().find(migrated.instant)} == {"replacecommit"}
    rollback_instant(versioned.opened(), migrated.instant, CONFIG)
    left = [one for one in versioned.opened().load_timeline().files if one.time == migrated.instant]
    assert not left
    assert versioned.table.check().ok
    versioned.upsert("b", "c")
    assert versioned.holds() == versioned.oracle.content()
