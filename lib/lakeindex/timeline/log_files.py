"""Hudi's log files: blocks of Avro records, one after the other. The archived timeline of version 6 is made of them.

A block is, with big-endian numbers::

    "#HUDI#", int64 size of all that follows, int32 format version 1, int32 block type (3: Avro data),
    header, int64 size of the content, content, footer, int64 size of the block up to here

Header and footer are maps: int32 count, then for each entry int32 key, int32 size, UTF-8 text; key 2 is the
Avro schema. The content of an Avro data block is int32 version 3, int32 number of records, and for each
int32 size and the record.

Source: ``HoodieLogFormatWriter`` and ``HoodieAvroDataBlock`` of Hudi 0.15; compared with files that it wrote.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import fastavro

from lakeindex.errors import TableCorruptError
from lakeindex.timeline.avro_bounds import check_bounded
from lakeindex.timeline.avro_instants import DECODE_ERRORS

_T = TypeVar("_T")

MAGIC: Final = b"#HUDI#"

_FORMAT: Final = 1
_AVRO_BLOCK: Final = 3
_BLOCK_VERSION: Final = 3
_SCHEMA: Final = 2
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")


def format_avro_block(schema: str, records: Sequence[Mapping[str, Any]]) -> bytes:
    """One Avro data block.

    Args:
        schema: the records' Avro schema, JSON.
        records: what to write.
    """
    parsed = fastavro.parse_schema(json.loads(schema))
    content = [_INT.pack(_BLOCK_VERSION), _INT.pack(len(records))]
    for record in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, record)
        content += [_INT.pack(out.tell()), out.getvalue()]
    body = b"".join(content)
    text = schema.encode()
    header = _INT.pack(1) + _INT.pack(_SCHEMA) + _INT.pack(len(text)) + text
    rest = _INT.pack(_FORMAT) + _INT.pack(_AVRO_BLOCK) + header + _LONG.pack(len(body)) + body + _INT.pack(0)
    size = len(rest) + _LONG.size
    return MAGIC + _LONG.pack(size) + rest + _LONG.pack(len(MAGIC) + _LONG.size + len(rest))


def read_avro_records(data: bytes, source: str) -> Iterator[dict[str, Any]]:
    """The records of all Avro data blocks; blocks of other types are passed over.

    Args:
        data: a whole log file.
        source: its name, for messages.

    Raises:
        TableCorruptError: a block is torn or no block.
    """
    at = 0
    while at < len(data):
        try:
            at = yield from _block(data, at)
        except DECODE_ERRORS as error:
            raise _damaged(f"{source} is damaged at byte {at}", source, error) from None


def parse_avro_records(data: bytes, source: str, build: Callable[[dict[str, Any]], _T]) -> list[_T]:
    """What is made of each record; as the schema is the file's own, a record may lack what is asked of it.

    Raises:
        TableCorruptError: a block is torn or no block, or a record is another one.
    """
    try:
        return [build(record) for record in read_avro_records(data, source)]
    except DECODE_ERRORS as error:
        raise _damaged(f"{source} has a damaged record", source, error) from None


def _damaged(what: str, source: str, error: Exception) -> TableCorruptError:
    return TableCorruptError(
        f"{what}: {type(error).__name__}: {error}",
        culprit=source,
        hint="restore the file: where a savepoint lets commits be archived from between, rows depend on it",
    )


def _block(data: bytes, start: int) -> Generator[dict[str, Any], None, int]:
    at = start + len(MAGIC)
    if data[start:at] != MAGIC:
        raise ValueError("no block begins here")
    (size,) = _LONG.unpack_from(data, at)
    at += _LONG.size
    end = at + size
    if size <= 0 or end > len(data):
        raise ValueError("the block is cut off")
    _, kind = struct.unpack_from(">ii", data, at)
    header, at = _map(data, at + 2 * _INT.size, end)
    if kind == _AVRO_BLOCK:
        schema = _schema(header[_SCHEMA])
        _, count = struct.unpack_from(">ii", data, at + _LONG.size)
        at += _LONG.size + 2 * _INT.size
        _check_count(count, _INT.size, at, end)
        for _ in range(count):
            (length,) = _INT.unpack_from(data, at)
            at = _behind(at + _INT.size, length, end)
            yield _record(data[at - length : at], schema)
    return end


def _schema(text: str) -> Any:
    found = json.loads(text)
    check_bounded(found)
    return fastavro.parse_schema(found)


def _check_count(count: int, least_bytes: int, at: int, end: int) -> None:
    """Refuse more entries than the bytes up to ``end`` can hold."""
    if count < 0 or count * least_bytes > end - at:
        raise ValueError(f"{count} entries in {end - at} bytes")


def _behind(at: int, length: int, end: int) -> int:
    """The place behind so many bytes, which must be there."""
    if length < 0 or at + length > end:
        raise ValueError(f"{length} bytes at byte {at}, of {end}")
    return at + length


def _record(data: bytes, schema: Any) -> dict[str, Any]:
    record = fastavro.schemaless_reader(io.BytesIO(data), schema, None)
    if not isinstance(record, dict):
        raise TypeError("not a record")
    return record


def _map(data: bytes, at: int, end: int) -> tuple[dict[int, str], int]:
    (count,) = _INT.unpack_from(data, at)
    at += _INT.size
    _check_count(count, 2 * _INT.size, at, end)
    found: dict[int, str] = {}
    for _ in range(count):
        key, length = struct.unpack_from(">ii", data, at)
        at = _behind(at + 2 * _INT.size, length, end)
        found[key] = data[at - length : at].decode()
    return found, at
