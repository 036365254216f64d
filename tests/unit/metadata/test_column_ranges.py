"""Ranges of columns from Parquet footers hold all values, and say so where they cannot."""

from __future__ import annotations

import datetime as dt
import io
import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeindex.metadata.column_ranges import (
    ColumnRange,
    ValueKind,
    ValueType,
    chunk_ends,
    column_ranges,
    merged,
    merged_range,
    order_key,
)
from lakeindex.options.types import WriteConfig
from lakeindex.write.types.avro_schema import META_COLUMNS
from tests.base_files import encode_base_file
from tests.strategies import any_texts

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - of local timestamps, too


def ranges_of(table: pa.Table, **how: Any) -> dict[str, ColumnRange]:
    out = io.BytesIO()
    pq.write_table(table, out, **how)
    footer = pq.ParquetFile(out).metadata
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    return {one.column: one for one in column_ranges(footer, names)}


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda value: Decimal((value < 0, tuple(map(int, str(abs(value)))), -scale)))


def micros(value: dt.datetime) -> int:
    return (value - EPOCH) // dt.timedelta(microseconds=1)


TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], Any]] = {
    "bool": (pa.bool_(), st.booleans(), bool),
    "int8": (pa.int8(), st.integers(-128, 127), int),
    "int32": (pa.int32(), st.integers(-(2**31), 2**31 - 1), int),
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1), int),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False), float),
    "double": (pa.float64(), st.floats(allow_nan=False), float),
    "string": (pa.string(), any_texts, str),
    "binary": (pa.binary(), st.binary(max_size=5), bytes),
    "fixed": (pa.binary(3), st.binary(min_size=3, max_size=3), bytes),
    "decimal9": (pa.decimal128(9, 2), decimals(9, 2), lambda value: int(value.scaleb(2))),
    "decimal18": (pa.decimal128(18, 4), decimals(18, 4), lambda value: int(value.scaleb(4))),
    "decimal28": (pa.decimal128(28, 5), decimals(28, 5), lambda value: int(value.scaleb(5))),
    "date": (pa.date32(), st.dates(), lambda value: (value - EPOCH.date()).days),
    "local": (pa.timestamp("us"), st.datetimes(), micros),
    "zoned": (
        pa.timestamp("us", "UTC"),
        st.datetimes().map(lambda value: value.replace(tzinfo=dt.UTC)),
        lambda value: micros(value.replace(tzinfo=None)),
    ),
}


@pytest.mark.parametrize(
    ("name", "as_integer"), [*((name, False) for name in TYPES), *((one, True) for one in TYPES if "decimal" in one)]
)
def test_a_range_holds_all_values_that_are_read_back(name: str, as_integer: bool):
    kind, values, stored = TYPES[name]

    @settings(max_examples=40)
    @given(st.lists(st.none() | values, min_size=1), st.integers(1, 5))
    def check(column: list[Any], group: int) -> None:
        table = pa.table({"c": pa.array(column, kind)})
        how: dict[str, Any] = {"row_group_size": group, "store_decimal_as_integer": as_integer}
        found = ranges_of(table, **how)["c"]
        there = [order_key(stored(value)) for value in column if value is not None]
        assert (found.value_count, found.null_count) == (len(column), len(column) - len(there))
        if not there:
            assert found.least is found.greatest is None
            return
        assert order_key(found.least) <= min(there)
        assert max(there) <= order_key(found.greatest)
        assert (found.least, found.greatest) == (
            min(stored(value) for value in column if value is not None),
            max(stored(value) for value in column if value is not None),
        )

    check()


