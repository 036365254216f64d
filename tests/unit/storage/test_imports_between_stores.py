"""Imports from an object store into one."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

import lakeindex
from lakeindex.storage import open_storage


def test_a_folder_of_an_object_store(moto_env: str) -> None:
    """From S3 into S3, Hive folders, and a second call that finds it complete."""
    store = open_storage(f"{moto_env}/from")
    for number, day in enumerate(("x", "y")):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [2 * number, 2 * number + 1], "v": ["a", "b"]}), sink)
        store.write(f"p={day}/{number}.parquet", sink.getvalue().to_pybytes())
    done = lakeindex.import_table(f"{moto_env}/from", f"{moto_env}/to", key="id")
    assert (done.files, done.inserted, done.partition_fields) == (2, 4, ("p",))
    rows = lakeindex.open_table(f"{moto_env}/to").read(meta=False).sort_by("id")
    assert rows.select(["id", "p"]).to_pydict() == {"id": [0, 1, 2, 3], "p": ["x", "x", "y", "y"]}
    again = lakeindex.import_table(f"{moto_env}/from", f"{moto_env}/to", key="id")
    assert again.commits_before == again.commits
