"""Lives of tables in which another writer stores keys more than once: random operations beside a
list of rows.

A batch that would write a key with several rows is refused, a delete takes all of them, and what a feed tells as gone is gone.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import InvariantError
from tests.builders import Row, batch_of, make_table
from tests.scheduling import some_of
from tests.stored_indexes import inserted, runner_of, unseen

LIVES: Final = int(os.environ.get("LAKEINDEX_CONTRACT_EXAMPLES", "5"))
STEPS: Final = 14
GLOBAL: Final = ("RECORD_INDEX", "STATE")
LOCAL: Final = ("BLOOM", "INMEMORY")
MOVES: Final = {"hoodie__simple__index__update__partition__path": "true"}
Stored = tuple[str, str, int]
"""Partition, key and version of a row."""


@dataclass
class Life:
    """A table, its rows, and what they were behind each commit."""

    table: LakeTable
    index: str
    dice: random.Random
    given: dict[str, Any]
    version: int = 0
    rows: list[Stored] = field(default_factory=list)
    states: dict[str, list[Stored]] = field(default_factory=dict)

    def scope(self, row: Stored) -> Any:
        return row[1] if self.index in GLOBAL else row[:2]

    def those(self, row: Stored) -> list[Stored]:
        return [one for one in self.rows if self.scope(one) == self.scope(row)]

    def drawn(self, most: int) -> list[Stored]:
        keys = self.dice.sample("abcd", self.dice.randint(1, most))
        return [(self.dice.choice("xy"), key, self.version) for key in keys]

    def insert_again(self) -> None:
        """Another writer does, which looks no key up."""
        day = self.dice.choice("xy")
        rows = [(day, key, version) for _, key, version in self.drawn(2)]
        inserted(self.table, [Row(key, day, version, "") for _, key, version in rows])
        self.rows += rows

    def upsert(self) -> None:
        self.put(self.drawn(3), moves=self.index != "RECORD_INDEX")

    def upsert_unseen(self) -> None:
        rows = [row for row in self.drawn(3) if len(self.those(row)) < 2]
        if rows:
            by = "GLOBAL_SIMPLE" if self.index in GLOBAL else "SIMPLE"
            unseen(self.table, by, [Row(k, d, n, "") for d, k, n in rows], **(MOVES if self.index in GLOBAL else {}))
            self.settle(rows, moves=True)

    def put(self, rows: list[Stored], *, moves: bool) -> None:
        try:
            self.table.upsert(batch_of([Row(key, day, version, "") for day, key, version in rows]), **self.given)
        except InvariantError:
            assert any(len(self.those(row)) > 1 for row in rows)
            return
        assert all(len(self.those(row)) < 2 for row in rows), "a key with several rows was written"
        self.settle(rows, moves=moves)

    def settle(self, rows: list[Stored], *, moves: bool) -> None:
        for row in rows:
            before = self.those(row)
            self.rows = [one for one in self.rows if one not in before]
            self.rows.append(row if moves or not before else (before[0][0], *row[1:]))

    def delete(self) -> None:
        row = self.drawn(1)[0]
        self.table.delete(batch_of([Row(row[1], row[0], 0, None)]).select(["id", "day"]), **self.given)
        self.rows = [one for one in self.rows if self.scope(one) != self.scope(row)]

    def delete_older(self) -> None:
        """Those rows of some keys that meet a condition."""
        rows, limit = self.drawn(2), self.dice.randint(0, self.version)
        batch = batch_of([Row(key, day, version, "") for day, key, version in rows])
        conditions = {"delete_if": f"old.ts <= {limit}", "update_if": "FALSE", "insert_if": "FALSE"}
        self.table.upsert(batch, **conditions, **self.given)
        scopes = [self.scope(row) for row in rows]
        self.rows = [one for one in self.rows if self.scope(one) not in scopes or one[2] > limit]

    def repair(self) -> None:
        self.table.repair_keys(keep="oldest", apply=True)
        found = self.stored()
        assert sorted(map(self.scope, found)) == sorted({self.scope(one) for one in self.rows})
        self.rows = found

    def cluster(self) -> None:
        if self.index != "STATE":
            self.table.cluster(progress=False)

    def stored(self, as_of: str | None = None) -> list[Stored]:
        found: pa.Table = self.table.read(meta=True, as_of=as_of)
        return sorted((row["_hoodie_partition_path"], row["id"], row["ts"]) for row in found.to_pylist())

    def live(self) -> None:
        operations = [self.insert_again, self.upsert, self.upsert_unseen, self.delete, self.delete_older]
        self.settle([("x", key, 0) for key in "abc"], moves=True)
        self.table.upsert(batch_of([Row(key, day, version, "") for day, key, version in self.rows]), **self.given)
        for self.version in range(1, STEPS):
            self.dice.choice([*operations, self.upsert, self.insert_again, self.repair, self.cluster])()
            assert self.stored() == sorted(self.rows)
            self.states[max(one.instant for one in self.table.history() if one.operation)] = list(self.rows)
            self.check_changes()

    def check_changes(self) -> None:
        first, last = sorted(self.dice.choices(sorted(self.states), k=2))
        assert self.stored(first) == sorted(self.states[first])
        if first == last:
            return
        told = self.table.changes(since=first, until=last).to_arrow().to_pylist()
        gone = {self.scope((row["day"], row["id"], 0)) for row in told if row["_change_type"] == "delete"}
        before, after = ({self.scope(row) for row in self.states[point]} for point in (first, last))
        assert gone == before - after


@pytest.mark.parametrize("index", [*GLOBAL, *LOCAL])
@pytest.mark.parametrize("number", some_of(range(LIVES), lambda number: number < 2, pytest.mark.slow))
@pytest.mark.few(4)
def test_any_life_equals_a_list(tmp_path: Path, index: str, number: int) -> None:
    dice = random.Random(f"{index} {number}")
    options = {"hoodie.metadata.compact.max.delta.commits": dice.choice(["1", "2", "30"])}
    table = make_table(tmp_path / "t", ordering=None, hoodie__index__type=index)
    Life(table, index, dice, {"runner": runner_of(index), "options": options}).live()
