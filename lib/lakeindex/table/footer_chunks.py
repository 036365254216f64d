"""One column's chunks in the thrift bytes of a Parquet footer: where their data is, and their statistics.

pyarrow has this too, but on some damaged footers its metadata objects end the process instead of raising (a C++
exception crosses a boundary that catches none). So the few numbers that are needed are found here, in compiled code
that walks the bytes once, never reads beyond them and allocates nothing by what they claim.

Thrift's compact protocol: a struct is a row of fields, each a byte ``(id delta << 4) | type`` (delta 0: the id follows
as zigzag varint), ended by a 0 byte; a list is a byte ``(size << 4) | type`` (size 15: a varint follows); numbers are
zigzag varints; texts have a varint length in front. Of parquet.thrift's field numbers are used::

    FileMetaData.4 row_groups -> RowGroup.1 columns -> ColumnChunk.3 meta_data -> 7 total_compressed_size,
    9 data_page_offset, 11 dictionary_page_offset, 12 statistics -> 5 max_value, 6 min_value
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numba
import numpy as np
import numpy.typing as npt

from lakeindex.hashing.murmur import READ_BYTES, njit_inline, njit_kernel

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

_DEEPEST: Final = 24
_NOWHERE: Final = np.int64(-1)

# thrift types
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
# what an open container is
_OTHER, _FILE, _ROW_GROUPS, _ROW_GROUP, _COLUMNS, _CHUNK, _META, _STATISTICS = 0, 1, 2, 3, 4, 5, 6, 7
# columns of the result
_SIZE, _DATA, _DICTIONARY, _MIN_AT, _MIN_BYTES, _MAX_AT, _MAX_BYTES = 0, 1, 2, 3, 4, 5, 6


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One row group's part of a column.

    Attributes:
        start: offset of its first page in the file.
        size: compressed bytes.
        ends: least and greatest value by its statistics; None if they do not say.
    """

    start: int
    size: int
    ends: tuple[bytes, bytes] | None


def column_chunks(raw: bytes, column: int, row_groups: int) -> list[ColumnChunk] | None:
    """Chunks of one column, by row group.

    Args:
        raw: thrift bytes of a footer.
        column: which leaf column.
        row_groups: how many row groups the footer has.

    Returns:
        None if the bytes are not a footer of so many row groups.
    """
    found = np.full((row_groups, 7), _NOWHERE, dtype=np.int64)
    seen = np.zeros(1, dtype=np.int64)
    _walk(np.frombuffer(raw, dtype=np.uint8), column, found, seen)
    if seen[0] != row_groups:
        return None
    return [_chunk(raw, numbers) for numbers in found.tolist()]


def _chunk(raw: bytes, numbers: list[int]) -> ColumnChunk:
    start = numbers[_DICTIONARY] if numbers[_DICTIONARY] > 0 else numbers[_DATA]
    ends = None
    if numbers[_MIN_AT] >= 0 and numbers[_MAX_AT] >= 0:
        low = raw[numbers[_MIN_AT] : numbers[_MIN_AT] + numbers[_MIN_BYTES]]
        high = raw[numbers[_MAX_AT] : numbers[_MAX_AT] + numbers[_MAX_BYTES]]
        ends = low, high
    return ColumnChunk(start, numbers[_SIZE], ends)


@njit_inline
def _varint(data: Bytes, at: int) -> tuple[np.uint64, int]:
    """A number and the place behind it; place -1 if the bytes end before it does."""
    value = np.uint64(0)
    for byte in range(10):
        if at < 0 or at >= len(data):
            return value, -1
        part = np.uint64(data[at])
        value |= (part & np.uint64(0x7F)) << np.uint64(7 * byte)
        at += 1
        if part < np.uint64(0x80):
            return value, at
    return value, -1


@njit_inline
def _unzigzag(value: np.uint64) -> np.int64:
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))


@njit_inline
def _role_inside(role: int, field: int, kind: int, is_wanted: bool) -> int:  # noqa: FBT001 - compiled: no keywords
    """What a container is that opens as this field (or element) of another one."""
    if role == _FILE and field == 4 and kind == _LIST:
        return _ROW_GROUPS
    if role == _ROW_GROUPS and kind == _STRUCT:
        return _ROW_GROUP
    if role == _ROW_GROUP and field == 1 and kind == _LIST:
        return _COLUMNS
    if role == _COLUMNS and kind == _STRUCT and is_wanted:
        return _CHUNK
    if role == _CHUNK and field == 3 and kind == _STRUCT:
        return _META
    if role == _META and field == 12 and kind == _STRUCT:
        return _STATISTICS
    return _OTHER


