"""What is known of the columns of a condition before rows are read: by the path of their partition, by statistics.

Partitions. A path is evidence only where a key is unique in its partition: under a global index an update may leave a
row in its old partition with a new value. A text counts if it is the only one that the key generator makes of the
value.

Statistics: of row groups in footers, of files in ``column_stats``. Ends are brought into the units and the type that
the table has for the column now, as reading would bring the values. Where that is not monotone (numbers that became
texts), or the types have nothing in common, nothing is known. NaN is never counted in. A column that a file lacks is
null in all its rows.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from lakeindex.errors import ObjectNotFoundError, OptionError
from lakeindex.files.footers import ParquetFooter
from lakeindex.format.partitions import DEFAULT_PARTITION, unescape_partition_value
from lakeindex.hashing.java_strings import orders_may_differ
from lakeindex.metadata.column_ranges import ColumnRange, ValueKind, ValueType, chunk_ends, value_kind, widest
from lakeindex.metadata.column_ranges import Value as StoredValue
from lakeindex.metadata.column_stats import FIELD, column_range_of
from lakeindex.metadata.metadata_keys import column_stats_key
from lakeindex.metadata.metadata_table import COLUMN_STATS
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.model import BaseFile
from lakeindex.predicates.bounds import ALL_NULL, UNKNOWN, Bounds, Facts
from lakeindex.predicates.nodes import Path, Value
from lakeindex.predicates.predicate import Predicate
from lakeindex.write.keys.java_text import java_text
from lakeindex.write.keys.key_generators import PARTITION_PATH_PART, KeySpec, PartitionKind
from lakeindex.write.keys.time_partitions import TimePartitioner
from lakeindex.write.types.widening import are_millis_called_micros, widened_array

Ends = tuple[Value, Value]

_DAY_NS: Final = 86_400 * 10**9
_NS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NS_OF_KIND: Final = {
    ValueType.DATE: _DAY_NS,
    ValueType.TIME_MILLIS: 10**6,
    ValueType.TIME_MICROS: 10**3,
    ValueType.TIMESTAMP_MILLIS: 10**6,
    ValueType.TIMESTAMP_MICROS: 10**3,
    ValueType.TIMESTAMP_NANOS: 1,
    ValueType.LOCAL_TIMESTAMP_MILLIS: 10**6,
    ValueType.LOCAL_TIMESTAMP_MICROS: 10**3,
    ValueType.LOCAL_TIMESTAMP_NANOS: 1,
}
_UNITS_OF_V1: Final = {
    unit: units
    for units in (
        (ValueType.TIMESTAMP_MILLIS, ValueType.TIMESTAMP_MICROS),
        (ValueType.LOCAL_TIMESTAMP_MILLIS, ValueType.LOCAL_TIMESTAMP_MICROS),
    )
    for unit in units
}
"""Records of V1 have a time as a long and no unit: it is that of the file, which need not be the one of the table."""
_FLOATS: Final = (ValueType.FLOAT, ValueType.DOUBLE)
_WHOLE: Final = (ValueType.INT, ValueType.LONG)
_BYTES: Final = (ValueType.BYTES, ValueType.FIXED)
_FIRST_SURE_DAY: Final = -141_417
"""1582-10-25, ten days behind the first one of the Gregorian calendar."""
_OF_TIMESTAMPS: Final = {
    ("ms", False): ValueType.TIMESTAMP_MILLIS,
    ("us", False): ValueType.TIMESTAMP_MICROS,
    ("ns", False): ValueType.TIMESTAMP_NANOS,
    ("ms", True): ValueType.LOCAL_TIMESTAMP_MILLIS,
    ("us", True): ValueType.LOCAL_TIMESTAMP_MICROS,
    ("ns", True): ValueType.LOCAL_TIMESTAMP_NANOS,
}
_PLAIN: Final = (
    pa.types.is_string,
    pa.types.is_int32,
    pa.types.is_int64,
    pa.types.is_boolean,
    pa.types.is_date32,
)


def path_facts(path: str, spec: KeySpec, schema: pa.Schema) -> dict[Path, Bounds]:
    """What is known of the partition fields of all rows of a partition."""
    fields = spec.partition_fields
    levels = path.split("/") if len(fields) > 1 or spec.url_encode else [path]
    if len(levels) != len(fields):
        return {}  # a value with a slash in it
    found: dict[Path, Bounds] = {}
    for level, (name, kind) in zip(levels, fields, strict=True):
        if name not in schema.names:
            continue
        text = _text_of(level, name, spec)
        if kind is PartitionKind.TIMESTAMP:
            found.update(_times(text, (name,), spec, schema.field(name).type))
            continue
        value = None if text is None else _value_of(text, schema.field(name).type)
        if value is not None:
            found[(name,)] = Bounds(value, value, may_be_null=False)
    return found


def _times(text: str | None, path: Path, spec: KeySpec, kind: pa.DataType) -> dict[Path, Bounds]:
    """What a time says of the dates, timestamps or whole numbers that it was made of."""
    if text is None or spec.time_options is None or PARTITION_PATH_PART in spec.timestamp_texts:
        return {}
    unit = kind.unit if pa.types.is_timestamp(kind) else None
    if not (pa.types.is_date32(kind) or pa.types.is_integer(kind) or unit in ("ms", "us")):
        return {}
    try:
        known = TimePartitioner(spec.time_options).values_of(text)
    except OptionError:  # a format in which only Hudi writes
        return {}
    return {} if known is None else {path: Bounds(known[0], known[1], may_be_null=known[2])}


def _text_of(level: str, name: str, spec: KeySpec) -> str | None:
    """The value's text; None where it stands for more than one value."""
    if spec.hive_style:
        if not level.startswith(f"{name}="):
            return None
        level = level[len(name) + 1 :]
    text = unescape_partition_value(level) if spec.url_encode else level
    return None if level == DEFAULT_PARTITION or not text else text


