"""A whole run in one process, and single stages for the jobs of a DAG. Both go through the same functions.

From the look-up to the commit there are attempts at the merge until one is published. Locations that are no longer true
are never used: if the table moved since the look-up, the keys are looked up again; if it moves while files are written,
publishing finds out under the lock, the plan is abandoned and made anew.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from lakeindex.commit.write_session import AlreadyDone, WriteSession, begin_write
from lakeindex.conductor.open_for_write import open_and_retry, open_for_write, retry_on_conflict
from lakeindex.errors import FencedError, InputError, UsageError, noted
from lakeindex.files.file_system_view import Snapshot
from lakeindex.model import BaseFile, IndexType, Operation
from lakeindex.pipeline import SUMMARY_FILE, Stage, stages_for
from lakeindex.run.checkpoints import (
    CheckpointError,
    LookedUp,
    Manifest,
    RunFolder,
    StageRun,
    checkpoints_held,
    summary_of,
)
from lakeindex.run.chunks import rows_handed_over
from lakeindex.run.feeds import check_still_follows
from lakeindex.run.input_rows import InputChangedError
from lakeindex.run.lookup_files import read_files
from lakeindex.run.spec import BoundTable, RunSpec, TableFacts, run_folder
from lakeindex.run.summary import RunSummary, StageSummary, costs_of
from lakeindex.stages.bloom_check import basis_of_candidates, bloom_check
from lakeindex.stages.carried_locations import VerifiedBefore
from lakeindex.stages.index_lookup import index_lookup, snapshot_mark
from lakeindex.stages.merge_write.stage import MergeAttempt, Terms
from lakeindex.stages.stage_input.batch_columns import identity_of, with_columns_of
from lakeindex.stages.stage_input.inputs import changed_input
from lakeindex.stages.stage_input.stage import TABLE_FACT, stage_input, staged_by
from lakeindex.stages.verify_keys import proposed_by, verify_keys
from lakeindex.table.handle import Table
from lakeindex.table.table_columns import written_schema
from lakeindex.tasks.helpers import helpers_at_hand
from lakeindex.tasks.memory_bound import give_back, memory_bound
from lakeindex.tasks.runner import Runner, do_task
from lakeindex.time_spent import current_account

_LOG: Final = logging.getLogger(__name__)


def run_batch(spec: RunSpec, runner: Runner) -> RunSummary:
    """All stages, in order. Checkpoints of an earlier attempt that turn out damaged are thrown away and made again.

    Returns:
        The summary; it is also in the run folder.
    """
    _LOG.info("run %s: %s of batch %s into %s", spec.run_id, spec.operation, spec.batch_id, spec.table_uri)
    return from_checkpoints(spec, lambda: _run_batch(spec, runner))


def from_checkpoints(spec: RunSpec, work: Callable[[], RunSummary]) -> RunSummary:
    """A whole run within its memory; once more if checkpoints of an earlier attempt turn out damaged. If the input has
    changed meanwhile, the run ends: it is known by what the input was.
    """
    with _means_of(spec), checkpoints_held(), rows_handed_over():
        try:
            return work()
        except InputChangedError:
            _forget_checkpoints(spec)
            raise
        except CheckpointError as error:
            _LOG.info("run %s: its checkpoints are made again: %s", spec.run_id, error)
            _forget_checkpoints(spec)
            return work()


@contextmanager
def _means_of(spec: RunSpec) -> Iterator[None]:
    """What the tasks of a run may use of this machine."""
    stores = (spec.table_uri, spec.checkpoints_uri)
    with memory_bound(spec.config.memory), helpers_at_hand(spec.config.processes, *stores):
        yield


def _run_batch(spec: RunSpec, runner: Runner) -> RunSummary:
    def stages_1_to_4(opened: BoundTable) -> tuple[BoundTable, StageRun, LookedUp | None]:
        staged = run_stage_input(spec, opened.facts, runner, loads=_is_load(spec, opened))
        if not staged.manifest.counters["rows_out"]:
            return opened, staged, None
        return opened, staged, look_up(spec, opened, staged, runner)

    opened, staged, looked_up = open_and_retry(spec.table_uri, spec.config, stages_1_to_4)
    if looked_up is None:
        return keep_summary(spec, nothing_to_do(spec, staged))
    return keep_summary(spec, merge_until_published(spec, opened, staged, looked_up, runner))


def _is_load(spec: RunSpec, opened: BoundTable) -> bool:
    """Whether the rows of a batch go into new files, whatever they are."""
    replaces = spec.operation in (Operation.BULK_INSERT, Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE)
    return (replaces and not opened.facts.is_global) or opened.snapshot.instant_time is None


def _forget_checkpoints(spec: RunSpec) -> None:
    folder = run_folder(spec)
    for stage in Stage:
        folder.store.delete(folder.manifest_path(stage))


def run_stage(stage: Stage, spec: RunSpec, runner: Runner) -> StageSummary | RunSummary:
    """One stage of a run; those before it must have left their checkpoints.

    Raises:
        CheckpointError: an earlier stage's checkpoint is missing, damaged or foreign.
    """
    with _means_of(spec):
        result = _run_stage(stage, spec, runner)
        if stage is not Stage.MERGE_WRITE:
            run_folder(spec).make_durable(stage)
        return result


def _run_stage(stage: Stage, spec: RunSpec, runner: Runner) -> StageSummary | RunSummary:
    if stage is Stage.MERGE_WRITE:
        return _run_merge_write(spec, runner)

    def work(opened: BoundTable) -> StageSummary:
        if stage is Stage.STAGE_INPUT:
            return run_stage_input(spec, opened.facts, runner).summary
        if _is_needed_no_more(stage, spec, opened):
            over = Manifest(stage, spec.run_id, "", manifest_version=0)  # its job ended well; nothing goes on from it
            run_folder(spec).write_manifest(over)
            return StageSummary(stage, 0.0, 0, 0, 0, 0, 0, 0)
        before = _checkpoints_before(stage, spec, opened, runner)
        return run_metered(spec, lambda: _look_up_stage(stage, spec, opened, before, runner)).summary

    return open_and_retry(spec.table_uri, spec.config, work)


def _is_needed_no_more(stage: Stage, spec: RunSpec, opened: BoundTable) -> bool:
    """Whether the table's index does without a stage that the one had by which the batch was staged."""
    if stage in stages_for(opened.facts.index_type):
        return False
    staged = run_folder(spec).read_manifest(Stage.STAGE_INPUT)
    return staged is not None and stage in stages_for(IndexType(staged.facts["index_type"]))


