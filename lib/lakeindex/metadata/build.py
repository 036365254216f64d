"""Making a metadata table: its properties, and for each partition the file groups, a base file and a delta commit.

Readers use it when the table's own properties name it, which is the last step, and not done here.

Source: ``HoodieBackedTableMetadataWriter.initializeFromFilesystem`` of Hudi 0.15 and 1.2; compared with what they make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.format.hfile import format_hfile
from lakeindex.format.log_blocks import BlockKind, HeaderKey, LogBlock, format_block
from lakeindex.format.partition_metadata import (
    PartitionMetadata,
    format_partition_metadata,
    partition_metadata_path,
)
from lakeindex.format.properties import format_properties, table_checksum
from lakeindex.metadata.changes import change_of_files
from lakeindex.metadata.compaction import BLOCK_BYTES
from lakeindex.metadata.metadata_table import FILES, METADATA_ROOT, MetadataTable, file_id
from lakeindex.metadata.records import encode_record, format_deletes, own_schema
from lakeindex.model import Instant, InstantState
from lakeindex.timeline import records
from lakeindex.timeline.layout import LAYOUT_1

OPERATION: Final = "BULK_INSERT"

_OLD_FIRST: Final = "0" * 14
_OLD_SUFFIX: Final = "010"
_NEW_FIRST: Final = "0" * names.TIME_DIGITS
_TOKEN: Final = "0-0-0"  # noqa: S105 - a write token: task, stage and attempt


@dataclass(frozen=True, slots=True)
class Building:
    """What a metadata table is made of.

    Attributes:
        name: the table's name.
        last_completed: the last completed instant of its timeline; None on an empty table.
        completion_time: when the first delta commit is completed; None in timeline layout 1.
        files: partition path -> file name -> bytes, of all committed files.
    """

    name: str
    last_completed: str | None
    completion_time: str | None
    files: Mapping[str, Mapping[str, int]]


def build(table: MetadataTable, what: Building) -> None:
    """Write a metadata table with the partition ``files``, durably, where none is.

    Args:
        table: the metadata table that is made. Who makes it holds the table's lock.
        what: what it is about.
    """
    time = _first_instant(table, what)
    schema = own_schema(table.version)
    _put(table, f"{METADATA_ROOT}/.hoodie/hoodie.properties", _properties(table, what.name))
    group = file_id(FILES, 0)
    folder = table.folder(FILES)
    marker = format_partition_metadata(PartitionMetadata(time, 1))
    _put(table, f"{METADATA_ROOT}/{partition_metadata_path(FILES)}", marker)
    for state in (InstantState.REQUESTED, InstantState.INFLIGHT):
        _put(table, table.layout.path(Instant(time, names.DELTA_COMMIT, state)), b"")
    empty = LogBlock(BlockKind.DELETE, {HeaderKey.INSTANT_TIME: time}, format_deletes((), FILES))
    _put(table, f"{folder}/.{group}_{time}.log.1_{_TOKEN}", format_block(empty))
    puts = change_of_files(what.files)[FILES].puts
    entries = sorted((key.encode(), encode_record(one, schema)) for key, one in puts.items())
    info = {b"minRecordKey": entries[0][0], b"maxRecordKey": entries[-1][0]}
    data = format_hfile(entries, schema, info=info, block_bytes=BLOCK_BYTES)
    name = f"{group}_{_TOKEN}_{time}.hfile"
    _put(table, f"{folder}/{name}", data)
    stat = WriteStat(
        file_id=group,
        path=f"{FILES}/{name}",
        partition_path=FILES,
        num_writes=len(entries),
        num_inserts=len(entries),
        total_write_bytes=len(data),
        file_size_bytes=len(data),
    )
    done = Instant(time, names.DELTA_COMMIT, InstantState.COMPLETED, what.completion_time)
    metadata = CommitMetadata({FILES: (stat,)}, OPERATION, {"schema": schema})
    _put(table, table.layout.path(done), table.layout.encode_commit(metadata))


def _put(table: MetadataTable, path: str, data: bytes) -> None:
    records.put(table.storage, path, data)
    table.storage.sync([path])


def _first_instant(table: MetadataTable, what: Building) -> str:
    if table.layout.version != LAYOUT_1:
        return _NEW_FIRST
    return (what.last_completed or _OLD_FIRST) + _OLD_SUFFIX


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
    return format_properties(entries, comments=("Properties of a metadata table made by lakeindex",))
