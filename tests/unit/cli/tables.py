"""Small tables and batches for the command line's tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli_support import Answer, lakeindex
from tests.golden import made_once

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("region", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("val", pa.string()),
    ]
)
REGIONS = ("as", "eu", "us")

Row = tuple[str | None, str | None, int | None, str]


def row(number: int, ts: int = 1, val: str = "a") -> Row:
    """Row ``k00007`` and so on; its region depends on the number alone."""
    return (f"k{number:05d}", REGIONS[number % 3], ts, f"{val}-{number}")


def batch(path: Path, rows: Iterable[Row]) -> Path:
    """Write rows as a Parquet file."""
    columns = list(zip(*rows, strict=True)) or [[], [], [], []]
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    pq.write_table(pa.table(arrays, schema=SCHEMA), path)
    return path


def new_table(folder: Path, *options: str) -> Path:
    """An empty table ``t``, keyed by id, partitioned by region, ordered by ts."""
    like = batch(folder / "like.parquet", [])
    table = folder / "t"
    answer = lakeindex(
        "create", table, "--like", like, "--key", "id", "--partition", "region", "--ordering", "ts", *options
    )
    assert answer.exit_code == 0, answer.stderr
    return table


@made_once
def table_with(folder: Path, count: int = 60) -> Path:
    """A table that holds rows ``0 .. count - 1``."""
    table = new_table(folder)
    upserted(lakeindex("upsert", table, batch(folder / "base.parquet", (row(n) for n in range(count))), "--json"))
    return table


def upserted(answer: Answer) -> dict[str, object]:
    """The summary of an upsert that was committed."""
    assert answer.exit_code == 0, answer.stdout + answer.stderr
    assert answer.json["instant"] is not None
    return answer.json


def rows_of(table: Path, *options: str) -> dict[str, tuple[str, int, str]]:
    """Rows by key, read through the command line; a key that is there twice fails."""
    out = table.with_name("rows.parquet")
    answer = lakeindex("read", table, "--out", out, "--json", *options)
    assert answer.exit_code == 0, answer.stdout
    rows = pq.read_table(out).to_pylist()
    assert answer.json["rows"] == len(rows)
    found = {one["_hoodie_record_key"]: (one["region"], one["ts"], one["val"]) for one in rows}
    assert len(found) == len(rows)
    return found


def commits_of(table: Path) -> list[str]:
    """Completed commits on the timeline."""
    return sorted(path.name for path in (table / ".hoodie").glob("*.commit"))


def contents(table: Path) -> dict[str, bytes]:
    """Everything a reader of the table sees: data files, partition files, the timeline's completed instants."""
    shown = [p for p in table.rglob("*") if p.is_file() and ".lakeindex" not in p.parts and ".temp" not in p.parts]
    return {p.relative_to(table).as_posix(): p.read_bytes() for p in shown}
