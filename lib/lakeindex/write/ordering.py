"""Ordering values compared as Hudi compares them, which is as Java does: in one place for the batch and for stored rows.

* Floats: ``Double.compare``. A NaN equals any other and is greater than all numbers, and -0.0 is less than 0.0.
* All others as Arrow sorts them: numbers and times by value, false before true, texts and bytes by unsigned bytes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

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
    """Values whose order in Arrow is that of Java: floats become whole numbers, all others stay. Nulls stay null."""
    if not pa.types.is_floating(values.type):
        return values
    whole, rest = _SIGN_AND_REST[values.type.bit_width]
    numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    numbers[np.isnan(numbers)] = np.nan  # one NaN, without a sign
    bits = numbers.view(whole)
    ordered = np.where(bits < 0, bits ^ rest, bits)
    return pa.array(ordered, mask=values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None)
