"""The steps of ``lakeindex demo``."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeindex.api.creating import create_table
from lakeindex.cli.demo import orders
from lakeindex.errors import InvariantError, UsageError
from lakeindex.options.types import ReportFormat
from lakeindex.report.make_report import PAGE_FILE
from lakeindex.showing.json_result import JsonResult

if TYPE_CHECKING:
    from lakeindex.api.table import LakeTable
    from lakeindex.run.summary import RunSummary

TABLE: Final = "orders"
SMALL_FILES: Final = {
    "hoodie.parquet.max.file.size": "60000",
    "hoodie.parquet.small.file.limit": "20000",
    "lakeindex.parquet.row.group.rows": "1000",
}
"""A day has several files, so there is something to prune. Your own tables have the defaults: 120 MB."""

Tell = Callable[[str, Any], None]


@dataclass(frozen=True, slots=True)
class DemoResult(JsonResult):
    """What the demo did.

    Attributes:
        folder: where everything is.
        table: the table's folder.
        report: the page of the second batch.
        batches: rows by what happened to them, of both batches.
        before: the order that is watched, after the first batch.
        after: the same after the second.
        rows: rows that the table holds, all of them checked.
        seconds: wall time.
    """

    folder: str
    table: str
    report: str
    batches: tuple[dict[str, int], ...]
    before: dict[str, Any]
    after: dict[str, Any]
    rows: int
    seconds: float


def play(folder: Path | None, tell: Tell) -> DemoResult:
    """Make a table, load it, change it, look at it.

    Args:
        folder: where; a new temporary folder if there is none.
        tell: called with the name of a step when it is done, and what it did.

    Raises:
        UsageError: the folder holds something.
        InvariantError: something came out that the data do not say.
    """
    started = time.monotonic()
    home = _empty(folder)
    table = create_table(
        home / TABLE, orders.SCHEMA, key=orders.KEY, partition=orders.PARTITION, ordering=orders.ORDERING
    )
    tell("table", table)
    base = orders.first_days()
    first = _upsert(table, base, "six-days", {"inserts": base.num_rows})
    tell("load", first)
    before = _watched(table, None)
    second = _upsert(table, *_seventh())
    tell("changes", second)
    now, then = _watched(table, None), _watched(table, first.instant)
    _compare("the watched order as of the first batch", before, then)
    tell("row", (then, now))
    report = table.check()
    rows = base.num_rows + second.inserts - second.deletes
    _compare("violations of the table", [], [one.message for one in report.violations])
    _compare("rows of the table", rows, report.checked.rows)
    tell("check", report)
    return DemoResult(
        folder=str(home),
        table=table.uri,
        report=str(Path(f"{table.uri}.lakeindex") / second.run_id / PAGE_FILE),
        batches=(first.fates, second.fates),
        before=then,
        after=now,
        rows=rows,
        seconds=round(time.monotonic() - started, 2),
    )


def _empty(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="lakeindex-demo-"))
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            f"{folder} is not an empty folder", culprit=str(folder), hint="name another --folder, or empty this one"
        )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _seventh() -> tuple[Any, str, dict[str, int]]:
    batch, expected = orders.seventh_day()
    return batch, "seventh-day", expected


def _upsert(table: LakeTable, batch: Any, name: str, expected: dict[str, int]) -> RunSummary:
    summary = table.upsert(
        batch,
        batch_id=name,
        options=SMALL_FILES,
        max_quarantined=expected.get("quarantined", 0),
        report=ReportFormat.HTML,
    )
    _compare(f"rows of batch {name}", expected, summary.fates)
    return summary


def _watched(table: LakeTable, as_of: str | None) -> dict[str, Any]:
    found = table.get([orders.WATCHED], as_of=as_of, columns=[orders.KEY, "status", "amount"])
    (row,) = found.rows.to_pylist()
    return dict(row)


def _compare(what: str, expected: object, found: object) -> None:
    if expected != found:
        raise InvariantError(
            f"{what}: {expected!r} expected, {found!r} found",
            culprit=what,
            hint="report this, with the folder of the demo",
        )
