"""The run summary: what happened to every row, and the funnel of each stage.
The JSON of the command line and of Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from msgspec import field
from msgspec.structs import replace

from lakeindex.errors import InvariantError
from lakeindex.frozen import Frozen
from lakeindex.showing.json_result import SCHEMA_VERSION, JsonResult
from lakeindex.showing.json_values import from_known
from lakeindex.tasks.meter import StageCost
from lakeindex.time_spent import Spent

FATES = ("combined", "quarantined", "inserts", "updates", "deletes", "moved", "ignored")
"""What happens to a row of the input: exactly one of these, fields of :class:`RunSummary`."""

STARTUP: Final = "start-up"
WAITING: Final = "waiting"
OUTSIDE: Final = "between the stages"
"""What the seconds of a run are that are no stage's work."""


class StageSummary(Frozen):
    """One stage.

    Attributes:
        name: the stage.
        seconds: wall time without start-up and waiting; of a reused checkpoint, when it was made.
        rows_in: rows that came in.
        rows_out: rows passed to the next stage.
        pairs_in: (key, file) pairs before the stage, 0 where it has none.
        pairs_out: pairs after it.
        bytes_read: bytes read from storage.
        requests: storage requests.
        bytes_written: bytes written to storage, checkpoints included.
        tasks: tasks that the runner was given.
        slowest_task_seconds: the longest of them, without start-up and waiting.
        median_task_seconds: half of them took longer. If it is far below the longest, the work was divided unevenly.
        peak_bytes: most resident memory of a process that worked for the stage, whatever it did before; 0 if unknown.
        reused: the checkpoint of an earlier attempt was reused.
        counters: everything else the stage counted.
        startup_seconds: start-up before the stage and in it: code was loaded, a session or workers were
            started; of a command or a job, since its process began.
        waiting_seconds: waiting before the stage and in it: for the table's lock, a turn, memory or a free slot.
        other_seconds: what else was done since the stage before: opening the table, beginning, attempts that were lost.
    """

    name: str
    seconds: float
    rows_in: int
    rows_out: int
    pairs_in: int
    pairs_out: int
    bytes_read: int
    requests: int
    reused: bool = False
    counters: Mapping[str, int | float] = field(default_factory=dict)
    bytes_written: int = 0
    tasks: int = 0
    slowest_task_seconds: float = 0.0
    median_task_seconds: float = 0.0
    peak_bytes: int = 0
    startup_seconds: float = 0.0
    waiting_seconds: float = 0.0
    other_seconds: float = 0.0


class Estimate(Frozen):
    """The cost model's estimate of the look-up (stages 2 to 4) of a run, beside the measured values.

    Attributes:
        seconds: estimated.
        actual_seconds: measured.
        bytes_read: estimated.
        actual_bytes_read: measured.
    """

    seconds: float
    actual_seconds: float
    bytes_read: int
    actual_bytes_read: int


class PlannedChange(Frozen):
    """A base file that a dry run says would be written.

    Attributes:
        partition: its partition path.
        path: the file that would be rewritten; None: a new file group.
        bytes: size of that file.
        updates: its rows that would be replaced.
        removed: its rows that would be deleted, or moved to another partition.
        inserts: rows that would be added.
    """

    partition: str
    path: str | None
    bytes: int
    updates: int
    removed: int
    inserts: int


