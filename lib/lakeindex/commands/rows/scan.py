"""Scan a table: whole, streamed, counted, explained; each of one snapshot.

Other writers may take files away. While nothing was given out, the scan begins anew; afterwards it ends with an error
that says so, as rows of two snapshots must not be mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol, TypeVar

import pyarrow as pa

from lakeindex.commands.consistent_read import TRIES, has_other_timeline, read_consistently
from lakeindex.commands.rows.file_reader import FileReader, Tally
from lakeindex.commands.rows.plan import ScanPlan, plan_scan
from lakeindex.commands.rows.request import ScanReport, ScanRequest
from lakeindex.errors import MOVED_ERRORS, LakeIndexError, WriteConflictError
from lakeindex.options.parse import parse_options
from lakeindex.storage import decoded_in_parallel
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner, do_task
from lakeindex.timeline.timeline import Timeline

_T = TypeVar("_T")


@dataclass(frozen=True)
class Scanner:
    """A scan that has not begun.

    Attributes:
        uri: the table.
        request: what is asked for.
        runner: for indexes that need an engine.
    """

    uri: str
    request: ScanRequest
    runner: Runner

    def plan(self) -> ScanPlan:
        """Which files are opened. Raises: as :func:`~lakeindex.commands.rows.plan.plan_scan`."""
        return self.of_one_snapshot(lambda plan: plan)

    def rows(self) -> pa.Table:
        """All chosen rows. Raises: as :meth:`plan`, and TableCorruptError: a file cannot be read."""
        return self.of_one_snapshot(rows_of)

    def count(self) -> int:
        """How many rows are chosen."""
        return self.of_one_snapshot(lambda plan: sum(decoded_in_parallel(self.uri, FileReader.count, plan.readers())))

    def explain(self, *, analyze: bool) -> ScanReport:
        """What the scan leaves out; what it reads, too, if it is to be done for that."""
        if not analyze:
            return self.plan().report()
        started = perf_counter()
        outcome = do_task(lambda _: self.of_one_snapshot(_analyzed), None)
        io = outcome.cost.io
        seconds = round(perf_counter() - started, 4)
        return replace(outcome.value, requests=io.requests, bytes_read=io.bytes_read, seconds=seconds)

    def stream(self) -> Stream:
        """The rows in batches, and their columns. Errors of a plan are raised at once."""
        plan = self.plan()
        return Stream(plan.schema, streamed(self.uri, plan, self.plan, batches_of))

    def of_one_snapshot(self, work: Callable[[ScanPlan], _T]) -> _T:
        """Do work on a plan, anew if other writers take away what it reads. Raises: as :meth:`rows`."""
        use_metadata = parse_options(self.request.options).use_metadata
        return read_consistently(
            self.uri,
            lambda table, timeline: work(plan_scan(table, timeline, self.request, self.runner)),
            use_metadata=use_metadata,
        )


@dataclass(frozen=True)
class Stream:
    """Rows in batches.

    Attributes:
        schema: their columns.
        batches: the rows; once only.
    """

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Planned(Protocol):
    """What is read of one snapshot."""

    @property
    def timeline(self) -> Timeline:
        """The timeline as it was listed."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""

    @property
    def table(self) -> Table:
        """The table."""


_P = TypeVar("_P", bound=Planned)


def streamed(
    uri: str, plan: _P, again: Callable[[], _P], batches: Callable[[_P], Iterator[pa.RecordBatch]]
) -> Iterator[pa.RecordBatch]:
    """The rows of a plan; of a new one, if other writers take away what is read and nothing was given out yet.

    Args:
        plan: what is read.
        again: makes a new plan.
        batches: reads one.

    Raises:
        WriteConflictError: something was given out, or it was taken away in every try.
    """
    schema, given, tries = plan.schema, 0, 1
    while True:
        try:
            for batch in batches(plan):
                given += batch.num_rows
                yield batch
            return
        except MOVED_ERRORS as error:
            if not has_other_timeline(uri, plan.timeline):
                raise
            if given or tries == TRIES:
                raise taken_away(plan, given, error) from error
        tries += 1
        plan = again()
        if not plan.schema.equals(schema):
            raise taken_away(plan, given, LakeIndexError("its columns were changed"))


def rows_of(plan: ScanPlan) -> pa.Table:
    """All rows of a plan, several files at a time."""
    files = plan.readers()
    pieces = decoded_in_parallel(plan.table.uri, lambda one: one.table(use_threads=len(files) == 1), files)
    return pa.concat_tables([plan.schema.empty_table(), *pieces])


def batches_of(plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    """The rows of a plan, a batch at a time."""
    for one in plan.readers():
        for rows in one.tables():
            yield from rows.cast(plan.schema).to_batches()


def pinned_batches(plan: ScanPlan) -> Iterator[pa.RecordBatch]:
    """The rows of a plan that was made before, for readers that come back to it.

    Raises:
        WriteConflictError: other writers have taken away what it reads.
    """
    given = 0
    try:
        for batch in batches_of(plan):
            given += batch.num_rows
            yield batch
    except MOVED_ERRORS as error:
        if not has_other_timeline(plan.table.uri, plan.timeline):
            raise
        raise taken_away(plan, given, error) from error


def taken_away(plan: Planned, given: int, error: LakeIndexError) -> WriteConflictError:
    """The error of a scan that cannot go on, nor begin anew."""
    told = f"after {given:,} rows were given out" if given else f"in each of {TRIES} tries to read it"
    return WriteConflictError(
        f"table {plan.table.name} was changed by other writers {told}: {error.message}",
        culprit=error.culprit or plan.table.uri,
        hint="scan it again; hoodie.cleaner.commits.retained says for how many commits files are kept for readers",
    )


def _analyzed(plan: ScanPlan) -> ScanReport:
    every = Tally()
    for one in plan.readers():
        for _ in one.tables():
            pass
        every.add(one.tally)
    return replace(
        plan.report(),
        files_opened=every.files_opened,
        files_read=every.files_read,
        row_groups=every.row_groups,
        row_groups_read=every.row_groups_read,
        rows_read=every.rows_read,
        rows=every.rows,
    )
