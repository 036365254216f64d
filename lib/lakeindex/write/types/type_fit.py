"""Which types of a batch go into which types of a table: only where every value stays what it is.

A wider number, a finer time, a decoded dictionary and another layout of the same text or bytes keep the value. What a
safe cast of Arrow's does not notice is found here: rounding to a narrower float, between floats and decimals, a time
zone that is put on or taken off, map keys made text, fields of a struct left out or filled with null.

A type that a table cannot have becomes one that it can have:

=========================================  ==============================================================
of the batch                               in a table
=========================================  ==============================================================
halffloat                                  float, which holds all of its values
uint64                                     int64; numbers below 2^63 only
fixed_size_binary                          binary; the table does not keep the length
string_view, binary_view                   string, binary
date64                                     date32; whole days only
timestamp                                  of microseconds; whole ones only
duration                                   int64, the microseconds; whole ones only
fixed_size_list, list_view                 list; the table does not keep the length
dictionary, run_end_encoded                the type of its values
Arrow's own extension types                the type of their storage; of ``arrow.bool8`` boolean
=========================================  ==============================================================

Inside lists, structs and maps it is the same. Arrow's own cast is not used for all of them: it takes elements out of
a ``list_view`` wrongly (pyarrow 26), makes an ``int64`` of a duration in whatever unit it has, and knows no cast of
dictionaries inside of lists.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import first_line
from lakeindex.write.single_columns import demands_values

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_NUMBER = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_LIST = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_HEXADECIMAL = r"^\s*[+-]?0[xX]"
_FAMILIES = (("text", _TEXT), ("bytes", _BYTES), ("number", _NUMBER), ("list", _LIST))


def is_text(kind: pa.DataType) -> bool:
    """Whether values are strings, dictionaries of them included."""
    return _family(plain_type(kind)) == "text"


def plain_type(kind: pa.DataType) -> pa.DataType:
    """A dictionary's value type; any other type as it is."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def type_problem(source: pa.DataType, target: pa.DataType, *, inside: bool = False) -> str | None:
    """Why values of a type cannot become those of another; None if a safe cast may be tried.

    Args:
        inside: whether this is a part of a list, struct or map, whose values :func:`value_problem` does not look at.
    """
    source = plain_type(source)
    if source == target or pa.types.is_null(source):
        return None
    family = _family(source)
    if family != _family(target):
        return "the types differ"
    if pa.types.is_timestamp(source) and (source.tz is None) != (target.tz is None):
        return "one has a time zone, the other has none"
    if family == "list":
        return _inner("elements", source.value_type, target.value_type)
    if pa.types.is_map(source):
        keys = _inner("map keys", source.key_type, target.key_type)
        return keys or _inner("map values", source.item_type, target.item_type)
    if pa.types.is_struct(source):
        return _struct_problem(source, target)
    if pa.types.is_floating(source) and pa.types.is_integer(target):
        return "the types differ"
    return "values could be rounded" if inside and _may_round(source, target) else None


def value_problem(before: pa.ChunkedArray, after: pa.ChunkedArray) -> str | None:
    """The first value that a cast changed; None if all are what they were.
    Columns of lists, structs and maps are not looked at.
    """
    if not _may_round(before.type, after.type):
        return None
    from lakeindex.predicates.values import as_float  # not for who only looks at a table

    floating = pa.types.is_floating(before.type)
    try:
        back = as_float(after, after.type, before.type) if floating else after.cast(before.type, safe=False)
    except pa.ArrowInvalid as error:
        return first_line(error)
    same = pc.fill_null(pc.equal(before, back), fill_value=True)
    if floating:
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(before), pc.is_nan(back)), fill_value=False))
    row = pc.index(same, pa.scalar(value=False)).as_py()
    return None if row < 0 else f"{before[row].as_py()} would become {after[row].as_py()}"


def python_problem(value: Any, kind: pa.DataType) -> str | None:
    """What Arrow leaves out, and does not say so, when it makes a value of a type of one of Python's; None if nothing.

    It cuts 1.5 to 1, a time of day off a date and a time zone off a time, and leaves fields out that a struct has not.
    """
    types = pa.types
    parts: list[tuple[Any, pa.DataType]] = []
    if value is None or isinstance(value, pa.Scalar) or (types.is_nested(kind) and not isinstance(value, Iterable)):
        return None  # a null, which pandas has several of
    if types.is_struct(kind):
        for name, one in _pairs(value):
            place = kind.get_field_index(name)
            if place < 0:
                return f"it has no field {name!r}"
            parts.append((one, kind.field(place).type))
    elif types.is_map(kind):
        parts = [part for key, one in _pairs(value) for part in ((key, kind.key_type), (one, kind.item_type))]
    elif any(is_list(kind) for is_list in _LIST):
        parts = [(one, kind.value_type) for one in value]
    elif isinstance(value, dt.datetime):
        return _problem_of_time(value, kind)
    elif types.is_integer(kind) and isinstance(value, (Real, Decimal)) and value != math.trunc(value):
        return f"it would become {math.trunc(value)}"
    elif types.is_float32(kind) and isinstance(value, Real) and not math.isinf(value):
        stored = pa.scalar(float(value), kind).as_py()
        return f"it would become {stored}" if math.isinf(stored) else None
    return next((problem for part in parts if (problem := python_problem(*part)) is not None), None)


