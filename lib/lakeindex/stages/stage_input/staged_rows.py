"""Scatter keyed rows by their lookup key into pieces in the run folder, read a bucket's pieces back, combine and sort
them, and write them as chunks: last part of stage 1.

One object holds the pieces of all buckets, one behind the other, each an Arrow stream with a digest of its own. Where
all tasks run in one process, pieces are not written but held in memory, as far as there is room. A bucket that came out
larger than a task may hold is cut again while it is read: all rows of a lookup key stay together.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from lakeindex.errors import InputError, ObjectNotFoundError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.hashing.murmur import murmur
from lakeindex.model import Change, Operation
from lakeindex.options.types import StagedCodec, WriteConfig
from lakeindex.pipeline import OP_DELETE, STAGED_KEY, STAGED_OP, STAGED_PARTITION
from lakeindex.run.checkpoints import CheckpointError, Part, RunFolder, digest_of, own_name
from lakeindex.run.chunks import InputColumns, remember_chunks, same_columns, with_addresses, without_repeated
from lakeindex.run.feeds import Feed
from lakeindex.run.input_rows import ADDRESS
from lakeindex.run.replaced import WITH_PARTITIONS
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.storage import is_on_this_machine
from lakeindex.tasks.memory_bound import chunk_bytes, current_share
from lakeindex.write.base_file import dictionaries_for, parquet_writer
from lakeindex.write.bounded_groups import groups_within
from lakeindex.write.combine import ARRIVAL, Combining, combine_and_sort, combine_with_stored
from lakeindex.write.merge_rows import UpdateRule


class SpilledPiece(Frozen):
    """Rows of one bucket in a spilled object.

    Attributes:
        length: bytes of it.
        decoded_bytes: what its rows take in memory.
    """

    bucket: int
    path: str
    start: int
    length: int
    decoded_bytes: int
    digest: str


class HeldPiece(Frozen):
    """Rows of one bucket in memory; ``decoded_bytes`` is about what they take."""

    bucket: int
    number: int
    decoded_bytes: int


Piece: TypeAlias = SpilledPiece | HeldPiece


class Cut(Frozen):
    """Part ``number`` of ``of`` of a bucket; ``buckets``: how many the batch was scattered over."""

    buckets: int
    number: int = 0
    of: int = 1


class Scatter(Frozen):
    """How a batch is scattered: over ``buckets``, rows of one lookup key, or of one partition, into one of them."""

    buckets: int
    is_global: bool
    by_partition: bool = False


class _Room:
    """Pieces in memory, of all tasks of two maps: rows of all buckets, and which of them a piece is."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._held: list[tuple[pa.Table, np.ndarray]] = []
        self._mutex = threading.Lock()

    def hold(self, rows: pa.Table, buckets: Mapping[int, np.ndarray]) -> tuple[HeldPiece, ...] | None:
        """Hold the rows as pieces, if there is room."""
        with self._mutex:
            if rows.nbytes > self._left:
                return None
            self._left -= rows.nbytes
            first, each = len(self._held), rows.nbytes / rows.num_rows
            self._held += [(rows, places) for places in buckets.values()]
        return tuple(
            HeldPiece(bucket, first + number, int(each * len(places)))
            for number, (bucket, places) in enumerate(buckets.items())
        )

    def rows_of(self, piece: HeldPiece) -> pa.Table:
        rows, places = self._held[piece.number]
        return rows if len(places) == rows.num_rows else rows.take(pa.array(places))


_NOWHERE: Final = _Room(0)
_room: ContextVar[_Room] = ContextVar("room for pieces", default=_NOWHERE)


@contextmanager
def pieces_held(limit: int) -> Iterator[None]:
    """Keep pieces in memory while the body runs, up to so many bytes: all its tasks are of this process."""
    token = _room.set(_Room(limit))
    try:
        yield
    finally:
        _room.reset(token)


def spill(folder: RunFolder, path: str, rows: pa.Table, scatter: Scatter) -> tuple[Piece, ...]:
    """Scatter rows, in their order within each bucket: as pieces of an object, or in memory if there is room."""
    if not rows.num_rows:
        return ()
    buckets = _buckets(rows, scatter)
    held = _room.get().hold(rows, buckets)
    if held is not None:
        return held
    rows = rows.take(pa.array(np.concatenate(list(buckets.values())))) if len(buckets) > 1 else rows
    ends = itertools.accumulate((len(places) for places in buckets.values()), initial=0)
    sink = pa.BufferOutputStream()
    marks = [(0, 0)]
    for start, stop in itertools.pairwise(ends):
        some = rows.slice(start, stop - start)
        with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(some)
        marks.append((sink.tell(), some.nbytes))
    data = sink.getvalue()
    path = own_name(path)
    folder.store.write(path, (memoryview(data),))
    pieces = []
    for number, (start, _), (stop, decoded) in zip(buckets, marks, marks[1:], strict=False):
        digest = digest_of(data.slice(start, stop - start))
        pieces.append(SpilledPiece(number, path, start, stop - start, decoded, digest))
    return tuple(pieces)


