"""Column chunks in the thrift bytes of a Parquet footer: where their data is, their statistics, where a number stands.

pyarrow has this too, but on some damaged footers its metadata objects end the process instead of raising (a C++
exception crosses a boundary that catches none). So the few numbers that are needed are found here, in compiled code
that walks the bytes once, never reads beyond them and allocates nothing by what they claim.

Thrift's compact protocol: a struct is a row of fields, each a byte ``(id delta << 4) | type`` (delta 0: the id follows
as zigzag varint), ended by a 0 byte; a list is a byte ``(size << 4) | type`` (size 15: a varint follows); numbers are
zigzag varints; texts have a varint length in front. Of parquet.thrift's field numbers are used::

    FileMetaData.2 schema, 3 num_rows, 4 row_groups -> RowGroup.1 columns -> ColumnChunk.2 file_offset,
    3 meta_data -> 6 total_uncompressed_size, 7 total_compressed_size, 9 data_page_offset, 10 index_page_offset,
    11 dictionary_page_offset, 12 statistics -> 5 max_value, 6 min_value; 14 bloom_filter_offset; ColumnChunk.4 and on:
    page indexes, encryption
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
_OTHER, _FILE, _ROW_GROUPS, _ROW_GROUP, _COLUMNS, _CHUNK, _META, _STATISTICS, _SCHEMA = 0, 1, 2, 3, 4, 5, 6, 7, 8
# what is kept of a chunk; *_AT and *_END are places in the footer
_SIZE, _DATA, _DICTIONARY, _MIN_AT, _MIN_BYTES, _MAX_AT, _MAX_BYTES = 0, 1, 2, 3, 4, 5, 6
_START, _END, _FILE_OFFSET_AT, _FILE_OFFSET_END, _DATA_AT, _DATA_END, _DICTIONARY_AT, _DICTIONARY_END = range(7, 15)
_FULL_SIZE, _MORE = 15, 16
_NUMBERS: Final = 17
# what is kept of the file
_SCHEMA_AT, _SCHEMA_END, _ROWS_AT, _ROWS_END, _GROUPS_AT, _GROUPS_END = 0, 1, 2, 3, 4, 5
_PLACES: Final = 6


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
    walked = _walked(raw, column, 1, row_groups)
    return None if walked is None else [_chunk(raw, columns[0]) for columns in walked[0].tolist()]


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A ColumnChunk struct in a footer, and where its page offsets stand in it.

    Attributes:
        start: offset of the chunk's first page in the file.
        size: compressed bytes.
        full_size: bytes before compression.
        span: where the struct begins and ends in the footer.
        offsets: places in the footer and values of ``file_offset``, ``data_page_offset`` and, if there is one,
            ``dictionary_page_offset``, in the order they stand: (begin, end, value; the value of ``file_offset`` is 0).
        has_dictionary: its first page is a dictionary.
        has_more: it points at a page index, a bloom filter or anything else outside of its pages.
    """

    start: int
    size: int
    full_size: int
    span: tuple[int, int]
    offsets: tuple[tuple[int, int, int], ...]
    has_dictionary: bool
    has_more: bool


@dataclass(frozen=True, slots=True)
class FooterText:
    """Where things stand in the thrift bytes of a footer.

    Attributes:
        schema: begin and end of the list of schema elements.
        rows: begin and end of the number of rows.
        groups: begin and end of the list of row groups.
        chunks: ``chunks[row group][column]``.
    """

    schema: tuple[int, int]
    rows: tuple[int, int]
    groups: tuple[int, int]
    chunks: tuple[tuple[ChunkText, ...], ...]


def footer_text(raw: bytes, columns: int, row_groups: int) -> FooterText | None:
    """Where the parts of a footer stand.

    Args:
        raw: thrift bytes of a footer.
        columns: how many leaf columns the file has.
        row_groups: how many row groups.

    Returns:
        None if the bytes are not such a footer.
    """
    walked = _walked(raw, 0, columns, row_groups)
    if walked is None:
        return None
    found, places = walked
    if (places == _NOWHERE).any() or (found[:, :, [_START, _END, _FILE_OFFSET_AT, _DATA_AT, _SIZE]] == _NOWHERE).any():
        return None
    at = places.tolist()
    chunks = tuple(tuple(_chunk_text(numbers) for numbers in group) for group in found.tolist())
    return FooterText(
        (at[_SCHEMA_AT], at[_SCHEMA_END]), (at[_ROWS_AT], at[_ROWS_END]), (at[_GROUPS_AT], at[_GROUPS_END]), chunks
    )


def _walked(raw: bytes, first: int, columns: int, row_groups: int) -> tuple[npt.NDArray[np.int64], Numbers] | None:
    found = np.full((row_groups, columns, _NUMBERS), _NOWHERE, dtype=np.int64)
    places = np.full(_PLACES, _NOWHERE, dtype=np.int64)
    seen = np.zeros(1, dtype=np.int64)
    _walk(np.frombuffer(raw, dtype=np.uint8), first, found, places, seen)
    return None if seen[0] != row_groups else (found, places)


