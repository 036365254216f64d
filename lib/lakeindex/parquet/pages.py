"""The pages of base files: the one door through which they are decoded, and whether they are whole.

A column chunk is pages behind each other, each a PageHeader (thrift, see :mod:`lakeindex.parquet.footer_text`) and its
body. The header may hold the CRC-32 of the body as it is stored (``crc``, field 4); nothing in Parquet covers the
header. So the CRC-32 of a chunk's headers is kept in our footers (:mod:`lakeindex.parquet.stamps`).

pyarrow compares the body of a page with the checksum in its header where there is one. Damage to a header itself can
make it skip a page or end a column early without a word, so the rows of what it gives are counted.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.frozen import Frozen
from lakeindex.parquet.thrift_walk import CUT_SHORT, PAGE_NUMBERS, page_header

_MOST_HEADER_BYTES: Final = 16 * 1024 * 1024
"""Arrow's readers refuse longer ones, too."""


class DamagedPagesError(OSError):
    """Pages are not what was written. It is an OSError, as pyarrow's own errors are, because those who read a file
    handle both alike, and name the file.
    """


class WalkedChunk(Frozen):
    """What the pages of a column chunk are.

    Attributes:
        headers_crc: CRC-32 of the page headers, one behind the other.
        without_crc: pages that have no checksum.
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
    """Walks a chunk whose bytes come in pieces."""

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
        if self._problem is None and (self._rest or self._body_left):
            self._problem = f"page {self._pages} is cut short"
        return WalkedChunk(self._headers_crc, self._pages, self._without_crc, self._problem)

    def _header(self, data: memoryview, at: int) -> int:
        """Read the header at a place; the place behind it."""
        page_header(data, at, self._found)
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


_DECODING: Final = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
"""What decoding damaged pages ends with: they may claim any size."""

_FEW_BYTES: Final = 256 * 1024
"""Decoded at once: to wake Arrow's threads for them takes as long as to decode them."""


def open_pages(source: pa.NativeFile | BinaryIO, **how: Any) -> pq.ParquetFile:
    """A base file to be decoded.

    Args:
        how: more of ``pyarrow.parquet.ParquetFile``'s arguments.

    Raises:
        ArrowException, OSError: its footer cannot be read.
    """
    return pq.ParquetFile(source, page_checksum_verification=True, coerce_int96_timestamp_unit="us", **how)


def read_groups(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str] | None = None, *, use_threads: bool = True
) -> pa.Table:
    """Rows of some row groups, one behind the other.

    Args:
        file: from :func:`open_pages`.
        columns: top-level columns; all if not said.

    Raises:
        DamagedPagesError: they cannot be decoded; it says which row group and column.
        MemoryError: they do not fit into memory at once, though each column of each row group does.
        ArrowException, OSError: the file cannot be read.
    """
    names = None if columns is None else list(columns)
    try:
        about = [file.metadata.row_group(group) for group in groups]
        use_threads = use_threads and sum(one.total_byte_size for one in about) > _FEW_BYTES
        rows = file.read_row_groups(list(groups), columns=names, use_threads=use_threads)
    except _DECODING as error:
        blamed = _blamed(file, groups, names)
        if blamed is None and isinstance(error, MemoryError):
            raise MemoryError(_said(error)) from error  # not Arrow's: that counts as a file that cannot be read
        raise blamed or DamagedPagesError(_said(error)) from error
    expected = sum(one.num_rows for one in about)
    if rows.num_rows != expected and (names is None or names):
        raise _blamed(file, groups, names) or DamagedPagesError(f"{rows.num_rows} rows came of {expected}")
    return rows


def read_column(file: pq.ParquetFile, name: str) -> pa.ChunkedArray:
    """One column of all rows. Raises: as :func:`read_groups`."""
    return read_groups(file, range(file.num_row_groups), [name], use_threads=False).column(0)


def read_batches(file: pq.ParquetFile, rows: int) -> Iterator[pa.RecordBatch]:
    """All rows, so many at once. Raises: as :func:`read_groups`."""
    seen = 0
    for batch in file.iter_batches(rows, use_threads=False):
        seen += batch.num_rows
        yield batch
    if seen != file.metadata.num_rows:
        raise DamagedPagesError(f"{seen} rows came of {file.metadata.num_rows}")


def read_group_batches(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str], most_rows: int, *, use_threads: bool = True
) -> Iterator[pa.RecordBatch]:
    """Rows of some row groups, so many at once: what is decoded is never the whole of a large one.

    Args:
        columns: top-level columns, at least one.

    Raises:
        DamagedPagesError, MemoryError, ArrowException, OSError: as :func:`read_groups`.
    """
    names, seen = list(columns), 0
    try:
        for batch in file.iter_batches(most_rows, row_groups=list(groups), columns=names, use_threads=use_threads):
            seen += batch.num_rows
            yield batch
    except _DECODING as error:
        raise _blamed(file, groups, names) or DamagedPagesError(_said(error)) from error
    expected = sum(file.metadata.row_group(group).num_rows for group in groups)
    if seen != expected:
        raise _blamed(file, groups, names) or DamagedPagesError(f"{seen} rows came of {expected}")


def _blamed(file: pq.ParquetFile, groups: Sequence[int], names: list[str] | None) -> DamagedPagesError | None:
    """The first row group and column that cannot be read on their own; None if all can."""
    for group in groups:
        for name in names or file.schema_arrow.names:
            where = f"row group {group}, column {name!r}"
            try:
                found = file.read_row_groups([group], columns=[name], use_threads=False).num_rows
            except _DECODING as error:
                return DamagedPagesError(f"{where}: {_said(error)}")
            rows = file.metadata.row_group(group).num_rows
            if found != rows:
                return DamagedPagesError(f"{where}: {found} rows came of {rows}")
    return None


def _said(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
