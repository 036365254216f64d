"""New values as texts: what Arrow computes of them, and what is refused. Spark's SQL is the judge of the values."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from lakeindex.errors import UsageError
from lakeindex.predicates.assign import cast_to, common_type, expression_for

NOON = datetime.fromisoformat("2026-01-01T12:00:00")
ROWS = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "l": pa.array([1, 2, 3], pa.int64()),
        "f": pa.array([1.5, 2, None], pa.float32()),
        "d": pa.array([1.5, 2.0, float("inf")]),
        "s": [" a", "b", None],
        "m": pa.array([Decimal("1.50"), None, Decimal("2.25")], pa.decimal128(10, 2)),
        "day": pa.array([date(2026, 1, 1)] * 3),
        "at": pa.array([NOON] * 3, pa.timestamp("us")),
        "b": [True, None, False],
        "st": [{"x": 1}, {"x": 2}, None],
        "y": [b"5", None, b"a"],
        "w": pa.array([Decimal(one) for one in ("2.565", "-2.565", "0.001")], pa.decimal128(38, 3)),
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
        ("m", "cast(m * 1.5 as decimal(10, 2))", [Decimal("2.25"), None, Decimal("3.38")]),
        ("m", "-3", [Decimal("-3.00")] * 3),
        ("i", "cast(f * 1.5 as int)", [2, 3, None]),
        ("s", "'it''s'", ["it's"] * 3),
        ("s", "trim(s) || 'y'", ["ay", "by", None]),
        ("s", "case when i > 1 then 'big' when i = 1 then upper(s) end", [" A", None, "big"]),
        ("s", "concat(upper(s), '-', s)", [" A- a", "B-b", None]),
        ("s", "concat(s)", [" a", "b", None]),
        ("s", "substring(s || 'xyz', 2, 2)", ["ax", "xy", None]),
        ("s", "substr(s || 'xyz', 2)", ["axyz", "xyz", None]),
        ("s", "substring(s || 'xyz' from 0 for 2)", [" a", "bx", None]),
        ("s", "substring(s || 'xyz', -4, 2)", ["ax", "bx", None]),
        ("s", "substring(s || 'xyz', -2, 2)", ["yz", "yz", None]),
        ("s", "substring(s || 'xyz', -2, 9)", ["yz", "yz", None]),
        ("s", "substring(s, 1, 0)", ["", "", None]),
        ("day", "day + interval '7' day", [date(2026, 1, 8)] * 3),
        ("day", "interval 2 week + day", [date(2026, 1, 15)] * 3),
        ("day", "day - interval '1' day", [date(2025, 12, 31)] * 3),
        ("day", "case when i = 1 then day - interval '-1' day else null end", [date(2026, 1, 2), None, None]),
        ("at", "at - interval '90' minute", [NOON - timedelta(minutes=90)] * 3),
        ("at", "at + interval 1 day", [NOON + timedelta(days=1)] * 3),
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
        ("l", "1.9", r"1\.9 is no value"),
        ("f", "1e39", "1e39 is no value of the type float"),
        ("d", "f - 1e400", "1e400 is no value of the type"),
        ("s", "cast(d as string)", "no CAST of double to string"),
        ("i", "cast(day as int)", "no CAST of date32"),
        ("day", "cast(i as date)", "no CAST of int32 to date32"),
        ("i", "cast(y as int)", "no CAST of binary to int32"),
        ("m", "cast(b as decimal(3, 1))", "no CAST of bool to decimal128"),
        ("m", "cast(m as decimal(39, 1))", "CAST is to"),
        ("m", "w * w", "more than 76 digits"),
        ("m", "s + m", r"there is no \+ of string and decimal128"),
        ("m", "case when b then w else cast(m as decimal(38, 18)) end", "no type of 38 digits in common"),
        ("m", "m + 0.000000000000000000000000000000000000001", "at most 38 digits"),
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
        ("s", "concat(s, i)", "concat joins texts"),
        ("s", "substring(i, 1)", "argument is int32"),
        ("s", "substring(s, i)", "whole numbers"),
        ("s", "substring(s, 1, -1)", "whole numbers"),
        ("s", "substring(s, 1.5)", "whole numbers"),
        ("day", "day + interval '1' month", "whole number of WEEK, DAY"),
        ("day", "day + interval '1.5' day", "whole number of WEEK, DAY"),
        ("day", "day + interval '1' hour", "cannot be moved by"),
        ("day", "day + interval '99999999999' day", "too long"),
        ("s", "s + interval '1' day", "cannot be moved by"),
        ("day", "day * interval '1' day", "no condition"),
    ],
)
def test_what_has_no_meaning_is_refused(column: str, text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        computed(column, text)


def test_what_spark_says_of_each_value():
    """Spark 4.3's answers with ANSI rules; None where it raises: no other number, and no null, stands for that."""
    cases: list[tuple[str, pa.DataType, list[Any], list[Any]]] = [
        (
            "cast(x as decimal(10, 2))",
            pa.float64(),
            [2.567, 2.675, 1.005, -2.5, 1e-7, 1e20, 123456789.125, math.nan, -math.inf, 1e300],
            ["2.57", "2.68", "1.01", "-2.50", "0.00", None, None, None, None, None],
        ),
        ("cast(x as decimal(38, 18))", pa.float32(), [0.1, math.inf], ["0.100000001490116120", None]),
        (
            "cast(x as decimal(10, 2))",
            pa.decimal128(38, 3),
            ["2.567", "2.565", "-2.565", "12345678901234567890123456789012345.678"],
            ["2.57", "2.57", "-2.57", None],
        ),
        ("cast(x as decimal(38, 18))", pa.decimal128(38, 3), ["1.500", "12345678901234567890123456789012345.678"],
         ["1.500000000000000000", None]),
        ("cast(x as decimal(10, 2))", pa.int64(), [-7, 99999999, 100000000], ["-7.00", "99999999.00", None]),
        ("cast(x as decimal)", pa.float64(), [2.5, -2.5], ["3", "-3"]),
        ("cast(x as decimal(4, 2))", pa.string(), [" 2.567 ", "1e1", "2.565", "", "abc", "NaN", "100"],
         ["2.57", "10.00", "2.57", None, None, None, None]),
        ("cast(x as int)", pa.string(), [" 2 ", "+5", "-5", "0x1F", "2.567", "1_000", "99999999999"],
         ["2", "5", "-5", None, None, None, None]),
        ("cast(x as int)", pa.float64(), [2.9, -2.9, math.nan, 1e20], ["2", "-2", None, None]),
        ("cast(x as int)", pa.decimal128(38, 3), ["2.567", "-2.567", "1e30"], ["2", "-2", None]),
        ("cast(x as int)", pa.int64(), [2**31 - 1, 2**31], ["2147483647", None]),
        ("cast(x as double)", pa.int64(), [2**53 + 1, 2**63 - 1], ["9007199254740992.0", "9.223372036854776e+18"]),
        ("cast(x as float)", pa.int32(), [2**31 - 1], ["2147483648.0"]),
        ("cast(x as timestamp)", pa.int64(), [5, -7, 2**53], ["1970-01-01 00:00:05", "1969-12-31 23:59:53", None]),
        ("cast(x as string)", pa.timestamp("us"), [0, 500_000, 10_000_000, 1],
         ["1970-01-01 00:00:00", "1970-01-01 00:00:00.5", "1970-01-01 00:00:10", "1970-01-01 00:00:00.000001"]),
        ("cast(x as string)", pa.timestamp("us", "UTC"), [1_500_000], ["1970-01-01 00:00:01.5"]),
        ("cast(x as date)", pa.timestamp("us"), [-1, 0], ["1969-12-31", "1970-01-01"]),
        ("cast(x as boolean)", pa.string(), ["true", " F", "1"], ["True", None, "True"]),
        ("cast(2.567 as decimal(10, 2))", pa.int32(), [0], ["2.57"]),
        ("cast('2.567' as decimal(10, 2))", pa.int32(), [0], ["2.57"]),
        ("cast(1.9 as bigint)", pa.int32(), [0], ["1"]),
        ("trim(x)", pa.string(), ["  a b ", "\t a\n"], ["a b", "\t a\n"]),
        ("x + 2", pa.decimal128(38, 3), ["2.567", "99999999999999999999999999999999999.000"], ["4.567", None]),
        ("x / 1.5", pa.decimal128(10, 2), ["2.50", "-2.50", "-0.01"], ["1.666667", "-1.666667", "-0.006667"]),
        ("3 / x", pa.decimal128(10, 2), ["2.49", "0.00"], ["1.20481927711", "None"]),
        ("x / 7", pa.decimal128(38, 3), ["2.567"], ["0.366714"]),
        ("x * 1.5", pa.decimal128(38, 3), ["2.567"], ["3.8505"]),
        ("x * 0.5 + 1", pa.int64(), [2**62], ["2.305843009213694e+18"]),
        ("x / 2", pa.int64(), [2**63 - 1], ["4.611686018427388e+18"]),
        ("x + 1", pa.int32(), [2**31 - 2, 2**31 - 1], ["2147483647", None]),
        ("x - 1", pa.int64(), [-(2**63)], [None]),
        ("x * 2000000000", pa.int32(), [1, 2], ["2000000000", None]),
        ("x + cast(1 as bigint)", pa.float32(), [16_777_216.0], ["16777217.0"]),
        ("-x", pa.int32(), [-(2**31)], [None]),
        ("abs(x)", pa.int64(), [-5, -(2**63)], ["5", None]),
        ("coalesce(x, 0.5)", pa.int64(), [2**53 + 1], ["9007199254740992.0"]),
        ("case when x > 5 then x when x > 2 then x * 2 else 0.5 end", pa.int64(), [9, 3, 1], ["9.0", "6.0", "0.5"]),
        ("case when x > 1 then x else cast(7 as decimal(10, 3)) end", pa.decimal128(5, 2), ["2.50", "1.00"],
         ["2.500", "7.000"]),
    ]  # fmt: skip
    wrong = []
    for text, kind, values, expected in cases:
        stored = [Decimal(one) for one in values] if pa.types.is_decimal(kind) else values
        rows = pa.table({"x": pa.array(stored, kind)})
        wanted = pa.string() if kind == pa.string() and "cast" not in text else pa.float64()
        found = expression_for(text, pa.field("y", wanted), rows.schema)
        for row, value in enumerate(expected):
            try:
                (one,) = ds.dataset(rows.slice(row, 1)).to_table(columns={"y": found.expression}).column(0)
                said = str(one.cast(pa.string()) if pa.types.is_timestamp(found.type) else one.as_py())
                said = said.removesuffix(".000000")
            except pa.ArrowInvalid:
                said = None
            if said != value:
                wrong.append((text, values[row], said, value))
    assert not wrong, wrong


