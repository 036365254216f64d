"""What somebody asks for of a metadata table: building it, or more partitions of one, taking it away, compacting it,
archiving its timeline.

Its timeline gets an instant for each action of the table, and is archived as the table's own is, into its own archive.
What goes is completed and older than all of these:

* the newest writes of it, as many as Hudi keeps at least;
* the compaction before the newest: readers may still use its slices, and what was completed after it is in logs of
  which Hudi believes only those whose instants it knows;
* the first write on the table's own timeline, and what is pending there: its rollback has to find its delta commit.
  Completed cleans and rollbacks there hold nothing up: they may stay for ever;
* what is pending on the metadata table's timeline.

One write that is older stays as well, so that a write of the table that the metadata table is not told of is still
newer than what the timeline begins with (:meth:`MetadataView.untold_writes`). An instant also stays as long as a base
file or log bears its name: a file group in which nothing changes keeps its base file for years, and that file must not
count only because it is older than the timeline. So the timeline may have gaps: instants to which no file of the
metadata table belongs any more.

Source: Hudi 0.15 ``HoodieTimelineArchiver``, 1.2 ``TimelineArchiverV2``, ``getEarliestInstantForMetadataArchival``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec import field
from msgspec.structs import replace

from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.archive import ARCHIVED_ACTIONS, archive_instants
from lakeindex.errors import LakeIndexError, MetadataTableError, TableCorruptError, noted
from lakeindex.files.file_system_view import Snapshot, snapshot
from lakeindex.format import instants as names
from lakeindex.format.file_names import parse_base_file
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext, holding
from lakeindex.metadata.build import Building, NewPartition, add_partition, free_instant, make_table
from lakeindex.metadata.content_records import (
    NewFile,
    filters_of_new,
    read_new_files,
    statistics_of_new,
    statistics_of_partitions,
)
from lakeindex.metadata.indexed_columns import columns_to_index, stats_encoding
from lakeindex.metadata.metadata_changes import PartitionChange, change_of_files, is_partitioned
from lakeindex.metadata.metadata_records import Record, own_schema
from lakeindex.metadata.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    GROUP_PREFIXES,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataTable,
    file_id,
)
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata.slices import instants_of_files
from lakeindex.metadata_upkeep.index_entries import located_keys, record_index_change
from lakeindex.metadata_upkeep.keeping import check_metadata_table, compact_metadata, metadata_view, renew_record_index
from lakeindex.metadata_upkeep.switch import (
    begin_adding,
    begin_building,
    define_index,
    drop_metadata,
    switch_on,
    unnamed,
)
from lakeindex.model import IndexSpec, IndexType, Instant, InstantState
from lakeindex.options.types import MetadataTablePolicy, WriteConfig
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.table.properties import TableProperties
from lakeindex.table.refusals import check_virtual_metadata, described
from lakeindex.table.table_columns import check_logical_types
from lakeindex.timeline.layout import LAYOUT_1, VERSION_8, VERSION_9
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.types.avro_schema import schema_from_avro

KEPT_WRITES: Final = 21
"""One more than Hudi's ``hoodie.keep.min.commits``, as its metadata table has it."""

LEAST: Final = 10
"""Writes from which on archiving is worth a file: the distance of Hudi's ``hoodie.keep.max.commits``."""


def drop_metadata_table(
    table: Table, partitions: Collection[str] = (), config: WriteConfig | None = None, *, host: Host | None = None
) -> tuple[str, ...]:
    """Take the metadata table of a table away, or some of its partitions; those that went.

    Nothing of dead writers is settled before: what is damaged can be taken away.

    Args:
        partitions: those that go; all, if none are named or ``files`` is among them.

    Raises:
        MetadataTableError: it has no such partition.
    """
    with holding(table, "dropping the metadata table", config or WriteConfig(), host=host) as (_, lock):
        properties = table.current_properties()
        there = (*properties.metadata_partitions, *properties.metadata_partitions_inflight)
        found = {*there, *(unnamed(table.storage, partitions) if there else ())}
        unknown = next((name for name in partitions if name not in found), None)
        if unknown is not None:
            raise MetadataTableError(
                f"the metadata table of {table.name} has no partition {unknown!r}",
                culprit=unknown,
                hint=f"it has: {', '.join(there) or 'none'}",
            )
        lock.check()
        return drop_metadata(table, partitions)


