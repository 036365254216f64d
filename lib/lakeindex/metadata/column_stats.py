"""Records of the statistics in the metadata table: of a column in a file, and of a column in a partition.

Both are a ``HoodieMetadataColumnStats`` in the field ``ColumnStatsMetadata``; the field ``type`` tells them apart. Ends
of a range are wrapped, one record type for each Avro type. Encoding V1 (tables below version 9) has wrappers of its own
for dates (days) and decimals (scale 15, at most 30 digits: ends with more behind the point are rounded outwards, those
with more before it have none), and timestamps are longs of the column's own unit. V2 has wrappers of primitive types
only, and ``valueType`` says what they stand for: the ordinal of Hudi's ``ValueType`` and, of a decimal,
``precision,scale``. Its bytes are the shortest big-endian two's complement of the unscaled integer.

A table of V2 may have records of V1: Hudi 1.1 names V2 when it upgrades a table of version 6, and keeps them.

Records are dicts as fastavro writes and reads them; a wrapped value is a pair of the wrapper's full name and its
fields, since it stands in a union of several records. ``merge_column_stats`` takes them as fastavro's reader gives them
with ``return_record_name`` and ``return_record_name_override``.

Source: ``HoodieMetadataPayload.createColumnStatsRecords``, ``createPartitionStatsRecords``,
``HoodieTableMetadataUtil.mergeColumnStatsRecords``, ``HoodieAvroWrapperUtils`` of Hudi 1.2, ``HoodieMetadata.avsc``;
compared with records of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Final, TypeAlias

from lakeindex.metadata.column_ranges import NUMBERS, ColumnRange, Value, ValueKind, ValueType, order_key
from lakeindex.metadata.indexed_columns import StatsEncoding
from lakeindex.metadata.metadata_table import RecordType

Wrapped: TypeAlias = tuple[str, dict[str, Any]]
"""An end of a range in a record: the wrapper's full name, and its fields."""

FIELD: Final = "ColumnStatsMetadata"

_MODEL: Final = "org.apache.hudi.avro.model."
TEXT_WRAPPER: Final = f"{_MODEL}StringWrapper"
"""Full name of the wrapper of texts."""

_WRAPPERS: Final = {
    ValueType.BOOLEAN: "BooleanWrapper",
    ValueType.INT: "IntWrapper",
    ValueType.LONG: "LongWrapper",
    ValueType.FLOAT: "FloatWrapper",
    ValueType.DOUBLE: "DoubleWrapper",
    ValueType.STRING: "StringWrapper",
    ValueType.BYTES: "BytesWrapper",
    ValueType.FIXED: "BytesWrapper",
    ValueType.DECIMAL: "BytesWrapper",
    ValueType.DATE: "IntWrapper",
    ValueType.TIME_MILLIS: "IntWrapper",
}
"""Of V2; what is not here is a long."""
_WRAPPERS_V1: Final = {ValueType.DATE: "DateWrapper", ValueType.DECIMAL: "DecimalWrapper"}
_RAW_V1: Final = {ValueType.DATE: "IntWrapper", ValueType.DECIMAL: "BytesWrapper"}
"""Of V1, where Hudi 0.15 lost the wrapper: see :func:`in_wrapper_of`."""
_WIDER: Final = ("BooleanWrapper", "IntWrapper", "LongWrapper", "FloatWrapper", "DoubleWrapper")

_COUNTS: Final = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
_SCALE_V1: Final = 15
_STEP_V1: Final = Decimal(1).scaleb(-_SCALE_V1)
_BEHIND_V1: Final = Decimal(10**15)
_EXACT: Final = Context(prec=100)


def column_stats_record(file_name: str, column_range: ColumnRange, encoding: StatsEncoding) -> dict[str, Any]:
    """The record of a column in a file, whose partition only the key names."""
    return _record(RecordType.COLUMN_STATS, file_name, column_range, encoding, tight=False)


