"""An index in the driver's memory (INMEMORY): no log, no build; what the process does not know, it reads from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakeindex.errors import InvariantError
from lakeindex.index.locations.change_log import CoveredFile
from lakeindex.index.locations.contract import DELTA_SCHEMA, StoredIndex, VolatileStore
from lakeindex.index.locations.store_context import NOTHING_COMPLETED, Completed, LogView, StoreContext
from lakeindex.model import Group
from lakeindex.run.checkpoints import Part
from lakeindex.run.index.delta import joined
from lakeindex.run.index.session import AskedBatch, IndexSession, StoreRef, uncovered
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.tasks.runner import Runner


class InProcessSession(IndexSession):
    """The index of one run, in this process."""

    keeps_changes = True

    def __init__(self, spec: RunSpec, facts: TableFacts, runner: Runner, index: StoredIndex) -> None:
        super().__init__(spec, facts, runner)
        self._index = index

    def opened(self, batch: AskedBatch) -> StoreRef:
        """Enter the keys of live files that it does not know, and forget file groups that are no more."""
        context = self._context(Completed.of(batch.snapshot.timeline), LogView(""))
        store = self._store(context)
        missing, gone = uncovered(batch.files, store.coverage(), batch.partitions)
        folder = run_folder(self._spec)
        store.enter(DELTA_SCHEMA.empty_table(), (), gone)
        for one in self.read_keys(missing):
            store.enter(folder.read_table(one.part), one.files, resets=[f.group for f in one.files])
        return StoreRef(context.completed, context.view)

    def runner_for(self, work_bytes: float) -> Runner:
        """This process: nobody else has it."""
        del work_bytes
        return self._runner.nearby()

    def committed(self, written: Sequence[CoveredFile], parts: Sequence[Part]) -> None:
        """Enter what the commit changed."""
        folder = run_folder(self._spec)
        store = self._store(self._context(NOTHING_COMPLETED, LogView("")))
        covered = store.coverage()  # what was looked up in another way is not known here, and read by the next look-up
        followed = [one for one in written if one.replaces is None or _is_known(covered, one)]
        store.enter(joined([folder.read_table(part) for part in parts]), followed)

    def _store(self, context: StoreContext) -> VolatileStore:
        store = self._index.open(context)
        if not isinstance(store, VolatileStore):
            raise InvariantError("an index says that it lives in this process, but its store does not")
        return store


def _is_known(covered: Mapping[Group, CoveredFile], file: CoveredFile) -> bool:
    """Whether the file that it replaces is covered."""
    before = covered.get(file.group)
    return before is not None and before.name == file.replaces
