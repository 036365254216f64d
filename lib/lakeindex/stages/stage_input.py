"""Stage 1: key the batch, set bad rows aside, combine duplicates, sort; chunks are the unit of all later look-ups.

Two maps: *key* reads splits of the input and scatters their rows by a hash of the lookup key, *sort* combines and
sorts each bucket. A batch of one split and one bucket is done by one task, with nothing in between.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.config import WriteConfig
from lakeindex.errors import QuarantineExceededError
from lakeindex.hashing.arrow import StringArray, one_array
from lakeindex.model import Operation
from lakeindex.pipeline import CHUNKS, OP_DELETE, OP_UPSERT, STAGED_KEY, STAGED_OP, STAGED_PARTITION, Stage
from lakeindex.stages.checkpoints import Manifest, Part, arrow_schema, columns_of, digest_of_text
from lakeindex.stages.context import RunSpec, TableFacts, run_folder
from lakeindex.stages.inputs import Split, content_digest, find_inputs, read_split, split_inputs
from lakeindex.stages.scheduling import Runner, run_tasks
from lakeindex.write.combining import ARRIVAL, combine_and_sort
from lakeindex.write.keys import KeyGenerator
from lakeindex.write.schema_fit import FittedBatch, fit_batch

REASON = "_li_reason"
INPUT_FILE = "_li_input"
INPUT_ROW = "_li_row"
_BUCKET_BYTES = 256 * 1024 * 1024
_ARRIVAL_SHIFT = 40


@dataclass(frozen=True, slots=True)
class KeyTask:
    """Read one split; scatter its rows over ``buckets``."""

    spec: RunSpec
    facts: TableFacts
    split: Split
    ordinal: int
    buckets: int
    folder: str


@dataclass(frozen=True, slots=True)
class KeyResult:
    """What keying a split gave; ``pieces``: one file a bucket that got rows."""

    rows: int
    quarantined: int
    reasons: tuple[str, ...]
    quarantine: Part | None
    pieces: tuple[tuple[int, Part], ...]


@dataclass(frozen=True, slots=True)
class SortTask:
    """Combine and sort one bucket's pieces into one staged file."""

    spec: RunSpec
    facts: TableFacts
    bucket: int
    pieces: tuple[Part, ...]
    folder: str


@dataclass(frozen=True, slots=True)
class SortResult:
    """A staged file: its chunks, what was combined away, and the compressed bytes of its columns."""

    part: Part | None
    chunks: tuple[tuple[str, int, int, str, str], ...]
    combined: int
    column_bytes: int


def stage_input(spec: RunSpec, facts: TableFacts, runner: Runner) -> Manifest:
    """Run the stage, or take over its checkpoint if it is whole and was made from the same input and options.

    Raises:
        InputError: missing, unreadable or unfit input.
        QuarantineExceededError: more bad rows than ``spec.max_quarantined``; they are in the quarantine file.
    """
    config = spec.config
    files = find_inputs(spec.inputs, config.input_format, spec.checkpoints_uri)
    digest = content_digest(files)
    basis = digest_of_text(
        digest, spec.operation, facts.schema.to_string(), facts.keys, facts.event_time_field, facts.index,
        config.chunk_rows, config.input_format,
    )  # fmt: skip
    folder = run_folder(spec)
    done = folder.read_manifest(Stage.STAGE_INPUT)
    if done is not None and done.basis == basis and folder.is_whole(done):
        _check_quarantine(done, spec)
        return done
    manifest = _build(spec, facts, runner, split_inputs(files, config.input_format), basis, digest)
    manifest = replace(manifest, facts={**manifest.facts, "index_type": facts.index_type.value})
    _check_quarantine(manifest, spec)
    return manifest


