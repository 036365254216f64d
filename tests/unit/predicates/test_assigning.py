"""New values as texts: what Arrow computes of them, and what is refused. Spark's SQL is the judge of the values."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from lakeindex.errors import UsageError
from lakeindex.predicates.assign import expression_for

ROWS = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "l": pa.array([1, 2, 3], pa.int64()),
        "f": pa.array([1.5, 2, None], pa.float32()),
        "d": pa.array([1.5, 2.0, float("inf")]),
        "s": [" a", "b", None],
        "m": pa.array([Decimal("1.50"), None, Decimal("2.25")], pa.decimal128(10, 2)),
        "day": pa.array([date(2026, 1, 1)] * 3),
        "b": [True, None, False],
        "st": [{"x": 1}, {"x": 2}, None],
    }
)


def computed(column: str, text: str) -> list[Any]:
    found = expression_for(text, ROWS.schema.field(column), ROWS.schema)
    values = ds.dataset(ROWS).to_table(columns={"value": found.expression}).column(0)
    assert values.type == found.type
    return values.to_pylist()


@pytest.mark.parametrize(
    ("column", "text", "values"),
    [
        ("i", "i * 2", [2, None, 6]),
        ("d", "i + 0.1", [1.1, None, 3.1]),
        ("d", "1 - l / 2", [0.5, 0.0, -0.5]),
        ("d", "d / 0", [None] * 3),
        ("d", "l / 0", [None] * 3),
        ("d", "l / (l - 2)", [-1.0, None, 3.0]),
        ("m", "m / (m - m)", [None] * 3),
        ("f", "f * 1.5", [2.25, 3.0, None]),
        ("m", "m * 1.5", [Decimal("2.250"), None, Decimal("3.375")]),
        ("m", "cast(m * 1.5 as decimal(10, 2))", [Decimal("2.25"), None, Decimal("3.37")]),
        ("m", "-3", [Decimal("-3.00")] * 3),
        ("i", "cast(f * 1.5 as int)", [2, 3, None]),
        ("s", "'it''s'", ["it's"] * 3),
        ("s", "trim(s) || 'y'", ["ay", "by", None]),
        ("s", "case when i > 1 then 'big' when i = 1 then upper(s) end", [" A", None, "big"]),
        ("s", "coalesce(s, 'none')", [" a", "b", "none"]),
        ("s", "cast(l as string)", ["1", "2", "3"]),
        ("d", "if(b, d, 0)", [1.5, 0.0, 0.0]),
        ("day", "'2026-02-03'", [date(2026, 2, 3)] * 3),
        ("day", "DATE '2026-02-03'", [date(2026, 2, 3)] * 3),
        ("b", "not b", [False, None, True]),
        ("b", "i > 2 and l < 9", [False, None, True]),
        ("i", "null", [None] * 3),
        ("i", "abs(-i)", [1, None, 3]),
        ("l", "st.x + 1", [2, 3, None]),
        ("i", "length(s)", [2, 1, None]),
    ],
)
def test_texts_as_sql_means_them(column: str, text: str, values: list[Any]) -> None:
    assert computed(column, text) == values


@pytest.mark.parametrize(
    ("column", "text", "told"),
    [
        ("m", "1.255", "no value of the type decimal"),
        ("l", "cast(1.9 as bigint)", r"1\.9 is no value"),
        ("i", "'a'", "'a' is no value of the type int32"),
        ("i", "3000000000", "no value of the type int32"),
        ("i", "nope + 1", "no column 'nope'"),
        ("s", "frobnicate(s)", "no function 'frobnicate'"),
        ("s", "closed", "no column 'closed'"),
        ("i", "select 1", "'i'.*SELECT 1"),
        ("i", "i + 1; drop", "not one"),
        ("s", "i || 'x'", "joins texts"),
        ("s", "upper(i)", "argument is int32"),
        ("s", "case s when 'a' then 'b' end", "CASE needs a condition"),
        ("i", "try_cast(s as int)", "CAST is to"),
        ("day", "'yesterday'", "yesterday"),
    ],
)
def test_what_has_no_meaning_is_refused(column: str, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        computed(column, text)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("l", "9223372036854775807 + l"),
        ("i", "cast(d as int)"),
        ("i", "i * 2000000000"),
    ],
)
def test_what_cannot_be_computed_is_no_number(column: str, text: str) -> None:
    with pytest.raises(pa.ArrowInvalid):
        computed(column, text)


def test_whole_numbers_of_32_bits_keep_their_digits() -> None:
    """Arrow computes them with a fraction in 32 bits, if the fraction fits these."""
    rows = pa.table({"i": pa.array([16_777_217], pa.int32()), "d": [0.0]})
    found = expression_for("i + 0.5", rows.schema.field("d"), rows.schema)
    assert ds.dataset(rows).to_table(columns={"value": found.expression}).column(0).to_pylist() == [16_777_217.5]
