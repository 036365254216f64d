"""Stage 2: which files can hold which keys. Footers (cached: a base file never changes), then pruning by key range.

Pairs of key and file are never listed: a chunk's keys are sorted, so the keys a file can hold are one slice of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakeindex.errors import TableCorruptError
from lakeindex.index.key_ranges import KeyRange
from lakeindex.index.protocol import FileFacts
from lakeindex.index.registry import index_for
from lakeindex.model import BaseFile
from lakeindex.pipeline import FILES, RANGES, Stage
from lakeindex.stages.checkpoints import Manifest, Part, RunFolder, arrow_schema, digest_of_text
from lakeindex.stages.chunks import Chunk, chunk_keys, chunks_of
from lakeindex.stages.context import RunSpec, TableFacts, run_folder, storage_at
from lakeindex.stages.scheduling import Runner, pack, run_tasks
from lakeindex.table.file_system_view import Snapshot
from lakeindex.table.footer_cache import FooterCache
from lakeindex.table.footers import Footer, read_footer

_FOOTERS_A_TASK = 64


@dataclass(frozen=True, slots=True)
class LookupFile:
    """A live base file in the scope of the look-up; the row of the ``files`` checkpoint.

    Attributes:
        number: its place in the checkpoint.
        file: the base file.
        rows: rows in it.
        row_groups: row groups in it.
        min_key: least key in Java's order, or None if the footer does not say.
        max_key: greatest key, likewise.
        filter_from: ``footer``, or the cache's side file that holds the filter.
        problem: what is wrong with its range or filter; the file stays a candidate for every key then.
    """

    number: int
    file: BaseFile
    rows: int
    row_groups: int
    min_key: str | None
    max_key: str | None
    filter_from: str
    problem: str | None


@dataclass(frozen=True, slots=True)
class FooterTask:
    """Read some files' footers."""

    spec: RunSpec
    files: tuple[BaseFile, ...]


@dataclass(frozen=True, slots=True)
class PruneTask:
    """Prune the files of the ``files`` checkpoint for some chunks."""

    spec: RunSpec
    facts: TableFacts
    chunks: tuple[Chunk, ...]
    files: Part
    path: str


@dataclass(frozen=True, slots=True)
class PruneResult:
    """Slices of some chunks; pairs are (key, file)."""

    part: Part
    pairs_possible: int
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
        staged.digest, snapshot_mark(snapshot), facts.index_type, config.prune_by_ranges, config.treebased_filter
    )
    done = folder.read_manifest(Stage.INDEX_LOOKUP)
    if done is not None and done.basis == basis and folder.is_whole(done):
        return done
    chunks = chunks_of(folder, staged)
    files = _files_in_scope(facts, snapshot, chunks)
    lookup_files = _with_footers(spec, facts, files, runner)
    attempt = folder.new_attempt(Stage.INDEX_LOOKUP)
    files_part = folder.write_table(f"{attempt}/files.parquet", files_table(lookup_files))
    packs = pack([float(c.rows) for c in chunks], runner.slots * 2)
    tasks = [
        PruneTask(spec, facts, tuple(chunks[i] for i in numbers), files_part, f"{attempt}/ranges/{n:05d}.parquet")
        for n, numbers in enumerate(packs)
        if files
    ]
    results = run_tasks(runner, prune_chunks, tasks, "index lookup: prune files by key range").values
    return Manifest(
        stage=Stage.INDEX_LOOKUP,
        run_id=spec.run_id,
        basis=basis,
        tables={"files": (files_part,), "ranges": tuple(r.part for r in results)},
        counters={
            "rows_in": sum(c.rows for c in chunks),
            "rows_out": sum(c.rows for c in chunks),
            "files": len(files),
            "file_rows": sum(f.rows for f in lookup_files),
            "files_without_range": sum(f.min_key is None for f in lookup_files),
            "footers_cached": sum(f.filter_from != "footer" for f in lookup_files),
            "pairs_in": sum(r.pairs_possible for r in results),
            "pairs_out": sum(r.pairs_kept for r in results),
        },
        facts={"snapshot": snapshot_mark(snapshot), "instant": snapshot.instant_time},
    )


def snapshot_mark(snapshot: Snapshot) -> str:
    """Names a state of the table: the writes that are completed in it (they may complete in another order than they began)."""
    return digest_of_text(*sorted(snapshot.timeline.completed_write_times))


def _files_in_scope(facts: TableFacts, snapshot: Snapshot, chunks: Sequence[Chunk]) -> list[BaseFile]:
    if facts.is_global:
        return list(snapshot.base_files_all()) if chunks else []
    touched = sorted({c.partition for c in chunks})
    snapshot.preload(touched)
    return [file for partition in touched for file in snapshot.base_files(partition)]


