"""Java's ``String.hashCode`` and ``List.hashCode`` over UTF-8 buffers; and which parts of a key Hudi hashes.

``String.hashCode`` runs over UTF-16 units, ``h = 31 * h + unit`` from 0; ``List.hashCode`` over hash codes of its
elements, ``h = 31 * h + code`` from 1 (a null has code 0). All arithmetic is modulo 2**32.

Hudi's bucket index hashes a list of strings made from the record key as it is stored, and its releases differ in which
strings those are (measured against the jars of both; ``tests/vectors/keys_12.json``, ``keys_15.json``):

* **1.x**: a key without ``,`` or without ``:`` is one string. Else it is read as ``field:value`` pairs; a value ends at
  the last ``,`` before the next ``:`` that has one in between, so values may hold both. Values of the hash fields are
  the strings. If there is none, the whole key is.
* **0.15**: a key without ``:`` is one string. Else it is split at every ``,`` (empty ends are dropped) and each
  part at its first ``:``; a part without one is a string as it is, of the others the values of the hash fields.
  There may be none: hash 1.

The values ``__null__`` (null) and ``__empty__`` (the empty string) have hash 0, both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.hashing import plain_java
from lakeindex.hashing.arrow import StringArray, string_buffers
from lakeindex.hashing.loops import Loop, compiled_in


def string_hashes(keys: StringArray) -> npt.NDArray[np.int32]:
    """``String.hashCode`` of each key: int32 [n].

    Raises:
        InvariantError: a key is null.
    """
    buffers = string_buffers(keys)
    out = np.empty(len(buffers), dtype=np.uint32)
    STRINGS.run(len(buffers), buffers.data, buffers.offsets, out)
    return out.view(np.int32)


def bucket_hashes(keys: StringArray, fields: Sequence[str], *, old_rule: bool = False) -> npt.NDArray[np.int32]:
    """``List.hashCode`` of what Hudi hashes of each key: int32 [n].

    Args:
        fields: names of the hash fields.
        old_rule: which strings of a key are hashed: as Hudi 0.15 (True) or 1.x does.

    Raises:
        InvariantError: a key is null.
    """
    buffers = string_buffers(keys)
    names = string_buffers(pa.array(list(fields), pa.string()))
    out = np.empty(len(buffers), dtype=np.uint32)
    loop = OLD_LISTS if old_rule else NEW_LISTS
    loop.run(len(buffers), buffers.data, buffers.offsets, names.data, names.offsets, out)
    return out.view(np.int32)


_PATIENCE: Final = 100_000
_KERNELS: Final = "lakeindex.hashing.java_kernels"
STRINGS: Final = Loop(plain_java.hash_strings, compiled_in(_KERNELS, "hash_strings"), _PATIENCE)
NEW_LISTS: Final = Loop(plain_java.hash_new, compiled_in(_KERNELS, "hash_new"), _PATIENCE)
OLD_LISTS: Final = Loop(plain_java.hash_old, compiled_in(_KERNELS, "hash_old"), _PATIENCE)
"""All by keys."""
