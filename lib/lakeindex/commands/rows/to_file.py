"""``lakeindex read``: the rows of a scan in one Parquet file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeAlias

from lakeindex.commands.results import JsonResult
from lakeindex.commands.rows.out_file import check_out, put_file, row_writer
from lakeindex.commands.rows.plan import ScanPlan
from lakeindex.commands.rows.request import ScanRequest
from lakeindex.commands.rows.scan import Scanner
from lakeindex.tasks.local_runner import LocalRunner

Step: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[], None]]]


@dataclass(frozen=True, slots=True)
class ReadSummary(JsonResult):
    """What ``lakeindex read`` wrote.

    Attributes:
        table: the table's name.
        uri: where it is.
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

    table: str
    uri: str
    instant: str | None
    as_of: str | None
    since: str | None
    rows: int
    files: int
    files_pruned: int
    out: str
    bytes_written: int


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