def partition_stats_record(
    partition: str, column_range: ColumnRange, encoding: StatsEncoding, *, tight: bool
) -> dict[str, Any]:
    """The record of a column in a partition.

    Args:
        tight: the range is made of all files of the partition and replaces what the table has; otherwise it is made of
            new files and widens it.
    """
    return _record(RecordType.PARTITION_STATS, partition, column_range, encoding, tight=tight)


def column_range_of(record: Mapping[str, Any], kind: ValueKind) -> ColumnRange | None:
    """What a record says of a column in a file: the inverse of :func:`column_stats_record`.

    Args:
        kind: the type of the column in the newest files. V1 does not say the type of a record, and a column may have
            become wider since.

    Returns:
        None if the record does not say enough, or its type cannot be told. NaN, which earlier releases of lakeindex
        wrote as the end of a range that they did not know, comes as infinity.
    """
    stats = record[FIELD]
    if not stats or stats["isDeleted"]:
        return None
    counts = [stats[name] for name in _COUNTS]
    ends = (stats["minValue"], stats["maxValue"])
    found = _kind_of(stats, kind)
    if found is None or any(not isinstance(one, int) for one in counts):
        return None
    if ends[0] is None or ends[1] is None:
        if ends != (None, None) or stats["nullCount"] != stats["valueCount"]:
            return None
        return ColumnRange(stats["columnName"], found, None, None, *counts)
    is_v1 = stats.get("valueType") is None
    least = _unwrapped(ends[0], found, is_v1=is_v1, greatest=False)
    greatest = _unwrapped(ends[1], found, is_v1=is_v1, greatest=True)
    if least is None or greatest is None:
        return None
    return ColumnRange(stats["columnName"], found, least, greatest, *counts)


