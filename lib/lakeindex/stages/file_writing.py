"""Second part of stage 5: write one file slice a task, as the plan says; whole, under the planned name."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.backends.registry import index_for
from lakeindex.errors import InvariantError, TableCorruptError
from lakeindex.hashing.arrow import plain_strings
from lakeindex.index.protocol import DELTA_SCHEMA, Change
from lakeindex.index.tagging import Fate
from lakeindex.model import BaseFile
from lakeindex.pipeline import STAGED_KEY
from lakeindex.stages.checkpoints import Part, RunFolder
from lakeindex.stages.chunks import Chunk, chunk_columns, chunk_keys, take_rows, unpack_rows
from lakeindex.stages.context import RunSpec, TableFacts, run_folder, storage_at
from lakeindex.table.footer_cache import CacheEntry, FooterCache
from lakeindex.table.footers import Footer, footer_in
from lakeindex.write.avro_schema import META_COLUMNS
from lakeindex.write.base_file import CarriedFooter, EncodedFile, encode_base_file, footer_texts
from lakeindex.write.file_parts import OldSlice, open_slice
from lakeindex.write.fixed_columns import fixed_columns
from lakeindex.write.merging import Changes, NewSlice, merge_slice
from lakeindex.write.rewriting import Rewrite, rewrite_slice


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """New rows ``[start, stop)`` of a chunk, partition and home, and the ``inserts`` file that lists them."""

    part: Part
    chunk: int
    partition: str
    home: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class WriteTask:
    """One file slice to write.

    Attributes:
        number: numbers the task in its commit; part of sequence numbers.
        old: the slice it replaces, or None for a new file group.
        old_number: the old slice's number in the ``files`` checkpoint, or None.
        new: the slice to write.
        locations: files that list the found rows of the old slice.
        placed: new rows that go in.
        chunks: chunks that are named, by number.
        changes_path: where to leave what changes, for an index that stores locations; else None.
        held_bytes: memory it will need, about (:mod:`lakeindex.stages.memory`).
    """

    spec: RunSpec
    facts: TableFacts
    number: int
    old: BaseFile | None
    old_number: int | None
    new: BaseFile
    locations: tuple[Part, ...]
    placed: tuple[PlacedRows, ...]
    chunks: dict[int, Chunk]
    changes_path: str | None = None
    held_bytes: int = 0


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A slice that was written; counts are rows, ``removed`` holds deleted and moved ones; ``delta``: its keys that changed;
    ``cached``: what to put into the footer cache; column chunks copied as bytes and encoded; wall time.
    """

    file: BaseFile
    old: BaseFile | None
    rows: int
    rows_before: int
    updates: int
    removed: int
    inserts: int
    delta: Part | None = None
    cached: CacheEntry | None = None
    chunks_copied: int = 0
    chunks_encoded: int = 0
    seconds: float = 0.0


def write_files(tasks: tuple[WriteTask, ...]) -> tuple[WrittenFile, ...]:
    """Several slices, one after the other: a task of Spark's costs as much as a small file.

    Their filters are left in the footer cache, so that the next look-up reads no footers.
    """
    footers: list[tuple[BaseFile, Footer]] = []
    written = [write_file(task, footers) for task in tasks]
    if not footers:
        return tuple(written)
    entries = {e.path: e for e in FooterCache(storage_at(tasks[0].spec.table_uri)).keep_filters(footers)}
    return tuple(replace(one, cached=entries.get(one.file.path)) for one in written)