def _buckets(rows: pa.Table, scatter: Scatter) -> dict[int, np.ndarray]:
    """Of each bucket that has rows their numbers, int64, ascending."""
    if scatter.buckets == 1:
        return {0: np.arange(rows.num_rows)}
    columns = [STAGED_PARTITION] if scatter.by_partition else _lookup(is_global=scatter.is_global)
    # numbers of few bits are sorted by them, in a fifth of the time
    bucket = (_hashes(rows, columns) % scatter.buckets).astype(np.min_scalar_type(scatter.buckets))
    order = np.argsort(bucket, kind="stable")
    numbers, first = np.unique(bucket[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True))


def read_spilled(folder: RunFolder, pieces: Sequence[Piece], cut: Cut, *, is_global: bool) -> pa.Table:
    """Rows of a bucket, or of a part of it, in the order of the pieces.

    Raises:
        CheckpointError: a piece is missing, or not what was written.
    """
    tables = []
    for piece in pieces:
        rows = _read(folder, piece) if isinstance(piece, SpilledPiece) else _room.get().rows_of(piece)
        if cut.of > 1:
            part = _hashes(rows, _lookup(is_global=is_global)) // cut.buckets % cut.of
            rows = rows.filter(pa.array(part == cut.number))
        tables.append(rows)
    return pa.concat_tables(tables)


def _read(folder: RunFolder, piece: SpilledPiece) -> pa.Table:
    try:
        data = folder.store.read_range(piece.path, piece.start, piece.length)
    except ObjectNotFoundError as error:
        raise _damaged(piece, "is missing") from error
    if digest_of(data) != piece.digest:
        raise _damaged(piece, f"is damaged at byte {piece.start}")
    return pa.ipc.open_stream(pa.BufferReader(data)).read_all()


def _damaged(piece: SpilledPiece, why: str) -> CheckpointError:
    return CheckpointError(f"spilled rows {piece.path!r}: the object {why}", culprit=piece.path, hint="run it again")


def _lookup(*, is_global: bool) -> list[str]:
    return [STAGED_KEY] if is_global else [STAGED_KEY, STAGED_PARTITION]


