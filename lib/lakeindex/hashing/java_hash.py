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

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.hashing.arrow import StringArray, string_buffers
from lakeindex.hashing.loops import Loop, compiled_in

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint32]

_MASK: Final = 0xFFFFFFFF
_WITHOUT_HASH: Final = ("__null__", "__empty__")


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


def hash_strings(data: Bytes, offsets: Offsets, out: Hashes) -> None:
    """``String.hashCode`` of each key."""
    out[:] = [_string_hash(key) for key in _texts(data, offsets)]


def hash_new(data: Bytes, offsets: Offsets, names: Bytes, name_offsets: Offsets, out: Hashes) -> None:
    """``List.hashCode`` of each key's parts as Hudi 1.x takes them."""
    fields = frozenset(_texts(names, name_offsets))
    out[:] = [_list_hash(_taken_new(key, fields) or [_string_hash(key)]) for key in _texts(data, offsets)]


def hash_old(data: Bytes, offsets: Offsets, names: Bytes, name_offsets: Offsets, out: Hashes) -> None:
    """``List.hashCode`` of each key's parts as Hudi 0.15 takes them."""
    fields = frozenset(_texts(names, name_offsets))
    out[:] = [_list_hash(_taken_old(key, fields)) for key in _texts(data, offsets)]


def _texts(data: Bytes, offsets: Offsets) -> Iterator[str]:
    places = offsets.tolist()
    first = places[0]
    content = data[first : places[-1]].tobytes()
    for start, end in itertools.pairwise(places):
        yield content[start - first : end - first].decode()


def _string_hash(text: str) -> int:
    units = text.encode() if text.isascii() else memoryview(text.encode("utf-16-le")).cast("H")
    found = 0
    for unit in units:
        found = 31 * found + unit & _MASK
    return found


def _list_hash(codes: list[int]) -> int:
    found = 1
    for code in codes:
        found = 31 * found + code & _MASK
    return found


def _value_hash(value: str) -> int:
    return 0 if value in _WITHOUT_HASH else _string_hash(value)


def _taken_new(key: str, fields: frozenset[str]) -> list[int]:
    """Hash codes of the values of the hash fields. A value ends at the last comma before the next colon with one."""
    taken: list[int] = []
    rest = key if "," in key else ""
    while ":" in rest:
        name, _, value = rest.partition(":")
        comma = value.find(",")
        colon = value.find(":", comma) if comma >= 0 else -1
        rest = ""
        if colon >= 0:
            cut = value.rindex(",", 0, colon)
            value, rest = value[:cut], value[cut + 1 :]
        if name in fields:
            taken.append(_value_hash(value))
    return taken


def _taken_old(key: str, fields: frozenset[str]) -> list[int]:
    if ":" not in key:
        return [_string_hash(key)]
    taken = []
    for part in key.rstrip(",").split(","):
        name, colon, value = part.partition(":")
        if not colon:
            taken.append(_string_hash(part))
        elif name in fields:
            taken.append(_value_hash(value))
    return taken


_PATIENCE: Final = 100_000
_KERNELS: Final = "lakeindex.hashing.java_kernels"
STRINGS: Final = Loop(hash_strings, compiled_in(_KERNELS, "hash_strings"), _PATIENCE)
NEW_LISTS: Final = Loop(hash_new, compiled_in(_KERNELS, "hash_new"), _PATIENCE)
OLD_LISTS: Final = Loop(hash_old, compiled_in(_KERNELS, "hash_old"), _PATIENCE)
"""All by keys."""
