"""Whole lives of tables: random operations of the API on tables of which everything is drawn, beside a dictionary.

After each operation, done or refused, the rows are those of the dictionary, however they are asked for; so are the rows of
each earlier point in time, and the changes between two of them. `make test` plays two lives that are always the same,
`make test-slow` some of two hundred that passed before, others at each commit, so that a change fails for what it changed.
`make test-long SEED=5000` plays those of 1,000 seeds, new ones if none is named.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakeindex import create_table
from lakeindex.api.table import LakeTable
from lakeindex.errors import (
    IndexNotBuiltError,
    LakeIndexError,
    MetadataTableError,
    OptionError,
    QuarantineExceededError,
    TableUnsupportedError,
    UsageError,
)
from tests.scheduling import some_of, turn_of_commit
from tests.stored_indexes import runner_of

LIVES: Final = int(os.environ.get("LAKEINDEX_CONTRACT_EXAMPLES", "7"))
PASSED: Final = 210
FIRST: Final = int(os.environ.get("LAKEINDEX_LIVES_FROM", 2 + turn_of_commit() % (PASSED // LIVES or 1) * LIVES))
SEEDS: Final = (0, 1, *range(FIRST, FIRST + LIVES))
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
AFTER: Final = {  # what an index may become whose keys are unique in the same scope
    "BLOOM": "SIMPLE",
    "SIMPLE": "BUCKET",
    "BUCKET": "BLOOM",
    "INMEMORY": "GLOBAL_SIMPLE",
    "RECORD_LEVEL_INDEX": "BLOOM",
}
AFTER_ANY: Final = AFTER | {
    "BUCKET": "SIMPLE",
    "GLOBAL_BLOOM": "GLOBAL_SIMPLE",
    "GLOBAL_SIMPLE": "RECORD_INDEX",
    "RECORD_INDEX": "GLOBAL_SIMPLE",
    "RECORD_LEVEL_INDEX": "SIMPLE",
}
ANY_INDEXES: Final = (*INDEXES, "RECORD_LEVEL_INDEX", "STATE")
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
WIDE: Final = {
    "id": pa.string(),
    "num": pa.int64(),
    "part": pa.string(),
    "sub": pa.string(),
    "day": pa.date32(),
    "ts": pa.int64(),
    "seq": pa.int64(),
    "op": pa.string(),
}
SPECIAL: Final = ("a b", "é", "x=y", "p/q", None, "", "%41", "a%2Fb")
COMPARED: Final = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
OPTIONS: Final = {
    "hoodie.bloom.index.filter.type": ("SIMPLE", "DYNAMIC_V0"),
    "hoodie.bloom.index.prune.by.ranges": ("true", "true", "false"),
    "hoodie.bloom.index.use.metadata": ("true", "false"),
    "hoodie.metadata.compact.max.delta.commits": ("1", "2", "30"),
    "hoodie.metadata.enable": ("true", "true", "false"),
    "hoodie.parquet.compression.codec": ("zstd", "snappy", "gzip", "uncompressed"),
    "hoodie.parquet.max.file.size": ("2000", "125829120"),
    "hoodie.parquet.small.file.limit": ("0", "3000", "104857600"),
    "lakeindex.bloom.sizing": ("exact", "fixed"),
    "lakeindex.chunk.rows": ("1", "3", "250000"),
    "lakeindex.footer.cache": ("true", "true", "false"),
    "lakeindex.memory": ("64m", "512m"),
    "lakeindex.parallelism": ("1", "2"),
    "lakeindex.parquet.row.group.rows": ("1", "5", "1000"),
    "lakeindex.staged.codec": ("auto", "zstd", "lz4"),
}
"""Of a write, others each time."""
MARKED: Final = ("field=op", "marker=D")
REFUSALS: Final = (UsageError, QuarantineExceededError, TableUnsupportedError, IndexNotBuiltError)
Row = dict[str, Any]
Key = tuple[Any, ...]
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
    base: Columns = field(default_factory=lambda: BASE)
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
        made = pa.Table.from_pylist(rows, schema=pa.schema([*self.base.items(), *values.items()]))
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

    def rollback(self) -> Operation:
        instant = max(self.states)

        def makes(past: Past) -> Past:
            while past[-1].instant is None and len(past) > 1 and past[-1].rows == past[-2].rows:
                past = past[:-1]
            if past[-1].instant != instant:
                raise RefusedError
            return past[:-1] or (Stand({}, self.columns),)

        return Operation(lambda options, **_: self.table.rollback(instant, options=options), makes)

    def savepoint_delete(self) -> Operation:
        kept = self.dice.choice([one.instant for one in self.table.savepoint_list().savepoints] or ["1"])
        return serving(lambda **given: self.table.savepoint_delete(kept, **given))

    def delete_partitions(self) -> Operation:
        part = f"p{self.dice.randrange(3)}"
        return writing(
            lambda **given: self.table.delete_partitions([part], **given),
            lambda rows: {key: row for key, row in rows.items() if row["part"] != part},
        )

    def build_partition(self) -> Operation:
        name = self.dice.choice(["column_stats", "partition_stats", "bloom_filters", "record_index"])
        return serving(lambda **given: self.table.metadata_build([name], **given))

    def drop_partition(self) -> Operation:
        name = self.dice.choice(["column_stats", "partition_stats", "bloom_filters"])
        return serving(lambda **given: self.table.metadata_drop([name], **given))

    def compact(self) -> Operation:
        options = {"hoodie.metadata.compact.max.delta.commits": "1"}
        return serving(lambda **given: self.table.maintain(["metadata", "compact"], options=given["options"] | options))

    def index_build(self) -> Operation:
        return serving(self.table.index_build)

    def migrate(self) -> Operation:
        to, more = AFTER[self.index], {"hoodie.bucket.index.num.buckets": "2"} if self.index == "SIMPLE" else {}
        return serving(lambda options: self.table.index_migrate(to, options=options | more))

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
        if not self.states:
            return
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
        return sorted(repr([(name, row.get(name)) for name in (*self.base, *self.columns)]) for row in rows)


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


@dataclass
class AnyLife(Life):
    """Of a table of which everything is drawn, and whose options are others at each step.

    Attributes:
        keys, parts: columns.
        newer: columns of which the greater one wins; none: what is written last.
        moves: a row whose key comes with another partition goes there.
        mark: a row of an upsert is a delete, if it has this.
        spelled: keys are stored as ``field:value``.
        refused: what was, and why.
    """

    keys: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    newer: tuple[str, ...] = ()
    moves: bool = True
    mark: tuple[str, Any] = ("_hoodie_is_deleted", True)
    spelled: bool = False
    prefix: str = "k"
    values: Sequence[Any] = ()
    refused: list[str] = field(default_factory=list)
    said: str = ""

    # --- rows -------------------------------------------------------------------------------------------------

    def place(self, row: Row) -> str:
        """What is the same of rows of one partition."""
        told = [row[name].isoformat()[:7] if name == "day" else row[name] or "" for name in self.parts]
        return "|".join(told)

    def key(self, row: Row) -> Key:
        return (*(row[name] for name in self.keys), "" if self.is_global else row.get("_place", self.place(row)))

    def stored_key(self, row: Row) -> str:
        return ",".join(f"{name}:{row[name]}" if self.spelled else str(row[name]) for name in self.keys)

    def one(self, number: int, columns: Columns) -> Row:
        few = self.dice.random() < 0.7 or self.index == "INMEMORY"
        place = number if few else self.dice.randrange(6)
        row = {
            "id": f"{self.prefix}{number if len(self.keys) == 1 else number // 5:02d}",
            "num": number if self.keys == ("num",) else number % 5,
            "part": self.values[place % len(self.values)],
            "sub": f"s{place % 2}",
            "day": date(2026, 1 + place % 3, 1 + place % 4),
            "ts": self.clock - self.dice.choice([0, 0, 1, 3]),
            "seq": self.dice.randrange(6),
            "op": self.dice.choice([None, "I"]),
        }
        return row | {name: self.dice.choice(VALUES[kind]) for name, kind in columns.items()}

    def drawn(self, most: int, columns: Columns | None = None, *, twice: bool = False) -> list[Row]:
        numbers = self.dice.sample(range(40), self.dice.randint(1, most))
        if twice:
            numbers += self.dice.choices(numbers, k=self.dice.choice([0, 0, 3]))
        rows = [self.one(number, self.columns if columns is None else columns) for number in numbers]
        if not twice:  # of keys of several columns two numbers may be one
            rows = list({self.key(row): row for row in rows}.values())
        return rows

    def order(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.newer)

    def combined(self, rows: list[Row]) -> list[Row]:
        found: dict[Key, Row] = {}
        for row in rows:
            before = found.get(self.key(row))
            if before is None or self.order(row) >= self.order(before):
                found[self.key(row)] = row
        return list(found.values())

    def put(
        self,
        new: list[Row],
        *,
        update: Callable[[Row, Row], bool] = lambda old, new: True,
        delete: Callable[[Row, Row], bool] = lambda old, new: False,
        insert: Callable[[Row], bool] = lambda new: True,
        made: Callable[[Row, Row], Row] = lambda old, new: new,
    ) -> Callable[[Rows], Rows]:
        name, value = self.mark

        def makes(rows: Rows) -> Rows:
            rows = dict(rows)
            for row in self.combined(new):
                key, is_gone = self.key(row), row.get(name) == value
                old = rows.get(key)
                if old is None:
                    if not is_gone and insert(row):
                        rows[key] = row | {"_place": self.place(row)}
                elif (not (deletes := delete(old, row)) and not update(old, row)) or self.order(row) < self.order(old):
                    continue
                elif is_gone or deletes:
                    del rows[key]
                else:
                    rows[key] = made(old, row) | {"_place": self.place(row) if self.moves else old["_place"]}
            return rows

        return makes

    def condition(self) -> tuple[str, Callable[[Row], bool]]:
        text, holds = self._condition(2)
        return text, lambda row: holds(row) is True

    def _condition(self, depth: int) -> tuple[str, Callable[[Row], bool | None]]:
        if depth and self.dice.random() < 0.6:
            (one, left), (other, right) = self._condition(depth - 1), self._condition(depth - 1)
            match self.dice.randrange(3):
                case 0:
                    return f"NOT ({one})", lambda row: None if left(row) is None else not left(row)
                case 1:
                    return f"({one} AND {other})", lambda row: _and(left(row), right(row))
                case _:
                    return f"({one} OR {other})", lambda row: _or(left(row), right(row))
        row = self.dice.choice(list(self.rows.values()) or [self.one(1, self.columns)])
        ints = [name for name, kind in self.columns.items() if kind in {pa.int32(), pa.int64(), TEXT}]
        name = self.dice.choice(["id", "num", "part", "sub", "day", "ts", "seq", "op", *self.keys, *self.parts, *ints])
        value = row.get(name)
        if value is None:
            return f"{name} IS NULL", lambda row: row.get(name) is None
        text = {str: f"'{value}'", date: f"DATE '{value}'"}.get(type(value), str(value))
        how, holds = self.dice.choice(list(COMPARED.items()))
        return f"{name} {how} {text}", lambda row: None if row.get(name) is None else holds(row[name], value)

    # --- operations -------------------------------------------------------------------------------------------

    def upsert(self) -> Operation:
        rows = self.drawn(12, twice=True)
        batch = self.batch(rows)
        return writing(lambda **given: self.table.upsert(batch, **given), self.put(rows))

    def upsert_marked(self) -> Operation:
        name, value = self.mark
        rows = [row | ({name: value} if self.dice.random() < 0.4 else {}) for row in self.drawn(8, twice=True)]
        columns = self.columns if name in self.base else {**self.columns, name: pa.bool_()}
        batch = self.batch(rows, columns)
        return writing(lambda **given: self.table.upsert(batch, **given), self.put(rows))

    def upsert_if(self) -> Operation:
        rows, limit = self.drawn(10, twice=True), self.dice.randrange(6)
        batch = self.batch(rows)
        conditions = {
            "update_if": "new.seq > old.seq",
            "delete_if": f"old.seq = {limit}",
            "insert_if": f"new.seq != {limit}",
        }
        rules: Any = {
            "update": lambda old, new: new["seq"] > old["seq"],
            "delete": lambda old, _: old["seq"] == limit,
            "insert": lambda new: new["seq"] != limit,
        }
        chosen = self.dice.sample(list(rules), self.dice.randint(1, 3))
        conditions = {f"{name}_if": conditions[f"{name}_if"] for name in chosen}
        makes = self.put(rows, **{name: rules[name] for name in chosen})
        return writing(lambda **given: self.table.upsert(batch, **given, **conditions), makes)

    def upsert_partial(self) -> Operation:
        nulls = self.dice.choice(["overwrite", "keep"])
        has = {name: kind for name, kind in self.columns.items() if self.dice.random() < 0.5}
        rows = self.drawn(8, has)
        batch = self.batch(rows, has)

        def made(old: Row, new: Row) -> Row:
            kept = {*self.base, *self.columns} - {*self.keys, *self.parts} if nulls == "keep" else set()
            return old | {n: v for n, v in new.items() if v is not None or n not in kept}

        return writing(
            lambda **given: self.table.upsert(batch, **given, partial=True, nulls=nulls), self.put(rows, made=made)
        )

    def upsert_merged(self) -> Operation:
        if "seq" in self.newer:
            return self.upsert()
        rows = self.drawn(8)
        batch = self.batch(rows)

        def merge(stored: pa.Table, incoming: pa.Table) -> pa.Table:
            both = pc.add(stored["seq"], incoming["seq"])
            return incoming.set_column(incoming.column_names.index("seq"), incoming.schema.field("seq"), both)

        makes = self.put(rows, made=lambda old, new: new | {"seq": old["seq"] + new["seq"]})
        return writing(lambda **given: self.table.upsert(batch, **given, merge=merge), makes)

    def insert_ignoring(self) -> Operation:
        new = self.drawn(8)
        batch = self.batch(new)
        return writing(
            lambda **given: self.table.insert(batch, "ignore", **given),
            lambda rows: self.put([row for row in new if self.key(row) not in rows])(rows),
        )

    def bulk_insert(self) -> Operation:
        new = self.drawn(8)
        batch = self.batch(new)

        def makes(rows: Rows) -> Rows:
            places = {self.place(row) for row in new}
            if rows if self.is_global else places & {row["_place"] for row in rows.values()}:
                raise RefusedError
            return self.put(new)(rows)

        return writing(lambda **given: self.table.bulk_insert(batch, **given), makes)

    def overwrite(self) -> Operation:
        new = self.drawn(6)
        places, batch = {self.place(row) for row in new}, self.batch(new)
        whole = self.is_global or self.dice.random() < 0.3
        write = self.table.insert_overwrite_table if whole else self.table.insert_overwrite

        def makes(rows: Rows) -> Rows:
            return self.put(new)({k: row for k, row in rows.items() if not whole and row["_place"] not in places})

        return writing(lambda **given: write(batch, **given), makes)

    def replace_where(self) -> Operation:
        value = self.dice.randrange(6)
        new = [row | {"seq": value} for row in self.drawn(6)]
        batch = self.batch(new)

        def makes(rows: Rows) -> Rows:
            stay = {key: row for key, row in rows.items() if row["seq"] != value}
            if any(self.key(row) in stay for row in new):
                raise RefusedError
            met = {key: row for key, row in rows.items() if key not in stay}
            put = self.put(new)(met)
            return stay | {key: put[key] for key in map(self.key, new)}

        return writing(lambda **given: self.table.replace_where(batch, where=f"seq = {value}", **given), makes)

    def truncate(self) -> Operation:
        return writing(lambda options, **_: self.table.truncate(options=options), lambda rows: {})

    def migrate(self) -> Operation:
        to = AFTER_ANY[self.index]
        more = {"hoodie.bucket.index.num.buckets": "2"} if to == "BUCKET" else {}

        def does(options: Mapping[str, str]) -> None:
            self.table.index_migrate(to, options=options | more)
            self.index = to

        return serving(does)

    def index_build(self) -> Operation:
        runner = self.given["runner"]
        return serving(lambda options: self.table.index_build(options=options, runner=runner))

    def repair(self) -> Operation:
        return serving(lambda options: self.table.repair(options=options))

    def chosen(self) -> Callable[[], Operation]:
        often = [self.upsert, self.upsert_marked, self.cluster]
        others = [
            *(self.upsert_twice, self.upsert_if, self.upsert_partial, self.upsert_merged, self.insert),
            *(self.insert_ignoring, self.bulk_insert, self.delete, self.delete_where, self.update, self.overwrite),
            *(self.replace_where, self.truncate, self.grow, self.restore, self.rollback, self.savepoint),
            *(self.savepoint_delete, self.clean, self.archive, self.maintain, self.compact, self.rebuild_metadata),
            *(self.build_partition, self.build_partition, self.drop_partition),
        ]
        others += [self.rescale] * (self.index == "BUCKET")
        others += [self.migrate] * (self.index in AFTER_ANY)
        others += [self.index_build] * (self.index in {"RECORD_INDEX", "RECORD_LEVEL_INDEX", "STATE"})
        return self.dice.choice(often * 4 + others)

    def step(self, drawn: Callable[[], Operation]) -> bool:
        self.options = self.options | {name: self.dice.choice(values) for name, values in OPTIONS.items()}
        if self.options["lakeindex.footer.cache"] == "false":
            self.options["hoodie.bloom.index.use.metadata"] = "false"
        if self.index.startswith("RECORD"):  # it is in the metadata table
            self.options["hoodie.metadata.enable"] = "true"
        if not self.rows and drawn in {self.delete_where, self.update, self.delete}:
            return False
        if not self.states and drawn in {self.restore, self.rollback}:
            return False
        operation, past = drawn(), self.past
        self.said = f"{self.clock} {drawn.__name__}"
        try:
            operation.does(**self.given, options=self.options)
        except LakeIndexError as error:
            self.refused.append(f"{drawn.__name__}: {type(error).__name__}: {error}")
            if not isinstance(error, REFUSALS):
                raise
        else:
            self.past = operation.makes(past)
        return True

    # --- what must hold -----------------------------------------------------------------------------------------

    def check(self) -> None:
        super().check()
        assert self.table.count() == len(self.rows)
        report = self.table.check()
        assert report.ok, report.violations
        if self.table.metadata_status().partitions:
            verified = self.table.metadata_verify()
            assert verified.ok, verified
        keys = {self.stored_key(self.one(number, {})) for number in self.dice.sample(range(40), 5)}
        found = self.table.get(sorted(keys), options=self.options, runner=self.given["runner"])
        of_them = {key: row for key, row in self.rows.items() if self.stored_key(row) in keys}
        assert self.told(found.rows) == self.told_rows(of_them)
        assert set(found.missing) == keys - {self.stored_key(row) for row in of_them.values()}

    def check_changes(self) -> None:
        if self.table.properties.get("hoodie.populate.meta.fields") != "false":
            super().check_changes()

    def live(self, steps: int) -> None:
        super().live(steps)
        ids = [row["id"] for file in self.table.files() for row in self.others(file.path)]
        assert sorted(ids) == sorted(row["id"] for row in self.rows.values())

    def others(self, file: str) -> list[Row]:
        return pq.read_table(Path(self.table.uri) / file, columns=["id"], partitioning=None).to_pylist()


def _and(one: bool | None, other: bool | None) -> bool | None:
    return False if one is False or other is False else None if one is None or other is None else True


def _or(one: bool | None, other: bool | None) -> bool | None:
    return True if one is True or other is True else None if one is None or other is None else False


def drawn_life(place: Path, seed: int) -> AnyLife:
    """A table that can be made, of all that there may be; what cannot be is drawn again."""
    dice = random.Random(seed)
    while True:
        life = _drawn(place, dice)
        if life is not None:
            return life


def _drawn(place: Path, dice: random.Random) -> AnyLife | None:
    index, version, is_global = dice.choice(ANY_INDEXES), dice.choice([6, 8, 9]), False
    moves = dice.random() < 0.7
    keys = dice.choice([("id",), ("id",), ("num",), ("id", "num")])
    partition = dice.choice([(), ("part",), ("part",), ("sub", "part"), ("day:month",)])
    ordering = dice.choice([(), ("ts",), ("ts",), *([("ts", "seq")] if version == 9 else [])])
    mode = dice.choice(["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING", None])
    special, spelled = dice.random() < 0.4, len(keys) > 1
    properties = {
        "hoodie.bucket.index.num.buckets": dice.choice(["1", "2", "5"]),
        "hoodie.datasource.write.hive_style_partitioning": dice.choice(["true", "false"]),
    }
    if partition != ("day:month",):
        properties["hoodie.datasource.write.partitionpath.urlencode"] = "true" if special else "false"
    if mode is not None:
        properties["hoodie.write.record.merge.mode"] = mode
    if index == "STATE":
        is_global, moves = dice.random() < 0.5, True
        properties |= {"index.global.enabled": str(is_global).lower(), "lakeindex.state.partitions": "2"}
    if len(partition) > 1 and len(keys) == 1:
        spelled = dice.random() < 0.5
        properties["hoodie.write.complex.keygen.new.encoding"] = str(not spelled).lower()
    properties["hoodie.populate.meta.fields"] = dice.choice(["true", "true", "true", "true", "false"])
    is_global = is_global or index in MOVES or index == "INMEMORY"
    columns = {f"v{number}": kind for number, kind in enumerate(dice.sample(list(VALUES), 3))}
    arguments: dict[str, Any] = {
        "key": keys,
        "partition": partition,
        "ordering": ordering,
        "index": index,
        "table_version": version,
        "properties": properties,
        "metadata": None if "RECORD" in index or dice.random() < 0.5 else dice.random() < 0.5,
    }
    try:
        table = create_table(place, pa.schema([*WIDE.items(), *columns.items()]), **arguments)
    except (OptionError, TableUnsupportedError):
        return None
    mark: tuple[str, Any] = ("op", "D") if version == 9 and dice.random() < 0.4 else ("_hoodie_is_deleted", True)
    if mark[0] == "op":
        with (place / ".hoodie/hoodie.properties").open("a", encoding="utf-8") as file:
            file.writelines(f"hoodie.record.merge.property.hoodie.payload.delete.{one}\n" for one in MARKED)
    if mode == "COMMIT_TIME_ORDERING":
        ordering = ()
    options = dict.fromkeys(MOVES.values(), str(moves).lower())
    return AnyLife(
        *(table, dice, index, is_global, bool(ordering), options, (Stand({}, columns),)),
        base=WIDE,
        given={"runner": runner_of(index)},
        keys=keys,
        parts=tuple(name.partition(":")[0] for name in partition),
        newer=ordering,
        moves=moves,
        mark=mark,
        spelled=spelled,
        prefix=dice.choice(["k", "k", "a:", "é ", "x=y,", "%3A"]),
        values=SPECIAL if special else ("p0", "p1", "p2", None),
    )


@pytest.mark.parametrize("seed", some_of(SEEDS, (0, 1).__contains__, pytest.mark.slow))
def test_any_life_is_that_of_a_dictionary(tmp_path: Path, seed: int) -> None:
    drawn_life(tmp_path / "t", seed).live(STEPS if seed > 1 else STEPS // 2)
