"""The loops of :mod:`lakeindex.hashing.java_kernels` in plain Python, for few keys;
:mod:`lakeindex.hashing.java_hash` says what is hashed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint32]

_MASK: Final = 0xFFFFFFFF
_WITHOUT_HASH: Final = ("__null__", "__empty__")


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
