"""Stage 1: key the batch, set bad rows aside, combine duplicates, sort; chunks are the unit of all later look-ups.

Two maps: *key* reads splits of the input in pieces, combines each and scatters it by a hash of the lookup key into the
run folder, *sort* combines and sorts each bucket. Pieces and buckets are as large as a task's share of the memory
allows. A split of one piece whose keys no other split holds (the only one of a batch, those of a sorted export) is
staged as it is keyed, with nothing in between. The footers of Parquet files tell which splits these are. They are
believed for the plan only; the keys themselves are compared once they are sorted.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from lakeindex.errors import QuarantineExceededError, SchemaMismatchError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.hashing.batch_digest import NO_ROWS, BatchDigest
from lakeindex.model import Change, Operation
from lakeindex.options.types import PLAIN_CSV, InputFormat
from lakeindex.pipeline import CHUNKS, OP_DELETE, OP_UPSERT, REASON, STAGED_KEY, STAGED_OP, STAGED_PARTITION, Stage
from lakeindex.run.checkpoints import Manifest, Part, digest_of, digest_of_text, table_of
from lakeindex.run.chunks import InputColumns, are_handed_over
from lakeindex.run.input_rows import ADDRESS_SHIFT, INPUT_ROWS_TABLE
from lakeindex.run.replaced import PARTITIONS_FACT
from lakeindex.run.spec import (
    RunSpec,
    TableFacts,
    conditions_of,
    event_time_mark,
    is_chosen,
    run_folder,
    source_paths,
    stored_keys,
)
from lakeindex.stages.stage_input.addressed import Addressed, addressed
from lakeindex.stages.stage_input.batch_columns import (
    batch_columns,
    batch_pieces,
    columns_text,
    columns_to_stage,
    may_lack,
    rows_digest,
    rows_fact,
    with_columns,
)
from lakeindex.stages.stage_input.input_pieces import content_of
from lakeindex.stages.stage_input.inputs import (
    FoundInputs,
    Split,
    content_digest,
    find_batch,
    format_of,
    marks_digest,
    parquet_footers,
    split_inputs,
)
from lakeindex.stages.stage_input.staged_rows import (
    Cut,
    Piece,
    Scatter,
    SpilledPiece,
    Staged,
    combining_of,
    pieces_held,
    read_spilled,
    refuse_doubled,
    spill,
    stage_rows,
)
from lakeindex.stages.stage_input.text_files import without_bad_values
from lakeindex.tasks.memory_bound import MIB, bucket_bytes, current_bound, current_share, give_back, piece_bytes
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks
from lakeindex.write.combine import ARRIVAL, Combined, combine
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec, PartitionKind, first_problem
from lakeindex.write.types.schema_fit import FittedBatch, Lacking, fit_batch

_LEAST_BYTES: Final = MIB
"""Smaller splits are scattered and joined: each would be a staged file of its own."""

Bounds: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Lowest and highest values of the partition fields and the first record key field."""


def splits_apart(splits: Sequence[Split], keys: KeySpec, wanted: InputFormat, *, is_global: bool) -> frozenset[int]:
    """Numbers of the splits whose lookup keys lie apart from those of all others.

    Returns:
        None of them unless every split has bounds: Parquet with statistics, no nulls among the fields,
        keys that are texts or numbers of one length, partition paths that are made of the values themselves.

    Raises:
        InputError: a file's footer cannot be read; names the file.
    """
    if not any(split.bytes >= _LEAST_BYTES for split in splits):
        return frozenset()
    if any(format_of(split.file, wanted) is not InputFormat.PARQUET for split in splits):
        return frozenset()
    fields = [] if is_global else list(keys.partition_fields)
    if any(kind is not PartitionKind.SIMPLE for _, kind in fields):
        return frozenset()
    names = [*(name for name, _ in fields), keys.record_key_fields[0]]
    files = list(dict.fromkeys(split.file for split in splits))
    footers = parquet_footers(files)
    groups = {number: _row_groups(split, footers[split.file]) for number, split in enumerate(splits)}
    filled = [number for number, mine in groups.items() if mine]
    bounds = [_bounds(groups[number], names) for number in filled]
    known = [found for found in bounds if found is not None]
    if len(known) < len(bounds) or len({tuple(map(type, low)) for low, _ in known}) > 1:
        return frozenset()
    return frozenset(filled[n] for n in _not_overlapping(known) if splits[filled[n]].bytes >= _LEAST_BYTES)


