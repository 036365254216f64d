"""The Murmur hash of Hudi's bloom filters.

It is Hadoop's MurmurHash2 as Hudi has it, which differs from the published one in the last one to three bytes:
they are sign-extended (Java bytes are signed) and the *last* byte of the key is the low one. With
``M = 0x5bd1e995`` and all arithmetic modulo 2**32::

    h = seed ^ length
    for each 4-byte little-endian word w:   h = h * M ^ mix(w)          mix(w) = ((w*M) ^ (w*M >> 24)) * M
    if there is a tail t:                   h = (h ^ t) * M
    h ^= h >> 13;  h *= M;  h ^= h >> 15

Only ``h`` depends on the seed. A filter hashes a key ``k`` times, each hash seeding the next, so a key's words
are mixed once and each of the k rounds is two cheap steps a word.

In numpy keys of one length are hashed side by side: each length takes as many steps as it has words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import StringArray, string_buffers
from lakeindex.hashing.loops import Bytes, Offsets, compiled

Words = npt.NDArray[np.uint32]

_MULTIPLIER: Final = np.uint32(0x5BD1E995)


def murmur(keys: StringArray, seed: int = 0) -> npt.NDArray[np.int32]:
    """Hash of each key, int32 [n], as Hudi's ``MurmurHash.hash(bytes, length, seed)`` gives it.

    Raises:
        InvariantError: a key is null.
    """
    buffers = string_buffers(keys)
    out = np.empty(len(buffers), dtype=np.uint32)
    hash_all(buffers.data, buffers.offsets, seed & 0xFFFFFFFF, out)
    return out.view(np.int32)


@compiled("u1* i8* int u4*")
def hash_all(data: Bytes, offsets: Offsets, seed: int, out: Words) -> None:
    """The hash of each key under ``seed``."""
    for keys in alike(data, offsets):
        out[keys.rows] = keys.hashes(np.full(len(keys.rows), seed, np.uint32))


class Alike(Frozen, eq=False):
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
