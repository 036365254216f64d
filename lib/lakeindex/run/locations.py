"""Stage 2 of an index that computes or stores locations: candidates by row, asked chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import InvariantError
from lakeindex.files.footer_pruning import rows_that_may_be_in
from lakeindex.hashing.arrow import one_array
from lakeindex.index.contract import BatchRequest, BatchStore, FileGroups, Found, Located, RowIndex, StoredIndex
from lakeindex.index.registry import index_for
from lakeindex.index.stored.store_context import Completed, LogView
from lakeindex.pipeline import CANDIDATES, SEARCHED, STAGED_KEY, STAGED_PARTITION
from lakeindex.run.checkpoints import Part, table_of
from lakeindex.run.chunks import Chunk, chunk_columns, chunk_keys, pack_rows
from lakeindex.run.index_delta import store_context
from lakeindex.run.lookup_files import LookupFile, read_files
from lakeindex.run.spec import RunSpec, TableFacts, run_folder, storage_at

_BETWEEN = "\x00"
"""Between partition path and file id where both are one text; neither can hold it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A piece of an engine's answer, and the chunks it is about."""

    part: Part
    chunks: frozenset[int]


@dataclass(frozen=True, slots=True)
class StoreRef:
    """What a task opens the store of a stored index with.

    Attributes:
        completed: which instants count.
        view: which deltas count.
        answers: what the engine has answered already, of a store that answers whole batches; else None.
    """

    completed: Completed
    view: LogView
    answers: tuple[Answer, ...] | None = None


@dataclass(frozen=True, slots=True)
class LocateTask:
    """Ask the index about some chunks."""

    spec: RunSpec
    facts: TableFacts
    chunks: tuple[Chunk, ...]
    files: Part
    store: StoreRef | None
    path: str
    searched_path: str


@dataclass(frozen=True, slots=True)
class LocateResult:
    """Candidates of some chunks; ``unknown``: keys that the index could not say anything about,
    listed in ``searched``.
    """

    part: Part
    pairs: int
    unknown: int
    searched: Part


def locate_chunks(task: LocateTask) -> LocateResult:
    """Candidates of the chunks' keys."""
    folder = run_folder(task.spec)
    files = read_files(folder, task.files)
    ask = _Asker(task, files)
    rows: list[tuple[int, int, int, bytes]] = []
    searched: list[tuple[int, bytes]] = []
    unknown = 0
    for chunk in task.chunks:
        located = ask.locate(chunk)
        rows += [(n, chunk.number, len(mine), pack_rows(mine)) for n, mine in sorted(located.rows.items())]
        if len(located.unknown):
            found = search_files(task.spec, task.facts, files, chunk, located.unknown)
            rows += [(n, chunk.number, len(mine), pack_rows(mine)) for n, mine in found]
            searched.append((chunk.number, pack_rows(located.unknown)))
            unknown += len(located.unknown)
    return LocateResult(
        folder.write_table(task.path, table_of(rows, CANDIDATES)),
        sum(r[2] for r in rows),
        unknown,
        folder.write_table(task.searched_path, table_of(searched, SEARCHED)),
    )