def compact_metadata_table(
    table: Table, config: WriteConfig | None = None, *, force: bool = False, host: Host | None = None
) -> str | None:
    """Compact the metadata table, and delete what nobody reads of it any more; the compaction's instant.

    None if there is no metadata table, nothing to compact, or a write is pending.
    """
    with maintaining(table, "compacting the metadata table", config, force=force, host=host) as (context, _):
        return compact_metadata(context)


def archive_metadata_table(
    table: Table, config: WriteConfig | None = None, *, force: bool = False, host: Host | None = None
) -> tuple[Instant, ...]:
    """Archive what nobody needs of the metadata table's own timeline; the instants that went.

    Repeating it, after a kill too, does what is left to do.

    Raises:
        MetadataTableError: the metadata table does not know of a commit.
        FencedError: this process stalled for longer than its lease.
    """
    with maintaining(table, "archiving the metadata table's timeline", config, force=force, host=host) as (
        context,
        lock,
    ):
        view = metadata_view(context)
        going = () if view is None else plan_metadata_archiving(view)
        if view is None or not going:
            return ()
        view.check_told()
        archive_instants(table.storage, view.table.load_timeline, lock, going)
        return going


def plan_metadata_archiving(view: MetadataView) -> tuple[Instant, ...]:
    """What archiving would take of the metadata table's own timeline now, in time order; nothing is changed."""
    timeline = view.timeline
    writes = timeline.completed_writes
    compactions = sorted(one.time for one in writes if one.action == names.COMMIT)
    if len(compactions) < 2 or len(writes) <= KEPT_WRITES:
        return ()
    limit = min(_held_instants(view, compactions[-2]), key=comparable)
    older = [one for one in timeline.completed if comparable(one.time) < comparable(limit)]
    last = [one for one in older if one in writes][-1:]
    cleans = [one for one in timeline.completed if one.action == names.CLEAN][-1:]
    named = instants_of_files(view.table)
    going = tuple(
        one for one in older if one.action in ARCHIVED_ACTIONS and one.time not in named and one not in (*last, *cleans)
    )
    return going if len(going) >= LEAST or _is_begun(timeline, going) else ()


def _is_begun(timeline: Timeline, going: tuple[Instant, ...]) -> bool:
    """Whether a writer was killed while it took some of them off the timeline: the requested files go first."""
    requested = {one.time for one in timeline.files if one.state is InstantState.REQUESTED}
    return any(one.time not in requested for one in going)


def _held_instants(view: MetadataView, compacted: str) -> Iterator[str]:
    """Instants from which on all must stay."""
    writes, data = view.timeline.completed_writes, view.data
    yield writes[-KEPT_WRITES].time
    yield from (one.time for one in writes if (one.completion_time or one.time) >= compacted)
    yield from (one.time for one in view.timeline.pending[:1])
    yield from (one.time for one in data.pending[:1])
    yield from (one.time for one in data.completed_writes[:1])


_GROUPS: Final = {FILES: 1, COLUMN_STATS: 2, PARTITION_STATS: 1, BLOOM_FILTERS: 4}
"""File groups of a partition that is made, as Hudi's options have them by default."""
_ORDER: Final = (FILES, COLUMN_STATS, BLOOM_FILTERS, RECORD_INDEX, PARTITION_STATS)
_NEEDS: Final = {PARTITION_STATS: COLUMN_STATS}

# HoodieTableMetadataUtil.estimateFileGroupCount: twice the keys of now, 48 bytes each, a group of a gibibyte at most.
_GROWTH: Final = 2
_KEY_BYTES: Final = 48
_GROUP_BYTES: Final = 1 << 30
_IN_ALL: Final = (10, 10_000)
_WITHIN_PARTITION: Final = (1, 10)
"""Least and most file groups of a record index, and of each partition of the table in a partitioned one."""


class BuiltPartitions(Frozen):
    """What was built.

    Attributes:
        partitions: partitions of the metadata table, in the order in which they were made.
        files: data files that it names.
        notes: what was done to other writers' instants.
    """

    partitions: tuple[str, ...]
    files: int
    notes: tuple[str, ...]


