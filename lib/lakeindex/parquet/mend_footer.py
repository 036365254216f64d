"""Find what a Parquet footer was before a byte of it, or its end, was damaged: what its checksum agrees with.

CRC-32 is linear: the difference that one damaged byte makes depends on the damage and on how many bytes come after it,
and on nothing else. So the difference between the checksum that is and the one that should be is stepped back, a byte
at a time, until it is one that a single byte makes. A footer that was found so is a guess until its pages agree, too.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import Final

from lakeindex.parquet import stamps

_MAGIC: Final = b"PAR1"
_END_BYTES: Final = 8
_MOST: Final = 8 * 1024 * 1024
"""Bytes of a footer that is looked for."""
_BEGIN: Final = re.compile(rb"\x15[\x02\x04]\x19")
"""How a footer begins: its version, then the list of its schema."""


def _byte_effects() -> tuple[int, ...]:
    """What one byte makes of a CRC-32 of zeros, by its value."""
    table = []
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_EFFECT: Final = _byte_effects()
_VALUE_OF: Final = {effect: value for value, effect in enumerate(_EFFECT)}
_BY_TOP: Final = {effect >> 24: value for value, effect in enumerate(_EFFECT)}


def mended_files(data: bytes, digest: str | None) -> Iterator[bytes]:
    """What a file may have been whose footer is damaged; nothing if nothing agrees.

    Args:
        data: the whole file, as long as it was.
        digest: of its footer, as its commit says it; None: the footer's own checksum has to do.
    """
    if len(data) < len(_MAGIC) + _END_BYTES:
        return
    (length,) = struct.unpack("<I", data[-_END_BYTES:-4])
    first = len(data) - _END_BYTES - length
    if data[-4:] == _MAGIC and len(_MAGIC) <= first < len(data) - _END_BYTES:
        footer = data[first:-_END_BYTES]
        for mended in _mended(footer, digest):
            yield data[:first] + mended + data[-_END_BYTES:]
    tail = data[-_MOST - _END_BYTES : -_END_BYTES]
    for found in _BEGIN.finditer(tail):
        footer = tail[found.start() :]
        if _agrees(footer, digest) and len(footer) != length:
            end = struct.pack("<I", len(footer)) + _MAGIC
            yield data[: len(data) - _END_BYTES - len(footer)] + footer + end
    if data[-4:] != _MAGIC and len(_MAGIC) <= first < len(data) - _END_BYTES:
        footer = data[first:-_END_BYTES]
        if _agrees(footer, digest):
            yield data[:-4] + _MAGIC


def _agrees(footer: bytes, digest: str | None) -> bool:
    if digest is not None:
        return stamps.footer_digest(footer) == digest
    return stamps.HEADERS.encode() in footer and stamps.footer_problem(footer) is None


def _mended(footer: bytes, digest: str | None) -> Iterator[bytes]:
    """The footer with one byte changed, so that its checksum agrees."""
    if digest is not None:
        difference = zlib.crc32(footer) ^ int(digest, 16)
    else:
        own = stamps.own_difference(footer)
        if own is None:
            return
        difference = own
    if not difference:
        return
    for at in range(len(footer) - 1, -1, -1):
        value = _VALUE_OF.get(difference)
        if value is not None:
            mended = footer[:at] + bytes([footer[at] ^ value]) + footer[at + 1 :]
            if _agrees(mended, digest):
                yield mended
        index = _BY_TOP[difference >> 24]
        difference = ((difference ^ _EFFECT[index]) << 8 | index) & 0xFFFFFFFF
