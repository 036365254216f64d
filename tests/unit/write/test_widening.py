"""Widened columns, as Hudi 0.15.0 and 1.2.0 read and rewrite them; every expected value is one that they gave."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.write.keys.java_text import java_float
from lakeindex.write.types.widening import widened

INTS = [16777217, -5, 2147483647, None]
LONGS = [9007199254740993, -5, 16777217, None]
FLOATS = [
    0.1,
    1e10,
    3.4028234663852886e38,
    3.4e10,
    2e-3,
    1e-45,
    9.999999e9,
    8.41e21,
    1e23,
    2.3509885615147286e-38,
    None,
]


@pytest.mark.parametrize(
    ("stored", "kind", "expected"),
    [
        (pa.array(INTS, pa.int32()), pa.int64(), INTS),
        (pa.array(INTS, pa.int32()), pa.float32(), [16777216.0, -5.0, 2147483648.0, None]),
        (pa.array(INTS, pa.int32()), pa.float64(), [16777217.0, -5.0, 2147483647.0, None]),
        (pa.array(INTS, pa.int32()), pa.string(), ["16777217", "-5", "2147483647", None]),
        (pa.array(LONGS, pa.int64()), pa.float32(), [9007199254740992.0, -5.0, 16777216.0, None]),
        (pa.array(LONGS, pa.int64()), pa.float64(), [9007199254740992.0, -5.0, 16777217.0, None]),
        (pa.array(LONGS, pa.int64()), pa.string(), ["9007199254740993", "-5", "16777217", None]),
        (
            pa.array(FLOATS, pa.float32()),
            pa.float64(),
            [0.1, 1e10, 3.4028235e38, 33999999000.0, 0.002, 1.4e-45, 9999999000.0, 8.41e21, 1e23, 2.3509886e-38, None],
        ),
        (
            pa.array([0.1, 1e10, 3.4028234663852886e38, math.nan, 3.4e10, -0.0, math.inf, None], pa.float32()),
            pa.string(),
            ["0.1", "1.0E10", "3.4028235E38", "NaN", "3.3999999E10", "-0.0", "Infinity", None],
        ),
        (
            pa.array([0.1, 1e300, -0.0, 1.0, 2e23, 1e22], pa.float64()),
            pa.string(),
            ["0.1", "1.0E300", "-0.0", "1.0", "1.9999999999999998E23", "1.0E22"],
        ),
        (pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)), pa.decimal128(20, 2), [Decimal("1.25"), None]),
    ],
)
def test_as_hudi(stored: pa.Array, kind: pa.DataType, expected: list[Any]) -> None:
    found = widened(pa.chunked_array([stored]), kind)
    assert found.type == kind
    assert found.to_pylist() == expected


def test_not_a_number_infinity_and_the_sign_of_zero() -> None:
    found = widened(pa.chunked_array([pa.array([math.nan, -math.inf, -0.0], pa.float32())]), pa.float64())
    assert [str(value) for value in found.to_pylist()] == ["nan", "-inf", "-0.0"]


@given(st.lists(st.integers(0, 2**32 - 1), max_size=20))
def test_floats_are_read_from_javas_text(bits: list[int]) -> None:
    values = np.array(bits, np.uint32).view(np.float32)
    found = widened(pa.chunked_array([pa.array(values)]), pa.float64())
    expected = [float(java_float(float(value)).replace("Infinity", "inf")) for value in values]
    assert np.array_equal(np.array(found.to_pylist(), float), np.array(expected, float), equal_nan=True)


@given(st.lists(st.floats(-1e6, 1e6, width=32), max_size=50))
def test_common_floats_too(values: list[float]) -> None:
    found = widened(pa.chunked_array([pa.array(values, pa.float32())]), pa.float64())
    assert found.to_pylist() == [float(java_float(value)) for value in values]


def test_inside_of_structs_lists_and_maps() -> None:
    inner = pa.list_(pa.struct([("a", pa.float32()), ("m", pa.map_(pa.string(), pa.int32()))]))
    wide = pa.list_(pa.struct([("m", pa.map_(pa.string(), pa.int64())), ("a", pa.float64()), ("new", pa.string())]))
    stored = pa.array([[{"a": 9.0, "m": []}], [{"a": 0.1, "m": [("k", 1)]}, None], None, []], inner)
    found = widened(pa.chunked_array([stored.slice(1)]), wide)
    assert found.type == wide
    assert found.to_pylist() == [[{"m": [("k", 1)], "a": 0.1, "new": None}, None], None, []]


@pytest.mark.parametrize(
    ("stored", "kind"),
    [
        (pa.array([0.1], pa.float64()), pa.float32()),
        (pa.array([2**40], pa.int64()), pa.int32()),
        (pa.array([1.5], pa.float64()), pa.int64()),
        (pa.array(["x"]), pa.int64()),
    ],
)
def test_what_would_lose_something_does_not_convert(stored: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid):
        widened(pa.chunked_array([stored]), kind)


def test_what_is_nested_becomes_nothing_else():
    """It is refused as a conversion that there is none of."""
    nested = [
        pa.array([{"x": 1}, None]),
        pa.array([[1], None]),
        pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    ]
    for array in nested:
        for kind in (
            pa.int64(),
            pa.struct([("y", pa.int64())]),
            pa.list_(pa.string()),
            pa.map_(pa.string(), pa.int64()),
        ):
            is_like = (array.type.id == kind.id) or (pa.types.is_map(array.type) and pa.types.is_list(kind))
            if not is_like:
                with pytest.raises(pa.ArrowException):
                    widened(pa.chunked_array([array]), kind)
    assert widened(pa.chunked_array([nested[0]]), pa.struct([("y", pa.int64())])).to_pylist() == [{"y": None}, None]
