"""Avro data blocks of Hudi's log files, of which the archived timeline of version 6 is made.

The content of a block is int32 version 3, int32 number of records, and for each int32 size and the record.

Source: ``HoodieAvroDataBlock`` of Hudi 0.15; compared with files that it wrote.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import fastavro

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
from lakeindex.timeline.avro_bounds import check_bounded
from lakeindex.timeline.avro_instants import DECODE_ERRORS

_T = TypeVar("_T")

_BLOCK_VERSION: Final = 3
_INT: Final = struct.Struct(">i")
_TWO: Final = struct.Struct(">ii")


def format_avro_block(schema: str, records: Sequence[Mapping[str, Any]]) -> bytes:
    """One Avro data block.

    Args:
        schema: the records' Avro schema, JSON.
    """
    parsed = fastavro.parse_schema(json.loads(schema))
    content = [_TWO.pack(_BLOCK_VERSION, len(records))]
    for record in records:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, record)
        content += [_INT.pack(out.tell()), out.getvalue()]
    return format_block(LogBlock(BlockKind.AVRO_DATA, {HeaderKey.SCHEMA: schema}, b"".join(content)))


def read_avro_records(data: bytes, source: str) -> Iterator[dict[str, Any]]:
    """The records of all Avro data blocks; blocks of other kinds are passed over.

    Args:
        data: a whole log file.

    Raises:
        TableCorruptError: a block is torn or no block.
    """
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
