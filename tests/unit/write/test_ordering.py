"""Ordering values: what wins is what Java's comparison of the two says, within a batch and against stored rows."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from lakeindex.write.combine import are_older, comparable
from tests.builders import make_table

NAN = float("nan")


def java_double(value: float) -> tuple[int, float, int]:
    """``Double.compare`` as a sort key: NaN last and equal to any other, -0.0 before 0.0."""
    return (1, 0.0, 0) if math.isnan(value) else (0, value, -1 if math.copysign(1, value) < 0 else 0)


def java_bytes(value: bytes) -> list[int]:
    """``ByteBuffer.compareTo`` as a sort key: bytes have a sign."""
    return [byte - 256 if byte > 127 else byte for byte in value]


def ranks(values: pa.Array) -> list[tuple[bool, bool]]:
    """Of each pair of values: less, equal."""
    ordered = comparable(values)
    pairs = list(itertools.product(range(len(values)), repeat=2))
    left, right = (ordered.take(pa.array([pair[side] for pair in pairs], pa.int64())) for side in (0, 1))
    return list(zip(pc.less(left, right).to_pylist(), pc.equal(left, right).to_pylist(), strict=True))


@given(st.lists(st.floats() | st.sampled_from([NAN, -NAN, 0.0, -0.0, math.inf, -math.inf]), max_size=8))
def test_doubles_are_ordered_as_in_java(values: list[float]) -> None:
    keys = [java_double(value) for value in values]
    expected = [(a < b, a == b) for a, b in itertools.product(keys, repeat=2)]
    assert ranks(pa.array(values, pa.float64())) == expected


@given(st.lists(st.floats(width=32) | st.sampled_from([NAN, 0.0, -0.0]), max_size=8))
def test_floats_are_ordered_as_in_java(values: list[float]) -> None:
    keys = [java_double(value) for value in values]
    expected = [(a < b, a == b) for a, b in itertools.product(keys, repeat=2)]
    assert ranks(pa.array(values, pa.float32())) == expected


@given(st.lists(st.binary(max_size=4), max_size=8), st.sampled_from([pa.binary(), pa.large_binary()]))
def test_bytes_are_ordered_with_their_sign(values: list[bytes], kind: pa.DataType) -> None:
    keys = [java_bytes(value) for value in values]
    expected = [(a < b, a == b) for a, b in itertools.product(keys, repeat=2)]
    assert ranks(pa.array([b"before", *values], kind).slice(1)) == expected


@pytest.mark.parametrize(
    "values",
    [pa.array([NAN, None, -0.0]), pa.array([1.5, None], pa.float32()), pa.array([b"\x80", None]), pa.array([1, None])],
)
def test_a_null_stays_one(values: pa.Array) -> None:
    assert comparable(values).is_null().to_pylist() == values.is_null().to_pylist()


SCALES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.float64(), [-math.inf, -1.0, -0.0, 0.0, 1.0, math.inf, NAN]),
    (pa.float32(), [-math.inf, -0.0, 0.0, math.inf, NAN]),
    (pa.binary(), [b"", b"\x80", b"\xff", b"\x01", b"\x01\x00", b"\x7f"]),
    (pa.string(), ["", "a", "b", "\uffff", "\U0001f600"]),
]
"""Types and values, ascending as Hudi compares them: measured with both releases."""


def test_the_first_field_that_differs_decides_unless_it_is_null() -> None:
    """Of three ordering fields, all there is of a small value, a great one, and none."""
    rows = list(itertools.product((0, 1, None), repeat=3))
    pairs = list(itertools.product(rows, repeat=2))

    def is_older(incoming: tuple[int | None, ...], stored: tuple[int | None, ...]) -> bool:
        first = next(((a, b) for a, b in zip(incoming, stored, strict=True) if a is None or a != b), (0, 0))
        return None not in first and first[0] < first[1]

    sides = [[pa.array(column, pa.int64()) for column in zip(*side, strict=True)] for side in zip(*pairs, strict=True)]
    for count in range(1, 4):
        found = are_older(list(zip(*sides, strict=True))[:count])
        assert found is not None
        assert found.tolist() == [is_older(one[:count], other[:count]) for one, other in pairs]
    assert are_older([]) is None


def rows_of(kind: pa.DataType, lines: list[tuple[str, Any, str]]) -> pa.Table:
    ids, ordering, texts = zip(*lines, strict=True)
    return pa.table(
        {"id": list(ids), "day": ["x"] * len(ids), "ts": pa.array(ordering, kind), "v": list(texts)},
    )


def ordered_table(folder: Path, kind: pa.DataType) -> LakeTable:
    return make_table(
        folder / "t", schema=pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", kind), ("v", pa.string())])
    )


def contents(table: LakeTable) -> dict[str, str]:
    rows = table.read(meta=True)
    return dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


@pytest.mark.parametrize(("kind", "values"), SCALES, ids=lambda one: str(one) if isinstance(one, pa.DataType) else "")
def test_the_greater_value_wins_against_a_stored_row(kind: pa.DataType, values: list[Any], tmp_path: Path) -> None:
    table = ordered_table(tmp_path, kind)
    pairs = list(itertools.product(range(len(values)), repeat=2))
    table.upsert(rows_of(kind, [(f"{a}-{b}", values[a], "stored") for a, b in pairs]))
    table.upsert(rows_of(kind, [(f"{a}-{b}", values[b], "incoming") for a, b in pairs]))
    assert contents(table) == {f"{a}-{b}": "incoming" if b >= a else "stored" for a, b in pairs}


@pytest.mark.parametrize(("kind", "values"), SCALES, ids=lambda one: str(one) if isinstance(one, pa.DataType) else "")
def test_the_greater_value_wins_within_a_batch(kind: pa.DataType, values: list[Any], tmp_path: Path) -> None:
    table = ordered_table(tmp_path, kind)
    pairs = list(itertools.product(range(len(values)), repeat=2))
    twice = [(f"{a}-{b}", values[n], text) for a, b in pairs for n, text in ((a, "first"), (b, "second"))]
    table.upsert(rows_of(kind, twice))
    assert contents(table) == {f"{a}-{b}": "second" if b >= a else "first" for a, b in pairs}
