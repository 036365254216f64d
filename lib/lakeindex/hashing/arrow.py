"""Arrow columns in one piece, samples of rows, and string arrays as the two plain buffers that
the compiled kernels read.
"""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import InvariantError
from lakeindex.frozen import Frozen

_NO_BYTES: Final = np.zeros(0, dtype=np.uint8)
_NO_OFFSETS: Final = np.zeros(1, dtype=np.int64)

StringArray: TypeAlias = pa.Array | pa.ChunkedArray
RowNumbers: TypeAlias = npt.NDArray[np.int64]
"""Rows of a chunk or a table by their numbers: int64 [n]."""
_Rows = TypeVar("_Rows", pa.Table, pa.ChunkedArray)


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def sample_of(rows: _Rows, most: int) -> _Rows:
    """At most so many rows of a table or values of a column, evenly spread."""
    if len(rows) <= most:
        return rows
    return rows.take(pa.array(np.linspace(0, len(rows) - 1, most).astype(np.int64)))


class StringBuffers(Frozen, eq=False):
    """UTF-8 bytes of ``n`` strings and where each begins.

    Attributes:
        data: uint8 [bytes]; shared with Arrow, not copied.
        offsets: int64 [n + 1]; string ``i`` is ``data[offsets[i]:offsets[i + 1]]``.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def value(self, row: int) -> bytes:
        """Bytes of one string."""
        return self.data[self.offsets[row] : self.offsets[row + 1]].tobytes()

    def has_empty(self) -> bool:
        """Whether a string has no bytes."""
        return bool((self.offsets[1:] == self.offsets[:-1]).any())

    def slice(self, from_row: int, to_row: int) -> StringBuffers:
        """Rows ``from_row`` (inclusive) to ``to_row`` (exclusive), without copying."""
        return StringBuffers(self.data, self.offsets[from_row : to_row + 1])


def without_dictionary(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def plain_strings(keys: StringArray) -> pa.Array:
    """One contiguous ``string`` or ``large_string`` array of any string-like, dictionary or chunked array."""
    array = without_dictionary(_one_array(keys))
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        return array
    return array.cast(pa.large_string())


def _one_array(keys: StringArray) -> pa.Array:
    if not isinstance(keys, pa.ChunkedArray):
        return keys
    if keys.num_chunks == 1:
        return keys.chunk(0)
    if pa.types.is_string(keys.type) and keys.nbytes > 2**31 - 1:
        keys = keys.cast(pa.large_string())  # 32-bit offsets could not hold the chunks together
    return pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], type=keys.type)


def string_buffers(keys: StringArray) -> StringBuffers:
    """The buffers of a string array.

    Raises:
        InvariantError: a string is null (keys never are: bad rows went to the quarantine before).
    """
    array = plain_strings(keys)
    if array.null_count:
        row = pc.index(array.is_null(), value=True).as_py()
        raise InvariantError(
            f"a record key is null (row {row} of {len(array)})",
            culprit=f"row {row}",
            hint="keys must be made by the key generator, which sets such rows aside",
        )
    if len(array) == 0:
        return StringBuffers(_NO_BYTES, _NO_OFFSETS)
    _, offsets, data = array.buffers()
    wide = np.int64 if pa.types.is_large_string(array.type) else np.int32
    places = np.frombuffer(offsets, dtype=wide)[array.offset : array.offset + len(array) + 1]
    content = _NO_BYTES if data is None or data.size == 0 else np.frombuffer(data, dtype=np.uint8)
    return StringBuffers(content, places.astype(np.int64, copy=False))
