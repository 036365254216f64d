"""Column chunks in the thrift bytes of a Parquet footer: where their data is, their statistics, where a number stands.

pyarrow has this too, but on some damaged footers its metadata objects end the process instead of raising (a C++
exception crosses a boundary that catches none). So the few numbers that are needed are found here, in compiled code
that walks the bytes once, never reads beyond them and allocates nothing by what they claim.

Thrift's compact protocol: a struct is a row of fields, each a byte ``(id delta << 4) | type`` (delta 0: the id follows
as zigzag varint), ended by a 0 byte; a list is a byte ``(size << 4) | type`` (size 15: a varint follows); numbers are
zigzag varints; texts have a varint length in front. Of parquet.thrift's field numbers are used::

    FileMetaData.2 schema, 3 num_rows, 4 row_groups -> RowGroup.1 columns -> ColumnChunk.2 file_offset,
    3 meta_data -> 6 total_uncompressed_size, 7 total_compressed_size, 9 data_page_offset, 10 index_page_offset,
    11 dictionary_page_offset, 12 statistics -> 3 null_count, 5 max_value, 6 min_value; 14 bloom_filter_offset;
    ColumnChunk.4 and on: page indexes, encryption; FileMetaData.5 key_value_metadata
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from lakeindex.frozen import Frozen
from lakeindex.parquet.thrift_walk import (
    DATA,
    DATA_AT,
    DATA_END,
    DICTIONARY,
    DICTIONARY_AT,
    DICTIONARY_END,
    END,
    ENTRIES_AT,
    ENTRIES_END,
    FILE_OFFSET_AT,
    FILE_OFFSET_END,
    FULL_SIZE,
    GROUPS_AT,
    GROUPS_END,
    MAX_AT,
    MAX_BYTES,
    MIN_AT,
    MIN_BYTES,
    MORE,
    NEEDED_PLACES,
    NULLS,
    NUMBERS,
    PLACES,
    ROWS_AT,
    ROWS_END,
    SCHEMA_AT,
    SCHEMA_END,
    SIZE,
    START,
    STATISTICS_AT,
    STATISTICS_END,
    walk,
)

Numbers = npt.NDArray[np.int64]

_NOWHERE: Final = np.int64(-1)


class ColumnChunk(Frozen):
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

    Returns:
        None if the bytes are not a footer of so many row groups.
    """
    walked = _walked(raw, column, 1, row_groups)
    return None if walked is None else [_chunk(raw, columns[0]) for columns in walked[0].tolist()]


class ChunkText(NamedTuple):
    """A ColumnChunk struct in a footer, and where its page offsets stand in it; a tuple, for every file has dozens.

    Attributes:
        start: offset of the chunk's first page in the file.
        size: compressed bytes.
        full_size: bytes before compression.
        span: where the struct begins and ends in the footer.
        offsets: places in the footer and values of ``file_offset``, ``data_page_offset`` and, if there is one,
            ``dictionary_page_offset``, in the order they stand: (begin, end, value; the value of ``file_offset`` is 0).
        statistics: where its Statistics struct begins and ends in the footer; None if it has none.
        nulls: how many nulls they say it has; None if they do not say.
        ends: where the least and the greatest value by its statistics begin and end in the footer;
            None if they do not say both.
        has_dictionary: its first page is a dictionary.
        has_more: it points at a page index, a bloom filter or anything else outside of its pages.
    """

    start: int
    size: int
    full_size: int
    span: tuple[int, int]
    offsets: tuple[tuple[int, int, int], ...]
    statistics: tuple[int, int] | None
    nulls: int | None
    ends: tuple[tuple[int, int], tuple[int, int]] | None
    has_dictionary: bool
    has_more: bool


class FooterText(Frozen):
    """Where things stand in the thrift bytes of a footer.

    Attributes:
        schema: begin and end of the list of schema elements.
        rows: begin and end of the number of rows.
        groups: begin and end of the list of row groups.
        entries: begin and end of the list of key/values; None if the file has none.
        chunks: ``chunks[row group][column]``.
    """

    schema: tuple[int, int]
    rows: tuple[int, int]
    groups: tuple[int, int]
    entries: tuple[int, int] | None
    chunks: tuple[tuple[ChunkText, ...], ...]


def footer_text(raw: bytes, columns: int, row_groups: int) -> FooterText | None:
    """Where the parts of a footer stand.

    Returns:
        None if the bytes are not such a footer.
    """
    walked = _walked(raw, 0, columns, row_groups)
    if walked is None:
        return None
    found, places = walked
    if (places[:NEEDED_PLACES] == _NOWHERE).any() or (
        found[:, :, [START, END, FILE_OFFSET_AT, DATA_AT, SIZE]] == _NOWHERE
    ).any():
        return None
    at = places.tolist()
    chunks = tuple(tuple(_chunk_text(numbers) for numbers in group) for group in found.tolist())
    entries = None if at[ENTRIES_END] < 0 else (at[ENTRIES_AT], at[ENTRIES_END])
    return FooterText(
        (at[SCHEMA_AT], at[SCHEMA_END]), (at[ROWS_AT], at[ROWS_END]), (at[GROUPS_AT], at[GROUPS_END]), entries, chunks
    )


def _walked(raw: bytes, first: int, columns: int, row_groups: int) -> tuple[npt.NDArray[np.int64], Numbers] | None:
    found = np.full((row_groups, columns, NUMBERS), _NOWHERE, dtype=np.int64)
    places = np.full(PLACES, _NOWHERE, dtype=np.int64)
    seen = np.zeros(1, dtype=np.int64)
    walk(raw, first, found, places, seen)
    return None if seen[0] != row_groups else (found, places)


def _chunk_text(numbers: list[int]) -> ChunkText:
    ends = None
    if numbers[MIN_AT] >= 0 and numbers[MAX_AT] >= 0:
        low, high = numbers[MIN_AT], numbers[MAX_AT]
        ends = (low, low + numbers[MIN_BYTES]), (high, high + numbers[MAX_BYTES])
    offsets = [(numbers[FILE_OFFSET_AT], numbers[FILE_OFFSET_END], 0)]
    offsets.append((numbers[DATA_AT], numbers[DATA_END], numbers[DATA]))
    if numbers[DICTIONARY_AT] >= 0:
        offsets.append((numbers[DICTIONARY_AT], numbers[DICTIONARY_END], numbers[DICTIONARY]))
    return ChunkText(
        numbers[DICTIONARY] if numbers[DICTIONARY] > 0 else numbers[DATA],
        numbers[SIZE],
        numbers[FULL_SIZE],
        (numbers[START], numbers[END]),
        tuple(sorted(offsets)),
        None if numbers[STATISTICS_END] < 0 else (numbers[STATISTICS_AT], numbers[STATISTICS_END]),
        None if numbers[NULLS] < 0 else numbers[NULLS],
        ends,
        numbers[DICTIONARY] > 0,
        numbers[MORE] >= 0,
    )


def _chunk(raw: bytes, numbers: list[int]) -> ColumnChunk:
    start = numbers[DICTIONARY] if numbers[DICTIONARY] > 0 else numbers[DATA]
    ends = None
    if numbers[MIN_AT] >= 0 and numbers[MAX_AT] >= 0:
        low = raw[numbers[MIN_AT] : numbers[MIN_AT] + numbers[MIN_BYTES]]
        high = raw[numbers[MAX_AT] : numbers[MAX_AT] + numbers[MAX_BYTES]]
        ends = low, high
    return ColumnChunk(start, numbers[SIZE], ends)