def from_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Texts as values of a type, as Arrow reads them, but for hexadecimal digits, whose ``0xFFFFFFFFFFFFFFFF`` is -1.

    Raises:
        ArrowInvalid, ArrowNotImplementedError: a text is no value of the type, or the type has no texts.
    """
    if pa.types.is_integer(kind) and pc.any(pc.match_substring_regex(texts, _HEXADECIMAL)).as_py():
        raise pa.ArrowInvalid("a whole number has decimal digits")
    return texts.cast(kind)


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, Mapping) else value


def _problem_of_time(value: dt.datetime, kind: pa.DataType) -> str | None:
    if value != value:  # noqa: PLR0124 - a null of pandas is no time
        return None
    if pa.types.is_date(kind):
        return "a date has no time of day"
    if pa.types.is_timestamp(kind) and (value.tzinfo is None) != (kind.tz is None):
        return "one has a time zone, the other has none"
    return None


def null_problem(column: pa.ChunkedArray, kind: pa.DataType) -> str | None:
    """Which part of a list, map or struct is null though a type, but for nulls that of the column, has none there;
    None if all is well.
    """
    if not demands_values(kind):
        return None
    return next((problem for chunk in column.chunks if (problem := _null_inside(chunk, kind)) is not None), None)


def with_nulls(kind: pa.DataType) -> pa.DataType:
    """The type whose parts, map keys apart, may all be null."""
    if not demands_values(kind):
        return kind
    if pa.types.is_struct(kind):
        return pa.struct([_with_null(field) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, _with_null(kind.item_field))
    return (pa.large_list if pa.types.is_large_list(kind) else pa.list_)(_with_null(kind.value_field))


def _with_null(field: pa.Field) -> pa.Field:
    return field.with_type(with_nulls(field.type)).with_nullable(True)


def _null_inside(array: pa.Array, kind: pa.DataType) -> str | None:
    if pa.types.is_map(kind):
        entries = pa.concat_arrays([array.drop_null()])  # a null may hide entries; offsets that begin at 0
        parts = [("a map's value", kind.item_field, entries.items.slice(0, entries.offsets[-1].as_py()))]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        parts = [("a list's element", kind.value_field, array.flatten())]
    elif pa.types.is_struct(kind):
        there = array.drop_null()
        parts = [(f"field {field.name!r}", field, there.field(place)) for place, field in enumerate(kind)]
    else:
        return None
    for what, field, inner in parts:
        if not field.nullable and inner.null_count:
            return f"{what} is null, the table has none there"
        problem = _null_inside(inner, field.type)
        if problem is not None:
            return problem
    return None


def _inner(what: str, source: pa.DataType, target: pa.DataType) -> str | None:
    problem = type_problem(source, target, inside=True)
    return None if problem is None else f"{what} are {source} and {target}: {problem}"


def _struct_problem(source: pa.StructType, target: pa.StructType) -> str | None:
    names = [field.name for field in source]
    if len(set(names)) < len(names):
        return "a field is there twice"
    for name in names:
        if target.get_field_index(name) < 0:
            return f"the table has no field {name!r} in it"
    for field in target:
        if field.name not in names:
            return f"it lacks the field {field.name!r}"
        problem = type_problem(source.field(field.name).type, field.type, inside=True)
        if problem is not None:
            return f"field {field.name!r} is {source.field(field.name).type} and {field.type}: {problem}"
    return None


def _may_round(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast between two numbers may round and say nothing."""
    source = plain_type(source)
    floats = (pa.types.is_floating(source), pa.types.is_floating(target))
    if all(floats):
        return bool(source.bit_width > target.bit_width)
    return any(floats) and (pa.types.is_decimal(source) or pa.types.is_decimal(target))


def _family(kind: pa.DataType) -> str:
    for family, tests in _FAMILIES:
        if any(test(kind) for test in tests):
            return family
    return str(kind.id)


def storable_schema(schema: pa.Schema) -> pa.Schema:
    """Columns of a batch in the types that a table can have for them; others are left as they are."""
    return pa.schema([field.with_type(storable_type(field.type)) for field in schema])


def storable_type(kind: pa.DataType) -> pa.DataType:
    """The type that stands for another in a table; the type itself, if it is one of a table's, or of nobody's."""
    return _mapped(kind, _stored)


