"""Reading the metadata table: what base file and logs of a slice say together.

A log's block counts if its instant is completed on the metadata table's timeline (or older than that) and not pending
on the table's own: the metadata table is written before the commit that it belongs to. An instant that we rolled back
never counts. A rollback of what a compaction has taken in counts as soon as its instant is not completed any more,
though it is pending itself. A block of an instant of which no timeline knows anything is left out only if no completed
delta commit needs its log: logs have no checksums, and a bit that is wrong in an instant must not hide what was
committed. For the same reason the partition ``files``, which every delta commit changes, must have a block of each.

Source: ``HoodieTableMetadataUtil.getValidInstantTimestamps``, ``BaseHoodieLogRecordReader`` of Hudi 0.15 and 1.2.
Unlike 0.15 we take what was archived from the table's timeline for valid: whoever archives compacts before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Final, NamedTuple

from msgspec import field

from lakeindex.errors import METADATA_ANEW, MetadataTableError, TableCorruptError
from lakeindex.format import instants as names
from lakeindex.format.hfile import HFile
from lakeindex.format.log_blocks import BlockKind, HeaderKey, LogBlock, parse_footer, read_blocks
from lakeindex.frozen import ComparedInPart, Frozen
from lakeindex.metadata.metadata_keys import groups_of
from lakeindex.metadata.metadata_records import FILES_FIELD, Record, decode_record, merged, own_schema, parse_deletes
from lakeindex.metadata.metadata_table import ALL_PARTITIONS_KEY, FILES, MetadataTable, partition_of_key
from lakeindex.metadata.slices import FileSlice, LogFile, LogForm, is_complete, load_slices
from lakeindex.storage import in_parallel
from lakeindex.storage.port import read_once
from lakeindex.timeline.timeline import Timeline

USE_METADATA_OPTION: Final = "hoodie.metadata.enable"

_ROLLBACK: Final = "0"
_ONE_READ: Final = 64 << 20

_DATED: Final = "0" * 14 + "010"
"""The first instant that version 6 gives to the making of a partition; those of version 8 and 9 are smaller."""


class FileListing(Frozen):
    """What the partition ``files`` says: the partitions, and partition path -> file name -> bytes."""

    partitions: frozenset[str]
    files: Mapping[str, Mapping[str, int]]


class SliceChange(NamedTuple):
    """What a file of a slice says of a key.

    Attributes:
        key: its UTF-8 bytes.
        value: the record's bytes; None where it is taken away.
        schema: the Avro schema of the value, JSON.
    """

    key: bytes
    value: bytes | None
    schema: str
    source: str

    def record(self) -> Record | None:
        """The record; None where it is taken away. Raises: TableCorruptError."""
        return None if self.value is None else decode_record(self.value, self.schema, self.source)


class Layer(Frozen):
    """What one block or base file of a slice says; newer ones replace what older ones say.

    Attributes:
        file: keys and records; None if keys go.
        schema: the Avro schema of the records, JSON.
    """

    source: str
    file: HFile | None = None
    schema: str = ""
    gone: tuple[str, ...] = ()


class MetadataView(ComparedInPart, dict=True):
    """The metadata table at one moment. Its methods raise TableCorruptError if a file cannot be read.

    Attributes:
        data: the timeline of the table that it is about.
    """

    aside: ClassVar = frozenset({"_slices"})
    table: MetadataTable
    timeline: Timeline
    data: Timeline
    _slices: dict[str, tuple[FileSlice, ...]] = field(default_factory=dict)

    @staticmethod
    def load(table: MetadataTable, data: Timeline) -> MetadataView:
        """The view of a caller that has listed the table's own timeline."""
        return MetadataView(table, table.load_timeline(), data)

    def slices(self, partition: str) -> tuple[FileSlice, ...]:
        """The newest slice of each file group of a partition, listed once. Raises: TableCorruptError."""
        if partition not in self._slices:
            self._slices[partition] = load_slices(self.table, self.timeline, partition).newest
        return self._slices[partition]

    def is_believed(self, time: str) -> bool:
        """Whether what was written under an instant counts."""
        if not is_complete(self.timeline, time):
            return False
        if time in self.data.pending_times:
            return time in self._taking_effect
        return time in self._completed or not self.data.was_rolled_back(time)

    @read_once
    def _taking_effect(self) -> frozenset[str]:
        """Pending rollbacks whose instant is not completed any more, and the restore that has begun: what they say is
        true already.
        """
        rollbacks = frozenset(
            one.time
            for one in self.data.pending_rollbacks(self.table.storage)
            if one.plan.instant_time not in self.data.completed_write_times
        )
        restore = self.data.restore_in_force()
        return rollbacks if restore is None else rollbacks | {restore[0]}

    @cached_property
    def _completed(self) -> frozenset[str]:
        """Completed instants of the table's own timeline, of any action; a savepoint has the time of another."""
        return frozenset(one.time for one in self.data.completed if one.action != names.SAVEPOINT)

    def untold_writes(self) -> tuple[str, ...]:
        """Completed writes of the table that the metadata table was not told of: their writer did not keep it up.

        A write is told of by a delta commit of its time. What is older than the metadata table's own timeline was
        archived there, or was there before the metadata table was made. Once Hudi has brought a table back to
        version 6, the delta commits that made its metadata table are the zeros of version 8 and 9, and say no longer
        when they were completed; then the first that says when counts.
        """
        known, completed = self.timeline.completed_write_times, self.timeline.completed_writes
        instants = tuple(one for one in completed if one.completion_time or one.time >= _DATED) or completed
        if not instants:
            return tuple(one.time for one in self.data.completed_writes)
        first = instants[0].time
        made = min(one.completion_time or first for one in instants)
        return tuple(
            one.time
            for one in self.data.completed_writes
            if one.time not in known and one.time > first and (one.completion_time or one.time) > made
        )

    def check_told(self) -> None:
        """Refuse a metadata table that somebody did not keep up: whoever believes it loses rows, or doubles them.

        Raises:
            MetadataTableError: it does not know of a commit.
        """
        for time in self.untold_writes():
            raise MetadataTableError(
                f"the metadata table does not know of commit {time}: whoever wrote it did not keep it up",
                culprit=time,
                hint=f"{METADATA_ANEW}; with {USE_METADATA_OPTION}=false folders are listed instead",
            )

    def schema(self, files: Sequence[FileSlice]) -> str:
        """The Avro schema, JSON, of the newest records: nobody may write with an older one.

        Args:
            files: slices of the partition ``files``, which every delta commit changes.
        """
        for one in files:
            for log in reversed(one.logs):
                for block in self._blocks(log, self.table.storage.read(log.path)):
                    if block.kind == BlockKind.HFILE_DATA and HeaderKey.SCHEMA in block.header:
                        return block.header[HeaderKey.SCHEMA]
            if one.base is not None:
                return self.base(one).schema or own_schema(self.table.version)
        return own_schema(self.table.version)

    def records(self, one: FileSlice, keys: Collection[str] | None = None) -> dict[str, Record]:
        """The records of a slice by their keys, older and newer ones merged.

        Args:
            keys: those that are wanted; only blocks of its files that can hold one are fetched. None: all.
        """
        wanted = None if keys is None else sorted(key.encode() for key in keys)
        return self._merged(self._changes_of(one, self._believed_blocks(one), wanted))

    @staticmethod
    def _merged(changes: Iterable[SliceChange]) -> dict[str, Record]:
        found: dict[str, Record] = {}
        decoded: dict[tuple[bytes | None, str], Record | None] = {}  # a thousand keys have one location
        for change in changes:
            key, content = change.key.decode(), (change.value, change.schema)
            if content not in decoded:
                decoded[content] = change.record()
            record = merged(found.get(key), decoded[content])
            if record is None:
                found.pop(key, None)
            else:
                found[key] = record
        return found

    def lookup(self, partition: str, keys: Collection[str], data_partition: str | None = None) -> dict[str, Record]:
        """The records of some keys, wherever they are in a partition; keys without one are left out.

        Args:
            data_partition: the partition of the table that they are of, in a partitioned record index.
        """
        groups = [one for one in self.slices(partition) if one.is_of(data_partition)]
        if not groups or not keys:
            return {}
        listed = list(keys)
        wanted: dict[int, list[str]] = defaultdict(list)
        for number, key in zip(groups_of(listed, len(groups)), listed, strict=True):
            wanted[number].append(key)
        jobs = [(groups[number], some) for number, some in sorted(wanted.items())]
        found = in_parallel(self.table.storage.uri, lambda job: self.records(*job), jobs)
        return {key: record for part in found for key, record in part.items()}

    def listing(self) -> FileListing:
        """What readers take for a listing of the table's folders. Raises: TableCorruptError."""
        files: dict[str, dict[str, int]] = {}
        partitions: set[str] = set()
        for one in self.slices(FILES):
            believed = self._believed_blocks(one)
            self._check_every_write(one, believed)
            for key, record in self._merged(self._changes_of(one, believed, None)).items():
                if key == ALL_PARTITIONS_KEY:
                    partitions |= {partition_of_key(path) for path in _there(record)}
                else:
                    files[partition_of_key(key)] = _there(record)
        return FileListing(frozenset(partitions), files)

    def layers(self, one: FileSlice) -> Iterator[Layer]:
        """The base file of a slice, whose blocks are fetched later, and what its logs say, older ones first."""
        return self._layers(one, self._believed_blocks(one), whole=False)

    def _believed_blocks(self, one: FileSlice) -> list[tuple[LogFile, LogBlock]]:
        storage = self.table.storage
        read = in_parallel(storage.uri, storage.read, [log.path for log in one.logs])
        return [(log, block) for log, data in zip(one.logs, read, strict=True) for block in self._blocks(log, data)]

    def _check_every_write(self, one: FileSlice, believed: Sequence[tuple[LogFile, LogBlock]]) -> None:
        """Refuse a slice of ``files`` that lacks what a completed delta commit of a completed write has put there."""
        base = one.base_instant
        told = {block.header.get(HeaderKey.INSTANT_TIME) for _, block in believed if block.kind == BlockKind.HFILE_DATA}
        for delta in self.timeline.completed_writes:
            is_newer = delta.action == names.DELTA_COMMIT and (delta.completion_time or delta.time) >= base
            if is_newer and delta.time in self.data.completed_write_times and delta.time not in told:
                raise _damaged(self.table.folder(one.partition), f"says nothing of commit {delta.time}")

    def _changes_of(
        self, one: FileSlice, believed: Sequence[tuple[LogFile, LogBlock]], keys: Sequence[bytes] | None
    ) -> Iterator[SliceChange]:
        wanted = None if keys is None else frozenset(keys)
        for layer in self._layers(one, believed, whole=keys is None):
            file, schema, path = layer.file, layer.schema, layer.source
            if file is None:
                gone = (key.encode() for key in layer.gone)
                yield from (SliceChange(key, None, "", path) for key in gone if wanted is None or key in wanted)
            else:
                entries = file.entries() if keys is None else file.lookup(keys)
                yield from (SliceChange(key, value, schema, path) for key, value in entries)

    def _layers(self, one: FileSlice, believed: Sequence[tuple[LogFile, LogBlock]], *, whole: bool) -> Iterator[Layer]:
        if one.base is not None:
            base = self.base(one, whole=whole)
            yield Layer(one.base.path, base, base.schema or "")
        for log, block in _without_rolled_back(believed):
            if block.kind == BlockKind.DELETE:
                yield Layer(log.path, gone=_deletes(log, block))
            elif block.kind == BlockKind.HFILE_DATA:
                file = HFile.of(block.content, log.path)
                yield Layer(log.path, file, block.header.get(HeaderKey.SCHEMA) or file.schema or "")
            else:
                raise _damaged(log.path, f"holds a block of kind {block.kind}, which no metadata table has")

    def _blocks(self, log: LogFile, data: bytes) -> list[LogBlock]:
        """The blocks of a log that count. Nothing behind a torn one does: nobody appends to a block that is not
        complete. One that a completed instant needs was synced before.
        """
        found: list[LogBlock] = []
        blocks = read_blocks(data, log.path) if log.form is LogForm.BLOCKS else _only_block(log, data)
        try:
            for block in blocks:
                time = block.header.get(HeaderKey.INSTANT_TIME, "")
                if self.is_believed(time):
                    found.append(block)
                elif not self._is_explained(time):
                    raise _damaged(log.path, f"holds a block of instant {time!r}, which no timeline knows")
        except TableCorruptError:
            if self._is_needed(log):
                raise
        return found

    def _is_explained(self, time: str) -> bool:
        """Whether it is known why what an instant wrote does not count: it is pending, or was taken back."""
        return (
            time in self.data.pending_times
            or bool(self.timeline.find(time))
            or self.data.was_rolled_back(time)
            or any(time in timeline.undone.instants for timeline in (self.data, self.timeline))
        )

    def _is_needed(self, log: LogFile) -> bool:
        """Whether a completed delta commit names the log, or may have named it."""
        if self.table.layout.has_completion_times:
            return is_complete(self.timeline, log.instant)
        if log.instant < (self.timeline.first_write_time or ""):
            return True
        writes = [one for one in self.timeline.completed_writes if one.time >= log.instant]
        metadata = (self.timeline.commit_metadata(self.table.storage, one) for one in writes)
        return any((stat.path or "").endswith(f"/{log.name}") for one in metadata for stat in one.stats())

    def base(self, one: FileSlice, *, whole: bool = False) -> HFile:
        """The base file of a slice that has one. Raises: TableCorruptError.

        Args:
            whole: all of it is going to be read: with one request, unless it is large.
        """
        if one.base is None:
            raise ValueError("a slice without a base file")
        path, storage = one.base.path, self.table.storage
        if whole and one.base.size_bytes <= _ONE_READ:
            return HFile.of(storage.read(path), path)
        return HFile.open(one.base.size_bytes, lambda at, size: storage.read_range(path, at, size), path)


