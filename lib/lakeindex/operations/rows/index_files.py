"""Which files may hold some keys, as the index of a table says: the first half of ``lakeindex get``.

Reading changes no index and no cache. One that narrows by key range takes ranges from the footer cache or, if that is
asked for, the metadata table;
one that computes says which file group; one that stores locations is asked as it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from lakeindex.errors import TimelineChangedError
from lakeindex.files.footer_cache import FooterCache
from lakeindex.files.metadata_facts import stored_ranges
from lakeindex.format.instants import TIME_DIGITS, comparable
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import RowNumbers, one_array
from lakeindex.index.bloom_options import BloomOptions
from lakeindex.index.contract import Candidates, FileFacts, FilesInScope
from lakeindex.index.key_ranges import KeyRange
from lakeindex.index.locations.change_log import ChangeLog, CoveredFile, read_delta
from lakeindex.index.locations.store_context import StoreContext
from lakeindex.index.locations.stored_index import Found, LookUp, StoredIndex, VolatileStore, candidates_of
from lakeindex.index.registry import index_for
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.model import BaseFile, Group, IndexSpec
from lakeindex.operations.rows.file_reader import FileAsk
from lakeindex.operations.rows.time_travel import PastTable
from lakeindex.options.parse import index_spec
from lakeindex.options.types import WriteConfig
from lakeindex.storage.paths import absolute
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline


class KeyScope(Frozen):
    """Where keys are looked for.

    Attributes:
        files: live files in scope.
        partition: the only partition in scope; None for all.
    """

    past: PastTable
    index: IndexSpec
    files: tuple[BaseFile, ...]
    partition: str | None
    config: WriteConfig

    @property
    def table(self) -> Table:
        return self.past.table


class Plan(Struct):
    """What an index says.

    Attributes:
        rows: file ordinal -> the keys to look for in it, by their numbers, ascending; None: all of them.
        cached: file ordinal -> the side file of the footer cache that has its filter.
        notes: what could not be pruned, and why.
    """

    rows: dict[int, RowNumbers | None] = field(default_factory=dict)
    cached: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def asks(self, files: Sequence[BaseFile]) -> list[FileAsk]:
        """The files that may hold a key, with their keys.

        Args:
            files: those in scope.
        """
        return [FileAsk(files[number], rows, self.cached.get(number)) for number, rows in sorted(self.rows.items())]


def index_of(table: Table, timeline: Timeline, config: WriteConfig) -> IndexSpec:
    """The index in force, by these instants; of a table that nothing is bound to, that of the options.

    Raises:
        OptionError: an option that has no meaning with this index.
    """
    return table.index(timeline) or index_spec(config.index_type or table.properties.default_index, config)


def plan_files(scope: KeyScope, keys: pa.Array, runner: Runner) -> Plan:
    """Ask the index.

    Args:
        keys: distinct keys, ascending by UTF-8 bytes.

    Raises:
        StorageError: the store of the index cannot be reached.
        OptionError: the index needs an engine that the runner has not.
    """
    index = index_for(scope.index)
    known = FooterCache(scope.table.storage).load(scope.files, tidy=False) if index.needs_footers else {}
    ranges = {path: KeyRange(footer.min_key, footer.max_key) for path, (footer, _) in known.items()}
    ranges |= _told_ranges(scope, known) if index.needs_footers else {}
    open_range = KeyRange(None, None)
    facts = [
        FileFacts(number, file.partition_path, file.file_id, ranges.get(file.path, open_range))
        for number, file in enumerate(scope.files)
    ]
    files = FilesInScope(facts, scope.partition)
    plan = Plan(cached={n: known[f.path][1] for n, f in enumerate(scope.files) if f.path in known})
    if index.stored is None:
        _add(plan, files, index.ask(keys, files, scope.config))
        return plan
    with _opened(scope, index.stored, runner, plan.notes) as store:
        if store is None:
            plan.rows = dict.fromkeys(range(len(scope.files)))
            return plan
        alone = index.spec.is_global or files.partition is not None
        for some in [files] if alone else files.by_partition():  # what a partition cannot say is none of another's
            _add(plan, some, index.ask(keys, some, scope.config, store.store))
        for answer in store.deltas(keys, files):
            _add(plan, files, Candidates(rows=answer.rows))
    missing = [number for number, file in enumerate(scope.files) if not _is_covered(file, store.coverage)]
    plan.rows.update(dict.fromkeys(missing))
    if missing:
        plan.notes.append(f"{scope.index.index_type} does not cover {len(missing)} files: they are asked themselves")
    return plan


def _told_ranges(scope: KeyScope, known: Collection[str]) -> dict[str, KeyRange]:
    """Key ranges of files that are not cached, from the metadata table, if that is asked for."""
    if not scope.config.of(BloomOptions).use_metadata:
        return {}
    view = scope.table.metadata_view(scope.past.snapshot.timeline)
    found = {} if view is None else stored_ranges(view, [file for file in scope.files if file.path not in known])
    return {path: KeyRange(one.min_key, one.max_key) for path, one in found.items()}


def _add(plan: Plan, files: FilesInScope, answer: Candidates) -> None:
    """Take in what an index says; keys that it cannot say anything about may be in every file."""
    for number, rows in answer.by_file():
        plan.rows[number] = _union(plan.rows.get(number), rows)
    if len(answer.unknown):
        for file in files.files:
            plan.rows[file.number] = _union(plan.rows.get(file.number), answer.unknown)


def _union(some: RowNumbers | None, more: RowNumbers) -> RowNumbers:
    return more if some is None else np.union1d(some, more)


class _OpenedStore(Frozen):
    """The store of a stored index, as it is.

    Attributes:
        store: answers for keys.
        coverage: files whose keys it knows; None: all that are live.
        context: what it was opened with; None: nothing is beside it.
    """

    store: LookUp
    coverage: Mapping[Group, CoveredFile] | None
    context: StoreContext | None

    def deltas(self, keys: pa.Array, files: FilesInScope) -> Iterator[Candidates]:
        """Locations of deltas that are in force; a store may learn of them only at the next look-up of a write."""
        if self.context is None:
            return
        for name in self.context.view.deltas:
            delta = read_delta(self.context.storage, self.context.view, name, ["key", "partition", "file_id"])
            asked = pc.index_in(delta.column("key"), value_set=keys)
            here = pc.and_(asked.is_valid(), delta.column("file_id").is_valid())
            if not pc.any(here).as_py():
                continue
            mine = delta.filter(here)
            rows = pc.index_in(one_array(mine.column("key")), value_set=keys).to_numpy().astype(np.int64)
            yield candidates_of(
                Found(rows, one_array(mine.column("partition")), one_array(mine.column("file_id"))), files
            )


@contextmanager
def _opened(scope: KeyScope, index: StoredIndex, runner: Runner, notes: list[str]) -> Iterator[_OpenedStore | None]:
    """The store; None, and a note why, if every file has to be asked."""
    kind = scope.index.index_type
    if scope.past.as_of is not None:
        notes.append(f"{kind} holds locations of now: the files of then are asked")
        yield None
        return
    if index.answers_batches:
        notes.append(f"{kind} answers for whole batches of a write: every file is asked")
        yield None
        return
    from lakeindex.run.index.in_metadata import is_in_metadata, metadata_store  # with what writes to an index

    if is_in_metadata(scope.table.storage, index):
        found = metadata_store(scope.table, scope.past.timeline, index)
        with found.refusing_if_dropped():
            found.check(file.partition_path for file in scope.files)
        _check_not_ahead(found.view)
        yield _OpenedStore(found, None, None)
        return
    state = ChangeLog(scope.table.storage, kind).at(scope.past.timeline)
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
    if state.built is None and not index.in_process:
        notes.append(f"{kind} is not built: every file is asked (lakeindex index build)")
        yield None
        return
    store = index.open(context)
    try:
        if isinstance(store, VolatileStore):
            yield _OpenedStore(store, store.coverage(), context)
        elif state.built is not None and store.generation() == state.built.generation:
            behind = store.behind(state.view.deltas)
            known = tuple(name for name in state.view.deltas if name not in behind)
            store = index.open(replace(context, view=replace(state.view, deltas=known))) if behind else store
            yield _OpenedStore(store, state.coverage, context)
        else:
            notes.append(f"{kind} is not what was built: every file is asked")
            yield None
    finally:
        _remove(work)


def _check_not_ahead(view: MetadataView) -> None:
    """Make sure that the index knows of no write that began since the timeline was listed: a key that it has moved
    into another file group is not in the slice of that group that the reader has.

    Raises:
        TimelineChangedError: it does.
    """
    last = comparable(view.data.max_time or "")
    # on version 6 what the metadata table does for itself has more digits
    told = [one.time for one in view.timeline.completed_writes if comparable(one.time[:TIME_DIGITS]) > last]
    now = Timeline.listing(view.table.storage, view.data.layout) if told else view.data
    newer = next((time for time in told if now.find(time)), None)
    if newer is not None:
        raise TimelineChangedError(f"write {newer} began meanwhile", culprit=newer, hint="run again")


def _is_covered(file: BaseFile, coverage: Mapping[Group, CoveredFile] | None) -> bool:
    if coverage is None:
        return True
    covered = coverage.get((file.partition_path, file.file_id))
    return covered is not None and covered.name == file.name


def _remove(folder: str) -> None:
    """Delete what an engine computed for this look-up: nothing else can use it."""
    store = storage_at(folder)
    for one in store.list(""):
        store.delete(one.path)
