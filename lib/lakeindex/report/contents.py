"""What a run's report and the history of a table hold, and the one line that says what a run did to which table.

``docs/schemas/report.json`` and ``docs/schemas/report-history.json`` describe the JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from msgspec import field

from lakeindex.frozen import Frozen
from lakeindex.model import Change, Operation
from lakeindex.run.summary import RunSummary
from lakeindex.showing.json_result import SCHEMA_VERSION, JsonResult, TableResult
from lakeindex.showing.json_values import from_known

STEPS_OF_FATES: Final = {
    **{name: name for name in ("updates", "inserts", "deletes", "moved", "ignored")},
    "ignored by a condition": "unmet",
}
"""Steps of a funnel that say what became of rows, and the fields of the run's summary that count them."""


class FunnelStep(Frozen):
    """How much is left after a step.

    Attributes:
        name: what is counted.
        count: how many.
        unit: ``rows``, or ``pairs`` of a key and a file that may hold it.
    """

    name: str
    count: int
    unit: str


class FalsePositives(Frozen):
    """Pairs that the filters let through although the key is not in the file.

    Attributes:
        probed: pairs that were asked.
        expected: as the filters' fill says.
        observed: as the exact match found.
    """

    probed: int
    expected: float
    observed: int


class MetadataUse(Frozen):
    """What the look-up took from Hudi's metadata table instead of listing folders and reading footers.

    Attributes:
        partitions: partitions whose files it named: each is a listing less, at least.
        ranges: files whose key range came from ``column_stats``.
        files_pruned: of those, files that hold no key of the batch by their range: their footers were not read.
        filters: bloom filters from ``bloom_filters``.
        keys: keys that its record index was asked for.
        requests_saved: listings and footers that were not read for it, at least.
    """

    partitions: int
    ranges: int
    files_pruned: int
    filters: int
    keys: int
    requests_saved: int

    @property
    def in_words(self) -> str:
        """All of it that is not nothing."""
        parts = (
            (self.partitions, f"the files of {self.partitions:,} partitions"),
            (self.ranges, f"key ranges of {self.ranges:,} files, {self.files_pruned:,} of them skipped"),
            (self.filters, f"{self.filters:,} filters"),
            (self.keys, f"the places of {self.keys:,} keys"),
        )
        said = "; ".join(text for count, text in parts if count)
        return f"{said} (at least {self.requests_saved:,} requests saved)"


class RangeLine(Frozen):
    """The key range of a file on a scale of 0 to 1 over the ends of all ranges, in key order."""

    partition: str
    file_id: str
    low: float
    high: float


class RangeMap(Frozen):
    """How the files' key ranges overlap.

    Attributes:
        files: files in the scope of the look-up.
        without_range: of them without a range: they are never pruned.
        files_per_key: files that ranges left for a key of the batch, on average.
        lines: ranges in the order of partition and lower end; of many files a sample.
    """

    files: int
    without_range: int
    files_per_key: float
    lines: tuple[RangeLine, ...]


class SizeBin(Frozen):
    """Files of a size: ``below_bytes`` and not in the bin before; None: larger than all."""

    below_bytes: int | None
    in_scope: int
    written: int


class FileLine(Frozen):
    """A file that was written, and why it took what it took."""

    path: str
    seconds: float
    bytes: int
    rows: int
    changed: int
    reason: str


class PastRun(Frozen):
    """An earlier run into the same table."""

    run_id: str
    finished_at: str
    rows_in: int
    seconds: float
    bytes_written: int
    files_written: int
    pairs_kept: float | None
    stage_seconds: dict[str, float]
    startup_seconds: float = 0.0
    waiting_seconds: float = 0.0