@pytest.mark.few(0)
def test_a_case_of_thousands_of_branches_is_no_depth() -> None:
    branches = " ".join(f"when l = {n} then {n + 1}" for n in range(3000))
    assert computed("l", f"case {branches} end") == [2, 3, 4]
    assert computed("l", f"case {branches} else null end") == [2, 3, 4]


def test_a_decimal_becomes_the_nearest_float() -> None:
    rows = pa.table({"p": pa.array([Decimal("38426.09"), None], pa.decimal128(15, 2)), "d": [38426.09, 1.0]})
    for text, wanted in (("cast(p as double)", 38426.09), ("p + d", 76852.18), ("p / d", 1.0)):
        found = expression_for(text, rows.schema.field("d"), rows.schema)
        assert ds.dataset(rows).to_table(columns={"v": found.expression}).column(0).to_pylist() == [wanted, None], text


def test_whole_numbers_of_32_bits_keep_their_digits() -> None:
    """Arrow computes them with a fraction in 32 bits, if the fraction fits these."""
    rows = pa.table({"i": pa.array([16_777_217], pa.int32()), "d": [0.0]})
    found = expression_for("i + 0.5", rows.schema.field("d"), rows.schema)
    assert ds.dataset(rows).to_table(columns={"value": found.expression}).column(0).to_pylist() == [16_777_217.5]


