"""Stage 2: which files can hold which keys, as the index of the table says.

An index that narrows by key range gets footers (cached: a base file never changes). Pairs of key and file are never
listed there: a chunk's keys are sorted, so the keys a file can hold are one slice of it. An index that computes or
stores locations answers with rows: the candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import InvariantError, StorageError, TableCorruptError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footer_cache import CACHE_FOLDER, CacheEntry, FooterCache
from lakeindex.files.footers import Footer, read_footer
from lakeindex.index.contract import BatchStore, FileFacts, SliceIndex, StoredIndex
from lakeindex.index.key_ranges import KeyRange
from lakeindex.index.registry import index_for
from lakeindex.model import BaseFile
from lakeindex.pipeline import RANGES, Stage
from lakeindex.run.checkpoints import Manifest, Part, RunFolder, arrow_schema, digest_of_text
from lakeindex.run.chunks import Chunk, chunk_keys, chunks_of
from lakeindex.run.index_store import IndexSession
from lakeindex.run.locations import LocateTask, StoreRef, ask_engine, locate_chunks
from lakeindex.run.lookup_files import IN_FOOTER, NO_FOOTER, LookupFile, files_table
from lakeindex.run.spec import RunSpec, TableFacts, run_folder, storage_at
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks

_FOOTERS_A_TASK = 64
_KEYS_SHARE = 0.5
"""Of a staged file, what its keys take."""
_FILE_BYTES = 100
"""A line of the ``files`` checkpoint."""
_FOOTER_BYTES = 500_000
"""A footer with its filter."""


@dataclass(frozen=True, slots=True)
class FooterTask:
    """Read some files' footers."""

    spec: RunSpec
    files: tuple[BaseFile, ...]


@dataclass(frozen=True, slots=True)
class FooterResult:
    """Footers by path, without filters; ``kept``: what the driver has to put into the cache."""

    footers: dict[str, Footer]
    kept: tuple[CacheEntry, ...]


@dataclass(frozen=True, slots=True)
class PruneTask:
    """Prune the files of the ``files`` checkpoint for some chunks."""

    spec: RunSpec
    facts: TableFacts
    chunks: tuple[Chunk, ...]
    files: Part
    path: str


@dataclass(frozen=True, slots=True)
class _Scope:
    """Files that a chunk may have keys in: their numbers in the ``files`` checkpoint, and what is known of them."""

    numbers: np.ndarray
    facts: list[FileFacts]


@dataclass(frozen=True, slots=True)
class PruneResult:
    """Slices of some chunks; pairs are (key, file)."""

    part: Part
    pairs_kept: int


def index_lookup(spec: RunSpec, facts: TableFacts, snapshot: Snapshot, staged: Manifest, runner: Runner) -> Manifest:
    """Run the stage against a snapshot, or take over its checkpoint if it was made from the same batch and snapshot.

    Args:
        spec: the run.
        facts: the table.
        snapshot: the table's state that locations will refer to.
        staged: manifest of stage 1.
        runner: schedules the tasks.
    """
    config = spec.config
    folder = run_folder(spec)
    basis = digest_of_text(
        staged.digest, snapshot_mark(snapshot), facts.index, config.prune_by_ranges, config.treebased_filter
    )
    done = folder.read_manifest(Stage.INDEX_LOOKUP)
    if done is not None and done.basis == basis and folder.is_whole(done):
        return done
    index = index_for(facts.index)
    chunks = chunks_of(folder, staged)
    files = _files_in_scope(facts, snapshot, chunks)
    footers_read = 0
    if index.traits.needs_footers:
        lookup_files, footers_read = _with_footers(spec, facts, files, runner)
    else:
        lookup_files = [LookupFile(n, file, 0, 0, None, None, NO_FOOTER, None) for n, file in enumerate(files)]
    attempt = folder.new_attempt(Stage.INDEX_LOOKUP)
    files_part = folder.write_table(f"{attempt}/files.parquet", files_table(lookup_files))
    size = sum(part.bytes for part in staged.parts("staged"))
    answer = _ask(spec, facts, _Question(snapshot, chunks, size, files, files_part, attempt), runner)
    return Manifest(
        stage=Stage.INDEX_LOOKUP,
        run_id=spec.run_id,
        basis=basis,
        tables={"files": (files_part,), **answer.tables},
        counters={
            "rows_in": sum(c.rows for c in chunks),
            "rows_out": sum(c.rows for c in chunks),
            "files": len(files),
            "file_rows": sum(f.rows for f in lookup_files),
            "file_bytes": sum(f.size_bytes for f in files),
            "files_without_range": sum(f.min_key is None for f in lookup_files),
            "footers_cached": len(files) - footers_read if index.traits.needs_footers else 0,
            "footers_read": footers_read,
            "pairs_in": _pairs_possible(facts, chunks, files),
            "pairs_out": answer.pairs,
            **answer.counters,
        },
        facts={"snapshot": snapshot_mark(snapshot), "instant": snapshot.instant_time},
    )


