"""Laws of conditional upserts, and any conditions judged by DuckDB."""

from __future__ import annotations

import math
import uuid
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from tests.builders import make_table, rows_of
from tests.strategies import examples

SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False), ("x", pa.int64()), ("f", pa.float64()), ("s", pa.string())]
)
SMALL = {"lakeindex.chunk.rows": "3", "lakeindex.parquet.row.group.rows": "2"}
Found = dict[str, tuple[Any, ...]]

_ROW = st.fixed_dictionaries(
    {
        "id": st.sampled_from("abcdef"),
        "x": st.none() | st.integers(-2, 3),
        "f": st.none() | st.sampled_from([-1.5, 0.0, 2.0, math.inf, math.nan]),
        "s": st.none() | st.sampled_from(["", "a", "b", "\u00e9"]),
    }
)
_BATCH = st.lists(_ROW, min_size=1, max_size=6, unique_by=lambda row: row["id"])


def _leaves(rows: list[str]) -> st.SearchStrategy[str]:
    row = st.sampled_from(rows)
    how = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    number = st.tuples(row, st.sampled_from("xf")).map(".".join)
    side = number | st.sampled_from(["0", "1", "-2"]) | st.tuples(number, st.sampled_from("+-*"), number).map(" ".join)
    text = row.map(lambda name: f"{name}.s")
    return (
        st.tuples(number, how, side).map(" ".join)
        | st.tuples(text, how, text | st.just("'a'")).map(" ".join)
        | st.tuples(number | text, st.sampled_from(["IS NULL", "IS NOT NULL"])).map(" ".join)
        | st.tuples(number, st.sampled_from(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]), number).map(" ".join)
        | st.tuples(text, st.sampled_from(["IN ('a', NULL)", "NOT IN ('')", "LIKE 'a%'"])).map(" ".join)
    )


def _conditions(*rows: str) -> st.SearchStrategy[str]:
    return st.recursive(
        _leaves(list(rows)),
        lambda inner: (
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda three: f"({' '.join(three)})")
            | inner.map(lambda one: f"NOT ({one})")
        ),
        max_leaves=3,
    )


_GIVEN = st.fixed_dictionaries(
    {},
    optional={
        "update_if": _conditions("old", "new"),
        "delete_if": _conditions("old", "new"),
        "insert_if": _conditions("new"),
    },
)


def made(**options: str) -> LakeTable:
    return make_table(f"memory://{uuid.uuid4()}", ordering=None, partitions=(), schema=SCHEMA, **options)


def content(table: LakeTable) -> Found:
    return {str(row["id"]): _plain(row[name] for name in ("x", "f", "s")) for row in rows_of(table)}


def _plain(values: Any) -> tuple[Any, ...]:
    return tuple("NaN" if isinstance(one, float) and math.isnan(one) else one for one in values)


def upsert(table: LakeTable, batch: list[dict[str, Any]], **conditions: str) -> dict[str, int]:
    rows = pa.Table.from_pylist(batch, SCHEMA)
    return table.upsert(rows, options=SMALL, checkpoints=f"{table.uri}-runs", **conditions).fates


class Judge:
    """The rows as DuckDB would merge them."""

    def __init__(self) -> None:
        self._duck = duckdb.connect()
        self.rows: dict[str, dict[str, Any]] = {}

    def merge(self, batch: list[dict[str, Any]], conditions: dict[str, str]) -> dict[str, int]:
        """Counts by fate, as of a summary."""
        old = pa.Table.from_pylist(list(self.rows.values()), SCHEMA)  # noqa: F841 - DuckDB finds it by its name
        new = pa.Table.from_pylist(batch, SCHEMA)  # noqa: F841 - the same
        update, delete = conditions.get("update_if", "TRUE"), conditions.get("delete_if", "FALSE")
        matched = self._duck.sql(f"SELECT new.id, ({delete}), ({update}) FROM new JOIN old ON old.id = new.id")
        answers = {key: answer for key, *answer in matched.fetchall()}
        alone = self._duck.sql(f"SELECT id FROM new WHERE {conditions.get('insert_if', 'TRUE')}").fetchall()
        counts: dict[str, int] = {}
        for row in batch:
            fate = self._apply(row, answers.get(row["id"]), is_inserted=(row["id"],) in alone)
            counts[fate] = counts.get(fate, 0) + 1
        return counts

    def _apply(self, row: dict[str, Any], answer: list[bool | None] | None, *, is_inserted: bool) -> str:
        if answer is None:
            if not is_inserted:
                return "ignored"
            self.rows[row["id"]] = row
            return "inserts"
        if answer[0]:
            del self.rows[row["id"]]
            return "deletes"
        if not answer[1]:
            return "ignored"
        self.rows[row["id"]] = row
        return "updates"

    def content(self) -> Found:
        """As :func:`content`."""
        return {key: _plain(row[name] for name in ("x", "f", "s")) for key, row in self.rows.items()}


@settings(max_examples=examples(24), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(_BATCH, _GIVEN), min_size=1, max_size=3), _BATCH)
def test_any_conditions_merge_as_duckdb_merges(
    batches: list[tuple[list[dict[str, Any]], dict[str, str]]], first: list[dict[str, Any]]
):
    table, judge = made(), Judge()
    for batch, conditions in [(first, {}), *batches]:
        assert upsert(table, batch, **conditions) == judge.merge(batch, conditions), conditions
        assert content(table) == judge.content(), conditions


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(_BATCH, min_size=1, max_size=4))
def test_what_is_newer_only_changes_nothing_a_second_time(batches: list[list[dict[str, Any]]]):
    table = made()
    for batch in batches:
        upsert(table, batch, update_if="new.x > old.x")
        before = content(table)
        assert upsert(table, batch, update_if="new.x > old.x") == {"ignored": len(batch)}
        assert content(table) == before


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
@pytest.mark.parametrize("ordering", ["x", None])
def test_the_greatest_wins_however_rows_are_split_and_ordered(ordering: str | None, data: st.DataObject):
    """Where the table has the same ordering field; else if no key is in a batch twice."""
    rows = data.draw(st.lists(_ROW, min_size=1, max_size=8, unique_by=lambda row: (row["id"], row["x"])))
    rows = [row for row in rows if row["x"] is not None]
    greatest: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["id"] not in greatest or row["x"] > greatest[row["id"]]["x"]:
            greatest[row["id"]] = row
    table = make_table(f"memory://{uuid.uuid4()}", ordering=ordering, partitions=(), schema=SCHEMA)
    mixed = data.draw(st.permutations(rows))
    while mixed:
        size = data.draw(st.integers(1, len(mixed))) if ordering else 1
        upsert(table, mixed[:size], update_if="new.x > old.x")
        mixed = mixed[size:]
    assert content(table) == {key: _plain(row[name] for name in ("x", "f", "s")) for key, row in greatest.items()}
