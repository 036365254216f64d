"""The Murmur hash over whole columns (numpy), for few keys; :mod:`lakeindex.hashing.murmur` says what it is.

Keys of one length are hashed side by side: each length takes as many steps as it has words.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]

_MULTIPLIER: Final = np.uint32(0x5BD1E995)


@dataclass(frozen=True, slots=True, eq=False)
class Alike:
    """Keys of one length, ready to be hashed.

    Attributes:
        rows: which keys they are: int64 [n].
        length: bytes of each.
        words: their mixed whole words: uint32 [words, n].
        tails: what is left of each, unmixed: uint32 [n].
    """

    rows: Offsets
    length: int
    words: Words
    tails: Words

    def hashes(self, seeds: Words) -> Words:
        """The hash of each key under a seed of its own: uint32 [n]."""
        found = seeds ^ np.uint32(self.length)
        for word in self.words:
            found = found * _MULTIPLIER ^ word
        if self.length % 4:
            found = (found ^ self.tails) * _MULTIPLIER
        found ^= found >> np.uint32(13)
        found *= _MULTIPLIER
        return found ^ (found >> np.uint32(15))


def alike(data: Bytes, offsets: Offsets) -> Iterator[Alike]:
    """The keys by their lengths."""
    lengths = np.diff(offsets)
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        text = data[offsets[rows, None] + np.arange(length)]
        whole = length - length % 4
        words = np.ascontiguousarray(text[:, :whole]).view("<u4").T * _MULTIPLIER
        words = (words ^ (words >> np.uint32(24))) * _MULTIPLIER
        tails = np.zeros(len(rows), np.uint32)
        for back in range(1, length - whole + 1):  # the last byte is the low one; Java's bytes have a sign
            signed = np.ascontiguousarray(text[:, length - back]).view(np.int8).astype(np.int32)
            tails ^= (signed << (8 * (back - 1))).view(np.uint32)
        yield Alike(rows, length, words, tails)


def hash_all(data: Bytes, offsets: Offsets, seed: np.uint32, out: Words) -> None:
    """The hash of each key under ``seed``, into ``out``."""
    for keys in alike(data, offsets):
        out[keys.rows] = keys.hashes(np.full(len(keys.rows), seed, np.uint32))
