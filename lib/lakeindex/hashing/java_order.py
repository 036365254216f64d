"""The order of Java strings, in which Hudi writes key ranges.

Java compares UTF-16 units, Arrow, Parquet and this library UTF-8 bytes. Both orders agree unless a character from
U+E000..U+FFFF meets one above U+FFFF: in UTF-16 the latter begin with a unit in D800..DBFF and sort before the
former; in UTF-8 they begin with F0..F4 and sort behind EE and EF. So translating the lead bytes EE and EF to F8
and F9, which UTF-8 never uses, turns byte order into Java's.

If one of two strings holds no character from U+E000 up, both orders compare them alike.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.hashing.arrow import StringArray, plain_strings, string_buffers

_TO_JAVA: Final = bytes.maketrans(b"\xee\xef", b"\xf8\xf9")
_FIRST_DIFFERENT: Final = 0xEE


def java_order_key(text: str | bytes) -> bytes:
    """A key for ``sorted``/``min``/``max`` that gives the order of ``java.lang.String.compareTo``.

    Args:
        text: the string, or its UTF-8 bytes.
    """
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return encoded.translate(_TO_JAVA)


def orders_may_differ(text: str | bytes) -> bool:
    """Whether the text holds a character from U+E000 up, so that a comparison with it depends on the order."""
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return any(byte >= _FIRST_DIFFERENT for byte in encoded)


def java_min_max(keys: StringArray) -> tuple[str, str] | None:
    """Least and greatest string in Java's order; None if there is no string. Nulls are left out."""
    array = plain_strings(keys)
    if array.null_count:
        array = array.drop_null()
    if len(array) == 0:
        return None
    special = _rows_with_special(array)
    if special is None:
        return _byte_min_max(array)
    odd = sorted(array.filter(pa.array(special)).unique().to_pylist(), key=java_order_key)
    ends = [odd[0], odd[-1]]
    if not special.all():
        ends.extend(_byte_min_max(array.filter(pa.array(~special))))
    return min(ends, key=java_order_key), max(ends, key=java_order_key)


def _byte_min_max(array: pa.Array) -> tuple[str, str]:
    ends = pc.min_max(array)
    return ends["min"].as_py(), ends["max"].as_py()


def _rows_with_special(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Bool [n]: which strings hold a character from U+E000 up; None if no string does."""
    buffers = string_buffers(array)
    start, end = int(buffers.offsets[0]), int(buffers.offsets[-1])
    places = np.flatnonzero(buffers.data[start:end] >= _FIRST_DIFFERENT)
    if len(places) == 0:
        return None
    mask = np.zeros(len(buffers), dtype=np.bool_)
    mask[np.searchsorted(buffers.offsets, places + start, side="right") - 1] = True
    return mask