LAZY = pa.table(
    {
        "n": pa.array([1, None, 3, 4], pa.int32()),
        "big": pa.array([2**31 - 1, 2**31 - 1, 1, 2], pa.int32()),
        "s": ["7", "x", None, "y"],
        "m": pa.array([Decimal("99.99"), Decimal("1.00"), None, Decimal("2.00")], pa.decimal128(4, 2)),
        "d": [1e300, 2.5, None, math.nan],
    }
)


def test_a_branch_fails_only_where_it_is_taken() -> None:
    cases = {
        "case when n = 1 then 0 else cast(s as int) end": [0, None, None, None],
        "case when s = '7' then cast(s as int) end": [7, None, None, None],
        "case when s = '7' then cast(s as int) when n = 3 then big + 1 when n > 3 then n * 2 else 5 end": [7, 5, 2, 8],
        "case when n = 1 then 1 when n is not null then big + 1 else 0 end": [1, 0, 2, 3],
        "if(big > 5, big, big + 1)": [2**31 - 1, 2**31 - 1, 2, 3],
        "if(n = 4, 4, if(s = '7', cast(s as int), if(n = 3, 3, abs(n))))": [7, None, 3, 4],
        "coalesce(n, cast(s as int))": None,
        "coalesce(n, if(s = 'x', 9, cast(s as int)))": [1, 9, 3, 4],
        "coalesce(if(n = 1, big, null), n, big + 1 - 1)": None,
        "coalesce(if(n = 1, big, null), n, big)": [2**31 - 1, 2**31 - 1, 3, 4],
        "coalesce(n, 0, big + 1)": [1, 0, 3, 4],
        "case when s = '7' or n = 3 then 1 when s = 'x' then cast('2' as int) else cast('never' as int) end": None,
        "case when n > 0 or n is null then 1 else cast('never' as int) end": [1, 1, 1, 1],
        "case when n > 0 or n is null then 1 else 2000000000 + 2000000000 end": [1, 1, 1, 1],
        "case when n = 9 then 2000000000 * 2 + n else n end": [1, None, 3, 4],
        "case when m < 50 then cast(m * 10 as decimal(4, 2)) end": [None, Decimal("10.00"), None, Decimal("20.00")],
        "case when d < 100 then cast(d as int) else -1 end": [-1, 2, -1, -1],
        "if(big > 5, 1, -big)": [1, 1, -1, -2],
        "if(n is null, 0, n + coalesce(n, 2147483647))": [2, 0, 6, 8],
        "if(n is null, 0, 2147483647 - coalesce(n, -1) - 2147483640)": [6, 0, 4, 3],
        "if(n is null, 0, -coalesce(n, -2147483648))": [-1, 0, -3, -4],
        "if(n is null, 0, abs(case when n is null then -2147483648 else n end))": [1, 0, 3, 4],
        "if(n is null, 0, cast(coalesce(cast(n as string), s) as int))": [1, 0, 3, 4],
        "if(n is null, 0, cast(cast(n as string) || coalesce(cast(n as string), s) as int))": [11, 0, 33, 44],
        "case when m < 50 then cast(coalesce(m, 99) * 10 as decimal(4, 2)) else m end": [
            Decimal("99.99"),
            Decimal("10.00"),
            None,
            Decimal("20.00"),
        ],
        "case when big < 5 then case when n = 3 then big * 1000000000 else big + 1 end else 0 end": [0, 0, 10**9, 3],
    }
    rows, wrong = LAZY, []
    for text, expected in cases.items():
        wanted = pa.field("y", pa.decimal128(4, 2) if "decimal" in text else pa.int32())
        try:
            found = expression_for(text, wanted, rows.schema)
            values = ds.dataset(rows).to_table(columns={"y": found.expression}).column(0).to_pylist()
        except pa.ArrowInvalid:
            values = None
        if text.startswith("case when n = 1 then 0 else"):
            expected = None  # 'y' is taken  # noqa: PLW2901
        if values != expected:
            wrong.append((text, values, expected))
    assert not wrong


