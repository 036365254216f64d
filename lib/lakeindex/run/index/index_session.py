"""The index of one run, on the driver's side: opened for a look-up, told of a commit; and the tasks that read keys of
base files for it and make its deltas.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.key_columns import read_record_keys
from lakeindex.frozen import Frozen
from lakeindex.index.locations.change_log import ChangeLog, CoveredFile, Delta
from lakeindex.index.locations.record_shards import scope_of
from lakeindex.index.locations.store_context import Completed, LogView, StoreContext
from lakeindex.index.locations.stored_index import DELTA_SCHEMA, Change
from lakeindex.index.registry import stored_index_for
from lakeindex.model import BaseFile, Group
from lakeindex.run.checkpoints import Part
from lakeindex.run.chunks import Chunk
from lakeindex.run.run_folders import begin_run
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.storage.port import read_once
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline

_GONE: Final = pa.array([Change.DELETE, Change.COPY], pa.int8())


class KeysTask(Frozen):
    """Read the keys of some base files into one checkpoint file."""

    spec: RunSpec
    facts: TableFacts
    files: tuple[BaseFile, ...]
    path: str


class FileKeys(Frozen):
    """Keys of some files: a part of ``DELTA_SCHEMA``, and the files as covered."""

    part: Part
    files: tuple[CoveredFile, ...]


class DeltaTask(Frozen):
    """Join parts into one delta of the log."""

    spec: RunSpec
    facts: TableFacts
    delta: Delta
    parts: tuple[Part, ...]
    completed: Completed
    view: LogView


def store_context(
    spec: RunSpec, facts: TableFacts, completed: Completed, view: LogView, runner: Runner | None = None
) -> StoreContext:
    """What the store of a run's table is opened with; tasks leave the runner out."""
    return StoreContext(
        storage=storage_at(spec.table_uri),
        table_name=facts.name,
        spec=facts.index,
        config=spec.config,
        completed=completed,
        view=view,
        runner=runner,
        work_uri=f"{spec.checkpoints_uri}/{spec.run_id}",
    )


def read_keys(task: KeysTask) -> FileKeys:
    tables, files = [], []
    for file in task.files:
        keys = read_record_keys(storage_at(task.spec.table_uri), file, task.facts.virtual)
        tables.append(found_rows(keys, file))
        files.append(CoveredFile(file.partition_path, file.file_id, file.name, len(keys)))
    table = pa.concat_tables(tables) if tables else DELTA_SCHEMA.empty_table()
    return FileKeys(run_folder(task.spec).write_table(task.path, table, row_group_rows=250_000), tuple(files))


def found_rows(keys: pa.Array, file: BaseFile) -> pa.Table:
    n = len(keys)
    change = pa.array(np.full(n, Change.FOUND, np.int8))
    columns = [keys, pa.repeat(file.partition_path, n), pa.repeat(file.file_id, n), change]
    return pa.table([c.cast(f.type) for c, f in zip(columns, DELTA_SCHEMA, strict=True)], schema=DELTA_SCHEMA)


def put_delta(task: DeltaTask) -> Delta:
    """Join the parts of a delta and put it into the log."""
    folder = run_folder(task.spec)
    parts = [folder.read_table(part) for part in task.parts]
    gone = [pc.is_in(part.column("change"), value_set=_GONE) for part in parts]
    table = joined(parts, by_partition=not task.facts.is_global)
    change = table.column("change")
    delta = replace(
        task.delta,
        inserted=pc.sum(pc.equal(change, int(Change.INSERT))).as_py() or 0,
        removed=sum(pc.sum(one).as_py() or 0 for one in gone),
    )
    index = stored_index_for(task.facts.index)
    log = ChangeLog(storage_at(task.spec.table_uri), task.facts.index_type)
    context = store_context(task.spec, task.facts, task.completed, task.view)
    log.put(delta, index.arrange(table, context))
    return delta


def joined(parts: Sequence[pa.Table], *, by_partition: bool) -> pa.Table:
    """Parts of a commit's delta as one, sorted by key: the two halves of a move, its removal here and its insert there,
    are one row. Of a key of which one row stays, only where that is.

    Args:
        by_partition: a key is another one in each partition.
    """
    table = pa.concat_tables([p.cast(DELTA_SCHEMA) for p in parts]) if parts else DELTA_SCHEMA.empty_table()
    change = table.column("change")
    away = pc.and_(pc.equal(change, int(Change.MOVE)), pc.is_null(table.column("file_id")))
    moved = table.column("key").filter(away)
    stays = table.filter(pc.and_(pc.equal(change, int(Change.MOVE)), pc.is_valid(table.column("file_id"))))
    if stays.num_rows:
        known = scope_of(stays, by_partition=by_partition)
        goes = pc.and_(
            pc.equal(change, int(Change.DELETE)), pc.is_in(scope_of(table, by_partition=by_partition), value_set=known)
        )
        table, away = table.filter(pc.invert(goes)), away.filter(pc.invert(goes))
        change = table.column("change")
    table = table.filter(pc.invert(pc.or_(away, pc.equal(change, int(Change.COPY)))))
    if len(moved):
        arrived = pc.is_in(table.column("key"), value_set=pa.chunked_array(moved).combine_chunks())
        change = pc.if_else(arrived, pa.scalar(int(Change.MOVE), pa.int8()), table.column("change"))
        table = table.set_column(3, DELTA_SCHEMA.field(3), change)
    return table.sort_by([("key", "ascending"), ("partition", "ascending")])