def _without_rolled_back(found: Sequence[tuple[LogFile, LogBlock]]) -> list[tuple[LogFile, LogBlock]]:
    """A command block takes back the blocks of an instant that stand before it.

    Raises:
        TableCorruptError: it does not say so: Hudi has no other commands.
    """
    kept: list[tuple[LogFile, LogBlock]] = []
    for log, block in found:
        if block.kind == BlockKind.COMMAND:
            if block.header.get(HeaderKey.COMMAND_BLOCK_TYPE) != _ROLLBACK:
                raise _damaged(log.path, "holds a command block that commands nothing")
            target = block.header.get(HeaderKey.TARGET_INSTANT_TIME)
            kept = [one for one in kept if one[1].header.get(HeaderKey.INSTANT_TIME) != target]
        else:
            kept.append((log, block))
    return kept


def _only_block(log: LogFile, data: bytes) -> Iterator[LogBlock]:
    """The block that a log is which is a whole file. Raises: TableCorruptError, TableUnsupportedError."""
    header = parse_footer(HFile.of(data, log.path).info, log.path)
    if header.setdefault(HeaderKey.INSTANT_TIME, log.instant) != log.instant:
        raise _damaged(log.path, f"says that it is of instant {header[HeaderKey.INSTANT_TIME]!r}")
    yield LogBlock(BlockKind.DELETE if log.form is LogForm.DELETES else BlockKind.HFILE_DATA, header, data)


def _deletes(log: LogFile, block: LogBlock) -> tuple[str, ...]:
    """Keys that go. Raises: TableCorruptError."""
    if log.form is LogForm.BLOCKS:
        return parse_deletes(block.content, log.path)
    return tuple(key.decode() for key, _ in HFile.of(block.content, log.path).entries())


def _damaged(path: str, why: str) -> TableCorruptError:
    return TableCorruptError(
        f"{path} is damaged: it {why}",
        culprit=path,
        hint=METADATA_ANEW,
    )


def _there(record: Record) -> dict[str, int]:
    files: Mapping[str, dict[str, int]] = record[FILES_FIELD] or {}
    return {name: info["size"] for name, info in files.items() if not info["isDeleted"]}
