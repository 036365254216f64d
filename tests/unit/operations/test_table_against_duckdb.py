"""Scans, deletions and updates by random conditions, time travel and changes: what DuckDB makes of the same rows.

One table of several partitions, files and row groups, so that paths and statistics can settle what is asked.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from lakeindex.api.table import LakeTable
from tests.builders import make_table
from tests.random_conditions import SCHEMA, Random

PLACE = pa.struct([("a", pa.int64()), ("in", pa.struct([("x", pa.string()), ("must", pa.int32())]))])
COLUMNS = pa.schema([field.with_type(PLACE) if field.name == "st" else field for field in SCHEMA])
OPTIONS = {
    "hoodie.parquet.max.file.size": "6000",
    "hoodie.copyonwrite.record.size.estimate": "100",
    "hoodie.parquet.small.file.limit": "0",
    "lakeindex.parquet.row.group.rows": "6",
}
ROWS = 240
SCANS = 60
STEPS = 10
SETS = [
    {"i": "i + 1", "s": "s || 'x'"},
    {"f": "-f", "m": "CAST(m / 3 AS DECIMAL(9, 2))"},
    {"s": "CASE WHEN i > 1 THEN upper(s) ELSE NULL END", "k": "coalesce(k, 7)"},
    {"t": "TIMESTAMP '2026-01-01 00:00:00'", "d": "NULL"},
]


class Mirror:
    """The same rows in DuckDB."""

    def __init__(self, rows: pa.Table) -> None:
        self.duck = duckdb.connect()
        for name in ("error_on_division_by_zero", "ieee_floating_point_ops"):
            self.duck.execute(f"SET {name} = false")
        self.duck.register("given_rows", rows)
        self.duck.execute("CREATE TABLE mirror AS SELECT * FROM given_rows")

    def rows(self, condition: str = "true") -> pa.Table:
        return self.duck.sql(f"SELECT * FROM mirror WHERE {condition}").to_arrow_table()

    def delete(self, condition: str) -> None:
        self.duck.execute(f"DELETE FROM mirror WHERE {condition}")

    def update(self, values: dict[str, str], condition: str) -> None:
        said = ", ".join(f"{name} = {value}" for name, value in values.items())
        self.duck.execute(f"UPDATE mirror SET {said} WHERE {condition}".replace("m / 3", "m / 3::DECIMAL(9, 2)"))


def shown(rows: pa.Table) -> dict[int, str]:
    """Rows by their number, in words: NaN is itself, and -0.0 is 0.0."""
    found = rows.select(COLUMNS.names).cast(COLUMNS).to_pylist()
    plain = ({name: value + 0.0 if isinstance(value, float) else value for name, value in row.items()} for row in found)
    return {row["row"]: repr(row) for row in plain}


def made(folder: Path, dice: Random) -> tuple[LakeTable, Mirror]:
    rows = pa.Table.from_pylist(dice.rows(ROWS), schema=COLUMNS)
    table = make_table(folder / "t", schema=COLUMNS, keys=("row",), partitions=("b",), ordering=None)
    table.upsert(rows.slice(0, 200), options=OPTIONS)
    table.upsert(rows.slice(190), options=OPTIONS)
    return table, Mirror(rows)


def test_rows_that_a_condition_chooses(tmp_path: Path) -> None:
    dice = Random(random.Random(21))
    table, mirror = made(tmp_path, dice)
    assert table.scan().explain().files > 6
    wrong, left_out, groups_left_out = [], 0, 0
    for number in range(SCANS):
        where = dice.condition(2)
        scan = table.scan(where=where)
        if shown(scan.to_arrow()) != shown(mirror.rows(where)):
            wrong.append(where)
        if number % 3 == 0:  # it reads once more
            report = scan.explain(analyze=True)
            left_out += report.files_left < report.files
            groups_left_out += (report.row_groups_read or 0) < (report.row_groups or 0)
    assert not wrong, wrong[:5]
    assert left_out > SCANS / 60
    assert groups_left_out > SCANS / 18


def test_deletions_and_updates_one_after_the_other(tmp_path: Path) -> None:
    dice = Random(random.Random(22))
    table, mirror = made(tmp_path, dice)
    states: list[tuple[str, dict[int, str]]] = []
    for step in range(STEPS):
        where = dice.condition(1)
        values: dict[str, Any] = SETS[step % len(SETS)]
        narrow = f"({where}) AND row >= {step * 17} AND row < {step * 17 + 70}"
        if step % 3 == 0:
            done = table.delete(where=narrow, options=OPTIONS)
            mirror.delete(narrow)
        else:
            done = table.update(values, where=narrow, options=OPTIONS)
            mirror.update(values, narrow)
        now = shown(mirror.rows())
        assert shown(table.scan().to_arrow()) == now, (step, narrow, values)
        if done.instant is not None:
            states.append((done.instant, now))
    assert len(states) > STEPS / 2
    for instant, state in states:
        assert shown(table.scan(as_of=instant).to_arrow()) == state, instant
    for (first, before), (last, after) in ((states[n], states[n + step]) for step in (1, 3) for n in range(3)):
        feed = table.changes(since=first, until=last).to_arrow().to_pylist()
        gone = {row["row"] for row in feed if row["_change_type"] == "delete"}
        new = {row["row"] for row in feed if row["_change_type"] == "update_postimage"}
        assert gone == set(before) - set(after)
        assert new >= {row for row in after if after[row] != before[row]}
        assert {row["_change_type"] for row in feed} <= {"delete", "update_preimage", "update_postimage"}
