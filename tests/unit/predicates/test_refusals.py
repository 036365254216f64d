"""What a condition may not say is refused by name, and the error says what is valid."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeindex.errors import UsageError
from lakeindex.predicates.predicate import predicate_of

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("u", pa.timestamp("us", "UTC")),
        ("t", pa.timestamp("ns")),
        ("d", pa.date32()),
        ("y", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("address", pa.struct([("city", pa.string())])),
    ]
)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("amount > 1", "no column 'amount'"),
        ("address.town = 'x'", "did you mean"),
        ("address.city.x = 'x'", "no fields"),
        ("ID = 'a'", "no column 'ID'"),
        ("id = 5", "cannot be compared with 5"),
        ("n = 'five'", "cannot be compared with 'five'"),
        ("n = 1e999", "exponent"),
        ("d = 'soon'", "does not have that form"),
        ("t = '2026-01-01T00:00:00Z'", "no time zone"),
        ("tags = 'a'", "not compared with values"),
        ("address = 'a'", "not compared with values"),
        ("abs(n) = 1", "no function 'abs'"),
        ("levenshtein(id, 'a') = 1", "no function"),
        ("frobnicate(id) = 1", "no function 'frobnicate'"),
        ("lower(n) = '1'", "not a text"),
        ("n LIKE '1%'", "not a text"),
        ("n IN (SELECT 1)", "'query' is not valid"),
        ("n IN ()", "IN needs a list"),
        ("1 = 1", "one side"),
        ("n = :p", "no value"),
        ("1 = abs(n)", "no function 'abs'"),
        ("n", "cannot be compared with true"),
        ("n >", "cannot be read"),
        ("n = 1; drop table x", "not one condition"),
        ("n = 1, n = 2", "cannot be read"),
        ("n = id", "not compared with each other"),
        ("n + id > 1", "there is no + of int64 and string"),
        ("n * d > 1", "there is no * of int64 and date32"),
        ("-id = 1", "there is no - of decimal128(1, 0) and string"),
        ("n + '1' > 1", "it is no number"),
        ("n * n * n * n > 1", "there is no *"),
        ("t - INTERVAL 1 DAY > d", "no value"),
        ("n % 2 = 0", "neither a column nor a value"),
        ("t = u", "not compared with each other"),
        ("n = CAST('1' AS INT)", "no value"),
        ("y = x'0'", "pairs of hexadecimal"),
        ("id LIKE id", "a text in single quotes"),
        ("n BETWEEN SYMMETRIC 1 AND 2", "SYMMETRIC"),
        ("(SELECT 1)", "no condition"),
        ("CASE WHEN n = 1 THEN true END", "no function 'case'"),
        ("", "a condition cannot be ''"),
        ("  ", "a condition cannot be"),
        *(
            (one, "nested too deep")
            for one in (
                "(" * 3000 + "n = 1" + ")" * 3000,
                "NOT " * 3000 + "n = 1",
                "NOT (" * 250 + "n = 1" + ")" * 250,
                "n" + " + 1" * 250 + " > 0",
                "lower(" * 250 + "id" + ")" * 250 + " = 'a'",
                "n = 1" + " AND (n = 2 OR (n = 3" * 150 + "))" * 150,
            )
        ),
        (f"n = 1 AND {'n = 2, ' * 3000} n", "characters)"),
    ],
)
def test_what_is_not_valid_is_named(condition: str, said: str):
    with pytest.raises(UsageError) as caught:
        predicate_of(condition, SCHEMA)
    assert said in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    "expression", [pc.field("amount") > 1, pc.field("n") == "x", pc.field("n"), pc.field(1) == 1, pc.field("n") + 1]
)
def test_a_pyarrow_expression_must_fit(expression: pc.Expression):
    with pytest.raises(UsageError):
        predicate_of(expression, SCHEMA)


def test_columns_of_a_pyarrow_expression_are_known():
    expression = (pc.field("n") > 1) & (pc.field("address", "city") == "x")
    assert predicate_of(expression, SCHEMA).columns == ("n", "address")


@pytest.mark.parametrize("condition", [5, None, b"n = 1", ["n = 1"]])
def test_a_condition_is_a_text_or_an_expression(condition: object):
    with pytest.raises(UsageError, match="a condition cannot be"):
        predicate_of(condition, SCHEMA)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("u = '2026-01-01T01:00:00+01:00'", 1),
        ("u = '2026-01-01 00:00:00'", 1),
        ("u > TIMESTAMP '2025-12-31 23:59:59.999999'", 1),
        ("u >= '2026-01-01T00:00:00.000000001Z'", 0),
        ("t = '2026-01-01 00:00:00.000000001'", 1),
        ("t > DATE '2026-01-01'", 1),
        ("y = x'00Ff'", 1),
        ("y < x'01'", 1),
        ("`id` = 'it''s' AND \"id\" != 'x'", 1),
        (r"id = 'it\s'", 0),
        ("n = 9223372036854775807", 1),
        ("n < 9223372036854775808", 1),
        ("n > 9223372036854775807.5", 0),
        ("n IN (9223372036854775808)", 0),
        ("n NOT IN (9223372036854775808)", 1),
    ],
)
def test_values_are_exact(condition: str, chosen: int):
    row = {"id": "it's", "n": 2**63 - 1, "y": b"\x00\xff"}
    rows = pa.Table.from_pylist([row], schema=SCHEMA)
    moment = pa.array([1_767_225_600_000_000_001], pa.int64())
    rows = rows.set_column(3, SCHEMA.field("t"), moment.cast(pa.timestamp("ns")))
    micros = pa.array([1_767_225_600_000_000], pa.int64())
    rows = rows.set_column(2, SCHEMA.field("u"), micros.cast(pa.timestamp("us", "UTC")))
    assert predicate_of(condition, SCHEMA).filter(rows).num_rows == chosen


def test_an_expression_that_fails_on_a_row_is_said_to():
    """Arrow finds nothing wrong with it on no rows, or nothing at all."""
    rows = pa.table({"id": ["("], "n": [0], "u": pa.array([0], pa.timestamp("us", "UTC"))})
    for expression in (
        pc.divide(pc.scalar(1), pc.field("n")) > 1,
        pc.add_checked(pc.field("n") - 1, pc.scalar(-(2**63))) > 1,
        pc.match_substring_regex(pc.field("id"), "("),
        pc.field("id").cast("int64") == 1,
        pc.field("u") == dt.datetime(2026, 1, 1),  # noqa: DTZ001 - a local time, beside a moment
    ):
        with pytest.raises(UsageError, match="cannot be computed for every row") as refused:
            predicate_of(expression, rows.schema).mask(rows)
        assert refused.value.culprit == str(expression)
        assert "give the condition as a text" in str(refused.value.hint)


def test_what_is_no_number_and_no_text_is_refused():
    with pytest.raises(UsageError, match="'1e' is nothing that column 'f'"):
        predicate_of("f = 1e", pa.schema([("f", pa.float64())]))
    with pytest.raises(UsageError, match="half of a character"):
        predicate_of("id = '\ud800'", SCHEMA)
