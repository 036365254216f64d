"""From the look-up to the commit: attempts at the merge until one is published.

Locations that are no longer true are never used: if the table moved since the look-up, the keys are looked up again;
if it moves while files are written, publishing finds out under the lock, the plan is abandoned and made anew.
"""

from __future__ import annotations

import time
from dataclasses import replace

from lakeindex.commit.session import AlreadyDone, WriteSession, begin_write
from lakeindex.conductor.moved import MOVED_ERRORS, has_moved, moved_error
from lakeindex.conductor.stage_runs import look_up, run_stage_input
from lakeindex.errors import FencedError, InputError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.run.spec import RunSpec, TableFacts
from lakeindex.run.stage_run import LookedUp, StageRun
from lakeindex.run.summary import RunSummary
from lakeindex.run.table_facts import table_schema
from lakeindex.stages.index_lookup.stage import snapshot_mark
from lakeindex.stages.merge_write.stage import MergeAttempt, OutOfDateError
from lakeindex.stages.stage_input.stage import SCHEMA_FACT, identity_of, schema_digest
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner


def merge_until_published(
    spec: RunSpec, table: Table, facts: TableFacts, staged: StageRun, looked_up: LookedUp | None, runner: Runner
) -> RunSummary:
    """Begin, and merge and publish until it has succeeded.

    Args:
        spec: the run.
        table: the table.
        facts: what tasks know of it.
        staged: stage 1.
        looked_up: stages 2 to 4, if they ran; what is missing or no longer true is looked up here.
        runner: schedules the tasks.

    Returns:
        The summary of the whole run; of the earlier run, with ``noop``, if the batch is committed already.

    Raises:
        ConflictError: another writer's work stands in the way for good; nothing was published.
        InvariantError: an identity is broken; nothing was published.
    """
    config = spec.config
    identity = identity_of(spec, staged.manifest, runner)
    session = begin_write(table, identity, spec.operation, config, force=spec.force)
    if isinstance(session, AlreadyDone):
        return _done_before(spec, session)
    try:
        return _attempts(spec, table, facts, session, runner, staged=staged, looked_up=looked_up)
    finally:
        session.close()


def _done_before(spec: RunSpec, done: AlreadyDone) -> RunSummary:
    if done.summary is not None:
        earlier = RunSummary.from_json(done.summary)
        return replace(earlier, noop=True, notes=earlier.notes + done.notes)
    return RunSummary(done.instant, spec.batch_id, spec.run_id, spec.operation, noop=True, notes=done.notes)


def _attempts(
    spec: RunSpec,
    table: Table,
    facts: TableFacts,
    session: WriteSession,
    runner: Runner,
    *,
    staged: StageRun,
    looked_up: LookedUp | None,
) -> RunSummary:
    """Merge and publish; anew from the look-up while other writers change what the plan rests on."""
    deadline = time.monotonic() + spec.config.lock_wait_seconds
    lost = 0
    while True:
        snapshot = merge = None
        try:
            snapshot = table.snapshot()
            now = _facts_now(table, snapshot, facts)
            if now != facts:
                facts, looked_up = now, None  # nothing of that look-up is taken over, in no later try either
            staged = _staged_as_now(spec, facts, staged, runner)
            if looked_up is None or looked_up.lookup.facts["snapshot"] != snapshot_mark(snapshot):
                looked_up = look_up(spec, facts, snapshot, staged, runner, before=looked_up)
            merge = MergeAttempt(spec, facts, session, runner, looked_up, snapshot, lost=lost)
            return merge.run()
        except OutOfDateError as error:  # nothing was planned or written: it costs a look-up, and no attempt
            if time.monotonic() > deadline:
                raise error.conflict from None
        except MOVED_ERRORS as error:
            if not has_moved(table, snapshot, error):
                raise
            session.abandon()
            if merge is not None:
                merge.given_up()
            lost += 1
            if lost > spec.config.conflict_retries:
                raise moved_error(table, error) from error


def _staged_as_now(spec: RunSpec, facts: TableFacts, staged: StageRun, runner: Runner) -> StageRun:
    """The batch staged with the columns that the table has now: another writer may have changed them.

    Raises:
        InputError: it does not fit them, or is no longer the batch that it was.
    """
    if staged.manifest.facts.get(SCHEMA_FACT) == schema_digest(facts):
        return staged
    again = run_stage_input(spec, facts, runner)
    before, now = staged.manifest.facts["input_digest"], again.manifest.facts
    if before not in (now["input_digest"], now.get("older_digest")):
        raise InputError(
            f"the input of batch {spec.batch_id!r} is not what it was when the run began",
            culprit=", ".join(spec.inputs),
            hint="leave the input alone until the run has ended; run the batch again",
        )
    return again


def _facts_now(table: Table, snapshot: Snapshot, facts: TableFacts) -> TableFacts:
    """The facts with the index in force and the columns that the table has now:
    both may have changed since the run began.

    Raises:
        FencedError: keys are unique in another scope now, by which the batch was not staged.
    """
    index = table.index(snapshot.timeline) or facts.index
    if index.is_global is not facts.is_global:
        raise FencedError(
            f"the index of table {facts.name} was changed from {facts.index_type} to {index.index_type} during the run",
            culprit=index.index_type,
            hint="run the batch again; nothing was published",
        )
    return replace(facts, index=index, schema=table_schema(table, snapshot))
