"""Reading the metadata table: what base file and logs of a slice say together.

A log's block counts if its instant is completed on the metadata table's timeline (or older than that) and not pending
on the table's own: the metadata table is written before the commit that it belongs to. An instant that we rolled back
never counts.

Source: ``HoodieTableMetadataUtil.getValidInstantTimestamps``, ``BaseHoodieLogRecordReader`` of Hudi 0.15 and 1.2.
Unlike 0.15 we take what was archived from the table's timeline for valid: whoever archives compacts before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeindex.errors import TableCorruptError
from lakeindex.format.hfile import HFile
from lakeindex.format.log_blocks import BlockKind, HeaderKey, LogBlock, read_blocks
from lakeindex.metadata.metadata_table import ALL_PARTITIONS_KEY, FILES, MetadataTable, partition_of_key
from lakeindex.metadata.records import FILES_FIELD, Record, decode_record, merged, own_schema, parse_deletes
from lakeindex.metadata.slices import FileSlice, LogFile, is_complete, load_slices
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import load_verdict

_ROLLBACK: Final = "0"


@dataclass(frozen=True)
class MetadataView:
    """The metadata table at one moment.

    Attributes:
        table: the metadata table.
        timeline: its timeline.
        data: the timeline of the table that it is about.
    """

    table: MetadataTable
    timeline: Timeline
    data: Timeline

    @staticmethod
    def load(table: MetadataTable, data: Timeline) -> MetadataView:
        """The view of who has listed the table's own timeline."""
        return MetadataView(table, table.load_timeline(), data)

    def slices(self, partition: str) -> tuple[FileSlice, ...]:
        """The newest slice of each file group of a partition. Raises: TableCorruptError."""
        return load_slices(self.table, self.timeline, partition).newest

    def is_believed(self, time: str) -> bool:
        """Whether what was written under an instant counts."""
        if time in self.data.pending_times or not is_complete(self.timeline, time):
            return False
        if time in self.data.completed_write_times:
            return True
        verdict = load_verdict(self.table.storage, time)
        return verdict is None or verdict.is_committed

    def schema(self, files: Sequence[FileSlice]) -> str:
        """The Avro schema, JSON, of the newest records: nobody may write with an older one.

        Args:
            files: slices of the partition ``files``, which every delta commit changes.

        Raises:
            TableCorruptError: a file cannot be read.
        """
        for one in files:
            for log in reversed(one.logs):
                for block in self._blocks(log):
                    if block.kind == BlockKind.HFILE_DATA and HeaderKey.SCHEMA in block.header:
                        return block.header[HeaderKey.SCHEMA]
            if one.base is not None:
                return self._base(one).schema or own_schema(self.table.version)
        return own_schema(self.table.version)

    def records(self, one: FileSlice) -> dict[str, Record]:
        """The records of a slice by their keys, older and newer ones merged. Raises: TableCorruptError."""
        found: dict[str, Record] = {}
        for key, newer in self._changes(one):
            record = merged(found.get(key), newer)
            if record is None:
                found.pop(key, None)
            else:
                found[key] = record
        return found

    def files(self) -> dict[str, dict[str, int]]:
        """Partition path -> file name -> bytes, as readers list them. Raises: TableCorruptError."""
        found: dict[str, dict[str, int]] = {}
        for one in self.slices(FILES):
            for key, record in self.records(one).items():
                if key != ALL_PARTITIONS_KEY:
                    found[partition_of_key(key)] = _there(record)
        return found

    def partition_paths(self) -> frozenset[str]:
        """Partition paths of the table, as readers list them. Raises: TableCorruptError."""
        records = (self.records(one).get(ALL_PARTITIONS_KEY) for one in self.slices(FILES))
        return frozenset(partition_of_key(key) for one in records if one is not None for key in _there(one))

    def _changes(self, one: FileSlice) -> Iterator[tuple[str, Record | None]]:
        if one.base is not None:
            yield from _records_of(self._base(one), one.base.path, None)
        believed = [(log, block) for log in one.logs for block in self._blocks(log)]
        for log, block in _without_rolled_back(believed):
            if block.kind == BlockKind.DELETE:
                yield from ((key, None) for key in parse_deletes(block.content, log.path))
            elif block.kind == BlockKind.HFILE_DATA:
                file = HFile.of(block.content, log.path)
                yield from _records_of(file, log.path, block.header.get(HeaderKey.SCHEMA))
            elif block.kind not in (BlockKind.COMMAND, BlockKind.CORRUPT):
                raise TableCorruptError(
                    f"{log.path} holds a block of kind {block.kind}, which no metadata table has",
                    culprit=log.path,
                    hint="build it anew: `lakeindex metadata drop`, then `lakeindex metadata build`",
                )

    def _blocks(self, log: LogFile) -> list[LogBlock]:
        """The blocks of a log that count. Behind a torn one nothing does, as nobody appends to what he did not
        complete; one that a completed instant needs was synced before.
        """
        found: list[LogBlock] = []
        blocks = read_blocks(self.table.storage.read(log.path), log.path)
        try:
            found.extend(block for block in blocks if self.is_believed(block.header.get(HeaderKey.INSTANT_TIME, "")))
        except TableCorruptError:
            if self._is_needed(log):
                raise
        return found

    def _is_needed(self, log: LogFile) -> bool:
        """Whether a completed delta commit names the log, or may have named it."""
        if self.table.layout.has_completion_times:
            return is_complete(self.timeline, log.instant)
        first = self.timeline.instants[0].time if self.timeline.instants else ""
        if log.instant < first:
            return True
        writes = [one for one in self.timeline.completed_writes if one.time >= log.instant]
        metadata = (self.timeline.commit_metadata(self.table.storage, one) for one in writes)
        return any((stat.path or "").endswith(f"/{log.name}") for one in metadata for stat in one.stats())

    def _base(self, one: FileSlice) -> HFile:
        if one.base is None:
            raise ValueError("a slice without a base file")
        path, storage = one.base.path, self.table.storage
        return HFile.open(one.base.size_bytes, lambda at, size: storage.read_range(path, at, size), path)


def _records_of(file: HFile, path: str, schema: str | None) -> Iterator[tuple[str, Record]]:
    text = schema or file.schema or ""
    return ((key.decode(), decode_record(value, text, path)) for key, value in file.entries())


def _without_rolled_back(found: list[tuple[LogFile, LogBlock]]) -> list[tuple[LogFile, LogBlock]]:
    """A command block takes back the blocks of an instant that stand before it."""
    kept: list[tuple[LogFile, LogBlock]] = []
    for log, block in found:
        if block.kind == BlockKind.COMMAND and block.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == _ROLLBACK:
            target = block.header.get(HeaderKey.TARGET_INSTANT_TIME)
            kept = [one for one in kept if one[1].header.get(HeaderKey.INSTANT_TIME) != target]
        else:
            kept.append((log, block))
    return kept


def _there(record: Record) -> dict[str, int]:
    files: Mapping[str, dict[str, int]] = record[FILES_FIELD] or {}
    return {name: info["size"] for name, info in files.items() if not info["isDeleted"]}
