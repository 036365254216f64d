"""Compiled search of keys in a data block of an HFile (numba, imported late)."""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
import numpy.typing as npt

from lakeindex.hashing.byte_order import compare_bytes
from lakeindex.hashing.compile_cache import READ_BYTES, READ_OFFSETS, njit_inline, njit_kernel

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

_HEAD: Final = 10
_SIGN: Final = 1 << 31
_SHORT_SIGN: Final = 1 << 15
_TABLE: Final = numba.int64[:, ::1]
# What a kernel says of the blocks.
FINE: Final = 0
NOT_PLAIN: Final = 1


@njit_inline
def _int_at(data: Bytes, at: int) -> int:
    """A signed number of four bytes, the first one the highest."""
    value = 0
    for i in range(4):
        value = value << 8 | int(data[at + i])
    return value - ((value & _SIGN) << 1)


@njit_inline
def _entry_at(data: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Where an entry's key ends, and where its value begins and ends; the first is -1 if they are not in the block."""
    key_end = value = stop = -1
    if end - at >= _HEAD:
        value = at + 8 + _int_at(data, at)
        stop = value + _int_at(data, at + 4)
        size = int(data[at + 8]) << 8 | int(data[at + 9])
        key_end = at + _HEAD + size
        if size & _SHORT_SIGN or key_end > value or stop < value or stop > end:
            key_end = -1
    return key_end, value, stop


@njit_kernel(READ_BYTES, _TABLE, numba.boolean, READ_BYTES, READ_OFFSETS, _TABLE)
def find_values(
    data: Bytes,
    places: Numbers,
    with_mvcc: bool,  # noqa: FBT001 - a kernel takes no keywords
    keys: Bytes,
    key_offsets: Numbers,
    found: Numbers,
) -> None:
    """Where the values of sorted keys are, in one pass over the blocks; of a key that stands there twice, the last one.

    Args:
        data: decoded blocks, one behind the other.
        places: of each block, where it ends, the number of the first key that can be in it, and that behind the last.
        with_mvcc: a byte, 0, is behind each value.
        keys: bytes of the keys.
        key_offsets: where each of them begins.
        found: is given where each key's value begins and ends; of what is not found, the row stays. One more row
            begins with what is said of the blocks: ``FINE``, or ``NOT_PLAIN``. Then an entry leaves its block, has a
            version of its own, or is not behind the one before it, and nothing else counts.
    """
    status = len(found) - 1
    found[status, 0] = NOT_PLAIN
    at = 0
    for block in range(len(places)):
        end = places[block, 0]
        wanted = places[block, 1]
        last = places[block, 2]
        before_from = before_to = at
        while at < end:
            key_from = at + _HEAD
            key_to, value, stop = _entry_at(data, at, end)
            if key_to < 0 or compare_bytes(data, before_from, before_to, data, key_from, key_to) > 0:
                return
            before_from, before_to = key_from, key_to
            while wanted < last:
                order = compare_bytes(keys, key_offsets[wanted], key_offsets[wanted + 1], data, key_from, key_to)
                if order == 0:
                    found[wanted, 0] = value
                    found[wanted, 1] = stop
                if order >= 0:
                    break
                wanted += 1
            at = stop
            if with_mvcc:
                if at >= end or data[at] != 0:
                    return
                at += 1
    found[status, 0] = FINE


@njit_kernel(READ_BYTES, READ_OFFSETS, READ_OFFSETS, numba.uint8[::1])
def copy_values(data: Bytes, starts: Numbers, offsets: Numbers, out: Bytes) -> None:
    """Values one behind the other: the one at ``starts[i]`` goes to ``out[offsets[i]:offsets[i + 1]]``."""
    for i in range(len(starts)):
        begin = starts[i]
        first = offsets[i]
        for j in range(offsets[i + 1] - first):
            out[first + j] = data[begin + j]
