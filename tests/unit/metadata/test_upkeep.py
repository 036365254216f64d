"""Delta commits, slices and compaction, on metadata tables of ours and of Hudi's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeindex.commit.services.archive import archive_of
from lakeindex.commit.services.metadata_service import committed_files, plan_metadata_archiving
from lakeindex.errors import TableCorruptError
from lakeindex.format.file_names import crc_path
from lakeindex.format.instants import CLEAN, COMMIT, DELTA_COMMIT, ROLLBACK
from lakeindex.format.log_blocks import BlockKind, HeaderKey, LogBlock, format_block
from lakeindex.metadata import column_stats, compaction, delta_commit
from lakeindex.metadata.build import Building, NewPartition, add_partition, free_instant, make_table
from lakeindex.metadata.column_ranges import ColumnRange, ValueKind, ValueType
from lakeindex.metadata.column_stats import partition_stats_record
from lakeindex.metadata.indexed_columns import StatsEncoding
from lakeindex.metadata.metadata_changes import PartitionChange, change_of_deletion, change_of_files
from lakeindex.metadata.metadata_keys import groups_of
from lakeindex.metadata.metadata_records import files_record, own_schema
from lakeindex.metadata.metadata_table import (
    BLOOM_FILTERS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataTable,
    RecordType,
    file_id,
)
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata.record_index import RecordLocation, location_record
from lakeindex.metadata.slices import FileSlice, LogFile, LogForm, load_slices
from lakeindex.model import Instant, InstantState
from lakeindex.operations.metadata import find_faults
from lakeindex.storage import open_storage
from lakeindex.storage.memory import MemoryStorage
from lakeindex.storage.port import ObjectMeta
from lakeindex.table.handle import Table
from lakeindex.table.properties import metadata_table_of
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.timeline import Timeline
from tests.strategies import examples
from tests.vectors_support import unpack_table

RECORD = files_record(RecordType.FILES, {"x": 1})
PLACE = RecordLocation("p", "f-0", 0)
LAYOUTS = {1: TimelineLayout(), 2: TimelineLayout(2, ".hoodie/timeline", ".hoodie/timeline/history")}


def time_of(number: int) -> str:
    return f"20260101000000{number:03d}"


class Kept:
    """A table without rows, and its metadata table."""

    def __init__(self, version: int) -> None:
        self.layout = LAYOUTS[1 if version == 6 else 2]
        self.store = MemoryStorage()
        table = MetadataTable.of(self.store, version, self.layout.version, (FILES,))
        assert table is not None
        self.table = table
        self.done: list[Instant] = []
        make_table(table, "t")
        self.add(FILES, 1, change_of_files({})[FILES])

    def add(self, partition: str, groups: int, change: PartitionChange) -> None:
        """Make a partition of the metadata table."""
        ids = tuple(file_id(partition, number) for number in range(groups))
        what = Building(None, self.end(1), own_schema(self.table.version))
        add_partition(self.table, what, NewPartition(partition, ids, change), free_instant(self.table, what))

    def end(self, number: int) -> str | None:
        return time_of(number) if self.layout.has_completion_times else None

    @property
    def view(self) -> MetadataView:
        return MetadataView.load(self.table, Timeline.of(self.layout, self.done, self.store))

    def act(self, number: int, added: dict[str, int], gone: tuple[str, ...] = (), *, complete: bool = True) -> None:
        """An action of the table that adds and deletes files of its one partition."""
        change = change_of_deletion({"p": gone}) if gone else change_of_files({"p": added})
        view, time = self.view, time_of(number)
        delta_commit.write(view, delta_commit.prepare(view, time, change), self.end(number + 1))
        if complete:
            self.done.append(Instant(time, "commit", InstantState.COMPLETED, self.end(number + 2)))

    def compact(self) -> None:
        compaction.compact(self.view)

    @property
    def files(self) -> dict[str, int]:
        return self.view.listing().files.get("p", {})


@pytest.mark.parametrize("version", [6, 9, 10])
def test_what_is_pending_is_not_there_and_can_be_undone(version: int) -> None:
    kept = Kept(version)
    kept.act(10, {"a": 1})
    before = kept.store.snapshot()
    kept.act(20, {"b": 2}, complete=False)
    pending = Instant(time_of(20), "commit", InstantState.INFLIGHT)
    view = MetadataView.load(kept.table, Timeline.of(kept.layout, [*kept.done, pending], kept.store))
    assert view.listing().files["p"] == {"a": 1}
    for path in kept.store.snapshot().keys() - before.keys():
        kept.store.write(crc_path(path), b"Hadoop's checksum")
    delta_commit.undo(view, time_of(20))
    assert kept.store.snapshot() == before
    delta_commit.undo(kept.view, time_of(20))
    assert kept.store.snapshot() == before


@pytest.mark.parametrize("version", [6, 9, 10])
def test_a_new_metadata_table_is_compacted_once_and_later_than_it_was_made(version: int) -> None:
    """Though nothing of the table's own timeline is later, or there at all."""
    kept = Kept(version)
    (made,) = kept.view.timeline.completed_writes
    compacted = compaction.compact(kept.view)
    assert compacted is not None
    assert compacted > (made.completion_time or made.time)
    assert compaction.compact(kept.view) is None
    assert compaction.last_compaction(kept.view.timeline) == compacted
    kept.act(10, {"a": 1})
    kept.compact()
    assert kept.files == {"a": 1}
    assert compaction.delta_commits_since(kept.view.timeline) == 0


