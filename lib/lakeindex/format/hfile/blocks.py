"""The blocks of an HFile: header, encoded content, checksums."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Final, cast

import google_crc32c
from isal import isal_zlib

from lakeindex.errors import TableUnsupportedError

DATA: Final = b"DATABLK*"
META: Final = b"METABLKc"
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


@dataclass(frozen=True, slots=True)
class Block:
    """One block, decoded.

    Attributes:
        end: where the next one begins.
    """

    magic: bytes
    content: bytes
    end: int


@dataclass(frozen=True, slots=True)
class LoneBlock:
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
    """How many bytes the content of a block has, decoded."""
    size: int = _HEADER.unpack_from(block)[2]
    return size


def beginning(block: bytes, size: int, codec: int) -> bytes:
    """The first decoded bytes of a block; what is behind them is not looked at.

    Args:
        size: how many are wanted, at most.

    Raises:
        GZIP_ERROR: it is damaged.
    """
    content = memoryview(block)[_HEADER.size :]
    return bytes(content[:size]) if codec == NONE else isal_zlib.decompressobj(_GZIP_WINDOW).decompress(content, size)


def moved_block(block: bytes, previous: int) -> bytes:
    """A block without checksums in another place.

    Args:
        previous: where the block before of its kind begins; -1 if there is none.
    """
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
