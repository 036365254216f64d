"""The Murmur hash of Hudi's bloom filters.

It is Hadoop's MurmurHash2 as Hudi has it, which differs from the published one in the last one to three bytes:
they are sign-extended (Java bytes are signed) and the *last* byte of the key is the low one. With
``M = 0x5bd1e995`` and all arithmetic modulo 2**32::

    h = seed ^ length
    for each 4-byte little-endian word w:   h = h * M ^ mix(w)          mix(w) = ((w*M) ^ (w*M >> 24)) * M
    if there is a tail t:                   h = (h ^ t) * M
    h ^= h >> 13;  h *= M;  h ^= h >> 15

Only ``h`` depends on the seed. A filter hashes a key ``k`` times, each hash seeding the next, so a key's words
are mixed once (``mix_words``) and each of the k rounds (``hash_round``) is two cheap steps a word.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from lakeindex.hashing.arrow import StringArray, string_buffers
from lakeindex.hashing.loops import Loop, compiled_in
from lakeindex.hashing.plain_murmur import hash_all


def murmur(keys: StringArray, seed: int = 0) -> npt.NDArray[np.int32]:
    """Hash of each key, int32 [n], as Hudi's ``MurmurHash.hash(bytes, length, seed)`` gives it.

    Raises:
        InvariantError: a key is null.
    """
    buffers = string_buffers(keys)
    out = np.empty(len(buffers), dtype=np.uint32)
    HASHES.run(len(buffers), buffers.data, buffers.offsets, np.uint32(seed & 0xFFFFFFFF), out)
    return out.view(np.int32)


HASHES: Final = Loop(hash_all, compiled_in("lakeindex.hashing.murmur_kernels", "hash_all"), 2_000_000)
"""The loop, by keys."""
