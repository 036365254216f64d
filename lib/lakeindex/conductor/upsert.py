"""A whole run in one process, and single stages for the jobs of a DAG. Both go through the same functions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lakeindex.aftermath import noted
from lakeindex.conductor.merge_attempts import merge_until_published
from lakeindex.conductor.opened import Opened, open_for_write, while_still
from lakeindex.conductor.stage_runs import look_up, run_metered, run_stage_input
from lakeindex.errors import UsageError
from lakeindex.pipeline import SUMMARY_FILE, Stage, stages_for
from lakeindex.run.checkpoints import CheckpointError, Manifest
from lakeindex.run.spec import RunSpec, run_folder
from lakeindex.run.stage_run import LookedUp, StageRun, summary_of
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.stages.bloom_check.stage import bloom_check
from lakeindex.stages.index_lookup.stage import index_lookup
from lakeindex.stages.verify_keys.stage import verify_keys
from lakeindex.tasks.memory_bound import memory_bound
from lakeindex.tasks.runner import Runner


def run_batch(spec: RunSpec, runner: Runner) -> RunSummary:
    """All stages, in order. Checkpoints of an earlier attempt that turn out damaged are thrown away and made again.

    Returns:
        The summary; it is also in the run folder.
    """
    with memory_bound(spec.config.memory):
        try:
            return _run_batch(spec, runner)
        except CheckpointError:
            _forget_checkpoints(spec)
            return _run_batch(spec, runner)


def _run_batch(spec: RunSpec, runner: Runner) -> RunSummary:
    def stages_1_to_4(opened: Opened) -> tuple[Opened, StageRun, LookedUp | None]:
        staged = run_stage_input(spec, opened.facts, runner)
        if not staged.manifest.counters["rows_out"]:
            return opened, staged, None
        return opened, staged, look_up(spec, opened.facts, opened.snapshot, staged, runner)

    opened, staged, looked_up = while_still(spec.table_uri, spec.config, stages_1_to_4)
    if looked_up is None:
        return _keep(spec, _nothing_to_do(spec, staged))
    return _keep(spec, merge_until_published(spec, opened.table, opened.facts, staged, looked_up, runner))


def _forget_checkpoints(spec: RunSpec) -> None:
    folder = run_folder(spec)
    for stage in Stage:
        folder.store.delete(folder.manifest_path(stage))


def run_stage(stage: Stage, spec: RunSpec, runner: Runner) -> StageSummary | RunSummary:
    """One stage of a run; those before it must have left their checkpoints.

    Raises:
        CheckpointError: an earlier stage's checkpoint is missing, damaged or foreign.
    """
    with memory_bound(spec.config.memory):
        result = _run_stage(stage, spec, runner)
        if stage is not Stage.MERGE_WRITE:
            run_folder(spec).make_durable(stage)
        return result


def _run_stage(stage: Stage, spec: RunSpec, runner: Runner) -> StageSummary | RunSummary:
    if stage is Stage.MERGE_WRITE:
        return _run_merge_write(spec, runner)

    def work(opened: Opened) -> StageSummary:
        if stage is Stage.STAGE_INPUT:
            return run_stage_input(spec, opened.facts, runner).summary
        before = _checkpoints_before(stage, spec, opened, runner)
        return run_metered(spec, lambda: _look_up_stage(stage, spec, opened, before, runner)).summary

    return while_still(spec.table_uri, spec.config, work)


def _run_merge_write(spec: RunSpec, runner: Runner) -> RunSummary:
    opened = open_for_write(spec.table_uri, spec.config)
    done = _checkpoints_before(Stage.MERGE_WRITE, spec, opened, runner)[Stage.STAGE_INPUT]
    staged = StageRun(done, summary_of(done, reused=False))
    if not done.counters["rows_out"]:
        return _keep(spec, _nothing_to_do(spec, staged))
    return _keep(spec, merge_until_published(spec, opened.table, opened.facts, staged, None, runner))


def _checkpoints_before(stage: Stage, spec: RunSpec, opened: Opened, runner: Runner) -> dict[Stage, Manifest]:
    """What the stages before this one left; one that another release left is made again here."""
    folder = run_folder(spec)
    needed = list(stages_for(opened.facts.index_type))
    if stage not in needed:
        raise UsageError(
            f"index type {opened.facts.index_type} has no stage {stage}",
            culprit=stage,
            hint=f"its stages: {', '.join(needed)}",
        )
    before: dict[Stage, Manifest] = {}
    for earlier in needed[: needed.index(stage)]:
        if not folder.has_other_version(earlier):
            before[earlier] = folder.require_manifest(earlier)
        elif earlier is Stage.STAGE_INPUT:
            before[earlier] = run_stage_input(spec, opened.facts, runner).manifest
        else:
            before[earlier] = run_metered(
                spec, partial(_look_up_stage, earlier, spec, opened, dict(before), runner)
            ).manifest
    return before


def _look_up_stage(
    stage: Stage, spec: RunSpec, opened: Opened, before: dict[Stage, Manifest], runner: Runner
) -> Manifest:
    staged = before[Stage.STAGE_INPUT]
    if stage is Stage.INDEX_LOOKUP:
        return index_lookup(spec, opened.facts, opened.snapshot, staged, runner)
    lookup = before[Stage.INDEX_LOOKUP]
    if stage is Stage.BLOOM_CHECK:
        return bloom_check(spec, staged, lookup, runner)
    return verify_keys(spec, opened.facts, staged, lookup, before.get(Stage.BLOOM_CHECK, lookup), runner)


def _nothing_to_do(spec: RunSpec, staged: StageRun) -> RunSummary:
    """An empty batch is done, with nothing committed."""
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
        seconds=staged.summary.seconds,
        stages=(staged.summary,),
        notes=spec.config.notes,
    )


def _keep(spec: RunSpec, summary: RunSummary) -> RunSummary:
    store, path = run_folder(spec).store, f"{spec.run_id}/{SUMMARY_FILE}"
    notes = noted(f"{path} could not be written", lambda: store.write(path, summary.to_json().encode()))
    return replace(summary, notes=summary.notes + notes)
