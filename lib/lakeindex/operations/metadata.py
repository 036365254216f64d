"""Build, drop and show the metadata table of a table, and compare it with the files and what is in them.

It is compared with footers and keys: statistics, bloom filters and record index. Statistics that are missing are no
fault, because readers keep files of which they know nothing. A range that is too narrow is a fault, because readers
skip rows by it; so is a filter that is not the footer's, and a key that is not where the record index says.

Source: what ``HoodieMetadataTableValidator`` of Hudi 1.2 compares.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from lakeindex.commit.services.metadata_service import build_metadata_table, committed_files, drop_metadata_table
from lakeindex.errors import REPAIR_KEYS, MetadataTableError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot, snapshot
from lakeindex.format.file_names import parse_base_file
from lakeindex.frozen import Frozen
from lakeindex.metadata import compaction
from lakeindex.metadata.column_stats import FIELD as STATS
from lakeindex.metadata.column_stats import holds_range, is_nan
from lakeindex.metadata.content_records import (
    NewFile,
    columns_without_partitions,
    filter_record,
    read_new_files,
    statistics_of_new,
    statistics_of_partitions,
)
from lakeindex.metadata.metadata_keys import bloom_filter_key
from lakeindex.metadata.metadata_records import FILTER_FIELD as FILTER
from lakeindex.metadata.metadata_records import Record
from lakeindex.metadata.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    GROUP_PREFIXES,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataTable,
    key_of_partition,
)
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata_upkeep.index_entries import (
    BUILD_ANEW,
    COPY,
    DOUBLED,
    ENTRY_KINDS,
    entries_elsewhere,
    wrong_entries,
)
from lakeindex.operations.consistent_read import TRIES, at_rest
from lakeindex.options.types import WriteConfig
from lakeindex.showing.json_result import TableResult
from lakeindex.storage import in_parallel
from lakeindex.table.handle import Table
from lakeindex.table.properties import metadata_table_of
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.base_file import RECORD_KEY

_ENDS: Final = ("minValue", "maxValue")
_SURPLUS: Final = (
    "`lakeindex repair TABLE`: the file may be lost, and a metadata table that is built anew would hide that"
)


class MetadataFault(Frozen):
    """Something that the metadata table says wrongly.

    Attributes:
        kind: ``missing``: it does not name a file of the table, whose rows its readers lose; ``surplus``: it names one
            that is not there, on which they fail; ``size``: it gives another size; ``partition``: it does not list a
            partition, whose rows its readers lose; ``statistics``: it gives a column a range that is too narrow or ends
            in NaN, none in a partition though it has some in others, or some in a file where another column can have
            none, so that readers skip rows; ``filter``: a file's filter is
            another one, or none; ``key``: a record key is somewhere else, or nowhere, so that an upsert by the record
            index may double it.
        path: the file, the partition, or the key.
        said: what the metadata table says, in words.
        is_so: what is there, in words.
        mend: how it is mended.
        entry: of kind ``key``, as :attr:`lakeindex.metadata_upkeep.index_entries.WrongEntry.kind`; else empty.
    """

    kind: str
    path: str
    said: str
    is_so: str
    mend: str = "`lakeindex metadata drop TABLE`, then `lakeindex metadata build TABLE`"
    entry: str = ""


def find_index_faults(
    view: MetadataView, live: Snapshot, there: Mapping[str, Mapping[str, int]]
) -> Iterator[MetadataFault]:
    """What a metadata table says wrongly of what is in the files. All footers and keys are read.

    Args:
        there: partition path -> file name -> bytes, of all files of completed commits.

    Raises:
        TableCorruptError: the metadata table, or a file, cannot be read.
    """
    new = read_new_files(view.table, there, live.base_files_all())
    if COLUMN_STATS in view.table.partitions:
        wanted = statistics_of_new(view.table, new).get(COLUMN_STATS)
        yield from _narrow(view, COLUMN_STATS, {} if wanted is None else wanted.puts)
        yield from _partial(view, {} if wanted is None else wanted.puts, {one.name for one in new})
    if PARTITION_STATS in view.table.partitions:
        current = {(one.partition_path, one.name) for one in live.base_files_all()}
        change = statistics_of_partitions(view.table, [one for one in new if (one.partition, one.name) in current])
        yield from _narrow(view, PARTITION_STATS, change.puts)
        if columns := columns_without_partitions(view.table, new):
            yield from _unholdable(view, PARTITION_STATS, lambda said: said["columnName"] in columns)
    if BLOOM_FILTERS in view.table.partitions:
        yield from _other_filters(view, new)
    if RECORD_INDEX in view.table.partitions:
        yield from _wrong_entries(view, live)


def _stored(view: MetadataView, partition: str) -> dict[str, Record]:
    parts = in_parallel(view.table.storage.uri, view.records, view.slices(partition))
    return {key: record for part in parts for key, record in part.items()}


def _narrow(view: MetadataView, partition: str, wanted: Mapping[str, Record]) -> Iterator[MetadataFault]:
    stored = _stored(view, partition)
    told = {one[STATS]["columnName"] for one in stored.values() if not one[STATS]["isDeleted"]}
    for key, record in wanted.items():
        said, is_so = stored.get(key), record[STATS]
        if said is None or said[STATS]["isDeleted"]:
            if partition == PARTITION_STATS and is_so["columnName"] in told:
                yield MetadataFault("statistics", _place_of(is_so), "nothing", _range(is_so), _again(partition))
        elif _hides(said, record):
            yield MetadataFault("statistics", _place_of(is_so), _range(said[STATS]), _range(is_so), _again(partition))


def _partial(view: MetadataView, wanted: Mapping[str, Record], names: Collection[str]) -> Iterator[MetadataFault]:
    """Statistics of files that must have none, as a column has bounds that no record can hold."""
    bare = {*names} - {one[STATS]["fileName"] for one in wanted.values() if one[STATS]["columnName"] != RECORD_KEY}
    if bare:
        yield from _unholdable(
            view, COLUMN_STATS, lambda said: said["fileName"] in bare and said["columnName"] != RECORD_KEY
        )


def _unholdable(
    view: MetadataView, partition: str, is_so: Callable[[Mapping[str, Any]], bool]
) -> Iterator[MetadataFault]:
    for said in (record[STATS] for record in _stored(view, partition).values()):
        if not said["isDeleted"] and is_so(said):
            nothing = "bounds of a column that no record can hold"
            yield MetadataFault("statistics", _place_of(said), _range(said), nothing, _again(partition))


def _hides(said: Record, record: Record) -> bool:
    """Whether readers skip values by what is said of a column that has a range: it is narrower, or NaN, or nothing."""
    stats, is_so = said[STATS], record[STATS]
    if is_so["maxValue"] is None:
        return False
    if any(stats[end] is None or is_nan(stats[end]) for end in _ENDS):
        return True
    return not holds_range(stats, is_so)


def _place_of(stats: Mapping[str, Any]) -> str:
    return f"{stats['fileName'] or key_of_partition('')} ({stats['columnName']})"


def _range(stats: Mapping[str, Any]) -> str:
    ends = ("nothing" if stats[end] is None else repr(stats[end][1]["value"])[:40] for end in _ENDS)
    return " to ".join(ends)


def _other_filters(view: MetadataView, files: list[NewFile]) -> Iterator[MetadataFault]:
    stored = _stored(view, BLOOM_FILTERS)
    for one in files:
        wanted = filter_record(one, "")
        if wanted is None:
            continue
        path = f"{one.partition}/{one.name}" if one.partition else one.name
        said = stored.get(bloom_filter_key(one.partition, one.name))
        if said is None:
            yield MetadataFault("filter", path, "no filter", "one in its footer", _again(BLOOM_FILTERS))
        elif any(said[FILTER][name] != wanted[FILTER][name] for name in ("type", "bloomFilter")):
            yield MetadataFault("filter", path, "another filter", "that of its footer", _again(BLOOM_FILTERS))


def _wrong_entries(view: MetadataView, live: Snapshot) -> Iterator[MetadataFault]:
    files = live.base_files_all()
    for one in (*wrong_entries(view, files), *entries_elsewhere(view, files)):
        said, is_so, mend = _place(one.said), _place(one.stored), BUILD_ANEW
        if one.kind == COPY:
            is_so, mend = f"a row in {is_so}, too", REPAIR_KEYS
        elif one.kind == DOUBLED:
            said += f", in {one.group} of the index, where nobody looks for it"
        yield MetadataFault("key", one.key, said, is_so, mend, one.kind)


def _place(place: tuple[str, str] | None) -> str:
    return "no such key" if place is None else f"file group {place[1]} of partition {place[0]!r}"


def _again(partition: str) -> str:
    return (
        f"`lakeindex metadata drop TABLE --partition {partition}`, "
        f"then `lakeindex metadata build TABLE --partition {partition}`"
    )


class MetadataBuilt(TableResult):
    """A metadata table that was built.

    Attributes:
        built: partitions that were made.
        partitions: all that it has.
        files: files that it names.
        seconds: wall time.
        notes: what was done to other writers' instants.
    """

    shown_by: ClassVar[str] = "results:show_metadata_built"

    built: tuple[str, ...]
    partitions: tuple[str, ...]
    files: int
    seconds: float
    notes: tuple[str, ...]


class MetadataDropped(TableResult):
    """What was taken away.

    Attributes:
        dropped: partitions that went.
        left: partitions that are left.
    """

    shown_by: ClassVar[str] = "results:show_metadata_dropped"

    dropped: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def undone_by(self) -> str | None:
        """The command that builds what went, which nothing in the table names any more."""
        words = [f"--partition {name}" for name in self.dropped if name in GROUP_PREFIXES]
        return " ".join(["lakeindex metadata build", self.uri, *words]) if words else None


class MetadataPartitionStatus(Frozen):
    """One partition of a metadata table.

    Attributes:
        name: its name.
        kept: whether our commits keep it up.
        groups: file groups; 0 of one that is not kept up.
        logs: logs of their newest slices.
        bytes: size of these slices.
    """

    name: str
    kept: bool
    groups: int
    logs: int
    bytes: int


class MetadataStatus(TableResult):
    """The state of a metadata table.

    Attributes:
        version: version of both tables.
        partitions: those that readers use; none if there is no metadata table.
        inflight: those that another writer is building.
        last_compaction: instant of the newest compaction; None if there was none.
        delta_commits: completed delta commits since then.
        last_instant: the newest instant that it knows.
    """

    shown_by: ClassVar[str] = "results:show_metadata_status"

    version: int
    partitions: tuple[MetadataPartitionStatus, ...]
    inflight: tuple[str, ...]
    last_compaction: str | None
    delta_commits: int
    last_instant: str | None


def metadata_build(
    uri: str, partitions: Sequence[str] = (), config: WriteConfig | None = None, *, force: bool = False
) -> MetadataBuilt:
    """Build the metadata table of a table that has none, or add partitions to the one that it has.

    Args:
        partitions: those that are built, and what they need; none named: those that Hudi makes by itself. A record
            index that is named and there is made anew.
        config: lease and waiting times.
        force: take other writers' pending instants for dead.

    Raises:
        MetadataTableError: it has them, or something is in their place.
        TableCorruptError: a committed file is missing: one that is built now would not know of it.
        ConflictError: another writer is in flight or holds the lock.
    """
    from lakeindex.conductor.open_for_write import retry_on_conflict  # not for checks, which never build one
    from lakeindex.operations.rows.time_travel import past_table

    started = time.perf_counter()
    table, listed = Table.at(uri), Table.at(uri, use_metadata=False)
    retry_on_conflict(listed, config or WriteConfig(), lambda found: past_table(listed, found.timeline))
    done = build_metadata_table(table, config, partitions, force=force)
    partitions = table.current_properties().metadata_partitions
    seconds = round(time.perf_counter() - started, 4)
    return MetadataBuilt(table.name, table.uri, done.partitions, tuple(partitions), done.files, seconds, done.notes)


def metadata_drop(uri: str, partitions: Sequence[str] = (), config: WriteConfig | None = None) -> MetadataDropped:
    """Take the metadata table away, or some of its partitions.

    Args:
        partitions: those that go; all, if none are named or ``files`` is among them.
        config: lease and waiting times.

    Raises:
        MetadataTableError: it has no such partition.
        ConflictError: another writer holds the lock.
    """
    table = Table.at(uri)
    dropped = drop_metadata_table(table, partitions, config)
    return MetadataDropped(table.name, table.uri, dropped, table.current_properties().metadata_partitions)


def metadata_status(uri: str) -> MetadataStatus:
    """Show the state of a metadata table. Raises: TableCorruptError."""
    table = Table.at(uri)
    properties = table.properties
    metadata = metadata_table_of(table.storage, properties)
    inflight = properties.metadata_partitions_inflight
    if metadata is None:
        return MetadataStatus(table.name, table.uri, properties.version, (), inflight, None, 0, None)
    view = MetadataView.load(metadata, table.load_timeline())
    return MetadataStatus(
        table=table.name,
        uri=table.uri,
        version=properties.version,
        partitions=tuple(_status_of(view, name) for name in metadata.partitions),
        inflight=inflight,
        last_compaction=compaction.last_compaction(view.timeline),
        delta_commits=compaction.delta_commits_since(view.timeline),
        last_instant=view.timeline.last_completed_write_time,
    )


def _metadata_table(table: Table) -> MetadataTable:
    metadata = metadata_table_of(table.storage, table.properties)
    if metadata is None:
        raise MetadataTableError(
            f"table {table.name} has no metadata table",
            culprit=table.uri,
            hint="`lakeindex metadata build TABLE` makes one",
        )
    return metadata


def _status_of(view: MetadataView, name: str) -> MetadataPartitionStatus:
    if name not in GROUP_PREFIXES:
        return MetadataPartitionStatus(name, kept=False, groups=0, logs=0, bytes=0)
    slices = view.slices(name)
    sizes = [log.size_bytes for one in slices for log in one.logs]
    sizes += [one.base.size_bytes for one in slices if one.base is not None]
    logs = sum(len(one.logs) for one in slices)
    return MetadataPartitionStatus(name, kept=True, groups=len(slices), logs=logs, bytes=sum(sizes))


_EXAMPLES: Final = 5


class MetadataVerified(TableResult):
    """What the comparison found.

    Attributes:
        ok: it says what is there.
        files: files of the table that were compared.
        partitions: partitions of the table.
        counts: faults by their kind.
        record_index: wrong entries by their kind, as of
            :attr:`lakeindex.metadata_upkeep.index_entries.WrongEntry.kind`; empty if there is no record index.
        examples: some of each.
        seconds: wall time.
    """

    shown_by: ClassVar[str] = "results:show_metadata_verified"

    ok: bool
    files: int
    partitions: int
    counts: Mapping[str, int]
    record_index: Mapping[str, int]
    examples: tuple[MetadataFault, ...]
    seconds: float


def metadata_verify(uri: str) -> MetadataVerified:
    """Compare the metadata table with a listing, footers and record keys.

    Nothing is changed; what is wrong does not raise, it is reported.

    Raises:
        MetadataTableError: it has no metadata table.
        TableCorruptError: the metadata table cannot be read.
        WriteConflictError: other writers changed the table in every look.
    """
    started = time.perf_counter()
    found, is_sure = at_rest(Table.at(uri), partial(_compared, started), lambda one: one.ok)
    if not is_sure:
        raise WriteConflictError(
            f"table {found.table} was changed by other writers in each of {TRIES} looks at its metadata table",
            culprit=found.uri,
            hint="run it again when they are done",
        )
    return found


def _compared(started: float, table: Table, timeline: Timeline) -> MetadataVerified:
    view = MetadataView.load(_metadata_table(table), timeline)
    live = snapshot(table.storage, view.data)
    there = committed_files(live)
    faults = [*find_faults(view, there), *find_index_faults(view, live, there)]
    counts = Counter(fault.kind for fault in faults)
    entries = Counter(fault.entry for fault in faults if fault.entry)
    seen: Counter[tuple[str, str]] = Counter()
    examples: list[MetadataFault] = []
    for fault in faults:
        seen[fault.kind, fault.entry] += 1
        if seen[fault.kind, fault.entry] <= _EXAMPLES:
            examples.append(fault)
    return MetadataVerified(
        table=table.name,
        uri=table.uri,
        ok=not faults,
        files=sum(len(names) for names in there.values()),
        partitions=len(there),
        counts=dict(counts),
        record_index={kind: entries[kind] for kind in ENTRY_KINDS} if RECORD_INDEX in view.table.partitions else {},
        examples=tuple(examples),
        seconds=round(time.perf_counter() - started, 4),
    )


def find_faults(view: MetadataView, there: Mapping[str, Mapping[str, int]]) -> Iterator[MetadataFault]:
    """What a metadata table says wrongly about files.

    Args:
        there: partition path -> file name -> bytes, of all files of completed commits.

    Raises:
        TableCorruptError: it cannot be read.
    """
    listing = view.listing()
    said = listing.files
    for partition, files in sorted(there.items()):
        if files and partition not in listing.partitions:
            yield MetadataFault("partition", partition, "no such partition", f"{len(files)} files")
        yield from _faults_of(view.data, partition, files, said.get(partition, {}))
    for partition in sorted({*said} - {*there}):
        yield from _faults_of(view.data, partition, {}, said[partition])


def _faults_of(
    timeline: Timeline, partition: str, there: Mapping[str, int], said: Mapping[str, int]
) -> Iterator[MetadataFault]:
    prefix = f"{partition}/" if partition else ""
    for name in sorted({*there, *said}):
        size, told = there.get(name), said.get(name)
        if told is None:
            yield MetadataFault("missing", prefix + name, "no such file", f"{size} bytes")
        elif size is None:
            file = parse_base_file(partition, name, told)
            if file is None or timeline.is_visible(file.instant_time):  # no reader looks for one of a failed write
                yield MetadataFault("surplus", prefix + name, f"{told} bytes", "no such file", _SURPLUS)
        elif size != told:
            yield MetadataFault("size", prefix + name, f"{told} bytes", f"{size} bytes")