def write_file(task: WriteTask, footers: list[tuple[BaseFile, Footer]] | None = None) -> WrittenFile:
    """Merge and write one file slice.

    Args:
        task: what to write.
        footers: gets the slice's footer, if the index asks for footers.

    Raises:
        TableCorruptError: the old slice cannot be read.
        InvariantError: the merged rows are not what the plan says.
    """
    started = time.perf_counter()
    store = storage_at(task.spec.table_uri)
    rewrite = _rewrite_of(task)
    old = None if task.old is None else _read_slice(task, task.old, rewrite)
    changes, gone = _changes(task, None if old is None else old.row_group_starts)
    before = 0 if old is None else old.rows
    expected = before - len(changes.delete_positions) + len(changes.inserts)
    try:
        encoded = _encoded(old, changes, rewrite)
    except (pa.ArrowException, OSError) as error:
        if task.old is None:
            raise
        raise _unreadable(task.old, error) from error
    if encoded.rows != expected:
        raise InvariantError(
            f"{task.new.path!r} came out with {encoded.rows} rows instead of {expected}", culprit=task.new.path
        )
    store.write(task.new.path, encoded.pieces)
    written = BaseFile(
        task.new.partition_path, task.new.file_id, task.new.instant_time, task.new.write_token, encoded.size
    )
    if footers is not None and task.spec.config.footer_cache and index_for(task.facts.index).traits.needs_footers:
        footers.append((written, footer_in(encoded.pieces[-1], written)))
    return WrittenFile(
        written,
        task.old,
        encoded.rows,
        before,
        len(changes.updates),
        len(changes.delete_positions),
        len(changes.inserts),
        _write_delta(task, changes.inserts.column(STAGED_KEY), gone),
        chunks_copied=encoded.chunks_copied,
        chunks_encoded=encoded.chunks_encoded,
        seconds=round(time.perf_counter() - started, 4),
    )


def _rewrite_of(task: WriteTask) -> Rewrite:
    facts, new = task.facts, task.new
    return Rewrite(
        facts.name,
        facts.schema,
        task.spec.config,
        fixed_columns(facts.keys, facts.schema, None if facts.is_global else new.partition_path),
        NewSlice(new.partition_path, new.instant_time, new.name, task.number),
    )


def _encoded(old: OldSlice | _DecodedSlice | None, changes: Changes, rewrite: Rewrite) -> EncodedFile:
    if isinstance(old, OldSlice):
        return rewrite_slice(old, changes, rewrite)
    merged = merge_slice(None if old is None else old.table, changes, rewrite.schema, rewrite.new)
    added = plain_strings(changes.inserts.column(STAGED_KEY))
    carried = None if old is None else CarriedFooter(old.key_value, added)
    return encode_base_file(merged, rewrite.table_name, rewrite.schema, rewrite.config, carried)


def _write_delta(task: WriteTask, added: pa.ChunkedArray, gone: pa.Table) -> Part | None:
    """What an index that stores locations has to learn: keys that are in this file now, keys that left the old one."""
    if task.changes_path is None:
        return None
    n = len(added)
    columns = [
        added,
        pa.repeat(task.new.partition_path, n),
        pa.repeat(task.new.file_id, n),
        pa.array(np.full(n, Change.INSERT, np.int8)),
    ]
    arrived = pa.table([c.cast(f.type) for c, f in zip(columns, DELTA_SCHEMA, strict=True)], schema=DELTA_SCHEMA)
    return run_folder(task.spec).write_table(task.changes_path, pa.concat_tables([arrived, gone]))


@dataclass(frozen=True, slots=True)
class _DecodedSlice:
    """All rows of a slice in the table's types, where each row group starts, and its footer's entries."""

    table: pa.Table
    row_group_starts: np.ndarray
    key_value: dict[str, str]

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return self.table.num_rows


def _read_slice(task: WriteTask, file: BaseFile, rewrite: Rewrite) -> OldSlice | _DecodedSlice:
    """The slice, in parts if it can be rewritten in parts, else decoded."""
    try:
        data = storage_at(task.spec.table_uri).read(file.path)
        old = open_slice(data, rewrite.schema, rewrite.config)
        if old is not None:
            return old
        source = pq.ParquetFile(pa.BufferReader(data))
        table = source.read()
        groups = [source.metadata.row_group(g).num_rows for g in range(source.num_row_groups)]
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error
    fields = [*(pa.field(n, pa.string()) for n in META_COLUMNS), *task.facts.schema]
    columns = [
        table.column(f.name).cast(f.type) if f.name in table.column_names else pa.nulls(table.num_rows, f.type)
        for f in fields
    ]
    starts = np.concatenate([[0], np.cumsum(groups)]).astype(np.int64)
    return _DecodedSlice(pa.table(columns, names=[f.name for f in fields]), starts, footer_texts(source.metadata))


def _unreadable(file: BaseFile, error: Exception) -> TableCorruptError:
    return TableCorruptError(
        f"base file {file.path!r} cannot be read: {str(error).splitlines()[0]}",
        culprit=file.path,
        hint="restore the file, or roll the table back to an instant before it",
    )