def _row_groups(split: Split, footer: pq.FileMetaData) -> list[pq.RowGroupMetaData]:
    stop = footer.num_row_groups if split.last_row_group is None else split.last_row_group
    groups = (footer.row_group(number) for number in range(split.first_row_group, stop))
    return [group for group in groups if group.num_rows]


def _bounds(groups: Sequence[pq.RowGroupMetaData], names: Sequence[str]) -> Bounds | None:
    places = {groups[0].column(c).path_in_schema: c for c in range(groups[0].num_columns)}
    lows, highs = [], []
    for name in names:
        if name not in places:
            return None
        facts = [group.column(places[name]).statistics for group in groups]
        if any(f is None or not f.has_min_max or f.null_count != 0 for f in facts):
            return None
        lows.append(min(f.min for f in facts))
        highs.append(max(f.max for f in facts))
    ends = _as_texts(lows[-1], highs[-1])
    return None if ends is None else ((*lows[:-1], ends[0]), (*highs[:-1], ends[1]))


def _as_texts(low: object, high: object) -> tuple[str, str] | None:
    """The ends of a range of keys as record keys are ordered, by their text."""
    if isinstance(low, str) and isinstance(high, str):
        return low, high
    is_number = type(low) is int and type(high) is int and low >= 0
    return (str(low), str(high)) if is_number and len(str(low)) == len(str(high)) else None


def _not_overlapping(bounds: Sequence[Bounds]) -> list[int]:
    """Those that overlap with no other."""
    order = sorted(range(len(bounds)), key=lambda number: bounds[number][0])
    lows = [bounds[number][0] for number in order]
    reached = list(itertools.accumulate((bounds[number][1] for number in order), max))
    is_after = [True, *(high < low for high, low in zip(reached, lows[1:], strict=False))]
    is_before = [*(bounds[n][1] < low for n, low in zip(order, lows[1:], strict=False)), True]
    return [number for number, *free in zip(order, is_after, is_before, strict=True) if all(free)]


INPUT_FILE = "_li_input"
INPUT_ROW = "_li_row"
_BUCKET_BYTES = 256 * 1024 * 1024
_PARALLEL_BYTES = 8 * 1024 * 1024
"""A bucket for parallel sorting has at least so many bytes of input."""
_BUCKETS_A_SLOT = 4
_KEYS_BYTES = 128 * 1024 * 1024
"""Most bytes of keys of a bucket without rows."""
_ADDRESS_BYTES = 48
"""Of a row that is keyed and not copied, beside its key."""
_PACK_BYTES = 16 * 1024 * 1024
"""Splits are keyed together up to about so many bytes: a task of Spark's costs as much as a small one."""
_PACKS_A_SLOT = 4

_REASONS = 10


class KeyTask(Frozen):
    """Read one split; scatter its rows, or stage them if the split ``is_apart``: no other holds a key of its. If its
    file ``stays``, columns that it holds as they are stored are not copied; none but the key's if it is ``addressed``.
    """

    spec: RunSpec
    facts: TableFacts
    split: Split
    ordinal: int
    scatter: Scatter
    folder: str
    is_apart: bool
    stays: bool = False
    addressed: Addressed | None = None


class KeyResult(Frozen):
    """What keying a split gave; ``combined``: rows that lost to another of their piece."""

    rows: int = 0
    quarantined: int = 0
    combined: int = 0
    reasons: tuple[str, ...] = ()
    quarantine: tuple[Part, ...] = ()
    pieces: tuple[Piece, ...] = ()
    digest: BatchDigest = NO_ROWS

    def with_next(self, other: KeyResult) -> KeyResult:
        return KeyResult(
            self.rows + other.rows,
            self.quarantined + other.quarantined,
            self.combined + other.combined,
            tuple(dict.fromkeys((*self.reasons, *other.reasons)))[:_REASONS],
            self.quarantine + other.quarantine,
            self.pieces + other.pieces,
            self.digest.followed_by(other.digest),
        )