@given(st.lists(st.floats(), min_size=1))
def test_what_our_writer_encodes_is_held_with_nan(values: list[float]):
    schema = pa.schema([("d", pa.float64())])
    meta = {name: ["k"] * len(values) for name in META_COLUMNS}
    table = pa.table({**meta, "d": pa.array(values, pa.float64())})
    data = encode_base_file(table, "t", schema, WriteConfig(row_group_rows=2))
    (found,) = column_ranges(pq.read_metadata(pa.BufferReader(data)), ["d"])
    assert found.least is not None
    assert found.greatest is not None
    numbers = [one for one in values if not math.isnan(one)]
    assert all(order_key(found.least) <= order_key(one) <= order_key(found.greatest) for one in numbers)
    assert not math.isnan(found.least)
    assert not math.isnan(found.greatest)
    assert found.greatest == math.inf or len(numbers) == len(values)
    assert found.null_count == 0


def test_zero_has_both_signs():
    for values in ([0.0], [-0.0], [0.0, -0.0]):
        found = ranges_of(pa.table({"c": values}))["c"]
        assert (repr(found.least), repr(found.greatest)) == ("-0.0", "0.0")


def test_another_writers_zeros_have_both_signs_too():
    """Arrow writes them so; parquet-mr may have written either sign as either end."""
    zero, minus = struct.pack("<d", 0.0), struct.pack("<d", -0.0)
    for values, was, now in (
        ([0.0, 1.0], b"\x18\x08" + minus, b"\x18\x08" + zero),
        ([-1.0, 0.0], b"\x28\x08" + zero, b"\x28\x08" + minus),
    ):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"c": values}), sink, use_dictionary=False)
        data = sink.getvalue().to_pybytes()
        start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        assert was in data[start:]
        footer = pq.read_metadata(pa.BufferReader(data[:start] + data[start:].replace(was, now)))
        stats = footer.row_group(0).column(0).statistics
        found = chunk_ends(stats, DOUBLE)
        assert found is not None
        assert [repr(one) for one in found if one == 0] == [repr(-0.0 if values[0] == 0 else 0.0)]
        assert [repr(one) for one in (stats.min_raw, stats.max_raw) if one == 0] != [
            repr(one) for one in found if one == 0
        ]


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        (pa.array([True, None]), (False, True)),
        (pa.array([1, None], pa.int32()), (-(2**31), 2**31 - 1)),
        (pa.array([1, None], pa.int64()), (-(2**63), 2**63 - 1)),
        (pa.array([1, None], pa.float32()), (-math.inf, math.inf)),
        (pa.array([1, None], pa.float64()), (-math.inf, math.inf)),
        (pa.array([1, None], pa.date32()), (-719_162, 2_932_896)),
        (pa.array([1, None], pa.time32("ms")), (0, 86_399_999)),
        (pa.array([1, None], pa.time64("us")), (0, 86_399_999_999)),
        (pa.array([1, None], pa.timestamp("ms")), (-62_135_596_800_000, 253_402_300_799_999)),
        (pa.array([1, None], pa.timestamp("us", "UTC")), (-62_135_596_800_000_000, 253_402_300_799_999_999)),
        (pa.array([1, None], pa.timestamp("ns")), (-(2**63), 2**63 - 1)),
        (pa.array([Decimal("1.25"), None], pa.decimal128(5, 2)), (-99_999, 99_999)),
    ],
)
def test_unknown_ends_are_the_widest(column: pa.Array, ends: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch):
    """A chunk whose statistics have a count of nulls and no ends."""
    from lakeindex.metadata import column_ranges as module

    monkeypatch.setattr(module, "chunk_ends", lambda *_: None)
    found = ranges_of(pa.table({"c": column}))["c"]
    assert (repr(found.least), repr(found.greatest)) == (repr(ends[0]), repr(ends[1]))
    assert found.null_count == 1


@pytest.mark.parametrize("last", ["z" * 5000, "\U0010fffd" * 2000])
def test_a_text_too_long_for_statistics_is_within_the_widest_range(last: str):
    found = ranges_of(pa.table({"c": ["a", "h", None, last]}))["c"]
    assert (found.least, found.value_count, found.null_count) == ("", 4, 1)
    assert isinstance(found.greatest, str)
    assert found.greatest.encode() > last.encode()


