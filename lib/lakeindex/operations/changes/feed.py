"""The changes between two points in time, in batches, or in one file (``lakeindex changes``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import UsageError
from lakeindex.format.instants import comparable
from lakeindex.operations.changes.compare import Change, ChangedRows, GroupPair, changed_groups, compared
from lakeindex.operations.changes.states import end_of, named_point, newest_completed, state_at
from lakeindex.operations.consistent_read import read_consistently, streamed
from lakeindex.operations.rows.aligned_rows import aligned_batches, open_base_file, row_schema
from lakeindex.operations.rows.out_file import check_out, put_file, row_writer
from lakeindex.operations.rows.request import ScanRequest
from lakeindex.operations.rows.time_travel import check_meta_columns
from lakeindex.options.parse import parse_options
from lakeindex.run.feeds import Feed
from lakeindex.showing.json_result import TableResult
from lakeindex.storage.paths import absolute
from lakeindex.table.columns import table_schema
from lakeindex.table.handle import Table
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.base_file import COMMIT_TIME
from lakeindex.write.types.avro_schema import CHANGE_TYPE

_T = TypeVar("_T")

COMMIT_INSTANT: Final = "_commit_instant"


@dataclass(frozen=True)
class ChangesRequest:
    """Which changes are asked for.

    Attributes:
        since: an instant or ISO time, exclusive; None: the beginning, when there were no rows.
        until: an instant, inclusive.
        columns: columns to return before those of the change; None: the table's.
        meta: the meta columns come first, where ``columns`` does not say what is wanted.
        options: ``hoodie.metadata.enable`` counts.
    """

    since: str | None = None
    until: str | None = None
    columns: tuple[str, ...] | None = None
    meta: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ChangesPlan:
    """File groups that differ between two states.

    Attributes:
        table: the table.
        timeline: as it was listed.
        rows: columns of a row that are read.
        schema: columns that are given out.
        pairs: the file groups.
        across_partitions: a row may have moved to another partition.
    """

    table: Table
    timeline: Timeline
    rows: pa.Schema
    schema: pa.Schema
    pairs: tuple[GroupPair, ...]
    across_partitions: bool


@dataclass(frozen=True, slots=True)
class ChangesSummary(TableResult):
    """What ``lakeindex changes`` wrote.

    Attributes:
        since: the first point, exclusive, as an instant; None: the beginning.
        until: the second point, inclusive, as an instant: the next feed begins there. None on a table without commits.
        inserts: keys that were not there before.
        updates: keys whose row was written again; two rows of the file each.
        deletes: keys that are not there any more.
        file_groups: file groups that were compared.
        out: the file written.
        bytes_written: its size.
    """

    shown_by: ClassVar[str] = "results:show_changes"

    since: str | None
    until: str | None
    inserts: int
    updates: int
    deletes: int
    file_groups: int
    out: str
    bytes_written: int


def resolved(uri: str, request: ChangesRequest) -> tuple[str | None, str | None]:
    """The instants of both points; of ``until`` that of the write that was completed last, if it is not given.

    Raises:
        UsageError: a point that the history does not reach, or the second is before the first.
        TableError: no table, or one that is not read.
    """

    def points(table: Table, timeline: Timeline) -> tuple[str | None, str | None]:
        check_meta_columns(table, "changes")
        since = None if request.since is None else named_point(table, timeline, request.since, "since")
        if request.until is None:
            return since, newest_completed(timeline)
        until = named_point(table, timeline, request.until, "until")
        if since is not None and comparable(until) < comparable(since):
            raise UsageError(
                f"until ({request.until}) is before since ({request.since})",
                culprit=request.until,
                hint="changes go forward: exchange them",
            )
        return since, until

    return read_consistently(uri, points)


def plan_changes(uri: str, request: ChangesRequest) -> ChangesPlan:
    """Find the file groups that differ; no row is read.

    Args:
        request: with resolved points.

    Raises:
        UsageError: files of a point were cleaned away (the earliest instant is said), or a column that is not there.
        TableError: a commit or committed file that is damaged or gone.
    """
    return of_one_state(uri, request, lambda plan: plan)


def of_one_state(uri: str, request: ChangesRequest, work: Callable[[ChangesPlan], _T]) -> _T:
    """Do work on a plan, anew if other writers take away what it reads; arguments and errors as of
    :func:`plan_changes`.
    """
    return read_consistently(
        uri,
        lambda table, timeline: work(_plan(table, timeline, request, absolute(uri))),
        use_metadata=parse_options(request.options).use_metadata,
    )


def _plan(table: Table, timeline: Timeline, request: ChangesRequest, source: str) -> ChangesPlan:
    until = request.until
    after = state_at(table, timeline, until, "until") if until is not None else table.snapshot(timeline=timeline)
    rows = row_schema(
        table_schema(table, after if after.timeline.completed_writes else table.snapshot(timeline=timeline))
    )
    chosen = ScanRequest(columns=request.columns, meta=request.meta).chosen(rows)
    pairs: tuple[GroupPair, ...]
    if request.since is None:
        pairs = tuple(GroupPair(None, one, one.instant_time) for one in after.base_files_all())
    else:
        pairs = changed_groups(state_at(table, timeline, request.since, "since"), after)
    index = table.index(timeline)
    given = pa.schema([*chosen, pa.field(CHANGE_TYPE, pa.string()), pa.field(COMMIT_INSTANT, pa.string())])
    if until is not None:
        since = None if request.since is None else end_of(timeline, request.since)
        given = given.with_metadata(Feed(source, since, end_of(timeline, until)).metadata)
    extra = [rows.field(COMMIT_TIME)] if COMMIT_TIME not in chosen.names else []
    return ChangesPlan(
        table,
        timeline,
        pa.schema([*chosen, *extra]),
        given,
        pairs,
        index is not None and index.is_global,
    )


def stream_changes(uri: str, request: ChangesRequest) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The changes in batches, and their columns; errors of a plan are raised at once."""
    plan = plan_changes(uri, request)
    return plan.schema, streamed(plan, batches_of, lambda: plan_changes(uri, request))


