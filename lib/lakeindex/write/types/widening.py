"""Stored columns in the types that the table has now: what Hudi makes of values when a column was widened.

Hudi lets a column become wider and leaves the files as they are; readers and the next rewrite convert.
Measured with 0.15.0 and 1.2.0, which agree in reading and in rewriting:

==================  ======================================================================
from, to            what becomes of a value
==================  ======================================================================
int to long         itself
int, long to float  the nearest float
int, long to double the nearest double
float to double     by way of its text: ``0.1f`` becomes ``0.1``, not ``0.10000000149011612``
numbers to string   Java's text: ``5``, ``0.1``, ``1.0E10``, ``NaN``
decimal             itself, with more digits
instant in          the same number: these are milliseconds
microseconds to
milliseconds
==================  ======================================================================

Java's texts are those of releases 8 to 18, as in :mod:`lakeindex.write.keys.java_text`:
``3.4e10f`` becomes ``3.3999999E10``. Inside of structs, lists and maps it is the same.

Hudi 0.15 and 1.0 stored the milliseconds of a ``timestamp-millis`` column and called them microseconds, in files and
commits. Since 1.1 its commits say milliseconds again, and it reads files by what the table says
(``HoodieSchemaRepair.needsLogicalTypeRepair`` of 1.2).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.hashing.loops import compiled
from lakeindex.write.keys.java_text import java_text
from lakeindex.write.single_columns import without_hidden_nulls

_NAME = "stored"


def widened(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A stored column in a table's type.

    Raises:
        ArrowInvalid, ArrowNotImplementedError: the values do not convert, or would lose what they say.
    """
    if column.type == kind:
        return column
    return without_hidden_nulls(pa.chunked_array([widened_array(chunk, kind) for chunk in column.chunks], kind), kind)


def widened_array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same of one array."""
    source = array.type
    if source == kind:
        return array
    if pa.types.is_dictionary(source):
        return widened_array(array.dictionary, kind).take(array.indices)
    if pa.types.is_nested(source) and pa.types.is_nested(kind):
        return _nested(array, kind)
    if pa.types.is_integer(source) and pa.types.is_floating(kind):
        return array.cast(kind, safe=False)
    if pa.types.is_floating(source) and pa.types.is_floating(kind):
        if source.bit_width > kind.bit_width:
            raise pa.ArrowInvalid(f"{source} does not fit into {kind}")
        return _doubles(array)
    if pa.types.is_floating(source) and (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return java_text(array, _NAME).cast(kind)
    if are_millis_called_micros(source, kind):
        return array.cast(pa.int64()).cast(kind)
    return array.cast(kind)


def are_millis_called_micros(source: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a file says that instants are microseconds, and its table that they are milliseconds, which they are."""
    if not (pa.types.is_timestamp(source) and pa.types.is_timestamp(kind)):
        return False
    return (source.unit, kind.unit) == ("us", "ms") and None not in (source.tz, kind.tz)


def _doubles(array: pa.Array) -> pa.Array:
    """Floats as doubles, by way of their texts."""
    floats = array.cast(pa.float32())
    values = np.ascontiguousarray(floats.fill_null(0.0).to_numpy(zero_copy_only=False))
    doubles = np.empty(len(values), np.float64)
    doubles_of_texts(values, doubles)
    left = np.flatnonzero(np.isnan(doubles))
    if len(left):  # not a number, infinite, or too far from 1 for 64 bits
        doubles[left] = java_text(pa.array(values[left]), _NAME).cast(pa.float64()).to_numpy(zero_copy_only=False)
    found = pa.array(doubles)
    return pc.if_else(array.is_valid(), found, pa.scalar(None, pa.float64())) if array.null_count else found


@compiled("f4* f8*")
def doubles_of_texts(values: npt.NDArray[np.float32], out: npt.NDArray[np.float64]) -> None:  # noqa: ARG001 - as below
    """``Double.parseDouble(Float.toString(value))`` of each value; NaN of what is not finite or takes more than 64
    bits, and uncompiled of each: the caller then asks the text itself.
    """
    out[:] = np.nan


def _nested(array: pa.Array, kind: pa.DataType) -> pa.Array:
    source = array.type
    nulls = array.is_null() if array.null_count else None
    if pa.types.is_struct(source) and pa.types.is_struct(kind):
        names = [source.field(n).name for n in range(source.num_fields)]
        children = [
            widened_array(array.field(names.index(field.name)), field.type)
            if field.name in names
            else pa.nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=nulls)
    array = pa.concat_arrays([array])  # offsets that begin at 0
    if pa.types.is_map(source) and pa.types.is_map(kind):
        items = widened_array(array.items, kind.item_type)
        keys = widened_array(array.keys, kind.key_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=kind, mask=nulls)
    if pa.types.is_list(source) and pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            array.offsets, widened_array(array.values, kind.value_type), type=kind, mask=nulls
        )
    return array.cast(kind)
