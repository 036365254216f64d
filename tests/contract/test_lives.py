"""Whole lives of tables: random operations of the API on every index type and version, beside a dictionary.

After each operation the rows are those of the dictionary; so are the rows of each earlier point in time, and the changes
between two of them.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeindex import create_table
from lakeindex.api.table import LakeTable
from lakeindex.errors import MetadataTableError, TableUnsupportedError, UsageError
from tests.scheduling import some_of

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


@dataclass(frozen=True)
class Stand:
    """What a table holds behind a commit.

    Attributes:
        columns: those that are not in :data:`BASE`.
        instant: the commit's; None: nobody has looked yet.
    """

    rows: Rows
    columns: Columns
    instant: str | None = None


class Stream:
    """Rows of another library: they come one by one, as slices of columns whose texts stand in runs or in a dictionary."""

    def __init__(self, rows: pa.Table) -> None:
        for place, one in enumerate(rows.schema):
            if one.type == TEXT:
                column = rows.column(place).combine_chunks()
                coded = column.dictionary_encode() if place % 2 else pc.run_end_encode(column)
                rows = rows.set_column(place, one.name, coded)
        self.rows = pa.Table.from_batches(rows.to_batches(1), rows.schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.rows.__arrow_c_stream__(requested_schema)


Past = tuple[Stand, ...]
"""The commits of a table that were not taken back."""


class RefusedError(Exception):
    """The library cannot have done this to such a table."""


@dataclass(frozen=True)
class Operation:
    """What is done to a table, drawn once: it can be done again, and before or behind others.

    Attributes:
        does: given arguments of a write.
        makes: what becomes of what the table was.
    """

    does: Callable[..., object]
    makes: Callable[[Past], Past]


def writing(does: Callable[..., object], makes: Callable[[Rows], Rows], columns: Columns | None = None) -> Operation:
    """A commit."""

    def made(past: Past) -> Past:
        last = past[-1]
        return (*past, Stand(makes(dict(last.rows)), last.columns if columns is None else columns))

    return Operation(does, made)


def serving(does: Callable[..., object]) -> Operation:
    """What changes no row, and has no more arguments than its options."""
    return Operation(lambda options, **_: does(options=options), lambda past: past)


@dataclass
class Life:
    """A table, and what it was behind each commit.

    Attributes:
        given: arguments of every write.
    """

    table: LakeTable
    dice: random.Random
    index: str
    is_global: bool
    has_ordering: bool
    options: dict[str, str]
    past: Past
    clock: int = 0
    given: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> Rows:
        return self.past[-1].rows

    @property
    def columns(self) -> Columns:
        return self.past[-1].columns

    @property
    def states(self) -> dict[str, Stand]:
        return {one.instant: one for one in self.past if one.instant is not None}

    # --- rows -------------------------------------------------------------------------------------------------

    def key(self, row: Row) -> Key:
        return row["id"], "" if self.is_global else row["part"]

    def drawn(self, most: int, columns: Columns | None = None) -> list[Row]:
        rows = []
        for number in self.dice.sample(range(40), self.dice.randint(1, most)):
            part = number % 3 if self.dice.random() < 0.7 or self.index == "INMEMORY" else self.dice.randrange(3)
            row = {"id": f"k{number:02d}", "part": f"p{part}", "ts": self.clock - self.dice.choice([0, 0, 1, 3])}
            values = self.columns if columns is None else columns
            rows.append(row | {name: self.dice.choice(VALUES[kind]) for name, kind in values.items()})
        return rows

    def batch(self, rows: list[Row], columns: Columns | None = None) -> pa.Table | Stream:
        values = self.columns if columns is None else columns
        made = pa.Table.from_pylist(rows, schema=pa.schema([*BASE.items(), *values.items()]))
        return Stream(made) if self.clock % 3 == 1 else made

    def put(self, new: list[Row]) -> Callable[[Rows], Rows]:
        def wins(row: Row, old: Row | None) -> bool:
            return old is None or not self.has_ordering or row["ts"] >= old["ts"]

        return lambda rows: rows | {self.key(row): row for row in new if wins(row, rows.get(self.key(row)))}

    def condition(self) -> tuple[str, Callable[[Row], bool]]:
        row = self.dice.choice(list(self.rows.values()))
        number, part, clock = self.dice.randrange(40), row["part"], self.clock
        return self.dice.choice(
            [
                (f"id >= 'k{number:02d}'", lambda row: row["id"] >= f"k{number:02d}"),
                (
                    f"part = '{part}' AND ts < {clock - 2}",
                    lambda row: row["part"] == part and row["ts"] < clock - 2,
                ),
                (
                    f"id IN ('{row['id']}', 'k01') OR part != '{part}'",
                    lambda one: one["id"] in {row["id"], "k01"} or one["part"] != part,
                ),
            ]
        )

    # --- operations -------------------------------------------------------------------------------------------

    def upsert(self) -> Operation:
        rows = self.drawn(12)
        batch = self.batch(rows)
        return writing(lambda **given: self.table.upsert(batch, **given), self.put(rows))

    def upsert_twice(self) -> Operation:
        rows = self.drawn(4)
        batch, batch_id = self.batch(rows), f"b{self.clock}"

        def does(**given: Any) -> None:
            self.table.upsert(batch, **given, batch_id=batch_id)  # a noop, where all rows are late
            assert self.table.upsert(batch, **given, batch_id=batch_id).noop

        return writing(does, self.put(rows))

    def insert(self) -> Operation:
        new = [row for row in self.drawn(8) if self.key(row) not in self.rows]
        batch = self.batch(new)

        def makes(rows: Rows) -> Rows:
            if any(self.key(row) in rows for row in new):
                raise RefusedError
            return self.put(new)(rows)

        return writing(lambda **given: self.table.insert(batch, **given), makes)

    def delete(self) -> Operation:
        """By keys alone: nothing is newer."""
        gone = self.dice.sample(sorted(self.rows), min(len(self.rows), 4))
        batch = self.batch([self.rows[key] for key in gone])
        return writing(
            lambda **given: self.table.delete(batch, **given),
            lambda rows: {key: row for key, row in rows.items() if key not in gone},
        )

    def delete_where(self) -> Operation:
        where, chooses = self.condition()
        return writing(
            lambda **given: self.table.delete(where=where, **given),
            lambda rows: {key: row for key, row in rows.items() if not chooses(row)},
        )

    def update(self) -> Operation:
        where, chooses = self.condition()
        name, kind = self.dice.choice(list(self.columns.items()))
        value = self.dice.choice(VALUES[kind])
        return writing(
            lambda **given: self.table.update({name: pa.scalar(value, kind)}, where=where, **given),
            lambda rows: {key: row | {name: value} if chooses(row) else row for key, row in rows.items()},
        )

    def overwrite(self) -> Operation:
        new = self.drawn(6)
        parts, batch = {row["part"] for row in new}, self.batch(new)
        write = self.table.insert_overwrite_table if self.is_global else self.table.insert_overwrite

        def makes(rows: Rows) -> Rows:
            kept = {key: row for key, row in rows.items() if not self.is_global and row["part"] not in parts}
            return self.put(new)(kept)

        return writing(lambda **given: write(batch, **given), makes)

    def grow(self) -> Operation:
        """A column more, and a wider one; not for ever."""
        if len(self.columns) >= 9:
            return serving(lambda **_: None)
        columns = {n: pa.int64() if kind == pa.int32() else kind for n, kind in self.columns.items()}
        columns[f"c{self.clock}"] = self.dice.choice(list(VALUES))
        rows = self.drawn(5, columns)
        batch = self.batch(rows, columns)
        return writing(lambda **given: self.table.upsert(batch, **given, schema_mode="widen"), self.put(rows), columns)

    def cluster(self) -> Operation:
        sort = self.dice.choice(["none", "key", "columns", "zorder"])
        columns = ["part", "ts"] if sort in {"columns", "zorder"} else None

        def does(options: Mapping[str, str]) -> None:
            kept = {name: value for name, value in options.items() if "small" not in name}  # else no file is small
            self.table.cluster(sort=sort, columns=columns, options=kept, progress=False)

        return serving(does)

    def rescale(self) -> Operation:
        count = self.dice.randint(1, 4) if self.index == "BUCKET" else 0
        return serving(lambda **given: count and self.table.rescale(count, progress=False, **given))

    def restore(self) -> Operation:
        instant = self.dice.choice(sorted(self.states)[-4:])

        def makes(past: Past) -> Past:
            at = [one.instant for one in past]
            if instant not in at:
                raise RefusedError
            return past[: at.index(instant) + 1]

        return Operation(lambda options, **_: self.table.restore(instant, options=options), makes)

    def savepoint(self) -> Operation:
        return serving(self.table.savepoint_create)

    def clean(self) -> Operation:
        count = self.dice.choice([1, 2, 4])
        return serving(lambda **given: self.table.clean(count, **given))

    def archive(self) -> Operation:
        return serving(self.table.archive)

    def maintain(self) -> Operation:
        return serving(self.table.maintain)

    def rebuild_metadata(self) -> Operation:
        if self.index == "RECORD_INDEX":
            return serving(lambda **_: None)
        return serving(self.table.metadata_drop if self.dice.random() < 0.4 else self.table.metadata_build)

    # --- what must hold -----------------------------------------------------------------------------------------

    def live(self, steps: int) -> None:
        self.step(self.upsert)
        self.check()
        for self.clock in range(1, steps):
            if self.step(self.chosen()):
                self.check()
        for instant, stand in self.states.items():
            self.check_state(instant, stand.rows)
        report = self.table.check(deep=True)
        assert report.ok, report.violations
        if self.table.metadata_status().partitions:
            assert self.table.metadata_verify().ok

    def chosen(self) -> Callable[[], Operation]:
        weights = {self.upsert: 8, self.cluster: 4, self.update: 3, self.delete: 2}
        others = (
            *(self.upsert_twice, self.insert, self.delete_where, self.overwrite, self.grow, self.rescale, self.restore),
            *(self.savepoint, self.clean, self.archive, self.maintain, self.rebuild_metadata),
        )
        weights |= dict.fromkeys(others, 1)
        return self.dice.choices(list(weights), list(weights.values()))[0]

    def step(self, drawn: Callable[[], Operation]) -> bool:
        """Do something; nothing, where a condition would have no row to be drawn of."""
        if not self.rows and drawn in {self.delete_where, self.update}:
            return False
        operation, past = drawn(), self.past
        with suppress(UsageError, TableUnsupportedError, MetadataTableError):  # such as a restore behind a savepoint
            operation.does(**self.given, options=self.options)
            past = operation.makes(past)
        self.past = past
        return True

    def look_back(self) -> None:
        """Learn which commit the newest is."""
        writes = [line.instant for line in self.table.history() if line.state == "completed" and line.operation]
        last = self.past[-1]
        known = tuple(one for one in self.past if one.instant is not None)
        newest = max(writes, default=None)
        self.past = (*known, replace(last, instant=None if newest in self.states else newest))

    def check(self) -> None:
        assert self.told(self.table.read(meta=False)) == self.told_rows(self.rows)
        if self.rows:
            where, chooses = self.condition()
            chosen = {key: row for key, row in self.rows.items() if chooses(row)}
            assert self.told(self.table.scan(where=where).to_arrow()) == self.told_rows(chosen), where
        self.look_back()
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
        rows = self.changed(self.states[first].rows, changes)
        assert self.told_rows(rows) == self.told_rows(self.states[last].rows), (first, last)

    def changed(self, before: Rows, changes: list[Row]) -> Rows:
        rows = dict(before)
        for change in changes:
            if change["_change_type"] in {"delete", "update_preimage"}:
                del rows[self.key(change)]
        for change in changes:
            if change["_change_type"] in {"insert", "update_postimage"}:
                assert self.key(change) not in rows
                rows[self.key(change)] = change
        return rows

    def told(self, found: pa.Table) -> list[str]:
        return self._told(found.to_pylist())

    def told_rows(self, rows: Rows) -> list[str]:
        return self._told(list(rows.values()))

    def _told(self, rows: list[Row]) -> list[str]:
        """In words, as a NaN is not equal to itself; of the columns of now, as others went with a restore."""
        return sorted(repr([(name, row.get(name)) for name in (*BASE, *self.columns)]) for row in rows)


def born(place: Path | str, seed: int, index: str | None = None) -> Life:
    dice = random.Random(seed)
    index = index or INDEXES[seed % len(INDEXES)]
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
        place,
        pa.schema([*BASE.items(), *columns.items()]),
        key="id",
        partition="part",
        ordering=ordering,
        index=index,
        table_version=(6, 8, 9)[seed % 3],
        properties={"hoodie.bucket.index.num.buckets": "2"} if index == "BUCKET" else {},
        metadata=None if index == "RECORD_INDEX" or dice.random() < 0.5 else dice.random() < 0.5,
    )
    return Life(table, dice, index, is_global, ordering is not None, options, (Stand({}, columns),))


@pytest.mark.parametrize("seed", some_of(range(LIVES), lambda seed: seed % 2 == 0, pytest.mark.slow))
@pytest.mark.few(2)
def test_any_life_is_that_of_a_dictionary(tmp_path: Path, seed: int) -> None:
    born(tmp_path / "t", seed).live(STEPS)