def default_partitions(properties: TableProperties, schema_text: str | None) -> tuple[str, ...]:
    """Partitions of the metadata table that Hudi makes for a table by itself: 0.15 for one of version 6, else 1.2.

    Args:
        schema_text: its Avro schema; None if nobody has said it, so that no column can have statistics.
    """
    if properties.layout == LAYOUT_1 or schema_text is None:
        return (FILES,)
    return (FILES, COLUMN_STATS, PARTITION_STATS) if properties.is_partitioned else (FILES, COLUMN_STATS)


def record_index_groups(keys: int, *, partitioned: bool = False) -> int:
    """How many file groups a record index of so many keys has, as Hudi sizes it at its defaults.

    Args:
        keys: of the whole table, or of one of its partitions if the index is partitioned.
        partitioned: it has file groups for each partition of the table.
    """
    estimate = keys * _GROWTH // (_GROUP_BYTES // _KEY_BYTES)
    least, most = _WITHIN_PARTITION if partitioned else _IN_ALL
    return min(max(estimate, least), most)


def build_metadata_table(
    table: Table,
    config: WriteConfig | None = None,
    partitions: Sequence[str] = (),
    *,
    force: bool = False,
    host: Host | None = None,
) -> BuiltPartitions:
    """Build the metadata table of a table that has none, or add partitions to the one that it has.

    Instants of ours that are pending add what they write when they are committed. Each partition is used as soon as it
    is whole; after a kill the ones that were not are taken away by whoever writes next. A record index that is named
    and there is made anew; readers have the old one until the new one is whole.

    Args:
        partitions: those that are built; what a partition needs is built, too. None named: those that Hudi makes.

    Raises:
        MetadataTableError: there is one (and none was named), or something in its place, or it cannot be kept up.
        PendingInstantError: a living writer of another kind is in flight; or any, if a record index is made anew.
        FencedError: this process stalled for longer than its lease.
    """
    purpose = "building the metadata table"
    with maintaining(table, purpose, config, force=force, alone=True, host=host) as (context, lock):
        properties = table.current_properties()
        there = properties.metadata_partitions
        schema = _schema_text(context.storage, properties, table.load_timeline())
        wanted = _wanted(properties, partitions or default_partitions(properties, schema), named=bool(partitions))
        builder = _Builder.of(context, lock, properties)
        if RECORD_INDEX in wanted:
            builder.check_scope()
        for name in wanted:
            if name == FILES:
                begin_building(context.storage)
                make_table(replace(builder.table, partitions=(FILES,)), properties.name)
            there = builder.renewed(there) if name in there else builder.add(name, there)
        files = sum(len(names) for names in builder.files.values())
        return BuiltPartitions(wanted, files, tuple(context.notes))


def committed_files(found: Snapshot) -> dict[str, dict[str, int]]:
    """Partition path -> file name -> bytes, of every file of a completed commit: what a metadata table names."""
    files: dict[str, dict[str, int]] = {}
    for partition in found.partitions():
        listed = found.files_of(partition)
        files[partition] = {one.name: one.size_bytes for one in (*listed.live, *listed.older)}
    return files


def _wanted(properties: TableProperties, partitions: Sequence[str], *, named: bool) -> tuple[str, ...]:
    """What is to be built, in the order in which it is."""
    there = properties.metadata_partitions
    unknown = next((name for name in partitions if name not in GROUP_PREFIXES), None)
    if unknown is not None:
        raise MetadataTableError(
            f"a partition {unknown!r} of a metadata table cannot be built",
            culprit=unknown,
            hint=f"these can: {', '.join(_ORDER)}; Hudi builds the others, and our commits do not keep them up",
        )
    if PARTITION_STATS in partitions and not properties.is_partitioned:
        raise MetadataTableError(
            f"table {properties.name} has no partitions, so that there is nothing to say in {PARTITION_STATS}",
            culprit=PARTITION_STATS,
            hint=f"{COLUMN_STATS} has what its readers skip files by",
        )
    check_virtual_metadata(properties, partitions)
    asked = set(partitions)
    asked |= {FILES, *(_NEEDS[name] for name in asked if name in _NEEDS)}
    asked -= {*there} - {RECORD_INDEX}
    wanted = tuple(name for name in _ORDER if name in asked)
    if not wanted or (there and not named):
        raise MetadataTableError(
            f"table {properties.name} has a metadata table: {described(there)}",
            culprit=properties.name,
            hint="`lakeindex metadata verify TABLE` compares it with the table, `lakeindex metadata drop TABLE` takes "
            "it away, `lakeindex metadata build TABLE --partition NAME` adds a partition",
        )
    return wanted


