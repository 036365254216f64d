from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.parquet.footer_text import ColumnChunk, column_chunks

ROWS = pa.table(
    {
        "text": [f"key-{i:03d}" for i in range(100)],
        "number": range(100),
        "nested": [{"a": f"é{i % 7}", "b": [i, i + 1]} for i in range(100)],
        "empty": pa.array([None] * 100, pa.string()),
    }
)


def written(*, stats: bool = True, rows: int = 100, group: int = 30, columns: int = 0) -> bytes:
    table = ROWS.slice(0, rows)
    for number in range(columns):
        table = table.append_column(f"more_{number}", table.column("number"))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=group, write_statistics=stats)
    return sink.getvalue().to_pybytes()


def footer_bytes(content: bytes) -> bytes:
    (length,) = struct.unpack("<I", content[-8:-4])
    return content[-8 - length : -8]


def by_pyarrow(content: bytes, column: int) -> list[ColumnChunk]:
    metadata = pq.read_metadata(pa.BufferReader(content))
    found = []
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(column)
        stats = chunk.statistics
        has_ends = stats is not None and stats.has_min_max
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        ends = (
            (bytes(stats.min_raw), bytes(stats.max_raw)) if has_ends and stats.physical_type == "BYTE_ARRAY" else None
        )
        found.append(ColumnChunk(start, chunk.total_compressed_size, ends))
    return found


@pytest.mark.parametrize("stats", [True, False])
@pytest.mark.parametrize(("rows", "group", "columns"), [(100, 30, 0), (100, 1, 20), (1, 5, 0), (0, 5, 3)])
def test_equals_pyarrow(stats: bool, rows: int, group: int, columns: int) -> None:
    content = written(stats=stats, rows=rows, group=group, columns=columns)
    metadata = pq.read_metadata(pa.BufferReader(content))
    for column in range(metadata.num_columns):
        if metadata.schema.column(column).physical_type == "BYTE_ARRAY":
            chunks = column_chunks(footer_bytes(content), column, metadata.num_row_groups)
            assert chunks == by_pyarrow(content, column)


def test_other_number_of_row_groups_is_refused() -> None:
    raw = footer_bytes(written())
    assert column_chunks(raw, 0, 4) is not None
    for groups in (0, 3, 5, 1_000):
        assert column_chunks(raw, 0, groups) is None


def test_column_that_is_not_there_has_no_place() -> None:
    assert column_chunks(footer_bytes(written()), 99, 4) == [ColumnChunk(-1, -1, None)] * 4


@pytest.mark.parametrize("part", range(16))
def test_cut_footer_is_refused(part: int) -> None:
    raw = footer_bytes(written())
    assert column_chunks(raw[: len(raw) * part // 16], 0, 4) is None


@given(st.binary(max_size=300), st.integers(0, 5), st.integers(0, 5))
def test_any_bytes_are_walked_to_an_end(raw: bytes, column: int, groups: int) -> None:
    chunks = column_chunks(raw, column, groups)
    assert chunks is None or len(chunks) == groups


@pytest.mark.parametrize(
    "raw",
    [
        b"\x49" * 1_000,  # lists of lists of lists
        b"\x4c" * 1_000,  # structs in structs
        b"\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a text of 2**64 bytes
        b"\x49\xfc\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # a list of 2**64 structs
        b"\x49\xf1\xff\xff\xff\xff\x07" + b"\x01" * 50,  # a list of two billion flags
        b"\x4b\x01\x88",  # a map
        b"\x4d",  # no such type
        b"\x06" + b"\x80" * 20,  # a number without end
        b"\x00",  # nothing
    ],
)
def test_hostile_bytes(raw: bytes) -> None:
    assert column_chunks(raw, 0, 1) is None
