"""Single columns: how many leaves they have in a Parquet file, whether values are the same,
values put in place of others, nulls that a null hides.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def leaves(kind: pa.DataType) -> int:
    """Leaf columns of a type."""
    return sum(map(leaves, _inner(kind))) if pa.types.is_nested(kind) else 1


def has_floats(kind: pa.DataType) -> bool:
    """Whether a type has a leaf that can be not a number."""
    return pa.types.is_floating(kind) or any(map(has_floats, _inner(kind)))


def leaves_with_nan(rows: pa.Table) -> list[int]:
    """Leaf columns that have values which are not a number.

    Such a column has no least and greatest value in its statistics: engines order NaN in different ways (for Spark it
    is the greatest of all), and would leave rows out that a filter asks for.
    """
    found = []
    first = 0
    for column in rows.columns:
        if has_floats(column.type):
            found += [first + leaf for leaf in _nan_leaves(column.chunks, column.type)]
        first += leaves(column.type)
    return found


def _nan_leaves(chunks: Sequence[pa.Array], kind: pa.DataType) -> list[int]:
    if not has_floats(kind):
        return []
    if pa.types.is_floating(kind):
        return [0] if any(pc.any(pc.is_nan(chunk)).as_py() for chunk in chunks) else []
    children = [_children(chunk) for chunk in chunks]
    found = []
    first = 0
    for number, inner in enumerate(_inner(kind)):
        found += [first + leaf for leaf in _nan_leaves([one[number] for one in children], inner)]
        first += leaves(inner)
    return found


def _inner(kind: pa.DataType) -> list[pa.DataType]:
    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    return [kind.field(n).type for n in range(kind.num_fields)]


def _children(array: pa.Array) -> list[pa.Array]:
    """Child arrays, with the values that the array has (a struct's also where it is null)."""
    if pa.types.is_struct(array.type):
        return [array.field(n) for n in range(array.type.num_fields)]
    if pa.types.is_fixed_size_list(array.type):
        return [array.flatten()]
    first, last = (array.offsets[0].as_py(), array.offsets[-1].as_py()) if len(array) else (0, 0)
    values = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    return [one.slice(first, last - first) for one in values]


@lru_cache(maxsize=1024)
def demands_values(kind: pa.DataType) -> bool:
    """Whether a type has a part, map keys apart, that may not be null."""
    if not pa.types.is_nested(kind):
        return False
    parts = [kind.item_field] if pa.types.is_map(kind) else [kind.field(n) for n in range(kind.num_fields)]
    return any(not part.nullable or demands_values(part.type) for part in parts)


def nulls_of(count: int, kind: pa.DataType) -> pa.Array:
    return _without_hidden(pa.nulls(count, kind), kind)


def without_hidden_nulls(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column in which no part that may not be null is: a null struct hides what is in it, and Arrow, which neither
    writes nor casts such a part if it is null, looks at what is hidden, too.

    Args:
        column: the values, without a null that shows where none may be.
        kind: their type, which differs in what may be null at most.
    """
    if not demands_values(kind):
        return column
    return pa.chunked_array([_without_hidden(chunk, kind) for chunk in column.chunks], kind)


def _without_hidden(array: pa.Array, kind: pa.DataType, *, is_needed: bool = False) -> pa.Array:
    if not pa.types.is_nested(kind):
        if not (is_needed and array.null_count):
            return array
        return pa.Array.from_buffers(kind, len(array), [None, *array.buffers()[1:]], offset=array.offset)
    if array.type == kind and not demands_values(kind) and not (is_needed and array.null_count):
        return array
    mask = array.is_null() if array.null_count and not is_needed else None
    if pa.types.is_struct(kind):
        children = [
            _without_hidden(array.field(place), field.type, is_needed=not field.nullable)
            for place, field in enumerate(kind)
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    array = pa.concat_arrays([array])  # offsets that begin at 0
    if pa.types.is_map(kind):
        keys = _without_hidden(array.keys, kind.key_type, is_needed=True)
        items = _without_hidden(array.items, kind.item_type, is_needed=not kind.item_field.nullable)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=mask)
    maker = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
    values = _without_hidden(array.values, kind.value_type, is_needed=not kind.value_field.nullable)
    return maker.from_arrays(array.offsets, values, type=kind, mask=mask)


def changed(stored: pa.Array, incoming: pa.Array) -> np.ndarray:
    """Which values are not equal to the bit: bool [n]; True also where that is hard to say."""
    kind = stored.type
    if pa.types.is_nested(kind):
        return np.ones(len(stored), np.bool_)
    if pa.types.is_dictionary(kind):
        stored = stored.dictionary_decode()
    elif pa.types.is_floating(kind):
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        stored, incoming = stored.view(bits), incoming.view(bits)
    is_null = stored.is_null().to_numpy(zero_copy_only=False) != incoming.is_null().to_numpy(zero_copy_only=False)
    differs = pc.fill_null(pc.not_equal(stored, incoming), False)
    return is_null | differs.to_numpy(zero_copy_only=False)


def replaced(column: pa.Array, places: np.ndarray, values: pa.Array) -> pa.Array:
    """The column with other values at some places (ascending); a dictionary column with plain values, and stays one."""
    if pa.types.is_dictionary(column.type):
        values = values.dictionary_encode()
    if pa.types.is_primitive(column.type):
        mask = np.zeros(len(column), np.bool_)
        mask[places] = True
        return pc.replace_with_mask(column, pa.array(mask), values)
    source = np.arange(len(column), dtype=np.int64)
    source[places] = len(column) + np.arange(len(places), dtype=np.int64)
    return pa.concat_arrays([column, values]).take(pa.array(source))


def without_unused(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same column; its dictionary holds only entries that it uses."""
    used = np.zeros(len(column.dictionary), np.bool_)
    used[column.indices.drop_null().to_numpy()] = True
    if used.all():
        return column
    places = pa.array((np.cumsum(used) - 1).astype(np.int32))
    return pa.DictionaryArray.from_arrays(places.take(column.indices), column.dictionary.filter(pa.array(used)))