class SortTask(Frozen):
    """Combine and sort one bucket's pieces, or a part of them, into staged files."""

    spec: RunSpec
    facts: TableFacts
    name: str
    pieces: tuple[Piece, ...]
    cut: Cut
    folder: str
    addressed: Addressed | None = None


class _Built(Frozen):
    """What both maps gave: of the splits that were staged unscattered (``whole``, in the order of their keys),
    and of the buckets.
    """

    folder: str
    keyed: tuple[KeyResult, ...]
    whole: tuple[Staged, ...]
    buckets: tuple[Staged, ...]

    @property
    def staged(self) -> tuple[Staged, ...]:
        return self.whole + self.buckets

    def is_apart(self) -> bool:
        """Whether no chunk of a split that was staged unscattered can share a key with another chunk."""
        chunks = [(chunk, True) for staged in self.whole for chunk in staged.chunks]
        chunks += [(chunk, False) for staged in self.buckets for chunk in staged.chunks]
        chunks.sort(key=lambda one: one[0].first)
        reached = reached_whole = ("", "")  # below every key: no record key is empty
        for chunk, is_whole in chunks:
            if chunk.first <= (reached if is_whole else reached_whole):
                return False
            reached = max(reached, chunk.last)
            if is_whole:
                reached_whole = max(reached_whole, chunk.last)
        return True


FILES_FACT = "input_files"
"""What the manifest calls the digest of the files, as they are on their store, in which the batch's rows stay."""
TABLE_FACT = "table"
"""What the manifest calls :func:`staged_by`."""


def staged_by(facts: TableFacts) -> str:
    """Digest of what of the table a batch is staged by: columns, keys and where they are unique, ordering, deletes."""
    return digest_of_text(
        facts.schema.to_string(), facts.keys, facts.is_global, event_time_mark(facts),
        *(facts.delete_mark or ()), *facts.keys.timestamp_mark,
    )  # fmt: skip


def stage_input(spec: RunSpec, facts: TableFacts, runner: Runner, *, loads: bool = False) -> Manifest:
    """Run the stage, or take over its checkpoint if it is whole and was made from the same input and options.

    Args:
        loads: all rows will go into new files: they may stay where they are until these are made.

    Raises:
        InputError: missing, unreadable or unfit input, or one that was changed while it was read.
        QuarantineExceededError: more bad rows than ``spec.max_quarantined``; they are in the quarantine file.
    """
    config = spec.config
    found = find_batch(spec.inputs, config.input_format, spec.checkpoints_uri, spec.constants)
    digest = marks_digest(found)
    columns = batch_columns(spec, facts, found.files, runner)
    facts = with_columns(facts, columns, config)
    conditions_of(spec, facts)  # what is wrong fails before anything is staged
    source_paths(spec, facts)
    function = spec.merge_function
    basis = digest_of_text(
        digest, spec.operation, facts.schema.to_string(), facts.keys, event_time_mark(facts), facts.index,
        config.chunk_rows, config.input_format, *((config.null_for_missing,) if config.null_for_missing else ()),
        *((spec.chosen.digest,) if spec.chosen is not None else ()), *(("feed",) if spec.feed is not None else ()),
        *((config.csv,) if config.csv != PLAIN_CSV else ()),
        *((config.partial_update, facts.given) if facts.given is not None else ()),
        *((function.name,) if function is not None else ()),
        *(facts.delete_mark or ()), *facts.keys.timestamp_mark,
    )  # fmt: skip
    folder = run_folder(spec)
    done = folder.read_manifest(Stage.STAGE_INPUT)
    if done is not None and done.basis == basis and folder.is_whole(done) and _is_as_it_was(done, found, spec):
        _check_quarantine(done, spec)
        return done
    content = content_digest(found, runner, config)
    manifest = _build(_Input(spec, facts, found, loads=loads), runner, basis, content)
    found.check_unchanged(spec.batch_id)
    more: dict[str, Any] = columns_text(columns, facts) | {
        "index_type": facts.index_type.value,
        TABLE_FACT: staged_by(facts),
        "older_digest": digest,
    }
    manifest = replace(manifest, facts={**manifest.facts, **more})
    _check_quarantine(manifest, spec)
    return manifest