def _value_of(text: str, kind: pa.DataType) -> Value | None:
    """The one value of which a key generator makes this text; None if that is not known."""
    if not any(is_plain(kind) for is_plain in _PLAIN):
        return None
    try:
        value = pa.array([text]).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if java_text(value, "value").to_pylist() != [text]:
        return None
    stored: Value = (value.cast(pa.int32()) if pa.types.is_date32(kind) else value)[0].as_py()
    return stored


class FooterStatistics:
    """What one footer says of a condition's columns, by row group.

    ``metadata.schema`` is not asked for: it and the metadata keep each other (:mod:`lakeindex.files.footers`).
    """

    def __init__(self, footer: ParquetFooter, predicate: Predicate) -> None:
        self._metadata = footer.metadata
        self._predicate = predicate
        leaves = {path: place for place, path in enumerate(footer.paths)}
        self._places = {path: leaves.get(".".join(path)) for path in predicate.paths}
        self._fields = {path: _fields_along(footer.arrow_schema, path) for path in predicate.paths}
        self._absent = {
            path
            for path, place in self._places.items()
            if place is None and not any(_is_related(leaf, path) for leaf in leaves)
        }

    def of(self, group: int) -> Facts:
        """What is known of the columns in one row group, each worked out when it is asked for."""
        return _OfGroup(self, group)

    @property
    def paths(self) -> Collection[Path]:
        """The columns of which something may be known."""
        return self._places.keys()

    def bounds(self, group: int, path: Path) -> Bounds:
        """What is known of one column in one row group. Raises: KeyError: it is none of the condition's."""
        place = self._places[path]
        if path in self._absent:
            return ALL_NULL
        fields = self._fields[path]
        if place is None or not fields or pa.types.is_nested(fields[-1].type):  # of a list: one value a row is not all
            return UNKNOWN
        chunk = self._metadata.row_group(group).column(place)
        stats = chunk.statistics
        kind = value_kind(stats) if stats is not None else None
        if kind is None:
            return UNKNOWN
        nulls = (stats.null_count if stats.has_null_count else None) if any(one.nullable for one in fields) else 0
        if nulls is not None and nulls == chunk.num_values:
            return ALL_NULL
        ends = chunk_ends(stats, kind) if stats.has_min_max else None
        found = None if ends is None else converted(ends, kind, self._predicate.type_of(path))
        return _bounds_of(found, nulls)


@dataclass(frozen=True, slots=True, eq=False)
class _OfGroup(Mapping[Path, Bounds]):
    statistics: FooterStatistics
    group: int
    _asked: dict[Path, Bounds] = field(default_factory=dict)

    def __getitem__(self, path: Path) -> Bounds:
        if path not in self._asked:
            self._asked[path] = self.statistics.bounds(self.group, path)
        return self._asked[path]

    def __iter__(self) -> Iterator[Path]:
        return iter(self.statistics.paths)

    def __len__(self) -> int:
        return len(self.statistics.paths)


