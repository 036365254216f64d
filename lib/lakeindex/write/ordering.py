"""Ordering values compared as Hudi compares them, which is as Java does:
in one place for the batch and for stored rows.

* Floats: ``Double.compare``. A NaN equals any other and is greater than all numbers, and -0.0 is less than 0.0.
* Bytes: ``ByteBuffer.compareTo``. Bytes have a sign: ``80`` is the least of all, ``7f`` the greatest.
* Texts by their UTF-8 bytes, all others by value, as Arrow sorts them.

Of several ordering fields the first in which two rows differ decides.

Hudi 0.15 and 1.2 agree in all of it, within a batch and against stored rows
(``tests/interop/test_ordering_values.py``).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import SchemaMismatchError

_SIGN_AND_REST = {32: (np.int32, np.int32(0x7FFFFFFF)), 64: (np.int64, np.int64(0x7FFFFFFFFFFFFFFF))}


def check_orderable(kind: pa.DataType, name: str) -> None:
    """Refuse an ordering field whose values have no order.

    Raises:
        SchemaMismatchError: of a list, struct or map.
    """
    if pa.types.is_nested(kind):
        raise SchemaMismatchError(
            f"ordering field {name!r} is {kind}, and such values have no order",
            culprit=name,
            hint="order by a number, time or text",
        )


def comparable(values: pa.Array) -> pa.Array:
    """Values whose order in Arrow is that of Java; equal ones are equal. Nulls stay null."""
    if pa.types.is_floating(values.type):
        return _whole_numbers(values)
    if any(test(values.type) for test in (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)):
        return _without_signs(values)
    return values


def are_older(fields: Iterable[tuple[pa.Array, pa.Array]]) -> npt.NDArray[np.bool_] | None:
    """Whether incoming rows are older than stored ones.

    Args:
        fields: of each ordering field, the first one first, the incoming values and the stored ones.

    Returns:
        bool [n]; a row is not older where the field that would decide is null on one side. None: there is no field.
    """
    found: npt.NDArray[np.bool_] | None = None
    is_open: npt.NDArray[np.bool_] | None = None
    for incoming, stored in fields:
        one, other = comparable(incoming), comparable(stored)
        less = pc.fill_null(pc.less(one, other), fill_value=False).to_numpy(zero_copy_only=False)
        same = pc.fill_null(pc.equal(one, other), fill_value=False).to_numpy(zero_copy_only=False)
        found = less if found is None or is_open is None else found | (is_open & less)
        is_open = same if is_open is None else is_open & same
    return found


def _whole_numbers(values: pa.Array) -> pa.Array:
    """Whole numbers that are ordered like the floats."""
    whole, rest = _SIGN_AND_REST[values.type.bit_width]
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    numbers[np.isnan(numbers)] = np.nan  # one NaN, without a sign
    bits = numbers.view(whole)
    ordered = np.where(bits < 0, bits ^ rest, bits)
    return pa.array(ordered, mask=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None)


def _without_signs(values: pa.Array) -> pa.Array:
    """Bytes that are ordered without a sign like the values with one: all first bits are turned over."""
    plain = values.cast(pa.large_binary())
    valid, offsets, data = plain.buffers()
    turned = np.frombuffer(data, np.uint8) ^ np.uint8(0x80) if data is not None else np.zeros(0, np.uint8)
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(plain), [valid, offsets, pa.py_buffer(turned)], plain.null_count, plain.offset
    )
