"""Compiled loops over a filter's bits (numba). Imported only where a filter is built or probed.

Bits are uint8 [rows, ceil(m / 8)]; bit ``i`` is ``bits[row, i >> 3] & (1 << (i & 7))``. The ``k`` positions of a
key are chained: ``x[0] = murmur(key, 0)``, ``x[j + 1] = murmur(key, x[j])``, position = ``abs(x[j] % m)`` with
Java's remainder.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
import numpy.typing as npt

from lakeindex.hashing.murmur import (
    READ_BYTES,
    READ_OFFSETS,
    hash_round,
    mix_words,
    njit_inline,
    njit_kernel,
    word_room,
)

_READ_BITS: Final = numba.types.Array(numba.uint8, 2, "C", readonly=True)

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


@njit_inline
def _position(h: np.uint32, bits: np.uint32) -> np.uint32:
    """``abs(h % bits)`` as Java has it: the remainder takes the sign of the dividend, so it is ``|h| % bits``."""
    signed = np.int32(h)
    size = np.uint32(-signed) if signed < 0 else np.uint32(signed)
    return np.uint32(size % bits)


@njit_kernel(READ_BYTES, READ_OFFSETS, numba.uint32, numba.int64, numba.int64[::1], numba.uint8[:, ::1])
def add_keys(data: Bytes, offsets: Offsets, m: np.uint32, k: int, rows: Offsets, bits: Bytes) -> None:
    """Set the bits of each key ``i`` in filter row ``rows[i]``."""
    words = word_room(offsets)
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        tail = mix_words(data, offsets[i], length, words)
        row = rows[i]
        h = np.uint32(0)
        for _ in range(k):
            h = hash_round(words, length, tail, h)
            p = _position(h, m)
            bits[row, p >> np.uint32(3)] |= np.uint8(np.uint32(1) << (p & np.uint32(7)))


@njit_kernel(READ_BYTES, READ_OFFSETS, numba.uint32, numba.int64, _READ_BITS, numba.boolean[::1])
def probe_keys(data: Bytes, offsets: Offsets, m: np.uint32, k: int, bits: Bytes, out: npt.NDArray[np.bool_]) -> None:
    """``out[i]``: whether some filter row holds all positions of key ``i``. A miss ends at the first clear bit."""
    words = word_room(offsets)
    places = np.empty(k, np.uint32)
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        tail = mix_words(data, offsets[i], length, words)
        h = np.uint32(0)
        known = 0
        found = False
        for row in range(bits.shape[0]):
            j = 0
            while j < k:
                if j == known:
                    h = hash_round(words, length, tail, h)
                    places[j] = _position(h, m)
                    known += 1
                p = places[j]
                if not (bits[row, p >> np.uint32(3)] >> np.uint8(p & np.uint32(7))) & np.uint8(1):
                    break
                j += 1
            if j == k:
                found = True
                break
        out[i] = found