def _with_footers(spec: RunSpec, facts: TableFacts, files: list[BaseFile], runner: Runner) -> list[LookupFile]:
    """Footers of all files: from the cache where it has them; the others are read by tasks and added to it."""
    cache = FooterCache(storage_at(spec.table_uri)) if spec.config.footer_cache else None
    known = cache.load(files) if cache is not None else {}
    missing = [f for f in files if f.path not in known]
    tasks = [FooterTask(spec, tuple(group)) for group in _groups(missing, runner.slots)]
    read: dict[str, tuple[Footer, str]] = {}
    for result in run_tasks(runner, read_footers, tasks, "index lookup: read footers").values:
        read.update(result)
    found = []
    for number, file in enumerate(files):
        footer, where = read[file.path] if file.path in read else known[file.path]
        found.append(
            LookupFile(
                number,
                file,
                footer.rows,
                len(footer.row_group_rows),
                footer.min_key,
                footer.max_key,
                where,
                footer.problem,
            )
        )
    _check_encoding(facts, found)
    return found


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
                    f"{file.file.path!r} holds key {key!r}, which is not encoded as the table's other one-field complex keys",
                    culprit=file.file.path,
                    hint="rows were written by Hudi releases that encode such keys differently; roll those commits back",
                )


def _groups(files: list[BaseFile], slots: int) -> Iterable[list[BaseFile]]:
    size = max(1, min(_FOOTERS_A_TASK, -(-len(files) // (2 * slots))))
    for start in range(0, len(files), size):
        yield files[start : start + size]


def read_footers(task: FooterTask) -> dict[str, tuple[Footer, str]]:
    """Footers of some files and where their filters now are; filters stay behind, in the cache's new side file."""
    store = storage_at(task.spec.table_uri)
    footers = [(file, read_footer(store, file)) for file in task.files]
    where = "footer"
    if task.spec.config.footer_cache:
        where = FooterCache(store).add(footers) or "footer"
    return {file.path: (footer.without_filter(), where) for file, footer in footers}


def prune_chunks(task: PruneTask) -> PruneResult:
    """Slices of the chunks' keys that each file can hold; only the keys are read."""
    folder = run_folder(task.spec)
    config = task.spec.config
    files = read_files(folder, task.files)
    index = index_for(task.facts.index_type)
    by_partition: dict[str, list[LookupFile]] = {}
    for file in files:
        by_partition.setdefault("" if task.facts.is_global else file.file.partition_path, []).append(file)
    columns: dict[str, list[np.ndarray]] = {name: [] for name in RANGES}
    possible = 0
    for chunk in task.chunks:
        scope = by_partition.get(chunk.partition, [])
        if not scope:
            continue
        possible += chunk.rows * len(scope)
        facts = [FileFacts(f.file.partition_path, KeyRange(f.min_key, f.max_key)) for f in scope]
        slices = index.propose(chunk_keys(folder, chunk), facts, config)
        hit = slices.kept()
        columns["file"].append(np.array([scope[i].number for i in hit], np.int32))
        columns["chunk"].append(np.full(len(hit), chunk.number, np.int32))
        columns["from_row"].append(slices.from_row[hit])
        columns["to_row"].append(slices.to_row[hit])
    schema = arrow_schema(RANGES)
    arrays = [np.concatenate(columns[n]) if columns[n] else np.array([], np.int64) for n in RANGES]
    table = pa.table([pa.array(a, f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)
    kept = int((arrays[3] - arrays[2]).sum()) if len(arrays[2]) else 0
    return PruneResult(folder.write_table(task.path, table), possible, kept)


def files_table(files: Sequence[LookupFile]) -> pa.Table:
    """The ``files`` checkpoint."""
    rows = [
        {
            "file": f.number,
            "partition": f.file.partition_path,
            "file_id": f.file.file_id,
            "instant": f.file.instant_time,
            "write_token": f.file.write_token,
            "bytes": f.file.size_bytes,
            "rows": f.rows,
            "row_groups": f.row_groups,
            "min_key": f.min_key,
            "max_key": f.max_key,
            "filter_from": f.filter_from,
            "problem": f.problem,
        }
        for f in files
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(FILES))


def read_files(folder: RunFolder, part: Part) -> list[LookupFile]:
    """Inverse of :func:`files_table`."""
    return [
        LookupFile(
            r["file"],
            BaseFile(r["partition"], r["file_id"], r["instant"], r["write_token"], r["bytes"]),
            r["rows"],
            r["row_groups"],
            r["min_key"],
            r["max_key"],
            r["filter_from"],
            r["problem"],
        )
        for r in folder.read_table(part).to_pylist()
    ]