def _run_merge_write(spec: RunSpec, runner: Runner) -> RunSummary:
    opened = open_for_write(spec.table_uri, spec.config)
    done = _checkpoints_before(Stage.MERGE_WRITE, spec, opened, runner)[Stage.STAGE_INPUT]
    staged = StageRun(done, summary_of(done, reused=False))
    if not done.counters["rows_out"]:
        return keep_summary(spec, nothing_to_do(spec, staged))
    return keep_summary(spec, merge_until_published(spec, opened, staged, None, runner))


def _checkpoints_before(stage: Stage, spec: RunSpec, opened: BoundTable, runner: Runner) -> dict[Stage, Manifest]:
    """What the stages before this one left. One that another release left is made again here; so are those that were
    made by what the table is no more, and a look-up in files that others may have taken away since.
    """
    folder = run_folder(spec)
    needed = list(stages_for(opened.facts.index_type))
    if stage not in needed:
        raise UsageError(
            f"index type {opened.facts.index_type} has no stage {stage}",
            culprit=stage,
            hint=f"its stages: {', '.join(needed)}",
        )
    before: dict[Stage, Manifest] = {}
    is_other = False
    for earlier in needed[: needed.index(stage)]:
        if earlier is Stage.STAGE_INPUT:
            before[earlier], is_other = _staged_before(stage, spec, opened, runner)
        elif is_other and stage is Stage.MERGE_WRITE:
            continue  # it looks up anew itself, when the batch is staged anew
        elif (
            is_other
            or folder.has_other_version(earlier)
            or (stage is not Stage.MERGE_WRITE and _is_out_of_date(earlier, folder, before, opened.snapshot))
        ):
            is_other = True
            before[earlier] = run_metered(
                spec, partial(_look_up_stage, earlier, spec, opened, dict(before), runner)
            ).manifest
        else:
            before[earlier] = folder.require_manifest(earlier)
    return before


