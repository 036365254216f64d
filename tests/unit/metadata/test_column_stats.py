"""Records of statistics, how they are merged, and the definitions that say what they are of."""

from __future__ import annotations

import json
import math
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.errors import TableCorruptError
from lakeindex.metadata.column_ranges import ColumnRange, ValueKind, ValueType
from lakeindex.metadata.column_stats import (
    FIELD,
    column_range_of,
    column_stats_record,
    has_form,
    holds_range,
    in_wrapper_of,
    merge_column_stats,
    partition_stats_record,
)
from lakeindex.metadata.indexed_columns import (
    StatsEncoding,
    columns_to_index,
    indexed_columns,
    stats_encoding,
    with_definition,
)
from lakeindex.metadata.metadata_table import COLUMN_STATS

V1, V2 = StatsEncoding.V1, StatsEncoding.V2
MODEL = "org.apache.hudi.avro.model."
INT, LONG, DOUBLE = (ValueKind(one) for one in (ValueType.INT, ValueType.LONG, ValueType.DOUBLE))


def a_range(least: Any, greatest: Any, kind: ValueKind) -> ColumnRange:
    return ColumnRange("c", kind, least, greatest, 10, 2, 100, 200)


def loose(least: Any, greatest: Any, kind: ValueKind, encoding: StatsEncoding = V2) -> dict[str, Any]:
    return partition_stats_record("eu", a_range(least, greatest, kind), encoding, tight=False)


def deleted_record(name: str, encoding: StatsEncoding) -> dict[str, Any]:
    """What Hudi writes of a column of a file that is gone."""
    record = loose(None, None, INT, encoding)
    counts = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
    record[FIELD] |= dict.fromkeys(counts, -1) | {"fileName": name, "isDeleted": True}
    return record


def ends(record: dict[str, Any]) -> tuple[Any, Any]:
    stats = record[FIELD]
    return tuple(end and end[1]["value"] for end in (stats["minValue"], stats["maxValue"]))  # type: ignore[return-value] # two


@pytest.mark.parametrize(
    ("kind", "value", "v1", "v2"),
    [
        (ValueType.BOOLEAN, False, "Boolean", "Boolean"),
        (ValueType.INT, 1, "Int", "Int"),
        (ValueType.LONG, 1, "Long", "Long"),
        (ValueType.FLOAT, 1.0, "Float", "Float"),
        (ValueType.DOUBLE, 1.0, "Double", "Double"),
        (ValueType.STRING, "", "String", "String"),
        (ValueType.BYTES, b"", "Bytes", "Bytes"),
        (ValueType.FIXED, b"x", "Bytes", "Bytes"),
        (ValueType.DATE, 1, "Date", "Int"),
        (ValueType.TIME_MILLIS, 1, "Int", "Int"),
        (ValueType.TIME_MICROS, 1, "Long", "Long"),
        (ValueType.TIMESTAMP_MILLIS, 1, "Long", "Long"),
        (ValueType.TIMESTAMP_MICROS, 1, "Long", "Long"),
        (ValueType.LOCAL_TIMESTAMP_NANOS, 1, "Long", "Long"),
    ],
)
def test_a_value_has_the_wrapper_of_its_encoding(kind: ValueType, value: Any, v1: str, v2: str):
    for encoding, wrapper in ((V1, v1), (V2, v2)):
        stats = column_stats_record("f", a_range(value, value, ValueKind(kind)), encoding)[FIELD]
        assert stats["minValue"] == stats["maxValue"] == (f"{MODEL}{wrapper}Wrapper", {"value": value})
        assert stats["valueType"] == (None if encoding is V1 else {"typeOrdinal": int(kind), "additionalInfo": None})


@given(st.integers(-(10**30), 10**30))
def test_a_decimal_is_its_shortest_bytes(value: int):
    record = loose(value, value, ValueKind(ValueType.DECIMAL, 31, 4))
    stored = ends(record)[0]
    assert int.from_bytes(stored, "big", signed=True) == value
    if len(stored) > 1:
        with pytest.raises(OverflowError):
            value.to_bytes(len(stored) - 1, "big", signed=True)
    assert record[FIELD]["valueType"] == {"typeOrdinal": 10, "additionalInfo": "31,4"}


