"""Access to the staged batch by chunk: keys, single columns or whole rows, decoded once a process.

A chunk is one row group of a staged file. Columns that are not copied are read from the file of the batch that holds
them, which the staged file names with its digest. What a task decoded is kept in a cache that the other tasks of its
process share, a small part of what one of them may hold. A run in one process hands over what it staged, as far as
there is room.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from lakeindex.errors import ObjectNotFoundError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.pipeline import CHUNKS, STAGED_KEY
from lakeindex.run.checkpoints import Manifest, Part, RunFolder, arrow_schema, digest_of
from lakeindex.run.input_rows import ADDRESS, InputRows, input_changed, input_rows
from lakeindex.showing.json_values import json_of
from lakeindex.tasks.memory_bound import LARGEST_CACHE, BoundedCache, cache_bytes, chunk_bytes, current_share
from lakeindex.tasks.stores import storage_at
from lakeindex.write.types.moments import MomentsFile

_MARK: Final = b"lakeindex.columns.of.input"
"""Key of a staged file's metadata: JSON, where the columns are that it has not got."""


class InputColumns(Frozen):
    """Columns of a Parquet file of the batch, as they were when it was keyed.

    Attributes:
        root: the file's store.
        path: of the file, below it.
        digest: of its bytes.
        columns: of its columns, those that are not copied.
        first_row: row of the file that the staged file's first one is.
    """

    root: str
    path: str
    digest: str
    columns: tuple[str, ...]
    first_row: int = 0

    def as_metadata(self) -> dict[bytes, str]:
        return {_MARK: json.dumps(json_of(self))}

    def content(self) -> memoryview:
        """The file's bytes, those that were keyed. Raises: InputChangedError: it is gone, or has other bytes."""
        try:
            data = memoryview(storage_at(self.root).read(self.path))
        except ObjectNotFoundError as error:
            raise input_changed(self.root, self.path, "is gone") from error
        if digest_of(data) != self.digest:
            raise input_changed(self.root, self.path, "has changed")
        return data


def input_columns_of(metadata: Mapping[bytes, bytes]) -> InputColumns | None:
    """What a staged file's metadata says; None if it holds all columns of its rows."""
    if _MARK not in metadata:
        return None
    said = json.loads(metadata[_MARK])
    return InputColumns(**{**said, "columns": tuple(said["columns"])})


CACHE_BYTES = LARGEST_CACHE
_ROWS_MARK: Final = b"lakeindex.rows.of.input"
"""Key of a staged file's metadata: JSON, the checkpoint that says where its rows are, of which it has addresses."""
_DENSE: Final = 4
"""Of so many rows one is wanted at least: they are taken with the others of the batch, and not by themselves."""
_STORED_AS = b"lakeindex.stored.as"
"""Key of a staged file's metadata: JSON, each column of the rows and the one that it is stored as."""


class _ParquetBytes(Frozen):
    """A file's bytes and its parsed footer, which has an entry of every column of every chunk."""

    raw: memoryview
    metadata: pq.FileMetaData

    @property
    def nbytes(self) -> int:
        return self.raw.nbytes + int(self.metadata.serialized_size)


_decoded: BoundedCache[pa.Table] = BoundedCache(CACHE_BYTES)
_files: BoundedCache[_ParquetBytes] = BoundedCache(CACHE_BYTES)
"""Whole files: one of many chunks or columns is read, and its footer parsed, once, not once for each."""