@pytest.mark.parametrize("version", [6, 9, 10])
def test_a_delta_commit_that_was_half_written_is_written_again(version: int) -> None:
    """At every call: what is there is used, and says what it says once."""
    for calls in range(1, 12):
        kept = Kept(version)
        left = calls

        def hook(_: object) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise RuntimeError

        kept.store.hook = hook
        try:
            kept.act(10, {"a": 1})
        except RuntimeError:
            kept.store.hook = None
            kept.act(10, {"a": 1})
        kept.store.hook = None
        assert kept.files == {"a": 1}
        assert len([one for one in kept.store.snapshot() if f"{FILES}/" in one and ".log." in one]) <= 3


@pytest.mark.parametrize("version", [6, 9, 10])
@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_random_story(version: int, seed: int) -> None:
    """Files come, go, and are compacted at any time; the metadata table says what a dictionary does."""
    chance = random.Random(seed)
    kept, model = Kept(version), dict[str, int]()
    for number in range(10, 400, 10):
        if model and chance.random() < 0.3:
            gone = chance.choice(sorted(model))
            kept.act(number, {}, (gone,))
            del model[gone]
        else:
            kept.act(number, {f"f{number}": number})
            model[f"f{number}"] = number
        if chance.random() < 0.2:
            kept.compact()
            compaction.clean(kept.view)
        if chance.random() < 0.3:
            assert kept.files == model
    assert kept.files == model
    assert compaction.delta_commits_since(kept.view.timeline) <= 39