def _chunk_text(numbers: list[int]) -> ChunkText:
    offsets = [(numbers[_FILE_OFFSET_AT], numbers[_FILE_OFFSET_END], 0)]
    offsets.append((numbers[_DATA_AT], numbers[_DATA_END], numbers[_DATA]))
    if numbers[_DICTIONARY_AT] >= 0:
        offsets.append((numbers[_DICTIONARY_AT], numbers[_DICTIONARY_END], numbers[_DICTIONARY]))
    return ChunkText(
        numbers[_DICTIONARY] if numbers[_DICTIONARY] > 0 else numbers[_DATA],
        numbers[_SIZE],
        numbers[_FULL_SIZE],
        (numbers[_START], numbers[_END]),
        tuple(sorted(offsets)),
        numbers[_DICTIONARY] > 0,
        numbers[_MORE] >= 0,
    )


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
    if role == _FILE and field == 2 and kind == _LIST:
        return _SCHEMA
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
def _keep_number(  # noqa: PLR0917 - compiled: no keywords
    role: int, field: int, value: np.int64, begin: int, end: int, row: Numbers, places: Numbers
) -> None:
    """Keep a number that stands at ``[begin, end)``."""
    if role == _META:
        if field == 6:
            row[_FULL_SIZE] = value
        elif field == 7:
            row[_SIZE] = value
        elif field == 9:
            row[_DATA] = value
            row[_DATA_AT] = begin
            row[_DATA_END] = end
        elif field == 11:
            row[_DICTIONARY] = value
            row[_DICTIONARY_AT] = begin
            row[_DICTIONARY_END] = end
        elif field == 10 or field == 14:  # noqa: PLR1714 - compiled
            row[_MORE] = field
    elif role == _CHUNK:
        if field == 2:
            row[_FILE_OFFSET_AT] = begin
            row[_FILE_OFFSET_END] = end
        else:
            row[_MORE] = field
    elif role == _FILE and field == 3:
        places[_ROWS_AT] = begin
        places[_ROWS_END] = end


@njit_inline
def _open(role: int, field: int, at: int, places: Numbers) -> None:
    """A list of the file opens at ``at``."""
    if role == _FILE and field == 2:
        places[_SCHEMA_AT] = at
    elif role == _FILE and field == 4:
        places[_GROUPS_AT] = at


@njit_inline
def _close(role: int, at: int, row: Numbers, places: Numbers) -> None:
    """A container ends at ``at``."""
    if role == _CHUNK:
        row[_END] = at
    elif role == _SCHEMA:
        places[_SCHEMA_END] = at
    elif role == _ROW_GROUPS:
        places[_GROUPS_END] = at


@njit_inline
def _keep_text(role: int, field: int, at: int, length: int, row: Numbers) -> None:
    if role == _STATISTICS and field == 6:
        row[_MIN_AT] = at
        row[_MIN_BYTES] = length
    elif role == _STATISTICS and field == 5:
        row[_MAX_AT] = at
        row[_MAX_BYTES] = length


@njit_kernel(READ_BYTES, numba.int64, numba.int64[:, :, ::1], numba.int64[::1], numba.int64[::1])
def _walk(data: Bytes, first: int, found: npt.NDArray[np.int64], places: Numbers, seen: Numbers) -> None:  # noqa: C901, PLR0911, PLR0912, PLR0915 - one loop, as compiled code wants it
    """Walk a FileMetaData struct, keep what it says of columns from ``first`` on; ``seen[0]``: row groups, -1 if senseless."""
    role = np.zeros(_DEEPEST, np.int64)
    left = np.zeros(_DEEPEST, np.int64)  # elements left of a list; -1: a struct
    kinds = np.zeros(_DEEPEST, np.int64)  # element type of a list
    fields = np.zeros(_DEEPEST, np.int64)  # last field id of a struct, element number of a list
    depth = 0
    role[0] = _FILE
    left[0] = -1
    at = 0
    groups = 0
    column = np.int64(0)  # of the wanted ones
    seen[0] = -1
    nothing = np.zeros(_NUMBERS, np.int64)
    while depth >= 0:
        row = found[groups - 1, column] if 0 < groups <= found.shape[0] and found.shape[1] > 0 else nothing
        is_list = left[depth] >= 0
        if is_list:
            if left[depth] == 0:
                _close(role[depth], at, row, places)
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
                _close(role[depth], at, row, places)
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
            _open(role[depth], field, at, places)
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
            role[depth] = _role_inside(role[depth - 1], field, _STRUCT, first <= field < first + found.shape[1])
            left[depth] = -1
            fields[depth] = 0
            if role[depth] == _ROW_GROUP:
                groups += 1
            elif role[depth] == _CHUNK and 0 < groups <= found.shape[0]:
                column = field - first
                found[groups - 1, column, _START] = at
            elif role[depth - 1] == _CHUNK and field != 3:
                row[_MORE] = field
        elif 4 <= kind <= 6:
            begin = at
            coded, at = _varint(data, at)
            if at < 0:
                return
            _keep_number(role[depth], field, _unzigzag(coded), begin, at, row, places)
        else:
            return  # no such type, or a map, which a footer has none of
        if at > len(data):
            return
    seen[0] = groups
