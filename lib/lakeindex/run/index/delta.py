"""What a commit, or a file that was not covered, tells a stored index: deltas, made by tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.files.key_columns import read_record_keys
from lakeindex.index.locations.change_log import ChangeLog, CoveredFile, Delta
from lakeindex.index.locations.contract import DELTA_SCHEMA, Change
from lakeindex.index.locations.store_context import Completed, LogView, StoreContext
from lakeindex.index.registry import stored_index_for
from lakeindex.model import BaseFile
from lakeindex.run.checkpoints import Part
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.tasks.runner import Runner
from lakeindex.tasks.stores import storage_at

_GONE: Final = pa.array([Change.DELETE, Change.COPY], pa.int8())


@dataclass(frozen=True, slots=True)
class KeysTask:
    """Read the keys of some base files into one checkpoint file."""

    spec: RunSpec
    facts: TableFacts
    files: tuple[BaseFile, ...]
    path: str


@dataclass(frozen=True, slots=True)
class FileKeys:
    """Keys of some files: a part of ``DELTA_SCHEMA``, and the files as covered."""

    part: Part
    files: tuple[CoveredFile, ...]


@dataclass(frozen=True, slots=True)
class DeltaTask:
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
    """Keys of some files, as rows of a delta."""
    tables, files = [], []
    for file in task.files:
        keys = read_record_keys(storage_at(task.spec.table_uri), file, task.facts.virtual)
        tables.append(found_rows(keys, file))
        files.append(CoveredFile(file.partition_path, file.file_id, file.name, len(keys)))
    table = pa.concat_tables(tables) if tables else DELTA_SCHEMA.empty_table()
    return FileKeys(run_folder(task.spec).write_table(task.path, table, row_group_rows=250_000), tuple(files))


def found_rows(keys: pa.Array, file: BaseFile) -> pa.Table:
    """Keys of a file as rows of a delta."""
    n = len(keys)
    change = pa.array(np.full(n, Change.FOUND, np.int8))
    columns = [keys, pa.repeat(file.partition_path, n), pa.repeat(file.file_id, n), change]
    return pa.table([c.cast(f.type) for c, f in zip(columns, DELTA_SCHEMA, strict=True)], schema=DELTA_SCHEMA)


def put_delta(task: DeltaTask) -> Delta:
    """Join the parts of a delta and put it into the log."""
    folder = run_folder(task.spec)
    parts = [folder.read_table(part) for part in task.parts]
    gone = [pc.is_in(part.column("change"), value_set=_GONE) for part in parts]
    table = joined(parts)
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


def joined(parts: Sequence[pa.Table]) -> pa.Table:
    """Parts of a commit's delta as one, sorted by key: the two halves of a move, its removal here and its insert there,
    are one row. Of a key of which one row stays, only where that is.
    """
    table = pa.concat_tables([p.cast(DELTA_SCHEMA) for p in parts]) if parts else DELTA_SCHEMA.empty_table()
    change = table.column("change")
    away = pc.and_(pc.equal(change, int(Change.MOVE)), pc.is_null(table.column("file_id")))
    moved = table.column("key").filter(away)
    table = table.filter(pc.invert(pc.or_(away, pc.equal(change, int(Change.COPY)))))
    if len(moved):
        arrived = pc.is_in(table.column("key"), value_set=pa.chunked_array(moved).combine_chunks())
        change = pc.if_else(arrived, pa.scalar(int(Change.MOVE), pa.int8()), table.column("change"))
        table = table.set_column(3, DELTA_SCHEMA.field(3), change)
    return table.sort_by([("key", "ascending"), ("partition", "ascending")])