@pytest.mark.parametrize(
    ("value", "stored"),
    [(0, "00"), (127, "7f"), (128, "0080"), (-128, "80"), (-129, "ff7f"), (-(2**15), "8000"), (255, "00ff")],
)
def test_the_ends_of_a_byte(value: int, stored: str):
    assert ends(loose(value, value, ValueKind(ValueType.DECIMAL, 9, 0)))[1].hex() == stored


@pytest.mark.parametrize(
    ("unscaled", "scale", "expected"),
    [
        (-125, 2, Decimal("-1.25")),
        (0, 0, Decimal(0)),
        (1_000, 18, Decimal("1E-15")),
        (1, 18, Decimal(0)),
        (-1, 18, Decimal("-1E-15")),
        (10**15 - 1, 0, Decimal(10**15 - 1)),
        (10**15, 0, None),
        (-(10**30 - 1), 15, Decimal("-999999999999999.999999999999999")),
    ],
)
def test_a_decimal_of_v1_has_scale_15_or_does_not_fit(unscaled: int, scale: int, expected: Decimal | None):
    found = ends(loose(unscaled, unscaled, ValueKind(ValueType.DECIMAL, 38, scale), V1))[0]
    assert found == expected
    assert expected is None or found.as_tuple().exponent == -15


def test_ends_of_v1_are_rounded_outwards_and_come_back_as_no_narrower():
    kind, most = ValueKind(ValueType.DECIMAL, 38, 18), 10**33 - 1
    for least, greatest in (
        (1, 1),
        (-1, -1),
        (-(10**15) - 7, 10**3 + 1),
        (10**3, 10**3),
        (-most + 10**4, 0),
        (0, most - 10**4),
    ):
        record = loose(least, greatest, kind, V1)
        low, high = (end.scaleb(18, Context(prec=60)) for end in ends(record))
        assert least - 1_000 < low <= least
        assert greatest <= high < greatest + 1_000
        back = column_range_of(record, kind)
        assert back is not None
        assert (back.least, back.greatest) == (low, high)
    narrow = column_range_of(loose(1, 1, kind, V1), ValueKind(ValueType.DECIMAL, 20, 3))
    assert narrow is not None
    assert (narrow.least, narrow.greatest) == (0, 1)


def test_which_ranges_have_no_form():
    for kind, value, encoding, expected in (
        (ValueKind(ValueType.DECIMAL, 38, 18), 10**33 - 1, V1, False),  # rounded up it has 16 digits before the point
        (ValueKind(ValueType.DECIMAL, 38, 18), 10**33 - 10**3, V1, True),
        (ValueKind(ValueType.DECIMAL, 38, 2), 10**17, V1, False),
        (ValueKind(ValueType.DECIMAL, 38, 2), -(10**17), V1, False),
        (ValueKind(ValueType.DECIMAL, 38, 2), 10**17 - 1, V1, True),
        (ValueKind(ValueType.DECIMAL, 38, 2), 10**37, V2, True),
        (ValueKind(ValueType.LONG), 2**63 - 1, V1, True),
        (ValueKind(ValueType.DECIMAL, 38, 2), None, V1, True),
    ):
        assert has_form(a_range(value, value, kind), encoding) is expected, (kind, value)


def test_nan_that_stands_for_an_end_is_infinity():
    """As earlier releases wrote ranges that they did not know."""
    for least, greatest in ((-math.inf, math.nan), (math.nan, math.nan)):
        found = column_range_of(loose(least, greatest, ValueKind(ValueType.DOUBLE)), ValueKind(ValueType.DOUBLE))
        assert found is not None
        assert (found.least, found.greatest) == (-math.inf, math.inf)


def test_a_record_without_ends_says_something_only_if_all_is_null():
    wrapped = (f"{MODEL}LongWrapper", {"value": 1})
    for low, high, values, nulls, says in (
        (None, None, 10, 10, True),
        (None, None, 10, 2, False),
        (None, None, 10, 0, False),
        (None, wrapped, 10, 10, False),
        (wrapped, None, 10, 2, False),
        (wrapped, wrapped, 10, 2, True),
    ):
        record = loose(1, 1, LONG)
        record[FIELD] |= {"minValue": low, "maxValue": high, "valueCount": values, "nullCount": nulls}
        assert (column_range_of(record, LONG) is not None) is says, (low, high, values, nulls)