class _HandedOver:
    """Rows of the chunks that a run staged, while there is room. None makes way for another: they are read in the order
    that they were staged in, and what came last would displace what is read first.
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, pa.Table] = {}
        self._bytes = 0
        self._mutex = threading.Lock()

    def get(self, key: Hashable) -> pa.Table | None:
        return self._held.get(key)

    def put(self, key: Hashable, rows: pa.Table, size: int, limit: int) -> bool:
        """Hold them if there is room; whether there was."""
        with self._mutex:
            if self._bytes + size > limit:
                return False
            self._held[key] = rows
            self._bytes += size
            return True


_handed_over: ContextVar[_HandedOver | None] = ContextVar("rows handed over", default=None)


@contextmanager
def rows_handed_over() -> Iterator[None]:
    """Hand staged rows over in memory while the body runs: all stages, in this process."""
    token = _handed_over.set(_HandedOver())
    try:
        yield
    finally:
        _handed_over.reset(token)


def are_handed_over() -> bool:
    """Whether this is a run of all stages in one process, as far as it knows."""
    return _handed_over.get() is not None


class Chunk(Frozen):
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
    found, handed = _decoded.get(key), _handed_over.get()
    whole = handed.get(key[:2]) if handed is not None else None
    if whole is None and columns is not None and found is None:
        whole = _decoded.get((*key[:2], None))
    if whole is not None and _has_all(whole, columns):
        return whole if columns is None else whole.select(list(columns))
    if found is None:
        held = _files.get((chunk.part.digest,))
        raw = folder.read_bytes(chunk.part) if held is None else held.raw
        file = pq.ParquetFile(pa.BufferReader(raw), metadata=None if held is None else held.metadata)
        if columns is not None or file.num_row_groups > 1:  # more of it may be asked for
            _files.put((chunk.part.digest,), _ParquetBytes(raw, file.metadata), cache_bytes(current_share()))
        found = _read(folder, file, chunk.row_group, columns).combine_chunks()
        _decoded.put(key, found, cache_bytes(current_share()))
    return found


def _has_all(whole: pa.Table, columns: Sequence[str] | None) -> bool:
    """Whether these are all columns that are asked for, and none stayed in the files of the batch."""
    if ADDRESS not in whole.column_names:
        return True
    return columns is not None and frozenset(columns) <= frozenset(whole.column_names)


def same_columns(rows: pa.Table, sources: Mapping[str, str]) -> dict[str, str]:
    """Of each column the one that it is stored as: itself, or that which ``sources`` says it may be the same as."""
    stored = {name: name for name in rows.column_names}
    return stored | {name: of for name, of in sources.items() if rows.column(name).equals(rows.column(of))}


def without_repeated(rows: pa.Table, stored: Mapping[str, str], of_input: InputColumns | None = None) -> pa.Table:
    """Staged rows as they are stored: of two columns that are the same, one, and none that a file of the batch holds;
    the schema's metadata says which.

    Args:
        stored: their :func:`same_columns`.
        of_input: columns that are not copied.
    """
    elsewhere = of_input.columns if of_input is not None else ()
    marked = rows.select([name for name in dict.fromkeys(stored.values()) if name not in elsewhere])
    more = of_input.as_metadata() if of_input is not None else {}
    return marked.replace_schema_metadata({_STORED_AS: json.dumps(stored), **more})


def with_addresses(rows: pa.Table, there: Part) -> pa.Table:
    """Staged rows with their addresses as they are stored; the metadata says where their other columns are.

    Args:
        there: the :class:`~lakeindex.run.input_rows.InputRows` of the batch.
    """
    stored = {name: name for name in rows.column_names}
    said = {_STORED_AS: json.dumps(stored), _ROWS_MARK: json.dumps(json_of(there))}
    return rows.replace_schema_metadata(said)


def rows_of_input(folder: RunFolder, part: Part) -> InputRows:
    """Where the rows of a batch are. Raises: CheckpointError: what says it is missing or damaged."""
    return input_rows(bytes(folder.read_bytes(part)))


def _read_with_addresses(
    folder: RunFolder, file: pq.ParquetFile, row_group: int, columns: Sequence[str] | None
) -> pa.Table:
    """The same, of rows that stayed in the files of the batch: columns that are not staged are taken from there."""
    metadata = file.schema_arrow.metadata
    batch = rows_of_input(folder, Part(**json.loads(metadata[_ROWS_MARK])))
    staged = dict.fromkeys(json.loads(metadata[_STORED_AS]))
    names = [name for name in dict.fromkeys([*staged, *batch.schema.names]) if name != ADDRESS]
    names = names if columns is None else list(columns)
    here, elsewhere = [n for n in names if n in staged], [n for n in names if n not in staged]
    read = file.read_row_group(row_group, columns=[*here, *([ADDRESS] if elsewhere else [])], use_threads=False)
    found = {name: read.column(name) for name in here}
    if elsewhere:
        found |= batch.columns_at(read.column(ADDRESS).to_numpy(), elsewhere)
    return pa.table([found[name] for name in names], names=names)


def _read(folder: RunFolder, file: pq.ParquetFile, row_group: int, columns: Sequence[str] | None) -> pa.Table:
    metadata = file.schema_arrow.metadata
    if _ROWS_MARK in metadata:
        return _read_with_addresses(folder, file, row_group, columns)
    stored, of_input = json.loads(metadata[_STORED_AS]), input_columns_of(metadata)
    names = list(stored) if columns is None else columns
    wanted = dict.fromkeys(stored[name] for name in names)
    elsewhere = [name for name in wanted if of_input is not None and name in of_input.columns]
    here = [name for name in wanted if name not in elsewhere]
    found: dict[str, pa.ChunkedArray] = {}
    if here:
        read = file.read_row_group(row_group, columns=here, use_threads=False)
        found = {name: read.column(name) for name in here}
    if of_input is not None and elsewhere:
        before = sum(file.metadata.row_group(group).num_rows for group in range(row_group))
        start, rows = of_input.first_row + before, file.metadata.row_group(row_group).num_rows
        of_file = _rows_of_input(of_input, start, start + rows, elsewhere)
        found |= {name: of_file.column(name) for name in elsewhere}
    return pa.table([found[stored[name]] for name in names], names=names)


def _rows_of_input(of_input: InputColumns, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
    """Rows ``[start, stop)`` of a file of the batch; row groups that hold none of them are not decoded."""
    held = _files.get((of_input.digest,))
    raw = of_input.content() if held is None else held.raw
    file = MomentsFile(pa.BufferReader(raw), metadata=None if held is None else held.metadata)
    _files.put((of_input.digest,), _ParquetBytes(raw, file.metadata), cache_bytes(current_share()))
    ends = np.cumsum([0, *(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups))])
    first, last = int(np.searchsorted(ends, start, "right")) - 1, int(np.searchsorted(ends, stop, "left"))
    found = file.read_row_groups(list(range(first, last)), columns=list(columns), use_threads=False)
    return found.slice(start - int(ends[first]), stop - start)


def remember_chunks(part: Part, chunks: Sequence[pa.Table], stored: Mapping[str, str]) -> None:
    """Keep the rows of a staged file that was just written, a table a row group, with their :func:`same_columns`:
    later tasks of the process need not decode it.
    """
    handed = _handed_over.get()
    for number, chunk in enumerate(chunks):
        own = chunk.select(list(dict.fromkeys(stored.values())))
        rows, size = pa.table([own.column(stored[n]) for n in chunk.column_names], names=chunk.column_names), own.nbytes
        if handed is not None and handed.put((part.digest, number), rows, size, chunk_bytes(current_share())):
            continue
        if ADDRESS not in stored:  # else they are not all columns
            _decoded.put((part.digest, number, None), rows, cache_bytes(current_share()))


def chunk_keys(folder: RunFolder, chunk: Chunk) -> pa.Array:
    """The chunk's record keys, ascending by UTF-8 bytes (within each partition, unless the index is global)."""
    return one_array(chunk_columns(folder, chunk, [STAGED_KEY]).column(0))