class RunSummary(JsonResult):
    """What one write did; counts are rows unless they say files or bytes.

    Attributes:
        instant: the commit, or None if nothing was committed.
        batch_id: names the batch.
        run_id: names the checkpoints.
        operation: Hudi's ``operationType``.
        noop: nothing was committed by this run: the batch was empty, changed nothing, or was committed before.
        rows_in: rows of the input.
        combined: older duplicates inside the batch.
        quarantined: bad rows, written to the quarantine file.
        inserts: new keys.
        updates: replaced rows.
        deletes: removed rows, one a row of the batch.
        moved: rows that went to another partition (global index).
        ignored: rows older than the stored row, deletes of keys that are not stored, and rows that do not meet a
            condition of the write.
        unmet: of the ignored rows, those that do not meet a condition.
        copies: removed rows beside those: of keys that another writer has stored more than once.
        files_created: new file groups.
        files_rewritten: file groups with a new slice.
        bytes_written: bytes of base files.
        bytes_copied: of them, those of column chunks that were copied; the others were encoded.
        rows_copied: untouched rows that were rewritten with their file.
        chunks_copied: column chunks of the new files that were copied as bytes.
        chunks_encoded: column chunks of the new files that were encoded.
        files_replaced: file groups that are no part of the table any more, as a whole partition was replaced.
        rows_replaced: rows that were in them.
        seconds: wall time of the whole run, start-up and waiting included.
        startup_seconds: of them, start-up; in none of the stages' seconds.
        waiting_seconds: of them, waiting; in none of the stages' seconds.
        retries: attempts at the merge that were lost to other writers.
        change: what was done with the rows that a condition chose: delete, update or replace; None: there was none.
        stages: the stages that ran, in order.
        estimate: the cost model's estimate of the look-up; None if there was none.
        notes: information for the caller: options that change nothing, an index that is behind.
        dry_run: nothing was written: the counts of rows and files are what a run would do now; ``instant`` is that of
            an earlier run that committed the batch, and ``noop`` says that there is nothing to do.
        changes: of a dry run, the files that would be written.
    """

    shown_by: ClassVar[str] = "results:show_run"

    instant: str | None
    batch_id: str
    run_id: str
    operation: str
    noop: bool
    rows_in: int = 0
    combined: int = 0
    quarantined: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    moved: int = 0
    ignored: int = 0
    unmet: int = 0
    files_created: int = 0
    files_rewritten: int = 0
    bytes_written: int = 0
    bytes_copied: int = 0
    rows_copied: int = 0
    chunks_copied: int = 0
    chunks_encoded: int = 0
    files_replaced: int = 0
    rows_replaced: int = 0
    seconds: float = 0.0
    stages: tuple[StageSummary, ...] = ()
    estimate: Estimate | None = None
    notes: tuple[str, ...] = ()
    dry_run: bool = False
    changes: tuple[PlannedChange, ...] = ()
    startup_seconds: float = 0.0
    waiting_seconds: float = 0.0
    retries: int = 0
    change: str | None = None
    copies: int = 0
    schema_version: int = SCHEMA_VERSION

    @property
    def outcome(self) -> str:
        """How the run ended, in words."""
        if self.instant and not self.noop:
            return f"committed {self.instant}"
        if self.instant:
            return f"done before, in {self.instant}"
        return "dry run, nothing written" if self.dry_run else "nothing committed"

    @property
    def bytes_to_rewrite(self) -> int:
        """Of a dry run: size of the files that would be rewritten."""
        return sum(one.bytes for one in self.changes)

    @property
    def beside_stages(self) -> dict[str, float]:
        """Seconds that are no stage's work, by what they were: start-up, waiting, and what was between the stages."""
        stages = sum(stage.seconds for stage in self.stages)
        rest = max(self.seconds - stages - self.startup_seconds - self.waiting_seconds, 0.0)
        return {STARTUP: self.startup_seconds, WAITING: self.waiting_seconds, OUTSIDE: rest}

    @property
    def fates(self) -> dict[str, int]:
        """Rows by what happened to them, without those that are 0."""
        return {name: count for name in FATES if (count := getattr(self, name))}

    def __repr__(self) -> str:
        counts = "".join(f", {count:,} {name}" for name, count in self.fates.items())
        gone = f", {self.rows_replaced:,} replaced" if self.files_replaced else ""
        return (
            f"<{self.operation.lower()} {self.batch_id!r}: {self.outcome}; {self.rows_in:,} rows in{counts}{gone}; "
            f"{self.seconds:.2f} s>"
        )

    def with_stages(self, stages: Sequence[StageSummary]) -> RunSummary:
        """The same run with its stages, whose time, and what was between them, is its time."""
        startup, waiting = sum(one.startup_seconds for one in stages), sum(one.waiting_seconds for one in stages)
        work = sum(one.seconds + one.other_seconds for one in stages)
        return replace(
            self,
            stages=tuple(stages),
            seconds=round(work + startup + waiting, 4),
            startup_seconds=round(startup, 4),
            waiting_seconds=round(waiting, 4),
        )

    def check_identity(self) -> None:
        """Every row of the input has exactly one fate.

        Raises:
            InvariantError: the counts do not add up.
        """
        fates = (
            self.combined + self.quarantined + self.inserts + self.updates + self.deletes + self.moved + self.ignored
        )
        if self.rows_in != fates:
            raise InvariantError(
                f"{self.rows_in} rows came in, but {fates} are accounted for",
                culprit=self.run_id,
                hint="nothing was published; report this with the run folder",
            )

    @staticmethod
    def from_json(text: str | bytes) -> RunSummary:
        """Inverse of :meth:`to_json`; fields of later versions are left out."""
        raw: dict[str, Any] = json.loads(text)
        estimate = raw.get("estimate")
        parsed = {
            "stages": tuple(from_known(StageSummary, one) for one in raw.get("stages", ())),
            "estimate": from_known(Estimate, estimate) if estimate else None,
            "notes": tuple(raw.get("notes", ())),
            "changes": tuple(from_known(PlannedChange, one) for one in raw.get("changes", ())),
        }
        return from_known(RunSummary, {**raw, **parsed})


def costs_of(cost: StageCost, spent: Spent) -> dict[str, int | float]:
    """A stage's cost as its manifest holds it, by the names of :class:`StageSummary`; spent: since the last stage."""
    import numpy as np  # loaded already where costs are made

    return {
        "seconds": cost.seconds,
        "startup_seconds": round(spent.startup, 4),
        "waiting_seconds": round(spent.waiting, 4),
        "other_seconds": round(max(spent.work - cost.seconds, 0.0), 4),
        "requests": cost.io.requests,
        "bytes_read": cost.io.bytes_read,
        "bytes_written": cost.io.bytes_written,
        "tasks": len(cost.task_seconds),
        "slowest_task_seconds": round(max(cost.task_seconds, default=0.0), 4),
        "median_task_seconds": round(float(np.median(cost.task_seconds or (0.0,))), 4),
        "peak_bytes": cost.peak_bytes,
    }


_COUNTS: Final = ("rows_in", "rows_out", "pairs_in", "pairs_out")


def stage_summary(
    name: str, costs: Mapping[str, int | float], counters: Mapping[str, int | float], *, reused: bool
) -> StageSummary:
    """A stage's line from the costs and counters that its manifest holds."""
    counts: dict[str, Any] = {one: int(counters.get(one, 0)) for one in _COUNTS}
    shown = {one: count for one, count in counters.items() if one not in _COUNTS}
    known: dict[str, Any] = {one: cost for one, cost in costs.items() if one in StageSummary.__struct_fields__}
    known["seconds"] = round(costs["seconds"], 4)
    return StageSummary(name, **counts, **known, reused=reused, counters=shown)
