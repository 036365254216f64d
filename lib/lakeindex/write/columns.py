"""Single columns: how many leaves they have in a Parquet file, whether values are the same, values put in place of others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def leaves(kind: pa.DataType) -> int:
    """Leaf columns of a type."""
    if pa.types.is_struct(kind):
        return sum(leaves(kind.field(i).type) for i in range(kind.num_fields))
    if pa.types.is_map(kind):
        return leaves(kind.key_type) + leaves(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return leaves(kind.value_type)
    return 1


def are_same(stored: pa.Array, incoming: pa.Array) -> bool:
    """Whether the values are equal to the bit; False also where that is hard to say."""
    kind = stored.type
    if pa.types.is_nested(kind):
        return False
    if pa.types.is_dictionary(kind):
        return bool(stored.dictionary_decode().equals(incoming))
    if pa.types.is_floating(kind):
        bits = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bit_width]
        return bool(stored.view(bits).equals(incoming.view(bits)))
    return bool(stored.equals(incoming))


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