def stored_facts(view: MetadataView, files: Sequence[BaseFile], predicate: Predicate) -> dict[str, dict[Path, Bounds]]:
    """What ``column_stats`` of the metadata table says of a condition's columns, by the files' paths.

    Args:
        files: base files; of which nothing is said are left out.

    Raises:
        TableCorruptError: the metadata table is damaged.
    """
    if COLUMN_STATS not in view.table.partitions:
        return {}
    kinds = {path: kind for path in predicate.paths if (kind := kind_of(predicate.type_of(path))) is not None}
    asked = {
        column_stats_key(".".join(path), file.partition_path, file.name): (file, path)
        for file in files
        for path in kinds
    }
    try:
        records = view.lookup(COLUMN_STATS, asked) if asked else {}
    except ObjectNotFoundError:
        return {}  # compacted or taken away meanwhile: nothing is said
    found: dict[str, dict[Path, Bounds]] = {}
    for key, record in records.items():
        file, path = asked[key]
        stats = record[FIELD]
        if not stats or stats["fileName"] != file.name or stats["columnName"] != ".".join(path):
            continue
        known = column_range_of(record, kinds[path])
        if known is not None:
            wanted, is_v1 = predicate.type_of(path), stats.get("valueType") is None
            if is_v1 and known.kind.type is ValueType.DATE and int(known.least or 0) < _FIRST_SURE_DAY:
                continue  # Hudi has brought dates into V1 by way of texts of the Julian calendar
            units = _UNITS_OF_V1.get(known.kind.type, ()) if is_v1 else ()
            several = [
                _of_range(replace(known, kind=ValueKind(unit)), wanted) for unit in units if _may_be(known, unit)
            ]
            found.setdefault(file.path, {})[path] = _united(several) if several else _of_range(known, wanted)
    return found


def _may_be(known: ColumnRange, unit: ValueType) -> bool:
    """Whether both ends are times of the years 1 to 9999 in a unit."""
    first, last = widest(ValueKind(unit))
    ends = (known.least, known.greatest)
    return all(isinstance(end, int) and int(first) <= end <= int(last) for end in ends)


def _united(several: Sequence[Bounds]) -> Bounds:
    """What is known if one of these is so."""
    least, greatest = [one.least for one in several], [one.greatest for one in several]
    known = None not in (*least, *greatest)  # then they are times of one column's type
    nulls = any(one.may_be_null for one in several)
    return Bounds(min(least) if known else None, max(greatest) if known else None, may_be_null=nulls)  # type: ignore[type-var]


def kind_of(kind: pa.DataType) -> ValueKind | None:
    """The type that statistics of a column have; None if it has none."""
    types = pa.types
    if types.is_decimal(kind):
        return ValueKind(ValueType.DECIMAL, kind.precision, kind.scale)
    if types.is_timestamp(kind):
        found = _OF_TIMESTAMPS.get((kind.unit, kind.tz is None))
        return None if found is None else ValueKind(found)
    simple = {
        types.is_boolean: ValueType.BOOLEAN,
        types.is_int32: ValueType.INT,
        types.is_int64: ValueType.LONG,
        types.is_float32: ValueType.FLOAT,
        types.is_float64: ValueType.DOUBLE,
        types.is_string: ValueType.STRING,
        types.is_binary: ValueType.BYTES,
        types.is_fixed_size_binary: ValueType.FIXED,
        types.is_date32: ValueType.DATE,
    }
    return next((ValueKind(value) for test, value in simple.items() if test(kind)), None)


def converted(ends: tuple[StoredValue, StoredValue], kind: ValueKind, wanted: pa.DataType) -> Ends | None:
    """Ends of a range as those of the table's column; None if they say nothing of it.

    Args:
        ends: least and greatest value as they are stored.
        kind: the type in the file.
        wanted: the column's type in the table.
    """
    types, least, greatest = pa.types, ends[0], ends[1]
    if types.is_floating(wanted):
        return _as_floats(ends, kind, wanted)
    if kind.type in _WHOLE and types.is_integer(wanted):
        return ends
    if kind.type is ValueType.DECIMAL and types.is_decimal(wanted):
        shift = wanted.scale - kind.scale
        return None if shift < 0 else (int(least) * 10**shift, int(greatest) * 10**shift)
    if kind.type is ValueType.STRING and (types.is_string(wanted) or types.is_large_string(wanted)):
        return ends if isinstance(least, str) and isinstance(greatest, str) else None
    if kind.type in _BYTES and family_is_bytes(wanted):
        return ends if isinstance(least, bytes) and isinstance(greatest, bytes) else None
    if kind.type is ValueType.BOOLEAN and types.is_boolean(wanted):
        return ends
    return _as_times(ends, kind, wanted)


