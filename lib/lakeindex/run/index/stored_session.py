"""A stored index in one run, on the driver's side: bring it up to the table before a look-up, tell it of a commit.

Before a look-up: what failed instants left is taken back, live files that the index does not cover are read and
entered, completed deltas are applied, and the number of keys is compared with the table's rows. Around a commit: the
delta is put into the log first, so that it is in force in the same moment as the commit, whoever makes that visible;
what a store has to do beside the log is done before (harmlessly) and after (repeatably).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeindex.errors import (
    REPAIR_KEYS,
    IndexDamagedError,
    IndexNotBuiltError,
    InvariantError,
    LakeIndexError,
    WriteConflictError,
)
from lakeindex.files.file_system_view import Snapshot
from lakeindex.index.locations.change_log import (
    Built,
    ChangeLog,
    CoveredFile,
    Delta,
    LogState,
    catch_up_name,
    changed,
    is_in_force,
    new_generation,
    place_of,
    read_delta,
)
from lakeindex.index.locations.record_shards import scope_of
from lakeindex.index.locations.store_context import Completed, LogView, StoreContext
from lakeindex.index.locations.stored_index import DELTA_SCHEMA, BatchStore, LocationStore, StoredIndex, VolatileStore
from lakeindex.lock.write_context import locked
from lakeindex.model import BaseFile
from lakeindex.run.checkpoints import Part
from lakeindex.run.index.ask_index import ask_engine
from lakeindex.run.index.index_session import (
    AskedBatch,
    DeltaTask,
    IndexSession,
    StoreRef,
    put_delta,
    uncovered,
)
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.table.properties import load_table_properties
from lakeindex.tasks.runner import Runner, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline


class InProcessSession(IndexSession):
    """An index in the driver's memory (INMEMORY): no log, no build. What the process does not know is read."""

    def __init__(self, spec: RunSpec, facts: TableFacts, runner: Runner, index: StoredIndex) -> None:
        super().__init__(spec, facts, runner)
        self._index = index

    def opened(self, batch: AskedBatch) -> StoreRef:
        """Enter the keys of live files that it does not know, and forget file groups that are no more."""
        context = self._context(Completed.of(batch.snapshot.timeline), LogView(""))
        store = self._store(context)
        missing, gone = uncovered(batch.files, store.coverage(), batch.partitions)
        folder = run_folder(self._spec)
        if gone:
            store.enter(DELTA_SCHEMA.empty_table(), (), gone)
        for one in self.read_keys(missing):
            store.enter(folder.read_table(one.part), one.files)
        is_whole = not any(uncovered(batch.files, store.coverage(), batch.partitions))  # others may have entered theirs
        return StoreRef(context.completed, replace(context.view, generation=store.generation() if is_whole else ""))

    def runner_for(self, work_bytes: float) -> Runner:
        """This process: nobody else has it."""
        del work_bytes
        return self._runner.nearby()

    def _store(self, context: StoreContext) -> VolatileStore:
        store = self._index.open(context)
        if not isinstance(store, VolatileStore):
            raise InvariantError("an index says that it lives in this process, but its store does not")
        return store


_ROWS_A_DELTA: Final = 1_000_000
_TRIES: Final = 5


