"""Java's ``String.hashCode`` and ``List.hashCode`` over UTF-8 buffers, compiled; and which parts of a key Hudi hashes.

``String.hashCode`` runs over UTF-16 units, ``h = 31 * h + unit`` from 0; ``List.hashCode`` over hash codes of its elements,
``h = 31 * h + code`` from 1 (a null has code 0). All arithmetic is modulo 2**32.

Hudi's bucket index hashes a list of strings made from the record key as it is stored, and its releases differ in which
strings those are (measured against the jars of both; ``tests/vectors/keys_12.json``, ``keys_15.json``):

* **1.x**: a key without ``,`` or without ``:`` is one string. Else it is read as ``field:value`` pairs; a value ends at the last
  ``,`` before the next ``:`` that has one in between, so values may hold both. Values of the hash fields are the strings. If
  there is none, the whole key is.
* **0.15**: a key without ``:`` is one string. Else it is split at every ``,`` (empty ends are dropped) and each part at its
  first ``:``; a part without one is a string as it is, of the others the values of the hash fields. There may be none: hash 1.

The values ``__null__`` (null) and ``__empty__`` (the empty string) have hash 0, both.

This module imports numba; it is imported only where keys are hashed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.hashing.arrow import StringArray, string_buffers
from lakeindex.hashing.murmur import READ_BYTES, READ_OFFSETS, njit_inline, njit_kernel

_COMMA: Final = np.uint8(ord(","))
_COLON: Final = np.uint8(ord(":"))
_FACTOR: Final = np.uint32(31)
_NULL: Final = np.frombuffer(b"__null__", np.uint8)
_EMPTY: Final = np.frombuffer(b"__empty__", np.uint8)


@njit_inline
def _string_hash(data: npt.NDArray[np.uint8], start: int, end: int) -> np.uint32:
    """``String.hashCode`` of UTF-8 bytes; characters above U+FFFF are two units."""
    h = np.uint32(0)
    i = start
    while i < end:
        b = np.uint32(data[i])
        if b < np.uint32(0x80):
            h = np.uint32(h * _FACTOR + b)
            i += 1
        elif b < np.uint32(0xE0):
            unit = ((b & np.uint32(0x1F)) << np.uint32(6)) | (np.uint32(data[i + 1]) & np.uint32(0x3F))
            h = np.uint32(h * _FACTOR + unit)
            i += 2
        elif b < np.uint32(0xF0):
            unit = (b & np.uint32(0x0F)) << np.uint32(12)
            unit |= (np.uint32(data[i + 1]) & np.uint32(0x3F)) << np.uint32(6)
            unit |= np.uint32(data[i + 2]) & np.uint32(0x3F)
            h = np.uint32(h * _FACTOR + unit)
            i += 3
        else:
            point = (b & np.uint32(0x07)) << np.uint32(18)
            point |= (np.uint32(data[i + 1]) & np.uint32(0x3F)) << np.uint32(12)
            point |= (np.uint32(data[i + 2]) & np.uint32(0x3F)) << np.uint32(6)
            point |= np.uint32(data[i + 3]) & np.uint32(0x3F)
            point -= np.uint32(0x10000)
            h = np.uint32(h * _FACTOR + (np.uint32(0xD800) | (point >> np.uint32(10))))
            h = np.uint32(h * _FACTOR + (np.uint32(0xDC00) | (point & np.uint32(0x3FF))))
            i += 4
    return h


@njit_inline
def _find(data: npt.NDArray[np.uint8], start: int, end: int, byte: np.uint8) -> int:
    """Where a byte is first, or -1."""
    place = -1
    i = start
    while i < end and place < 0:
        if data[i] == byte:
            place = i
        i += 1
    return place


@njit_inline
def _equals(
    data: npt.NDArray[np.uint8], start: int, end: int, text: npt.NDArray[np.uint8], first: int, last: int
) -> bool:
    same = end - start == last - first
    i = 0
    while same and i < end - start:
        same = data[start + i] == text[first + i]
        i += 1
    return same


@njit_inline
def _is_listed(
    data: npt.NDArray[np.uint8],
    start: int,
    end: int,
    names: npt.NDArray[np.uint8],
    name_offsets: npt.NDArray[np.int64],
) -> bool:
    listed = False
    for f in range(len(name_offsets) - 1):
        if _equals(data, start, end, names, name_offsets[f], name_offsets[f + 1]):
            listed = True
    return listed


@njit_inline
def _value_hash(data: npt.NDArray[np.uint8], start: int, end: int) -> np.uint32:
    """Hash of a pair's value; of both placeholders it is 0."""
    h = np.uint32(0)
    if not _equals(data, start, end, _NULL, 0, 8) and not _equals(data, start, end, _EMPTY, 0, 9):
        h = _string_hash(data, start, end)
    return h


