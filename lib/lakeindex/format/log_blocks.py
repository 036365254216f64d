"""Hudi's log files: blocks, one after the other. The archived timeline of version 6 is made of them, and what is new in
each partition of the metadata table below version 10.

A block is, with big-endian numbers::

    "#HUDI#", int64 size of all that follows, int32 format version 1, int32 kind,
    header, int64 size of the content, content, footer, int64 size of the block up to here

Header and footer are maps: int32 count, then for each entry int32 key, int32 size, UTF-8 text.

From version 10 on a log is a whole file of the table's own format (RFC-103, "native"): one block, whose header is an
entry of the file's footer, a JSON object of texts by the names of :class:`HeaderKey`, and ``VERSION``.

Source: ``HoodieLogFormatWriter``, ``HoodieLogBlock`` of Hudi 0.15 and 1.2; compared with files that they wrote. Of
whole files ``NativeLogFooterMetadata``, ``HoodieNativeLogFileReader`` of its main branch, which no release has yet. A
change that was proposed there, and not taken, gives each text an entry of its own; that is read, too.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final

from msgspec import field

from lakeindex.errors import TableCorruptError, TableUnsupportedError
from lakeindex.frozen import Frozen

MAGIC: Final = b"#HUDI#"

_FORMAT: Final = 1
_WHOLE_FILE: Final = 2
_FOOTER: Final = "hudi.log.format."
_FOOTER_ENTRY: Final = f"{_FOOTER}metadata".encode()
_VERSION: Final = "VERSION"
_INT: Final = struct.Struct(">i")
_TWO: Final = struct.Struct(">ii")
_LONG: Final = struct.Struct(">q")


class BlockKind(IntEnum):
    """What a block holds; Hudi's ordinals."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """Keys of a block's header; Hudi's ordinals."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3


class LogBlock(Frozen):
    """One block.

    Attributes:
        kind: one of :class:`BlockKind`, or a number that a newer release gave.
        header: texts by the ordinals of :class:`HeaderKey`.
    """

    kind: int
    header: Mapping[int, str] = field(default_factory=dict)
    content: bytes = b""


def format_block(block: LogBlock) -> bytes:
    entries = ((key, text.encode()) for key, text in block.header.items())
    header = _INT.pack(len(block.header)) + b"".join(_TWO.pack(key, len(text)) + text for key, text in entries)
    body = _LONG.pack(len(block.content)) + block.content
    rest = _TWO.pack(_FORMAT, block.kind) + header + body + _INT.pack(0)
    size = len(rest) + _LONG.size
    return MAGIC + _LONG.pack(size) + rest + _LONG.pack(len(MAGIC) + size)


def read_blocks(data: bytes, source: str) -> Iterator[LogBlock]:
    """The blocks of a log file, in its order.

    Raises:
        TableCorruptError: a block is torn or no block; those before it were given.
    """
    at = 0
    while at < len(data):
        try:
            block, at = _block(data, at)
        except (ValueError, struct.error) as error:
            raise damaged_log(f"{source} is damaged at byte {at}", source, error) from None
        yield block


def damaged_log(what: str, source: str, error: Exception) -> TableCorruptError:
    """The error of a log file that cannot be read."""
    return TableCorruptError(
        f"{what}: {type(error).__name__}: {error}",
        culprit=source,
        hint="restore the file: what the table consists of depends on it",
    )


def format_footer(header: Mapping[int, str]) -> dict[bytes, bytes]:
    """Entries of the footer of a log that is a whole file."""
    said = {_VERSION: str(_WHOLE_FILE), **{HeaderKey(key).name: text for key, text in header.items()}}
    return {_FOOTER_ENTRY: json.dumps(said, separators=(",", ":")).encode()}


def parse_footer(footer: Mapping[bytes, bytes], source: str) -> dict[int, str]:
    """The header in the footer of a log that is a whole file; entries that are not known are left out.

    Raises:
        TableCorruptError: it is damaged.
        TableUnsupportedError: it is of a later version of logs.
    """
    try:
        said = _said_in_footer(footer)
        version = int(said.get(_VERSION, _WHOLE_FILE))
    except ValueError as error:
        raise damaged_log(f"{source} has a damaged footer", source, error) from None
    if version > _WHOLE_FILE:
        raise TableUnsupportedError(
            f"{source} is a log of version {version}; versions up to {_WHOLE_FILE} are read",
            culprit=source,
            hint="read the table with the release of Hudi that wrote it",
        )
    return {HeaderKey[name]: text for name, text in said.items() if name in HeaderKey.__members__}


def _said_in_footer(footer: Mapping[bytes, bytes]) -> dict[str, str]:
    if _FOOTER_ENTRY not in footer:
        mine = [(key.decode(), text) for key, text in footer.items() if key.startswith(_FOOTER.encode())]
        return {key.removeprefix(_FOOTER): text.decode() for key, text in mine}
    said = json.loads(footer[_FOOTER_ENTRY])
    if not isinstance(said, dict) or not all(isinstance(text, str) for text in said.values()):
        raise ValueError("the header is no object of texts")
    return said


def check_count(count: int, least_bytes: int, at: int, end: int) -> None:
    """Refuse more entries than the bytes up to ``end`` can hold. Raises: ValueError."""
    if count < 0 or count * least_bytes > end - at:
        raise ValueError(f"{count} entries in {end - at} bytes")


def behind(at: int, length: int, end: int) -> int:
    """The place behind so many bytes, which must be there. Raises: ValueError."""
    if length < 0 or at + length > end:
        raise ValueError(f"{length} bytes at byte {at}, of {end}")
    return at + length


def _block(data: bytes, start: int) -> tuple[LogBlock, int]:
    at = start + len(MAGIC)
    if data[start:at] != MAGIC:
        raise ValueError("no block begins here")
    (size,) = _LONG.unpack_from(data, at)
    at += _LONG.size
    end = at + size
    if size <= 0 or end > len(data):
        raise ValueError("the block is cut off")
    _, kind = _TWO.unpack_from(data, at)
    header, at = _map(data, at + _TWO.size, end)
    (length,) = _LONG.unpack_from(data, at)
    last = behind(at + _LONG.size, length, end)
    return LogBlock(kind, header, data[at + _LONG.size : last]), end


def _map(data: bytes, at: int, end: int) -> tuple[dict[int, str], int]:
    (count,) = _INT.unpack_from(data, at)
    at += _INT.size
    check_count(count, _TWO.size, at, end)
    found: dict[int, str] = {}
    for _ in range(count):
        key, length = _TWO.unpack_from(data, at)
        at = behind(at + _TWO.size, length, end)
        found[key] = data[at - length : at].decode()
    return found, at