def merge_column_stats(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """What two records of one key say together, as Hudi's payload merges them.

    A newer record that is tight or deleted, and any record after a deleted one, replaces the older. Else ranges are
    united and counts are added. Ends of types without a common order are left out.
    """
    before, after = older[FIELD], newer[FIELD]
    if after["isDeleted"] or before["isDeleted"] or after.get("isTightBound"):
        return dict(newer)
    sums = {name: _sum(before[name], after[name]) for name in _COUNTS}
    ends = {
        "minValue": _outer(before, after, "minValue", greatest=False),
        "maxValue": _outer(before, after, "maxValue", greatest=True),
    }
    return {**newer, FIELD: {**after, **sums, **ends}}


def holds_range(said: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a range holds another one of the same column; both are statistics of records, with both ends."""
    for end, greatest in (("minValue", False), ("maxValue", True)):
        mine = _as_newer(said[end], said, other, greatest=greatest)
        if mine is None or _outer(said, other, end, greatest=greatest) != mine:
            return False
    return True


def in_wrapper_of(end: Wrapped | None, other: Wrapped | None) -> Wrapped | None:
    """An end in the wrapper of another one, if both stand for the same type; else as it is.

    Hudi 0.15 loses the wrappers of V1 when it reads a record and writes it again, in a compaction for example: a date
    becomes an int (days), a decimal the bytes of its unscaled value. Source: the branch for generic records of
    ``HoodieAvroUtils.unwrapAvroValueWrapper``.
    """
    if end is None or other is None or end[0] == other[0]:
        return end
    kinds, value = (end[0].removeprefix(_MODEL), other[0].removeprefix(_MODEL)), end[1]["value"]
    if set(kinds) == {"DateWrapper", "IntWrapper"}:
        return other[0], {"value": value}
    if kinds == ("BytesWrapper", "DecimalWrapper"):
        return other[0], {"value": Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-_SCALE_V1, _EXACT)}
    return end


def is_nan(end: Wrapped | None) -> bool:
    return end is not None and isinstance(end[1]["value"], float) and math.isnan(end[1]["value"])


def has_form(column_range: ColumnRange, encoding: StatsEncoding) -> bool:
    """Whether a range can be written. Ends of V1's decimals have at most 15 digits before the point."""
    kind, ends = column_range.kind, (column_range.least, column_range.greatest)
    if encoding is not StatsEncoding.V1 or kind.type is not ValueType.DECIMAL or None in ends:
        return True
    return None not in _wrapped_ends(column_range, encoding)


def holds_all(kind: ValueKind, encoding: StatsEncoding) -> bool:
    """Whether every range of a type can be written: ends that are rounded outwards may have a digit more before the
    point.
    """
    is_v1_decimal = encoding is StatsEncoding.V1 and kind.type is ValueType.DECIMAL
    return not is_v1_decimal or kind.precision - kind.scale + (kind.scale > _SCALE_V1) <= _SCALE_V1


def _kind_of(stats: Mapping[str, Any], kind: ValueKind) -> ValueKind | None:
    """The type of a record's values; None if it cannot be told."""
    said = stats.get("valueType")
    if said is not None:
        return _stated_kind(said)
    wrapper = _name_of(stats)
    if wrapper is None:
        return kind
    name = wrapper.removeprefix(_MODEL)
    if name == _wrapper_of(kind.type, StatsEncoding.V1) or name == _RAW_V1.get(kind.type):
        return kind
    if kind.type not in NUMBERS:
        return None
    narrower = (one for one in NUMBERS if one < kind.type)
    return next((ValueKind(one) for one in narrower if _wrapper_of(one, StatsEncoding.V1) == name), None)


def _stated_kind(said: Mapping[str, Any]) -> ValueKind | None:
    try:
        digits = (int(one) for one in (said["additionalInfo"] or "").split(",") if one)
        return ValueKind(ValueType(said["typeOrdinal"]), *digits)
    except (ValueError, TypeError):
        return None


def _unwrapped(end: Wrapped, kind: ValueKind, *, is_v1: bool, greatest: bool) -> Value | None:
    """An end of a range; None if it is none of that type."""
    value: Any = end[1]["value"]
    if is_nan(end):
        return math.inf if greatest else -math.inf
    if kind.type is not ValueType.DECIMAL:
        found: Value = value
        return found
    if isinstance(value, bytes):
        digits = int.from_bytes(value, "big", signed=True)
        if not is_v1:
            return digits
        value = Decimal(digits).scaleb(-_SCALE_V1, _EXACT)
    unscaled = Decimal(value).scaleb(kind.scale, _EXACT)
    return math.ceil(unscaled) if greatest else math.floor(unscaled)


def _wrapper_of(kind: ValueType, encoding: StatsEncoding) -> str:
    name = _WRAPPERS.get(kind, "LongWrapper")
    return _WRAPPERS_V1.get(kind, name) if encoding is StatsEncoding.V1 else name


def _record(kind: RecordType, name: str, found: ColumnRange, encoding: StatsEncoding, *, tight: bool) -> dict[str, Any]:
    least, greatest = _wrapped_ends(found, encoding)
    stats = {
        "fileName": name,
        "columnName": found.column,
        "minValue": least,
        "maxValue": greatest,
        "valueCount": found.value_count,
        "nullCount": found.null_count,
        "totalSize": found.total_size,
        "totalUncompressedSize": found.total_uncompressed_size,
        "isDeleted": False,
        "isTightBound": tight,
        "valueType": None if encoding is StatsEncoding.V1 else _value_type(found.kind),
    }
    return {"type": int(kind), FIELD: stats}


def _value_type(kind: ValueKind) -> dict[str, Any]:
    info = f"{kind.precision},{kind.scale}" if kind.type is ValueType.DECIMAL else None
    return {"typeOrdinal": int(kind.type), "additionalInfo": info}


def _wrapped_ends(found: ColumnRange, encoding: StatsEncoding) -> tuple[Wrapped | None, Wrapped | None]:
    kind = found.kind
    return (
        _wrapped(found.least, kind, encoding, ROUND_FLOOR),
        _wrapped(found.greatest, kind, encoding, ROUND_CEILING),
    )


def _wrapped(value: Value | None, kind: ValueKind, encoding: StatsEncoding, outwards: str) -> Wrapped | None:
    if value is None:
        return None
    name = _wrapper_of(kind.type, encoding)
    stored: Any = value
    if kind.type is ValueType.DECIMAL:
        is_short = encoding is StatsEncoding.V2
        stored = _shortest(int(value)) if is_short else _decimal_v1(int(value), kind.scale, outwards)
    return None if stored is None else (_MODEL + name, {"value": stored})


def _shortest(value: int) -> bytes:
    bits = value.bit_length() if value >= 0 else (value + 1).bit_length()
    return value.to_bytes(bits // 8 + 1, "big", signed=True)


def _decimal_v1(unscaled: int, scale: int, outwards: str) -> Decimal | None:
    """A decimal with the wrapper's scale; None if it does not fit."""
    found = Decimal(unscaled).scaleb(-scale, _EXACT).quantize(_STEP_V1, outwards, _EXACT)
    return found if found.copy_abs() < _BEHIND_V1 else None


def _sum(one: int | None, other: int | None) -> int:
    return (one or 0) + (other or 0)


def _outer(before: Mapping[str, Any], after: Mapping[str, Any], end: str, *, greatest: bool) -> Wrapped | None:
    """The outer one of two ends; the other one where one is null."""
    old, new = before[end], after[end]
    if old is None:
        return new
    promoted = _as_newer(old, before, after, greatest=greatest)
    if promoted is None or new is None:
        return promoted
    now = after.get("valueType")
    return (max if greatest else min)((new, promoted), key=lambda one: order_key(_comparable(one, now)))


def _as_newer(old: Wrapped, before: Mapping[str, Any], after: Mapping[str, Any], *, greatest: bool) -> Wrapped | None:
    """An older end in the newer one's type; None if it has none in it."""
    was, now = before.get("valueType"), after.get("valueType")
    if (was is None) is not (now is None):
        recoded = _recoded(old, before, after, greatest=greatest)
        if recoded is None:
            return None
        old, was = recoded
    elif was is None and (name_now := _name_of(after)) is not None:
        old = in_wrapper_of(old, (name_now, {})) or old
    name = _name_of(after) or old[0]
    if old[0] == name and was == now:
        return old
    old_type, new_type = old[0].removeprefix(_MODEL), name.removeprefix(_MODEL)
    if was and now and was["additionalInfo"] and now["additionalInfo"]:
        shift = _scale(now) - _scale(was)
        unscaled = int.from_bytes(old[1]["value"], "big", signed=True)
        return None if shift < 0 else (name, {"value": _shortest(unscaled * 10**shift)})
    are_numbers = {old_type, new_type} <= set(_WIDER)
    if not are_numbers or _WIDER.index(old_type) > _WIDER.index(new_type):
        return None
    value = old[1]["value"]
    return name, {"value": float(value) if new_type in ("FloatWrapper", "DoubleWrapper") else int(value)}


def _recoded(
    old: Wrapped, before: Mapping[str, Any], after: Mapping[str, Any], *, greatest: bool
) -> tuple[Wrapped, dict[str, Any] | None] | None:
    """An older end in the newer one's encoding, and its ``valueType``: Hudi 1.1 upgrades a table to V2 and leaves the
    records of V1 in it.
    """
    to_v2 = after.get("valueType") is not None
    stated = _stated_kind((after if to_v2 else before)["valueType"])
    kind = None if stated is None else _kind_of(before, stated)
    value = None if kind is None else _unwrapped(old, kind, is_v1=to_v2, greatest=greatest)
    if kind is None or value is None:
        return None
    encoding = StatsEncoding.V2 if to_v2 else StatsEncoding.V1
    found = _wrapped(value, kind, encoding, ROUND_CEILING if greatest else ROUND_FLOOR)
    return None if found is None else (found, _value_type(kind) if to_v2 else None)


def _name_of(stats: Mapping[str, Any]) -> str | None:
    found = stats["minValue"] or stats["maxValue"]
    return found[0] if found else None


def _scale(value_type: Mapping[str, Any]) -> int:
    return int(value_type["additionalInfo"].partition(",")[2])


def _comparable(wrapped: Wrapped, value_type: Mapping[str, Any] | None) -> Any:
    value = wrapped[1]["value"]
    if value_type is not None and value_type["additionalInfo"] and isinstance(value, bytes):
        return int.from_bytes(value, "big", signed=True)
    return value
