"""The blocks of an HFile (header, encoded content, checksums), and its integers of variable length."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias, cast

import google_crc32c
from isal import isal_zlib

from lakeindex.errors import TableUnsupportedError
from lakeindex.frozen import Frozen

Message: TypeAlias = dict[int, list[int | bytes]]
"""A protobuf message without its schema: field number -> values, in their order."""

_VARINT: Final = 0
_LENGTH: Final = 2
_MOST_BITS: Final = 70
_SMALL: Final = 127
_LEAST_SMALL: Final = -112
_LEAST_POSITIVE: Final = -120


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A protobuf integer, and where it ends. Raises: ValueError, IndexError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= _MOST_BITS:
            raise ValueError("an integer of more than ten bytes")


def format_varint(value: int) -> bytes:
    """The bytes of a protobuf integer, 0 or greater."""
    out = bytearray()
    while value > _SMALL:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def parse_message(data: bytes) -> Message:
    """A protobuf message of integers and bytes. Raises: ValueError, IndexError."""
    found: Message = {}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        value: int | bytes
        value, at = read_varint(data, at)
        if tag & 7 == _LENGTH:
            end = at + value
            if end > len(data):
                raise ValueError("a field is cut off")
            value, at = data[at:end], end
        elif tag & 7 != _VARINT:
            raise ValueError(f"wire type {tag & 7}")
        found.setdefault(tag >> 3, []).append(value)
    return found


def format_message(fields: Mapping[int, int | bytes] | Sequence[tuple[int, int | bytes]]) -> bytes:
    """The bytes of a protobuf message: fields by their number, in the order given."""
    out = b""
    for number, value in fields.items() if isinstance(fields, Mapping) else fields:
        if isinstance(value, int):
            out += format_varint(number << 3 | _VARINT) + format_varint(value)
        else:
            out += format_varint(number << 3 | _LENGTH) + format_varint(len(value)) + value
    return out


def read_vint(data: bytes, at: int) -> tuple[int, int]:
    """An integer as Hadoop's ``WritableUtils`` writes it, 0 or greater, and where it ends. Raises: ValueError."""
    first = int.from_bytes(data[at : at + 1], "big", signed=True) if at < len(data) else _LEAST_SMALL - 1
    if first >= _LEAST_SMALL:
        return first, at + 1
    size = _LEAST_SMALL - first
    if first < _LEAST_POSITIVE or at + 1 + size > len(data):
        raise ValueError("a negative or cut-off integer")
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


def format_vint(value: int) -> bytes:
    """The bytes of an integer, 0 or greater, as Hadoop's ``WritableUtils`` writes it."""
    if value <= _SMALL:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return (_LEAST_SMALL - size).to_bytes(1, "big", signed=True) + value.to_bytes(size, "big")


DATA: Final = b"DATABLK*"
ROOT_INDEX: Final = b"IDXROOT2"
INNER_INDEX: Final = b"IDXINTE2"
LEAF_INDEX: Final = b"IDXLEAF2"
FILE_INFO: Final = b"FILEINF2"
TRAILER: Final = b'TRABLK"$'

NONE: Final = 2
GZIP: Final = 1

_HEADER: Final = struct.Struct(">8siiqbii")
_CHECKSUM: Final = struct.Struct(">I")
_PIECE: Final = 16_384
_MOST_BYTES: Final = 1 << 30
_NULL: Final = 0
_CRC32: Final = 1
_CRC32C: Final = 2
_GZIP_WINDOW: Final = 31
_GZIP_LEVEL: Final = 1

GZIP_ERROR: Final = cast("type[Exception]", isal_zlib.IsalError)
"""What damaged gzip raises; the library's stubs take the class for one of its exceptions."""

_CODEC_NAMES: Final = {0: "lzo", 1: "gz", 2: "none", 3: "snappy", 4: "lz4", 5: "bz2", 6: "zstd"}

HEADER_BYTES: Final = _HEADER.size


class Block(Frozen):
    """One block, decoded.

    Attributes:
        end: where the next one begins.
    """

    magic: bytes
    content: bytes
    end: int


class LoneBlock(Frozen):
    """A data block with one entry, encoded: the value of its key where it need not be decoded.

    Attributes:
        data: its bytes, with gzip and without checksums.
        value_bytes: size of the value, decoded.
    """

    data: bytes
    value_bytes: int


