"""Stage 2, the question: in which files may the keys of the batch be? The index is asked chunk by chunk, by tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import InvariantError
from lakeindex.files.footer_cache import rows_that_may_be_in
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import StringArray, one_array
from lakeindex.index.contract import Candidates, FileFacts, FilesInScope, FileSlices, Index
from lakeindex.index.key_ranges import KeyRange
from lakeindex.index.locations.stored_index import BatchRequest, BatchStore, Found, LookUp
from lakeindex.index.registry import index_for
from lakeindex.pipeline import CANDIDATES, RANGES, SEARCHED, STAGED_KEY, STAGED_PARTITION
from lakeindex.run.checkpoints import Part, RunFolder, arrow_schema, table_of
from lakeindex.run.chunks import Chunk, chunk_columns, chunk_keys, pack_rows
from lakeindex.run.index.index_session import Answer, StoreRef, store_context
from lakeindex.run.lookup_files import LookupFile, read_files
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.storage.port import read_once
from lakeindex.tasks.stores import storage_at


class AskTask(Frozen):
    """Ask the index about some chunks."""

    spec: RunSpec
    facts: TableFacts
    chunks: tuple[Chunk, ...]
    files: Part
    store: StoreRef | None
    folder: str
    number: int


class AskResult(Frozen):
    """What the index said of some chunks.

    Attributes:
        tables: ``ranges``, of a kind that answers with slices; else ``candidates``, and ``searched``: the keys that it
            could not say anything about.
        pairs: (key, file) pairs that are left.
        unknown: how many keys ``searched`` lists.
    """

    tables: dict[str, Part]
    pairs: int
    unknown: int


def ask_index(task: AskTask) -> AskResult:
    folder = run_folder(task.spec)
    index = index_for(task.facts.index)
    scopes = _Scopes(folder, task)
    store_of = _stores(folder, task, index)
    answers = _Answers(folder, task, scopes)
    for chunk in task.chunks:
        answers.add(chunk, index.ask(chunk_keys(folder, chunk), scopes.of(chunk), task.spec.config, store_of(chunk)))
    return answers.written()


class _Answers:
    """What an index said, chunk by chunk: with slices or with rows, packed at once, as its kind answers."""

    def __init__(self, folder: RunFolder, task: AskTask, scopes: _Scopes) -> None:
        self._folder = folder
        self._task = task
        self._scopes = scopes
        self._slices: list[tuple[int, FileSlices]] = []
        self._rows: list[tuple[int, int, int, bytes]] = []
        self._searched: list[tuple[int, bytes]] = []
        self._unknown = 0

    def add(self, chunk: Chunk, answer: Candidates) -> None:
        """Take in the answer for a chunk; keys that the index does not know are looked for in the files."""
        if answer.slices is not None:
            self._slices.append((chunk.number, answer.slices))
            return
        self._rows += [(n, chunk.number, len(mine), pack_rows(mine)) for n, mine in answer.by_file()]
        if len(answer.unknown):
            found = search_files(self._task.spec, self._task.facts, self._scopes.files, chunk, answer.unknown)
            self._rows += [(n, chunk.number, len(mine), pack_rows(mine)) for n, mine in found]
            self._searched.append((chunk.number, pack_rows(answer.unknown)))
            self._unknown += len(answer.unknown)

    def written(self) -> AskResult:
        """The answers as checkpoint tables."""
        name = f"{self._task.number:05d}.parquet"
        if self._slices:
            table = self._ranges()
            part = self._folder.write_table(f"{self._task.folder}/ranges/{name}", table)
            pairs = pc.sum(pc.subtract(table.column("to_row"), table.column("from_row"))).as_py() or 0
            return AskResult({"ranges": part}, int(pairs), 0)
        parts = {
            "candidates": self._folder.write_table(
                f"{self._task.folder}/candidates/{name}", table_of(self._rows, CANDIDATES)
            ),
            "searched": self._folder.write_table(
                f"{self._task.folder}/searched/{name}", table_of(self._searched, SEARCHED)
            ),
        }
        return AskResult(parts, sum(r[2] for r in self._rows), self._unknown)

    def _ranges(self) -> pa.Table:
        columns = [
            np.concatenate([some.file for _, some in self._slices]),
            np.concatenate([np.full(len(some.file), chunk, np.int32) for chunk, some in self._slices]),
            np.concatenate([some.from_row for _, some in self._slices]),
            np.concatenate([some.to_row for _, some in self._slices]),
        ]
        schema = arrow_schema(RANGES)
        return pa.table([pa.array(a, f.type) for a, f in zip(columns, schema, strict=True)], schema=schema)


class _Scopes:
    """The files for the task's chunks, by the chunks' partition; one scope of all files under a global index.

    Files of other partitions are dropped before anything is made of them: a task sees few of many.
    """

    def __init__(self, folder: RunFolder, task: AskTask) -> None:
        self._folder = folder
        self._task = task
        self._is_global = task.facts.is_global
        table = folder.read_table(task.files, ["file", "partition", "file_id", "min_key", "max_key"])
        if not self._is_global:
            wanted = pa.array(sorted({chunk.partition for chunk in task.chunks}), pa.string())
            table = table.filter(pc.is_in(table.column("partition"), value_set=wanted))
        found: dict[str | None, list[FileFacts]] = {}
        for number, partition, file_id, low, high in zip(*(c.to_pylist() for c in table.columns), strict=True):
            scope = None if self._is_global else partition
            found.setdefault(scope, []).append(FileFacts(number, partition, file_id, KeyRange(low, high)))
        self._scopes = {partition: FilesInScope(mine, partition) for partition, mine in found.items()}

    def of(self, chunk: Chunk) -> FilesInScope:
        partition = None if self._is_global else chunk.partition
        return self._scopes.get(partition) or FilesInScope((), partition)

    @read_once
    def files(self) -> list[LookupFile]:
        """All files of the look-up, to be searched for keys that the index does not know."""
        return read_files(self._folder, self._task.files)


def _stores(folder: RunFolder, task: AskTask, index: Index) -> Callable[[Chunk], LookUp | None]:
    """What answers for a chunk: the store of a stored index, opened once a task."""
    if index.stored is None:
        return lambda _: None
    if task.store is None:
        raise InvariantError("a stored index is asked, but not opened", culprit=task.facts.name)
    if task.store.in_metadata:
        from lakeindex.run.index.in_metadata import opened_metadata_store

        store = opened_metadata_store(task.spec.table_uri, task.spec.config, index.stored)
        return lambda _: store
    context = store_context(task.spec, task.facts, task.store.completed, task.store.view)
    opened = index.stored.open(context)
    if isinstance(opened, BatchStore):
        return partial(_Answered, folder, opened, task.store.answers or ())
    return lambda _: opened


class _Answered(Frozen):
    """A chunk's part of what an engine has answered."""

    folder: RunFolder
    store: BatchStore
    answers: tuple[Answer, ...]
    chunk: Chunk

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        """As the engine said; it was asked for the whole batch."""
        del partition
        tables = [self.folder.read_table(a.part) for a in self.answers if self.chunk.number in a.chunks]
        if not tables:
            nothing = pa.array([], pa.string())
            return self.store.found(np.zeros(0, np.int64), nothing, nothing, len(keys))
        table = pa.concat_tables(tables)
        table = table.filter(pc.equal(table.column("chunk"), self.chunk.number)).combine_chunks()
        rows = table.column("row").to_numpy().astype(np.int64)
        return self.store.found(
            rows, one_array(table.column("partition")), one_array(table.column("file_id")), len(keys)
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


class AskedKeys(Frozen):
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
    part = run_folder(spec).write_table(f"{folder}/answers/{number:05d}.parquet", answer)
    return Answer(part, frozenset(answer.column("chunk").to_pylist()))


def ask_engine(spec: RunSpec, store: BatchStore, chunks: Sequence[Chunk], folder: str) -> tuple[Answer, ...]:
    """Ask a store that answers whole batches."""
    asked = [AskedKeys(spec, chunk) for chunk in chunks]
    write = partial(write_answer, spec, folder)
    return tuple(store.look_up_batch(BatchRequest(asked, read_asked, sum(c.rows for c in chunks), write)))
