"""What the history of a table holds; ``docs/schemas/report-history.json`` describes its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from lakeindex.report.run_report import FalsePositives
from lakeindex.showing.json_result import SCHEMA_VERSION, TableResult

SMALL_FILE_BYTES: Final = 8 * 2**20
"""A base file below this size is called small: each one adds to the cost of a look-up."""


@dataclass(frozen=True, slots=True)
class CommitLine:
    """A commit, the table after it, and what its run took.

    Attributes:
        instant: its time.
        time: ISO text; None if the digits are no date.
        operation: UPSERT, DELETE, CLUSTER, ...; None if the commit does not say.
        batch_id: the batch, if the commit is ours.
        run_id: the run, if the commit is ours.
        files: live base files after the commit.
        bytes: their size; None if that of one of them is known to nobody any more.
        small_files: of them below :data:`SMALL_FILE_BYTES`; None as ``bytes``.
        inserts: rows inserted.
        updates: rows updated.
        deletes: rows deleted.
        files_written: base files that the commit wrote.
        bytes_written: their size.
        source: where the run's figures are from: ``run folder``, ``ledger`` (as they were just before the commit), or
            None: there are none, and all fields below are empty.
        rows_in: rows of the batch.
        seconds: wall time of the run.
        stage_seconds: seconds by stage, without start-up and waiting.
        startup_seconds: of the seconds, start-up.
        waiting_seconds: of the seconds, waiting.
        false_positives: pairs that the filters let through; None if no filters were asked.
    """

    instant: str
    time: str | None
    operation: str | None
    batch_id: str | None
    run_id: str | None
    files: int
    bytes: int | None
    small_files: int | None
    inserts: int
    updates: int
    deletes: int
    files_written: int
    bytes_written: int
    source: str | None = None
    rows_in: int | None = None
    seconds: float | None = None
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    false_positives: FalsePositives | None = None
    startup_seconds: float | None = None
    waiting_seconds: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class TableReport(TableResult):
    """A table over its runs.

    Attributes:
        checkpoints: root of the run folders that were looked into.
        commits: completed writes of the active timeline, newest first.
        notes: what cannot be shown, and why; a sentence each.
        small_below: size in bytes below which a file is called small.
    """

    shown_by: ClassVar[str] = "lakeindex.report.terminal:show_table_report"

    checkpoints: str
    commits: tuple[CommitLine, ...]
    notes: tuple[str, ...]
    small_below: int = SMALL_FILE_BYTES
    schema_version: int = SCHEMA_VERSION

    def __repr__(self) -> str:
        known = sum(one.seconds is not None for one in self.commits)
        return f"<{self.table}: {len(self.commits):,} commits, seconds of {known:,} of them>"
