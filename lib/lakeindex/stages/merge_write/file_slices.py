"""Second part of stage 5: write one file slice a task, as the plan says; whole, under the planned name. What was
written is compared with the look-up, told to the commit, and left in the run folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from lakeindex.errors import InvariantError, TableCorruptError, first_line
from lakeindex.files.footer_cache import CacheEntry, FooterCache
from lakeindex.files.footers import Footer, footer_of
from lakeindex.format.commit_metadata import NO_PREVIOUS, WriteStat
from lakeindex.frozen import Frozen
from lakeindex.index.fate import Fate
from lakeindex.index.locations.stored_index import DELTA_SCHEMA, Change
from lakeindex.index.registry import index_for
from lakeindex.model import BaseFile
from lakeindex.parquet.stamps import digest_in
from lakeindex.pipeline import STAGED_KEY, WRITTEN, Stage
from lakeindex.run.checkpoints import Manifest, Part, RunFolder, table_of
from lakeindex.run.chunks import Chunk, StagedRows, chunk_columns, read_together, unpack_rows_of
from lakeindex.run.lookup_files import LookupFile
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.showing.text import human_bytes
from lakeindex.stages.merge_write.tags import KEPT
from lakeindex.storage import Storage, is_local_disk
from lakeindex.storage.storage_file import StoredBytes
from lakeindex.tasks.memory_bound import TOGETHER_BYTES, current_share
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import EncodedFile
from lakeindex.write.bounded_groups import groups_within
from lakeindex.write.file_parts import ForeignSlice, OldSlice, WholeFile, open_slice
from lakeindex.write.keys.key_generators import KeySpec, PartitionKind
from lakeindex.write.merge_rows import Changes, NewSlice, StoredRows, UpdateRule
from lakeindex.write.rewrite import NewFile, fixed_columns, make_together
from lakeindex.write.row_groups import ALL_IN_MEMORY, Rewrite

_LOCATED: Final = ("chunk", "row", "row_group", "row_in_group", "fate")
_LEAVES: Final = (Fate.DELETE, Fate.MOVED, Fate.COPY)
_NO_DELTA: Final = DELTA_SCHEMA.empty_table()
_SYNC_BYTES: Final = 1024 * 1024
"""Of files that go to disk together: of many small ones their folders would be synced as often."""
_LISTS_BYTES: Final = 8 * 1024 * 1024
"""Of the lists that are kept, before they are sorted."""


class PlacedRows(Frozen):
    """New rows ``[start, stop)`` of a chunk, partition and home, and the ``inserts`` file that lists them."""

    part: Part
    chunk: int
    partition: str
    home: int
    start: int
    stop: int


class WriteTask(Frozen):
    """One file slice to write.

    Attributes:
        number: numbers the task in its commit; part of sequence numbers.
        old: the slice it replaces, or None for a new file group.
        old_number: the old slice's number in the ``files`` checkpoint, or None.
        locations: files that list the found rows of the old slice.
        changes_path: where to leave what changes, for an index that stores locations; else None.
        part: of the file's rows, how many it may have in memory at once (:class:`~lakeindex.write.rewrite.Rewrite`).
        held_bytes: memory it will need, about (:mod:`lakeindex.tasks.memory_bound`).
        are_addressed: the batch's rows stayed in its files.
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
    part: float = ALL_IN_MEMORY
    held_bytes: int = 0
    are_addressed: bool = False


class WrittenFile(Frozen):
    """A slice that was written; counts are rows, ``removed`` holds deleted and moved ones; ``delta``: its keys
    that changed; ``cached``: what to put into the footer cache; column chunks copied as bytes and encoded, bytes
    of the former; wall time; digest of its footer.
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
    bytes_copied: int = 0
    seconds: float = 0.0
    footer: str = ""


class Lists:
    """The run's lists of found and of new rows; each is read once for the files that ask for it one after the other."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._kept: dict[Part, tuple[int, Any]] = {}

    def located(self, part: Part, file: int) -> np.ndarray:
        """Rows of a ``locations`` file that were found in one base file: int64, the columns ``_LOCATED`` by rows."""
        numbers, columns = self._read(part, _by_file)
        start, stop = np.searchsorted(numbers, [file, file + 1])
        return columns[:, start:stop]

    def new_rows(self, part: Part, line: tuple[int, str, int]) -> list[bytes | None]:
        """Packed row numbers of an ``inserts`` file that stand behind a chunk, partition and home."""
        found: list[bytes | None] = self._read(part, _by_line).get(line, [])
        return found

    def _read(self, part: Part, index: Callable[[pa.Table], Any]) -> Any:
        if part not in self._kept:
            table = self._folder.read_table(part)
            while self._kept and sum(size for size, _ in self._kept.values()) + table.nbytes > _LISTS_BYTES:
                del self._kept[next(iter(self._kept))]
            self._kept[part] = table.nbytes, index(table)
        return self._kept[part][1]