def search_files(
    spec: RunSpec, facts: TableFacts, files: Sequence[LookupFile], chunk: Chunk, rows: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Keys that an index cannot say anything about: files in scope that may hold them, by key range and filter.

    Yields:
        A file's number, and which of ``rows`` it may hold.
    """
    keys = chunk_keys(run_folder(spec), chunk).take(pa.array(rows))
    storage = storage_at(spec.table_uri)
    for file in files:
        if facts.is_global or file.file.partition_path == chunk.partition:
            mine = rows_that_may_be_in(storage, file.file, keys)
            if len(mine):
                yield file.number, rows[mine]


class _Asker:
    """The index, opened once a task."""

    def __init__(self, task: LocateTask, files: Sequence[LookupFile]) -> None:
        self._task = task
        self._folder = run_folder(task.spec)
        self._files = files
        self._groups = FileGroups({(f.file.partition_path, f.file.file_id): f.number for f in files})
        self._index = index_for(task.facts.index)
        self._store: Any = None  # what a kind opens: LocationStore, VolatileStore or BatchStore
        if isinstance(self._index, StoredIndex):
            if task.store is None:
                raise InvariantError("a stored index is asked, but not opened", culprit=task.facts.name)
            context = store_context(task.spec, task.facts, task.store.completed, task.store.view)
            self._store = self._index.open(context)

    def locate(self, chunk: Chunk) -> Located:
        """What the index says of a chunk's keys."""
        keys = chunk_keys(self._folder, chunk)
        partition = None if self._task.facts.is_global else chunk.partition
        if isinstance(self._store, BatchStore):
            return located_in(self._answered(self._store, chunk), self._groups)
        if self._store is not None:
            found: Found = self._store.look_up(keys, partition)
            return located_in(found, self._groups)
        if isinstance(self._index, RowIndex):
            return self._index.locate(keys, partition, self._groups)
        raise InvariantError(
            f"index {self._task.facts.index_type} does not answer by row", culprit=self._task.facts.name
        )

    def _answered(self, store: BatchStore, chunk: Chunk) -> Found:
        answers = () if self._task.store is None else self._task.store.answers or ()
        tables = [self._folder.read_table(a.part) for a in answers if chunk.number in a.chunks]
        if not tables:
            nothing = pa.array([], pa.string())
            return store.found(np.zeros(0, np.int64), nothing, nothing, chunk.rows)
        table = pa.concat_tables(tables)
        table = table.filter(pc.equal(table.column("chunk"), chunk.number)).combine_chunks()
        rows = table.column("row").to_numpy().astype(np.int64)
        return store.found(rows, one_array(table.column("partition")), one_array(table.column("file_id")), chunk.rows)


@dataclass(frozen=True, slots=True)
class AskedKeys:
    """A chunk whose keys an engine is asked for."""

    spec: RunSpec
    chunk: Chunk


def read_asked(asked: AskedKeys) -> pa.Table:
    """Keys of a chunk, as an engine is asked for them: chunk, row, key, partition."""
    table = chunk_columns(run_folder(asked.spec), asked.chunk, [STAGED_KEY, STAGED_PARTITION])
    n = table.num_rows
    return pa.table(
        {
            "chunk": pa.array(np.full(n, asked.chunk.number, np.int32)),
            "row": pa.array(np.arange(n, dtype=np.int32)),
            "key": table.column(0).cast(pa.string()),
            "partition": table.column(1).cast(pa.string()),
        }
    )


def write_answer(spec: RunSpec, folder: str, number: int, answer: pa.Table) -> Answer:
    """Keep a piece of an engine's answer."""
    part = run_folder(spec).write_table(f"{folder}/answers/{number:05d}.parquet", answer)
    return Answer(part, frozenset(answer.column("chunk").to_pylist()))


def ask_engine(spec: RunSpec, store: BatchStore, chunks: Sequence[Chunk], folder: str) -> tuple[Answer, ...]:
    """Ask a store that answers whole batches."""
    asked = [AskedKeys(spec, chunk) for chunk in chunks]
    write = partial(write_answer, spec, folder)
    return tuple(store.look_up_batch(BatchRequest(asked, read_asked, sum(c.rows for c in chunks), write)))


def located_in(found: Found, groups: FileGroups) -> Located:
    """A store's answer by file. A location in a file group that is no more says nothing:
    the key is looked for in all files in scope, never taken for a new one.
    """
    if not len(found.rows):
        return Located({}, found.unknown)
    names = pa.array([f"{partition}{_BETWEEN}{file_id}" for partition, file_id in groups.numbers], pa.string())
    numbers = np.fromiter(groups.numbers.values(), np.int64, len(groups.numbers))
    asked = pc.binary_join_element_wise(found.partition.cast(pa.string()), found.file_id.cast(pa.string()), _BETWEEN)
    place = pc.index_in(asked, value_set=names)
    live = place.is_valid().to_numpy(zero_copy_only=False)
    number = numbers[place.drop_null().to_numpy()]
    rows = found.rows[live]
    order = np.lexsort((rows, number))
    distinct, starts = np.unique(number[order], return_index=True)
    pieces = np.split(rows[order], starts[1:]) if len(distinct) else []
    unknown = np.union1d(found.unknown, found.rows[~live])
    return Located({int(n): piece for n, piece in zip(distinct, pieces, strict=True)}, unknown)
