"""Stage 2: which files can hold which keys, as the index of the table says.

An index that narrows by key range gets footers (cached: a base file never changes). Pairs of key and file are never
listed there: a chunk's keys are sorted, so the keys a file can hold are one slice of it. An index that computes or
stores locations answers with rows: the candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from lakeindex.errors import StorageError, TableCorruptError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footer_cache import CACHE_FOLDER, CacheEntry, FooterCache
from lakeindex.files.footers import Footer, read_footer
from lakeindex.files.metadata_facts import StoredRange, stored_ranges
from lakeindex.frozen import Frozen
from lakeindex.index.bloom_options import USE_METADATA_OPTION, BloomOptions
from lakeindex.index.registry import index_for
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, COLUMN_STATS
from lakeindex.model import BaseFile
from lakeindex.pipeline import Stage
from lakeindex.run.checkpoints import Manifest, Part, digest_of_text
from lakeindex.run.chunks import Chunk, chunks_of
from lakeindex.run.index.ask_index import AskResult, AskTask, ask_index
from lakeindex.run.index.index_session import AskedBatch, StoreRef
from lakeindex.run.index.sessions import session_for
from lakeindex.run.lookup_files import (
    IN_FOOTER,
    IN_METADATA,
    NO_FOOTER,
    RANGE_IN_METADATA,
    LookupFile,
    files_table,
)
from lakeindex.run.replaced import replaced_by
from lakeindex.run.spec import BoundTable, RunSpec, TableFacts, run_folder
from lakeindex.table.handle import Table
from lakeindex.table.stored_keys import SampleReader, compare_keys
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import RECORD_KEY

_FOOTERS_A_TASK = 64
_KEYS_SHARE = 0.5
"""Of a staged file, what its keys take."""
_FILE_BYTES = 100
"""A line of the ``files`` checkpoint."""
_FOOTER_BYTES = 500_000
"""A footer with its filter."""


class FooterTask(Frozen):
    """Read some files' footers."""

    spec: RunSpec
    files: tuple[BaseFile, ...]


class FooterResult(Frozen):
    """Footers by path, without filters; ``kept``: what the driver has to put into the cache."""

    footers: dict[str, Footer]
    kept: tuple[CacheEntry, ...]


def index_lookup(spec: RunSpec, bound: BoundTable, staged: Manifest, runner: Runner) -> Manifest:
    """Run the stage against a snapshot, or take over its checkpoint if it was made from the same batch and snapshot."""
    facts, snapshot = bound.facts, bound.snapshot
    folder = run_folder(spec)
    index = index_for(facts.index)
    basis = digest_of_text(staged.digest, snapshot_mark(snapshot), facts.index, *index.basis(spec.config))
    done = folder.read_manifest(Stage.INDEX_LOOKUP)
    if done is not None and done.basis == basis and folder.is_whole(done):
        return done
    chunks = chunks_of(folder, staged)
    touched = None if facts.is_global else {chunk.partition for chunk in chunks}
    replaced = replaced_by(spec.operation, snapshot, staged, is_global=facts.is_global)
    files = _files_in_scope(facts, replaced.left, chunks)
    if index.needs_footers:
        lookup_files, counts = _with_footers(spec, bound, files, runner)
    else:
        lookup_files = [LookupFile(n, file, 0, 0, None, None, NO_FOOTER, None) for n, file in enumerate(files)]
        counts = dict.fromkeys(("footers_cached", "footers_read"), 0)
    attempt = folder.new_attempt(Stage.INDEX_LOOKUP)
    files_part = folder.write_table(f"{attempt}/files.parquet", files_table(lookup_files))
    session = session_for(spec, facts, runner)
    # What is replaced is live until the commit: the index has to know it, and is not asked for it.
    live = _files_in_scope(facts, snapshot, chunks) if replaced.left is not snapshot else files
    store = session.opened(AskedBatch(snapshot, live, touched, chunks, attempt))
    batch = AskedBatch(replaced.left, files, touched, chunks, attempt)
    answers = _ask(spec, facts, batch, session.runner_for(_read_bytes(staged, files)), store, files_part)
    return Manifest(
        stage=Stage.INDEX_LOOKUP,
        run_id=spec.run_id,
        basis=basis,
        tables={"files": (files_part,), **_tables(answers)},
        counters={
            "rows_in": sum(c.rows for c in chunks),
            "rows_out": sum(c.rows for c in chunks),
            "files": len(files),
            "file_rows": sum(f.rows for f in lookup_files),
            "file_bytes": sum(f.size_bytes for f in files),
            "files_without_range": sum(f.min_key is None for f in lookup_files),
            **counts,
            "partitions_named": snapshot.partitions_named,
            "keys_asked_of_metadata": sum(c.rows for c in chunks) if store is not None and store.in_metadata else 0,
            "pairs_in": _pairs_possible(facts, chunks, files),
            "pairs_out": sum(one.pairs for one in answers),
            **_unknown(answers),
        },
        facts={"snapshot": snapshot_mark(snapshot), "instant": snapshot.instant_time, "staged": staged.digest},
    )


def _read_bytes(staged: Manifest, files: Sequence[BaseFile]) -> float:
    """Bytes that asking the index reads of the batch and of the checkpoint of files, about."""
    return _KEYS_SHARE * sum(part.bytes for part in staged.parts("staged")) + _FILE_BYTES * len(files)


def _ask(
    spec: RunSpec, facts: TableFacts, batch: AskedBatch, runner: Runner, store: StoreRef | None, files: Part
) -> tuple[AskResult, ...]:
    if not batch.files:
        return ()
    packs = pack([float(chunk.rows) for chunk in batch.chunks], runner.slots * 2)
    tasks = [
        AskTask(spec, facts, tuple(batch.chunks[i] for i in numbers), files, store, batch.folder, number)
        for number, numbers in enumerate(packs)
    ]
    return run_tasks(runner, ask_index, tasks, f"index lookup: ask {facts.index_type}")