def _is_out_of_date(earlier: Stage, folder: RunFolder, before: dict[Stage, Manifest], snapshot: Snapshot) -> bool:
    """Whether a later look-up stage cannot go on from this one: the table has moved, so that files that it names may be
    cleaned away, or rolled back, or it is of another try of the stage before it. (The last stage would have to look up
    anew anyway, and does so itself.)
    """
    done = folder.require_manifest(earlier)
    if earlier is Stage.BLOOM_CHECK:
        return done.basis != basis_of_candidates(before[Stage.INDEX_LOOKUP])
    made_from = done.facts["snapshot"], done.facts.get("staged")
    return made_from != (snapshot_mark(snapshot), before[Stage.STAGE_INPUT].digest)


def _staged_before(stage: Stage, spec: RunSpec, opened: BoundTable, runner: Runner) -> tuple[Manifest, bool]:
    """What stage 1 has left, and whether what was looked up since may be of a batch that was staged otherwise, or by
    another index. The last stage stages anew by itself, when it has asked whether the batch is committed already: its
    input may be gone then.
    """
    folder = run_folder(spec)
    if folder.has_other_version(Stage.STAGE_INPUT):
        return run_stage_input(spec, opened.facts, runner).manifest, False
    done = folder.require_manifest(Stage.STAGE_INPUT)
    now = with_columns_of(opened.facts, done.facts, spec.config)
    is_other = done.facts.get("index_type") != now.index_type or done.facts.get(TABLE_FACT) != staged_by(now)
    if stage is not Stage.MERGE_WRITE:
        done = _staged_as_now(spec, now, StageRun(done, summary_of(done, reused=False)), runner).manifest
    return done, is_other


def _look_up_stage(
    stage: Stage, spec: RunSpec, opened: BoundTable, before: dict[Stage, Manifest], runner: Runner
) -> Manifest:
    staged = before[Stage.STAGE_INPUT]
    if stage is Stage.INDEX_LOOKUP:
        return index_lookup(spec, opened, staged, runner)
    lookup = before[Stage.INDEX_LOOKUP]
    if stage is Stage.BLOOM_CHECK:
        return bloom_check(spec, staged, lookup, runner)
    facts = with_columns_of(opened.facts, staged.facts, spec.config)
    return verify_keys(spec, facts, staged, lookup, before.get(Stage.BLOOM_CHECK, lookup), runner)


def nothing_to_do(spec: RunSpec, staged: StageRun) -> RunSummary:
    """An empty batch is done, with nothing committed. Raises: InputError: nothing would be left of the table."""
    if spec.operation is Operation.INSERT_OVERWRITE_TABLE:
        raise InputError(
            f"batch {spec.batch_id!r} has no row that could be stored, and would take the place of the whole table",
            culprit=", ".join(spec.inputs),
            hint="look at the input; `lakeindex truncate` takes all rows out of a table",
        )
    counters = staged.manifest.counters
    return RunSummary(
        instant=None,
        batch_id=spec.batch_id,
        run_id=spec.run_id,
        operation=spec.operation,
        noop=True,
        rows_in=int(counters["rows_in"]),
        combined=int(counters["combined"]),
        quarantined=int(counters["quarantined"]),
        notes=spec.config.notes,
        change=spec.change,
    ).with_stages((staged.summary,))


def keep_summary(spec: RunSpec, summary: RunSummary) -> RunSummary:
    """Leave the summary in the run's folder, and log it."""
    _LOG.info("run %s: %s; %s, %.2f s", spec.run_id, summary.outcome, summary.fates, summary.seconds)
    for note in summary.notes:
        _LOG.info("run %s: note: %s", spec.run_id, note)
    store, path = run_folder(spec).store, f"{spec.run_id}/{SUMMARY_FILE}"
    notes = noted(f"{path} could not be written", lambda: store.write(path, summary.to_json().encode()))
    return replace(summary, notes=summary.notes + notes)


def merge_until_published(
    spec: RunSpec, opened: BoundTable, staged: StageRun, looked_up: LookedUp | None, runner: Runner
) -> RunSummary:
    """Begin, and merge and publish until it has succeeded.

    Args:
        looked_up: stages 2 to 4, if they ran; what is missing or no longer true is looked up here.

    Returns:
        The summary of the whole run; of the earlier run, with ``noop``, if the batch is committed already.

    Raises:
        ConflictError: another writer's work stands in the way for good; nothing was published.
        InvariantError: an identity is broken; nothing was published.
    """
    config = spec.config
    identity = identity_of(spec, staged.manifest)
    session = begin_write(opened.table, identity, spec.operation, config, force=spec.force)
    if isinstance(session, AlreadyDone):
        return done_before(spec, session)
    try:
        bound = replace(opened, facts=with_columns_of(opened.facts, staged.manifest.facts, config))
        return attempts(spec, bound, session, GivenBatch(spec, runner, staged, looked_up), runner)
    finally:
        session.close()