def _changes(task: WriteTask, starts: np.ndarray | None) -> tuple[Changes, pa.Table]:
    """What to change, and the keys that leave the slice (rows of a delta; only if somebody wants to know)."""
    folder = run_folder(task.spec)
    empty = _empty_rows(task, folder)
    inserts = _inserts(task, folder)
    if starts is None:
        nothing = np.array([], np.int64)
        changes = Changes(empty, nothing, nothing, empty if inserts is None else inserts)
        return changes, DELTA_SCHEMA.empty_table()
    located = _located(task, folder)
    fate = located.column("fate").to_numpy()
    places = starts[located.column("row_group").to_numpy()] + located.column("row_in_group").to_numpy()
    is_update = fate == Fate.UPDATE
    chunk, row = located.column("chunk").to_numpy(), located.column("row").to_numpy()
    order, picks = _by_chunk(chunk[is_update], row[is_update])
    updates = take_rows(folder, task.chunks, picks)
    leaves = (fate == Fate.DELETE) | (fate == Fate.MOVED)
    changes = Changes(
        empty if updates is None else updates,
        places[is_update][order],
        places[leaves],
        empty if inserts is None else inserts,
    )
    if task.changes_path is None or task.old is None:
        return changes, DELTA_SCHEMA.empty_table()
    return changes, _leaving(task, task.old, folder, chunk[leaves], row[leaves], fate[leaves])


def _leaving(
    task: WriteTask, old: BaseFile, folder: RunFolder, chunk: np.ndarray, row: np.ndarray, fate: np.ndarray
) -> pa.Table:
    order, picks = _by_chunk(chunk, row)
    tables = [chunk_keys(folder, task.chunks[number]).take(pa.array(rows)) for number, rows in picks]
    keys = pa.concat_arrays([t.cast(pa.string()) for t in tables]) if tables else pa.array([], pa.string())
    change = np.where(fate[order] == Fate.MOVED, Change.MOVE, Change.DELETE).astype(np.int8)
    columns = [keys, pa.repeat(old.partition_path, len(keys)), pa.nulls(len(keys), pa.string()), pa.array(change)]
    return pa.table([c.cast(f.type) for c, f in zip(columns, DELTA_SCHEMA, strict=True)], schema=DELTA_SCHEMA)


def _by_chunk(chunk: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, list[tuple[int, np.ndarray]]]:
    order = np.argsort(chunk, kind="stable")
    numbers, starts = np.unique(chunk[order], return_index=True)
    pieces = np.split(row[order], starts[1:]) if len(numbers) else []
    return order, [(int(n), piece) for n, piece in zip(numbers, pieces, strict=True)]


def _located(task: WriteTask, folder: RunFolder) -> pa.Table:
    tables: list[pa.Table] = []
    for part in task.locations:
        table = folder.read_table(part)
        tables.append(table.filter(pc.equal(table.column("file"), task.old_number)))
    if tables:
        return pa.concat_tables(tables)
    names = ("chunk", "row", "row_group", "row_in_group", "fate")
    return pa.table({n: pa.array([], pa.int32()) for n in names})


def _inserts(task: WriteTask, folder: RunFolder) -> pa.Table | None:
    return take_rows(folder, task.chunks, list(_insert_picks(task.placed, folder)))


def _insert_picks(placed: Sequence[PlacedRows], folder: RunFolder) -> Iterable[tuple[int, np.ndarray]]:
    for piece in placed:
        table = folder.read_table(piece.part)
        for record in table.to_pylist():
            if (record["chunk"], record["partition"], record["home"]) == (piece.chunk, piece.partition, piece.home):
                yield piece.chunk, unpack_rows(record["rows"])[piece.start : piece.stop]


def _empty_rows(task: WriteTask, folder: RunFolder) -> pa.Table:
    if task.chunks:
        return chunk_columns(folder, next(iter(task.chunks.values())), None).slice(0, 0)
    return pa.table(
        [pa.array([], pa.string()), *(pa.array([], f.type) for f in task.facts.schema)],
        names=[STAGED_KEY, *task.facts.schema.names],
    )
