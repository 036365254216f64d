"""Sums and products of numbers are exact, whatever their digits."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lakeindex.errors import UsageError
from lakeindex.predicates.predicate import predicate_of

WIDE = pa.schema(
    [
        ("i", pa.int64()),
        ("u", pa.uint64()),
        ("m", pa.decimal128(38, 2)),
        ("k", pa.decimal128(38, 20)),
        ("f", pa.float32()),
    ]
)
ROW = {"i": 2**63 - 1, "u": 2**64 - 1, "m": Decimal("9" * 36 + ".99"), "k": Decimal("0." + "0" * 19 + "1"), "f": 0.1}


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


def test_columns_of_a_sum_are_known():
    predicate = predicate_of("i + 1 > k * -i + m", WIDE)
    assert predicate.columns == ("i", "m", "k")
    assert predicate.paths == (("i",), ("k",), ("m",))
