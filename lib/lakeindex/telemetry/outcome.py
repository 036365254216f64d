"""How a run ended, as metrics and lineage tell it."""

from __future__ import annotations

from enum import StrEnum

from lakeindex.errors import LakeIndexError
from lakeindex.frozen import Frozen
from lakeindex.run.summary import RunSummary, StageSummary

INTERRUPTED = 130


class RunOutcome(StrEnum):
    """What became of a run: it committed, had nothing (more) to commit, or failed."""

    COMMITTED = "committed"
    NOOP = "noop"
    FAILED = "failed"


class RunEnding(Frozen):
    """The end of a run.

    Attributes:
        finished_at: seconds since the epoch.
        exit_code: as the command line ends with.
        summary: what it did; None if it failed.
        error: why it failed; None if it did not.
    """

    outcome: RunOutcome
    finished_at: float
    exit_code: int = 0
    summary: RunSummary | None = None
    stages: tuple[StageSummary, ...] = ()
    error: BaseException | None = None

    @property
    def counted(self) -> RunSummary | None:
        """What this run did itself: None if it failed, or found its batch committed by another run."""
        if self.summary is None or (self.summary.noop and self.summary.instant is not None):
            return None
        return self.summary


def ended_well(summary: RunSummary, finished_at: float) -> RunEnding:
    outcome = RunOutcome.NOOP if summary.noop else RunOutcome.COMMITTED
    return RunEnding(outcome, finished_at, 0, summary, summary.stages)


def ended_badly(error: BaseException, stages: tuple[StageSummary, ...], finished_at: float) -> RunEnding:
    otherwise = 1 if isinstance(error, Exception) else INTERRUPTED
    code = error.exit_code if isinstance(error, LakeIndexError) else otherwise
    return RunEnding(RunOutcome.FAILED, finished_at, code, None, stages, error)