def test_a_deleted_record_says_nothing():
    """Its counts are all -1, which are as many nulls as values."""
    for encoding in (V1, V2):
        assert column_range_of(deleted_record("f", encoding), INT) is None
        record = loose(1, 5, INT, encoding)
        record[FIELD]["isDeleted"] = True
        assert column_range_of(record, INT) is None


def test_the_records_of_a_file_and_of_a_partition():
    found = a_range(1, 5, INT)
    record = column_stats_record("f.parquet", found, V2)
    assert (record["type"], record[FIELD]["fileName"], record[FIELD]["isTightBound"]) == (3, "f.parquet", False)
    record = partition_stats_record("eu", found, V2, tight=True)
    assert (record["type"], record[FIELD]["fileName"], record[FIELD]["isTightBound"]) == (6, "eu", True)
    counts = [record[FIELD][name] for name in ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")]
    assert counts == [10, 2, 100, 200]


def test_ranges_are_united_and_counts_added():
    found = merge_column_stats(loose(1, 5, INT), loose(-3, 2, INT))
    assert ends(found) == (-3, 5)
    assert [found[FIELD][name] for name in ("valueCount", "nullCount", "totalSize")] == [20, 4, 200]
    assert ends(merge_column_stats(loose(None, None, INT), loose(1, 2, INT))) == (1, 2)
    assert ends(merge_column_stats(loose(1, 2, INT), loose(None, None, INT))) == (1, 2)
    assert ends(merge_column_stats(loose(None, None, INT), loose(None, None, INT))) == (None, None)


def test_a_tight_or_deleted_record_replaces_the_older_and_a_deleted_one_is_replaced():
    older, tight = loose(1, 5, INT), partition_stats_record("eu", a_range(2, 3, INT), V2, tight=True)
    deleted = deleted_record("f", V2)
    assert merge_column_stats(older, tight) == tight
    assert merge_column_stats(older, deleted) == deleted
    assert merge_column_stats(deleted, older) == older
    assert ends(merge_column_stats(tight, older)) == (1, 5)


def test_records_of_hudi_0_15_have_fewer_fields():
    older, newer = loose(1, 5, INT, V1), loose(-3, 2, INT, V1)
    for record in (older, newer):
        del record[FIELD]["isTightBound"], record[FIELD]["valueType"]
    assert ends(merge_column_stats(older, newer)) == (-3, 5)


def test_nan_and_decimals_are_ordered_as_numbers():
    found = merge_column_stats(loose(-1.0, float("nan"), DOUBLE), loose(-0.0, 5.0, DOUBLE))
    assert repr(ends(found)) == "(-1.0, nan)"
    kind = ValueKind(ValueType.DECIMAL, 9, 2)
    found = merge_column_stats(loose(-300, 5, kind), loose(-1, 40_000, kind))
    assert [int.from_bytes(end, "big", signed=True) for end in ends(found)] == [-300, 40_000]
    found = merge_column_stats(loose(-300, 5, kind, V1), loose(-1, 40_000, kind, V1))
    assert ends(found) == (Decimal(-3), Decimal(400))


def test_an_older_type_is_widened_to_the_newer():
    found = merge_column_stats(loose(1, 9, INT), loose(3, 4, LONG))
    assert ends(found) == (1, 9)
    assert found[FIELD]["maxValue"][0] == f"{MODEL}LongWrapper"
    assert found[FIELD]["valueType"]["typeOrdinal"] == 4
    assert repr(ends(merge_column_stats(loose(1, 9, INT), loose(3.5, 4.5, DOUBLE)))) == "(1.0, 9.0)"
    found = merge_column_stats(
        loose(-300, 5, ValueKind(ValueType.DECIMAL, 9, 2)), loose(-1, 2, ValueKind(ValueType.DECIMAL, 12, 4))
    )
    assert [int.from_bytes(end, "big", signed=True) for end in ends(found)] == [-30_000, 500]


def test_records_of_both_encodings_are_united_by_what_they_stand_for():
    """Hudi 1.1 upgrades a table of 0.15 to statistics of V2, and keeps the records of V1."""
    kinds: list[tuple[ValueKind, Any, Any, Any, Any]] = [
        (ValueKind(ValueType.BOOLEAN), False, True, True, True),
        (INT, 1, 9, 3, 4),
        (LONG, 1, 9, 3, 4),
        (DOUBLE, 1.0, 9.0, 3.0, 4.0),
        (ValueKind(ValueType.STRING), "a", "x", "b", "c"),
        (ValueKind(ValueType.BYTES), b"a", b"x", b"b", b"c"),
        (ValueKind(ValueType.DATE), -30, 12, 1, 2),
        (ValueKind(ValueType.TIMESTAMP_MICROS), -30, 12, 1, 2),
        (ValueKind(ValueType.DECIMAL, 9, 2), -300, 40_000, -1, 2),
    ]
    for kind, least, greatest, lower, upper in kinds:
        for old, new in ((V1, V2), (V2, V1)):
            wanted = ends(loose(least, greatest, kind, new))
            assert ends(merge_column_stats(loose(least, greatest, kind, old), loose(lower, upper, kind, new))) == wanted
            assert ends(merge_column_stats(loose(lower, upper, kind, old), loose(least, greatest, kind, new))) == wanted
            assert ends(merge_column_stats(loose(least, greatest, kind, old), loose(None, None, kind, new))) == wanted
    found = merge_column_stats(loose(1, 9, INT, V1), loose(3.5, 4.5, DOUBLE))  # wider since
    assert repr(ends(found)) == "(1.0, 9.0)"
    found = merge_column_stats(
        loose(-300, 5, ValueKind(ValueType.DECIMAL, 9, 2), V1), loose(-1, 2, ValueKind(ValueType.DECIMAL, 12, 4))
    )
    assert [int.from_bytes(end, "big", signed=True) for end in ends(found)] == [-30_000, 500]
    ints = loose(-30, 12, ValueKind(ValueType.DATE))  # days that 0.15 has compacted: without their wrapper, and a type
    ints[FIELD]["valueType"] = None
    assert ends(merge_column_stats(ints, loose(1, 2, ValueKind(ValueType.DATE)))) == (-30, 12)
    assert column_range_of(ints, ValueKind(ValueType.DATE)) == a_range(-30, 12, ValueKind(ValueType.DATE))
    kind = ValueKind(ValueType.DECIMAL, 9, 2)
    raw = loose(-3 * 10**15, 4 * 10**17, kind)  # likewise, with the scale of the wrapper that they had
    raw[FIELD]["valueType"] = None
    assert column_range_of(raw, kind) == a_range(-300, 40_000, kind)
    for said in (raw, loose(-300, 40_000, kind, V1), loose(-300, 40_000, kind)):
        for encoding in (V1, V2):
            assert holds_range(said[FIELD], loose(-300, 40_000, kind, encoding)[FIELD])
            assert not holds_range(said[FIELD], loose(-301, 40_000, kind, encoding)[FIELD])
            assert not holds_range(said[FIELD], loose(-300, 40_001, kind, encoding)[FIELD])
    texts = loose("a", "b", ValueKind(ValueType.STRING), V1)
    assert not holds_range(texts[FIELD], loose(1, 2, INT)[FIELD])
    assert ends(merge_column_stats(texts, loose(1, 2, INT))) == (None, None)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (loose(1, 9, LONG), loose(1, 2, INT)),
        (loose("a", "b", ValueKind(ValueType.STRING)), loose(1, 2, INT)),
        (loose(1, 2, ValueKind(ValueType.DECIMAL, 9, 4)), loose(1, 2, ValueKind(ValueType.DECIMAL, 9, 2))),
    ],
)
def test_types_without_a_common_order_leave_no_ends(older: dict[str, Any], newer: dict[str, Any]):
    assert ends(merge_column_stats(older, newer)) == (None, None)


