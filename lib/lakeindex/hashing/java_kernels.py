"""Compiled loops of Java's hashes (numba, imported late); :mod:`lakeindex.hashing.java_hash` says what they are."""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
import numpy.typing as npt

from lakeindex.hashing.compile_cache import READ_BYTES, READ_OFFSETS, njit_inline, njit_kernel

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
def hash_new(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    names: npt.NDArray[np.uint8],
    name_offsets: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint32],
) -> None:
    """``List.hashCode`` of each key's parts as Hudi 1.x takes them."""
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
def hash_old(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    names: npt.NDArray[np.uint8],
    name_offsets: npt.NDArray[np.int64],
    out: npt.NDArray[np.uint32],
) -> None:
    """``List.hashCode`` of each key's parts as Hudi 0.15 takes them."""
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
def hash_strings(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], out: npt.NDArray[np.uint32]) -> None:
    """``String.hashCode`` of each key."""
    for row in range(len(offsets) - 1):
        out[row] = _string_hash(data, offsets[row], offsets[row + 1])