_BYTES_A_TASK: Final = 128 * 1024 * 1024
"""Base files whose keys one task reads, in bytes: it holds them in memory."""


class AskedBatch(Frozen):
    """A batch whose keys are to be looked up.

    Attributes:
        files: live files in scope: all of the table under a global index, else of the touched partitions.
        partitions: the touched partitions, also those without a file; None: all of the table is in scope.
        folder: for what an engine answers.
    """

    snapshot: Snapshot
    files: Sequence[BaseFile]
    partitions: Collection[str] | None
    chunks: Sequence[Chunk]
    folder: str


class Answer(Frozen):
    """A piece of an engine's answer, and the chunks it is about."""

    part: Part
    chunks: frozenset[int]


class StoreRef(Frozen):
    """What a task opens the store of a stored index with.

    Attributes:
        answers: what the engine has answered already, of a store that answers whole batches; else None.
        in_metadata: the metadata table keeps the locations, and nothing of the log counts.
    """

    completed: Completed
    view: LogView
    answers: tuple[Answer, ...] | None = None
    in_metadata: bool = False


class IndexSession:
    """The index of one run. This one is of a kind that keeps nothing: there is nothing to open or to tell."""

    keeps_changes = False
    """Whether it is to be told what a commit changes."""

    def __init__(self, spec: RunSpec, facts: TableFacts, runner: Runner) -> None:
        self._spec = spec
        self._facts = facts
        self._runner = runner

    def opened(self, batch: AskedBatch) -> StoreRef | None:
        """Bring the index up to the snapshot of a batch; what tasks open its store with."""
        del batch
        return None

    def runner_for(self, work_bytes: float) -> Runner:
        """The runner that asks it, if about so many bytes are read for that."""
        return for_work(self._runner, work_bytes, self._spec.config)

    def prepare(self, snapshot: Snapshot, delta: Delta, parts: Sequence[Part]) -> None:
        """A commit is about to be made.

        Args:
            delta: its instant and files, and the file groups that it replaces: if it is taken back, their keys are
                entered anew.
            parts: what it changes, checkpoint files of ``DELTA_SCHEMA``.
        """

    def check_order(self, instant: str, timeline: Timeline) -> None:
        """What is prepared counts in the order of instants: no write that began later than this one, and is completed,
        says anything of its keys. Raises: WriteConflictError: one does.
        """

    def committed(self, written: Sequence[CoveredFile], parts: Sequence[Part]) -> None:
        """The commit stands. What goes wrong here is made good by the next look-up: the caller notes it."""

    def failed(self) -> None:
        """The commit was given up."""

    def read_keys(self, files: Sequence[BaseFile]) -> tuple[FileKeys, ...]:
        """Keys of base files, by tasks, as parts in the run's folder."""
        sizes = [float(f.size_bytes) for f in files]
        packs = pack(sizes, max(self._runner.slots * 3, len(files) // 16, int(sum(sizes)) // _BYTES_A_TASK))
        tasks = [
            KeysTask(self._spec, self._facts, tuple(files[i] for i in numbers), f"{self._work}/keys/{n:05d}.parquet")
            for n, numbers in enumerate(packs)
        ]
        return run_tasks(self._runner, read_keys, tasks, "index: read keys of files it does not cover")

    @read_once
    def _work(self) -> str:
        begin_run(self._spec)
        return f"{self._spec.run_id}/index/{uuid.uuid4().hex[:12]}"

    def _context(self, completed: Completed, view: LogView) -> StoreContext:
        return store_context(self._spec, self._facts, completed, view, self._runner)


def uncovered(
    files: Sequence[BaseFile], coverage: Mapping[Group, CoveredFile], partitions: Collection[str] | None
) -> tuple[tuple[BaseFile, ...], tuple[Group, ...]]:
    """Live files whose keys an index does not know, and covered file groups that are no more; None: everywhere."""
    live = {(f.partition_path, f.file_id) for f in files}
    missing = []
    for file in files:
        covered = coverage.get((file.partition_path, file.file_id))
        if covered is None or covered.name != file.name:
            missing.append(file)
    gone = (g for g in coverage if g not in live and (partitions is None or g[0] in partitions))
    return tuple(missing), tuple(sorted(gone))