class _Input(Frozen):
    """A batch that is to be staged."""

    spec: RunSpec
    facts: TableFacts
    found: FoundInputs
    loads: bool


def _is_as_it_was(done: Manifest, found: FoundInputs, spec: RunSpec) -> bool:
    """Whether rows that were not copied are where the checkpoint says, as the batch may lie elsewhere meanwhile, and no
    function has made one row of several: only its name is known, and whoever tries again may have corrected it.
    """
    is_made = spec.merge_function is not None and done.counters["combined"]
    return not is_made and done.facts.get(FILES_FACT) in (None, digest_of_text(*found.files))


def _build(batch: _Input, runner: Runner, basis: str, digest: str) -> Manifest:
    spec, facts, found = batch.spec, batch.facts, batch.found
    splits = split_inputs(found.files, spec.config.input_format)
    # All stages run in this process, which reads the batch's files: no task elsewhere, no job of tomorrow's.
    stay = are_handed_over() and runner.nearby() is runner
    runner = for_work(runner, sum(s.bytes for s in splits), spec.config)
    there = addressed(spec, facts, found, splits) if stay and batch.loads and splits else None
    if there is not None:
        built = _keyed_and_sorted(spec, facts, runner, splits, frozenset(), stay=stay, there=there)
        if there.columns is not None and any(result.quarantined for result in built.keyed):
            there = replace(there, columns=None)  # a bad row is set aside with all its columns
            built = _keyed_and_sorted(spec, facts, runner, splits, frozenset(), stay=stay, there=there)
    else:
        apart = _unscattered_splits(spec, facts, runner, splits)
        built = _keyed_and_sorted(spec, facts, runner, splits, apart, stay=stay)
        if not built.is_apart():
            built = _keyed_and_sorted(spec, facts, runner, splits, frozenset(), stay=stay)
    manifest = _manifest(spec, facts, built, basis, digest)
    if there is not None:
        manifest = _with_addresses(manifest, there, found)
    store = run_folder(spec).store
    written = (p for result in built.keyed for p in result.pieces if isinstance(p, SpilledPiece))
    for path in sorted({piece.path for piece in written}):
        store.delete(path)
    return manifest


def _with_addresses(manifest: Manifest, there: Addressed, found: FoundInputs) -> Manifest:
    rows = int(manifest.counters["rows_out"])
    sizes = {
        "staged_column_bytes": int(there.column_bytes * rows),
        "staged_bytes": int(there.decoded_bytes * rows),
    }
    return replace(
        manifest,
        tables={**manifest.tables, INPUT_ROWS_TABLE: (there.part,)},
        counters={**manifest.counters, **sizes},
        facts={**manifest.facts, FILES_FACT: digest_of_text(*found.files)},
    )


def _unscattered_splits(spec: RunSpec, facts: TableFacts, runner: Runner, splits: Sequence[Split]) -> frozenset[int]:
    """Splits to stage unscattered; none if that left slots without work."""
    if len(splits) == 1:
        return frozenset({0}) if _scatter_of(splits, runner.slots, facts).buckets == 1 else frozenset()
    if len(splits) < runner.slots:
        return frozenset()
    return splits_apart(splits, facts.keys, spec.config.input_format, is_global=facts.is_global)


