"""Compiled loops of the Murmur hash (numba, imported late); :mod:`lakeindex.hashing.murmur` says what it is."""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
import numpy.typing as npt

from lakeindex.hashing.compile_cache import READ_BYTES, READ_OFFSETS, njit_inline, njit_kernel

MULTIPLIER: Final = np.uint32(0x5BD1E995)


@njit_inline
def word_room(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """A buffer for the mixed words of the longest of these keys."""
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    return np.empty((longest >> 2) + 1, np.uint32)


@njit_inline
def mix_words(data: npt.NDArray[np.uint8], start: int, length: int, words: npt.NDArray[np.uint32]) -> np.uint32:
    """Mix a key's whole words into ``words``; the unmixed tail is returned."""
    for j in range(length >> 2):
        p = start + 4 * j
        k = np.uint32(data[p])
        k |= np.uint32(data[p + 1]) << np.uint32(8)
        k |= np.uint32(data[p + 2]) << np.uint32(16)
        k |= np.uint32(data[p + 3]) << np.uint32(24)
        k = np.uint32(k * MULTIPLIER)
        k ^= k >> np.uint32(24)
        words[j] = np.uint32(k * MULTIPLIER)
    left = length & 3
    end = start + length
    tail = np.uint32(0)
    if left >= 3:
        tail ^= np.uint32(np.uint32(np.int32(np.int8(data[end - 3]))) << np.uint32(16))
    if left >= 2:
        tail ^= np.uint32(np.uint32(np.int32(np.int8(data[end - 2]))) << np.uint32(8))
    if left >= 1:
        tail ^= np.uint32(np.int32(np.int8(data[end - 1])))
    return tail


@njit_inline
def hash_round(words: npt.NDArray[np.uint32], length: int, tail: np.uint32, seed: np.uint32) -> np.uint32:
    """The key's hash under ``seed``, from its mixed words."""
    h = np.uint32(seed ^ np.uint32(length))
    for j in range(length >> 2):
        h = np.uint32(h * MULTIPLIER) ^ words[j]
    if length & 3:
        h = np.uint32((h ^ tail) * MULTIPLIER)
    h ^= h >> np.uint32(13)
    h = np.uint32(h * MULTIPLIER)
    h ^= h >> np.uint32(15)
    return h


@njit_kernel(READ_BYTES, READ_OFFSETS, numba.uint32, numba.uint32[::1])
def hash_all(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], seed: np.uint32, out: npt.NDArray[np.uint32]
) -> None:
    """The hash of each key under ``seed``."""
    words = word_room(offsets)
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        tail = mix_words(data, offsets[i], length, words)
        out[i] = hash_round(words, length, tail, seed)
