"""What a Parquet footer says of its columns: least and greatest value, counts, sizes.

Row groups are taken together. Values are those of the type as it is stored, of decimals the unscaled integer. Rules, as
far as they differ from taking the statistics as they are:

* A chunk without ends, or without a count of nulls, need not be empty. Readers skip a file if a comparison with an end
  is not true, and with a null it never is. So where ends are not known, and not all values are null, the widest range
  of the type stands for them; of texts and bytes, which have no greatest value, one that ends behind those that occur.
* NaN: parquet-java leaves the ends out where one is, and the widest range of floats ends in the infinities. NaN, which
  Java and Spark order last, must be no end: Hudi's readers hold the ends of all files in a cache of Spark's, which
  looks at the greatest end alone and there takes NaN for less than any number: they lose all rows. What is left to
  them is wrong for conditions that only NaN can meet (``d = double('NaN')``), as it is with any range.
  parquet-cpp writes the ends of the other values, from which nobody can tell that there is a NaN.
* Zero: a least 0.0 is taken as -0.0 and a greatest -0.0 as 0.0, as parquet-java does, since other writers mix them up.
* A writer may have cut long texts off. What is left is still a bound: a least text that was cut is less, a greatest
  text was made greater. Where it is not UTF-8 any more, the range is the widest.

Source: ``ParquetUtils.readColumnStatsFromMetadata``, ``ParquetAdapter`` and ``ValueType`` of Hudi 1.2; parquet.thrift,
``Statistics`` and ``LogicalType``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Any, Final, TypeAlias

import pyarrow.parquet as pq
from msgspec.structs import replace

from lakeindex.frozen import Frozen

Value: TypeAlias = bool | int | float | str | bytes
"""An end of a range."""


class ValueType(IntEnum):
    """Type of a column's values; Hudi's ordinals."""

    BOOLEAN = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BYTES = 8
    FIXED = 9
    DECIMAL = 10
    DATE = 12
    TIME_MILLIS = 13
    TIME_MICROS = 14
    TIMESTAMP_MILLIS = 15
    TIMESTAMP_MICROS = 16
    TIMESTAMP_NANOS = 17
    LOCAL_TIMESTAMP_MILLIS = 18
    LOCAL_TIMESTAMP_MICROS = 19
    LOCAL_TIMESTAMP_NANOS = 20


class ValueKind(Frozen):
    """Type of a column's values, with the facts of a decimal.

    Attributes:
        precision: digits of a decimal; else 0.
        scale: digits of a decimal behind the point; else 0.
    """

    type: ValueType
    precision: int = 0
    scale: int = 0


class ColumnRange(Frozen):
    """What is known of a column in a file, or in several.

    Attributes:
        column: its name; of a leaf the path to it, in Hudi's form.
        kind: type of its values.
        least: no value is less; None if all are null.
        greatest: no value is greater; None likewise. Where bounds are unknown they are the widest of the type: without
            bounds, or without a record, readers would skip the rows.
        value_count: how many values, nulls included.
        null_count: how many nulls. If that is unknown, counts are such that some values are null and some are not.
        total_size: bytes in the file.
    """

    column: str
    kind: ValueKind
    least: Value | None
    greatest: Value | None
    value_count: int
    null_count: int
    total_size: int
    total_uncompressed_size: int


NUMBERS: Final = (ValueType.INT, ValueType.LONG, ValueType.FLOAT, ValueType.DOUBLE)
"""Types of which each but the first is wider than those before it."""

_BY_PHYSICAL: Final = {
    "BOOLEAN": ValueType.BOOLEAN,
    "INT32": ValueType.INT,
    "INT64": ValueType.LONG,
    "INT96": ValueType.TIMESTAMP_MICROS,
    "FLOAT": ValueType.FLOAT,
    "DOUBLE": ValueType.DOUBLE,
    "BYTE_ARRAY": ValueType.BYTES,
    "FIXED_LEN_BYTE_ARRAY": ValueType.FIXED,
}
_UNITS: Final = {"milliseconds": 0, "microseconds": 1, "nanoseconds": 2}
_DAYS: Final = (-719_162, 2_932_896)  # years 1 to 9999, which is what Spark's dates and timestamps are
_DAY_SECONDS: Final = 86_400
_LONG: Final = (-(2**63), 2**63 - 1)
_PER_SECOND: Final = {
    ValueType.TIMESTAMP_MILLIS: 10**3,
    ValueType.LOCAL_TIMESTAMP_MILLIS: 10**3,
    ValueType.TIMESTAMP_MICROS: 10**6,
    ValueType.LOCAL_TIMESTAMP_MICROS: 10**6,
}
_LAST_TEXT: Final = "\U0010ffff" * 64
"""Behind every text, by its bytes. Unicode keeps this code point out of texts, for uses like this one."""
_LAST_BYTES: Final = b"\xff" * 256
_WIDEST: Final[dict[ValueType, tuple[Value, Value]]] = {
    ValueType.BOOLEAN: (False, True),
    ValueType.INT: (-(2**31), 2**31 - 1),
    ValueType.LONG: _LONG,
    ValueType.FLOAT: (-math.inf, math.inf),
    ValueType.DOUBLE: (-math.inf, math.inf),
    ValueType.STRING: ("", _LAST_TEXT),
    ValueType.BYTES: (b"", _LAST_BYTES),
    ValueType.FIXED: (b"", _LAST_BYTES),
    ValueType.DATE: _DAYS,
    ValueType.TIME_MILLIS: (0, _DAY_SECONDS * 10**3 - 1),
    ValueType.TIME_MICROS: (0, _DAY_SECONDS * 10**6 - 1),
    ValueType.TIMESTAMP_NANOS: _LONG,
    ValueType.LOCAL_TIMESTAMP_NANOS: _LONG,
}


def column_ranges(footer: pq.FileMetaData, columns: Collection[str]) -> tuple[ColumnRange, ...]:
    """What a file's footer says of its columns; nothing of columns that it has not, or of types without an order.

    Args:
        columns: names of columns, in Hudi's form.
    """
    wanted, found = frozenset(columns), []
    for place in range(footer.num_columns):
        schema = footer.schema.column(place)
        name = _hudis_name(schema.path)
        kind = value_kind(schema) if name in wanted else None
        if kind is not None and footer.num_row_groups:
            groups = (footer.row_group(group).column(place) for group in range(footer.num_row_groups))
            found.append(merged_range(_chunk_range(chunk, name, kind, schema) for chunk in groups))
    return tuple(found)


def column_kinds(footer: pq.FileMetaData, columns: Collection[str]) -> dict[str, ValueKind]:
    """The types of a file's columns, whether it has rows or not; without columns of types that have no order."""
    wanted, found = frozenset(columns), {}
    for place in range(footer.num_columns):
        schema = footer.schema.column(place)
        name = _hudis_name(schema.path)
        kind = value_kind(schema) if name in wanted else None
        if kind is not None:
            found[name] = kind
    return found


