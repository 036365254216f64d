"""Compiled binary searches of many byte strings in one sorted Arrow string array (numba, imported late)."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from lakeindex.hashing.byte_order import compare_bytes
from lakeindex.hashing.compile_cache import READ_BYTES, READ_OFFSETS, njit_kernel

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


@njit_kernel(READ_BYTES, READ_OFFSETS, READ_BYTES, READ_OFFSETS, numba.boolean, numba.int64[::1])
def search_sorted(data: Bytes, offsets: Offsets, ends: Bytes, end_offsets: Offsets, right: bool, out: Offsets) -> None:  # noqa: FBT001 - a kernel takes no keywords
    """``out[j]``: where end ``j`` would be put into the sorted strings, before equal ones or (``right``) after them."""
    for j in range(len(end_offsets) - 1):
        low = 0
        high = len(offsets) - 1
        while low < high:
            middle = (low + high) >> 1
            order = compare_bytes(data, offsets[middle], offsets[middle + 1], ends, end_offsets[j], end_offsets[j + 1])
            if order < 0 or (right and order == 0):
                low = middle + 1
            else:
                high = middle
        out[j] = low
