"""A run whose batch is rows of the table itself: those that meet a condition, chosen anew whenever the table has moved.

They go through the same stages as any batch: their keys are looked up, and merging and the commit protocol are one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from lakeindex.commit.write_session import AlreadyDone, RunIdentity, begin_write
from lakeindex.conductor.open_for_write import open_for_write
from lakeindex.conductor.upsert import attempts, done_before, from_checkpoints, keep_summary, look_up, run_stage_input
from lakeindex.errors import InvariantError
from lakeindex.frozen import Frozen
from lakeindex.hashing.batch_digest import ROWS_DIGEST
from lakeindex.model import BaseFile, Change, IndexSpec, IndexType
from lakeindex.run.checkpoints import LookedUp, StageRun
from lakeindex.run.spec import BoundTable, ChosenRows, RunSpec, TableFacts
from lakeindex.run.summary import RunSummary
from lakeindex.stages.index_lookup import snapshot_mark
from lakeindex.stages.stage_input.batch_columns import digest_input
from lakeindex.stages.stage_input.inputs import CONTENT_DIGEST, FoundInputs, content_digest, find_batch
from lakeindex.tasks.runner import Runner


class Choice(Frozen):
    """The rows of one snapshot.

    Attributes:
        inputs: files in the run's folder that hold them.
        recheck: is given base files that were committed since, and raises WriteConflictError if a row in one of them
            would be among the chosen ones.
        settle: of keys that are stored more than once, says which of the rows that were found go; None: all do. They
            are looked for in all files then, whatever the index knows.
        given: columns of the table that the rows are written with; None: all. The others stay as they are.
    """

    inputs: tuple[str, ...]
    recheck: Callable[[Sequence[BaseFile]], None]
    settle: Callable[[TableFacts, LookedUp], LookedUp] | None = None
    given: tuple[str, ...] | None = None


class Source(Protocol):
    """Chooses the rows."""

    def choose(self, spec: RunSpec, bound: BoundTable) -> Choice:
        """The rows of a snapshot, written to the run's folder.

        Raises:
            UsageError: the condition does not fit the table's columns.
        """


class ChosenBatch:
    """Rows of the table as a batch, and those that come if they are replaced: another one when the table has moved."""

    def __init__(self, spec: RunSpec, coming: FoundInputs | None, source: Source, runner: Runner) -> None:
        self.looked_up: LookedUp | None = None
        self._spec, self._coming, self._source, self._runner = spec, coming, source, runner
        self._known: tuple[str, TableFacts] | None = None
        self._chosen: tuple[Choice, StageRun] | None = None

    def staged_on(self, bound: BoundTable) -> tuple[StageRun, BoundTable]:
        """Stage 1 of the rows that are there now; the table's columns stay as they are.

        Raises:
            InputError: the rows that come are not those that the run began with.
        """
        facts = replace(bound.facts, given=None)  # whatever an attempt before has left
        now = (snapshot_mark(bound.snapshot), facts)
        if self._chosen is None or self._known != now:
            self.looked_up = None
            choice = self._source.choose(self._spec, replace(bound, facts=facts))
            whole = replace(self._spec, inputs=(*choice.inputs, *self._spec.inputs))
            staged = run_stage_input(whole, replace(facts, given=choice.given), self._runner)
            if self._coming is not None:
                self._coming.check_unchanged(self._spec.batch_id)
            self._chosen = choice, staged
            self._known = now
        choice, staged = self._chosen
        return staged, replace(bound, facts=replace(facts, given=choice.given))

    def located(self, bound: BoundTable, staged: StageRun, before: LookedUp | None) -> LookedUp:
        """Stages 2 to 4 of the rows that are there now."""
        settle = None if self._chosen is None else self._chosen[0].settle
        if settle is None:
            return look_up(self._spec, bound, staged, self._runner, before=before)
        simple = IndexType.GLOBAL_SIMPLE if bound.facts.is_global else IndexType.SIMPLE
        everywhere = replace(bound, facts=replace(bound.facts, index=IndexSpec(simple)))
        return settle(bound.facts, look_up(self._spec, everywhere, staged, self._runner, before=before))

    def recheck(self, files: Sequence[BaseFile]) -> None:
        """No row came that the condition chooses. Raises: WriteConflictError."""
        if self._chosen is None:
            raise InvariantError("nothing was chosen yet", culprit=self._spec.run_id, hint="report this")
        self._chosen[0].recheck(files)


def run_chosen(spec: RunSpec, source: Source, runner: Runner) -> RunSummary:
    """Change the rows of the table that meet a condition: delete, update or replace them.

    Returns:
        The summary, which is also in the run folder; of the earlier run, with ``noop``, if the batch id is committed
        already.

    Raises:
        UsageError: the condition does not fit the table's columns.
        ConflictError: another writer's work stands in the way for good; nothing was published.
    """
    return from_checkpoints(spec, lambda: _run_chosen(spec, source, runner))


def _run_chosen(spec: RunSpec, source: Source, runner: Runner) -> RunSummary:
    opened = open_for_write(spec.table_uri, spec.config)
    coming = coming_rows(spec)
    identity = chosen_identity(spec, opened.facts, coming, runner)
    session = begin_write(opened.table, identity, spec.operation, spec.config, force=spec.force)
    if isinstance(session, AlreadyDone):
        return keep_summary(spec, done_before(spec, session))
    try:
        batch = ChosenBatch(spec, coming, source, runner)
        return keep_summary(spec, attempts(spec, opened, session, batch, runner))
    finally:
        session.close()


def coming_rows(spec: RunSpec) -> FoundInputs | None:
    """The rows that come in place of the chosen ones; None if none do. Raises: InputError: they are not there."""
    if required(spec).change is not Change.REPLACE:
        return None
    return find_batch(spec.inputs, spec.config.input_format, spec.checkpoints_uri)


def chosen_identity(spec: RunSpec, facts: TableFacts, coming: FoundInputs | None, runner: Runner) -> RunIdentity:
    """What the run commits: what was asked for, and the rows that come; not the rows that meet the condition."""
    asked = required(spec).digest
    if coming is None:
        return RunIdentity(spec.run_id, spec.batch_id, f"{CONTENT_DIGEST}:{asked}")
    content, rows = content_digest(coming, runner, spec.config), digest_input(spec, facts, coming, runner)
    told = [f"{CONTENT_DIGEST}:{asked}{content.removeprefix(CONTENT_DIGEST)}"]
    told += [] if rows is None else [f"{ROWS_DIGEST}:{asked}{rows.removeprefix(ROWS_DIGEST)}"]
    return RunIdentity(spec.run_id, spec.batch_id, " ".join(told))


def required(spec: RunSpec) -> ChosenRows:
    """What the run chooses. Raises: InvariantError: nothing."""
    if spec.chosen is None:
        raise InvariantError("the run has no condition", culprit=spec.run_id, hint="report this")
    return spec.chosen
