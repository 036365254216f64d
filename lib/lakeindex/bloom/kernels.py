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

from lakeindex.hashing.compile_cache import READ_BYTES, READ_OFFSETS, njit_inline, njit_kernel
from lakeindex.hashing.murmur_kernels import MULTIPLIER, hash_round, mix_words, word_room

_LANES: Final = 8
_READ_BITS: Final = numba.types.Array(numba.uint8, 2, "C", readonly=True)

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


@njit_inline
def _position(h: np.uint32, bits: np.uint32) -> np.uint32:
    """``abs(h % bits)`` as Java has it: the remainder takes the sign of the dividend, so it is ``|h| % bits``."""
    signed = np.int32(h)
    size = np.uint32(-signed) if signed < 0 else np.uint32(signed)
    return np.uint32(size % bits)


@njit_inline
def _set(bits: Bytes, row: int, place: np.uint32) -> None:
    bits[row, place >> np.uint32(3)] |= np.uint8(np.uint32(1) << (place & np.uint32(7)))


@njit_inline
def _are_alike(offsets: Offsets, first: int) -> bool:
    """Whether the next ``_LANES`` keys are there and of one length."""
    if first + _LANES >= len(offsets):
        return False
    length = offsets[first + 1] - offsets[first]
    alike = True
    for lane in range(1, _LANES):
        alike &= offsets[first + lane + 1] - offsets[first + lane] == length
    return alike


@njit_inline
def _rounds_of_lanes(
    lane_words: npt.NDArray[np.uint32], length: int, tails: npt.NDArray[np.uint32], h: npt.NDArray[np.uint32]
) -> None:
    """One round for every lane: the seeds in ``h`` become the hashes. Inner loops over lanes run as vectors."""
    for lane in range(_LANES):
        h[lane] ^= np.uint32(length)
    for j in range(length >> 2):
        for lane in range(_LANES):
            h[lane] = np.uint32(h[lane] * MULTIPLIER) ^ lane_words[j, lane]
    if length & 3:
        for lane in range(_LANES):
            h[lane] = np.uint32((h[lane] ^ tails[lane]) * MULTIPLIER)
    for lane in range(_LANES):
        x = h[lane]
        x ^= x >> np.uint32(13)
        x = np.uint32(x * MULTIPLIER)
        h[lane] = x ^ (x >> np.uint32(15))


@njit_kernel(READ_BYTES, READ_OFFSETS, numba.uint32, numba.int64, numba.int64[::1], numba.uint8[:, ::1])
def add_keys(data: Bytes, offsets: Offsets, m: np.uint32, k: int, rows: Offsets, bits: Bytes) -> None:
    """Set the bits of each key ``i`` in filter row ``rows[i]``.

    A key's hashes wait for one another, so eight keys of one length go side by side (twice as fast as one by one).
    """
    words = word_room(offsets)
    lane_words = np.empty((len(words), _LANES), np.uint32)
    tails = np.empty(_LANES, np.uint32)
    hashes = np.empty(_LANES, np.uint32)
    i = 0
    while i < len(offsets) - 1:
        length = offsets[i + 1] - offsets[i]
        if _are_alike(offsets, i):
            for lane in range(_LANES):
                tails[lane] = mix_words(data, offsets[i + lane], length, words)
                hashes[lane] = np.uint32(0)
                for j in range(length >> 2):
                    lane_words[j, lane] = words[j]
            for _ in range(k):
                _rounds_of_lanes(lane_words, length, tails, hashes)
                for lane in range(_LANES):
                    _set(bits, rows[i + lane], _position(hashes[lane], m))
            i += _LANES
        else:
            tail = mix_words(data, offsets[i], length, words)
            h = np.uint32(0)
            for _ in range(k):
                h = hash_round(words, length, tail, h)
                _set(bits, rows[i], _position(h, m))
            i += 1


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
