"""What a run would do: stages 1 to 4 and the plan of stage 5. The table is read, and nothing of it is written."""

from __future__ import annotations

from msgspec.structs import replace

from lakeindex.commit.ledger import find_done
from lakeindex.conductor.chosen_batch import ChosenBatch, Source, chosen_identity, coming_rows
from lakeindex.conductor.open_for_write import open_and_retry
from lakeindex.conductor.upsert import Batch, GivenBatch, done_before, nothing_to_do, run_stage_input
from lakeindex.errors import UsageError
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import Change, IndexType
from lakeindex.pipeline import Stage
from lakeindex.run.checkpoints import LookedUp, StageRun
from lakeindex.run.chunks import chunks_of
from lakeindex.run.spec import BoundTable, RunSpec, run_folder
from lakeindex.run.summary import PlannedChange, RunSummary
from lakeindex.stages.merge_write.planning import MergePlan, plan_merge
from lakeindex.stages.merge_write.stage import notes_of
from lakeindex.stages.stage_input.batch_columns import identity_of
from lakeindex.table.host import this_host
from lakeindex.tasks.memory_bound import memory_bound
from lakeindex.tasks.runner import Runner


def plan_batch(spec: RunSpec, runner: Runner, source: Source | None = None) -> RunSummary:
    """What the run would do with every row, and to which files.

    The caller sees to it that what is written below the table goes elsewhere
    (:func:`lakeindex.tasks.stores.writing_nothing`), and that the run folder is thrown away.

    Returns:
        The summary that the run would have, without what only writing tells; with ``dry_run``.

    Raises:
        UsageError: an index that is kept outside the table's storage, which a look-up brings up to date there.
        LakeIndexError: what the run would end with before it writes.
    """
    with memory_bound(spec.config.memory):
        return open_and_retry(spec.table_uri, spec.config, lambda opened: _planned(spec, opened, runner, source))


def _planned(spec: RunSpec, opened: BoundTable, runner: Runner, source: Source | None) -> RunSummary:
    if opened.facts.index_type in (IndexType.HBASE, IndexType.STATE) and spec.change is not Change.REPAIR:
        raise UsageError(
            f"a dry run on table {opened.table.name} would change its index {opened.facts.index_type}",
            culprit=opened.facts.index_type,
            hint="a look-up brings such an index up to date, and it is not kept with the table; "
            "`lakeindex advise` estimates without it",
        )
    context = WriteContext(opened.table, this_host(), spec.config, None, spec.force)
    if source is not None:
        coming = coming_rows(spec)
        done = find_done(context, chosen_identity(spec, opened.facts, coming, runner))
        if done is not None:
            return replace(done_before(spec, done), dry_run=True)
        batch: Batch = ChosenBatch(spec, coming, source, runner)
    else:
        batch = GivenBatch(spec, runner, run_stage_input(spec, opened.facts, runner), None)
    staged, bound = batch.staged_on(opened)
    if not staged.manifest.counters["rows_out"]:
        return replace(nothing_to_do(spec, staged), dry_run=True)
    if source is None:
        done = find_done(context, identity_of(spec, staged.manifest))
        if done is not None:
            return replace(done_before(spec, done), dry_run=True)
    looked_up = batch.located(bound, staged, None)
    return _summary(spec, bound, staged, looked_up, runner)


def _summary(spec: RunSpec, bound: BoundTable, staged: StageRun, looked_up: LookedUp, runner: Runner) -> RunSummary:
    folder = run_folder(spec)
    chunks, attempt = chunks_of(folder, looked_up.staged), folder.new_attempt(Stage.MERGE_WRITE)
    planned = plan_merge(spec, bound, chunks, looked_up, runner, attempt)
    found, tags, plan, bad = planned.found, planned.tags, planned.plan, planned.in_the_way.quarantined
    counters = staged.manifest.counters
    summary = RunSummary(
        instant=None,
        batch_id=spec.batch_id,
        run_id=spec.run_id,
        operation=spec.operation,
        noop=not plan.slices and not planned.replaced.files,
        rows_in=int(counters["rows_in"]),
        combined=int(counters["combined"]),
        quarantined=int(counters["quarantined"]) + bad + tags.incomplete.quarantined,
        files_created=sum(one.old is None for one in plan.slices),
        files_rewritten=sum(one.old is not None for one in plan.slices),
        files_replaced=len(planned.replaced.files),
        rows_replaced=planned.counted.rows,
        notes=notes_of(spec, bound.facts) + planned.counted.notes,
        dry_run=True,
        changes=_changes(plan),
        change=spec.change,
    )
    summary = tags.counted_in(summary, found, bad).with_stages(looked_up.summaries)
    summary.check_identity()
    return summary


def _changes(plan: MergePlan) -> tuple[PlannedChange, ...]:
    return tuple(
        PlannedChange(
            one.partition_path,
            None if one.old is None else one.old.path,
            0 if one.old is None else one.old.size_bytes,
            one.updates,
            one.removed,
            one.inserts,
        )
        for one in plan.slices
    )
