"""Whole lives of tables: random operations of the API on every index type and version, beside a dictionary.

After each operation the rows are those of the dictionary; so are the rows of each earlier point in time, and the changes
between two of them.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from lakeindex import create_table
from lakeindex.api.table import LakeTable
from lakeindex.errors import MetadataTableError, TableUnsupportedError, UsageError

LIVES: Final = int(os.environ.get("LAKEINDEX_CONTRACT_EXAMPLES", "7"))
STEPS: Final = 14
INDEXES: Final = (
    "BLOOM",
    "GLOBAL_BLOOM",
    "SIMPLE",
    "GLOBAL_SIMPLE",
    "BUCKET",
    "INMEMORY",
    "RECORD_INDEX",
)
MOVES: Final = {
    "GLOBAL_BLOOM": "hoodie.bloom.index.update.partition.path",
    "GLOBAL_SIMPLE": "hoodie.simple.index.update.partition.path",
    "RECORD_INDEX": "hoodie.record.index.update.partition.path",
}
BASE: Final = {"id": pa.string(), "part": pa.string(), "ts": pa.int64()}
TEXT, PAIR = pa.string(), pa.struct([("a", pa.string()), ("c", pa.int32())])
VALUES: Final[Mapping[pa.DataType, list[Any]]] = {
    TEXT: [None, "", "a", "é", "z" * 60],
    pa.int32(): [None, 0, -1, 2**31 - 1],
    pa.int64(): [None, 2**62, -(2**63), 7],
    pa.float64(): [None, math.nan, math.inf, -0.0, 1.5],
    pa.list_(pa.int64()): [None, [], [1, None]],
    PAIR: [None, {"a": None, "c": 4}, {"a": "q", "c": None}],
}
Row = dict[str, Any]
Key = tuple[str, str]
Rows = dict[Key, Row]
Columns = dict[str, pa.DataType]


@dataclass
class Life:
    """A table, what its rows are, and what they were after each commit.

    Attributes:
        columns: those that are not in :data:`BASE`.
        states: by instant of a commit the rows behind it, and their columns.
    """

    table: LakeTable
    dice: random.Random
    index: str
    is_global: bool
    has_ordering: bool
    options: dict[str, str]
    columns: Columns
    clock: int = 0
    rows: Rows = field(default_factory=dict)
    states: dict[str, tuple[Rows, Columns]] = field(default_factory=dict)

    # --- rows -------------------------------------------------------------------------------------------------

    def key(self, row: Row) -> Key:
        return row["id"], "" if self.is_global else row["part"]

    def drawn(self, most: int) -> list[Row]:
        rows = []
        for number in self.dice.sample(range(40), self.dice.randint(1, most)):
            part = number % 3 if self.dice.random() < 0.7 or self.index == "INMEMORY" else self.dice.randrange(3)
            row = {"id": f"k{number:02d}", "part": f"p{part}", "ts": self.clock - self.dice.choice([0, 0, 1, 3])}
            rows.append(row | {name: self.dice.choice(VALUES[kind]) for name, kind in self.columns.items()})
        return rows

    def batch(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=pa.schema([*BASE.items(), *self.columns.items()]))

    def put(self, rows: list[Row]) -> pa.Table:
        for row in rows:
            old = self.rows.get(self.key(row))
            if old is None or not self.has_ordering or row["ts"] >= old["ts"]:
                self.rows[self.key(row)] = row
        return self.batch(rows)

    def condition(self) -> tuple[str, Callable[[Row], bool]]:
        row = self.dice.choice(list(self.rows.values()))
        number, part = self.dice.randrange(40), row["part"]
        return self.dice.choice(
            [
                (f"id >= 'k{number:02d}'", lambda row: row["id"] >= f"k{number:02d}"),
                (
                    f"part = '{part}' AND ts < {self.clock - 2}",
                    lambda row: row["part"] == part and row["ts"] < self.clock - 2,
                ),
                (
                    f"id IN ('{row['id']}', 'k01') OR part != '{part}'",
                    lambda one: one["id"] in {row["id"], "k01"} or one["part"] != part,
                ),
            ]
        )

    # --- operations -------------------------------------------------------------------------------------------

    def upsert(self) -> None:
        self.table.upsert(self.put(self.drawn(12)), options=self.options)

    def upsert_twice(self) -> None:
        batch = self.put(self.drawn(4))
        for is_noop in (False, True):
            assert self.table.upsert(batch, options=self.options, batch_id=f"b{self.clock}").noop is is_noop

    def insert(self) -> None:
        rows = [row for row in self.drawn(8) if self.key(row) not in self.rows]
        self.table.insert(self.put(rows), options=self.options)

    def delete(self) -> None:
        gone = self.dice.sample(sorted(self.rows), min(len(self.rows), 4))
        self.table.delete(self.batch([self.rows.pop(key) for key in gone]), options=self.options)

    def delete_where(self) -> None:
        where, chooses = self.condition()
        self.rows = {key: row for key, row in self.rows.items() if not chooses(row)}
        self.table.delete(where=where, options=self.options)

    def update(self) -> None:
        where, chooses = self.condition()
        name, kind = self.dice.choice(list(self.columns.items()))
        value = self.dice.choice(VALUES[kind])
        self.rows = {key: row | {name: value} if chooses(row) else row for key, row in self.rows.items()}
        self.table.update({name: pa.scalar(value, kind)}, where=where, options=self.options)

    def overwrite(self) -> None:
        rows = self.drawn(6)
        parts = {row["part"] for row in rows}
        if not self.is_global:
            self.rows = {key: row for key, row in self.rows.items() if row["part"] not in parts}
            self.table.insert_overwrite(self.put(rows), options=self.options)
        else:
            self.rows = {}
            self.table.insert_overwrite_table(self.put(rows), options=self.options)

    def grow(self) -> None:
        """A column more, and a wider one; not for ever."""
        if len(self.columns) < 9:
            self.columns = {n: pa.int64() if kind == pa.int32() else kind for n, kind in self.columns.items()}
            self.columns[f"c{self.clock}"] = self.dice.choice(list(VALUES))
            self.table.upsert(self.put(self.drawn(5)), options=self.options, schema_mode="widen")

    def cluster(self) -> None:
        sort = self.dice.choice(["none", "key", "columns", "zorder"])
        columns = ["part", "ts"] if sort in {"columns", "zorder"} else None
        kept = {name: value for name, value in self.options.items() if "small" not in name}  # else no file is small
        self.table.cluster(sort=sort, columns=columns, options=kept, progress=False)

    def rescale(self) -> None:
        if self.index == "BUCKET":
            self.table.rescale(self.dice.randint(1, 4), progress=False)

    def restore(self) -> None:
        instant = self.dice.choice(sorted(self.states)[-4:])
        self.table.restore(instant)
        rows, columns = self.states[instant]
        self.rows, self.columns = dict(rows), dict(columns)
        self.states = {one: state for one, state in self.states.items() if one <= instant}

    def savepoint(self) -> None:
        self.table.savepoint_create()

    def clean(self) -> None:
        self.table.clean(self.dice.choice([1, 2, 4]))

    def archive(self) -> None:
        self.table.archive()

    def maintain(self) -> None:
        self.table.maintain()

    def rebuild_metadata(self) -> None:
        if self.index != "RECORD_INDEX":
            (self.table.metadata_drop if self.dice.random() < 0.4 else self.table.metadata_build)()

    # --- what must hold -----------------------------------------------------------------------------------------

    def live(self, steps: int) -> None:
        weights = {self.upsert: 8, self.cluster: 4, self.update: 3, self.delete: 2}
        others = (
            *(self.upsert_twice, self.insert, self.delete_where, self.overwrite, self.grow, self.rescale, self.restore),
            *(self.savepoint, self.clean, self.archive, self.maintain, self.rebuild_metadata),
        )
        weights |= dict.fromkeys(others, 1)
        self.upsert()
        self.check()
        for self.clock in range(1, steps):
            operation = self.dice.choices(list(weights), list(weights.values()))[0]
            before = dict(self.rows), dict(self.columns)
            if not self.rows and operation in {self.delete_where, self.update}:
                continue
            try:
                operation()
            except (UsageError, TableUnsupportedError, MetadataTableError):  # such as a restore behind a savepoint
                self.rows, self.columns = before
            self.check()
        for instant, (rows, _) in self.states.items():
            self.check_state(instant, rows)
        report = self.table.check(deep=True)
        assert report.ok, report.violations
        if self.table.metadata_status().partitions:
            assert self.table.metadata_verify().ok

    def check(self) -> None:
        assert self.told(self.table.read(meta=False)) == self.told_rows(self.rows)
        if self.rows:
            where, chooses = self.condition()
            chosen = {key: row for key, row in self.rows.items() if chooses(row)}
            assert self.told(self.table.scan(where=where).to_arrow()) == self.told_rows(chosen), where
        writes = [line.instant for line in self.table.history() if line.state == "completed" and line.operation]
        if writes:
            self.states.setdefault(max(writes), (dict(self.rows), dict(self.columns)))
        self.check_changes()

    def check_state(self, instant: str, rows: Rows) -> None:
        try:
            found = self.table.read(meta=False, as_of=instant)
        except UsageError:  # files of then were cleaned away
            return
        assert self.told(found) == self.told_rows(rows), instant

    def check_changes(self) -> None:
        """Those since one state, put on its rows, make another one."""
        first, last = sorted(self.dice.choices(sorted(self.states), k=2))
        try:
            changes = self.table.changes(since=first, until=last).to_arrow().to_pylist()
        except UsageError:
            return
        rows = dict(self.states[first][0])
        for change in changes:
            if change["_change_type"] in {"delete", "update_preimage"}:
                del rows[self.key(change)]
        for change in changes:
            if change["_change_type"] in {"insert", "update_postimage"}:
                assert self.key(change) not in rows
                rows[self.key(change)] = change
        assert self.told_rows(rows) == self.told_rows(self.states[last][0]), (first, last)

    def told(self, found: pa.Table) -> list[str]:
        return self._told(found.to_pylist())

    def told_rows(self, rows: Rows) -> list[str]:
        return self._told(list(rows.values()))

    def _told(self, rows: list[Row]) -> list[str]:
        """In words, as a NaN is not equal to itself; of the columns of now, as others went with a restore."""
        return sorted(repr([(name, row.get(name)) for name in (*BASE, *self.columns)]) for row in rows)


def born(folder: Path, seed: int) -> Life:
    dice = random.Random(seed)
    index = INDEXES[seed % len(INDEXES)]
    moves, ordering = MOVES.get(index), dice.choice(["ts", "ts", None])
    is_global = moves is not None or index == "INMEMORY"
    columns = {f"v{number}": kind for number, kind in enumerate(dice.sample(list(VALUES), 3))}
    options = {
        "lakeindex.parquet.row.group.rows": dice.choice(["5", "1000"]),
        "hoodie.parquet.small.file.limit": dice.choice(["0", "3000", "104857600"]),
        "hoodie.parquet.max.file.size": dice.choice(["2000", "125829120"]),
        **({moves: "true"} if moves else {}),
    }
    table = create_table(
        folder / "t",
        pa.schema([*BASE.items(), *columns.items()]),
        key="id",
        partition="part",
        ordering=ordering,
        index=index,
        table_version=(6, 8, 9)[seed % 3],
        properties={"hoodie.bucket.index.num.buckets": "2"} if index == "BUCKET" else {},
        metadata=None if index == "RECORD_INDEX" or dice.random() < 0.5 else dice.random() < 0.5,
    )
    return Life(table, dice, index, is_global, ordering is not None, options, columns)


@pytest.mark.parametrize("seed", range(LIVES))
def test_any_life_is_that_of_a_dictionary(tmp_path: Path, seed: int) -> None:
    born(tmp_path, seed).live(STEPS)
