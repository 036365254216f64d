"""The walks over the bytes of a footer and of a page header, which are Thrift. :mod:`lakeindex.parquet.footer_text`
says what the first looks for, :mod:`lakeindex.parquet.pages` uses the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from lakeindex.hashing.loops import compiled

# what is kept of a chunk; *_AT and *_END are places in the footer
SIZE, DATA, DICTIONARY, MIN_AT, MIN_BYTES, MAX_AT, MAX_BYTES = 0, 1, 2, 3, 4, 5, 6
START, END, FILE_OFFSET_AT, FILE_OFFSET_END, DATA_AT, DATA_END, DICTIONARY_AT, DICTIONARY_END = range(7, 15)
FULL_SIZE, MORE = 15, 16
STATISTICS_AT, STATISTICS_END, NULLS = 17, 18, 19
NUMBERS: Final = 20
# what is kept of the file; entries are its key/values, which it need not have
SCHEMA_AT, SCHEMA_END, ROWS_AT, ROWS_END, GROUPS_AT, GROUPS_END, ENTRIES_AT, ENTRIES_END = range(8)
NEEDED_PLACES: Final = 6
PLACES: Final = 8

Bytes = Sequence[int]
Numbers = npt.NDArray[np.int64]

_DEEPEST: Final = 24
_HIGHEST: Final = -(2**63)
MOST_FIELD: Final = 2**15

# thrift types
_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 11, 12
# what an open container is
_OTHER, _FILE, _ROW_GROUPS, _ROW_GROUP, _COLUMNS, _CHUNK, _META, _STATISTICS, _SCHEMA, _ENTRIES = range(10)


def _varint(data: Bytes, at: int) -> tuple[int, int]:
    """A number of 64 bits, the highest as its sign, and the place behind it; place -1 if the bytes hold none."""
    value = 0
    for byte in range(10):
        if at < 0 or at >= len(data):
            return value, -1
        part = int(data[at])
        at += 1
        if byte < 9:
            value |= (part & 0x7F) << (7 * byte)
        elif part == 1:
            value |= _HIGHEST
        if part < 0x80:
            return value, at if byte < 9 or part < 2 else -1
    return value, -1


def _unzigzag(value: int) -> int:
    return ((value >> 1) & ~_HIGHEST) ^ -(value & 1)


def _role_inside(  # noqa: PLR0911 - a table
    role: int,
    field: int,
    kind: int,
    is_wanted: bool,  # noqa: FBT001 - compiled: no keywords
) -> int:
    """What a container is that opens as this field (or element) of another one."""
    if role == _FILE and field == 2 and kind == _LIST:
        return _SCHEMA
    if role == _FILE and field == 4 and kind == _LIST:
        return _ROW_GROUPS
    if role == _FILE and field == 5 and kind == _LIST:
        return _ENTRIES
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


def _keep_number(  # noqa: C901, PLR0917 - compiled: no keywords, a table
    role: int, field: int, value: int, begin: int, end: int, row: Numbers, places: Numbers
) -> None:
    """Keep a number that stands at ``[begin, end)``."""
    if role == _META:
        if field == 6:
            row[FULL_SIZE] = value
        elif field == 7:
            row[SIZE] = value
        elif field == 9:
            row[DATA] = value
            row[DATA_AT] = begin
            row[DATA_END] = end
        elif field == 11:
            row[DICTIONARY] = value
            row[DICTIONARY_AT] = begin
            row[DICTIONARY_END] = end
        elif field == 10 or field == 14:  # noqa: PLR1714 - compiled
            row[MORE] = field
    elif role == _CHUNK:
        if field == 2:
            row[FILE_OFFSET_AT] = begin
            row[FILE_OFFSET_END] = end
        else:
            row[MORE] = field
    elif role == _STATISTICS and field == 3:
        row[NULLS] = value
    elif role == _FILE and field == 3:
        places[ROWS_AT] = begin
        places[ROWS_END] = end


def _open(role: int, field: int, at: int, places: Numbers) -> None:
    """A list of the file opens at ``at``."""
    if role == _FILE and field == 2:
        places[SCHEMA_AT] = at
    elif role == _FILE and field == 4:
        places[GROUPS_AT] = at
    elif role == _FILE and field == 5:
        places[ENTRIES_AT] = at


def _close(role: int, at: int, row: Numbers, places: Numbers) -> None:
    """A container ends at ``at``."""
    if role == _CHUNK:
        row[END] = at
    elif role == _STATISTICS:
        row[STATISTICS_END] = at
    elif role == _SCHEMA:
        places[SCHEMA_END] = at
    elif role == _ROW_GROUPS:
        places[GROUPS_END] = at
    elif role == _ENTRIES:
        places[ENTRIES_END] = at


def _keep_text(field: int, at: int, length: int, row: Numbers) -> None:
    """Keep where a text of a chunk's statistics stands."""
    if field == 6:
        row[MIN_AT] = at
        row[MIN_BYTES] = length
    elif field == 5:
        row[MAX_AT] = at
        row[MAX_BYTES] = length


