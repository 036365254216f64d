"""Stages that have run: their manifests, and their lines in the summary."""

from __future__ import annotations

from dataclasses import dataclass

from lakeindex.errors import LakeIndexError, WriteConflictError
from lakeindex.pipeline import Stage
from lakeindex.run.checkpoints import Manifest, RunFolder
from lakeindex.run.summary import StageSummary, stage_summary


class OutOfDateError(Exception):
    """The table moved before anything was planned on it."""

    def __init__(self, conflict: WriteConflictError) -> None:
        super().__init__(conflict.message)
        self.conflict = conflict


@dataclass(frozen=True, slots=True)
class StageRun:
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
