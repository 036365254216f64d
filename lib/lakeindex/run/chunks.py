"""Access to the staged batch by chunk: keys, single columns or whole rows, decoded once a process.

A chunk is one row group of a staged file. What a task decoded is kept in a cache that the other tasks of its process
share, a small part of what one of them may hold.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.hashing.arrow import one_array
from lakeindex.index.stored.decoded_cache import BoundedCache
from lakeindex.pipeline import CHUNKS, STAGED_KEY
from lakeindex.run.checkpoints import Manifest, Part, RunFolder, arrow_schema
from lakeindex.tasks.memory_bound import LARGEST_CACHE, cache_bytes, current_share

CACHE_BYTES = LARGEST_CACHE
_STORED_AS = b"lakeindex.stored.as"
"""Key of a staged file's metadata: JSON, each column of the rows and the one that it is stored as."""


@dataclass(frozen=True, slots=True)
class _StagedFile:
    """A staged file's bytes and its parsed footer, which has an entry of every column of every chunk."""

    raw: memoryview
    metadata: pq.FileMetaData

    @property
    def nbytes(self) -> int:
        """Bytes it takes, about."""
        return self.raw.nbytes + int(self.metadata.serialized_size)


_decoded: BoundedCache[pa.Table] = BoundedCache(CACHE_BYTES)
_files: BoundedCache[_StagedFile] = BoundedCache(CACHE_BYTES)
"""Whole staged files: one of many chunks or columns is read, and its footer parsed, once, not once for each."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk of the batch; ``partition`` is empty under a global index, where a chunk spans partitions.
    ``deletes``: of its rows.
    """

    number: int
    partition: str
    part: Part
    row_group: int
    rows: int
    deletes: int
    min_key: str
    max_key: str


def chunks_of(folder: RunFolder, staged: Manifest) -> list[Chunk]:
    """All chunks of the batch, by number."""
    files = {p.path: p for p in staged.parts("staged")}
    table = folder.read_all(staged, "chunks", arrow_schema(CHUNKS))
    return [
        Chunk(number, partition, files[path], *facts)
        for number, partition, path, *facts in zip(*(c.to_pylist() for c in table.columns), strict=True)
    ]


def chunk_columns(folder: RunFolder, chunk: Chunk, columns: Sequence[str] | None) -> pa.Table:
    """Columns (None: all) of a chunk's rows, each in one piece."""
    key = (chunk.part.digest, chunk.row_group, tuple(columns) if columns is not None else None)
    found = _decoded.get(key)
    whole = None if columns is None or found is not None else _decoded.get((*key[:2], None))
    if whole is not None:
        return whole.select(list(columns or ()))
    if found is None:
        held = _files.get((chunk.part.digest,))
        raw = folder.read_bytes(chunk.part) if held is None else held.raw
        file = pq.ParquetFile(pa.BufferReader(raw), metadata=None if held is None else held.metadata)
        if columns is not None or file.num_row_groups > 1:  # more of it may be asked for
            _files.put((chunk.part.digest,), _StagedFile(raw, file.metadata), cache_bytes(current_share()))
        found = _read(file, chunk.row_group, columns).combine_chunks()
        _decoded.put(key, found, cache_bytes(current_share()))
    return found


def without_repeated(rows: pa.Table, sources: Mapping[str, str]) -> pa.Table:
    """Staged rows as they are stored: of two columns that are the same, one; the schema's metadata says which.

    Args:
        rows: the rows of a staged file.
        sources: columns that may be the same as another one, and that one.
    """
    stored = {name: name for name in rows.column_names}
    stored |= {name: of for name, of in sources.items() if rows.column(name).equals(rows.column(of))}
    marked = rows.select(list(dict.fromkeys(stored.values())))
    return marked.replace_schema_metadata({_STORED_AS: json.dumps(stored)})