class Batch(Protocol):
    """What a run writes, as it is on a snapshot."""

    looked_up: LookedUp | None
    """Where its keys are, if that is known of some snapshot by the index in force."""

    def staged_on(self, bound: BoundTable) -> tuple[StageRun, BoundTable]:
        """Stage 1, and the table's facts with the columns that the table has once the batch is in it."""

    def located(self, bound: BoundTable, staged: StageRun, before: LookedUp | None) -> LookedUp:
        """Stages 2 to 4 of it, as :func:`look_up`."""

    def recheck(self, files: Sequence[BaseFile]) -> None:
        """Make sure that base files that were committed since do not make it another one.

        Raises:
            WriteConflictError: they do.
        """


class GivenBatch(Struct):
    """A batch that the caller has given: it stays what it is. ``looked_up``: stages 2 to 4, if they ran."""

    spec: RunSpec
    runner: Runner
    staged: StageRun
    looked_up: LookedUp | None

    def staged_on(self, bound: BoundTable) -> tuple[StageRun, BoundTable]:
        """As :class:`Batch`; staged anew if another writer has changed the columns. Raises: InputError."""
        if self.spec.feed is not None and not self.spec.force:
            check_still_follows(bound.table.storage, bound.snapshot.timeline, self.spec.feed)
        now = with_columns_of(bound.facts, self.staged.manifest.facts, self.spec.config)
        self.staged = _staged_as_now(self.spec, now, self.staged, self.runner)
        return self.staged, replace(bound, facts=now)

    def located(self, bound: BoundTable, staged: StageRun, before: LookedUp | None) -> LookedUp:
        return look_up(self.spec, bound, staged, self.runner, before=before)

    def recheck(self, files: Sequence[BaseFile]) -> None:
        """As :class:`Batch`. Raises: FencedError: a feed of the same source was applied."""
        if files and self.spec.feed is not None and not self.spec.force:
            table = Table.at(self.spec.table_uri)
            check_still_follows(table.storage, table.load_timeline(), self.spec.feed)


def done_before(spec: RunSpec, done: AlreadyDone) -> RunSummary:
    """What the run says that has committed the batch, or what is known of it."""
    if done.summary is not None:
        earlier = RunSummary.from_json(done.summary)
        return replace(earlier, noop=True, notes=earlier.notes + done.notes)
    return RunSummary(
        done.instant, spec.batch_id, spec.run_id, spec.operation, noop=True, notes=done.notes, change=spec.change
    )


def attempts(spec: RunSpec, bound: BoundTable, session: WriteSession, batch: Batch, runner: Runner) -> RunSummary:
    """Merge and publish; anew from the look-up while other writers change what the plan rests on."""
    tries = _Attempts(spec, bound, session, batch, runner)
    return retry_on_conflict(bound.table, spec.config, tries.on, tries.given_up, f"run {spec.run_id}")


class _Attempts:
    """Attempts at the merge of one batch."""

    def __init__(self, spec: RunSpec, bound: BoundTable, session: WriteSession, batch: Batch, runner: Runner) -> None:
        self._spec, self._bound = spec, bound
        self._session, self._batch, self._runner = session, batch, runner
        self._merge: MergeAttempt | None = None
        self._lost = 0

    def on(self, snapshot: Snapshot) -> RunSummary:
        spec, batch, self._merge = self._spec, self._batch, None
        staged, now = batch.staged_on(_as_now(self._bound, snapshot))
        if not staged.manifest.counters["rows_out"]:
            done = nothing_to_do(spec, staged)
            return replace(done, notes=done.notes + self._session.notes)
        # of other facts nothing is taken over, in no later try either
        known = batch.looked_up if now.facts == self._bound.facts else None
        self._bound = now
        if known is None or known.lookup.facts["snapshot"] != snapshot_mark(snapshot):
            known = batch.located(now, staged, known)
        batch.looked_up = known
        terms = Terms(self._lost, batch.recheck)
        give_back()
        self._merge = MergeAttempt(spec, now, self._session, self._runner, known, terms)
        return self._merge.run()

    def given_up(self) -> None:
        self._session.abandon()
        if self._merge is not None:
            self._merge.given_up()
            self._merge = None
        self._lost += 1


