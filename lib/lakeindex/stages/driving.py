"""Run stages in order: one at a time for the jobs of a DAG, or all of them in one process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lakeindex.errors import LakeIndexError
from lakeindex.pipeline import Stage, stages_for
from lakeindex.stages.bloom_check import bloom_check
from lakeindex.stages.carrying import VerifiedBefore
from lakeindex.stages.checkpoints import Manifest, RunFolder
from lakeindex.stages.context import RunSpec, TableFacts, run_folder
from lakeindex.stages.index_lookup import index_lookup
from lakeindex.stages.lookup_files import read_files
from lakeindex.stages.scheduling import Runner, do_task
from lakeindex.stages.stage_input import stage_input
from lakeindex.stages.summary import StageSummary, costs_of, stage_summary
from lakeindex.stages.verify_keys import proposed_by, verify_keys
from lakeindex.table.file_system_view import Snapshot


@dataclass(frozen=True, slots=True)
class Driven:
    """A stage's manifest, and its line in the summary."""

    manifest: Manifest
    summary: StageSummary


@dataclass(frozen=True, slots=True)
class LookedUp:
    """The batch and where its keys are, as of one snapshot."""

    staged: Manifest
    lookup: Manifest
    candidates: Manifest
    verified: Manifest
    summaries: tuple[StageSummary, ...]


def drive(spec: RunSpec, stage: Callable[[], Manifest]) -> Driven:
    """Run a stage under a meter, write its manifest, and report what it cost; a whole checkpoint is taken over."""
    outcome = do_task(lambda _: stage(), None)
    manifest = outcome.value
    reused = bool(manifest.costs)
    if not reused:
        manifest = replace(manifest, costs=costs_of(outcome.cost))
        run_folder(spec).write_manifest(manifest)
    return Driven(manifest, summary_of(manifest, reused=reused))


def summary_of(manifest: Manifest, *, reused: bool) -> StageSummary:
    """A finished stage's line: what it cost when it was made."""
    return stage_summary(manifest.stage, manifest.costs, manifest.counters, reused=reused)


def finished_stages(folder: RunFolder) -> tuple[StageSummary, ...]:
    """Lines of the stages that left a checkpoint in a run's folder, whatever became of the run."""
    lines = []
    for stage in Stage:
        try:
            manifest = folder.read_manifest(stage)
        except LakeIndexError:
            continue
        if manifest is not None and manifest.costs:
            lines.append(summary_of(manifest, reused=False))
    return tuple(lines)


def drive_stage_input(spec: RunSpec, facts: TableFacts, runner: Runner) -> Driven:
    """Stage 1."""
    return drive(spec, lambda: stage_input(spec, facts, runner))


def look_up(
    spec: RunSpec,
    facts: TableFacts,
    snapshot: Snapshot,
    staged: Driven,
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
    lookup = drive(spec, lambda: index_lookup(spec, facts, snapshot, staged.manifest, runner))
    candidates = lookup
    summaries = [staged.summary, lookup.summary]
    if Stage.BLOOM_CHECK in stages_for(facts.index_type):
        candidates = drive(spec, lambda: bloom_check(spec, staged.manifest, lookup.manifest, runner))
        summaries.append(candidates.summary)
    known = None if before is None else _verified(run_folder(spec), before)
    verified = drive(
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
