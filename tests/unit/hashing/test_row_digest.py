"""Equal rows in any order and any files have one digest; any change of a row has another."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.hashing.row_digest import RowDigest, digest_rows, sum_of

SCHEMA = pa.schema(
    [
        ("s", pa.string()),
        ("i", pa.int64()),
        ("j", pa.int32()),
        ("b", pa.bool_()),
        ("f", pa.float64()),
        ("d", pa.decimal128(10, 2)),
        ("t", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("l", pa.list_(pa.field("element", pa.string()))),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("o", pa.struct([("x", pa.string()), ("y", pa.list_(pa.int64()))])),
    ]
)
TEXT = st.text(max_size=4)
ROWS = st.fixed_dictionaries(
    {
        "s": st.none() | TEXT,
        "i": st.none() | st.integers(-5, 5),
        "j": st.none() | st.integers(-5, 5),
        "b": st.none() | st.booleans(),
        "f": st.none() | st.sampled_from([0.0, -0.0, 1.5, float("inf")]),
        "d": st.none() | st.decimals(-9, 9, places=2),
        "t": st.none()
        | st.sampled_from([dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.datetime(1900, 1, 1, tzinfo=dt.UTC)]),
        "day": st.none() | st.sampled_from([dt.date(2024, 1, 1), dt.date(1960, 1, 1)]),
        "raw": st.none() | st.binary(max_size=3),
        "l": st.none() | st.lists(st.none() | TEXT, max_size=3),
        "m": st.none() | st.lists(st.tuples(TEXT, st.none() | st.integers(0, 3)), max_size=2),
        "o": st.none()
        | st.fixed_dictionaries({"x": st.none() | TEXT, "y": st.none() | st.lists(st.integers(0, 3), max_size=2)}),
    }
)


def table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@given(st.lists(ROWS, max_size=12), st.randoms(use_true_random=False), st.data())
def test_order_and_files_do_not_matter(rows: list[dict[str, object]], dice: random.Random, data: st.DataObject) -> None:
    whole = digest_rows(table(rows))
    shuffled = list(rows)
    dice.shuffle(shuffled)
    cut = data.draw(st.integers(0, len(rows)))
    big = table(shuffled)
    parts = [big.slice(0, cut), big.slice(cut)]
    assert sum_of(map(digest_rows, parts)) == whole
    assert digest_rows(pa.concat_tables(parts)) == whole
    assert whole.rows == len(rows)


@given(st.lists(ROWS, min_size=1, max_size=6), ROWS, st.data())
def test_another_row_is_another_digest(
    rows: list[dict[str, object]], other: dict[str, object], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(rows) - 1))
    changed = [*rows[:place], other, *rows[place + 1 :]]
    same = repr(rows[place]) == repr(other)
    assert (digest_rows(table(changed)) == digest_rows(table(rows))) is same
    assert digest_rows(table([*rows, rows[place]])) != digest_rows(table(rows))


def test_values_do_not_move_between_columns_or_rows() -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    one = pa.Table.from_pylist([{"a": "x", "b": "y"}, {"a": "u", "b": "v"}], schema=schema)
    for other in (
        [{"a": "y", "b": "x"}, {"a": "u", "b": "v"}],
        [{"a": "u", "b": "y"}, {"a": "x", "b": "v"}],
        [{"a": "xy", "b": ""}, {"a": "u", "b": "v"}],
        [{"a": None, "b": "y"}, {"a": "u", "b": "v"}],
    ):
        assert digest_rows(pa.Table.from_pylist(other, schema=schema)) != digest_rows(one)


def test_zeros_differ_and_dictionaries_do_not() -> None:
    assert digest_rows(pa.table({"f": [0.0]})) != digest_rows(pa.table({"f": [-0.0]}))
    plain = pa.table({"s": pa.array(["a", None, "a"])})
    coded = pa.table({"s": pa.array(["a", None, "a"]).dictionary_encode()})
    assert digest_rows(plain) == digest_rows(coded)


def test_decimals_and_nulls() -> None:
    one = pa.table({"d": pa.array([Decimal("1.10"), None], pa.decimal128(30, 5)), "n": pa.nulls(2)})
    assert digest_rows(one).rows == 2
    assert digest_rows(one) != digest_rows(one.slice(0, 1))
    assert digest_rows(one.slice(0, 0)) == RowDigest()
