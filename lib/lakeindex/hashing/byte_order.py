"""The order of byte strings, for compiled loops (numba, imported late)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakeindex.hashing.compile_cache import njit_inline


@njit_inline
def compare_bytes(
    a: npt.NDArray[np.uint8], a_from: int, a_to: int, b: npt.NDArray[np.uint8], b_from: int, b_to: int
) -> int:
    """Below, equal to or above zero, as the first byte string is less than, equal to or greater than the second."""
    shared = min(a_to - a_from, b_to - b_from)
    for i in range(shared):
        x = a[a_from + i]
        y = b[b_from + i]
        if x != y:
            return -1 if x < y else 1
    return (a_to - a_from) - (b_to - b_from)