@njit_inline
def _keep_number(role: int, field: int, value: np.int64, row: Numbers) -> None:
    if role == _META and field == 7:
        row[_SIZE] = value
    elif role == _META and field == 9:
        row[_DATA] = value
    elif role == _META and field == 11:
        row[_DICTIONARY] = value


@njit_inline
def _keep_text(role: int, field: int, at: int, length: int, row: Numbers) -> None:
    if role == _STATISTICS and field == 6:
        row[_MIN_AT] = at
        row[_MIN_BYTES] = length
    elif role == _STATISTICS and field == 5:
        row[_MAX_AT] = at
        row[_MAX_BYTES] = length


@njit_kernel(READ_BYTES, numba.int64, numba.int64[:, ::1], numba.int64[::1])
def _walk(data: Bytes, column: int, found: Numbers, seen: Numbers) -> None:  # noqa: C901, PLR0911, PLR0912, PLR0915 - one loop, as compiled code wants it
    """Walk a FileMetaData struct; ``seen[0]`` becomes the row groups passed, or -1 if the bytes make no sense."""
    role = np.zeros(_DEEPEST, np.int64)
    left = np.zeros(_DEEPEST, np.int64)  # elements left of a list; -1: a struct
    kinds = np.zeros(_DEEPEST, np.int64)  # element type of a list
    fields = np.zeros(_DEEPEST, np.int64)  # last field id of a struct, element number of a list
    depth = 0
    role[0] = _FILE
    left[0] = -1
    at = 0
    groups = 0
    seen[0] = -1
    nothing = np.zeros(7, np.int64)
    while depth >= 0:
        is_list = left[depth] >= 0
        if is_list:
            if left[depth] == 0:
                depth -= 1
                continue
            left[depth] -= 1
            kind = kinds[depth]
            field = fields[depth]
            fields[depth] += 1
        else:
            if at >= len(data):
                return
            head = np.int64(data[at])
            at += 1
            kind = head & 15
            if kind == _STOP:
                depth -= 1
                continue
            if head >> 4:
                fields[depth] += head >> 4
            else:
                coded, at = _varint(data, at)
                if at < 0:
                    return
                fields[depth] = _unzigzag(coded)
            field = fields[depth]
        row = found[groups - 1] if 0 < groups <= len(found) else nothing
        if kind in (_TRUE, _FALSE):
            at += 1 if is_list else 0
        elif kind == _BYTE:
            at += 1
        elif kind == _DOUBLE:
            at += 8
        elif kind == _BINARY:
            coded, at = _varint(data, at)
            if at < 0 or coded > np.uint64(len(data) - at):
                return
            _keep_text(role[depth], field, at, int(coded), row)
            at += int(coded)
        elif kind in (_LIST, _SET):
            if at >= len(data) or depth + 1 == _DEEPEST:
                return
            head = np.int64(data[at])
            at += 1
            count = np.uint64(head >> 4)
            if head >> 4 == 15:
                count, at = _varint(data, at)
                if at < 0:
                    return
            if count > np.uint64(len(data) - at):
                return  # an element takes a byte at least
            depth += 1
            role[depth] = _role_inside(role[depth - 1], field, _LIST, False)
            left[depth] = np.int64(count)
            kinds[depth] = head & 15
            fields[depth] = 0
        elif kind == _STRUCT:
            if depth + 1 == _DEEPEST:
                return
            depth += 1
            role[depth] = _role_inside(role[depth - 1], field, _STRUCT, field == column)
            left[depth] = -1
            fields[depth] = 0
            if role[depth] == _ROW_GROUP:
                groups += 1
        elif 4 <= kind <= 6:
            coded, at = _varint(data, at)
            if at < 0:
                return
            _keep_number(role[depth], field, _unzigzag(coded), row)
        else:
            return  # no such type, or a map, which a footer has none of
        if at > len(data):
            return
    seen[0] = groups