def merged(ranges: Iterable[ColumnRange]) -> tuple[ColumnRange, ...]:
    """What is known of each column in all files of a partition, in the order in which the columns come first."""
    by_column: dict[str, list[ColumnRange]] = {}
    for one in ranges:
        by_column.setdefault(one.column, []).append(one)
    return tuple(merged_range(several) for several in by_column.values())


def merged_range(ranges: Iterable[ColumnRange]) -> ColumnRange:
    """What is known of one column in all of several files, at least one.

    Where the type changed from file to file, numbers get the widest type. No other change has an order in common: the
    range is then the widest of the newest type.
    """
    several = tuple(ranges)
    kind = _common_kind([one.kind for one in several])
    parts = several if kind is None else [_as_kind(one, kind) for one in several]
    ends = [one for part in parts for one in (part.least, part.greatest) if one is not None]
    if kind is None and ends:
        ends = list(widest(several[-1].kind))
    return ColumnRange(
        column=several[0].column,
        kind=kind or several[-1].kind,
        least=min(ends, key=order_key) if ends else None,
        greatest=max(ends, key=order_key) if ends else None,
        value_count=sum(one.value_count for one in several),
        null_count=sum(one.null_count for one in several),
        total_size=sum(one.total_size for one in several),
        total_uncompressed_size=sum(one.total_uncompressed_size for one in several),
    )