def test_zero_has_the_sign_that_spark_gives_it() -> None:
    """Exact numbers have one zero, floats have two."""
    for kind in (pa.float32(), pa.float64()):
        rows = pa.table(
            {"f": pa.array([0.0, -0.0, 1.5, None], kind), "m": pa.array([Decimal(0)] * 4, pa.decimal128(4, 2))}
        )
        cases = {
            "-f": [-0.0, 0.0, -1.5, None],
            "-(-f)": [0.0, -0.0, 1.5, None],
            "f * -1": [-0.0, 0.0, -1.5, None],
            "0 - f": [0.0, 0.0, -1.5, None],
            "f - 0": [0.0, -0.0, 1.5, None],
            "f + 0": [0.0, 0.0, 1.5, None],
            "abs(f)": [0.0, 0.0, 1.5, None],
            "case when f < 1 then -f else f end": [-0.0, 0.0, 1.5, None],
            "coalesce(f, -0.0)": [0.0, -0.0, 1.5, 0.0],
            "-0.0": [0.0] * 4,
            "-0": [0.0] * 4,
            "-(0.0)": [0.0] * 4,
            "-0e0": [-0.0] * 4,
            "cast('-0.0' as double)": [-0.0] * 4,
            "cast(-m as double)": [0.0] * 4,
        }
        wrong = []
        for text, expected in cases.items():
            found = expression_for(text, rows.schema.field("f"), rows.schema)
            values = ds.dataset(rows).to_table(columns={"y": found.expression}).column(0).to_pylist()
            if repr(values) != repr(expected):
                wrong.append((text, values, expected))
        assert not wrong, kind


