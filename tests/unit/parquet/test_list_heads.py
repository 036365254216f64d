"""Thrift lists of 15 elements and more have another head than shorter ones: of row groups, and of columns."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.parquet.splice import ChunkOf, GroupOf, ParquetParts, parts_of, splice


def parts(table: pa.Table, rows: int) -> ParquetParts:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=rows, store_schema=False)
    data = sink.getvalue()
    found = parts_of(memoryview(data), pq.read_metadata(pa.BufferReader(data)))
    assert found is not None
    return found


def copied(table: pa.Table, rows: int) -> pa.Table:
    source, shell = parts(table, rows), parts(table.slice(0, 0), 1)
    columns = range(len(source.columns))
    groups = [GroupOf(n, tuple(ChunkOf(source, g, c) for c in columns)) for g, n in enumerate(source.rows)]
    return pq.read_table(pa.BufferReader(b"".join(splice(shell, groups))))


@pytest.mark.parametrize("count", [1, 14, 15, 16, 127, 128])
def test_any_number_of_row_groups(count: int):
    table = pa.table({"n": list(range(count))})
    assert copied(table, 1).equals(table)


@pytest.mark.parametrize("count", [1, 14, 15, 16, 127, 128])
def test_any_number_of_columns(count: int):
    table = pa.table({f"c{n}": [n, n + 1] for n in range(count)})
    assert copied(table, 2).equals(table)