def _tables(answers: Sequence[AskResult]) -> dict[str, tuple[Part, ...]]:
    names = {name for one in answers for name in one.tables}
    return {name: tuple(one.tables[name] for one in answers) for name in sorted(names)}


def _unknown(answers: Sequence[AskResult]) -> dict[str, int]:
    """Keys that the index could not say anything about; a kind that answers with slices has none."""
    if any("ranges" in one.tables for one in answers):
        return {}
    return {"keys_unknown": sum(one.unknown for one in answers)}


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
    spec: RunSpec, bound: BoundTable, files: list[BaseFile], runner: Runner
) -> tuple[list[LookupFile], dict[str, int]]:
    """What footers say of all files, and where that is from: the cache, the metadata table, or the footers themselves.
    Those are read by tasks and kept in the cache.

    Raises:
        StorageError: look-ups are to be answered from the cache alone, and it cannot be completed.
    """
    cache = FooterCache(storage_at(spec.table_uri)) if spec.config.footer_cache else None
    known = cache.load(files) if cache is not None else {}
    told = _metadata_facts(spec, bound.snapshot, [f for f in files if f.path not in known])
    missing = [f for f in files if f.path not in known and f.path not in told.ranges]
    near = for_work(runner, _FOOTER_BYTES * len(missing), spec.config)
    tasks = [FooterTask(spec, tuple(group)) for group in _groups(missing, near.slots)]
    results = run_tasks(near, read_footers, tasks, "index lookup: read footers")
    kept = [entry for result in results for entry in result.kept]
    where = cache.keep_facts(kept) if cache is not None else None
    paths = {entry.path for entry in kept} if where is not None else set()
    if told.is_cache_only and len(paths) < len(missing):
        raise StorageError(
            f"the footer cache lacks {len(missing) - len(paths)} files and cannot be written",
            culprit=CACHE_FOLDER,
            hint=f"make it writable, or leave {USE_METADATA_OPTION}=true out: footers are read then",
        )
    for result in results:
        known.update({p: (f, where if where and p in paths else IN_FOOTER) for p, f in result.footers.items()})
    found = [
        _lookup_file(number, file, *known[file.path])
        if file.path in known
        else _file_with_metadata_range(number, file, told.ranges[file.path], told.filters_in)
        for number, file in enumerate(files)
    ]
    _check_encoding(spec, bound.facts, found)
    counts = {"footers_cached": len(files) - len(missing) - len(told.ranges), "footers_read": len(missing)}
    return found, {**counts, "ranges_from_metadata": len(told.ranges)}


class _MetadataFacts(Frozen):
    """What the metadata table says of files.

    Attributes:
        ranges: key ranges by path.
        filters_in: where filters of these files are to be looked for.
        is_cache_only: it is asked for, but there is none, so that the cache has to know everything.
    """

    ranges: dict[str, StoredRange]
    filters_in: str = RANGE_IN_METADATA
    is_cache_only: bool = False


def _metadata_facts(spec: RunSpec, snapshot: Snapshot, files: Sequence[BaseFile]) -> _MetadataFacts:
    config = spec.config
    if not config.of(BloomOptions).use_metadata:
        return _MetadataFacts({})
    table = Table.at(spec.table_uri, use_metadata=config.use_metadata)
    view = table.metadata_view(snapshot.timeline)
    if view is None or COLUMN_STATS not in view.table.partitions:
        return _MetadataFacts({}, is_cache_only=True)
    filters_in = IN_METADATA if BLOOM_FILTERS in view.table.partitions else RANGE_IN_METADATA
    return _MetadataFacts(stored_ranges(view, files), filters_in)


def _file_with_metadata_range(number: int, file: BaseFile, known: StoredRange, filters_in: str) -> LookupFile:
    return LookupFile(number, file, known.rows, 0, known.min_key, known.max_key, filters_in, None)


def _lookup_file(number: int, file: BaseFile, footer: Footer, where: str) -> LookupFile:
    groups = len(footer.row_group_rows)
    return LookupFile(number, file, footer.rows, groups, footer.min_key, footer.max_key, where, footer.problem)


def _check_encoding(spec: RunSpec, facts: TableFacts, files: Sequence[LookupFile]) -> None:
    """Refuse files whose keys another release encoded differently: every key would be taken for a new one.

    Among bare keys one that begins with the field's name may be a value that does: the file's rows decide.

    Raises:
        TableCorruptError: naming the file.
    """
    if not facts.keys.encoding_is_open:
        return
    prefix = f"{facts.keys.record_key_fields[0]}:"
    are_bare = facts.keys.complex_new_encoding
    for file in files:
        odd = next((key for key in (file.min_key, file.max_key) if key and key.startswith(prefix) is are_bare), None)
        if odd is None:
            continue
        if are_bare and _rows_fit(spec, facts, file.file):
            return  # values of the table look so
        raise TableCorruptError(
            f"{file.file.path!r} holds key {odd!r}, which is not encoded as the table's other one-field complex keys",
            culprit=file.file.path,
            hint="rows were written by Hudi releases that encode such keys differently; roll those commits back",
        )


def _rows_fit(spec: RunSpec, facts: TableFacts, file: BaseFile) -> bool:
    read = SampleReader(storage_at(spec.table_uri), (RECORD_KEY, *facts.keys.columns), facts.schema)
    samples = read(file)
    return bool(samples) and compare_keys(samples, facts.keys).fits


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