def check_codec(codec: int, source: str) -> None:
    """Refuse a codec that is not read. Raises: TableUnsupportedError."""
    if codec not in (NONE, GZIP):
        raise TableUnsupportedError(
            f"{source} is compressed with {_CODEC_NAMES.get(codec, f'codec {codec}')}",
            culprit=source,
            hint="Hudi writes gz and none: have Hudi build the metadata table with "
            "hoodie.hfile.compression.algorithm=GZ",
        )


def parse_block(data: bytes, at: int, codec: int) -> Block:
    """The block at a place.

    Args:
        data: bytes of the file that hold all of it.
        at: where it begins in them.

    Raises:
        ValueError, struct.error, GZIP_ERROR: it is damaged.
    """
    magic, behind, decoded, _, kind, piece, encoded = _HEADER.unpack_from(data, at)
    start, stop = at + _HEADER.size, at + encoded
    end = start + behind
    if not (at + _HEADER.size <= stop <= end <= len(data)) or not 0 <= decoded <= _MOST_BYTES:
        raise ValueError(f"a block of {behind} bytes at {at} of {len(data)}")
    _verify(memoryview(data)[at:stop], memoryview(data)[stop:end], kind, piece)
    return Block(magic, _decoded(data[start:stop], decoded, codec), end)


def format_block(magic: bytes, content: bytes, codec: int, previous: int = -1) -> bytes:
    """The bytes of a block, without checksums, as Hudi 1.x writes it.

    Args:
        codec: ``NONE`` or ``GZIP``.
        previous: where the block before of its kind begins; -1 if there is none.
    """
    encoded = content if codec == NONE else _gzipped(content)
    size = _HEADER.size + len(encoded)
    checksums = bytes(_CHECKSUM.size * -(-size // _PIECE))
    behind = len(encoded) + len(checksums)
    return _HEADER.pack(magic, behind, len(content), previous, _NULL, _PIECE, size) + encoded + checksums


def is_copyable(block: bytes) -> bool:
    """Whether a block may stand in another place: checksums that are none do not say where it is."""
    return len(block) >= _HEADER.size and _HEADER.unpack_from(block)[4] == _NULL


def decoded_bytes(block: bytes) -> int:
    size: int = _HEADER.unpack_from(block)[2]
    return size


def beginning(block: bytes, size: int, codec: int) -> bytes:
    """The first decoded bytes of a block, at most so many; what is behind them is not looked at.

    Raises:
        GZIP_ERROR: it is damaged.
    """
    content = memoryview(block)[_HEADER.size :]
    return bytes(content[:size]) if codec == NONE else isal_zlib.decompressobj(_GZIP_WINDOW).decompress(content, size)


def moved_block(block: bytes, previous: int) -> bytes:
    """A block without checksums in another place; ``previous``: as of :func:`format_block`."""
    magic, behind, decoded, _, kind, piece, encoded = _HEADER.unpack_from(block)
    return _HEADER.pack(magic, behind, decoded, previous, kind, piece, encoded) + block[_HEADER.size :]


def _verify(covered: memoryview, checksums: memoryview, kind: int, piece: int) -> None:
    if kind == _NULL:
        return
    if kind not in (_CRC32, _CRC32C) or piece <= 0:
        raise ValueError(f"checksums of type {kind} for {piece} bytes each")
    for number, start in enumerate(range(0, len(covered), piece)):
        part = bytes(covered[start : start + piece])
        (said,) = _CHECKSUM.unpack_from(checksums, number * _CHECKSUM.size)
        if (zlib.crc32(part) if kind == _CRC32 else google_crc32c.value(part)) != said:
            raise ValueError("a block does not fit its checksum")


def _decoded(data: bytes, size: int, codec: int) -> bytes:
    content = data if codec == NONE else isal_zlib.decompressobj(_GZIP_WINDOW).decompress(data, size + 1)
    if len(content) != size:
        raise ValueError(f"a block of {len(content)} bytes that says {size}")
    return content


def _gzipped(content: bytes) -> bytes:
    """Equal content gives equal bytes: the header holds no time.

    ISA-L's level 1 makes filters (texts of random bits) and records of keys as small as zlib's level 6 does, statistics
    a tenth larger, and takes a tenth of its time.
    """
    packer = isal_zlib.compressobj(_GZIP_LEVEL, isal_zlib.DEFLATED, _GZIP_WINDOW)
    return packer.compress(content) + packer.flush()
