"""Texts of a column that together have more than the 2 GiB that Arrow's short offsets address; stored they have few."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import lakeindex

SCHEMA = pa.schema([("id", pa.string()), ("t", pa.string())])
BODY = "x" * 8_200
ROWS = 280_000
MEMORY = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def texts(first: int, count: int, body: str = BODY) -> pa.Table:
    ids = pa.array([f"k{number:07d}" for number in range(first, first + count)])
    return pa.table([ids, pc.binary_join_element_wise(ids, pa.scalar(body), "")], schema=SCHEMA)


@pytest.mark.slow
@pytest.mark.skipif(MEMORY < 16 * 2**30, reason="takes 7 GB")
def test_a_file_of_many_long_texts_is_made_and_updated(tmp_path: Path) -> None:
    batch = tmp_path / "b.parquet"
    with pq.ParquetWriter(batch, SCHEMA, compression="zstd") as writer:
        for first in range(0, ROWS, 20_000):
            writer.write_table(texts(first, 20_000))
    table = lakeindex.create_table(str(tmp_path / "t"), SCHEMA, key="id")
    large = {"lakeindex.memory": "24g", "lakeindex.parallelism": "1"}
    assert table.upsert(str(batch), options=large).inserts == ROWS
    (file,) = table.files()
    assert file.rows == ROWS
    some = pa.concat_tables([texts(first, 1, "new") for first in range(5, ROWS, 10_000)])
    assert table.upsert(some, update_if="old.t IS DISTINCT FROM new.t").updates == len(some)
    assert table.delete(some.slice(0, 3).select(["id"])).deletes == 3
    assert table.count() == ROWS - 3
    assert table.scan(where="t LIKE '%new'").count() == len(some) - 3
