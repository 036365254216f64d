"""Types of a batch that a table has no type of its own for, as those that it has: the values stay what they are.

=========================================  ==============================================================
of the batch                               in a table
=========================================  ==============================================================
halffloat                                  float, which holds all of its values
uint64                                     int64; numbers below 2^63 only
binary_view, fixed_size_binary             binary; the table does not keep the length
date64                                     date32; whole days only
duration                                   int64, the microseconds; whole ones only
fixed_size_list, list_view                 list; the table does not keep the length
run_end_encoded                            the type of its values
=========================================  ==============================================================

Inside lists, structs and maps it is the same. Arrow's own cast is not used for all of them: it takes elements out of
a ``list_view`` wrongly (pyarrow 26), and makes an ``int64`` of a duration in whatever unit it has.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def storable_schema(schema: pa.Schema) -> pa.Schema:
    """Columns of a batch in the types that a table can have for them; others are left as they are."""
    return pa.schema([field.with_type(storable_type(field.type)) for field in schema])


def storable_type(kind: pa.DataType) -> pa.DataType:
    """The type that stands for another in a table; the type itself, if it is one of a table's, or of nobody's."""
    for is_one_of_them, stored in _PLAIN:
        if is_one_of_them(kind):
            return stored
    if pa.types.is_run_end_encoded(kind):
        return storable_type(kind.value_type)
    if pa.types.is_dictionary(kind):
        return kind if storable_type(kind.value_type) == kind.value_type else storable_type(kind.value_type)
    return _storable_nested(kind)


def _storable_nested(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        fields = [field.with_type(storable_type(field.type)) for field in kind]
        return kind if fields == list(kind) else pa.struct(fields)
    if pa.types.is_map(kind):
        item, key = storable_type(kind.item_type), storable_type(kind.key_type)
        same = (item, key) == (kind.item_type, kind.key_type)
        return kind if same else pa.map_(kind.key_field.with_type(key), kind.item_field.with_type(item))
    is_plain = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if is_plain or any(is_list(kind) for is_list in _OTHER_LISTS):
        value = kind.value_field.with_type(storable_type(kind.value_type))
        return kind if is_plain and value.type == kind.value_type else pa.list_(value)
    return kind


def storable_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column in the type that stands for its own.

    Raises:
        ArrowInvalid: a value is lost: a number that is too large, a time within a day, or a part of a microsecond.
    """
    kind = storable_type(column.type)
    if kind == column.type:
        return column
    return pa.chunked_array([_storable(chunk, kind) for chunk in column.chunks], kind)


def _storable(array: pa.Array, kind: pa.DataType) -> pa.Array:
    source = array.type
    if source == kind:
        return array
    if pa.types.is_run_end_encoded(source):
        return _storable(pc.run_end_decode(array), kind)
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
        array = pa.concat_arrays([array])  # offsets that begin at 0
        keys, items = _storable(array.keys, kind.key_type), _storable(array.items, kind.item_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=nulls)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, _storable(array.flatten(), kind.value_type), type=kind, mask=nulls)


_PLAIN = (
    (pa.types.is_float16, pa.float32()),
    (pa.types.is_uint64, pa.int64()),
    (pa.types.is_binary_view, pa.binary()),
    (pa.types.is_fixed_size_binary, pa.binary()),
    (pa.types.is_date64, pa.date32()),
    (pa.types.is_duration, pa.int64()),
)
_OTHER_LISTS = (pa.types.is_fixed_size_list, pa.types.is_list_view, pa.types.is_large_list_view)
