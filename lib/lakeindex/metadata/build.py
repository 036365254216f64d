"""Making a metadata table: its properties, and for each partition the file groups, a base file and a delta commit.

Readers use it when the table's own properties name it, which is the last step, and not done here.

Source: ``HoodieBackedTableMetadataWriter.initializeFromFilesystem`` of Hudi 0.15 and 1.2; compared with what they make.
"""

from __future__ import annotations

from typing import Final

from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.format.java_properties import format_properties, table_checksum
from lakeindex.format.log_blocks import BlockKind, HeaderKey, LogBlock, format_block
from lakeindex.format.partitions import PartitionMetadata, format_partition_metadata, partition_metadata_path
from lakeindex.frozen import Frozen
from lakeindex.metadata.compaction import format_base
from lakeindex.metadata.metadata_changes import GroupChange, PartitionChange, by_group
from lakeindex.metadata.metadata_records import format_deletes, format_native_puts
from lakeindex.metadata.metadata_table import METADATA_ROOT, MetadataTable
from lakeindex.metadata.slices import FileSlice, LogForm, log_name
from lakeindex.model import Instant, InstantState
from lakeindex.timeline import records
from lakeindex.timeline.layout import LAYOUT_1
from lakeindex.timeline.timeline import Timeline

OPERATION: Final = "BULK_INSERT"

_OLD_FIRST: Final = "0" * 14
_OLD_SUFFIX: Final = 10
_OLD_LAST: Final = 999
_TOKEN: Final = "0-0-0"  # noqa: S105 - a write token: task, stage and attempt


class NewPartition(Frozen):
    """A partition that a metadata table is to have.

    Attributes:
        groups: ids of its file groups, in order.
        change: what is in it at first; deletes are left out.
    """

    name: str
    groups: tuple[str, ...]
    change: PartitionChange


class Building(Frozen):
    """When and how partitions are made.

    Attributes:
        last_completed: the last completed instant of the table's timeline; None on an empty table.
        completion_time: when the delta commits are completed; None in timeline layout 1.
        schema: the Avro schema of the records, JSON.
    """

    last_completed: str | None
    completion_time: str | None
    schema: str


def make_table(table: MetadataTable, name: str) -> None:
    """Write the properties of a metadata table, durably, where none is. The table's lock is held."""
    _put(table, f"{METADATA_ROOT}/.hoodie/hoodie.properties", _properties(table, name))


def add_partition(table: MetadataTable, what: Building, new: NewPartition, time: str) -> None:
    """Write a partition of a metadata table, durably, where none is.

    Every file group begins with a log of nothing, so that it is there though no record is in it. The table's
    lock is held.

    Args:
        time: instant of its delta commit, as :func:`free_instant` gives it.
    """
    timeline = table.load_timeline()
    folder = table.folder(new.name)
    marker = format_partition_metadata(PartitionMetadata(time, 1))
    _put(table, f"{METADATA_ROOT}/{partition_metadata_path(new.name)}", marker)
    for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
        _put(table, table.layout.path(Instant(time, names.DELTA_COMMIT, state)), b"")
    form, empty = _empty_log(table, what, new.name, time)
    for group in new.groups:
        _put(table, f"{folder}/{log_name(group, time, 1, form, _TOKEN)}", empty)
    slices = [FileSlice(new.name, group, time, None, ()) for group in new.groups]
    stats = tuple(_write_base(table, what.schema, time, part) for part in by_group(slices, new.change, time))
    completion = _completion_time(table, timeline, what)
    done = Instant(time, names.DELTA_COMMIT, InstantState.COMPLETED, completion)
    metadata = CommitMetadata({new.name: stats} if stats else {}, OPERATION, {"schema": what.schema})
    _put(table, table.layout.path(done), table.layout.encode_commit(metadata))


def _empty_log(table: MetadataTable, what: Building, partition: str, time: str) -> tuple[LogForm, bytes]:
    if table.has_native_logs:
        header: dict[int, str] = {HeaderKey.INSTANT_TIME: time, HeaderKey.SCHEMA: what.schema}
        return LogForm.PUTS, format_native_puts((), header)
    nothing = LogBlock(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: time}, format_deletes((), partition))
    return LogForm.BLOCKS, format_block(nothing)


def _write_base(table: MetadataTable, schema: str, time: str, part: GroupChange) -> WriteStat:
    partition, group = part.group.partition, part.group.file_id
    entries = part.entries(schema)
    data = format_base(entries, schema)
    name = f"{group}_{_TOKEN}_{time}.hfile"
    _put(table, f"{table.folder(partition)}/{name}", data)
    return WriteStat(
        file_id=group,
        path=f"{partition}/{name}",
        partition_path=partition,
        num_writes=len(entries),
        num_inserts=len(entries),
        total_write_bytes=len(data),
        file_size_bytes=len(data),
    )


def _put(table: MetadataTable, path: str, data: bytes) -> None:
    records.put(table.storage, path, data)
    table.storage.sync([path])


def free_instant(table: MetadataTable, what: Building) -> str:
    """The instant of a partition that is made: of a kind of its own, which no action of the table has."""
    timeline = table.load_timeline()
    taken = {one.time for one in timeline.files} | timeline.archived.writes
    if table.layout.version != LAYOUT_1:
        firsts = (f"{number:0{names.TIME_DIGITS}d}" for number in range(len(taken) + 1))
        return next(one for one in firsts if one not in taken)
    last = what.last_completed or _OLD_FIRST
    suffixed = (f"{last}{number:03d}" for number in range(_OLD_SUFFIX, _OLD_LAST))
    return next(one for one in suffixed if one not in taken)


def _completion_time(table: MetadataTable, timeline: Timeline, what: Building) -> str | None:
    """The first that is free from the one that was given on."""
    if what.completion_time is None:
        return None
    taken = timeline.max_time or ""
    at = what.completion_time
    return at if at > taken else table.layout.completion_time(taken, 0)


def _properties(table: MetadataTable, name: str) -> bytes:
    own = f"{name}_metadata"
    old = table.layout.version == LAYOUT_1
    entries = {
        "hoodie.table.name": own,
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(table.version),
        "hoodie.timeline.layout.version": str(table.layout.version),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.archivelog.folder": "archived" if old else "history",
        "hoodie.table.checksum": str(table_checksum("", own)),
    }
    if old:
        # What 0.15 writes; 1.2 reads it in its place.
        entries["hoodie.table.keygenerator.class"] = "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator"
        entries["hoodie.compaction.record.merger.strategy"] = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
    else:
        entries |= {
            "hoodie.table.initial.version": str(table.version),
            "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
            "hoodie.record.merge.mode": "CUSTOM",
            "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
        }
    if table.has_native_logs:
        entries["hoodie.meta.fields.mode"] = "NONE"
    return format_properties(entries, comments=("Properties of a metadata table made by lakeindex",))
