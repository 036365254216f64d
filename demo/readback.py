"""Read the table back with engines that are not ours, and compare with the dictionary."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
from hudi import HudiTableBuilder

from demo.feed import SCHEMA
from demo.make_data import KEY
from demo.oracle import Oracle


@dataclass(frozen=True, slots=True)
class Comparison:
    """One number, as the dictionary says and as it was found."""

    what: str
    expected: object
    found: object

    @property
    def holds(self) -> bool:
        """Whether they are equal."""
        return self.expected == self.found


def compare_table(uri: str, oracle: Oracle, last_instant: str, touched: int) -> list[Comparison]:
    """The whole table by hudi-rs, row for row; counts and a sum by DuckDB over the files hudi-rs lists.

    Args:
        uri: the table.
        oracle: what it must hold.
        last_instant: the newest commit.
        touched: rows that commit inserted or updated; all others keep their commit time.
    """
    table = HudiTableBuilder.from_base_uri(uri).build()
    order = [(name, "ascending") for name in KEY]
    found = pa.Table.from_batches(table.read()).select(SCHEMA.names).cast(SCHEMA).sort_by(order)
    wanted = pa.Table.from_pylist(list(oracle.rows.values()), schema=SCHEMA).sort_by(order)
    files = [str(Path(uri) / piece.base_file_relative_path()) for piece in table.get_file_slices()]
    by_status, delay, by_instant = _ask_duckdb(files, last_instant)
    statuses = Counter(row["status"] for row in oracle.rows.values())
    return [
        Comparison("hudi-rs: rows", len(oracle.rows), found.num_rows),
        Comparison("hudi-rs: every column of every row is equal", True, found.equals(wanted)),
        *(Comparison(f"DuckDB: {s}", statuses[s], by_status.get(s)) for s in sorted(statuses)),
        Comparison("DuckDB: sum of arrival delays", _delay(oracle), delay),
        Comparison("DuckDB: rows of the newest commit", touched, by_instant),
    ]


def _ask_duckdb(files: list[str], instant: str) -> tuple[dict[str, int], int, int]:
    """Rows by status, sum of arrival delays, rows with that commit time."""
    with duckdb.connect() as connection:
        scan = "FROM read_parquet($files, hive_partitioning = false)"
        by_status = connection.execute(f"SELECT status, count(*) {scan} GROUP BY status", {"files": files}).fetchall()
        [(delay, touched)] = connection.execute(
            f"SELECT sum(arr_delay), count(*) FILTER (_hoodie_commit_time = $instant) {scan}",
            {"files": files, "instant": instant},
        ).fetchall()
    return dict(by_status), int(delay), int(touched)


def _delay(oracle: Oracle) -> int:
    return sum(row["arr_delay"] or 0 for row in oracle.rows.values())