def _keyed_and_sorted(
    spec: RunSpec,
    facts: TableFacts,
    runner: Runner,
    splits: Sequence[Split],
    apart: frozenset[int],
    *,
    stay: bool,
    there: Addressed | None = None,
) -> _Built:
    """Both maps; splits that are not ``apart`` are scattered.

    Args:
        stay: whether all tasks of the run are in this process, and files of the batch are there later.
        there: of a batch that stays in its files.
    """
    folder = run_folder(spec).new_attempt(Stage.STAGE_INPUT)
    scattered = [split for number, split in enumerate(splits) if number not in apart]
    scatter = _scatter_of(scattered or splits, runner.slots, facts, there)
    tasks = [KeyTask(spec, facts, s, i, scatter, folder, i in apart, stay, there) for i, s in enumerate(splits)]
    numbers = _packed([s.bytes for s in splits], runner.slots)
    packs = [tuple(tasks[i] for i in mine) for mine in numbers]
    with pieces_held(bucket_bytes(current_bound())) if stay else nullcontext():
        outcomes = run_tasks(runner, key_splits, packs, "stage input: keys, partitions, quarantine")
        of_split = dict(zip(itertools.chain(*numbers), itertools.chain(*outcomes), strict=True))
        done = [of_split[number] for number in range(len(splits))]
        pieces = [piece for result, _ in done for piece in result.pieces]
        sorts = _sort_tasks(spec, facts, pieces, scatter.buckets, folder, runner.slots)
        sorts = [replace(task, addressed=there) for task in sorts]
        give_back()
        results = run_tasks(runner, sort_bucket, sorts, "stage input: combine duplicates, sort")
    whole = [staged for _, staged in done if staged.chunks]
    whole.sort(key=lambda staged: staged.chunks[0].first)
    return _Built(folder, tuple(keyed for keyed, _ in done), tuple(whole), results)