# One loop each, branch for branch that of loops.c, which answers the same.
@compiled("u1* int i8*** i8* i8*")
def walk(data: Bytes, first: int, found: Numbers, places: Numbers, seen: Numbers) -> None:  # noqa: C901, PLR0911, PLR0912, PLR0915
    """Walk a FileMetaData, keep what it says of columns from ``first`` on; ``seen[0]``: row groups, -1 if senseless."""
    role = [0] * _DEEPEST
    left = [0] * _DEEPEST  # elements left of a list; -1: a struct
    kinds = [0] * _DEEPEST  # element type of a list
    fields = [0] * _DEEPEST  # last field id of a struct, element number of a list
    depth = at = groups = 0
    role[0] = _FILE
    left[0] = -1
    seen[0] = -1
    size, wanted_groups, wanted_columns = len(data), found.shape[0], found.shape[1]
    nothing = np.zeros(NUMBERS, np.int64)
    row = nothing  # of the column chunk that is open, if it is wanted
    while depth >= 0:
        inside = role[depth]
        is_list = left[depth] >= 0
        if is_list:
            if left[depth] == 0:
                _close(inside, at, row, places)
                depth -= 1
                continue
            left[depth] -= 1
            kind = kinds[depth]
            field = fields[depth]
            fields[depth] += 1
        else:
            if at >= size:
                return
            head = int(data[at])
            at += 1
            kind = head & 15
            if kind == _STOP:
                _close(inside, at, row, places)
                depth -= 1
                continue
            if head >> 4:
                fields[depth] += head >> 4
            else:
                coded, at = _varint(data, at)
                if at < 0:
                    return
                fields[depth] = _unzigzag(coded)
            if fields[depth] > MOST_FIELD or fields[depth] < -MOST_FIELD:
                return  # thrift has 16 bits for it
            field = fields[depth]
        if kind in (_TRUE, _FALSE):
            at += 1 if is_list else 0
        elif kind in (_BYTE, _DOUBLE):
            at += 1 if kind == _BYTE else 8
        elif kind == _BINARY:
            coded, at = _varint(data, at)
            if at < 0 or coded < 0 or coded > size - at:
                return
            if inside == _STATISTICS:
                _keep_text(field, at, coded, row)
            at += coded
        elif kind in (_LIST, _SET):
            if at >= size or depth + 1 == _DEEPEST:
                return
            _open(inside, field, at, places)
            head = int(data[at])
            at += 1
            count = head >> 4
            if count == 15:
                count, at = _varint(data, at)
            if at < 0 or count < 0 or count > size - at:
                return  # an element takes a byte at least
            depth += 1
            role[depth] = _role_inside(inside, field, _LIST, False)
            left[depth] = count
            kinds[depth] = head & 15
            fields[depth] = 0
        elif kind == _STRUCT:
            if depth + 1 == _DEEPEST:
                return
            depth += 1
            role[depth] = _role_inside(inside, field, _STRUCT, first <= field < first + wanted_columns)
            left[depth] = -1
            fields[depth] = 0
            if role[depth] == _ROW_GROUP:
                groups += 1
            elif role[depth] == _CHUNK:
                row = found[groups - 1, field - first] if groups <= wanted_groups else nothing
                row[START] = at
            elif role[depth] == _STATISTICS:
                row[STATISTICS_AT] = at
            elif inside == _CHUNK and field != 3:
                row[MORE] = field
        elif 4 <= kind <= 6:
            begin = at
            coded, at = (int(data[at]), at + 1) if at < size and data[at] < 0x80 else _varint(data, at)  # or it is long
            if at < 0:
                return
            if inside != _OTHER:
                _keep_number(inside, field, _unzigzag(coded), begin, at, row, places)
        else:
            return  # no such type, or a map, which a footer has none of
        if at > size:
            return
    seen[0] = groups


