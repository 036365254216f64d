"""Strings as Java has them: their hashes, the parts of a key that Hudi hashes, and their order.

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

Java's order, in which Hudi writes key ranges, compares UTF-16 units; Arrow, Parquet and this library compare UTF-8
bytes. Both agree unless a character from U+E000..U+FFFF meets one above U+FFFF: in UTF-16 the latter begin with a unit
in D800..DBFF and sort before the former; in UTF-8 they begin with F0..F4 and sort behind EE and EF. So translating the
lead bytes EE and EF to F8 and F9, which UTF-8 never uses, turns byte order into Java's. If one of two strings holds no
character from U+E000 up, both orders compare them alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.hashing.arrow import StringArray, plain_strings, string_buffers
from lakeindex.hashing.loops import Bytes, Offsets, compiled

Hashes = npt.NDArray[np.uint32]

_MASK: Final = 0xFFFFFFFF
_WITHOUT_HASH: Final = (b"__null__", b"__empty__")
_TO_JAVA: Final = bytes.maketrans(b"\xee\xef", b"\xf8\xf9")
_FIRST_DIFFERENT: Final = 0xEE


def string_hashes(keys: StringArray) -> npt.NDArray[np.int32]:
    """``String.hashCode`` of each key: int32 [n].

    Raises:
        InvariantError: a key is null.
    """
    buffers = string_buffers(keys)
    out = np.empty(len(buffers), dtype=np.uint32)
    hash_strings(buffers.data, buffers.offsets, out)
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
    (hash_old if old_rule else hash_new)(buffers.data, buffers.offsets, names.data, names.offsets, out)
    return out.view(np.int32)


@compiled("u1* i8* u4*")
def hash_strings(data: Bytes, offsets: Offsets, out: Hashes) -> None:
    """``String.hashCode`` of each key."""
    out[:] = [_string_hash(key) for key in _texts(data, offsets)]


@compiled("u1* i8* u1* i8* u4*")
def hash_new(data: Bytes, offsets: Offsets, names: Bytes, name_offsets: Offsets, out: Hashes) -> None:
    """``List.hashCode`` of each key's parts as Hudi 1.x takes them."""
    fields = frozenset(_texts(names, name_offsets))
    out[:] = [_list_hash(_taken_new(key, fields) or [_string_hash(key)]) for key in _texts(data, offsets)]


@compiled("u1* i8* u1* i8* u4*")
def hash_old(data: Bytes, offsets: Offsets, names: Bytes, name_offsets: Offsets, out: Hashes) -> None:
    """``List.hashCode`` of each key's parts as Hudi 0.15 takes them."""
    fields = frozenset(_texts(names, name_offsets))
    out[:] = [_list_hash(_taken_old(key, fields)) for key in _texts(data, offsets)]


def _texts(data: Bytes, offsets: Offsets) -> Iterator[bytes]:
    places = offsets.tolist()
    first = places[0]
    content = data[first : places[-1]].tobytes()
    for start, end in itertools.pairwise(places):
        yield content[start - first : end - first]


def _units(text: bytes) -> Iterator[int]:
    """UTF-16 units of UTF-8. Of what is none, lead bytes alone say how many bytes a character has; of one that is cut
    off the missing ones are zeros.
    """
    at = 0
    while at < len(text):
        lead = text[at]
        size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        point = lead if size == 1 else lead & (0xFF >> (size + 1))
        for byte in text[at + 1 : at + size].ljust(size - 1, b"\0"):
            point = point << 6 | byte & 0x3F
        at += size
        if size < 4:
            yield point
        else:
            point = point - 0x10000 & _MASK
            yield 0xD800 | point >> 10
            yield 0xDC00 | point & 0x3FF


def _string_hash(text: bytes) -> int:
    found = 0
    for unit in text if text.isascii() else _units(text):
        found = 31 * found + unit & _MASK
    return found


def _list_hash(codes: list[int]) -> int:
    found = 1
    for code in codes:
        found = 31 * found + code & _MASK
    return found


def _value_hash(value: bytes) -> int:
    return 0 if value in _WITHOUT_HASH else _string_hash(value)


def _taken_new(key: bytes, fields: frozenset[bytes]) -> list[int]:
    """Hash codes of the values of the hash fields. A value ends at the last comma before the next colon with one."""
    taken: list[int] = []
    rest = key if b"," in key else b""
    while b":" in rest:
        name, _, value = rest.partition(b":")
        comma = value.find(b",")
        colon = value.find(b":", comma) if comma >= 0 else -1
        rest = b""
        if colon >= 0:
            cut = value.rindex(b",", 0, colon)
            value, rest = value[:cut], value[cut + 1 :]
        if name in fields:
            taken.append(_value_hash(value))
    return taken


def _taken_old(key: bytes, fields: frozenset[bytes]) -> list[int]:
    if b":" not in key:
        return [_string_hash(key)]
    taken = []
    for part in key.rstrip(b",").split(b","):
        name, colon, value = part.partition(b":")
        if not colon:
            taken.append(_string_hash(part))
        elif name in fields:
            taken.append(_value_hash(value))
    return taken


def java_order_key(text: str | bytes) -> bytes:
    """A key for ``sorted``/``min``/``max`` that gives the order of ``java.lang.String.compareTo``.

    Args:
        text: the string, or its UTF-8 bytes.
    """
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return encoded.translate(_TO_JAVA)


def orders_may_differ(text: str | bytes) -> bool:
    """Whether the text holds a character from U+E000 up, so that a comparison with it depends on the order."""
    encoded = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return any(byte >= _FIRST_DIFFERENT for byte in encoded)


def java_min_max(keys: StringArray) -> tuple[str, str] | None:
    """Least and greatest string in Java's order; None if there is no string. Nulls are left out."""
    array = plain_strings(keys)
    if array.null_count:
        array = array.drop_null()
    if len(array) == 0:
        return None
    special = _rows_with_special(array)
    if special is None:
        return _byte_min_max(array)
    odd = sorted(array.filter(pa.array(special)).unique().to_pylist(), key=java_order_key)
    ends = [odd[0], odd[-1]]
    if not special.all():
        ends.extend(_byte_min_max(array.filter(pa.array(~special))))
    return min(ends, key=java_order_key), max(ends, key=java_order_key)


def _byte_min_max(array: pa.Array) -> tuple[str, str]:
    ends = pc.min_max(array)
    return ends["min"].as_py(), ends["max"].as_py()


def _rows_with_special(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
    """Bool [n]: which strings hold a character from U+E000 up; None if no string does."""
    buffers = string_buffers(array)
    start, end = int(buffers.offsets[0]), int(buffers.offsets[-1])
    places = np.flatnonzero(buffers.data[start:end] >= _FIRST_DIFFERENT)
    if len(places) == 0:
        return None
    mask = np.zeros(len(buffers), dtype=np.bool_)
    mask[np.searchsorted(buffers.offsets, places + start, side="right") - 1] = True
    return mask