def _packed(sizes: Sequence[int], slots: int) -> list[list[int]]:
    """Numbers of the splits that a task keys: small ones together, as many tasks a slot."""
    rounds = max(_PACKS_A_SLOT, -(-sum(sizes) // (slots * _PACK_BYTES)))
    return pack([float(size) for size in sizes], slots * rounds)


def _scatter_of(splits: Sequence[Split], slots: int, facts: TableFacts, there: Addressed | None = None) -> Scatter:
    """Buckets small enough to be sorted at once, and enough of them for all slots.

    The latter go by partition: chunks of a partition stay sorted one behind the other,
    and so do the files made of them.
    """
    size = sum(s.bytes for s in splits)
    most = bucket_bytes(current_bound() // slots)
    wanted = min(size // _PARALLEL_BYTES, _BUCKETS_A_SLOT * slots)
    if there is not None:  # nothing but keys: they are sorted as they are placed
        keys = int(there.rows * (there.key_bytes + _ADDRESS_BYTES))
        buckets = max(1, wanted, -(-keys // min(most, _KEYS_BYTES)))
        return Scatter(buckets, facts.is_global, by_partition=not facts.is_global)
    buckets = max(1, -(-size // _BUCKET_BYTES), -(-sum(s.decoded_bytes for s in splits) // most))
    if facts.is_global or buckets >= wanted:
        return Scatter(buckets, facts.is_global)
    return Scatter(wanted, facts.is_global, by_partition=True)


def _sort_tasks(
    spec: RunSpec, facts: TableFacts, pieces: Sequence[Piece], buckets: int, folder: str, slots: int
) -> list[SortTask]:
    """A task a bucket; several for one that came out with more bytes than a task may sort."""
    most = bucket_bytes(current_bound() // slots)
    of_bucket: dict[int, list[Piece]] = {}
    for piece in pieces:
        of_bucket.setdefault(piece.bucket, []).append(piece)
    tasks = []
    for bucket, mine in sorted(of_bucket.items()):
        parts = max(1, -(-sum(p.decoded_bytes for p in mine) // most))
        for part in range(parts):
            name = f"{bucket:05d}-{part:03d}" if parts > 1 else f"{bucket:05d}"
            tasks.append(SortTask(spec, facts, name, tuple(mine), Cut(buckets, part, parts), folder))
    return tasks


def _manifest(spec: RunSpec, facts: TableFacts, built: _Built, basis: str, digest: str) -> Manifest:
    run, keyed, results = run_folder(spec), built.keyed, built.staged
    chunks = [chunk for result in results for chunk in result.chunks]
    lines = [
        (n, c.partition, c.path, c.row_group, c.rows, c.deletes, c.min_key, c.max_key) for n, c in enumerate(chunks)
    ]
    table = table_of(lines, CHUNKS)
    staged = tuple(part for result in results for part in result.parts)
    rows = sum(r.rows for r in keyed)
    return Manifest(
        stage=Stage.STAGE_INPUT,
        run_id=spec.run_id,
        basis=basis,
        tables={
            "staged": staged,
            "chunks": (run.write_table(f"{built.folder}/chunks.parquet", table),),
            "quarantine": tuple(part for r in keyed for part in r.quarantine),
        },
        counters={
            "rows_in": rows,
            "rows_out": sum(p.rows for p in staged),
            "quarantined": sum(r.quarantined for r in keyed),
            "combined": sum(r.combined for r in keyed) + sum(r.combined for r in results),
            "chunks": len(chunks),
            "staged_column_bytes": sum(r.column_bytes for r in results),
            "staged_bytes": sum(r.decoded_bytes for r in results),
        },
        facts={
            PARTITIONS_FACT: sorted(set[str]().union(*(r.partitions for r in results))),
            "input_digest": digest,
            **rows_fact(spec, facts, reduce(BatchDigest.followed_by, (r.digest for r in keyed), NO_ROWS)),
            "reasons": sorted({reason for r in keyed for reason in r.reasons})[:_REASONS],
        },
    )


def _check_quarantine(manifest: Manifest, spec: RunSpec) -> None:
    bad = int(manifest.counters["quarantined"])
    if bad > spec.max_quarantined:
        where = ", ".join(p.path for p in manifest.parts("quarantine"))
        raise QuarantineExceededError(
            f"{bad} bad rows, {spec.max_quarantined} allowed: {'; '.join(manifest.facts['reasons'])}",
            culprit=f"{spec.checkpoints_uri.rstrip('/')}/{where}",
            hint="look at the quarantine file, correct the rows, or allow them with max_quarantined=N "
            "(--max-quarantined N)",
        )


def key_splits(tasks: Sequence[KeyTask]) -> tuple[tuple[KeyResult, Staged], ...]:
    return tuple(key_split(task) for task in tasks)


def key_split(task: KeyTask) -> tuple[KeyResult, Staged]:
    """Key one split. Its rows are staged if they are apart from all others and one piece, else combined and spilled."""
    is_named = task.is_apart and task.stays
    content = content_of(task.split, task.spec.config.input_format, piece_bytes(current_share())) if is_named else None
    keying = _Keying(task)
    pieces = keying.pieces(content)
    if not task.is_apart:
        return _spilled(task, pieces), Staged()
    rows, result = next(pieces)
    second = next(pieces, None)
    if second is None:
        file, of_input = task.split.file, None
        if content is not None and keying.unchanged and not result.quarantined:
            of_input = InputColumns(file.root, file.path, digest_of(content), keying.unchanged)
        return result, stage_rows(task.spec, task.facts, f"split-{task.ordinal:05d}", task.folder, rows, of_input)
    return _spilled(task, itertools.chain([(rows, result), second], pieces)), Staged()


def _spilled(task: KeyTask, pieces: Iterator[tuple[pa.Table, KeyResult]]) -> KeyResult:
    folder = run_folder(task.spec)
    rule = combining_of(task.spec, task.facts)
    total = KeyResult()
    for number, (rows, result) in enumerate(pieces):
        fewer = Combined(rows, 0) if rule.looks_at_all else combine(rows, rule)  # needs all rows of a key together
        if fewer.combined:
            refuse_doubled(task.spec, task.facts, rows)
        path = f"{task.folder}/pieces/{task.ordinal:05d}-{number:05d}.arrow"
        spilled = spill(folder, path, fewer.rows, task.scatter)
        total = total.with_next(replace(result, combined=fewer.combined, pieces=spilled))
        del rows, fewer  # before the next piece is read
    return total


def sort_bucket(task: SortTask) -> Staged:
    """Join a bucket's pieces, combine duplicates, sort, write staged files."""
    rows = read_spilled(run_folder(task.spec), task.pieces, task.cut, is_global=task.facts.is_global)
    there = None if task.addressed is None else task.addressed.part
    return stage_rows(task.spec, task.facts, task.name, task.folder, rows, there)


class _Keying:
    """Reads a split and keys it, piece by piece.

    Attributes:
        unchanged: columns of the last piece that are staged as they were read.
    """

    def __init__(self, task: KeyTask) -> None:
        self._task = task
        self._keys = KeyGenerator(task.facts.keys)
        self.unchanged: tuple[str, ...] = ()

    def pieces(self, content: bytes | None = None) -> Iterator[tuple[pa.Table, KeyResult]]:
        """Of each piece the good rows with staged columns and arrival, and the counts; bad rows go to quarantine.
        ``content``: of the split's file, if it was read.
        """
        task, first = self._task, 0
        limit = piece_bytes(current_share())
        columns = None if task.addressed is None else task.addressed.columns
        split = task.split if columns is None else replace(task.split, columns=list(columns))
        batches = batch_pieces(task.spec, task.facts, split, limit, content)
        for number, batch in enumerate(batches):
            if is_chosen(task.spec.run_id, task.split.file.path):
                yield self._chosen(batch, first)
            else:
                yield self._keyed(batch, number, first)
            first += batch.num_rows

    def _chosen(self, batch: pa.Table, first: int) -> tuple[pa.Table, KeyResult]:
        """Rows of the table itself: all are good, and their keys are those that they are stored by."""
        facts, updates = self._task.facts, self._task.spec.change is Change.UPDATE
        only: frozenset[str] | None = None if updates else frozenset()
        mark = facts.delete_mark if updates else None
        fitted = fit_batch(batch, columns_to_stage(facts), only=only, delete_mark=mark)
        if updates and fitted.null_problem.null_count < batch.num_rows:
            why = fitted.null_problem.drop_null()[0].as_py()
            raise SchemaMismatchError(f"the update cannot be stored: {why}", culprit=why, hint="nothing was published")
        record_key, partition_path = stored_keys(batch)
        op = _ops(fitted, all_go=not updates)
        rows = pa.table(
            [partition_path, record_key, op, *fitted.columns.columns, self._arrival(first, batch.num_rows)],
            names=[STAGED_PARTITION, STAGED_KEY, STAGED_OP, *fitted.columns.column_names, ARRIVAL],
        )
        return rows, KeyResult(batch.num_rows)

    def _arrival(self, first: int, rows: int) -> pa.Array:
        numbers = np.arange(first, first + rows, dtype=np.int64)
        return pa.array((np.int64(self._task.ordinal) << ADDRESS_SHIFT) + numbers)

    def _keyed(self, batch: pa.Table, number: int, first: int) -> tuple[pa.Table, KeyResult]:
        task = self._task
        facts, operation = task.facts, task.spec.operation
        only = None
        updates = operation is Operation.UPSERT and task.spec.change is None and task.spec.merge_function is None
        lacking = Lacking(tuple(batch.column_names), facts.deciding, updates, is_feed=task.spec.feed is not None)
        batch, bad_values = without_bad_values(batch, task.split.file, first)
        if operation is Operation.DELETE:
            # Of a file with more columns no others count: with an ordering value in it, the delete could come too late.
            only = frozenset(facts.keys.columns)
            alike = {name.lower() for name in only}
            batch = batch.select([name for name in batch.column_names if name.lower() in alike])
        absent, stored, mark = may_lack(facts, task.spec.config), facts.before or facts.schema, facts.delete_mark
        columns = columns_to_stage(facts)
        if task.addressed is not None and task.addressed.columns is not None:
            columns = pa.schema([columns.field(name) for name in task.addressed.columns])
        fitted = fit_batch(batch, columns, only=only, may_lack=absent, stored=stored, delete_mark=mark, lacking=lacking)
        constant = frozenset(name for name, _ in task.split.file.constants)
        kinds = {field.name: field.type for field in batch.schema if field.name not in constant}
        self.unchanged = tuple(field.name for field in fitted.columns.schema if kinds.get(field.name) == field.type)
        keyed = self._keys.keys_of(fitted.columns)
        problem = first_problem(bad_values, _problems(fitted, keyed.problem, facts, task.spec))
        numbers = np.arange(first, first + batch.num_rows, dtype=np.int64)
        op = _ops(fitted, all_go=operation is Operation.DELETE)
        rows = pa.table(
            [keyed.partition_path, keyed.record_key, op, *fitted.columns.columns, self._arrival(first, batch.num_rows)],
            names=[STAGED_PARTITION, STAGED_KEY, STAGED_OP, *fitted.columns.column_names, ARRIVAL],
        )
        bad = problem.is_valid()
        count = pc.sum(bad).as_py() or 0
        digest = rows_digest(task.spec, fitted, bad_values)
        if task.addressed is not None:
            rows = rows.select([STAGED_PARTITION, STAGED_KEY, STAGED_OP, *facts.event_time_fields, ARRIVAL])
        if not count:
            return rows, KeyResult(batch.num_rows, digest=digest)
        name = f"{task.ordinal:05d}-{number:05d}" if number else f"{task.ordinal:05d}"
        quarantine = _quarantine(task, fitted.columns, problem, numbers + task.split.first_row, name)
        reasons = tuple(pc.unique(problem.filter(bad)).to_pylist()[:_REASONS])
        good = rows.filter(pc.invert(bad))
        return good, KeyResult(batch.num_rows, count, reasons=reasons, quarantine=(quarantine,), digest=digest)


def _ops(fitted: FittedBatch, *, all_go: bool) -> pa.Int8Array:
    """What is done with rows, of which those that are marked go, or all."""
    return pc.if_else(pc.or_(fitted.deleted, all_go), pa.scalar(OP_DELETE, pa.int8()), pa.scalar(OP_UPSERT, pa.int8()))


def _problems(fitted: FittedBatch, key_problem: pa.Array, facts: TableFacts, spec: RunSpec) -> pa.Array:
    problem, operation = key_problem, spec.operation
    if operation is Operation.DELETE:
        return problem
    if spec.only_inserts:
        what = operation if spec.change is None else f"a {spec.change}"
        marked = pa.scalar(f"marked as deleted, and {what} deletes no row", pa.string())
        problem = first_problem(problem, pc.if_else(fitted.deleted, marked, pa.scalar(None, pa.string())))
    if fitted.null_problem.null_count < len(problem):
        # A marked delete needs its key, partition and ordering value only.
        of_kept = pc.if_else(fitted.deleted, pa.scalar(None, pa.string()), fitted.null_problem)
        problem = first_problem(problem, of_kept)
    if spec.chosen is not None:
        from lakeindex.predicates.predicate import predicate_of

        condition = predicate_of(spec.chosen.where, facts.schema)
        unmet, none = pa.scalar(f"it does not meet the condition {spec.chosen.text}"), pa.scalar(None, pa.string())
        problem = first_problem(problem, pc.if_else(condition.mask(fitted.columns), none, unmet))
    for name in facts.event_time_fields:
        ordering = one_array(fitted.columns.column(name))
        if ordering.null_count:
            reason = pa.scalar(f"ordering field {name!r} is null")
            problem = first_problem(problem, pc.if_else(ordering.is_null(), reason, pa.scalar(None, pa.string())))
    return problem


def _quarantine(task: KeyTask, columns: pa.Table, problem: pa.Array, numbers: np.ndarray, name: str) -> Part:
    bad = problem.is_valid()
    rows = columns.filter(bad)
    rows = rows.append_column(REASON, problem.filter(bad))
    rows = rows.append_column(INPUT_FILE, pa.repeat(task.split.file.display, rows.num_rows))
    rows = rows.append_column(INPUT_ROW, pa.array(numbers).filter(bad))
    return run_folder(task.spec).write_table(f"{task.folder}/quarantine/{name}.parquet", rows)
