"""Sums and products of numbers are exact, whatever their digits."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lakeindex.errors import UsageError
from lakeindex.predicates.predicate import predicate_of
from lakeindex.predicates.values import decimal_type, number_of

WIDE = pa.schema(
    [
        ("i", pa.int64()),
        ("u", pa.uint64()),
        ("m", pa.decimal128(38, 2)),
        ("k", pa.decimal128(38, 20)),
        ("f", pa.float32()),
        ("p", pa.decimal128(15, 2)),
        ("d", pa.float64()),
    ]
)
ROW = {"i": 2**63 - 1, "u": 2**64 - 1, "m": Decimal("9" * 36 + ".99"), "k": Decimal("0." + "0" * 19 + "1"), "f": 0.1}
ROW |= {"p": Decimal("38426.09"), "d": 38426.09}  # the nearest double, which Arrow's cast misses


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("i + 1 > i", True),
        ("i * i = 85070591730234615847396907784232501249", True),
        ("i * i > u * 4611686018427387903", True),
        ("i * u - i * u = 0", True),
        ("-i < -9223372036854775806", True),
        ("-i < -9223372036854775807", False),
        ("i + 0.5 > i", True),
        ("i + 1e-20 > i", True),
        ("m > k", True),
        ("m + k > m", True),
        ("m = k", False),
        ("i < m", True),
        ("m IS DISTINCT FROM k", True),
        ("(i - i) IN (0, 5)", True),
        ("i - i + 1 IN (0, 5)", False),
        ("i - i BETWEEN 0 AND 1", True),
        ("i / 2 > 4e18", True),
        ("i / (i - i) IS NULL", True),
        ("f + 0 < 0.1", False),
        ("60 * 60 < 3600.5", True),
        ("1 + 1 = 2", True),
        ("p = d", True),
        ("p > d", False),
        ("p + d = 76852.18", True),
        ("p / d = 1", True),
    ],
)
def test_whole_numbers_and_decimals_are_exact(condition: str, holds: bool):
    rows = pa.Table.from_pylist([ROW], WIDE)
    predicate = predicate_of(condition, WIDE)
    assert predicate.filter(rows).num_rows == int(holds)
    assert predicate.may_match({})


@pytest.mark.parametrize("condition", ["m * m * m > 1", "k + m * m > 1", "i > 1e101 + i", f"i + {'9' * 77} > 1"])
def test_what_has_too_many_digits_is_refused_when_it_is_read(condition: str):
    with pytest.raises(UsageError, match=r"there is no [+*] of|at most 76 digits"):
        predicate_of(condition, WIDE)


@pytest.mark.parametrize("condition", ["i + 'x' > 1", "-'x' < i", "i * true > 1", "i + (i IN (1)) > 1", "i - NULL > 1"])
def test_what_is_no_number_is_not_calculated_with(condition: str):
    with pytest.raises(UsageError, match=r"it is no (number|value)"):
        predicate_of(condition, WIDE)


def test_the_types_of_sums_are_sparks():
    """As ``DecimalPrecision`` of Spark has them; whole numbers are decimals of all their digits."""
    d, wrong = pa.decimal128, []
    for operator, left, right, wanted in (
        ("+", d(10, 2), d(5, 1), d(11, 2)),
        ("-", d(10, 2), d(5, 4), d(13, 4)),
        ("*", d(10, 2), d(5, 1), d(16, 3)),
        ("*", d(19, 2), d(18, 1), d(38, 3)),
        ("*", d(20, 2), d(18, 9), d(38, 10)),
        ("*", d(38, 10), d(38, 10), d(38, 6)),
        ("*", d(38, 2), d(38, 1), d(38, 3)),
        ("/", d(10, 2), d(5, 1), d(17, 8)),
        ("/", d(5, 0), d(1, 0), d(11, 6)),
        ("/", d(5, 0), d(6, 0), d(12, 7)),
        ("/", d(5, 1), d(5, 0), d(11, 7)),
        ("/", d(38, 10), d(38, 10), d(38, 6)),
        ("+", d(38, 10), d(38, 2), d(38, 6)),
        ("+", pa.int32(), d(5, 1), d(12, 1)),
    ):
        found = decimal_type(operator, left, right)
        wrong += [(operator, left, right, found)] if found != wanted else []
    assert not wrong


def test_a_number_has_as_many_digits_as_it_needs():
    for text, wanted in {
        "0.5": (1, 1),
        "1.50": (3, 2),
        "0": (1, 0),
        "00012": (2, 0),
        "-7": (1, 0),
        "1e3": (4, 0),
        "0." + "0" * 75 + "1": (76, 76),
        "1" + "0" * 75: (76, 0),
    }.items():
        found = number_of(text)
        assert found is not None, text
        assert ((found.type.precision, found.type.scale), found.scalar.as_py()) == (wanted, Decimal(text)), text
    assert number_of("1" + "0" * 76) is None
    assert number_of("0." + "0" * 76 + "1") is None


def test_columns_of_a_sum_are_known():
    predicate = predicate_of("i + 1 > k * -i + m", WIDE)
    assert predicate.columns == ("i", "m", "k")
    assert predicate.paths == (("i",), ("k",), ("m",))
