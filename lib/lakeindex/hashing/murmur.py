"""The Murmur hash of Hudi's bloom filters, compiled (numba), without copying a key.

It is Hadoop's MurmurHash2 as Hudi has it, which differs from the published one in the last one to three bytes:
they are sign-extended (Java bytes are signed) and the *last* byte of the key is the low one. With
``M = 0x5bd1e995`` and all arithmetic modulo 2**32::

    h = seed ^ length
    for each 4-byte little-endian word w:   h = h * M ^ mix(w)          mix(w) = ((w*M) ^ (w*M >> 24)) * M
    if there is a tail t:                   h = (h ^ t) * M
    h ^= h >> 13;  h *= M;  h ^= h >> 15

Only ``h`` depends on the seed. A filter hashes a key ``k`` times, each hash seeding the next, so a key's words
are mixed once (:func:`mix_words`) and each of the k rounds (:func:`hash_round`) is two cheap steps a word.

This module imports numba; it is imported only where keys are hashed. Compiled code is cached by the file of the kernel:
after a change of a helper here, touch the modules whose kernels use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from lakeindex.hashing.arrow import StringArray, string_buffers

_F = TypeVar("_F", bound=Callable[..., Any])

MULTIPLIER: Final = np.uint32(0x5BD1E995)

READ_BYTES: Final = numba.types.Array(numba.uint8, 1, "C", readonly=True)
READ_OFFSETS: Final = numba.types.Array(numba.int64, 1, "C", readonly=True)


def njit_inline(function: _F) -> _F:
    """Compile as a helper of the kernels below and in ``bloom`` (typed: numba's decorators are not)."""
    return cast(_F, numba.njit(inline="always")(function))


def njit_kernel(*signature: Any) -> Callable[[_F], _F]:
    """Compile for one signature, without the interpreter's lock; the machine code is cached beside the module."""

    def decorate(function: _F) -> _F:
        compiled = numba.njit(numba.void(*signature), nogil=True, cache=True, boundscheck=False)(function)
        return cast(_F, compiled)

    return decorate


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
def _hash_all(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], seed: np.uint32, out: npt.NDArray[np.uint32]
) -> None:
    words = word_room(offsets)
    for i in range(len(offsets) - 1):
        length = offsets[i + 1] - offsets[i]
        tail = mix_words(data, offsets[i], length, words)
        out[i] = hash_round(words, length, tail, seed)


def murmur(keys: StringArray, seed: int = 0) -> npt.NDArray[np.int32]:
    """Hash of each key, int32 [n], as Hudi's ``MurmurHash.hash(bytes, length, seed)`` gives it.

    Raises:
        InvariantError: a key is null.
    """
    buffers = string_buffers(keys)
    out = np.empty(len(buffers), dtype=np.uint32)
    _hash_all(buffers.data, buffers.offsets, np.uint32(seed & 0xFFFFFFFF), out)
    return out.view(np.int32)