def family_is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _as_floats(ends: tuple[StoredValue, StoredValue], kind: ValueKind, wanted: pa.DataType) -> Ends | None:
    if kind.type in _WHOLE:
        number = np.dtype(wanted.to_pandas_dtype()).type
        return float(number(ends[0])), float(number(ends[1]))
    if kind.type not in _FLOATS or any(isinstance(end, float) and math.isnan(end) for end in ends):
        return None
    if kind.type is ValueType.FLOAT and pa.types.is_float64(wanted):
        least, greatest = widened_array(pa.array(ends, pa.float32()), wanted).to_pylist()
        return least, greatest
    return (ends[0], ends[1]) if kind.type is ValueType.FLOAT or pa.types.is_float64(wanted) else None


def _as_times(ends: tuple[StoredValue, StoredValue], kind: ValueKind, wanted: pa.DataType) -> Ends | None:
    types, unit = pa.types, _NS_OF_KIND.get(kind.type)
    if unit is None or not all(isinstance(end, int) for end in ends):
        return None
    is_same = (
        types.is_date(wanted)
        if kind.type is ValueType.DATE
        else (types.is_time(wanted) if kind.type < ValueType.TIMESTAMP_MILLIS else types.is_timestamp(wanted))
    )
    if not is_same:
        return None
    if kind.type is ValueType.TIMESTAMP_MICROS and are_millis_called_micros(pa.timestamp("us", "UTC"), wanted):
        unit = _NS["ms"]
    target = _DAY_NS if types.is_date(wanted) else _NS[wanted.unit]
    return math.floor(Fraction(int(ends[0]) * unit, target)), math.ceil(Fraction(int(ends[1]) * unit, target))


def _of_range(known: ColumnRange, wanted: pa.DataType) -> Bounds:
    if known.least is None or known.greatest is None or _may_be_unknown(known):
        return UNKNOWN
    return _bounds_of(converted((known.least, known.greatest), known.kind, wanted), known.null_count)


def _may_be_unknown(known: ColumnRange) -> bool:
    """Whether Hudi may have written a range that does not hold the bounds of a row group, or though one has none.

    It takes the values of such a group for nulls and its bounds for nothing, or for zero (false) where they are no
    texts or bytes, and unites them with those of the other groups. Of all types but texts and bytes, whose bounds are
    left out where they are long, and floats, by NaN, the groups of a file are alike. A record does not say whose it is.

    Bounds of groups are united in Java's order: texts by UTF-16 units, and bytes as signed numbers, by which those of
    any group may be the outer ones, whatever they look like.
    """
    if known.kind.type in _FLOATS:
        return float(known.least or 0) <= 0 <= float(known.greatest or 0)
    if known.kind.type is ValueType.STRING:
        ends = (known.least, known.greatest)
        return known.null_count != 0 or any(orders_may_differ(str(end)) for end in ends)
    if known.kind.type in _BYTES:
        return True
    return known.null_count == known.value_count or (not known.least and not known.greatest)


def _bounds_of(ends: Ends | None, nulls: int | None) -> Bounds:
    least, greatest = ends if ends is not None else (None, None)
    return Bounds(least, greatest, may_be_null=nulls != 0)


def _fields_along(schema: pa.Schema, path: Path) -> tuple[pa.Field, ...]:
    """The column of a path and its fields down to the path's end; nothing if the path leads through no structs."""
    found: list[pa.Field] = []
    for name in path:
        at = found[-1].type if found else schema
        if found and not pa.types.is_struct(at):
            return ()
        place = at.get_field_index(name)
        if place < 0:
            return ()
        found.append(at.field(place))
    return tuple(found)


def _is_related(leaf: str, path: Path) -> bool:
    """Whether a leaf of the file lies below a column, or the column below the leaf."""
    name = ".".join(path)
    return leaf == name or leaf.startswith(f"{name}.") or name.startswith(f"{leaf}.")
