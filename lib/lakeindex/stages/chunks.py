"""Access to the staged batch by chunk: keys, single columns or whole rows, decoded once a process.

A chunk is one row group of a staged file. The files are small (they hold only the batch), so a task keeps what it decoded
in a cache bounded in bytes that the other tasks of its process share.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.pipeline import CHUNKS, STAGED_KEY
from lakeindex.stages.checkpoints import Manifest, Part, RunFolder, arrow_schema

CACHE_BYTES = 512 * 1024 * 1024


class Sized(Protocol):
    """Something with a size in memory."""

    @property
    def nbytes(self) -> int:
        """Bytes it takes."""


V = TypeVar("V", bound=Sized)


class BoundedCache(Generic[V]):
    """Least-recently-used cache bounded in bytes; safe to share between threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held: OrderedDict[Hashable, V] = OrderedDict()
        self._bytes = 0
        self._mutex = threading.Lock()

    def get(self, key: Hashable) -> V | None:
        """The value, now the most recently used; None if it is not held."""
        with self._mutex:
            value = self._held.get(key)
            if value is not None:
                self._held.move_to_end(key)
            return value

    def put(self, key: Hashable, value: V) -> None:
        """Hold a value; the least recently used ones go where it gets too much."""
        with self._mutex:
            if key in self._held:
                return
            self._held[key] = value
            self._bytes += value.nbytes
            while self._bytes > self._limit and len(self._held) > 1:
                _, dropped = self._held.popitem(last=False)
                self._bytes -= dropped.nbytes


_decoded: BoundedCache[pa.Table] = BoundedCache(CACHE_BYTES)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk of the batch; ``partition`` is empty under a global index, where a chunk spans partitions."""

    number: int
    partition: str
    part: Part
    row_group: int
    rows: int
    min_key: str
    max_key: str


def chunks_of(folder: RunFolder, staged: Manifest) -> list[Chunk]:
    """All chunks of the batch, by number."""
    files = {p.path: p for p in staged.parts("staged")}
    table = folder.read_all(staged, "chunks", arrow_schema(CHUNKS))
    return [
        Chunk(r["chunk"], r["partition"], files[r["file"]], r["row_group"], r["rows"], r["min_key"], r["max_key"])
        for r in table.to_pylist()
    ]


def chunk_columns(folder: RunFolder, chunk: Chunk, columns: Sequence[str] | None) -> pa.Table:
    """Columns (None: all) of a chunk's rows, each in one piece."""
    key = (chunk.part.digest, chunk.row_group, tuple(columns) if columns is not None else None)
    found = _decoded.get(key)
    if found is None:
        file = pq.ParquetFile(pa.BufferReader(folder.read_bytes(chunk.part)))
        found = file.read_row_group(chunk.row_group, columns=columns, use_threads=False).combine_chunks()
        _decoded.put(key, found)
    return found


def chunk_keys(folder: RunFolder, chunk: Chunk) -> pa.Array:
    """The chunk's record keys, ascending by UTF-8 bytes (within each partition, unless the index is global)."""
    return one_array(chunk_columns(folder, chunk, [STAGED_KEY]).column(0))


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def take_rows(
    folder: RunFolder, chunks: Mapping[int, Chunk], picks: Iterable[tuple[int, np.ndarray]]
) -> pa.Table | None:
    """Whole staged rows: for each (chunk number, row numbers), in that order; None if there are none."""
    tables = [chunk_columns(folder, chunks[c], None).take(pa.array(rows)) for c, rows in picks if len(rows)]
    return pa.concat_tables(tables) if tables else None


def pack_rows(rows: np.ndarray) -> bytes:
    """Row numbers of a chunk as one value: little-endian uint32."""
    return rows.astype("<u4").tobytes()


def unpack_rows(packed: bytes) -> np.ndarray:
    """Inverse of :func:`pack_rows`: int64, shape (n,)."""
    return np.frombuffer(packed, "<u4").astype(np.int64)