def order_key(value: Value) -> Any:
    """By which values of one type are ordered as Spark and Java order them: NaN is last, -0.0 before 0.0."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1.0, value))
    return value


def _common_kind(kinds: list[ValueKind]) -> ValueKind | None:
    if all(one == kinds[0] for one in kinds):
        return kinds[0]
    if all(one.type in NUMBERS for one in kinds):
        widest = max(one.type for one in kinds)
        is_mixed = widest is ValueType.FLOAT and any(one.type < ValueType.FLOAT for one in kinds)
        return ValueKind(ValueType.DOUBLE if is_mixed else widest)  # a float does not hold every int
    if all(one.type is ValueType.DECIMAL for one in kinds):
        scale = max(one.scale for one in kinds)
        return ValueKind(ValueType.DECIMAL, scale + max(one.precision - one.scale for one in kinds), scale)
    return None


def _as_kind(one: ColumnRange, kind: ValueKind) -> ColumnRange:
    if one.kind == kind:
        return one
    if one.least is None or one.greatest is None:
        return replace(one, kind=kind)
    if kind.type is ValueType.DECIMAL:
        factor = 10 ** (kind.scale - one.kind.scale)
        return replace(one, kind=kind, least=int(one.least) * factor, greatest=int(one.greatest) * factor)
    if kind.type is ValueType.DOUBLE:
        return replace(one, kind=kind, least=_double(one.least, up=False), greatest=_double(one.greatest, up=True))
    return replace(one, kind=kind)


def _double(value: Value, *, up: bool) -> float:
    """The nearest double that is not on the wrong side of an end."""
    near = float(value)
    exact = isinstance(value, float) or int(near) == value
    beyond = not exact and (int(near) < int(value) if up else int(near) > int(value))
    return math.nextafter(near, math.inf if up else -math.inf) if beyond else near


def _chunk_range(chunk: pq.ColumnChunkMetaData, name: str, kind: ValueKind, schema: pq.ColumnSchema) -> ColumnRange:
    count, stats = chunk.num_values, chunk.statistics
    nulls = stats.null_count if stats is not None and stats.has_null_count else None
    if nulls is None and schema.max_definition_level == 0:
        nulls = 0
    ends = chunk_ends(stats, kind) if stats is not None and stats.has_min_max else None
    if ends is None and nulls != count:
        ends = widest(kind)
    return ColumnRange(
        column=name,
        kind=kind,
        least=ends[0] if ends else None,
        greatest=ends[1] if ends else None,
        value_count=max(count, 2) if nulls is None else count,
        null_count=1 if nulls is None else nulls,
        total_size=chunk.total_compressed_size,
        total_uncompressed_size=chunk.total_uncompressed_size,
    )


def chunk_ends(stats: pq.Statistics, kind: ValueKind) -> tuple[Value, Value] | None:
    """The ends that a chunk's statistics say; None if they cannot be taken."""
    least, greatest = stats.min_raw, stats.max_raw
    if isinstance(least, float) and isinstance(greatest, float):
        if math.isnan(least) or math.isnan(greatest):
            return None
        return (-0.0 if least == 0 else least), (0.0 if greatest == 0 else greatest)
    if isinstance(least, bytes) and isinstance(greatest, bytes):
        if kind.type is ValueType.DECIMAL:
            return int.from_bytes(least, "big", signed=True), int.from_bytes(greatest, "big", signed=True)
        if kind.type is ValueType.STRING:
            try:
                return least.decode(), greatest.decode()
            except UnicodeDecodeError:
                return None
    return least, greatest


def widest(kind: ValueKind) -> tuple[Value, Value]:
    """A range that holds every value of a type."""
    if kind.type is ValueType.DECIMAL:
        most = 10**kind.precision - 1
        return -most, most
    seconds = _PER_SECOND.get(kind.type)
    if seconds is not None:
        first, last = _DAYS
        return first * _DAY_SECONDS * seconds, (last + 1) * _DAY_SECONDS * seconds - 1
    return _WIDEST[kind.type]


def value_kind(leaf: pq.ColumnSchema | pq.Statistics) -> ValueKind | None:
    """Type of a leaf column; None where Hudi has no type for it.

    Args:
        leaf: the column's schema, or the statistics of one of its chunks.
    """
    logical: dict[str, Any] = json.loads(leaf.logical_type.to_json())
    name = logical["Type"]
    if name == "None":
        return ValueKind(_BY_PHYSICAL[leaf.physical_type])
    if name == "String":
        return ValueKind(ValueType.STRING)
    if name == "Date":
        return ValueKind(ValueType.DATE)
    if name == "Decimal":
        return ValueKind(ValueType.DECIMAL, logical["precision"], logical["scale"])
    if name == "Int" and logical["isSigned"]:
        return ValueKind(_BY_PHYSICAL[leaf.physical_type])
    if name == "Timestamp":
        first = ValueType.TIMESTAMP_MILLIS if logical["isAdjustedToUTC"] else ValueType.LOCAL_TIMESTAMP_MILLIS
        return ValueKind(ValueType(first + _UNITS[logical["timeUnit"]]))
    if name == "Time" and logical["timeUnit"] != "nanoseconds":
        return ValueKind(ValueType(ValueType.TIME_MILLIS + _UNITS[logical["timeUnit"]]))
    return None


def _hudis_name(path: str) -> str:
    """Path of a leaf column; what Avro's older form of a list calls ``array`` is ``list.element``."""
    first, *rest = path.split(".")
    return ".".join([first, *("list.element" if one == "array" else one for one in rest)])