def _hashes(rows: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """A hash of each row's values in these columns, int64 [n]."""
    hashes = [murmur(one_array(rows.column(c))).view(np.uint32).astype(np.int64) for c in columns]
    return sum(hashes[1:], hashes[0])


_SAMPLE_ROWS = 8192
_STRETCH_ROWS = 2048
"""Rows of the sample that stand behind each other, as in a file."""
_STAGED_BYTES = 64 * 1024 * 1024
"""A staged file is closed at about so many decoded bytes: a chunk is read with the file it is in."""


class StagedChunk(Frozen):
    """A chunk as it was staged: where, how many rows, deletes among them, and its keys."""

    partition: str
    path: str
    row_group: int
    rows: int
    deletes: int
    min_key: str
    max_key: str

    @property
    def first(self) -> tuple[str, str]:
        """Where its lookup keys begin."""
        return self.partition, self.min_key

    @property
    def last(self) -> tuple[str, str]:
        """Where they end."""
        return self.partition, self.max_key


class Staged(Frozen):
    """Staged files and their chunks, what was combined away, and bytes of the rows: columns compressed, and decoded;
    partitions of the rows, where the operation has to know them.
    """

    parts: tuple[Part, ...] = ()
    chunks: tuple[StagedChunk, ...] = ()
    combined: int = 0
    column_bytes: int = 0
    decoded_bytes: int = 0
    partitions: frozenset[str] = frozenset()


def combining_of(spec: RunSpec, facts: TableFacts) -> Combining:
    """Which rows of the batch win, by the table, and what they take from others."""
    required = frozenset(field.name for field in facts.schema if not field.nullable)
    rule = UpdateRule(frozenset(), facts.filled, spec.merge_function, facts.deciding, facts.delete_mark, required)
    return Combining(facts.is_global, facts.event_time_fields, rule, deletes_lose=spec.feed is not None)


def stage_rows(
    spec: RunSpec,
    facts: TableFacts,
    name: str,
    folder: str,
    rows: pa.Table,
    of_input: InputColumns | Part | None = None,
) -> Staged:
    """Keep the winner of each key, sort, write staged files ``folder/staged/name*.parquet``.

    Args:
        of_input: columns of a file with these rows, which are not written if they are in its order; or, if rows have
            nothing but keys and what orders them, where they are: then their addresses are written.
    """
    combining = combine_with_stored if spec.change is Change.REPLACE else combine_and_sort
    if isinstance(of_input, Part):
        rows = rows.append_column(ADDRESS, rows.column(ARRIVAL))
    sorted_rows = combining(rows, combining_of(spec, facts))
    if sorted_rows.combined:
        refuse_doubled(spec, facts, rows)
    combined, rows = sorted_rows.combined, sorted_rows.rows
    if isinstance(of_input, Part):
        rows = rows.select([STAGED_PARTITION, STAGED_KEY, STAGED_OP, ADDRESS])
    elif not sorted_rows.as_they_came:
        of_input = None
    del sorted_rows
    if not rows.num_rows:
        return Staged(combined=combined)
    most = _rows_of_a_chunk(rows, spec.config)
    touched = frozenset[str]()
    if spec.operation in WITH_PARTITIONS:
        touched = frozenset(pc.unique(rows.column(STAGED_PARTITION)).to_pylist())
    result = Staged(combined=combined, decoded_bytes=rows.nbytes, partitions=touched)
    bounds_of_chunks = _chunk_bounds(rows, most, is_global=facts.is_global)
    rows_of_a_file = max(_STAGED_BYTES * rows.num_rows // max(rows.nbytes, 1), 1)
    for number, bounds in enumerate(groups_within(bounds_of_chunks, lambda b: b[1] - b[0], rows_of_a_file)):
        path = f"{folder}/staged/{name}-{number:03d}.parquet" if number else f"{folder}/staged/{name}.parquet"
        mine = replace(of_input, first_row=bounds[0][0]) if isinstance(of_input, InputColumns) else of_input
        file = _staged_file(spec, facts, path, rows, bounds, mine)
        result = replace(
            result,
            parts=result.parts + file.parts,
            chunks=result.chunks + file.chunks,
            column_bytes=result.column_bytes + file.column_bytes,
        )
    return result


def refuse_doubled(spec: RunSpec, facts: TableFacts, rows: pa.Table) -> None:
    """Nothing, unless each key has to be there once: some of these rows have one key. Raises: InputError: it has."""
    lookup = combining_of(spec, facts).lookup
    if spec.feed is not None and spec.feed.unique_within:
        _refuse_two_partitions(spec.feed, facts, rows, lookup)
    if spec.operation is not Operation.BULK_INSERT:
        return
    counts = rows.group_by(lookup).aggregate([([], "count_all")])
    doubled = counts.filter(pc.greater(counts.column("count_all"), 1)).sort_by([(name, "ascending") for name in lookup])
    key = doubled.column(STAGED_KEY)[0].as_py()
    raise InputError(
        f"record key {key!r} is in {doubled.column('count_all')[0]} rows of the batch, and a bulk insert combines none",
        culprit=key,
        hint="make the keys of the batch unique, or use insert or insert_overwrite, which keep the newest row of a key",
    )


def _refuse_two_partitions(feed: Feed, facts: TableFacts, rows: pa.Table, lookup: list[str]) -> None:
    """Raises: InputError: rows of several partitions of the source, each there still, would be one row here."""
    within = feed.unique_within
    live = rows.filter(pc.not_equal(rows.column(STAGED_OP), OP_DELETE))
    there = [name for name in within if name in live.column_names]
    places = live.select([*lookup, *there]).unify_dictionaries()
    places = places.group_by([*lookup, *there]).aggregate([]) if there else places
    doubled = places.group_by(lookup).aggregate([([], "count_all")])
    doubled = doubled.filter(pc.greater(doubled.column("count_all"), 1))
    if not doubled.num_rows:
        return
    key = pc.min(doubled.column(STAGED_KEY)).as_py()
    raise feed.doubled(f"rows of record key {key!r} in several partitions", key, facts.keys.record_key_fields)


def _rows_of_a_chunk(rows: pa.Table, config: WriteConfig) -> int:
    """Most rows of a chunk: as configured, and no more than later tasks can hold decoded."""
    row_bytes = max(rows.nbytes // rows.num_rows, 1)
    return min(config.chunk_rows, max(chunk_bytes(current_share()) // row_bytes, 1))


def _staged_file(
    spec: RunSpec,
    facts: TableFacts,
    path: str,
    rows: pa.Table,
    bounds: Sequence[tuple[int, int]],
    of_input: InputColumns | Part | None,
) -> Staged:
    sink = pa.BufferOutputStream()
    keys = one_array(rows.column(STAGED_KEY))
    partitions = one_array(rows.column(STAGED_PARTITION))
    chunks, kept = [], []
    is_addressed = isinstance(of_input, Part)
    same = same_columns(rows, {} if is_addressed else _keyed_by(facts))
    stored = with_addresses(rows, of_input) if isinstance(of_input, Part) else without_repeated(rows, same, of_input)
    dictionaries, names = dictionaries_for(rows), frozenset(stored.column_names)
    encoding = {}
    if is_addressed:  # texts that are sorted begin like those before them
        dictionaries, encoding = [STAGED_PARTITION], {STAGED_KEY: "DELTA_BYTE_ARRAY"}
    # Without statistics: the ends of a chunk's keys are kept beside it.
    with pq.ParquetWriter(
        sink,
        stored.schema,
        compression=_compression(spec),
        use_dictionary=[name for name in dictionaries if name in names],
        column_encoding=encoding or None,
        write_statistics=False,
    ) as writer:
        for group, (start, stop) in enumerate(bounds):
            kept.append(rows.slice(start, stop - start))
            writer.write_table(stored.slice(start, stop - start), row_group_size=stop - start)
            partition = "" if facts.is_global else partitions[start].as_py()
            low, high = keys[start].as_py(), keys[stop - 1].as_py()
            chunks.append(StagedChunk(partition, path, group, stop - start, _deletes(kept[-1]), low, high))
    data = sink.getvalue()
    part = run_folder(spec).write_bytes(path, data, bounds[-1][1] - bounds[0][0])
    remember_chunks(part, kept, same)
    mine = rows.slice(bounds[0][0], bounds[-1][1] - bounds[0][0])
    placed = tuple(replace(chunk, path=part.path) for chunk in chunks)
    size = 0 if is_addressed else column_bytes(mine, facts, spec.config, dictionaries)
    return Staged((part,), placed, column_bytes=size)


def _keyed_by(facts: TableFacts) -> Mapping[str, str]:
    """Columns that a record key or a partition path of one field may be the values of."""
    keys, partitions = facts.keys.record_key_fields, facts.keys.partition_fields
    pairs = [(STAGED_KEY, keys[0])] if len(keys) == 1 else []
    pairs += [(STAGED_PARTITION, partitions[0][0])] if len(partitions) == 1 else []
    return {made: field for made, field in pairs if field in facts.staged.names}


def _chunk_bounds(rows: pa.Table, most: int, *, is_global: bool) -> Iterator[tuple[int, int]]:
    """Row ranges of the chunks: of one partition (unless global), at most ``most`` rows."""
    edges = [0, rows.num_rows]
    if not is_global and rows.num_rows > 1:
        partitions = one_array(rows.column(STAGED_PARTITION))
        differs = pc.not_equal(partitions.slice(0, len(partitions) - 1), partitions.slice(1))
        edges = [0, *(np.flatnonzero(differs.to_numpy(zero_copy_only=False)) + 1).tolist(), rows.num_rows]
    for first, last in itertools.pairwise(edges):
        for start in range(first, last, most):
            yield start, min(start + most, last)


def _deletes(rows: pa.Table) -> int:
    return int(pc.sum(pc.equal(rows.column(STAGED_OP), OP_DELETE)).as_py() or 0)


def _compression(spec: RunSpec) -> str:
    codec = spec.config.staged_codec
    if codec is StagedCodec.AUTO:
        # What crosses no network is written and read in a fraction of the time that zstd takes.
        codec = StagedCodec.UNCOMPRESSED if is_on_this_machine(spec.checkpoints_uri) else StagedCodec.ZSTD
    return "none" if codec is StagedCodec.UNCOMPRESSED else codec.value


def column_bytes(rows: pa.Table, facts: TableFacts, config: WriteConfig, dictionaries: Sequence[str]) -> int:
    """About what the table's columns and the key of these rows take in a base file, by encoding some of the rows."""
    names = {STAGED_KEY, *facts.schema.names}.intersection(rows.column_names)
    wanted = rows.select([name for name in rows.column_names if name in names])
    sample = wanted
    if rows.num_rows > _SAMPLE_ROWS:
        last, most = rows.num_rows - _STRETCH_ROWS, _SAMPLE_ROWS // _STRETCH_ROWS
        starts = [last * n // (most - 1) for n in range(most)]
        sample = pa.concat_tables([wanted.slice(start, _STRETCH_ROWS) for start in starts]).combine_chunks()
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, sample.schema, config, [d for d in dictionaries if d in names]) as writer:
        writer.write_table(sample)
    group = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
    encoded = sum(group.column(c).total_compressed_size for c in range(group.num_columns))
    return encoded * rows.num_rows // sample.num_rows
