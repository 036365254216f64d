"""The steps of ``lakeindex demo``, their data, and what a person is told of them.

The orders of a shop: six days of them, and the news of the seventh. They are made by counting: no randomness, no
clock.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.api.creating import create_table
from lakeindex.errors import InvariantError, UsageError
from lakeindex.options.types import ReportFormat
from lakeindex.pipeline import Stage
from lakeindex.report.make_report import PAGE_FILE
from lakeindex.showing.json_result import JsonResult
from lakeindex.showing.notebook import Screen
from lakeindex.showing.results import show_check, show_run
from lakeindex.showing.text import escape

if TYPE_CHECKING:
    from lakeindex.api.table import LakeTable
    from lakeindex.run.summary import RunSummary

KEY: Final = "order_id"
PARTITION: Final = "day"
ORDERING: Final = "updated_at"
DAYS: Final = tuple(f"2026-11-{day:02d}" for day in range(1, 8))
A_DAY: Final = 10_000
SCHEMA: Final = pa.schema(
    [
        pa.field(KEY, pa.string()),
        pa.field(PARTITION, pa.string(), nullable=False),
        pa.field("customer", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("status", pa.string()),
        pa.field(ORDERING, pa.int64(), nullable=False),
    ]
)
DELETE_MARK: Final = "_hoodie_is_deleted"
WATCHED: Final = f"{DAYS[5]}-09990"
"""An order that is placed in the first batch and paid in the second."""

_FORGOTTEN: Final = 7  # of each fifty orders one is not heard of before the seventh day
_FIFTY: Final = 50
_DAY_MS: Final = 86_400_000
_FIRST_MS: Final = 1_793_491_200_000  # 2026-11-01T00:00:00Z
_MULTIPLIER: Final = 2_654_435_761  # Knuth's: spreads numbers

Numbers = npt.NDArray[np.int64]


def first_days() -> pa.Table:
    """Six days of orders, as they were placed. One in fifty is missing."""
    numbers = np.arange(A_DAY, dtype=np.int64)
    heard = numbers[numbers % _FIFTY != _FORGOTTEN]
    return pa.concat_tables([_orders(day, heard, "placed") for day in range(6)])


def seventh_day() -> tuple[pa.Table, dict[str, int]]:
    """What is heard on the seventh day, and what must become of its rows."""
    numbers = np.arange(A_DAY, dtype=np.int64)
    known = numbers[numbers % _FIFTY != _FORGOTTEN]
    new = _orders(6, numbers[:1000], "placed")
    forgotten = _orders(5, numbers[numbers % _FIFTY == _FORGOTTEN], "placed")
    paid = _orders(5, known[-600:], "paid", hours=20)
    returned = pa.concat_tables([_orders(day, known[500:512], "returned", hours=99) for day in range(5)])
    late = _orders(4, known[9000:9040], "placed", hours=-1)
    twice = paid.slice(0, 50)
    cancelled = _orders(5, known[100:130], "cancelled", hours=2)
    without_key = _orders(6, numbers[:3], "placed").set_column(0, SCHEMA.field(0), [pa.nulls(3, pa.string())])
    kept = pa.concat_tables([new, forgotten, paid, returned, late, twice, without_key])
    batch = pa.concat_tables([_marked(kept, deleted=False), _marked(cancelled, deleted=True)])
    expected = {
        "combined": twice.num_rows,
        "quarantined": without_key.num_rows,
        "inserts": new.num_rows + forgotten.num_rows,
        "updates": paid.num_rows + returned.num_rows,
        "deletes": cancelled.num_rows,
        "ignored": late.num_rows,
    }
    return batch, expected


def _orders(day: int, numbers: Numbers, status: str, hours: int = 0) -> pa.Table:
    """Orders of a day, with a state that they had so many hours after they were placed."""
    mixed = (numbers + A_DAY * day) * _MULTIPLIER % 2**32
    placed_ms = _FIRST_MS + day * _DAY_MS + numbers * (_DAY_MS // A_DAY)
    columns = {
        KEY: [f"{DAYS[day]}-{number:05d}" for number in numbers.tolist()],
        PARTITION: [DAYS[day]] * len(numbers),
        "customer": [f"c{one:04d}" for one in (mixed % 5000).tolist()],
        "amount": (mixed // 5000 % 20_000) / 100,
        "status": [status] * len(numbers),
        ORDERING: placed_ms + hours * (_DAY_MS // 24),
    }
    return pa.table(columns, schema=SCHEMA)


def _marked(orders: pa.Table, *, deleted: bool) -> pa.Table:
    return orders.append_column(DELETE_MARK, pa.array([deleted] * orders.num_rows))


TABLE: Final = "orders"
SMALL_FILES: Final = {
    "hoodie.parquet.max.file.size": "60000",
    "hoodie.parquet.small.file.limit": "20000",
    "lakeindex.parquet.row.group.rows": "1000",
}
"""A day has several files, so there is something to prune. Your own tables have the defaults: 120 MB."""

Tell = Callable[[str, Any], None]


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
        tell: called with the name of a step when it is done, and what it did.

    Raises:
        UsageError: the folder holds something.
        InvariantError: something came out that the data do not say.
    """
    started = time.monotonic()
    home = _empty(folder)
    table = create_table(home / TABLE, SCHEMA, key=KEY, partition=PARTITION, ordering=ORDERING)
    tell("table", table)
    base = first_days()
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
    batch, expected = seventh_day()
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
    found = table.get([WATCHED], as_of=as_of, columns=[KEY, "status", "amount"])
    (row,) = found.rows.to_pylist()
    return dict(row)