def test_truths_are_numbers_and_the_types_of_a_choice_hold_all_of_its_values() -> None:
    rows = pa.table({"b": [True, False, None], "n": pa.array([2, 0, None], pa.int32()), "f": [0.5, 0.0, None]})

    def cast(column: str, target: pa.DataType) -> list[object] | None:
        found = cast_to(pc.field(column), rows.schema.field(column).type, target)
        return None if found is None else ds.dataset(rows).to_table(columns={"x": found}).column(0).to_pylist()

    for kind in (pa.int32(), pa.int64(), pa.float32(), pa.float64()):
        assert cast("b", kind) == [1, 0, None]
    for column in ("n", "f"):
        assert cast(column, pa.bool_()) == [True, False, None]
    for column, kind in (
        ("b", pa.decimal128(5, 1)),
        ("b", pa.timestamp("us")),
        ("b", pa.date32()),
        ("b", pa.binary()),
        ("f", pa.date32()),
    ):
        assert cast(column, kind) is None, (column, kind)
    for kinds, wanted in (
        ({pa.decimal128(5, 2), pa.decimal128(7, 5)}, pa.decimal128(8, 5)),
        ({pa.decimal128(5, 2), pa.int32()}, pa.decimal128(12, 2)),
        ({pa.decimal128(38, 1), pa.decimal128(5, 4)}, None),
        ({pa.int32(), pa.int64()}, pa.int64()),
        ({pa.int64(), pa.decimal128(3, 1)}, pa.decimal128(21, 1)),
        ({pa.decimal128(3, 1), pa.float32()}, pa.float64()),
    ):
        assert common_type(kinds) == wanted, kinds
