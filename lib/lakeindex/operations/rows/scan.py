"""Scan a table: whole, streamed, counted, explained, into a file (``lakeindex read``); each of one snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import chain, islice
from pathlib import Path
from time import perf_counter
from typing import ClassVar, Final, TypeAlias, TypeVar

import pyarrow as pa
from msgspec.structs import replace

from lakeindex.frozen import Frozen
from lakeindex.operations.consistent_read import read_consistently, streamed
from lakeindex.operations.rows.file_reader import FileReader, Tally
from lakeindex.operations.rows.out_file import check_out, put_file, row_writer
from lakeindex.operations.rows.plan import ScanPlan, plan_scan
from lakeindex.operations.rows.request import ScanReport, ScanRequest
from lakeindex.options.parse import parse_options
from lakeindex.showing.json_result import TableResult
from lakeindex.storage import decoded_in_parallel, in_parallel
from lakeindex.storage.paths import is_on_this_machine
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.runner import Runner, do_task

_T = TypeVar("_T")
_FOOTERS_AT_ONCE: Final = 16
Step: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[], None]]]


class ReadSummary(TableResult):
    """What ``lakeindex read`` wrote.

    Attributes:
        instant: newest commit that is in the rows; None on an empty table.
        as_of: the point in time asked for, as an instant.
        since: rows are newer than this instant.
        rows: rows written.
        files: base files read.
        files_pruned: live files that were left out by partition, statistics or key.
        out: the file written.
        bytes_written: its size.
    """

    shown_by: ClassVar[str] = "results:show_read"

    instant: str | None
    as_of: str | None
    since: str | None
    rows: int
    files: int
    files_pruned: int
    out: str
    bytes_written: int


class Scanner(Frozen):
    """A scan that has not begun.

    Attributes:
        runner: for indexes that need an engine.
    """

    uri: str
    request: ScanRequest
    runner: Runner

    def plan(self) -> ScanPlan:
        """Which files are opened. Raises: as :func:`~lakeindex.operations.rows.plan.plan_scan`."""
        return self.of_one_snapshot(lambda plan: plan)

    def rows(self) -> pa.Table:
        """All chosen rows. Raises: as :meth:`plan`, and TableCorruptError: a file cannot be read."""
        return self.of_one_snapshot(rows_of)

    def count(self) -> int:
        """How many rows are chosen."""
        return self.of_one_snapshot(lambda plan: sum(_decoded(plan, lambda one, alone: one.count(use_threads=alone))))

    def explain(self, *, analyze: bool) -> ScanReport:
        """What the scan leaves out; what it reads, too, if it is to be done for that."""
        if not analyze:
            return self.plan().report()
        started = perf_counter()
        outcome = do_task(lambda _: self.of_one_snapshot(_analyzed), None)
        io = outcome.cost.io
        seconds = round(perf_counter() - started, 4)
        return replace(outcome.value, requests=io.requests, bytes_read=io.bytes_read, seconds=seconds)

    def stream(self) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The columns of the rows, and the rows in batches, once only. Errors of a plan are raised at once."""
        plan = self.plan()
        return plan.schema, streamed(plan, batches_of, self.plan)

    def of_one_snapshot(self, work: Callable[[ScanPlan], _T]) -> _T:
        """Do work on a plan; on a new one if other writers take away what it reads. Raises: as :meth:`rows`."""
        use_metadata = parse_options(self.request.options).use_metadata
        return read_consistently(
            self.uri,
            lambda table, timeline: work(plan_scan(table, timeline, self.request, self.runner)),
            use_metadata=use_metadata,
        )


def rows_of(plan: ScanPlan) -> pa.Table:
    """All rows of a plan, several files at a time."""
    pieces = _decoded(plan, lambda one, alone: one.table(use_threads=alone))
    return pa.concat_tables([plan.schema.empty_table(), *pieces])


def _decoded(plan: ScanPlan, function: Callable[[FileReader, bool], _T]) -> list[_T]:
    """What a function makes of the files that can hold a chosen row, several at a time; it is told if one is alone."""
    ready = _opened(plan)
    first = list(islice(ready, 2))
    is_alone = len(first) == 1
    return decoded_in_parallel(plan.table.uri, lambda one: function(one, is_alone), chain(first, ready))


def _opened(plan: ScanPlan) -> Iterator[FileReader]:
    """The files that can hold a chosen row: their footers are read in the caller's thread, since that is Python's
    work, which threads of its own would wait for each other with; of a far store many at once.
    """
    uri, files = plan.table.uri, plan.readers()
    step = 1 if is_on_this_machine(uri) else _FOOTERS_AT_ONCE
    for start in range(0, len(files), step):
        found = in_parallel(uri, FileReader.opened, files[start : start + step])
        yield from (one for one in found if one is not None)


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


def write_rows(uri: str, out: str, request: ScanRequest | None = None, *, step: Step | None = None) -> ReadSummary:
    """Write the rows of a scan into one file, a batch at a time: Parquet, CSV, JSON lines or Arrow, as its name says.
    It appears whole or not at all.

    Args:
        out: a path, or a URL (then the file is spooled to local disk and put in one piece).
        request: what is read; all rows, meta columns first, if not given.
        step: told about the files: a ``Progress.step``.

    Raises:
        TableError: no table, or one that is not read; a damaged file, by name.
        UsageError: a column, a condition or a point in time that is not valid, or ``out`` cannot be written.
        WriteConflictError: other writers took away what was read, again and again.
    """
    check_out(out)

    def write(plan: ScanPlan) -> ReadSummary:
        rows, size = put_file(out, lambda spool: _write_all(plan, out, spool, step or _no_step))
        said = plan.report()
        left = said.files_left
        return ReadSummary(
            said.table, said.uri, said.instant, said.as_of, said.since, rows, left, said.files - left, out, size
        )

    return Scanner(uri, request or ScanRequest(meta=True), LocalRunner(0)).of_one_snapshot(write)


def _write_all(plan: ScanPlan, out: str, path: Path, step: Step) -> int:
    rows, files = 0, plan.readers()
    with row_writer(out, path, plan.schema) as writer, step("read", len(files)) as done:
        for one in files:
            for piece in one.tables():
                writer.write_table(piece)
                rows += piece.num_rows
            done()
    return rows


@contextlib.contextmanager
def _no_step(_title: str, _total: int) -> Iterator[Callable[[], None]]:
    yield lambda: None