@pytest.mark.parametrize("version", [6, 9, 10])
@settings(max_examples=examples(8), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_compactions_change_no_statistics(version: int, seed: int) -> None:
    """Tight, loose and deleted records of a few columns, and records that go: as merged by whoever reads them all."""
    chance = random.Random(seed)
    kept, names = Kept(version), [f"column {number}" for number in range(12)]
    kept.add(PARTITION_STATS, 2, PartitionChange({name: statistics(chance) for name in names[:6]}))
    kept.table = replace(kept.table, partitions=(FILES, PARTITION_STATS))
    for number in range(10, 160, 10):
        some = chance.sample(names, 3)
        puts = {name: statistics(chance) for name in some[: chance.randint(0, 3)]}
        gone = frozenset(some) - puts.keys() if chance.random() < 0.3 else frozenset[str]()
        change = {**change_of_files({"p": {f"f{number}": 1}}), PARTITION_STATS: PartitionChange(puts, gone)}
        delta_commit.write(kept.view, delta_commit.prepare(kept.view, time_of(number), change), kept.end(number + 1))
        kept.done.append(Instant(time_of(number), "commit", InstantState.COMPLETED, kept.end(number + 2)))
        if chance.random() < 0.4:
            before = kept.view
            said = [before.records(one) for one in before.slices(PARTITION_STATS)]
            kept.compact()
            after = kept.view
            assert [after.records(one) for one in after.slices(PARTITION_STATS)] == said


def with_base_file(version: int, schema: str, partition: str, record: dict[str, Any]) -> Kept:
    """Two keys in a base file that was written with a schema."""
    kept = Kept(version)
    what = Building(None, kept.end(1), schema)
    new = NewPartition(partition, (file_id(partition, 0),), PartitionChange(dict.fromkeys(("a", "b"), record)))
    add_partition(kept.table, what, new, free_instant(kept.table, what))
    kept.table = replace(kept.table, partitions=(FILES, partition))
    return kept


@pytest.mark.parametrize("partition", [RECORD_INDEX, PARTITION_STATS])
def test_what_no_log_names_of_a_base_file_of_an_older_schema_is_kept(partition: str) -> None:
    """Whether records of one key replace each other or are merged."""
    record = location_record(PLACE) if partition == RECORD_INDEX else loose(1, 5)
    kept = with_base_file(9, own_schema(9).replace("A record saved", "A record kept"), partition, record)
    said = {**change_of_files({"p": {"f": 1}}), partition: PartitionChange({"c": record})}
    delta_commit.write(kept.view, delta_commit.prepare(kept.view, time_of(10), said), kept.end(11))
    kept.done.append(Instant(time_of(10), "commit", InstantState.COMPLETED, kept.end(12)))
    kept.compact()
    (index,) = kept.view.slices(partition)
    assert not index.logs
    assert set(kept.view.records(index)) == {"a", "b", "c"}


@pytest.mark.parametrize("version", [6, 9, 10])
def test_a_record_index_is_made_anew_beside_the_base_files_of_a_compaction_before(version: int) -> None:
    """Nothing was told in between: who reads what the compaction made still finds it."""
    kept = with_base_file(version, own_schema(version), RECORD_INDEX, location_record(PLACE))
    kept.compact()
    before = kept.store.snapshot()
    time = compaction.compact(kept.view, PartitionChange({"c": location_record(PLACE)}))
    assert time == compaction.last_compaction(kept.view.timeline)
    assert before.items() <= kept.store.snapshot().items()
    (index,) = kept.view.slices(RECORD_INDEX)
    assert set(kept.view.records(index)) == {"c"}
    kept.act(20, {"a": 1})
    compaction.compact(kept.view, PartitionChange({"d": location_record(PLACE)}))
    assert [one.logs for one in kept.view.slices(FILES)] == [()], "all are compacted together"
    assert kept.files == {"a": 1}


def test_a_base_file_that_is_put_again_has_no_checksum_of_the_one_before() -> None:
    """A compaction that was cut short is carried out anew."""
    kept = Kept(9)
    kept.act(10, {"a": 1})
    before = kept.store.snapshot()
    kept.compact()
    (base,) = (path for path in kept.store.snapshot().keys() - before.keys() if path.endswith(".hfile"))
    kept.store.restore({**before, crc_path(base): b"Hadoop's checksum"})
    kept.compact()
    assert base in kept.store.snapshot()
    assert crc_path(base) not in kept.store.snapshot()


@pytest.mark.parametrize(("version", "counts"), [(6, [(1, 2)]), (9, [(1, 2)]), (10, [(0, 2), (1, 0)])])
def test_a_delta_commit_says_how_many_keys_it_puts_and_takes_away(version: int, counts: list[tuple[int, int]]) -> None:
    """From version 10 on in a log of their own each."""
    record = location_record(PLACE)
    kept = with_base_file(version, own_schema(version), RECORD_INDEX, record)
    said = {**change_of_files({"p": {"f": 1}}), RECORD_INDEX: PartitionChange({"c": record}, frozenset({"a", "b"}))}
    delta_commit.write(kept.view, delta_commit.prepare(kept.view, time_of(10), said), kept.end(11))
    timeline = kept.view.timeline
    done = timeline.completed_write(time_of(10))
    assert done is not None
    stats = timeline.commit_metadata(kept.store, done).write_stats[RECORD_INDEX]
    assert sorted((one.num_writes, one.num_deletes) for one in stats) == counts


def test_the_plan_of_a_compaction_says_what_is_read_and_what_is_written() -> None:
    """In MiB; Hudi 1.2 chooses by them."""
    mib = 1 << 20
    base = ObjectMeta("base", 5 * mib, 0, "")
    logs = tuple(
        LogFile(time_of(n), 1, LogForm.BLOCKS, "0-0-0", f"log-{n}", size) for n, size in ((1, mib), (2, 3 * mib))
    )
    said = compaction._metrics(FileSlice(FILES, "f-0", time_of(0), base, logs))
    assert said == {
        "TOTAL_LOG_FILES": 2.0,
        "TOTAL_LOG_FILES_SIZE": 4.0 * mib,
        "TOTAL_IO_READ_MB": 9.0,
        "TOTAL_IO_WRITE_MB": 5.0,
        "TOTAL_IO_MB": 14.0,
    }


def test_slices_that_are_compacted_together_are_those_that_are_compacted_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for little in (-1, 1 << 20):
        monkeypatch.setattr(compaction, "_LITTLE_BYTES", little)
        kept, chance = Kept(9), random.Random(5)
        kept.add(PARTITION_STATS, 6, PartitionChange({f"column {n}": statistics(chance) for n in range(60)}))
        kept.table = replace(kept.table, partitions=(FILES, PARTITION_STATS))
        for number in range(10, 40, 10):
            puts = {f"column {n}": statistics(chance) for n in range(0, 60, 7)}
            change = {**change_of_files({"p": {f"f{number}": 1}}), PARTITION_STATS: PartitionChange(puts)}
            delta = delta_commit.prepare(kept.view, time_of(number), change)
            delta_commit.write(kept.view, delta, kept.end(number + 1))
            kept.done.append(Instant(time_of(number), "commit", InstantState.COMPLETED, kept.end(number + 2)))
        kept.compact()
        found.append(kept.store.snapshot())
    assert found[0] == found[1]


def loose(least: int, greatest: int) -> dict[str, Any]:
    found = ColumnRange("c", ValueKind(ValueType.INT), least, greatest, 9, 1, 50, 60)
    return partition_stats_record("p", found, StatsEncoding.V2, tight=False)


def statistics(chance: random.Random) -> dict[str, Any]:
    least, most = sorted(chance.choices(range(100), k=2))
    found = ColumnRange("c", ValueKind(ValueType.INT), least, most, 9, 1, 50, 60)
    record = partition_stats_record("p", found, StatsEncoding.V2, tight=chance.random() < 0.5)
    if chance.random() < 0.2:
        record[column_stats.FIELD]["isDeleted"] = True
    return record


@pytest.mark.parametrize("version", [6, 9, 10])
def test_compaction_keeps_the_slice_before_and_drops_older_ones(version: int) -> None:
    kept = Kept(version)
    for number in range(10, 50, 10):
        kept.act(number, {f"f{number}": number})
        kept.compact()
    bases = [one for one in kept.store.snapshot() if one.endswith(".hfile") and ".log." not in one]
    assert len(bases) == 5
    files = list(kept.store.snapshot())
    for path in files:
        kept.store.write(crc_path(path), b"Hadoop's checksum")
    went = compaction.clean(kept.view)
    assert {path for path in files if crc_path(path) not in kept.store.snapshot()} == set(went)
    assert len([one for one in went if one in bases]) == 3
    assert len(load_slices(kept.table, kept.view.timeline, FILES).expired) == 0
    assert kept.files == {f"f{number}": number for number in range(10, 50, 10)}


@pytest.mark.parametrize("version", [6, 9, 10])
def test_whoever_began_to_read_before_a_compaction_still_finds_all_that_he_listed(version: int) -> None:
    """The slice before the newest keeps its logs, too; they have the instant of its base file in layout 1."""
    kept, readers = Kept(version), list[tuple[MetadataView, dict[str, int]]]()
    for number in range(10, 60, 10):
        for more in range(2):
            kept.act(number + more, {f"f{number + more}": number})
        view = kept.view
        _ = view.slices(FILES)
        readers.append((view, kept.files))
        kept.compact()
        went = compaction.clean(kept.view)
        reader, said = readers[-1]
        assert reader.listing().files["p"] == said
        assert bool(went) == (number > 10)
        assert compaction.clean(kept.view) == ()
    logs = [one for one in kept.store.snapshot() if ".log." in one]
    assert len(logs) == 2


@pytest.mark.parametrize("version", [6, 9, 10])
def test_slices_that_are_gone_since_the_timeline_was_listed_are_not_looked_for(version: int) -> None:
    kept = Kept(version)
    kept.act(10, {"a": 1})
    before = kept.view
    for number in (20, 30, 40):
        kept.act(number, {f"f{number}": number})
        kept.compact()
        compaction.clean(kept.view)
    late = MetadataView(before.table, before.timeline, kept.view.data)
    assert late.listing().files["p"] == kept.files == {"a": 1, "f20": 20, "f30": 30, "f40": 40}


def test_delta_commits_count_since_a_compaction_by_their_completion() -> None:
    done = [
        Instant(time_of(10), DELTA_COMMIT, InstantState.COMPLETED, time_of(15)),
        Instant(time_of(20), DELTA_COMMIT, InstantState.COMPLETED, time_of(40)),
        Instant(time_of(30), COMMIT, InstantState.COMPLETED, time_of(31)),
    ]
    assert compaction.delta_commits_since(Timeline.of(LAYOUTS[2], done)) == 1
    old = [replace(one, completion_time=None) for one in done]
    assert compaction.delta_commits_since(Timeline.of(LAYOUTS[1], old)) == 0


@pytest.mark.parametrize("version", [6, 9, 10])
def test_a_compaction_takes_what_its_plan_names_and_a_base_file_of_which_nothing_is_left_is_followed(
    version: int,
) -> None:
    """Statistics that come behind the plan widen once; Hudi 0.15 forgets deletions whose logs are archived."""
    kept = Kept(version)
    kept.add(PARTITION_STATS, 1, PartitionChange({"c": loose(1, 5)}))
    kept.table = replace(kept.table, partitions=(FILES, PARTITION_STATS))

    def change(number: int, puts: dict[str, Any], gone: frozenset[str] = frozenset()) -> None:
        said = {**change_of_files({"p": {f"f{number}": 1}}), PARTITION_STATS: PartitionChange(puts, gone)}
        delta_commit.write(kept.view, delta_commit.prepare(kept.view, time_of(number), said), kept.end(number + 1))
        kept.done.append(Instant(time_of(number), "commit", InstantState.COMPLETED, kept.end(number + 2)))

    def stored() -> dict[str, Any]:
        return kept.view.records(kept.view.slices(PARTITION_STATS)[0])

    change(10, {"c": loose(0, 3)})
    before = kept.store.snapshot()
    kept.compact()
    for path in sorted(set(kept.store.snapshot()) - set(before)):
        if not path.endswith("compaction.requested"):
            kept.store.delete(path)
    change(20, {"c": loose(7, 9)})
    said = stored()
    assert (said["c"][column_stats.FIELD]["valueCount"], said["c"][column_stats.FIELD]["nullCount"]) == (27, 3)
    kept.compact()
    assert stored() == said
    change(30, {}, frozenset({"c"}))
    kept.compact()
    assert stored() == {}
    newest = kept.view.slices(PARTITION_STATS)[0]
    assert (newest.base_instant, newest.logs) == (compaction.last_compaction(kept.view.timeline), ())


@pytest.mark.parametrize("version", [6, 9, 10])
def test_a_compaction_that_was_planned_is_carried_out(version: int) -> None:
    kept = Kept(version)
    kept.act(10, {"a": 1})
    kept.act(20, {"b": 2})
    before = kept.store.snapshot()
    kept.compact()
    whole = kept.store.snapshot()
    done = compaction.last_compaction(kept.view.timeline) or ""
    for path in sorted(set(whole) - set(before)):
        if path.endswith((".commit", ".hfile")) and ".log." not in path:
            kept.store.delete(path)
    assert kept.files == {"a": 1, "b": 2}
    kept.compact()
    assert kept.store.snapshot() == whole
    kept.act(30, {"c": 3})
    assert kept.files == {"a": 1, "b": 2, "c": 3}
    assert compaction.last_compaction(kept.view.timeline) == done


@pytest.mark.parametrize("version", [6, 9, 10])
def test_a_delta_commit_beside_a_planned_compaction_is_not_lost(version: int) -> None:
    """In layout 1 its log belongs to the slice of the compaction, before that is there."""
    kept = Kept(version)
    kept.act(10, {"a": 1})
    before = kept.store.snapshot()
    kept.compact()
    for path in sorted(set(kept.store.snapshot()) - set(before)):
        if not path.endswith("compaction.requested"):
            kept.store.delete(path)
    kept.act(20, {"b": 2})
    assert kept.files == {"a": 1, "b": 2}
    kept.compact()
    assert kept.files == {"a": 1, "b": 2}


@pytest.mark.parametrize("version", [6, 9, 10])
def test_a_base_file_that_stays_keeps_its_instant_on_the_timeline(version: int) -> None:
    """A zombie's delta commit, put anew, begins the timeline: what was archived behind it is no part of a slice."""
    kept = Kept(version)
    table = MetadataTable.of(kept.store, version, kept.layout.version, (FILES, BLOOM_FILTERS))
    assert table is not None
    kept.table = table
    kept.add(BLOOM_FILTERS, 1, PartitionChange({"key": RECORD}))
    for number in range(10, 610, 10):
        kept.act(number, {f"f{number}": number})
        if number % 100 == 0:
            kept.compact()
            compaction.clean(kept.view)
    kept.done = kept.done[-3:]
    before = kept.view
    base = before.slices(BLOOM_FILTERS)[0].instant
    assert before.lookup(BLOOM_FILTERS, ["key"])
    gone = {one.time for one in plan_metadata_archiving(before)}
    assert base < max(gone)
    assert base not in gone
    moved = [one for one in before.timeline.files if one.time in gone]
    archive = archive_of(kept.store, kept.table.layout)
    archive.record(before.timeline, moved, archive.recorded())
    for one in moved:
        kept.store.delete(before.timeline.path(one))
    assert kept.view.timeline.archived.writes == gone
    zombie = next(one for one in moved if one.is_completed)
    assert zombie.time < base
    kept.store.write(before.timeline.path(zombie), b"")
    assert kept.view.lookup(BLOOM_FILTERS, ["key"]) == before.lookup(BLOOM_FILTERS, ["key"])
    assert kept.files == before.listing().files["p"]
    kept.store.delete(before.timeline.path(zombie))
    kept.add(BLOOM_FILTERS, 1, PartitionChange({"key": RECORD}))
    assert not gone & {one.time for one in kept.view.timeline.files}, "what was archived is not used again"


@pytest.mark.parametrize("version", [6, 9, 10])
@pytest.mark.parametrize("action", [CLEAN, ROLLBACK])
def test_the_timeline_begins_with_a_write(version: int, action: str) -> None:
    """Hudi 0.15 archives writes apart from cleans and rollbacks: an old one of those says nothing of older writes."""
    kept = Kept(version)
    for number in range(10, 100, 10):
        kept.act(number, {f"f{number}": number})
        if number == 50:
            kept.compact()
    before = kept.files
    done = Instant(f"{time_of(9)}002" if version == 6 else time_of(9), action, InstantState.COMPLETED, kept.end(9))
    kept.store.write(kept.table.layout.path(done), b"")
    going = [one for one in kept.view.timeline.files if one.time < time_of(60) and one.action != action]
    for one in going:
        kept.store.delete(kept.view.timeline.path(one))
    assert kept.view.timeline.instants[0].action == action
    assert kept.files == before


def test_a_rollback_block_takes_back_what_is_before_it() -> None:
    """As Hudi 0.15 rolls its delta commits back."""
    kept = Kept(6)
    kept.act(10, {"a": 1})
    kept.act(20, {"b": 2})
    newest = load_slices(kept.table, kept.view.timeline, FILES).newest[0]
    header = {
        HeaderKey.INSTANT_TIME: time_of(20),
        HeaderKey.TARGET_INSTANT_TIME: time_of(20),
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    command = format_block(LogBlock(BlockKind.COMMAND, {int(key): text for key, text in header.items()}))
    kept.store.write(
        f".hoodie/metadata/files/.{newest.file_id}_{newest.instant}.log.{newest.next_log_number}_1-0-1", command
    )
    assert kept.files == {"a": 1}


@pytest.mark.parametrize("needed", [True, False])
def test_a_torn_log_is_told_if_it_is_needed(needed: bool) -> None:
    kept = Kept(6)
    kept.act(10, {"a": 1})
    path = max(one for one in kept.store.snapshot() if ".log." in one)
    if needed:
        kept.store.write(path, kept.store.read(path)[:50])
        with pytest.raises(TableCorruptError, match="damaged at byte 0"):
            _ = kept.files
    else:
        kept.store.write(path.replace(".log.2", ".log.3"), kept.store.read(path)[:50])
        assert kept.files == {"a": 1}


@pytest.mark.parametrize("name", ["h0150_v6_mdt", "h120_v6_mdt"])
def test_what_hudi_keeps_is_read(name: str, tmp_path: Path) -> None:
    table = Table.open(open_storage(str(unpack_table(name, tmp_path))))
    metadata = metadata_table_of(table.storage, table.properties)
    assert metadata is not None
    view = MetadataView.load(metadata, table.load_timeline())
    there = committed_files(table.listed_snapshot())
    assert view.listing().files == there
    assert list(find_faults(view, there)) == []
    some = next(iter(there))
    lost = {**there, some: {}}
    assert {one.kind for one in find_faults(view, lost)} == {"surplus"}
    more = {**there, "other": {"x_0-0-0_20260101000000000.parquet": 1}}
    assert {one.kind for one in find_faults(view, more)} == {"missing", "partition"}
    grown = {**there, some: {name: size + 1 for name, size in there[some].items()}}
    assert {one.kind for one in find_faults(view, grown)} == {"size"}


def test_groups_of_keys_are_those_of_java() -> None:
    """``Math.abs(Math.abs(h) % n)`` of ``String.hashCode``: also of the text whose hash is the smallest int."""
    smallest = "polygenelubricants"
    assert groups_of([smallest, "a", "ab"], 10) == [abs(-(2**31 % 10)), 97 % 10, 3105 % 10]
    assert groups_of(["x", "y"], 1) == [0, 0]