def _by_file(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    numbers = table.column("file").to_numpy()
    order = np.argsort(numbers, kind="stable")
    return numbers[order], np.array([table.column(name).to_numpy()[order] for name in _LOCATED], np.int64)


def _by_line(table: pa.Table) -> dict[tuple[int, str, int], list[bytes | None]]:
    """Packed row numbers by chunk, partition and home."""
    found: dict[tuple[int, str, int], list[bytes | None]] = {}
    lines = zip(*(table.column(name).to_pylist() for name in ("chunk", "partition", "home")), strict=True)
    for line, packed in zip(lines, table.column("rows").to_pylist(), strict=True):
        found.setdefault(line, []).append(packed)
    return found


def write_files(tasks: tuple[WriteTask, ...]) -> tuple[WrittenFile, ...]:
    """Several slices, one after the other: a task of Spark's costs as much as a small file.

    Their filters are left in the footer cache, so that the next look-up reads no footers. Files begin to go to disk
    while the next ones are made: the sync before the commit, which is the one that counts, finds little left to do.
    """
    keeps = keeps_filters(tasks[0])
    footers: list[tuple[BaseFile, Footer]] = []
    store = storage_at(tasks[0].spec.table_uri)
    written: list[WrittenFile] = []
    waiting: list[BaseFile] = []
    is_near = is_local_disk(store.uri)
    lists = Lists(run_folder(tasks[0].spec))
    with ThreadPoolExecutor(1, thread_name_prefix="sync") as pool:
        for some in groups_within(tasks, attrgetter("held_bytes"), min(TOGETHER_BYTES, current_share())):
            for one, encoded in _write_together(store, some, lists):
                written.append(one)
                if keeps:
                    footers.append((one.file, footer_of(encoded.row_group_rows, encoded.key_entries)))
                waiting.append(one.file)
                if is_near and sum(file.size_bytes for file in waiting) >= _SYNC_BYTES:
                    pool.submit(store.sync, [file.path for file in waiting])
                    waiting = []
    return with_filters(store, written, footers) if keeps else tuple(written)


def keeps_filters(task: WriteTask) -> bool:
    """Whether filters of new files are left for the next look-up."""
    return task.spec.config.footer_cache and index_for(task.facts.index).needs_footers


def with_filters(
    store: Storage, written: Sequence[WrittenFile], footers: Sequence[tuple[BaseFile, Footer]]
) -> tuple[WrittenFile, ...]:
    """What was written, with what to put into the footer cache."""
    entries = {e.path: e for e in FooterCache(store).keep_filters(footers)}
    return tuple(replace(one, cached=entries.get(one.file.path)) for one in written)


class FileSlice(Frozen):
    """A slice that is going to be written: of what, and the keys that leave it."""

    task: WriteTask
    rewrite: Rewrite
    old: OldSlice | ForeignSlice | None
    changes: Changes
    gone: pa.Table

    @property
    def before(self) -> int:
        return 0 if self.old is None else self.old.rows

    def new_file(self) -> NewFile:
        """The file. Raises: InvariantError: it would have other rows than the plan says."""
        new, changes = NewFile(self.old, self.changes, self.rewrite), self.changes
        expected = self.before - len(changes.delete_positions) + len(changes.inserts)
        if new.rows != expected:
            path = self.task.new.path
            raise InvariantError(f"{path!r} would have {new.rows} rows instead of {expected}", culprit=path)
        return new


def _write_together(
    store: Storage, tasks: Sequence[WriteTask], lists: Lists
) -> Iterator[tuple[WrittenFile, EncodedFile]]:
    """Merge and write a file slice, or several small ones that are made at once.

    Raises:
        TableCorruptError: an old slice cannot be read.
        InvariantError: the merged rows are not what the plan says.
    """
    started = time.perf_counter()
    slices = _with_rows([slice_of(store, task, lists) for task in tasks])
    files = [one.new_file() for one in slices]
    if len(files) > 1:
        make_together(files)
    shared = (time.perf_counter() - started) / len(files)
    for one, new in zip(slices, files, strict=True):
        yield write_slice(store, one, new, shared), new.encoded


def slice_of(store: Storage, task: WriteTask, lists: Lists) -> FileSlice:
    rewrite = _rewrite_of(task)
    old = None if task.old is None else _open_slice(store, task.old, rewrite)
    return FileSlice(task, rewrite, old, *_changes(task, lists, None if old is None else old.row_group_starts))


def _with_rows(slices: Sequence[FileSlice]) -> list[FileSlice]:
    """The same, with the rows of the batch, if files are made as a whole; else rows are read where they are sliced."""
    whole = [one for one in slices if one.rewrite.part >= 1]
    both = [rows for one in whole for rows in (one.changes.updates, one.changes.inserts)]
    if not whole:
        return list(slices)
    rows = iter(read_together([rows for rows in both if isinstance(rows, StagedRows)]))
    return [
        replace(one, changes=replace(one.changes, updates=next(rows), inserts=next(rows)))
        if one.rewrite.part >= 1
        else one
        for one in slices
    ]


def write_slice(store: Storage, slice_: FileSlice, new: NewFile, shared: float) -> WrittenFile:
    """Write one; ``shared``: its part of the time that preparing several has taken."""
    started = time.perf_counter()
    task, changes = slice_.task, slice_.changes
    store.write(task.new.path, new if task.old is None else _reading(task.old, new))
    encoded = new.encoded
    return WrittenFile(
        replace(task.new, size_bytes=encoded.size),
        task.old,
        new.rows,
        slice_.before,
        len(changes.updates),
        len(changes.delete_positions),
        len(changes.inserts),
        _write_delta(task, changes.inserts, slice_.gone),
        chunks_copied=encoded.chunks_copied,
        chunks_encoded=encoded.chunks_encoded,
        bytes_copied=encoded.bytes_copied,
        seconds=round(shared + time.perf_counter() - started, 4),
        footer=digest_in(encoded.tail),
    )


def _rewrite_of(task: WriteTask) -> Rewrite:
    facts, new = task.facts, task.new
    return Rewrite(
        facts.name,
        facts.schema,
        task.spec.config,
        _fixed(task),
        NewSlice(new.partition_path, new.instant_time, new.name, task.number),
        task.part,
        update_rule(task.spec, facts),
        facts.virtual,
    )


def _fixed(task: WriteTask) -> frozenset[str]:
    """Columns in which an updated row has the stored row's value; those that an update does not set among them: what it
    sets is put into the rows of the snapshot that is written.
    """
    facts, chosen = task.facts, task.spec.chosen
    fixed = fixed_columns(facts.keys, facts.schema, task.new.partition_path if facts.believes_paths else None)
    if chosen is None or not chosen.values:
        return fixed
    return fixed | (frozenset(facts.schema.names) - {name for name, _ in chosen.values})


def update_rule(spec: RunSpec, facts: TableFacts) -> UpdateRule:
    """What updated rows are made of. Raises: UsageError: the merge function cannot be imported."""
    return UpdateRule(facts.kept, facts.filled, spec.merge_function, facts.deciding, facts.delete_mark)


def _write_delta(task: WriteTask, added: StoredRows, gone: pa.Table) -> Part | None:
    """What an index that stores locations has to learn: keys that are in this file now, keys that left the old one."""
    if task.changes_path is None:
        return None
    n = len(added)
    columns = [
        added.column(STAGED_KEY),
        pa.repeat(task.new.partition_path, n),
        pa.repeat(task.new.file_id, n),
        pa.array(np.full(n, Change.INSERT, np.int8)),
    ]
    arrived = pa.table([c.cast(f.type) for c, f in zip(columns, DELTA_SCHEMA, strict=True)], schema=DELTA_SCHEMA)
    return run_folder(task.spec).write_table(task.changes_path, pa.concat_tables([arrived, gone]))


def _open_slice(store: Storage, file: BaseFile, rewrite: Rewrite) -> OldSlice | ForeignSlice:
    """The slice, in memory if there is room for all that is done with it."""
    whole = rewrite.part >= 1
    try:
        content = WholeFile(store.read(file.path)) if whole else StoredBytes(store, file.path, file.size_bytes)
        return open_slice(content, rewrite.schema, rewrite.config, has_virtual_keys=rewrite.virtual is not None)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(file, error) from error


def _reading(file: BaseFile, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
    """Pieces of the new file; what goes wrong is said of the old one, which is read for them."""
    try:
        yield from pieces
    except (pa.ArrowException, OSError) as error:
        raise unreadable(file, error) from error


def unreadable(file: BaseFile, error: Exception) -> TableCorruptError:
    return TableCorruptError(
        f"base file {file.path!r} cannot be read: {first_line(error)}",
        culprit=file.path,
        hint="restore the file, or roll the table back to an instant before it",
    )


def _changes(task: WriteTask, lists: Lists, starts: np.ndarray | None) -> tuple[Changes, pa.Table]:
    """What to change, and the keys that leave the slice (rows of a delta; only if the index is told of them)."""
    folder = run_folder(task.spec)
    empty = _empty_rows(task, folder)

    def staged(chunk: np.ndarray, row: np.ndarray) -> StagedRows:
        return StagedRows(folder, task.chunks, chunk, row, empty)

    inserts = staged(*_inserts(task, lists))
    nothing = np.array([], np.int64)
    if starts is None:
        return Changes(staged(nothing, nothing), nothing, nothing, inserts), _NO_DELTA
    found = [lists.located(part, task.old_number) for part in task.locations if task.old_number is not None]
    chunk, row, row_group, row_in_group, fate = np.concatenate([np.zeros((len(_LOCATED), 0), np.int64), *found], axis=1)
    places = starts[row_group] + row_in_group
    is_update = fate == Fate.UPDATE
    order = np.argsort(chunk[is_update], kind="stable")
    updates = staged(chunk[is_update][order], row[is_update][order])
    leaves = np.isin(fate, _LEAVES)
    changes = Changes(updates, places[is_update][order], places[leaves], inserts)
    if task.changes_path is None or task.old is None:
        return changes, _NO_DELTA
    return changes, _leaving(task.old, staged(chunk[leaves], row[leaves]), fate[leaves])


def _leaving(old: BaseFile, rows: StagedRows, fate: np.ndarray) -> pa.Table:
    keys = rows.column(STAGED_KEY)
    change = np.select([fate == Fate.MOVED, fate == Fate.COPY], [Change.MOVE, Change.COPY], Change.DELETE).astype(
        np.int8
    )
    columns = [keys, pa.repeat(old.partition_path, len(keys)), pa.nulls(len(keys), pa.string()), pa.array(change)]
    return pa.table([c.cast(f.type) for c, f in zip(columns, DELTA_SCHEMA, strict=True)], schema=DELTA_SCHEMA)


def kept_rows(several: Sequence[pa.Table], files: Sequence[LookupFile]) -> pa.Table:
    """Where keys are from now on of which copies go, as rows of an index's delta."""
    found = pa.concat_tables([KEPT.empty_table(), *several])
    there = [files[number].file for number in found.column("file").to_pylist()]
    columns = [
        found.column("key"),
        pa.array([file.partition_path for file in there], pa.string()),
        pa.array([file.file_id for file in there], pa.string()),
        pa.array(np.full(len(there), Change.MOVE, np.int8)),
    ]
    return pa.table(columns, schema=DELTA_SCHEMA)


def _inserts(task: WriteTask, lists: Lists) -> tuple[np.ndarray, np.ndarray]:
    """Chunk and row number of the new rows: int64, shapes (n,)."""
    chunks, rows = [np.array([], np.int64)], [np.array([], np.int64)]
    for piece in task.placed:
        for packed in lists.new_rows(piece.part, (piece.chunk, piece.partition, piece.home)):
            rows.append(unpack_rows_of(task.chunks[piece.chunk], packed)[piece.start : piece.stop])
            chunks.append(np.full(len(rows[-1]), piece.chunk, np.int64))
    chunk, row = np.concatenate(chunks), np.concatenate(rows)
    if (chunk[1:] >= chunk[:-1]).all():
        return chunk, row
    order = np.argsort(chunk, kind="stable")
    return chunk[order], row[order]


def _empty_rows(task: WriteTask, folder: RunFolder) -> pa.Table:
    if task.chunks and not task.are_addressed:
        return chunk_columns(folder, next(iter(task.chunks.values())), None).slice(0, 0)
    return pa.table(
        [pa.array([], pa.string()), *(pa.array([], f.type) for f in task.facts.staged)],
        names=[STAGED_KEY, *task.facts.staged.names],
    )


_MANY_FILES: Final = 200
_TINY_BYTES: Final = 2**20
_DAYS_OF_A_MONTH: Final = 30


def check_counts(written: Sequence[WrittenFile], summary: RunSummary) -> None:
    """The files hold what the tags say: updates and inserts (moved rows are both removed and inserted).

    Raises:
        InvariantError: they do not.
    """
    counts = {
        "updated": (sum(w.updates for w in written), summary.updates),
        "removed": (sum(w.removed for w in written), summary.deletes + summary.copies + summary.moved),
        "inserted": (sum(w.inserts for w in written), summary.inserts + summary.moved),
        "stored": (
            sum(w.rows for w in written),
            sum(w.rows_before for w in written) + summary.inserts - summary.deletes - summary.copies,
        ),
    }
    for what, (got, expected) in counts.items():
        if got != expected:
            raise InvariantError(
                f"{got} rows {what} in the new files, but the look-up says {expected}",
                culprit=summary.run_id,
                hint="nothing was published; report this with the run folder",
            )


def write_stat(written: WrittenFile) -> WriteStat:
    old = written.old
    return replace(
        new_file_stat(written.file, written.rows),
        prev_commit=old.instant_time if old is not None else NO_PREVIOUS,
        num_deletes=written.removed,
        num_update_writes=written.updates,
        num_inserts=written.inserts,
        prev_base_file=old.name if old is not None else None,
    )


def new_file_stat(file: BaseFile, rows: int) -> WriteStat:
    """What a commit says of a new file group, all of whose rows are inserts."""
    return WriteStat(
        file_id=file.file_id,
        path=file.path,
        partition_path=file.partition_path,
        prev_commit=NO_PREVIOUS,
        num_writes=rows,
        num_inserts=rows,
        total_write_bytes=file.size_bytes,
        file_size_bytes=file.size_bytes,
    )


def tiny_files_note(written: Sequence[WrittenFile], keys: KeySpec, schema: pa.Schema) -> tuple[str, ...]:
    """A sentence with a cure, if partitions that are too fine made a great number of very small files."""
    new = [one.file for one in written if one.old is None]
    partitions = len({file.partition_path for file in new})
    if len(new) < _MANY_FILES or partitions < len(new) / 2:
        return ()
    size = sum(file.size_bytes for file in new) // len(new)
    if size >= _TINY_BYTES:
        return ()
    found = [name for name, kind in keys.partition_fields if _is_time(schema, name) and not _is_coarse(keys, kind)]
    by = "month" if size * _DAYS_OF_A_MONTH >= _TINY_BYTES else "year"
    cure = f"`lakeindex create --partition {found[0]}:{by}` makes larger ones" if found else "use a coarser field"
    said = (
        f"{len(new):,} new files of {human_bytes(size)} on average, in {partitions:,} partitions: that fine, they make "
        f"every later run read more files than rows need; in a new table {cure}"
    )
    return (said,)


def _is_time(schema: pa.Schema, name: str) -> bool:
    kind = schema.field(name).type if name in schema.names else pa.null()
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def _is_coarse(keys: KeySpec, kind: PartitionKind) -> bool:
    options = keys.time_options
    return kind is PartitionKind.TIMESTAMP and options is not None and "d" not in options.output_format


def keep_written(
    folder: RunFolder, attempt: str, verified: Manifest, written: Sequence[WrittenFile], stage: StageSummary
) -> None:
    """Leave a line for each file in the run folder: what the run's report is made of."""
    lines = [_line(one) for one in written]
    part = folder.write_table(f"{attempt}/written.parquet", table_of(lines, WRITTEN))
    tables, counters = {"written": (part,)}, dict(stage.counters)
    folder.write_manifest(Manifest(Stage.MERGE_WRITE, folder.run_id, verified.digest, tables=tables, counters=counters))


def _line(one: WrittenFile) -> tuple[str | int | float, ...]:
    file, old_bytes = one.file, 0 if one.old is None else one.old.size_bytes
    counts = one.rows, one.rows_before, one.updates, one.removed, one.inserts, one.chunks_copied, one.chunks_encoded
    return file.partition_path, file.file_id, file.path, file.size_bytes, old_bytes, *counts, one.seconds
