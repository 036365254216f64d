"""Stage 2 of an index that computes or stores locations: candidates by row, asked chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.backends.context import Completed, LogView
from lakeindex.backends.registry import index_for
from lakeindex.errors import InvariantError
from lakeindex.index.protocol import FileGroups, Found, Located, RowIndex, StoredIndex
from lakeindex.pipeline import CANDIDATES
from lakeindex.stages.checkpoints import Part, arrow_schema, columns_of
from lakeindex.stages.chunks import Chunk, chunk_keys, pack_rows
from lakeindex.stages.context import RunSpec, TableFacts, run_folder
from lakeindex.stages.index_delta import store_context
from lakeindex.stages.lookup_files import LookupFile, read_files

_BETWEEN = "\x00"
"""Between partition path and file id where both are one text; neither can hold it."""


@dataclass(frozen=True, slots=True)
class StoreRef:
    """What a task opens the store of a stored index with."""

    completed: Completed
    view: LogView


@dataclass(frozen=True, slots=True)
class LocateTask:
    """Ask the index about some chunks."""

    spec: RunSpec
    facts: TableFacts
    chunks: tuple[Chunk, ...]
    files: Part
    store: StoreRef | None
    path: str


@dataclass(frozen=True, slots=True)
class LocateResult:
    """Candidates of some chunks; ``unknown``: keys that the index could not say anything about."""

    part: Part
    pairs: int
    unknown: int


def locate_chunks(task: LocateTask) -> LocateResult:
    """Candidates of the chunks' keys."""
    folder = run_folder(task.spec)
    files = read_files(folder, task.files)
    ask = _Asker(task, files)
    rows: list[tuple[int, int, int, bytes]] = []
    unknown = 0
    for chunk in task.chunks:
        located = ask.locate(chunk_keys(folder, chunk), None if task.facts.is_global else chunk.partition)
        rows += [(n, chunk.number, len(mine), pack_rows(mine)) for n, mine in sorted(located.rows.items())]
        unknown += len(located.unknown)
        if len(located.unknown):
            packed = pack_rows(located.unknown)
            rows += [(f.number, chunk.number, len(located.unknown), packed) for f in ask.scope(chunk)]
    schema = arrow_schema(CANDIDATES)
    columns = columns_of(rows, len(schema))
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    return LocateResult(folder.write_table(task.path, table), sum(r[2] for r in rows), unknown)


class _Asker:
    """The index, opened once a task."""

    def __init__(self, task: LocateTask, files: Sequence[LookupFile]) -> None:
        self._task = task
        self._files = files
        self._groups = FileGroups({(f.file.partition_path, f.file.file_id): f.number for f in files})
        self._index = index_for(task.facts.index)
        self._store = None
        if isinstance(self._index, StoredIndex):
            if task.store is None:
                raise InvariantError("a stored index is asked, but not opened", culprit=task.facts.name)
            context = store_context(task.spec, task.facts, task.store.completed, task.store.view)
            self._store = self._index.open(context)

    def locate(self, keys: pa.Array, partition: str | None) -> Located:
        if self._store is not None:
            return located_in(self._store.look_up(keys, partition), self._groups)
        if isinstance(self._index, RowIndex):
            return self._index.locate(keys, partition, self._groups)
        raise InvariantError(
            f"index {self._task.facts.index_type} does not answer by row", culprit=self._task.facts.name
        )

    def scope(self, chunk: Chunk) -> list[LookupFile]:
        everywhere = self._task.facts.is_global
        return [f for f in self._files if everywhere or f.file.partition_path == chunk.partition]


def located_in(found: Found, groups: FileGroups) -> Located:
    """A store's answer by file. Locations in file groups that are no more are left out: every live file is covered, so a key
    that is stored has a live location.
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
    return Located({int(n): piece for n, piece in zip(distinct, pieces, strict=True)}, found.unknown)
