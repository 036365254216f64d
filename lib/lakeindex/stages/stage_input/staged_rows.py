"""Combine and sort rows of the batch, and write them as chunks: last part of stage 1."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.errors import InputError
from lakeindex.hashing.arrow import one_array
from lakeindex.model import Change, Operation
from lakeindex.options.types import StagedCodec, WriteConfig
from lakeindex.pipeline import OP_DELETE, STAGED_KEY, STAGED_OP, STAGED_PARTITION
from lakeindex.run.checkpoints import Part
from lakeindex.run.chunks import remember_chunks, same_columns, without_repeated
from lakeindex.run.input_columns import InputColumns
from lakeindex.run.replaced import WITH_PARTITIONS
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.storage import is_on_this_machine
from lakeindex.tasks.memory_bound import chunk_bytes, current_share
from lakeindex.write.base_file import dictionaries_for, parquet_writer
from lakeindex.write.bounded_groups import groups_within
from lakeindex.write.combine import Combining, combine_and_sort, combine_with_stored
from lakeindex.write.updated_rows import UpdateRule

_SAMPLE_ROWS = 8192
_STRETCH_ROWS = 2048
"""Rows of the sample that stand behind each other, as in a file."""
_STAGED_BYTES = 64 * 1024 * 1024
"""A staged file is closed at about so many decoded bytes: a chunk is read with the file it is in."""


@dataclass(frozen=True, slots=True)
class StagedChunk:
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


@dataclass(frozen=True, slots=True)
class Staged:
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
    rule = UpdateRule(frozenset(), facts.filled, spec.merge_function, facts.deciding)
    return Combining(facts.is_global, facts.event_time_fields, rule, deletes_lose=spec.feed is not None)


def stage_rows(
    spec: RunSpec, facts: TableFacts, name: str, folder: str, rows: pa.Table, of_input: InputColumns | None = None
) -> Staged:
    """Keep the winner of each key, sort, write staged files ``folder/staged/name*.parquet``; columns ``of_input``, a
    file with these rows, are not written if they are in its order.
    """
    combining = combine_with_stored if spec.change is Change.REPLACE else combine_and_sort
    sorted_rows = combining(rows, combining_of(spec, facts))
    if sorted_rows.combined:
        refuse_doubled(spec, facts, rows)
    combined, rows = sorted_rows.combined, sorted_rows.rows
    if not sorted_rows.as_they_came:
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
        mine = None if of_input is None else replace(of_input, first_row=bounds[0][0])
        file = _staged_file(spec, facts, path, rows, bounds, mine)
        result = replace(
            result,
            parts=result.parts + file.parts,
            chunks=result.chunks + file.chunks,
            column_bytes=result.column_bytes + file.column_bytes,
        )
    return result


def refuse_doubled(spec: RunSpec, facts: TableFacts, rows: pa.Table) -> None:
    """Nothing, unless each key has to be there once: some of these rows have one key.

    Raises:
        InputError: it has.
    """
    if spec.operation is not Operation.BULK_INSERT:
        return
    lookup = combining_of(spec, facts).lookup
    counts = rows.group_by(lookup).aggregate([([], "count_all")])
    doubled = counts.filter(pc.greater(counts.column("count_all"), 1)).sort_by([(name, "ascending") for name in lookup])
    key = doubled.column(STAGED_KEY)[0].as_py()
    raise InputError(
        f"record key {key!r} is in {doubled.column('count_all')[0]} rows of the batch, and a bulk insert combines none",
        culprit=key,
        hint="make the keys of the batch unique, or use insert or insert_overwrite, which keep the newest row of a key",
    )


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
    of_input: InputColumns | None,
) -> Staged:
    sink = pa.BufferOutputStream()
    keys = one_array(rows.column(STAGED_KEY))
    partitions = one_array(rows.column(STAGED_PARTITION))
    chunks, kept = [], []
    same = same_columns(rows, _keyed_by(facts))
    stored = without_repeated(rows, same, of_input)
    dictionaries, names = dictionaries_for(rows), frozenset(stored.column_names)
    # Without statistics: the ends of a chunk's keys are kept beside it.
    with pq.ParquetWriter(
        sink,
        stored.schema,
        compression=_compression(spec),
        use_dictionary=[name for name in dictionaries if name in names],
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
    return Staged((part,), placed, column_bytes=_column_bytes(mine, facts, spec.config, dictionaries))


def _keyed_by(facts: TableFacts) -> Mapping[str, str]:
    """Columns that a record key or a partition path of one field may be the values of."""
    keys, partitions = facts.keys.record_key_fields, facts.keys.partition_fields
    pairs = [(STAGED_KEY, keys[0])] if len(keys) == 1 else []
    pairs += [(STAGED_PARTITION, partitions[0][0])] if len(partitions) == 1 else []
    return {made: field for made, field in pairs if field in facts.schema.names}


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


def _column_bytes(rows: pa.Table, facts: TableFacts, config: WriteConfig, dictionaries: Sequence[str]) -> int:
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
