"""Records of the metadata table: Avro without a container, one schema for all partitions.

A record's key is the key of its entry in an HFile; the field ``key`` of the record itself is empty. ``type`` says
which of the other fields counts. Records of one key are merged, older ones first; a delete takes away what is older.

Source: ``HoodieMetadataRecord``, ``HoodieMetadataPayload``, ``HoodieTableMetadataUtil.combineFileSystemMetadata`` and
``HoodieDeleteBlock`` of Hudi 0.15 and 1.2. The schemas beside this module are those of their files.

From version 10 on a log is a whole HFile, whose footer has what the header of a block has. A log of what is put has the
form of a base file; one of keys that go has a record of Hudi's for each, which is its key. A log without records begins
a file group that has none yet. Source: ``HoodieNativeLogFormatWriter``, ``HoodieNativeLogDeleteBlock``,
``HoodieSchemas.createDeleteLogSchema``, ``HoodieMetadataWriteUtils`` of Hudi's main branch, which no release has yet.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

import fastavro

from lakeindex.errors import METADATA_ANEW, TableCorruptError
from lakeindex.format.hfile import format_hfile
from lakeindex.format.hfile.reading import Part
from lakeindex.format.hfile.writing import MAX_KEY, MIN_KEY
from lakeindex.format.log_blocks import HeaderKey, format_footer
from lakeindex.metadata.column_stats import merge_column_stats
from lakeindex.metadata.metadata_table import BLOCK_BYTES, RecordType
from lakeindex.timeline.avro_instants import DECODE_ERRORS
from lakeindex.timeline.avro_schemas import check_bounded

Record: TypeAlias = Mapping[str, Any]
"""A decoded record, by the names of Hudi's schema."""

FILES_FIELD: Final = "filesystemMetadata"
FILTER_FIELD: Final = "BloomFilterMetadata"

_DELETE_VERSION: Final = 3
_TWO: Final = struct.Struct(">ii")
_ORDERING: Final = ("org.apache.hudi.avro.model.IntWrapper", {"value": 0})


def own_schema(version: int) -> str:
    """The Avro schema, JSON, of the records of a metadata table that is made anew.

    Args:
        version: table version; Hudi 0.15, which reads no later one than 6, has fewer fields.
    """
    return _shipped("metadata_record_0_15" if version <= _OLD_VERSION else "metadata_record_1_2")


