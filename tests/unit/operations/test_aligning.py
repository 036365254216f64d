from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.errors import TableCorruptError
from lakeindex.model import BaseFile
from lakeindex.operations.rows.aligned_rows import align

FILE = BaseFile("eu", "f-0", "20260101000000000", "0-0-0", 10)


def test_columns_come_out_in_the_tables_order_and_types():
    rows = pa.table(
        {"b": pa.array([1, 2], pa.int32()), "gone": ["x", "y"], "a": pa.array(["p", "q"]).dictionary_encode()}
    )
    schema = pa.schema([("a", pa.string()), ("new", pa.date32()), ("b", pa.int64())])
    aligned = align(rows, FILE, schema)
    assert aligned.schema == schema
    assert aligned.to_pydict() == {"a": ["p", "q"], "new": [None, None], "b": [1, 2]}
    must = pa.schema([pa.field("must", pa.int64(), nullable=False)])
    assert align(rows.slice(0, 0), FILE, must).schema == must, "no row lacks it"


def test_lists_of_another_element_name_are_the_same_lists():
    rows = pa.table({"l": pa.array([[1, 2]], pa.list_(pa.field("array", pa.int32(), nullable=False)))})
    schema = pa.schema([("l", pa.list_(pa.field("element", pa.int32())))])
    assert align(rows, FILE, schema).to_pydict() == {"l": [[1, 2]]}


@pytest.mark.parametrize(
    ("rows", "field", "says"),
    [
        (pa.table({"a": ["no number"]}), pa.field("a", pa.int64()), "'a' is string, not int64"),
        (pa.table({"a": [2**40]}), pa.field("a", pa.int32()), "'a' is int64, not int32"),
        (pa.table({"a": [[1]]}), pa.field("a", pa.int64()), "'a' is list<.*>, not int64"),
        (pa.table({"a": [1]}), pa.field("b", pa.int64(), nullable=False), "lacks column 'b'"),
    ],
)
def test_what_does_not_fit_names_file_and_column(rows: pa.Table, field: pa.Field, says: str):
    with pytest.raises(TableCorruptError, match=says) as caught:
        align(rows, FILE, pa.schema([field]))
    assert caught.value.culprit == FILE.path


def _viewed(rows: pa.Table) -> pa.Table:
    """The same texts as views, which writers such as Polars name in a file's metadata."""
    texts = [pa.string_view() if pa.types.is_string(field.type) else field.type for field in rows.schema]
    return pa.table([column.cast(kind) for column, kind in zip(rows.columns, texts, strict=True)], rows.column_names)


WORK: dict[str, Callable[[LakeTable, pa.Table], object]] = {
    "scan": lambda table, rows: table.scan(where="text = 't3' AND id > 'k10'").to_arrow().sort_by("id"),
    "get": lambda table, rows: table.get(["k11", "k30", "none"]).rows.drop_columns(["_hoodie_commit_time"]),
    "upsert": lambda table, rows: table.upsert(rows.slice(5, 10)).fates,
    "partial": lambda table, rows: table.upsert(rows.slice(5, 10).select(["id", "day", "text"]), partial=True).fates,
    "delete": lambda table, rows: table.delete(rows.slice(5, 10)).fates,
    "delete where": lambda table, rows: table.delete(where="text LIKE 't3%'").fates,
    "update": lambda table, rows: table.update({"text": "text || 'z'"}, where="text = 't3'").fates,
    "replace": lambda table, rows: table.replace_where(rows.slice(2, 1), where="text = 't3'").fates,
    "merge": lambda table, rows: table.upsert(rows.slice(3, 9), merge=lambda old, new: new).fates,
    "cluster": lambda table, rows: table.cluster(sort="columns", columns=["text"]).rows_after,
}


@pytest.mark.parametrize("index", ["BLOOM", pytest.param("GLOBAL_SIMPLE", marks=pytest.mark.slow)])
def test_files_that_say_their_texts_are_views(tmp_path: Path, index: str) -> None:
    """Arrow takes and filters none: a lookup by key ended in Arrow's own error. Batches are as the files are."""
    rows = pa.table({"id": [f"k{n}" for n in range(10, 40)], "day": ["a", "b"] * 15, "text": ["t1", "t2", "t3"] * 10})
    lakeindex.create_table(tmp_path / "plain", like=rows, key="id", partition="day", index=index).upsert(rows)
    shutil.copytree(tmp_path / "plain", tmp_path / "views")
    for file in lakeindex.open_table(tmp_path / "views").files():
        path = tmp_path / "views" / file.path
        kept = {k: v for k, v in pq.read_metadata(path).metadata.items() if not k.startswith((b"ARROW", b"lakeindex"))}
        pq.write_table(_viewed(pq.read_table(path, partitioning=None)).replace_schema_metadata(kept), path)
        assert pa.types.is_string_view(pq.read_schema(path).field("text").type)
    for name, work in WORK.items():
        found = []
        for kind, batch in {"plain": rows, "views": _viewed(rows)}.items():
            shutil.copytree(tmp_path / kind, tmp_path / f"{name} {kind}")
            table = lakeindex.open_table(tmp_path / f"{name} {kind}")
            found.append((work(table, batch), table.read(meta=False).sort_by("id")))
        assert found[0] == found[1], name
