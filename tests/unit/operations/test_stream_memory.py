"""A stream of rows holds one file's footer at a time, however many files there are and however seldom Python looks for
cycles.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.files.footers import read_layout
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.builders import Row, batch_of, make_table

FILES = 12


@pytest.fixture
def without_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def footers_held() -> int:
    return sum(type(one) is pq.FileMetaData for one in gc.get_objects())  # weak proxies fail isinstance


def test_a_stream_holds_the_footer_of_one_file(tmp_path: Path, without_collection: None) -> None:
    """A footer has the file's bloom filter, of several MB: 20 million rows held 250 MB of footers that nobody used."""
    table = make_table(tmp_path / "t")
    for n in range(FILES):
        table.upsert(batch_of([Row(f"k{n}-{i}", f"p{n}", 1, "1") for i in range(20)]))
    gc.collect()
    before, held, arrow = footers_held(), [], []
    allocated = pa.total_allocated_bytes()
    rows = 0
    for batch in table.scan().to_batches():
        rows += batch.num_rows
        held.append(footers_held() - before)
        arrow.append(pa.total_allocated_bytes() - allocated)
    assert rows == FILES * 20
    assert max(held) <= 2
    assert max(arrow[FILES // 2 :]) <= 2 * max(arrow[: FILES // 2])


def test_a_footer_goes_with_its_last_user(tmp_path: Path, without_collection: None) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    storage = open_storage(table.uri)
    (file,) = Table.open(storage).snapshot().base_files("x")
    layout = read_layout(storage, file)
    metadata = weakref.ref(layout.metadata)
    del layout
    assert metadata() is None


def test_a_stream_with_a_condition_holds_the_footer_of_one_file(tmp_path: Path, without_collection: None) -> None:
    table = make_table(tmp_path / "t")
    for n in range(FILES):
        table.upsert(batch_of([Row(f"k{n}-{i}", f"p{n}", i, "1") for i in range(20)]))
    gc.collect()
    before, rows = footers_held(), 0
    for batch in table.scan(where="ts >= 10").to_batches():
        rows += batch.num_rows
        assert footers_held() - before <= 2
    assert rows == FILES * 10
