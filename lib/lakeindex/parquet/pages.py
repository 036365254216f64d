"""The pages of a column chunk: are they whole, by the checksums in their headers and the checksum
of the headers themselves.

A chunk is pages behind each other, each a PageHeader (thrift, see :mod:`lakeindex.parquet.footer_text`) and its body.
The header may hold the CRC-32 of the body as it is stored (``crc``, field 4); nothing in Parquet covers the header. So
the CRC-32 of a chunk's headers is kept in our footers (:mod:`lakeindex.parquet.stamps`).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np

from lakeindex.parquet.page_walk import CUT_SHORT, PAGE_HEADER, PAGE_NUMBERS

_MOST_HEADER_BYTES: Final = 16 * 1024 * 1024
"""Arrow's readers refuse longer ones, too."""


class DamagedPagesError(OSError):
    """Pages are not what was written. An OSError, as pyarrow's own:
    who reads a file handles both alike, and names the file.
    """


@dataclass(frozen=True, slots=True)
class WalkedChunk:
    """What the pages of a column chunk are.

    Attributes:
        headers_crc: CRC-32 of the page headers, one behind the other.
        without_crc: pages that have no checksum.
        problem: what is wrong with them; None if nothing is.
    """

    headers_crc: int
    pages: int
    without_crc: int
    problem: str | None = None

    def against(self, headers_crc: int | None) -> str | None:
        """What is wrong with the chunk; ``headers_crc``: what its file says of the page headers,
        None if it does not.
        """
        if self.problem is None and headers_crc not in (None, self.headers_crc):
            return "its page headers are damaged: their checksum does not agree"
        return self.problem


class ChunkWalk:
    """Walks a chunk whose bytes come in pieces.

    Args:
        checks_bodies: compare the bodies with their checksums.
    """

    def __init__(self, *, checks_bodies: bool = True) -> None:
        self._checks = checks_bodies
        self._found = np.zeros(PAGE_NUMBERS, np.int64)
        self._rest = b""
        self._body_left = 0
        self._expected: int | None = None
        self._crc = 0
        self._headers_crc = 0
        self._pages = 0
        self._without_crc = 0
        self._problem: str | None = None

    def feed(self, piece: bytes | memoryview) -> None:
        """The next bytes of the chunk."""
        data = memoryview(self._rest + bytes(piece) if self._rest else piece).cast("B")  # Arrow's have a sign
        self._rest = b""
        at = 0
        while at < len(data) and self._problem is None:
            if not self._body_left:
                at = self._header(data, at)
                continue
            part = data[at : at + self._body_left]
            if self._checks and self._expected is not None:
                self._crc = zlib.crc32(part, self._crc)
            at += len(part)
            self._body_left -= len(part)
            if not self._body_left:
                self._end_page()

    def end(self) -> WalkedChunk:
        """What was found, when all bytes were fed."""
        if self._problem is None and (self._rest or self._body_left):
            self._problem = f"page {self._pages} is cut short"
        return WalkedChunk(self._headers_crc, self._pages, self._without_crc, self._problem)

    def _header(self, data: memoryview, at: int) -> int:
        """Read the header at a place; the place behind it."""
        PAGE_HEADER.run(1, data, at, self._found)
        end, body, crc, has_crc = self._found.tolist()
        if end == CUT_SHORT and len(data) - at <= _MOST_HEADER_BYTES:
            self._rest = bytes(data[at:])
            return len(data)
        if end < 0 or body < 0:
            self._problem = f"the header of page {self._pages} cannot be read"
            return len(data)
        self._headers_crc = zlib.crc32(data[at:end], self._headers_crc)
        self._expected = crc & 0xFFFFFFFF if has_crc else None
        self._without_crc += not has_crc
        self._crc = 0
        self._body_left = body
        if not body:
            self._end_page()
        return int(end)

    def _end_page(self) -> None:
        if self._checks and self._expected is not None and self._crc != self._expected:
            self._problem = f"page {self._pages} is damaged: its checksum does not agree"
        self._pages += 1