def _read(file: pq.ParquetFile, row_group: int, columns: Sequence[str] | None) -> pa.Table:
    """Columns (None: all) of a row group of a staged file."""
    stored = json.loads(file.schema_arrow.metadata[_STORED_AS])
    names = list(stored) if columns is None else columns
    wanted = None if columns is None else list(dict.fromkeys(stored[name] for name in columns))
    read = file.read_row_group(row_group, columns=wanted, use_threads=False)
    return pa.table([read.column(stored[name]) for name in names], names=names)


def remember_chunks(part: Part, chunks: Sequence[pa.Table]) -> None:
    """Keep the rows of a staged file that was just written, a table a row group:
    later tasks of the process need not decode it.
    """
    for number, rows in enumerate(chunks):
        _decoded.put((part.digest, number, None), rows, cache_bytes(current_share()))


def chunk_keys(folder: RunFolder, chunk: Chunk) -> pa.Array:
    """The chunk's record keys, ascending by UTF-8 bytes (within each partition, unless the index is global)."""
    return one_array(chunk_columns(folder, chunk, [STAGED_KEY]).column(0))


class StagedRows:
    """Rows of the batch by chunk and row number, read where they are sliced.

    Args:
        folder: the run's.
        chunks: those that are named, by number.
        chunk: number of each row's chunk.
        row: number of each row in it.
        empty: no rows, of the batch's columns.
    """

    def __init__(
        self, folder: RunFolder, chunks: Mapping[int, Chunk], chunk: np.ndarray, row: np.ndarray, empty: pa.Table
    ) -> None:
        self._folder, self._chunks, self._chunk, self._row, self._empty = folder, chunks, chunk, row, empty

    def __len__(self) -> int:
        return len(self._row)

    def take(self, places: pa.Array) -> StagedRows:
        """These rows, in this order."""
        order = places.to_numpy()
        return StagedRows(self._folder, self._chunks, self._chunk[order], self._row[order], self._empty)

    def slice(self, offset: int, length: int) -> pa.Table:
        """Rows behind each other, all columns."""
        return self._read(offset, offset + length, None)

    def column(self, name: str) -> pa.ChunkedArray:
        """One column of all rows."""
        return self._read(0, len(self), [name]).column(0)

    def _read(self, start: int, stop: int, columns: Sequence[str] | None) -> pa.Table:
        chunk, row = self._chunk[start:stop], self._row[start:stop]
        if not len(row):
            return self._empty if columns is None else self._empty.select(list(columns))
        is_grouped = bool((chunk[1:] >= chunk[:-1]).all())
        order = np.arange(len(chunk)) if is_grouped else np.argsort(chunk, kind="stable")
        numbers, starts = np.unique(chunk[order], return_index=True)
        pieces = np.split(row[order], starts[1:])
        tables = [
            _picked(chunk_columns(self._folder, self._chunks[int(n)], columns), rows)
            for n, rows in zip(numbers, pieces, strict=True)
        ]
        # One may have columns that others have not: those of rows that another file held, and that come as new ones.
        found = pa.concat_tables(tables, promote_options="default")
        return found if is_grouped else found.take(pa.array(np.argsort(order, kind="stable")))


def _picked(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Rows of a table; without a copy if they stand one behind the other."""
    if (np.diff(rows) == 1).all():
        return table.slice(int(rows[0]), len(rows))
    return table.take(pa.array(rows))


def pack_rows(rows: np.ndarray) -> bytes:
    """Row numbers of a chunk as one value: little-endian uint32."""
    return rows.astype("<u4").tobytes()


def unpack_rows(packed: bytes) -> np.ndarray:
    """Inverse of :func:`pack_rows`: int64, shape (n,)."""
    return np.frombuffer(packed, "<u4").astype(np.int64)


def pack_rows_of(chunk: Chunk, rows: np.ndarray) -> bytes | None:
    """Row numbers of a chunk, ascending, as one value; None if they are all of it."""
    return None if len(rows) == chunk.rows else pack_rows(rows)


def unpack_rows_of(chunk: Chunk, packed: bytes | None) -> np.ndarray:
    """Inverse of :func:`pack_rows_of`: int64, shape (n,)."""
    return np.arange(chunk.rows, dtype=np.int64) if packed is None else unpack_rows(packed)