class StoredSession(IndexSession):
    """The stored index of one run."""

    keeps_changes = True

    def __init__(self, spec: RunSpec, facts: TableFacts, runner: Runner, index: StoredIndex) -> None:
        super().__init__(spec, facts, runner)
        self._index = index
        self._storage = storage_at(spec.table_uri)
        self._log = ChangeLog(self._storage, facts.index_type)

    def opened(self, batch: AskedBatch) -> StoreRef:
        """Bring the index up to the snapshot of a batch; an engine that answers for whole batches is asked.

        Raises: as :meth:`ready`.
        """
        context = self.ready(batch.snapshot, batch.files, batch.partitions)
        store = self._index.open(context)
        if not isinstance(store, BatchStore) or not batch.files:
            return StoreRef(context.completed, context.view)
        return StoreRef(context.completed, context.view, ask_engine(self._spec, store, batch.chunks, batch.folder))

    def runner_for(self, work_bytes: float) -> Runner:
        """The run's own: what a store reads is not known."""
        del work_bytes
        return self._runner

    def ready(
        self, snapshot: Snapshot, files: Sequence[BaseFile], partitions: Collection[str] | None = None
    ) -> StoreContext:
        """Bring the index up to a snapshot.

        Returns:
            What tasks open the store with.

        Raises:
            IndexNotBuiltError: there is nothing, or not what was built.
            IndexDamagedError: it does not hold as many keys as the files it covers.
            IndexChangedError: others change it, on other snapshots, again and again.
        """
        state = self._log.at(snapshot.timeline)
        if state.built is None and not snapshot.timeline.completed_writes:
            state = self._start_empty(snapshot)
        store = self._open(state)
        self._check_built(store, state)
        self._settle(store, state)
        for _ in range(_TRIES):
            if not self._catch_up(snapshot, files, partitions, state):
                break
            state = self._log.at(snapshot.timeline)
            store = self._open(state)
        else:
            raise changed(self._log.folder)  # by others, who see other files
        self._apply(store, state)
        _check_count(store, state, self._facts)
        return self._context(state.completed, state.view)

    def _apply(self, store: LocationStore, state: LogState) -> None:
        """Completed deltas that the store has not applied: by one writer at a time, in order."""
        if not store.behind(state.view.deltas):
            return
        with self._alone(store, state, f"applying deltas to index {self._facts.index_type}"):
            store.apply(state.view.deltas)

    @contextmanager
    def _alone(self, store: LocationStore, state: LogState, purpose: str) -> Iterator[None]:
        """Nobody else changes the store meanwhile, which is the table's: who commits has asked that hours ago.
        Raises: as :meth:`built_state`.
        """
        with locked(self._storage, self._spec.config, purpose):
            self._check_built(store, state)
            yield

    def prepare(self, snapshot: Snapshot, delta: Delta, parts: Sequence[Part]) -> None:
        """Put the delta of a commit that is about to be made into the log."""
        state = self._log.at(snapshot.timeline)
        if state.built is None:  # a write that looks no key up: who builds it reads what is written now
            return
        self._put(delta, parts, state)
        self._open(state).prepare(delta.instant)

    def check_order(self, instant: str, timeline: Timeline) -> None:
        by_partition = not self._facts.is_global
        names = self._log.names()
        later = [one for one in names if place_of(one) > place_of(instant) and not Delta(one).is_catch_up]
        later = [one for one in later if timeline.is_committed(one)]
        if not later or instant not in names:
            return
        view = LogView(self._log.folder)
        ours = scope_of(read_delta(self._storage, view, instant), by_partition=by_partition)
        for name in later:
            theirs = scope_of(read_delta(self._storage, view, name), by_partition=by_partition)
            if pc.any(pc.is_in(theirs, value_set=ours)).as_py():
                raise WriteConflictError(
                    f"{name} has changed a key of {instant} meanwhile, and counts for more, as it began later",
                    culprit=name,
                )

    def committed(self, written: Sequence[CoveredFile], parts: Sequence[Part]) -> None:
        """The commit stands. What goes wrong here is made good by the next look-up: the caller notes it."""
        del written, parts  # they are in the log
        state = self._log.at(self._timeline())
        if state.built is None:
            return
        store = self._open(state)
        self._apply(store, state)
        if len(state.in_force) >= self._spec.config.index_max_deltas and not state.broken:
            self._fold(store, state)

    def failed(self) -> None:
        """The commit was given up: take back what was prepared, now if that works, else before the next look-up."""
        try:
            state = self._log.at(self._timeline())
            self._settle(self._open(state), state)
        except LakeIndexError:
            return

    def _timeline(self) -> Timeline:
        return Timeline.load(self._storage, load_table_properties(self._storage).timeline_layout)

    def build(self, snapshot: Snapshot) -> Built:
        """Build the index anew from the key columns of all live files.

        Raises:
            InvariantError: a key that must be unique is stored twice; what was built before stays in force.
            IndexChangedError: others have folded what the snapshot does not know.
        """
        files = snapshot.base_files_all()
        read = self.read_keys(files)
        folder = run_folder(self._spec)
        state = self._log.at(snapshot.timeline)
        self._check_not_ahead(state)
        generation = new_generation(state.next_number)
        expected = sum(f.rows for one in read for f in one.files)
        context = self._context(state.completed, replace(state, in_force=()).view)
        store = self._open_with(replace(context, expected_rows=expected))
        rows = store.build(generation, (folder.read_table(one.part) for one in read))
        if rows != expected:
            raise InvariantError(
                f"the table has {expected} rows, but {rows} distinct keys went into the index",
                culprit=self._facts.name,
                hint=f"{REPAIR_KEYS}; the index that was there before stays in force",
            )
        told = frozenset(state.names) - frozenset(state.doubtful)  # also where nothing was built, or it is lost
        folded = state.folded | told
        built = Built(state.next_number, generation, tuple(f for one in read for f in one.files), folded, rows)
        if not self._log.put_built(built):
            raise WriteConflictError(
                f"index {self._facts.index_type} was built or compacted by another run at the same time",
                culprit=self._facts.name,
                hint="its result is in force; build again if that is not what you want",
            )
        self._log.tidy()
        store.retire(generation)
        return built

    def _check_not_ahead(self, state: LogState) -> None:
        """What is in force covers no commit that the snapshot does not know: a store that has one place for all that is
        built would say of its keys where they were. Raises: IndexChangedError.
        """
        files = () if state.built is None else state.built.files
        later = [file.instant for file in files if not state.completed.has(file.instant)]
        if later and any(map(Completed.of(self._timeline()).has, later)):  # else they were taken back
            raise changed(self._log.folder)

    def compact(self, snapshot: Snapshot) -> int:
        """Fold all deltas into what was built, after the index was brought up to a snapshot; how many there were.

        Raises:
            IndexNotBuiltError: there is nothing, or not what was built.
            IndexDamagedError: it does not hold as many keys as the files it covers.
        """
        self.ready(snapshot, snapshot.base_files_all())
        state = self._log.at(snapshot.timeline)
        if state.in_force:
            self._fold(self._open(state), state)
        return len(state.in_force)

    def drop(self) -> None:
        """Remove the index: what was built, its log and its store."""
        store = self._open(LogState(self._log.folder, None, completed=Completed.of(self._timeline())))
        self._log.drop()
        store.drop()

    def is_built(self, state: LogState) -> bool:
        """Whether the store holds what the log says. Raises: IndexChangedError: others have built it anew meanwhile."""
        return self._holds(self._open(state), state)

    def state(self, snapshot: Snapshot) -> LogState:
        return self._log.at(snapshot.timeline)

    def entries(self, state: LogState) -> Iterable[pa.Table]:
        return self._open(state).entries()

    @property
    def folder(self) -> str:
        """Where the index is, relative to the table."""
        return self._log.folder

    def built_state(self, snapshot: Snapshot) -> LogState:
        """The log as of a snapshot, of an index that is built.

        Raises:
            IndexNotBuiltError: there is nothing, or not what was built.
            IndexDamagedError: it cannot be read.
            IndexChangedError: others have built it anew meanwhile.
        """
        state = self._log.at(snapshot.timeline)
        self._check_built(self._open(state), state)
        return state

    def _start_empty(self, snapshot: Snapshot) -> LogState:
        """A table without any row needs no build: its index begins empty, once. A store that others have begun may have
        entries by now, which a second beginning takes away.
        """
        with locked(self._storage, self._spec.config, f"beginning index {self._facts.index_type}"):
            state = self._log.at(snapshot.timeline)
            if state.built is None:
                generation = new_generation(state.next_number)
                self._open(state).build(generation, ())
                self._log.put_built(Built(state.next_number, generation, (), frozenset(), 0))
        return self._log.at(snapshot.timeline)

    def _check_built(self, store: LocationStore, state: LogState) -> None:
        if state.built is None and state.numbers:
            raise IndexDamagedError(
                f"the record of the contents of index {self._facts.index_type} of table {self._facts.name} is damaged",
                culprit=self._log.folder,
                hint="build it anew: lakeindex index build TABLE. No other index takes its place",
            )
        if not self._holds(store, state):
            what = (
                "is not built"
                if state.built is None
                else f"was built as {state.built.generation}, but holds {store.generation() or 'nothing'}"
            )
            raise IndexNotBuiltError(
                f"index {self._facts.index_type} of table {self._facts.name} {what}",
                culprit=self._facts.index_type,
                hint="build it: lakeindex index build TABLE. No other index takes its place",
            )

    def _holds(self, store: LocationStore, state: LogState) -> bool:
        """Whether the store holds what was built. Raises: IndexChangedError: others have built it anew meanwhile."""
        if state.built is not None and store.generation() == state.built.generation:
            return True
        if not is_in_force(self._storage, state.view):
            raise changed(self._log.folder)
        return False

    def _settle(self, store: LocationStore, state: LogState) -> None:
        """Take back deltas of failed instants, and forget damaged ones. The timeline is read after the log:
        a delta never comes before its instant.
        """
        self._log.forget(state.unreadable)
        if not state.doubtful:
            return
        now = Completed.of(self._timeline(), (Delta(name).instant for name in state.doubtful))
        for name in state.doubtful:
            instant = Delta(name).instant
            if not now.has(instant) and instant not in now.pending:
                if self._log.is_readable(name):  # else it was never prepared
                    with self._alone(store, state, f"taking {name} back from an index"):
                        store.undo(name)
                self._log.forget([name])

    def _catch_up(
        self,
        snapshot: Snapshot,
        files: Sequence[BaseFile],
        partitions: Collection[str] | None,
        state: LogState,
    ) -> bool:
        """Enter the keys of live files that are not covered; whether there were any."""
        missing, gone = uncovered(files, state.coverage, partitions)
        gone = tuple(sorted({*gone, *state.broken} - {(f.partition_path, f.file_id) for f in missing}))
        if not missing and not gone:
            return False
        deltas: list[tuple[list[CoveredFile], list[Part]]] = [([], [])]
        rows = 0
        for one in self.read_keys(missing):
            if rows and rows + one.part.rows > _ROWS_A_DELTA:
                deltas.append(([], []))
                rows = 0
            rows += one.part.rows
            deltas[-1][0].extend(one.files)
            deltas[-1][1].append(one.part)
        names: list[str] = [*state.names]
        for number, (covered, parts) in enumerate(deltas):
            groups = tuple(f.group for f in covered)
            names.append(catch_up_name(snapshot.instant_time, names))
            delta = Delta(names[-1], tuple(covered), gone if number == 0 else (), groups)
            self._put(delta, parts, state)
        return True

    def _put(self, delta: Delta, parts: Sequence[Part], state: LogState) -> None:
        task = DeltaTask(self._spec, self._facts, delta, tuple(parts), state.completed, state.view)
        run_tasks(self._runner, put_delta, [task], "index: write the delta")

    def _fold(self, store: LocationStore, state: LogState) -> None:
        assert state.built is not None  # a store is only applied to after _check_built
        rows = state.rows
        generation = store.fold()
        folded = state.folded | {d.name for d in state.in_force}
        built = Built(state.next_number, generation, tuple(state.coverage.values()), folded, rows)
        if self._log.put_built(built):
            self._log.tidy()
            store.retire(generation)

    def _open(self, state: LogState) -> LocationStore:
        return self._open_with(self._context(state.completed, state.view))

    def _open_with(self, context: StoreContext) -> LocationStore:
        store = self._index.open(context)
        if isinstance(store, VolatileStore):
            raise InvariantError(f"index {self._facts.index_type} keeps nothing", culprit=self._facts.name)
        return store


def _check_count(store: LocationStore, state: LogState, facts: TableFacts) -> None:
    held = store.count()
    if held is not None and held != state.rows:
        raise IndexDamagedError(
            f"index {facts.index_type} of table {facts.name} holds {held} keys, "
            f"but the files it covers have {state.rows} rows",
            culprit=facts.index_type,
            hint="lakeindex index verify TABLE shows the difference, lakeindex index build TABLE makes it anew",
        )