def decoded_type(kind: pa.DataType) -> pa.DataType:
    """The type without encodings: neither dictionaries, runs nor extensions, in whatever depth."""
    return _mapped(kind, lambda leaf: leaf)


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    """Columns without dictionaries; a column that has none, in whatever depth, stays as it is, views and runs too: by
    its bytes an entry of an older release knows the batch.
    """
    return pa.schema(
        [field.with_type(decoded_type(field.type)) if "dictionary<" in str(field.type) else field for field in schema]
    )


def decoded_table(rows: pa.Table) -> pa.Table:
    """The same values without dictionaries, which an Arrow file cannot change from one batch to the next."""
    schema = decoded_schema(rows.schema)
    columns = [_converted(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.table(columns, schema=schema)


def _mapped(kind: pa.DataType, leaf: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type whose encodings are gone and whose leaves are those of a function."""
    if _is_arrows_extension(kind):
        return pa.bool_() if _is_bool8(kind) else _mapped(kind.storage_type, leaf)
    if pa.types.is_run_end_encoded(kind) or pa.types.is_dictionary(kind):
        return _mapped(kind.value_type, leaf)
    if pa.types.is_struct(kind):
        fields = [field.with_type(_mapped(field.type, leaf)) for field in kind]
        return kind if fields == list(kind) else pa.struct(fields)
    if pa.types.is_map(kind):
        item, key = _mapped(kind.item_type, leaf), _mapped(kind.key_type, leaf)
        same = (item, key) == (kind.item_type, kind.key_type)
        return kind if same else pa.map_(kind.key_field.with_type(key), kind.item_field.with_type(item))
    is_plain = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if is_plain or any(is_list(kind) for is_list in _OTHER_LISTS):
        value = kind.value_field.with_type(_mapped(kind.value_type, leaf))
        return kind if is_plain and value.type == kind.value_type else pa.list_(value)
    return next((wide for is_view, wide in _VIEWS if is_view(kind)), None) or leaf(kind)


def _stored(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return next((stored for is_one_of_them, stored in _PLAIN if is_one_of_them(kind)), kind)


def _is_arrows_extension(kind: pa.DataType) -> bool:
    """Whether it is an extension type whose storage says what its values are; of others nobody knows."""
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name.startswith("arrow.")


def _is_bool8(kind: pa.DataType) -> bool:
    return bool(kind.extension_name == "arrow.bool8")


def storable_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in the type that stands for its own.

    Raises:
        ArrowInvalid: a value is lost: a number that is too large, a time within a day, or a part of a microsecond.
    """
    return _converted(column, storable_type(column.type))


def _converted(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if kind == column.type:
        return column
    return pa.chunked_array([_storable(chunk, kind) for chunk in column.chunks], kind)


def _storable(array: pa.Array, kind: pa.DataType) -> pa.Array:
    source = array.type
    if source == kind:
        return array
    if _is_arrows_extension(source):
        return pc.not_equal(array.storage, 0) if _is_bool8(source) else _storable(array.storage, kind)
    if pa.types.is_run_end_encoded(source):
        rows = np.arange(array.offset, array.offset + len(array))
        return _storable(array.values, kind).take(pa.array(np.searchsorted(array.run_ends.to_numpy(), rows, "right")))
    if pa.types.is_dictionary(source):
        return _storable(array.dictionary, kind).take(array.indices)
    if pa.types.is_duration(source):
        return array.cast(pa.duration("us")).cast(pa.int64())
    if pa.types.is_nested(source):
        return _storable_parts(array, kind)
    return array.cast(kind)


def _storable_parts(array: pa.Array, kind: pa.DataType) -> pa.Array:
    nulls = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        children = [_storable(array.field(n), kind.field(n).type) for n in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=nulls)
    if pa.types.is_map(kind):
        places = array.offsets.to_numpy(zero_copy_only=False)
        first, count = int(places[0]), int(places[-1] - places[0])
        keys = _storable(array.keys.slice(first, count), kind.key_type)
        items = _storable(array.items.slice(first, count), kind.item_type)
        return pa.MapArray.from_arrays(pa.array(places - places[0]), keys, items, type=kind, mask=nulls)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values, is_large = _storable(array.flatten(), kind.value_type), pa.types.is_large_list(kind)
    maker, width = (pa.LargeListArray, np.int64) if is_large else (pa.ListArray, np.int32)
    return maker.from_arrays(pa.array(offsets.astype(width)), values, type=kind, mask=nulls)


_PLAIN = (
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_uint64, pa.int64()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_duration, pa.int64()),
)
_VIEWS = ((pa.types.is_string_view, pa.large_string()), (pa.types.is_binary_view, pa.large_binary()))
"""Arrow takes no values out of them. Views of one array may have more than 2 GiB together."""
_OTHER_LISTS = (pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)