def _build(spec: RunSpec, facts: TableFacts, runner: Runner, splits: list[Split], basis: str, digest: str) -> Manifest:
    folder = run_folder(spec).new_attempt(Stage.STAGE_INPUT)
    total = sum(s.bytes for s in splits)
    buckets = max(1, -(-total // _BUCKET_BYTES))
    if len(splits) == 1 and buckets == 1:
        keyed_and_sorted = run_tasks(
            runner, key_and_sort, [KeyTask(spec, facts, splits[0], 0, 1, folder)], "stage input: key, combine, sort"
        ).values
        keyed: tuple[KeyResult, ...] = (keyed_and_sorted[0][0],)
        results: tuple[SortResult, ...] = (keyed_and_sorted[0][1],)
    else:
        tasks = [KeyTask(spec, facts, s, i, buckets, folder) for i, s in enumerate(splits)]
        keyed = run_tasks(runner, key_split, tasks, "stage input: keys, partitions, quarantine").values
        pieces: dict[int, list[Part]] = {}
        for result in keyed:
            for bucket, part in result.pieces:
                pieces.setdefault(bucket, []).append(part)
        sorts = [SortTask(spec, facts, b, tuple(p), folder) for b, p in sorted(pieces.items())]
        results = run_tasks(runner, sort_bucket, sorts, "stage input: combine duplicates, sort").values
    return _manifest(spec, keyed, results, basis, digest, folder)


def _manifest(
    spec: RunSpec,
    keyed: tuple[KeyResult, ...],
    results: tuple[SortResult, ...],
    basis: str,
    digest: str,
    folder: str,
) -> Manifest:
    run = run_folder(spec)
    chunks: list[tuple[int, str, str, int, int, str, str]] = []
    for result in results:
        if result.part is None:
            continue
        for group, (partition, _, rows, low, high) in enumerate(result.chunks):
            chunks.append((len(chunks), partition, result.part.path, group, rows, low, high))
    columns = columns_of(chunks, len(CHUNKS))
    schema = arrow_schema(CHUNKS)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    staged = tuple(r.part for r in results if r.part is not None)
    rows = sum(r.rows for r in keyed)
    return Manifest(
        stage=Stage.STAGE_INPUT,
        run_id=spec.run_id,
        basis=basis,
        tables={
            "staged": staged,
            "chunks": (run.write_table(f"{folder}/chunks.parquet", table),),
            "quarantine": tuple(r.quarantine for r in keyed if r.quarantine is not None),
        },
        counters={
            "rows_in": rows,
            "rows_out": sum(p.rows for p in staged),
            "quarantined": sum(r.quarantined for r in keyed),
            "combined": sum(r.combined for r in results),
            "chunks": len(chunks),
            "staged_column_bytes": sum(r.column_bytes for r in results),
        },
        facts={"input_digest": digest, "reasons": sorted({reason for r in keyed for reason in r.reasons})[:10]},
    )


def _check_quarantine(manifest: Manifest, spec: RunSpec) -> None:
    bad = int(manifest.counters["quarantined"])
    if bad > spec.max_quarantined:
        where = ", ".join(p.path for p in manifest.parts("quarantine"))
        raise QuarantineExceededError(
            f"{bad} bad rows, {spec.max_quarantined} allowed: {'; '.join(manifest.facts['reasons'])}",
            culprit=f"{spec.checkpoints_uri.rstrip('/')}/{where}",
            hint="look at the quarantine file, mend the rows, or allow them with --max-quarantined",
        )


def key_and_sort(task: KeyTask) -> tuple[KeyResult, SortResult]:
    """Both maps in one, for a batch that is one split and one bucket."""
    rows, result = _keyed(task)
    return result, _sort(SortTask(task.spec, task.facts, 0, (), task.folder), rows)


def key_split(task: KeyTask) -> KeyResult:
    """Key one split and write one piece a bucket (Arrow IPC)."""
    rows, result = _keyed(task)
    pieces = []
    folder = run_folder(task.spec)
    for bucket, rows_of_bucket in _scatter(rows, task.buckets, is_global=task.facts.is_global):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows_of_bucket.schema) as writer:
            writer.write_table(rows_of_bucket)
        path = f"{task.folder}/pieces/{bucket:05d}-{task.ordinal:05d}.arrow"
        pieces.append((bucket, folder.write_bytes(path, sink.getvalue(), rows_of_bucket.num_rows)))
    return KeyResult(result.rows, result.quarantined, result.reasons, result.quarantine, tuple(pieces))


def sort_bucket(task: SortTask) -> SortResult:
    """Join a bucket's pieces, combine duplicates, sort, write the staged file."""
    folder = run_folder(task.spec)
    tables = [pa.ipc.open_file(pa.BufferReader(folder.read_bytes(p))).read_all() for p in task.pieces]
    return _sort(task, pa.concat_tables(tables))


def _keyed(task: KeyTask) -> tuple[pa.Table, KeyResult]:
    """Good rows with their staged columns and arrival, and the counts; bad rows are written to quarantine."""
    facts, operation = task.facts, task.spec.operation
    batch = read_split(task.split, facts.schema, task.spec.config.input_format)
    only = None
    if operation is Operation.DELETE:
        # Of a file with more columns no others count: with an ordering value in it, the delete could come too late.
        only = frozenset(facts.keys.columns)
        batch = batch.select([name for name in batch.column_names if name in only])
    fitted = fit_batch(batch, facts.schema, only=only)
    keyed = KeyGenerator(facts.keys).keys_of(fitted.columns)
    problem = _problems(fitted, keyed.problem, facts, operation)
    arrival = pa.array((np.int64(task.ordinal) << _ARRIVAL_SHIFT) + np.arange(batch.num_rows, dtype=np.int64))
    op = pc.if_else(fitted.deleted, pa.scalar(OP_DELETE, pa.int8()), pa.scalar(OP_UPSERT, pa.int8()))
    if operation is Operation.DELETE:
        op = pa.array(np.full(batch.num_rows, OP_DELETE, np.int8))
    rows = pa.table(
        [keyed.partition_path, keyed.record_key, op, *fitted.columns.columns, arrival],
        names=[STAGED_PARTITION, STAGED_KEY, STAGED_OP, *fitted.columns.column_names, ARRIVAL],
    )
    bad = problem.is_valid()
    count = pc.sum(bad).as_py() or 0
    if not count:
        return rows, KeyResult(batch.num_rows, 0, (), None, ())
    quarantine = _quarantine(task, fitted.columns, problem, bad)
    reasons = tuple(pc.unique(problem.filter(bad)).to_pylist()[:10])
    return rows.filter(pc.invert(bad)), KeyResult(batch.num_rows, count, reasons, quarantine, ())


def _problems(fitted: FittedBatch, key_problem: pa.Array, facts: TableFacts, operation: Operation) -> pa.Array:
    problem = key_problem
    if operation is Operation.DELETE:
        return problem
    # A marked delete needs its key, partition and ordering value only.
    problem = pc.coalesce(problem, pc.if_else(fitted.deleted, pa.scalar(None, pa.string()), fitted.null_problem))
    if facts.event_time_field is not None:
        ordering = one_array(fitted.columns.column(facts.event_time_field))
        reason = pa.scalar(f"ordering field {facts.event_time_field!r} is null")
        problem = pc.coalesce(problem, pc.if_else(ordering.is_null(), reason, pa.scalar(None, pa.string())))
    return problem


def _quarantine(task: KeyTask, columns: pa.Table, problem: pa.Array, bad: pa.Array) -> Part:
    rows = columns.filter(bad)
    numbers = pa.array(np.flatnonzero(bad.to_numpy(zero_copy_only=False)).astype(np.int64))
    rows = rows.append_column(REASON, problem.filter(bad))
    rows = rows.append_column(INPUT_FILE, pa.repeat(task.split.file.display, rows.num_rows))
    rows = rows.append_column(INPUT_ROW, numbers)
    return run_folder(task.spec).write_table(f"{task.folder}/quarantine/{task.ordinal:05d}.parquet", rows)


def _scatter(rows: pa.Table, buckets: int, *, is_global: bool) -> Iterator[tuple[int, pa.Table]]:
    if not rows.num_rows:
        return
    if buckets == 1:
        yield 0, rows
        return
    number = hash_buckets(one_array(rows.column(STAGED_KEY)), buckets)
    if not is_global:
        number = (number + hash_buckets(one_array(rows.column(STAGED_PARTITION)), buckets)) % buckets
    for bucket in np.unique(number):
        yield int(bucket), rows.filter(pa.array(number == bucket))


def hash_buckets(keys: StringArray, buckets: int) -> np.ndarray:
    """Bucket of each key, int64 [n]: spreads a large batch over tasks."""
    from lakeindex.hashing.murmur import murmur

    return murmur(keys).view(np.uint32).astype(np.int64) % buckets


def _sort(task: SortTask, rows: pa.Table) -> SortResult:
    facts, config = task.facts, task.spec.config
    result = combine_and_sort(
        rows, is_global=facts.is_global, ordering_field=facts.event_time_field, mode=facts.merge_mode
    )
    if not result.rows.num_rows:
        return SortResult(None, (), result.combined, 0)
    bounds = list(_chunk_bounds(result.rows, config, is_global=facts.is_global))
    sink = pa.BufferOutputStream()
    keys = one_array(result.rows.column(STAGED_KEY))
    partitions = one_array(result.rows.column(STAGED_PARTITION))
    chunks = []
    with pq.ParquetWriter(sink, result.rows.schema, compression="zstd") as writer:
        for start, stop in bounds:
            writer.write_table(result.rows.slice(start, stop - start), row_group_size=stop - start)
            partition = "" if facts.is_global else partitions[start].as_py()
            chunks.append((partition, start, stop - start, keys[start].as_py(), keys[stop - 1].as_py()))
    data = sink.getvalue()
    part = run_folder(task.spec).write_bytes(
        f"{task.folder}/staged/{task.bucket:05d}.parquet", data, result.rows.num_rows
    )
    return SortResult(part, tuple(chunks), result.combined, _column_bytes(data, facts))


def _chunk_bounds(rows: pa.Table, config: WriteConfig, *, is_global: bool) -> Iterator[tuple[int, int]]:
    """Row ranges of the chunks: of one partition (unless global), at most ``chunk_rows`` rows."""
    edges = [0, rows.num_rows]
    if not is_global and rows.num_rows > 1:
        partitions = one_array(rows.column(STAGED_PARTITION))
        differs = pc.not_equal(partitions.slice(0, len(partitions) - 1), partitions.slice(1))
        edges = [0, *(np.flatnonzero(differs.to_numpy(zero_copy_only=False)) + 1).tolist(), rows.num_rows]
    for first, last in itertools.pairwise(edges):
        for start in range(first, last, config.chunk_rows):
            yield start, min(start + config.chunk_rows, last)


def _column_bytes(data: pa.Buffer, facts: TableFacts) -> int:
    """Compressed bytes of the table's columns and the key in a staged file: what its rows take in a base file."""
    metadata = pq.read_metadata(pa.BufferReader(data))
    wanted = {*facts.schema.names, STAGED_KEY}
    total = 0
    for group in range(metadata.num_row_groups):
        columns = (metadata.row_group(group).column(c) for c in range(metadata.num_columns))
        total += sum(c.total_compressed_size for c in columns if c.path_in_schema.split(".")[0] in wanted)
    return total