@njit_kernel(READ_BYTES, READ_OFFSETS, READ_BYTES, READ_OFFSETS, numba.uint32[::1])
def _hash_new(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    names: npt.NDArray[np.uint8],
    name_offsets: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint32],
) -> None:
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        h = np.uint32(1)
        taken = 0
        colon = _find(data, start, end, _COLON)
        if colon >= 0 and _find(data, start, end, _COMMA) >= 0:
            pair = start
            while colon >= 0:
                # The value ends at the last comma before the first further colon that has a comma before it.
                value_end = end
                comma = -1
                i = colon + 1
                while i < end and value_end == end:
                    if data[i] == _COMMA:
                        comma = i
                    elif data[i] == _COLON and comma >= 0:
                        value_end = comma
                    i += 1
                if _is_listed(data, pair, colon, names, name_offsets):
                    h = np.uint32(h * _FACTOR + _value_hash(data, colon + 1, value_end))
                    taken += 1
                pair = value_end + 1
                colon = _find(data, pair, end, _COLON)
        if taken == 0:
            h = np.uint32(_FACTOR + _string_hash(data, start, end))
        out[row] = h


@njit_kernel(READ_BYTES, READ_OFFSETS, READ_BYTES, READ_OFFSETS, numba.uint32[::1])
def _hash_old(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    names: npt.NDArray[np.uint8],
    name_offsets: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint32],
) -> None:
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        if _find(data, start, end, _COLON) < 0:
            out[row] = np.uint32(_FACTOR + _string_hash(data, start, end))
            continue
        while end > start and data[end - 1] == _COMMA:
            end -= 1
        h = np.uint32(1)
        part = start
        while part <= end:
            stop = _find(data, part, end, _COMMA)
            if stop < 0:
                stop = end
            colon = _find(data, part, stop, _COLON)
            if colon < 0:
                h = np.uint32(h * _FACTOR + _string_hash(data, part, stop))
            elif _is_listed(data, part, colon, names, name_offsets):
                h = np.uint32(h * _FACTOR + _value_hash(data, colon + 1, stop))
            part = stop + 1
        out[row] = h


@njit_kernel(READ_BYTES, READ_OFFSETS, numba.uint32[::1])
def _hash_strings(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], out: npt.NDArray[np.uint32]) -> None:
    for row in range(len(offsets) - 1):
        out[row] = _string_hash(data, offsets[row], offsets[row + 1])


def string_hashes(keys: StringArray) -> npt.NDArray[np.int32]:
    """``String.hashCode`` of each key: int32 [n].

    Raises:
        InvariantError: a key is null.
    """
    buffers = string_buffers(keys)
    out = np.empty(len(buffers), dtype=np.uint32)
    _hash_strings(buffers.data, buffers.offsets, out)
    return out.view(np.int32)


def bucket_hashes(keys: StringArray, fields: Sequence[str], *, old_rule: bool = False) -> npt.NDArray[np.int32]:
    """``List.hashCode`` of what Hudi hashes of each key: int32 [n].

    Args:
        keys: record keys as they are stored.
        fields: names of the hash fields.
        old_rule: which strings of a key are hashed: as Hudi 0.15 (True) or 1.x does.

    Raises:
        InvariantError: a key is null.
    """
    buffers = string_buffers(keys)
    names = string_buffers(pa.array(list(fields), pa.string()))
    out = np.empty(len(buffers), dtype=np.uint32)
    kernel = _hash_old if old_rule else _hash_new
    kernel(buffers.data, buffers.offsets, names.data, names.offsets, out)
    return out.view(np.int32)
