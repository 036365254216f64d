"""Run single stages under a meter, and stages 2 to 4 one after the other against one snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lakeindex.files.file_system_view import Snapshot
from lakeindex.pipeline import Stage, stages_for
from lakeindex.run.checkpoints import Manifest, RunFolder
from lakeindex.run.lookup_files import read_files
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.run.stage_run import LookedUp, StageRun, summary_of
from lakeindex.run.summary import costs_of
from lakeindex.stages.bloom_check.stage import bloom_check
from lakeindex.stages.index_lookup.stage import index_lookup
from lakeindex.stages.stage_input.stage import stage_input
from lakeindex.stages.verify_keys.carried import VerifiedBefore
from lakeindex.stages.verify_keys.stage import proposed_by, verify_keys
from lakeindex.tasks.runner import Runner, do_task


def run_metered(spec: RunSpec, stage: Callable[[], Manifest]) -> StageRun:
    """Run a stage under a meter, write its manifest, and report what it cost; a whole checkpoint is taken over."""
    outcome = do_task(lambda _: stage(), None)
    manifest = outcome.value
    reused = bool(manifest.costs)
    if not reused:
        manifest = replace(manifest, costs=costs_of(outcome.cost))
        run_folder(spec).write_manifest(manifest)
    return StageRun(manifest, summary_of(manifest, reused=reused))


def run_stage_input(spec: RunSpec, facts: TableFacts, runner: Runner) -> StageRun:
    """Stage 1."""
    return run_metered(spec, lambda: stage_input(spec, facts, runner))


def look_up(
    spec: RunSpec,
    facts: TableFacts,
    snapshot: Snapshot,
    staged: StageRun,
    runner: Runner,
    before: LookedUp | None = None,
) -> LookedUp:
    """Stages 2 to 4 against one snapshot; those whose checkpoints fit are taken over.

    Args:
        spec: the run.
        facts: the table.
        snapshot: its state.
        staged: stage 1.
        runner: schedules the tasks.
        before: the look-up on an earlier snapshot, by the same index: files that did not change are not searched again.
    """
    lookup = run_metered(spec, lambda: index_lookup(spec, facts, snapshot, staged.manifest, runner))
    candidates = lookup
    summaries = [staged.summary, lookup.summary]
    if Stage.BLOOM_CHECK in stages_for(facts.index_type):
        candidates = run_metered(spec, lambda: bloom_check(spec, staged.manifest, lookup.manifest, runner))
        summaries.append(candidates.summary)
    known = None if before is None else _verified(run_folder(spec), before)
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