def write_changes(uri: str, out: str, request: ChangesRequest) -> ChangesSummary:
    """Write the changes into one file, a batch at a time: Parquet, CSV, JSON lines or Arrow, as its name says.
    It appears whole or not at all.

    Args:
        out: a path, or a URL (then the file is spooled to local disk and put in one piece).
        request: which changes.

    Raises:
        TableError: no table, or one that is not read; a damaged file, by name.
        UsageError: a point in time that the history does not reach, or ``out`` cannot be written.
        WriteConflictError: other writers took away what was read, again and again.
    """
    check_out(out)
    since, until = resolved(uri, request)

    def write(plan: ChangesPlan) -> tuple[ChangesPlan, Counter[str], int]:
        counts = Counter[str]()
        size = put_file(out, lambda spool: _write_all(plan, out, spool, counts))[1]
        return plan, counts, size

    plan, counts, size = of_one_state(uri, replace(request, since=since, until=until), write)
    return ChangesSummary(
        table=plan.table.name,
        uri=plan.table.uri,
        since=since,
        until=until,
        inserts=counts[Change.INSERT],
        updates=counts[Change.AFTER],
        deletes=counts[Change.DELETE],
        file_groups=len(plan.pairs),
        out=out,
        bytes_written=size,
    )


def _write_all(plan: ChangesPlan, out: str, path: Path, counts: Counter[str]) -> int:
    with row_writer(out, path, plan.schema) as writer:
        for batch in batches_of(plan):
            writer.write_table(pa.Table.from_batches([batch]))
            for one in pc.value_counts(batch.column(CHANGE_TYPE)).to_pylist():
                counts[one["values"]] += one["counts"]
    return counts.total()


def batches_of(plan: ChangesPlan) -> Iterator[pa.RecordBatch]:
    """The changes of a plan. Raises: TableCorruptError: a file is missing or cannot be read."""
    for changed in compared(plan.table.storage, plan.pairs, across_partitions=plan.across_partitions):
        yield from _rows_of(plan, changed)


def _rows_of(plan: ChangesPlan, changed: ChangedRows) -> Iterator[pa.RecordBatch]:
    file, first, given = changed.file, 0, 0
    source = open_base_file(plan.table.storage, file)
    for group in range(source.num_row_groups):
        end = first + source.metadata.row_group(group).num_rows
        if changed.rows is not None and not _between(changed.rows, first, end):
            first = end
            continue
        for batch in aligned_batches(source, file, group, plan.rows):
            rows = batch
            instants = rows.column(COMMIT_TIME)
            if changed.rows is not None:
                start, stop = np.searchsorted(changed.rows, [first, first + batch.num_rows])
                rows = batch.take(pa.array(changed.rows[start:stop] - first))
                instants = rows.column(COMMIT_TIME)
                if changed.instants is not None:
                    instants = pa.chunked_array([changed.instants.slice(given, stop - start)])
                given += int(stop - start)
            first += batch.num_rows
            if rows.num_rows:
                yield from _with_change(rows, changed.change, instants, plan).to_batches()


def _between(rows: np.ndarray, first: int, end: int) -> bool:
    start, stop = np.searchsorted(rows, [first, end])
    return bool(stop > start)


def _with_change(rows: pa.Table, change: Change, instants: pa.ChunkedArray, plan: ChangesPlan) -> pa.Table:
    columns = [rows.column(name) for name in plan.schema.names[:-2]]
    kinds = pa.array([change.value] * rows.num_rows, pa.string())
    return pa.table([*columns, kinds, instants], schema=plan.schema)