def _staged_as_now(spec: RunSpec, facts: TableFacts, staged: StageRun, runner: Runner) -> StageRun:
    """The batch staged by what the table is now: others may have changed its columns, or its index, since a job of
    another hour staged it.

    Raises:
        InputError: it does not fit them, or is no longer the batch that it was.
    """
    if staged.manifest.facts.get(TABLE_FACT) == staged_by(facts):
        return staged
    again = run_stage_input(spec, facts, runner)
    if again.manifest.facts["input_digest"] != staged.manifest.facts["input_digest"]:
        raise changed_input(spec.batch_id, ", ".join(spec.inputs))
    return again


def _as_now(bound: BoundTable, snapshot: Snapshot) -> BoundTable:
    """The table on a later snapshot. The index in force and the columns may have changed since the run began.

    Raises:
        FencedError: keys are unique in another scope now, by which the batch was not staged.
    """
    facts = bound.facts
    index = bound.table.index(snapshot.timeline) or facts.index
    if index.is_global is not facts.is_global:
        raise FencedError(
            f"the index of table {facts.name} was changed from {facts.index_type} to {index.index_type} during the run",
            culprit=index.index_type,
            hint="run the batch again; nothing was published",
        )
    schema = written_schema(bound.table, snapshot)
    return BoundTable(bound.table, snapshot, replace(facts, index=index, schema=schema, before=None))


def run_metered(spec: RunSpec, stage: Callable[[], Manifest]) -> StageRun:
    """Run a stage under a meter, write its manifest, and report what it cost; a whole checkpoint is taken over."""
    account = current_account()
    begun = account.so_far()
    give_back()
    outcome = do_task(lambda _: stage(), None)
    manifest = outcome.value
    reused = bool(manifest.costs)
    if not reused:
        cost = replace(outcome.cost, seconds=(account.so_far() - begun).work)
        manifest = replace(manifest, costs=costs_of(cost, account.settle()))
        run_folder(spec).write_manifest(manifest)
    done = StageRun(manifest, summary_of(manifest, reused=reused))
    what = "taken over" if reused else "done"
    _LOG.info(
        "run %s: %s %s: %d rows, %.2f s", spec.run_id, manifest.stage, what, done.summary.rows_out, done.summary.seconds
    )
    return done


def run_stage_input(spec: RunSpec, facts: TableFacts, runner: Runner, *, loads: bool = False) -> StageRun:
    return run_metered(spec, lambda: stage_input(spec, facts, runner, loads=loads))


def look_up(
    spec: RunSpec, bound: BoundTable, staged: StageRun, runner: Runner, before: LookedUp | None = None
) -> LookedUp:
    """Stages 2 to 4 against one snapshot; those whose checkpoints fit are taken over.

    Args:
        before: the look-up on an earlier snapshot, by the same index: files that did not change are not searched again.
    """
    lookup = run_metered(spec, lambda: index_lookup(spec, bound, staged.manifest, runner))
    candidates = lookup
    summaries = [staged.summary, lookup.summary]
    if Stage.BLOOM_CHECK in stages_for(bound.facts.index_type):
        candidates = run_metered(spec, lambda: bloom_check(spec, staged.manifest, lookup.manifest, runner))
        summaries.append(candidates.summary)
    known = None if before is None else _verified(run_folder(spec), before)
    facts = with_columns_of(bound.facts, staged.manifest.facts, spec.config)
    verified = run_metered(
        spec,
        lambda: verify_keys(spec, facts, staged.manifest, lookup.manifest, candidates.manifest, runner, before=known),
    )
    return LookedUp(
        staged.manifest,
        lookup.manifest,
        candidates.manifest,
        verified.manifest,
        (*summaries, verified.summary),
    )


def _verified(folder: RunFolder, before: LookedUp) -> VerifiedBefore:
    files = read_files(folder, before.lookup.parts("files")[0])
    return VerifiedBefore(tuple(files), proposed_by(before.candidates), before.verified.parts("locations"))