# what is kept of a header; HEADER_END is its place in the bytes, or one of the two below
HEADER_END, BODY_BYTES, CRC, HAS_CRC = 0, 1, 2, 3
PAGE_NUMBERS: Final = 4
CUT_SHORT: Final = -1
SENSELESS: Final = -2

_DEEPEST_HEADER: Final = 8
_BODY_FIELD: Final = 3
_CRC_FIELD: Final = 4


def _keep(depth: int, field: int, value: int, found: Numbers) -> None:
    if depth == 0 and field == _BODY_FIELD:
        found[BODY_BYTES] = value
    elif depth == 0 and field == _CRC_FIELD:
        found[CRC] = value
        found[HAS_CRC] = 1


@compiled("u1* int i8*")
def page_header(data: Bytes, start: int, found: Numbers) -> None:  # noqa: C901, PLR0911, PLR0912, PLR0915
    """Read the PageHeader struct at ``start``; never beyond the bytes that are there."""
    left = [0] * _DEEPEST_HEADER  # elements left of a list; -1: a struct
    kinds = [0] * _DEEPEST_HEADER
    fields = [0] * _DEEPEST_HEADER
    depth = 0
    left[0] = -1
    at = start
    found[HEADER_END] = CUT_SHORT
    found[BODY_BYTES] = -1
    found[CRC] = 0
    found[HAS_CRC] = 0
    while depth >= 0:
        if left[depth] >= 0:
            if left[depth] == 0:
                depth -= 1
                continue
            left[depth] -= 1
            kind = kinds[depth]
            in_list = True
        else:
            if at >= len(data):
                return
            head = int(data[at])
            at += 1
            kind = head & 15
            in_list = False
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
            if fields[depth] > MOST_FIELD or fields[depth] < -MOST_FIELD:
                found[HEADER_END] = SENSELESS
                return
        if kind in (_TRUE, _FALSE):
            at += 1 if in_list else 0
        elif kind == _BYTE:
            at += 1
        elif kind == _DOUBLE:
            at += 8
        elif kind == _BINARY:
            coded, at = _varint(data, at)
            if at < 0 or coded < 0 or coded > len(data) - at:
                return
            at += coded
        elif kind in (_LIST, _SET):
            if depth + 1 == _DEEPEST_HEADER:
                found[HEADER_END] = SENSELESS
                return
            if at >= len(data):
                return
            head = int(data[at])
            at += 1
            count = head >> 4
            if count == 15:
                count, at = _varint(data, at)
            if at < 0 or count < 0 or count > len(data) - at:
                return
            depth += 1
            left[depth] = count
            kinds[depth] = head & 15
        elif kind == _STRUCT:
            if depth + 1 == _DEEPEST_HEADER:
                found[HEADER_END] = SENSELESS
                return
            depth += 1
            left[depth] = -1
            fields[depth] = 0
        elif 4 <= kind <= 6:
            coded, at = _varint(data, at)
            if at < 0:
                return
            _keep(depth, fields[depth], _unzigzag(coded), found)
        else:
            found[HEADER_END] = SENSELESS
            return
        if at > len(data):
            return
    found[HEADER_END] = at
