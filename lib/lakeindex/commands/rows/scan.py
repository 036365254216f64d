"""Scan a table: whole, streamed, counted, explained; each of one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TypeVar

import pyarrow as pa

from lakeindex.commands.consistent_read import read_consistently, streamed
from lakeindex.commands.rows.file_reader import FileReader, Tally
from lakeindex.commands.rows.plan import ScanPlan, plan_scan
from lakeindex.commands.rows.request import ScanReport, ScanRequest
from lakeindex.options.parse import parse_options
from lakeindex.storage import decoded_in_parallel
from lakeindex.tasks.runner import Runner, do_task

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
        return Stream(plan.schema, streamed(plan, batches_of, self.plan))

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