def test_the_columns_of_a_new_table():
    names = [f"c{number}" for number in range(40)]
    schema = pa.schema(
        [("_hoodie_commit_seqno", pa.string()), ("st", pa.struct([("x", pa.int32())])), ("l", pa.list_(pa.int32()))]
        + [(name, pa.int32()) for name in names]
    )
    meta = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
    assert columns_to_index(schema, V2) == (*meta, *names[:32])
    assert indexed_columns(None, 9, schema) == (*meta, *names[:32])
    assert indexed_columns(None, 6, schema) == tuple(schema.names)


@pytest.mark.parametrize(
    ("precision", "scale", "fits"), [(30, 15, True), (15, 0, True), (16, 0, False), (20, 16, False)]
)
def test_v1_has_decimals_that_fit_its_wrapper(precision: int, scale: int, fits: bool):
    schema = pa.schema([("d", pa.decimal128(precision, scale))])
    assert ("d" in columns_to_index(schema, V1)) == fits
    assert "d" in columns_to_index(schema, V2)


def test_definitions_say_columns_and_encoding():
    text = with_definition(None, COLUMN_STATS, ["a", 'quoted " ü'], 9)
    assert indexed_columns(text, 9, pa.schema([])) == ("a", 'quoted " ü')
    assert stats_encoding(text, 9) is V2
    assert stats_encoding(with_definition(None, COLUMN_STATS, ["a"], 8), 9) is V1  # what the file says counts
    assert stats_encoding(None, 8) is V1
    assert stats_encoding(None, 9) is V2
    other = json.dumps({"indexDefinitions": {"record_index": {"version": "V1"}}})
    assert stats_encoding(other, 9) is V2
    assert indexed_columns(other, 9, pa.schema([("a", pa.int32())]))[3:] == ("a",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"indexDefinitions": []}',
        '{"indexDefinitions": {"column_stats": 1}}',
        '{"indexDefinitions": {"column_stats": {}}}',
        '{"indexDefinitions": {"column_stats": {"sourceFields": [1]}}}',
    ],
)
def test_damaged_definitions_are_refused(text: str):
    with pytest.raises(TableCorruptError, match=r"index\.json"):
        indexed_columns(text, 9, pa.schema([]))