class RunReport(JsonResult):
    """One run.

    Attributes:
        table: the table's folder.
        index_type: the index that was asked.
        finished_at: ISO time, UTC.
        run: the summary.
        funnel: from the rows that came in to those that were found.
        false_positives: None if no filters were asked.
        ranges: None if the index has no ranges.
        sizes: histogram of file sizes: files in the scope of the look-up, files written.
        bytes_staged: encoded bytes of the batch's rows.
        amplification: bytes written for a byte of the batch; None if nothing was written.
        slowest: the files that took longest.
        past: up to ten runs before this one, the newest first.
        advice: what stands out: a text each, with the likely cause and what to do.
        metadata: what came from Hudi's metadata table; None if nothing did.
    """

    shown_by: ClassVar[str] = "lakeindex.report.terminal:show_report"

    table: str
    index_type: str
    finished_at: str
    run: RunSummary
    funnel: tuple[FunnelStep, ...]
    false_positives: FalsePositives | None
    ranges: RangeMap | None
    sizes: tuple[SizeBin, ...]
    bytes_staged: int
    amplification: float | None
    slowest: tuple[FileLine, ...]
    past: tuple[PastRun, ...]
    advice: tuple[str, ...]
    schema_version: int = SCHEMA_VERSION
    metadata: MetadataUse | None = None

    @staticmethod
    def from_json(text: str | bytes) -> RunReport:
        """Inverse of :meth:`to_json`; fields of later versions are left out.

        Raises:
            ValueError, TypeError, KeyError: it is no report.
        """
        raw: dict[str, Any] = json.loads(text)
        ranges, false, metadata = raw["ranges"], raw["false_positives"], raw.get("metadata")
        if ranges is not None:
            lines = tuple(from_known(RangeLine, line) for line in ranges["lines"])
            ranges = from_known(RangeMap, {**ranges, "lines": lines})
        parsed = {
            "run": RunSummary.from_json(json.dumps(raw["run"])),
            "funnel": tuple(from_known(FunnelStep, step) for step in raw["funnel"]),
            "false_positives": None if false is None else from_known(FalsePositives, false),
            "ranges": ranges,
            "sizes": tuple(from_known(SizeBin, one) for one in raw["sizes"]),
            "slowest": tuple(from_known(FileLine, line) for line in raw["slowest"]),
            "past": tuple(from_known(PastRun, one) for one in raw["past"]),
            "advice": tuple(raw["advice"]),
            "metadata": None if metadata is None else from_known(MetadataUse, metadata),
        }
        return from_known(RunReport, {**raw, **parsed})


SMALL_FILE_BYTES: Final = 8 * 2**20
"""A base file below this size is called small: each one adds to the cost of a look-up."""


class CommitLine(Frozen):
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


_BATCH_OF_AIRFLOW: Final = re.compile(r"([^/]+)/(.+)/(-?\d+)")
_OPERATIONS: Final[Mapping[str, str]] = {
    Operation.UPSERT: "upsert into",
    Operation.INSERT: "insert into",
    Operation.BULK_INSERT: "bulk insert into",
    Operation.INSERT_OVERWRITE: "overwrite of partitions of",
    Operation.INSERT_OVERWRITE_TABLE: "overwrite of",
    Operation.DELETE: "delete from",
    Operation.DELETE_PARTITION: "delete of partitions of",
}
_CHANGES: Final[Mapping[str, str]] = {
    Change.DELETE: "delete from",
    Change.UPDATE: "update of",
    Change.REPLACE: "replacement of rows of",
    Change.REPAIR: "repair of keys of",
}


def done_to(run: RunSummary) -> str:
    """What was done, with the word that stands before the table: ``upsert into``, ``delete from``."""
    words = _OPERATIONS if run.change is None else _CHANGES
    what = run.change or run.operation
    return words.get(what, f"{what.lower()} of")  # a later release may know more


def title_of(report: RunReport) -> str:
    """What was done to which table by which run; Airflow names a batch by DAG, run and number of the mapped task."""
    run = report.run
    table = report.table.rstrip("/").rpartition("/")[2] or report.table
    by_airflow = _BATCH_OF_AIRFLOW.fullmatch(run.batch_id)
    if by_airflow is None:
        return f"{done_to(run)} {table}: {run.batch_id}"
    dag, name, part = by_airflow.groups()
    number = "" if part == "-1" else f", part {part}"
    return f"{done_to(run)} {table}: run {name}{number} of {dag}"
