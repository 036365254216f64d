"""Conditions as texts mean what DuckDB takes them for, nulls and NaN included; and nothing is pruned that they choose."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakeindex.predicates.bounds import ALL_NULL, UNKNOWN, Bounds
from lakeindex.predicates.nodes import Path, Value
from lakeindex.predicates.predicate import Predicate, predicate_of

SCHEMA = pa.schema(
    [
        ("row", pa.int64()),
        ("i", pa.int64()),
        ("k", pa.int32()),
        ("f", pa.float64()),
        ("g", pa.float32()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("m", pa.decimal128(9, 2)),
        ("y", pa.binary()),
        ("st", pa.struct([("a", pa.int64()), ("in", pa.struct([("x", pa.string())]))])),
    ]
)
INTS = [-3, -1, 0, 1, 2, 3]
FLOATS = [-1.5, -0.0, 0.0, 0.5, 1.0, 2.5, math.inf, math.nan]
TEXTS = ["", "a", "A", "ab", "b", "ba", "é", "a%", "a\nb", "\U0001f600"]
DAYS = [dt.date(1969, 12, 31), dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
EPOCH = dt.datetime.fromisoformat("1970-01-01")
MOMENTS = [
    dt.datetime.fromisoformat(text)
    for text in ("1969-12-31 23:59:59.000005", "2026-01-01", "2026-01-01 00:00:00.000001")
]
AMOUNTS = [Decimal("-1.50"), Decimal("0.00"), Decimal("0.10"), Decimal("2.00")]
BYTES = [b"", b"\x00", b"\x01", b"\xff"]


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    def maybe(values: list[Any]) -> st.SearchStrategy[Any]:
        return st.none() | st.sampled_from(values)

    inner = st.none() | st.fixed_dictionaries({"x": maybe(TEXTS)})
    row = st.fixed_dictionaries(
        {
            "i": maybe(INTS),
            "k": maybe(INTS),
            "f": maybe(FLOATS),
            "g": maybe(FLOATS),
            "s": maybe(TEXTS),
            "b": maybe([True, False]),
            "d": maybe(DAYS),
            "t": maybe(MOMENTS),
            "m": maybe(AMOUNTS),
            "y": maybe(BYTES),
            "st": st.none() | st.fixed_dictionaries({"a": maybe(INTS), "in": inner}),
        }
    )
    return st.lists(row, min_size=1, max_size=6)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


NUMBERS = [*map(str, INTS), "1.5", "-0.25", "0.10", "2e0", "99999999999", "0.105"]
LITERALS = {
    "i": NUMBERS,
    "k": NUMBERS,
    "f": NUMBERS,
    "g": [*map(str, INTS), "0.5", "2.5"],
    "s": [_quoted(one) for one in TEXTS],
    "b": ["true", "false"],
    "d": ["'2026-01-01'", "DATE '2026-01-02'"],
    "t": ["'2026-01-01'", "TIMESTAMP '2026-01-01 00:00:00.000001'", "'1969-12-31 23:59:59'"],
    "m": NUMBERS,
    "st.a": NUMBERS,
    'st."in".x': [_quoted(one) for one in TEXTS],
}
OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "<>"]


SUMS = st.recursive(
    st.sampled_from(["i", "k", "f", "m", "st.a", "2", "-1", "0.5"]),
    lambda inner: (
        st.tuples(inner, st.sampled_from("+-*"), inner).map(" ".join)
        | inner.map(lambda one: f"(-({one}))")
        | st.tuples(inner, inner).map(lambda two: f"({two[0]} / ({two[1]}))")
    ),
    max_leaves=3,
).filter(lambda text: any(one.isalpha() for one in text))


@st.composite
def leaves(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(LITERALS)))
    literal = st.sampled_from(LITERALS[column])
    kind = draw(st.integers(0, 9))
    no = draw(st.sampled_from(["", "NOT "]))
    if kind < 3:
        return f"{column} {draw(st.sampled_from(OPERATORS))} {draw(literal)}"
    if kind == 3:
        return f"{draw(literal)} {draw(st.sampled_from(OPERATORS))} {column}"
    if kind == 4:
        return f"{column} {no}IN ({', '.join(draw(st.lists(literal | st.just('NULL'), min_size=1, max_size=3)))})"
    if kind == 5:
        return f"{column} {no}BETWEEN {draw(literal)} AND {draw(literal)}"
    if kind == 6:
        return f"{column} IS {no}NULL"
    if kind == 7:
        return f"{column} IS {no}DISTINCT FROM {draw(literal | st.just('NULL'))}"
    if kind == 8:
        pattern = draw(st.text("ab%_A\né", max_size=3))
        return draw(
            st.sampled_from(
                [
                    f"s {no}LIKE {_quoted(pattern)}",
                    f"s {no}LIKE {_quoted(pattern + '!%')} ESCAPE '!'",
                    f"s {no}ILIKE {_quoted(pattern)}",
                    f"starts_with(s, {_quoted(pattern)})",
                    f"ends_with(s, {_quoted(pattern)})",
                    f"contains(s, {_quoted(pattern)})",
                    f"lower(s) = {_quoted(pattern)}",
                    "length(s) > 1",
                    "upper(s) IS NULL",
                ]
            )
        )
    sums = st.tuples(SUMS, st.sampled_from(OPERATORS), SUMS | st.sampled_from(NUMBERS[:8])).map(" ".join)
    return draw(
        sums
        | st.sampled_from(
            ["b", "NOT b", "b IS TRUE", "b IS NOT FALSE", "i < k", "f >= g", "f = f", "i != f", "NULL", "TRUE", "i < m"]
            + [f"{left} IS {no}DISTINCT FROM {right}" for left, right in ("ik", "fg", "im", "tt", "if")]
        )
    )


CONDITIONS = st.recursive(
    leaves(),
    lambda inner: (
        st.tuples(inner, inner).map(lambda two: f"({two[0]} AND {two[1]})")
        | st.tuples(inner, inner).map(lambda two: f"({two[0]} OR {two[1]})")
        | inner.map(lambda one: f"NOT ({one})")
        | inner.map(lambda one: f"({one}) IS NOT TRUE")
    ),
    max_leaves=5,
)


def table_of(found: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{"row": n, **row} for n, row in enumerate(found)], schema=SCHEMA)


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in ("error_on_division_by_zero", "ieee_floating_point_ops"):  # a quotient by zero is null, as in Spark
        connection.execute(f"SET {name} = false")
    return connection


def chosen_by_duckdb(duck: duckdb.DuckDBPyConnection, table: pa.Table, condition: str) -> list[int]:
    given_rows = table  # noqa: F841 - DuckDB finds it by its name
    return [row for (row,) in duck.sql(f"SELECT row FROM given_rows WHERE {condition} ORDER BY row").fetchall()]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(rows(), CONDITIONS)
@example([{"f": math.nan}], "f > 1")
@example([{"f": math.nan}], "NOT (f <= 1)")
@example([{"i": None}], "i NOT IN (1, 2)")
@example([{"i": 3}], "i NOT IN (1, NULL)")
@example([{"f": -0.0}], "f IN (0)")
@example([{"i": None}], "i IS DISTINCT FROM k")
@example([{"i": 1, "k": 0}], "i / k > 1")
def test_the_rows_are_those_that_duckdb_chooses(
    duck: duckdb.DuckDBPyConnection, found: list[dict[str, Any]], condition: str
):
    table = table_of(found)
    predicate = predicate_of(condition, SCHEMA)
    chosen = predicate.filter(table)["row"].to_pylist()
    assert chosen == chosen_by_duckdb(duck, table, condition), condition
    facts = facts_of(table, predicate)
    assert predicate.may_match(facts) or not chosen, (condition, facts)


@settings(deadline=None, max_examples=300)
@given(rows(), CONDITIONS)
def test_a_pyarrow_expression_is_pruned_as_carefully(found: list[dict[str, Any]], condition: str):
    table = table_of(found)
    opaque = predicate_of(predicate_of(condition, SCHEMA).expression, SCHEMA)
    assert opaque.node is None
    chosen = opaque.filter(table)
    assert chosen["row"].equals(predicate_of(condition, SCHEMA).filter(table)["row"])
    assert opaque.may_match(facts_of(table, opaque)) or not chosen.num_rows, condition


@settings(deadline=None, max_examples=200)
@given(rows(), CONDITIONS)
def test_equal_values_hold_those_of_every_chosen_row(found: list[dict[str, Any]], condition: str):
    table = table_of(found)
    predicate = predicate_of(condition, SCHEMA)
    values = predicate.equal_values(("i",))
    if values is not None:
        assert set(predicate.filter(table)["i"].to_pylist()) <= set(values)


def facts_of(table: pa.Table, predicate: Predicate) -> dict[Path, Bounds]:
    """What a footer would say of these rows: NaN is left aside."""
    found = {}
    for path in predicate.paths:
        values = [_at(row, path) for row in table.to_pylist()]
        there = [_units(one, predicate.type_of(path)) for one in values if one is not None]
        there = [one for one in there if not (isinstance(one, float) and math.isnan(one))]
        if all(one is None for one in values):
            found[path] = ALL_NULL
        elif there:
            found[path] = Bounds(min(there), max(there), may_be_null=None in values)
        else:
            found[path] = UNKNOWN
    return found


def _at(row: Any, path: Path) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row


def _units(value: Any, kind: pa.DataType) -> Value:
    if pa.types.is_decimal(kind):
        return int(value.scaleb(kind.scale))
    if pa.types.is_date(kind):
        return (value - dt.date(1970, 1, 1)).days
    if pa.types.is_timestamp(kind):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return value


@pytest.mark.parametrize(
    ("condition", "facts", "may"),
    [
        ("i = 5", {("i",): Bounds(1, 4)}, False),
        ("i = 5", {("i",): Bounds(1, 5)}, True),
        ("i != 5", {("i",): Bounds(5, 5)}, False),
        ("NOT (i = 5)", {("i",): Bounds(5, 5)}, False),
        ("i IN (1, 9)", {("i",): Bounds(2, 8)}, False),
        ("i NOT IN (1)", {("i",): Bounds(1, 1)}, False),
        ("i IS NULL", {("i",): Bounds(1, 1, may_be_null=False)}, False),
        ("i IS NOT NULL", {("i",): ALL_NULL}, False),
        ("i > 0", {("i",): ALL_NULL}, False),
        ("i > 1.5", {("i",): Bounds(0, 1)}, False),
        ("i >= 2 OR s = 'x'", {("i",): Bounds(0, 1)}, True),
        ("i >= 2 AND s = 'x'", {("i",): Bounds(0, 1)}, False),
        ("s LIKE 'ab%'", {("s",): Bounds("ac", "b")}, False),
        ("s LIKE 'ab%'", {("s",): Bounds("a", "ab")}, True),
        ("s NOT LIKE 'ab%'", {("s",): Bounds("ac", "b")}, True),
        ("starts_with(s, 'b')", {("s",): Bounds("a", "az")}, False),
        ("f > 5", {("f",): Bounds(0.0, 1.0)}, True),  # NaN is greater, and nobody knows whether there is one
        ("f < 0", {("f",): Bounds(0.0, 1.0)}, False),
        ("d < '2026-01-01'", {("d",): Bounds(20_454, 20_460)}, False),
        ("m > 1.005", {("m",): Bounds(0, 100)}, False),
        ("st.a = 7", {("st", "a"): Bounds(0, 6)}, False),
    ],
)
def test_facts_decide(condition: str, facts: dict[Path, Bounds], may: bool):
    predicate = predicate_of(condition, SCHEMA)
    assert predicate.may_match(facts) is may
    assert predicate.may_match({})
    opaque = predicate_of(predicate.expression, SCHEMA)
    assert opaque.may_match(facts) or not may
