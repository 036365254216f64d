"""The one door through which base files are decoded: pages are compared with their checksums, and no row is missing.

pyarrow compares the body of a page with the checksum in its header where there is one. Damage to a header itself can
make it skip a page or end a column early without a word, so the rows of what it gives are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.parquet.pages import DamagedPagesError

_DECODING: Final = (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError)
"""What decoding damaged pages ends with: they may claim any size."""


def open_pages(source: pa.NativeFile | BinaryIO, **how: Any) -> pq.ParquetFile:
    """A base file to be decoded.

    Args:
        how: more of ``pyarrow.parquet.ParquetFile``'s arguments.

    Raises:
        ArrowException, OSError: its footer cannot be read.
    """
    return pq.ParquetFile(source, page_checksum_verification=True, **how)


def read_groups(
    file: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str] | None = None, *, use_threads: bool = True
) -> pa.Table:
    """Rows of some row groups, one behind the other.

    Args:
        file: from :func:`open_pages`.
        columns: top-level columns; all if not said.
        use_threads: decode columns at the same time.

    Raises:
        DamagedPagesError: they cannot be decoded; it says which row group and column.
        MemoryError: they do not fit into memory at once, though each column of each row group does.
        ArrowException, OSError: the file cannot be read.
    """
    names = None if columns is None else list(columns)
    try:
        rows = file.read_row_groups(list(groups), columns=names, use_threads=use_threads)
    except _DECODING as error:
        blamed = _blamed(file, groups, names)
        if blamed is None and isinstance(error, MemoryError):
            raise MemoryError(_said(error)) from error  # not Arrow's: that counts as a file that cannot be read
        raise blamed or DamagedPagesError(_said(error)) from error
    expected = sum(file.metadata.row_group(group).num_rows for group in groups)
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
    file: pq.ParquetFile, group: int, columns: Sequence[str], most_rows: int, *, use_threads: bool = True
) -> Iterator[pa.RecordBatch]:
    """Rows of one row group, so many at once: what is decoded is never the whole of it.

    Args:
        file: from :func:`open_pages`.
        columns: top-level columns, at least one.
        most_rows: rows of a batch.
        use_threads: decode columns at the same time.

    Raises:
        DamagedPagesError, MemoryError, ArrowException, OSError: as :func:`read_groups`.
    """
    names, seen = list(columns), 0
    try:
        for batch in file.iter_batches(most_rows, row_groups=[group], columns=names, use_threads=use_threads):
            seen += batch.num_rows
            yield batch
    except _DECODING as error:
        raise _blamed(file, [group], names) or DamagedPagesError(_said(error)) from error
    expected = file.metadata.row_group(group).num_rows
    if seen != expected:
        raise _blamed(file, [group], names) or DamagedPagesError(f"{seen} rows came of {expected}")


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