@dataclass(frozen=True, slots=True)
class _Question:
    """What an index is asked: in which of the files the keys of a batch may be.

    Attributes:
        snapshot: the table's state that the answer is about.
        chunks: the batch.
        staged_bytes: size of the staged batch.
        files: files in scope.
        files_part: the same as a checkpoint table, with what their footers say.
        attempt: folder for the answer.
    """

    snapshot: Snapshot
    chunks: Sequence[Chunk]
    staged_bytes: int
    files: Sequence[BaseFile]
    files_part: Part
    attempt: str


@dataclass(frozen=True, slots=True)
class _Answer:
    """What an index said: checkpoint tables, ``ranges``, or ``candidates`` and ``searched``."""

    tables: dict[str, tuple[Part, ...]]
    pairs: int
    counters: dict[str, int]


def _ask(spec: RunSpec, facts: TableFacts, asked: _Question, runner: Runner) -> _Answer:
    index = index_for(facts.index)
    chunks, files, attempt = asked.chunks, asked.files, asked.attempt
    rows = [float(c.rows) for c in chunks]
    if isinstance(index, SliceIndex):
        near = for_work(runner, _KEYS_SHARE * asked.staged_bytes + _FILE_BYTES * len(files), spec.config)
        tasks = [
            PruneTask(
                spec, facts, tuple(chunks[i] for i in numbers), asked.files_part, f"{attempt}/ranges/{n:05d}.parquet"
            )
            for n, numbers in enumerate(pack(rows, near.slots * 2))
            if files
        ]
        slices = run_tasks(near, prune_chunks, tasks, "index lookup: prune files by key range")
        return _Answer({"ranges": tuple(r.part for r in slices)}, sum(r.pairs_kept for r in slices), {})
    store = None
    if isinstance(index, StoredIndex):
        context = IndexSession(spec, facts, runner).ready(
            asked.snapshot, files, None if facts.is_global else {c.partition for c in chunks}
        )
        opened = index.open(context)
        answers = ask_engine(spec, opened, chunks, attempt) if isinstance(opened, BatchStore) and files else None
        store = StoreRef(context.completed, context.view, answers)
    locates = [
        LocateTask(
            spec,
            facts,
            tuple(chunks[i] for i in numbers),
            asked.files_part,
            store,
            f"{attempt}/candidates/{n:05d}.parquet",
            f"{attempt}/searched/{n:05d}.parquet",
        )
        for n, numbers in enumerate(pack(rows, runner.slots * 2))
        if files
    ]
    here = index.traits.in_process
    title = f"index lookup: ask {facts.index_type}"
    found = tuple(locate_chunks(task) for task in locates) if here else run_tasks(runner, locate_chunks, locates, title)
    counters = {"keys_unknown": sum(r.unknown for r in found)}
    tables = {"candidates": tuple(r.part for r in found), "searched": tuple(r.searched for r in found)}
    return _Answer(tables, sum(r.pairs for r in found), counters)


def _pairs_possible(facts: TableFacts, chunks: Sequence[Chunk], files: Sequence[BaseFile]) -> int:
    if facts.is_global:
        return sum(c.rows for c in chunks) * len(files)
    in_partition = Counter(f.partition_path for f in files)
    return sum(c.rows * in_partition[c.partition] for c in chunks)


def snapshot_mark(snapshot: Snapshot) -> str:
    """Names a state of the table: the writes that are completed in it (they may complete in
    another order than they began).
    """
    return digest_of_text(*sorted(snapshot.timeline.completed_write_times))


def _files_in_scope(facts: TableFacts, snapshot: Snapshot, chunks: Sequence[Chunk]) -> list[BaseFile]:
    if facts.is_global:
        return list(snapshot.base_files_all()) if chunks else []
    touched = sorted({c.partition for c in chunks})
    snapshot.preload(touched)
    return [file for partition in touched for file in snapshot.base_files(partition)]