@pytest.mark.parametrize("rows", [1, 3])
def test_without_statistics_the_range_is_the_widest_and_nulls_are_neither_none_nor_all(rows: int):
    found = ranges_of(pa.table({"c": [1, 2, None][:rows], "t": ["x"] * rows}), write_statistics=False)
    assert {0 < one.null_count < one.value_count for one in found.values()} == {True}
    assert (found["c"].least, found["c"].greatest) == (-(2**63), 2**63 - 1)
    assert found["t"].least == ""


def test_a_required_column_has_no_nulls_to_count():
    schema = pa.schema([pa.field("c", pa.int32(), nullable=False)])
    found = ranges_of(pa.table({"c": pa.array([1, 2], pa.int32())}, schema), write_statistics=False)["c"]
    assert found.null_count == 0
    assert (found.least, found.greatest) == (-(2**31), 2**31 - 1)


def test_a_chunk_of_nulls_has_no_ends():
    found = ranges_of(pa.table({"c": pa.array([None, None], pa.int32())}))["c"]
    assert (found.least, found.greatest, found.null_count) == (None, None, 2)


def test_text_that_was_cut_within_a_character_has_no_ends():
    schema = pa.schema([("c", pa.binary())])
    out = io.BytesIO()
    pq.write_table(pa.table({"c": [b"a", b"\xc3"]}, schema), out)
    data = out.getvalue()
    assert ranges_of(pa.table({"c": [b"a", b"\xc3"]}, schema))["c"].greatest == b"\xc3"
    from lakeindex.metadata.column_ranges import chunk_ends

    stats = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).statistics
    assert chunk_ends(stats, ValueKind(ValueType.STRING)) is None


def test_int96_has_the_widest_range():
    table = pa.table({"c": pa.array([1, 2], pa.timestamp("ns"))})
    found = ranges_of(table, use_deprecated_int96_timestamps=True)["c"]
    assert found.kind == ValueKind(ValueType.TIMESTAMP_MICROS)
    assert found.least == -62_135_596_800_000_000


def test_types_without_an_order_in_hudi_are_left_out():
    table = pa.table(
        {
            "u": pa.array([1], pa.uint64()),
            "half": pa.array([1.5], pa.float16()),
            "nanos": pa.array([1], pa.time64("ns")),
            "i": pa.array([1], pa.int16()),
        }
    )
    assert list(ranges_of(table)) == ["i"]


def test_leaves_have_hudis_names_and_only_those_asked_for_are_there():
    table = pa.table(
        {
            "st": [{"x": 1, "in": {"y": "a"}}],
            "l": [[1, 2]],
            "m": pa.array([[("k", 1.0)]], pa.map_(pa.string(), pa.float64())),
        }
    )
    assert set(ranges_of(table)) == {"st.x", "st.in.y", "l.list.element", "m.key_value.key", "m.key_value.value"}
    out = io.BytesIO()
    pq.write_table(table, out)
    footer = pq.ParquetFile(out).metadata
    assert [one.column for one in column_ranges(footer, ["st.x", "st", "none"])] == ["st.x"]


def test_a_file_without_rows_has_no_ranges():
    out = io.BytesIO()
    with pq.ParquetWriter(out, pa.schema([("c", pa.int32())])):
        pass
    assert column_ranges(pq.ParquetFile(out).metadata, ["c"]) == ()


def a_range(least: Any, greatest: Any, kind: ValueKind) -> ColumnRange:
    return ColumnRange("c", kind, least, greatest, 10, 2, 100, 200)


INT, LONG = ValueKind(ValueType.INT), ValueKind(ValueType.LONG)
FLOAT, DOUBLE = ValueKind(ValueType.FLOAT), ValueKind(ValueType.DOUBLE)
TEXT = ValueKind(ValueType.STRING)