def test_an_unknown_encoding_is_refused():
    with pytest.raises(TableCorruptError, match="V7"):
        stats_encoding('{"indexDefinitions": {"column_stats": {"version": "V7"}}}', 9)


def test_ends_that_hudi_0_15_wrote_without_their_wrappers_are_united_with_ours() -> None:
    """Once it has compacted a metadata table, dates are ints there, and decimals the bytes of their unscaled values."""

    def wrapped(kind: str, least: object, greatest: object) -> dict[str, Any]:
        name = f"org.apache.hudi.avro.model.{kind}"
        ends = {"minValue": (name, {"value": least}), "maxValue": (name, {"value": greatest})}
        counts = dict.fromkeys(("valueCount", "nullCount", "totalSize", "totalUncompressedSize"), 1)
        return {FIELD: {**ends, **counts, "isDeleted": False, "isTightBound": False, "valueType": None}}

    dates, ints = wrapped("DateWrapper", -28, 12), wrapped("IntWrapper", -30, 5)
    for older, newer in ((dates, ints), (ints, dates)):
        found = merge_column_stats(older, newer)[FIELD]
        assert found["minValue"] == (newer[FIELD]["minValue"][0], {"value": -30})
        assert found["maxValue"] == (newer[FIELD]["maxValue"][0], {"value": 12})
    raw = wrapped(
        "BytesWrapper", (-3 * 10**14).to_bytes(8, "big", signed=True), (10**16).to_bytes(8, "big", signed=True)
    )
    found = merge_column_stats(raw, wrapped("DecimalWrapper", Decimal("-0.2"), Decimal(1)))[FIELD]
    assert [found[end][1]["value"] for end in ("minValue", "maxValue")] == [Decimal("-0.3"), Decimal(10)]
    texts = wrapped("StringWrapper", "a", "b")[FIELD]["minValue"]
    assert in_wrapper_of(texts, dates[FIELD]["minValue"]) == texts
    assert in_wrapper_of(None, texts) is None
