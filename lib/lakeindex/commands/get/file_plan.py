"""Which files may hold some keys, as the index of a table says: the first half of ``lakeindex get``.

Reading changes no index and no cache. One that narrows by key range takes ranges from the footer cache;
one that computes says which file group; one that stores locations is asked as it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.commands.get.rows import Rows
from lakeindex.commands.written_slices import absolute
from lakeindex.errors import InvariantError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footer_cache import FooterCache
from lakeindex.hashing.arrow import one_array
from lakeindex.index.contract import (
    FileFacts,
    FileGroups,
    Found,
    Group,
    LocationStore,
    RowIndex,
    SliceIndex,
    StoredIndex,
    VolatileStore,
)
from lakeindex.index.key_ranges import KeyRange
from lakeindex.index.registry import index_for
from lakeindex.index.stored.change_log import ChangeLog, CoveredFile, read_delta
from lakeindex.index.stored.store_context import StoreContext
from lakeindex.model import BaseFile, IndexSpec
from lakeindex.options.types import WriteConfig
from lakeindex.run.locations import located_in
from lakeindex.run.spec import storage_at
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner


@dataclass(frozen=True)
class Scope:
    """The table as it is read, and where keys are looked for.

    Attributes:
        table: the table.
        snapshot: its state.
        as_of: the point in time that was asked for, as an instant; None for now.
        index: the index that is asked.
        files: live files in scope.
        partition: the only partition in scope; None for all.
        schema: columns to return.
        config: options.
    """

    table: Table
    snapshot: Snapshot
    as_of: str | None
    index: IndexSpec
    files: tuple[BaseFile, ...]
    partition: str | None
    schema: pa.Schema
    config: WriteConfig


@dataclass
class Plan:
    """What an index says.

    Attributes:
        rows: file ordinal -> the keys to look for in it, by their numbers, ascending; None: all of them.
        cached: file ordinal -> the side file of the footer cache that has its filter.
        notes: what could not be pruned, and why.
    """

    rows: dict[int, Rows | None] = field(default_factory=dict)
    cached: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def plan_files(scope: Scope, keys: pa.Array, runner: Runner) -> Plan:
    """Ask the index.

    Args:
        scope: where to look.
        keys: distinct keys, ascending by UTF-8 bytes.
        runner: for indexes that need an engine.

    Raises:
        StorageError: the store of the index cannot be reached.
        OptionError: the index needs an engine that the runner has not.
    """
    index = index_for(scope.index)
    if isinstance(index, StoredIndex):
        return _ask_store(scope, index, keys, runner)
    plan = Plan()
    if isinstance(index, RowIndex):
        located = index.locate(keys, scope.partition, _groups(scope.files))
        plan.rows = dict(located.rows)
        if len(located.unknown):
            for number in range(len(scope.files)):
                plan.rows[number] = _union(plan.rows.get(number), located.unknown)
        return plan
    if not isinstance(index, SliceIndex):
        raise InvariantError(f"index {scope.index.index_type} does not answer", culprit=scope.table.name)
    known = FooterCache(scope.table.storage).load(scope.files, tidy=False) if index.traits.needs_footers else {}
    ranges = [known[f.path][0] if f.path in known else None for f in scope.files]
    facts = [
        FileFacts(f.partition_path, KeyRange(one.min_key, one.max_key) if one is not None else KeyRange(None, None))
        for f, one in zip(scope.files, ranges, strict=True)
    ]
    slices = index.propose(keys, facts, scope.config)
    for number in slices.kept().tolist():
        plan.rows[number] = np.arange(slices.from_row[number], slices.to_row[number], dtype=np.int64)
    plan.cached = {n: known[f.path][1] for n, f in enumerate(scope.files) if f.path in known}
    return plan


def _groups(files: Sequence[BaseFile]) -> FileGroups:
    return FileGroups({(f.partition_path, f.file_id): number for number, f in enumerate(files)})


def _union(some: Rows | None, more: Rows) -> Rows:
    return more if some is None else np.union1d(some, more)


def _ask_store(scope: Scope, index: StoredIndex, keys: pa.Array, runner: Runner) -> Plan:
    """Candidates from the store; files that it does not cover get all keys."""
    everything = Plan(dict.fromkeys(range(len(scope.files))))
    if scope.as_of is not None:
        everything.notes.append(f"{scope.index.index_type} holds locations of now: the files of then are asked")
        return everything
    if index.traits.answers_batches:
        everything.notes.append(f"{scope.index.index_type} answers for whole batches of a write: every file is asked")
        return everything
    state = ChangeLog(scope.table.storage, scope.index.index_type).at(scope.snapshot.timeline)
    work = f"{absolute(scope.table.uri).rstrip('/')}.lakeindex/get-{uuid.uuid4().hex[:12]}"
    context = StoreContext(
        storage=scope.table.storage,
        table_name=scope.table.name,
        spec=scope.index,
        config=scope.config,
        completed=state.completed,
        view=state.view,
        runner=runner,
        work_uri=work,
    )
    if state.built is None and not index.traits.in_process:
        everything.notes.append(f"{scope.index.index_type} is not built: every file is asked (lakeindex index build)")
        return everything
    store = index.open(context)
    try:
        if isinstance(store, VolatileStore):
            coverage = store.coverage()
        elif state.built is not None and store.generation() == state.built.generation:
            coverage = state.coverage
        else:
            everything.notes.append(f"{scope.index.index_type} is not what was built: every file is asked")
            return everything
        missing = [f for f in scope.files if not _is_covered(f, coverage)]
        plan = _located(scope, store, keys)
        if not isinstance(store, VolatileStore):
            _add_deltas(scope, context, keys, plan)
    finally:
        _remove(work)
    groups = _groups(scope.files).numbers
    for file in missing:
        plan.rows[groups[file.partition_path, file.file_id]] = None
    if missing:
        plan.notes.append(f"{scope.index.index_type} does not cover {len(missing)} files: they are asked themselves")
    return plan


def _is_covered(file: BaseFile, coverage: Mapping[Group, CoveredFile]) -> bool:
    covered = coverage.get((file.partition_path, file.file_id))
    return covered is not None and covered.name == file.name


def _remove(folder: str) -> None:
    """What an engine worked out for this look-up is of no use to anybody else."""
    store = storage_at(folder)
    for one in store.list(""):
        store.delete(one.path)


def _located(scope: Scope, store: LocationStore | VolatileStore, keys: pa.Array) -> Plan:
    plan = Plan()
    groups = _groups(scope.files)
    one_answer = scope.index.is_global or scope.partition is not None
    partitions = [scope.partition] if one_answer else sorted({f.partition_path for f in scope.files})
    for partition in partitions:
        asked = None if scope.index.is_global else partition
        located = located_in(store.look_up(keys, asked), groups)
        for number, rows in located.rows.items():
            plan.rows[number] = _union(plan.rows.get(number), rows)
        if len(located.unknown):
            for number, file in enumerate(scope.files):
                if asked is None or file.partition_path == asked:
                    plan.rows[number] = _union(plan.rows.get(number), located.unknown)
    return plan


def _add_deltas(scope: Scope, context: StoreContext, keys: pa.Array, plan: Plan) -> None:
    """Locations of deltas that are in force; a store may learn of them only at the next look-up of a write."""
    groups = _groups(scope.files)
    for name in context.view.deltas:
        delta = read_delta(context.storage, context.view, name, ["key", "partition", "file_id"])
        asked = pc.index_in(delta.column("key"), value_set=keys)
        here = pc.and_(asked.is_valid(), delta.column("file_id").is_valid())
        if not pc.any(here).as_py():
            continue
        mine = delta.filter(here)
        rows = pc.index_in(one_array(mine.column("key")), value_set=keys).to_numpy().astype(np.int64)
        part = Found(rows, one_array(mine.column("partition")), one_array(mine.column("file_id")))
        for number, some in located_in(part, groups).rows.items():
            plan.rows[number] = _union(plan.rows.get(number), some)