def _schema_text(storage: Storage, properties: TableProperties, timeline: Timeline) -> str | None:
    """The table's Avro schema; None if nobody has said it."""
    text = timeline.schema_text(storage) or properties.create_schema
    check_logical_types(properties.name, text)
    return text


class _Builder(Frozen):
    """What partitions are made of.

    Attributes:
        table: the metadata table, with all partitions that can be in it.
        files: partition path -> file name -> bytes, of every file of a completed commit.
        by_partition: keys are unique in their partition only.
        index: the table's; None if none is bound.
    """

    context: WriteContext
    lock: TableLock
    properties: TableProperties
    table: MetadataTable
    found: Snapshot
    files: dict[str, dict[str, int]]
    by_partition: bool
    index: IndexSpec | None
    _footers: list[NewFile] = field(default_factory=list)

    @staticmethod
    def of(context: WriteContext, lock: TableLock, properties: TableProperties) -> _Builder:
        found = snapshot(context.storage, context.table.load_timeline())
        version, layout = properties.version, properties.timeline_layout.version
        table = MetadataTable.of(context.storage, version, layout, tuple(GROUP_PREFIXES))
        assert table is not None
        index = context.table.index(found.timeline)
        level = index is not None and index.index_type is IndexType.RECORD_LEVEL_INDEX
        by_partition = index is not None and not index.is_global and (level or properties.is_partitioned)
        return _Builder(context, lock, properties, table, found, committed_files(found), by_partition, index)

    def check_scope(self) -> None:
        """Refuse a record index that would have one place for a key that may be in several partitions of the table,
        and one for each partition where releases read the table that do not know such an index.
        """
        index, version = self.index, self.properties.version
        if index is None or not self.by_partition:
            return
        level = IndexType.RECORD_LEVEL_INDEX
        least, cure = (
            VERSION_9,
            "`lakeindex index migrate TABLE --to GLOBAL_BLOOM` makes keys unique in the whole table",
        )
        if index.index_type is level:
            least, cure = VERSION_8, f"{level} does without: `lakeindex index build` makes lakeindex's own"
        if version < least.number:
            raise MetadataTableError(
                f"table {self.properties.name} of version {version} cannot have a record index for each partition, as "
                f"its index {index.index_type} needs it, by which a key may be in several: releases read it that know "
                f"none; from version {least.number} on it is made",
                culprit=RECORD_INDEX,
                hint=cure,
            )

    def add(self, name: str, there: Sequence[str]) -> tuple[str, ...]:
        """Make a partition and let readers use it; all partitions that they use then."""
        storage, now = self.context.storage, (*there, name)
        what, defined = self._building(there), self._definition(name)
        time = free_instant(self.table, what)
        if name != FILES:
            begin_adding(storage, name, time)
        try:
            if defined is not None:
                by_partition = name == RECORD_INDEX and self.by_partition
                define_index(storage, name, defined, self.properties.version, partitioned=by_partition)
            add_partition(self.table, what, self._partition(name), time)
            self.lock.check()  # who holds the lock now would commit without a word to what we switch on
        except LakeIndexError:
            noted(
                "what was begun is taken away by the next write",
                lambda: check_metadata_table(
                    self.context.table, replace(self.context.config, metadata_table=MetadataTablePolicy.KEEP)
                ),
            )
            raise
        switch_on(storage, now, defined=defined is not None)
        self._check_switched(name)
        return now

    def renewed(self, there: tuple[str, ...]) -> tuple[str, ...]:
        """Make the record index anew. One of the other form, or without file groups, which nobody can read, goes
        before; all partitions that readers use then.
        """
        try:
            groups = MetadataView.load(self.table, self.found.timeline).slices(RECORD_INDEX)
        except TableCorruptError:
            groups = ()
        if groups and is_partitioned(groups) is self.by_partition:
            renew_record_index(self.context, self._change(RECORD_INDEX))
            return there
        self._change(RECORD_INDEX)  # what cannot be made is not taken away
        drop_metadata(self.context.table, (RECORD_INDEX,))
        return self.add(RECORD_INDEX, tuple(name for name in there if name != RECORD_INDEX))

    def _building(self, there: Sequence[str]) -> Building:
        completed = [one.time for one in self.found.timeline.completed]
        completion = self.context.completion_time(self.found.timeline)
        schema = own_schema(self.properties.version)
        if there:
            view = MetadataView.load(replace(self.table, partitions=tuple(there)), self.found.timeline)
            schema = view.schema(view.slices(FILES))
        return Building(max(completed, default=None), completion, schema)

    def _definition(self, name: str) -> tuple[str, ...] | None:
        """Columns of an index whose definition Hudi 1.x reads; None of others."""
        if self.properties.layout == LAYOUT_1 or name not in (COLUMN_STATS, RECORD_INDEX):
            return None
        if name == RECORD_INDEX:
            return ()
        text = _schema_text(self.context.storage, self.properties, self.found.timeline)
        if text is None:
            raise MetadataTableError(
                f"table {self.properties.name} has no columns yet to have statistics of",
                culprit=name,
                hint=f"write to it, then `lakeindex metadata build TABLE --partition {name}`",
            )
        return columns_to_index(schema_from_avro(text), stats_encoding(None, self.properties.version))

    def _partition(self, name: str) -> NewPartition:
        change = self._change(name)
        if name == RECORD_INDEX:
            return NewPartition(name, self._groups_of_keys(change), change)
        return NewPartition(name, tuple(file_id(name, number) for number in range(_GROUPS[name])), change)

    def _groups_of_keys(self, change: PartitionChange) -> tuple[str, ...]:
        """File groups of the record index. Hudi makes those of a partition that it knows at no later time."""
        if not self.by_partition:
            count = record_index_groups(sum(len(run.keys) for run in change.runs))
            return tuple(file_id(RECORD_INDEX, number) for number in range(count))
        keys = Counter(dict.fromkeys(sorted(self.files), 0))
        for run in change.runs:
            keys[run.partition] += len(run.keys)
        return tuple(
            file_id(RECORD_INDEX, number, partition)
            for partition, count in keys.items()
            for number in range(record_index_groups(count, partitioned=True))
        )

    def _change(self, name: str) -> PartitionChange:
        one = replace(self.table, partitions=(name,))
        if name == FILES:
            return change_of_files(self.files)[FILES]
        if name == COLUMN_STATS:
            return statistics_of_new(one, self._all_footers()).get(name, PartitionChange())
        if name == PARTITION_STATS:
            live = {(file.partition_path, file.name) for file in self.found.base_files_all()}
            return statistics_of_partitions(
                one, [file for file in self._all_footers() if (file.partition, file.name) in live]
            )
        if name == BLOOM_FILTERS:
            return PartitionChange(dict(self._filters(one)))
        moved = located_keys(self.context.storage, self.found.base_files_all())
        return record_index_change(moved, self.properties.timezone, partitioned=self.by_partition)

    def _all_footers(self) -> list[NewFile]:
        if not self._footers:
            self._footers.extend(read_new_files(self.table, self.files, self.found.base_files_all()))
        return self._footers

    def _filters(self, one: MetadataTable) -> Iterator[tuple[str, Record]]:
        by_instant: dict[str, list[NewFile]] = defaultdict(list)
        for file in self._all_footers():
            parsed = parse_base_file(file.partition, file.name)
            if parsed is not None:
                by_instant[parsed.instant_time].append(file)
        for time, files in by_instant.items():
            yield from filters_of_new(one, files, time).get(BLOOM_FILTERS, PartitionChange()).puts.items()

    def _check_switched(self, name: str) -> None:
        """Take the partition away again if the lock was lost: a commit of the next holder may be missing in it."""
        try:
            self.lock.check()
        except BaseException:
            drop_metadata(self.context.table, (name,))
            raise