class StagedRows(Frozen, eq=False):
    """Rows of the batch by chunk and row number, read where they are sliced.

    Attributes:
        chunks: those that are named, by number.
        empty: no rows, of the batch's columns.
    """

    folder: RunFolder
    chunks: Mapping[int, Chunk]
    chunk: np.ndarray
    row: np.ndarray
    empty: pa.Table

    def __len__(self) -> int:
        return len(self.row)

    def take(self, places: pa.Array) -> StagedRows:
        """These rows, in this order."""
        order = places.to_numpy()
        return replace(self, chunk=self.chunk[order], row=self.row[order])

    def slice(self, offset: int, length: int) -> pa.Table:
        return self._read(offset, offset + length, None)

    def column(self, name: str) -> pa.ChunkedArray:
        return self._read(0, len(self), [name]).column(0)

    def _read(self, start: int, stop: int, columns: Sequence[str] | None) -> pa.Table:
        chunk, row = self.chunk[start:stop], self.row[start:stop]
        if not len(row):
            return self.empty if columns is None else self.empty.select(list(columns))
        is_grouped = bool((chunk[1:] >= chunk[:-1]).all())
        order = np.arange(len(chunk)) if is_grouped else np.argsort(chunk, kind="stable")
        numbers, starts = np.unique(chunk[order], return_index=True)
        tables, places, end = [], np.empty(len(row), np.int64), 0
        for number, some in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
            table, rows = _picked(chunk_columns(self.folder, self.chunks[number], columns), row[some])
            tables.append(table)
            places[some] = end + rows
            end += table.num_rows
        # One may have columns that others have not: those of rows that another file held, and that come as new ones.
        found = pa.concat_tables(tables, promote_options="default")
        return found if _is_all(places, end) else found.take(pa.array(places))


def read_together(some: Sequence[StagedRows]) -> list[pa.Table]:
    """The rows of each of these, all columns; the batch is asked once."""
    first = some[0]
    chunks = {number: chunk for one in some for number, chunk in one.chunks.items()}
    chunk, row = np.concatenate([one.chunk for one in some]), np.concatenate([one.row for one in some])
    rows = StagedRows(first.folder, chunks, chunk, row, first.empty).slice(0, len(row))
    ends = itertools.accumulate((len(one) for one in some), initial=0)
    return [rows.slice(end, len(one)) for one, end in zip(some, ends, strict=False)]


def _picked(table: pa.Table, rows: np.ndarray) -> tuple[pa.Table, np.ndarray]:
    first, stop = int(rows.min()), int(rows.max()) + 1
    if stop - first <= _DENSE * len(rows):
        return table.slice(first, stop - first), rows - first
    return table.take(pa.array(rows)), np.arange(len(rows), dtype=np.int64)


def _is_all(places: np.ndarray, rows: int) -> bool:
    return len(places) == rows and bool((places[1:] > places[:-1]).all())


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