def encode_record(record: Record, schema: str) -> bytes:
    """The bytes of a record; fields that it lacks are null."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _parsed(schema), {"key": "", **record})
    return out.getvalue()


def decode_record(data: bytes, schema: str, source: str) -> Record:
    """A record, by the Avro schema (JSON) of the file or block that holds it. Raises: TableCorruptError."""
    try:
        found = fastavro.schemaless_reader(
            io.BytesIO(data), _bounded(schema), None, return_record_name=True, return_record_name_override=True
        )
        if not isinstance(found, dict) or not isinstance(found["type"], int):
            raise TypeError("not a record of a metadata table")
        _check_named(found)
    except DECODE_ERRORS as error:
        raise _damaged(source, error) from None
    return found


def format_deletes(keys: Iterable[str], partition: str) -> bytes:
    records = [{"recordKey": key, "partitionPath": partition, "orderingVal": _ORDERING} for key in keys]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _parsed(_shipped("delete_record_list")), {"deleteRecordList": records})
    return _TWO.pack(_DELETE_VERSION, out.tell()) + out.getvalue()


def parse_deletes(content: bytes, source: str) -> tuple[str, ...]:
    """Keys that a delete block takes away. Raises: TableCorruptError."""
    try:
        version, length = _TWO.unpack_from(content)
        if version != _DELETE_VERSION or length > len(content) - _TWO.size:
            raise ValueError(f"version {version}, {length} bytes")
        found: Any = fastavro.schemaless_reader(
            io.BytesIO(content[_TWO.size : _TWO.size + length]), _parsed(_shipped("delete_record_list")), None
        )
        return tuple(one["recordKey"] for one in found["deleteRecordList"])
    except DECODE_ERRORS as error:
        raise _damaged(source, error) from None


def merged(older: Record | None, newer: Record | None) -> Record | None:
    """What two records of one key say together; None where nothing is left.

    Args:
        older: None if there is none.
        newer: None if it is a delete.
    """
    if older is None or newer is None:
        return newer
    if newer["type"] in (RecordType.ALL_PARTITIONS, RecordType.FILES):
        return {**newer, FILES_FIELD: _merged_files(older[FILES_FIELD] or {}, newer[FILES_FIELD] or {})}
    if newer["type"] in (RecordType.COLUMN_STATS, RecordType.PARTITION_STATS):
        return merge_column_stats(older, newer)
    return newer


def without_deleted(record: Record) -> Record:
    """A record as a base file has it: deleted files are not mentioned any more."""
    if record["type"] not in (RecordType.ALL_PARTITIONS, RecordType.FILES):
        return record
    left = {name: info for name, info in (record[FILES_FIELD] or {}).items() if not info["isDeleted"]}
    return {**record, FILES_FIELD: left}


def files_record(kind: RecordType, sizes: Mapping[str, int], deleted: Iterable[str] = ()) -> Record:
    """The record of a partition's files, or of the table's partitions.

    Args:
        kind: ``FILES`` or ``ALL_PARTITIONS``.
        sizes: file name -> bytes; of partitions 0.
    """
    there = {name: {"size": size, "isDeleted": False} for name, size in sizes.items()}
    return {"type": int(kind), FILES_FIELD: there | {name: {"size": 0, "isDeleted": True} for name in deleted}}


def _merged_files(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(older)
    for name, info in newer.items():
        known = found.get(name)
        if info["isDeleted"] and known is not None and not known["isDeleted"]:
            del found[name]
        elif info["isDeleted"] or known is None or known["isDeleted"] or known["size"] < info["size"]:
            found[name] = info
    return found


def _check_named(record: Record) -> None:
    """The schema of a block stands in it without a checksum: a name in it may be another one.

    Raises:
        ValueError: it lacks a name that a record of its type has.
    """
    field, needed = _NEEDED.get(record["type"], ("", frozenset()))
    content = record.get(field) if field else {}
    if field and field not in record:
        raise ValueError(f"it has no field {field}")
    parts = (content or {}).values() if field == FILES_FIELD else (content,) if content else ()
    for part in parts:
        if not needed <= part.keys():
            raise ValueError(f"{field} has no field {', '.join(sorted(needed - part.keys()))}")


def _damaged(source: str, error: Exception) -> TableCorruptError:
    return TableCorruptError(
        f"{source} has a damaged record: {type(error).__name__}: {error}",
        culprit=source,
        hint=METADATA_ANEW,
    )


@cache
def _shipped(name: str) -> str:
    return files("lakeindex.metadata").joinpath("schemas", f"{name}.avsc").read_text().strip()


@lru_cache(maxsize=16)
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


@lru_cache(maxsize=16)
def _bounded(schema: str) -> Any:
    """A schema that was found in a file. Raises: ValueError: it asks for more than the bytes that are there."""
    found = json.loads(schema)
    check_bounded(found)
    return fastavro.parse_schema(found)


_OLD_VERSION: Final = 6

_OF_FILES: Final = (FILES_FIELD, frozenset({"size", "isDeleted"}))
_OF_COLUMNS: Final = (
    "ColumnStatsMetadata",
    frozenset({"fileName", "columnName", "minValue", "maxValue", "valueCount", "nullCount", "totalSize", "isDeleted"}),
)
_NEEDED: Final[dict[int, tuple[str, frozenset[str]]]] = {
    RecordType.ALL_PARTITIONS: _OF_FILES,
    RecordType.FILES: _OF_FILES,
    RecordType.COLUMN_STATS: _OF_COLUMNS,
    RecordType.PARTITION_STATS: _OF_COLUMNS,
    RecordType.BLOOM_FILTER: (FILTER_FIELD, frozenset({"type", "bloomFilter", "isDeleted"})),
    RecordType.RECORD_INDEX: (
        "recordIndexMetadata",
        frozenset(
            {"partitionName", "fileIdHighBits", "fileIdLowBits", "fileIndex", "fileId", "instantTime", "fileIdEncoding"}
        ),
    ),
}
"""Field of a type of record, and what is in it, or in each of its entries."""


_DELETED_KEY: Final = "_hoodie_record_key"
_DELETE_SCHEMA: Final = {
    "type": "record",
    "name": "hudi_delete_log_record",
    "fields": [{"name": _DELETED_KEY, "type": "string"}],
}
_PARSED_DELETE: Final = fastavro.parse_schema(_DELETE_SCHEMA)


def format_native_puts(entries: Sequence[Part], header: Mapping[int, str], created_ms: int = 0) -> bytes:
    """A log of what is put.

    Args:
        entries: keys and encoded records, in the order of the keys' bytes.
        header: as a block has it, with the schema of the records.
    """
    return _format_log(entries, header[HeaderKey.SCHEMA], header, created_ms)


def format_native_deletes(keys: Collection[str], header: Mapping[int, str], created_ms: int = 0) -> bytes:
    """A log of keys that go."""
    entries = [(key.encode(), _delete_record(key)) for key in keys]
    return _format_log(sorted(entries), json.dumps(_DELETE_SCHEMA, separators=(",", ":")), header, created_ms)


def _format_log(entries: Sequence[Part], schema: str, header: Mapping[int, str], created_ms: int) -> bytes:
    info = {MIN_KEY: entries[0][0], MAX_KEY: entries[-1][0]} if entries else {}
    info |= format_footer(header)
    return format_hfile(entries, schema, info=info, block_bytes=BLOCK_BYTES, created_ms=created_ms)


def _delete_record(key: str) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _PARSED_DELETE, {_DELETED_KEY: key})
    return out.getvalue()