def _compare(what: str, expected: object, found: object) -> None:
    if expected != found:
        raise InvariantError(
            f"{what}: {expected!r} expected, {found!r} found",
            culprit=what,
            hint="report this, with the folder of the demo",
        )


_TITLES: Final = {
    "table": "1  A table: record key order_id, partition day, ordering updated_at",
    "load": "2  Six days of orders, one batch",
    "changes": "3  What is heard on the seventh day: new, paid, returned, late, repeated, cancelled and bad rows",
    "row": "4  One order before and after",
    "check": "5  Every invariant of the table",
}
_STAGES: Final = {
    Stage.STAGE_INPUT: "made keys, set rows without a key aside, combined repeated ones",
    Stage.INDEX_LOOKUP: "read footers; left a key only with files whose key range holds it",
    Stage.BLOOM_CHECK: "asked their bloom filters: orders that were forgotten fall out here",
    Stage.VERIFY_KEYS: "read the key column of what is left, and found which rows are older than the stored ones",
    Stage.MERGE_WRITE: "rewrote the files that change, and published one commit",
}


def show_step(console: Screen, step: str, done: Any) -> None:
    console.print(f"[bold]{_TITLES[step]}[/bold]", soft_wrap=True)
    if step == "table":
        console.print(escape(done.uri), soft_wrap=True)
    elif step in ("load", "changes"):
        show_run(console, done)
    elif step == "row":
        for name, row in zip(("before", "now"), done, strict=True):
            console.print(f"{name:>6}: {', '.join(map(str, row.values()))}", markup=False)
    else:
        show_check(console, done)
    if step == "changes":
        console.print()
        for stage, text in _STAGES.items():
            console.print(f"{stage:>12}  {text}", markup=False, soft_wrap=True)
    console.print()


def show_demo(console: Screen, result: DemoResult) -> None:
    """Where everything is, and what to try now."""
    table = escape(result.table)
    console.print(
        f"""[green]Every count is what the data say[/green]; {result.seconds:.1f} s.

  table   {table}
  report  {escape(result.report)}

Try next:
  lakeindex report  {table}.lakeindex
  lakeindex history {table}
  lakeindex get     {table} {result.before["order_id"]}
  lakeindex read    {table} --where "status = 'returned'" --out returned.parquet""",
        soft_wrap=True,
    )
