"""Which types of a batch go into which types of a table: only where every value stays what it is.

A wider number, a finer time, a decoded dictionary and another layout of the same text or bytes keep the value. What a
safe cast of Arrow's does not notice is found here: rounding to a narrower float, between floats and decimals, a time
zone that is put on or taken off, map keys made text, fields of a struct left out or filled with null.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import first_line
from lakeindex.write.columns import demands_values

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
_NUMBER = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_LIST = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
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
        source: the batch's.
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
    try:
        back = after.cast(before.type, safe=False)
    except pa.ArrowInvalid as error:
        return first_line(error)
    same = pc.fill_null(pc.equal(before, back), fill_value=True)
    if pa.types.is_floating(before.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(before), pc.is_nan(back)), fill_value=False))
    row = pc.index(same, pa.scalar(value=False)).as_py()
    return None if row < 0 else f"{before[row].as_py()} would become {after[row].as_py()}"


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