def test_ranges_of_files_are_united_and_counts_added():
    one, other = a_range(1, 5, INT), a_range(-3, 2, INT)
    assert merged_range([one, other]) == ColumnRange("c", INT, -3, 5, 20, 4, 200, 400)


def test_each_column_is_merged_by_itself():
    other = ColumnRange("b", INT, 1, 1, 1, 0, 1, 1)
    assert [one.column for one in merged([a_range(1, 5, INT), other, a_range(2, 9, INT)])] == ["c", "b"]
    assert merged([]) == ()


def test_a_file_of_nulls_does_not_change_the_ends():
    nulls = a_range(None, None, INT)
    assert (merged_range([nulls, a_range(1, 5, INT)]).least, merged_range([nulls, nulls]).least) == (1, None)


def test_nan_is_last_and_texts_are_ordered_by_their_bytes():
    found = merged_range([a_range(-1.0, math.nan, DOUBLE), a_range(-math.inf, 7.0, DOUBLE)])
    assert (found.least, repr(found.greatest)) == (-math.inf, "nan")
    texts = merged_range([a_range("\uffee", "\uffee", TEXT), a_range("\U0001f600", "\U0001f600", TEXT)])
    assert (texts.least, texts.greatest) == ("\uffee", "\U0001f600")  # Java's order of texts is the other one
    raw = merged_range(
        [a_range(b"\x01", b"\x01", ValueKind(ValueType.BYTES)), a_range(b"\x80", b"\x80", ValueKind(ValueType.BYTES))]
    )
    assert (raw.least, raw.greatest) == (b"\x01", b"\x80")  # Java's order of bytes has signs


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((INT, LONG), LONG),
        ((LONG, INT), LONG),
        ((FLOAT, DOUBLE), DOUBLE),
        ((INT, FLOAT), DOUBLE),
        ((LONG, DOUBLE), DOUBLE),
    ],
)
def test_changed_numbers_have_the_widest_type(kinds: tuple[ValueKind, ValueKind], expected: ValueKind):
    stored = [float if kind in (FLOAT, DOUBLE) else int for kind in kinds]
    ranges = [a_range(stored[0](1), stored[0](2), kinds[0]), a_range(stored[1](3), stored[1](4), kinds[1])]
    found = merged_range(ranges)
    assert (found.kind, found.least, found.greatest) == (expected, 1, 4)
    assert isinstance(found.least, float) == (expected is DOUBLE)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_a_long_as_a_double_is_on_the_safe_side(one: int, other: int):
    low, high = sorted((one, other))
    found = merged_range([a_range(low, high, LONG), a_range(None, None, DOUBLE)])
    assert found.least is not None
    assert found.greatest is not None
    assert int(found.least) <= low
    assert high <= int(found.greatest)


def test_changed_decimals_have_one_scale():
    found = merged_range(
        [a_range(-125, 99, ValueKind(ValueType.DECIMAL, 5, 2)), a_range(1, 2, ValueKind(ValueType.DECIMAL, 9, 4))]
    )
    assert found.kind == ValueKind(ValueType.DECIMAL, 9, 4)
    assert (found.least, found.greatest) == (-12_500, 9_900)
    wider = merged_range(
        [a_range(-1, 1, ValueKind(ValueType.DECIMAL, 5, 0)), a_range(1, 2, ValueKind(ValueType.DECIMAL, 4, 3))]
    )
    assert wider.kind == ValueKind(ValueType.DECIMAL, 8, 3), "five digits before the point and three behind it"


def test_other_changes_of_type_have_the_widest_range_of_the_newest():
    found = merged_range([a_range(1, 2, INT), a_range("a", "b", TEXT)])
    assert (found.least, found.kind, found.value_count) == ("", TEXT, 20)
    assert isinstance(found.greatest, str)
    assert found.greatest > "b"
    nulls = merged_range([a_range(None, None, INT), a_range(None, None, TEXT)])
    assert (nulls.least, nulls.greatest) == (None, None)
