"""A whole table on Azure's emulator and on an HDFS: written, read as of an instant, checked."""

from __future__ import annotations

import os
import uuid

import pyarrow as pa
import pytest

from lakeindex.storage import open_storage
from tests.builders import SCHEMA, make_table

AZURE = "abfss://{LAKEINDEX_AZURE_CONTAINER}@devstoreaccount1.dfs.core.windows.net"
HDFS = "{LAKEINDEX_HDFS}"


@pytest.mark.parametrize(
    "root",
    [pytest.param(AZURE, marks=pytest.mark.azure, id="azure"), pytest.param(HDFS, marks=pytest.mark.hdfs, id="hdfs")],
)
def test_a_table_is_upserted_read_and_checked(root: str) -> None:
    uri = f"{root.format(**os.environ)}/{uuid.uuid4().hex}/t"
    table = make_table(uri)
    rows = [dict.fromkeys(SCHEMA.names) | {"id": f"k{n}", "day": f"2026-01-0{n % 3}", "ts": 1} for n in range(300)]
    first = table.upsert(rows_as_table(rows))
    changed = [{**row, "ts": 2} for row in rows[:100]] + [{**rows[0], "id": "new", "ts": 5}]
    second = table.upsert(rows_as_table(changed), batch_id="b")
    assert (first.inserts, second.inserts, second.updates) == (300, 1, 100)
    assert table.upsert(rows_as_table(changed), batch_id="b").noop
    assert sorted(table.read(meta=True)["ts"].to_pylist()) == [1] * 200 + [2] * 100 + [5]
    assert table.read(as_of=first.instant, meta=True).num_rows == 300
    report = table.check()
    assert report.violations == ()
    assert open_storage(f"{uri}.lakeindex").list()


def rows_as_table(rows: list[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)
