"""What the archived timeline proves: which writes were completed, and which files rollbacks took out of the table.

The archive of layout 1 is a folder of log files, ``.commits_.archive.<N>_<token>``, with one
``HoodieArchivedMetaEntry`` for each file of an archived instant; that of layout 2 is a tree of Parquet files
(:mod:`lakeindex.timeline.lsm_archive`). Whoever archives removes nothing from it, so an archive that reaches
back to an instant and does not name it proves that the instant was not completed.

Source: Hudi 0.15 ``HoodieArchivedTimeline`` and ``HoodieTimelineArchiver``; compared with logs of 0.15 and 1.2.

The log files hold Avro data blocks: int32 version 3, int32 number of records, and for each int32 size and the record.
Source: ``HoodieAvroDataBlock`` of Hudi 0.15; compared with files that it wrote.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, TypeVar

import fastavro
from msgspec import field

from lakeindex.errors import ObjectNotFoundError, TableCorruptError
from lakeindex.format import instants as names
from lakeindex.format.instants import comparable
from lakeindex.format.log_blocks import (
    BlockKind,
    HeaderKey,
    LogBlock,
    behind,
    check_count,
    damaged_log,
    format_block,
    read_blocks,
)
from lakeindex.frozen import ComparedInPart, Frozen
from lakeindex.storage import in_parallel
from lakeindex.storage.port import ObjectMeta, Storage
from lakeindex.timeline import lsm_archive as lsm
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import DECODE_ERRORS, NOTHING_UNDONE, Undone, parse_undone, undone_by_rollback
from lakeindex.timeline.avro_schemas import check_bounded
from lakeindex.timeline.lsm_archive import ArchivedInstant

_T = TypeVar("_T")

_BLOCK_VERSION: Final = 3
_INT: Final = struct.Struct(">i")
_TWO: Final = struct.Struct(">ii")


def format_avro_block(schema: str, records: Sequence[Mapping[str, Any]]) -> bytes:
    """One Avro data block of records with a schema, JSON."""
    parsed = fastavro.parse_schema(json.loads(schema))
    content = [_TWO.pack(_BLOCK_VERSION, len(records))]
    for record in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, record)
        content += [_INT.pack(out.tell()), out.getvalue()]
    return format_block(LogBlock(BlockKind.AVRO_DATA, {HeaderKey.SCHEMA: schema}, b"".join(content)))


def read_avro_records(data: bytes, source: str) -> Iterator[dict[str, Any]]:
    """The records of all Avro data blocks; blocks of other kinds are passed over. Raises: TableCorruptError."""
    for number, block in enumerate(read_blocks(data, source)):
        if block.kind == BlockKind.AVRO_DATA:
            try:
                yield from _records(block)
            except DECODE_ERRORS as error:
                raise damaged_log(f"{source} is damaged in block {number}", source, error) from None


def parse_avro_records(data: bytes, source: str, build: Callable[[dict[str, Any]], _T]) -> list[_T]:
    """What is made of each record; as the schema is the file's own, a record may lack what is asked of it.

    Raises:
        TableCorruptError: a block is torn or no block, or a record is another one.
    """
    try:
        return [build(record) for record in read_avro_records(data, source)]
    except DECODE_ERRORS as error:
        raise damaged_log(f"{source} has a damaged record", source, error) from None


def _records(block: LogBlock) -> Iterator[dict[str, Any]]:
    schema = _schema(block.header[HeaderKey.SCHEMA])
    data, end = block.content, len(block.content)
    _, count = _TWO.unpack_from(data)
    at = _TWO.size
    check_count(count, _INT.size, at, end)
    for _ in range(count):
        (length,) = _INT.unpack_from(data, at)
        at = behind(at + _INT.size, length, end)
        yield _record(data[at - length : at], schema)


def _schema(text: str) -> Any:
    found = json.loads(text)
    check_bounded(found)
    return fastavro.parse_schema(found)


def _record(data: bytes, schema: Any) -> dict[str, Any]:
    record = fastavro.schemaless_reader(io.BytesIO(data), schema, None)
    if not isinstance(record, dict):
        raise TypeError("not a record")
    return record


LOG_PREFIX: Final = ".commits_.archive."

_COMPLETED: Final = "COMPLETED"
_LOGS_KEPT: Final = 256


class ArchivedLog(Frozen):
    """What one file of the archive says."""

    writes: frozenset[str] = frozenset()
    undone: Undone = NOTHING_UNDONE
    ends: Mapping[str, str] = field(default_factory=dict)


class ArchivedTimeline(Frozen):
    """The archive as a whole.

    Attributes:
        damaged: files that cannot be read: what they name is not known.
        ends: when writes were completed, of those of which it is known.
    """

    writes: frozenset[str] = frozenset()
    undone: Undone = NOTHING_UNDONE
    damaged: tuple[str, ...] = ()
    ends: Mapping[str, str] = field(default_factory=dict)

    def knows(self, time: str) -> bool | None:
        """Whether a write was completed; None if the archive does not reach back to it, or is damaged."""
        if time in self.writes:
            return True
        if time in self.undone.instants:
            return False
        first = min(self.writes, key=comparable, default=None)
        if first is None or self.damaged or comparable(time) < comparable(first):
            return None
        return False


class ArchiveFile(ComparedInPart):
    """A file of the archive, known by all that the store says of it: two stores may have one URL, and a table may be
    made anew.
    """

    aside: ClassVar = frozenset({"storage"})
    uri: str
    found: ObjectMeta
    storage: Storage


def load_archived_timeline(storage: Storage, folder: str) -> ArchivedTimeline:
    """Read the whole archive; files that were read before are remembered."""
    try:
        return _read_all(archive_files(storage, folder))
    except TableCorruptError as error:
        return ArchivedTimeline(damaged=(str(error.culprit),))


def archive_files(storage: Storage, folder: str) -> tuple[ArchiveFile, ...]:
    """The files of the archive that count. Raises: TableCorruptError: its manifest is damaged."""
    counted = _counted(storage, folder, storage.list_folder(folder).objects)
    return tuple(ArchiveFile(storage.uri, one, storage) for one in counted)


def ends_around(files: Sequence[ArchiveFile], point: str) -> Mapping[str, str]:
    """When archived writes were completed, of all that were completed after a point in time, or at it; of others only
    where they stand beside these: a file is not read whose footer says that all in it was completed before.
    """
    if not files:
        return {}
    may = in_parallel(files[0].uri, lambda one: _may_be_after(one, point), files)
    return _read_all([one for one, is_so in zip(files, may, strict=True) if is_so]).ends


def _may_be_after(file: ArchiveFile, point: str) -> bool:
    if not file.found.path.endswith(lsm.SUFFIX):
        return False  # a log of layout 1 says no ends
    end = _read_end(file)
    return end is None or comparable(end) >= comparable(point)


def _read_end_uncached(file: ArchiveFile) -> str | None:
    return lsm.last_end(file.storage, file.found.path, file.found.size_bytes)


_read_end = lru_cache(maxsize=_LOGS_KEPT)(_read_end_uncached)


def _read_all(files: Iterable[ArchiveFile]) -> ArchivedTimeline:
    logs: list[ArchivedLog] = []
    damaged: list[str] = []
    for one in files:
        try:
            logs.append(_read_log(one))
        except ObjectNotFoundError:
            continue  # merged with others by Hudi meanwhile: what it said stands in a newer one
        except TableCorruptError:
            damaged.append(one.found.path)
    return ArchivedTimeline(
        frozenset(time for log in logs for time in log.writes),
        Undone.joined(log.undone for log in logs),
        tuple(damaged),
        {time: end for log in logs for time, end in log.ends.items()},
    )


def _counted(storage: Storage, folder: str, listed: Sequence[ObjectMeta]) -> list[ObjectMeta]:
    """The files that count: every log file, and of Parquet files those that the newest manifest names."""
    by_name = {one.path.rpartition("/")[2]: one for one in listed}
    logs = [one for name, one in by_name.items() if name.startswith(LOG_PREFIX)]
    if lsm.VERSION_FILE not in by_name and not lsm.listed_manifests(by_name):
        return logs
    named = [one.name for one in lsm.load_manifest(storage, folder, by_name).files]
    return [*logs, *(by_name[name] for name in named if name in by_name)]


def _read_log_uncached(log: ArchiveFile) -> ArchivedLog:
    said = records.read_filled(log.storage, log.found.path, _parsed)
    ends = {time: end for one in said for time, end in one.ends.items()}
    undone = Undone.joined(one.undone for one in said)
    return ArchivedLog(frozenset().union(*(one.writes for one in said)), undone, ends)


def _parsed(data: bytes, path: str) -> list[ArchivedLog]:
    if path.endswith(lsm.SUFFIX):
        return [_said_by_row(row, path) for row in lsm.parse_rows(data, path)]
    return parse_avro_records(data, path, _said_by)


_read_log = lru_cache(maxsize=_LOGS_KEPT)(_read_log_uncached)


def _said_by(entry: Mapping[str, Any]) -> ArchivedLog:
    if entry.get("actionState") != _COMPLETED or not entry.get("actionType") or not entry.get("commitTime"):
        return ArchivedLog()
    action = names.completed_action(entry["actionType"])
    if action in names.WRITE_ACTIONS:
        return ArchivedLog(frozenset({entry["commitTime"]}))
    if action == names.ROLLBACK and entry.get("hoodieRollbackMetadata"):
        return ArchivedLog(undone=undone_by_rollback(entry["hoodieRollbackMetadata"]))
    return ArchivedLog()


def _said_by_row(row: ArchivedInstant, source: str) -> ArchivedLog:
    if row.action in names.WRITE_ACTIONS:
        return ArchivedLog(frozenset({row.time}), ends={row.time: row.completion_time} if row.completion_time else {})
    if row.action == names.ROLLBACK and row.metadata:
        return ArchivedLog(undone=parse_undone(row.metadata, source))
    return ArchivedLog()