def _with_footers(
    spec: RunSpec, facts: TableFacts, files: list[BaseFile], runner: Runner
) -> tuple[list[LookupFile], int]:
    """Footers of all files, and how many were not cached: those are read by tasks and kept in the cache.

    Raises:
        StorageError: look-ups are to be answered from the cache alone, and it cannot be completed.
    """
    cache = FooterCache(storage_at(spec.table_uri)) if spec.config.footer_cache else None
    known = cache.load(files) if cache is not None else {}
    missing = [f for f in files if f.path not in known]
    near = for_work(runner, _FOOTER_BYTES * len(missing), spec.config)
    tasks = [FooterTask(spec, tuple(group)) for group in _groups(missing, near.slots)]
    results = run_tasks(near, read_footers, tasks, "index lookup: read footers")
    kept = [entry for result in results for entry in result.kept]
    where = cache.keep_facts(kept) if cache is not None else None
    paths = {entry.path for entry in kept} if where is not None else set()
    if spec.config.filters_from_cache_only and len(paths) < len(missing):
        raise StorageError(
            f"the footer cache lacks {len(missing) - len(paths)} files and cannot be written",
            culprit=CACHE_FOLDER,
            hint="make it writable, or leave hoodie.bloom.index.use.metadata=true out: footers are read then",
        )
    for result in results:
        known.update({p: (f, where if where and p in paths else IN_FOOTER) for p, f in result.footers.items()})
    found = [_lookup_file(number, file, *known[file.path]) for number, file in enumerate(files)]
    _check_encoding(facts, found)
    return found, len(missing)


def _lookup_file(number: int, file: BaseFile, footer: Footer, where: str) -> LookupFile:
    groups = len(footer.row_group_rows)
    return LookupFile(number, file, footer.rows, groups, footer.min_key, footer.max_key, where, footer.problem)


def _check_encoding(facts: TableFacts, files: Sequence[LookupFile]) -> None:
    """Refuse files whose keys another release encoded differently: every key would be taken for a new one.

    Raises:
        TableCorruptError: naming the file.
    """
    if not facts.keys.encoding_is_open:
        return
    prefix = f"{facts.keys.record_key_fields[0]}:"
    for file in files:
        for key in (file.min_key, file.max_key):
            if key is not None and key.startswith(prefix) is facts.keys.complex_new_encoding:
                raise TableCorruptError(
                    f"{file.file.path!r} holds key {key!r}, which is not encoded as the table's other "
                    "one-field complex keys",
                    culprit=file.file.path,
                    hint="rows were written by Hudi releases that encode such keys differently; "
                    "roll those commits back",
                )


def _groups(files: list[BaseFile], slots: int) -> Iterable[list[BaseFile]]:
    size = max(1, min(_FOOTERS_A_TASK, -(-len(files) // (2 * slots))))
    for start in range(0, len(files), size):
        yield files[start : start + size]


def read_footers(task: FooterTask) -> FooterResult:
    """Footers of some files; their filters stay behind, in a side file of the cache."""
    store = storage_at(task.spec.table_uri)
    footers = [(file, read_footer(store, file)) for file in task.files]
    kept = FooterCache(store).keep_filters(footers) if task.spec.config.footer_cache else ()
    return FooterResult({file.path: footer.without_filter() for file, footer in footers}, kept)


def prune_chunks(task: PruneTask) -> PruneResult:
    """Slices of the chunks' keys that each file can hold; only the keys are read."""
    folder = run_folder(task.spec)
    config = task.spec.config
    index = index_for(task.facts.index)
    if not isinstance(index, SliceIndex):
        raise InvariantError(f"index {task.facts.index_type} does not answer with slices", culprit=task.facts.name)
    scopes = _scopes(folder, task)
    columns: dict[str, list[np.ndarray]] = {name: [] for name in RANGES}
    for chunk in task.chunks:
        scope = scopes.get(chunk.partition)
        if scope is None:
            continue
        slices = index.propose(chunk_keys(folder, chunk), scope.facts, config)
        hit = slices.kept()
        columns["file"].append(scope.numbers[hit])
        columns["chunk"].append(np.full(len(hit), chunk.number, np.int32))
        columns["from_row"].append(slices.from_row[hit])
        columns["to_row"].append(slices.to_row[hit])
    schema = arrow_schema(RANGES)
    arrays = [np.concatenate(columns[n]) if columns[n] else np.array([], np.int64) for n in RANGES]
    table = pa.table([pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)
    kept = int((arrays[3] - arrays[2]).sum()) if len(arrays[2]) else 0
    return PruneResult(folder.write_table(task.path, table), kept)


def _scopes(folder: RunFolder, task: PruneTask) -> dict[str, _Scope]:
    """The files for the task's chunks, by the chunks' partition; one scope of all files under a global index.

    Files of other partitions are dropped before anything is made of them: a task sees few of many.
    """
    files = folder.read_table(task.files, ["file", "partition", "min_key", "max_key"])
    if not task.facts.is_global:
        wanted = pa.array(sorted({c.partition for c in task.chunks}), pa.string())
        files = files.filter(pc.is_in(files.column("partition"), value_set=wanted))
    found: dict[str, list[tuple[int, FileFacts]]] = {}
    for number, partition, low, high in zip(*(column.to_pylist() for column in files.columns), strict=True):
        facts = FileFacts(partition, KeyRange(low, high))
        found.setdefault("" if task.facts.is_global else partition, []).append((number, facts))
    return {
        partition: _Scope(np.array([number for number, _ in mine], np.int32), [facts for _, facts in mine])
        for partition, mine in found.items()
    }
