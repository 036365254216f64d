"""Columns that another writer changed: widened ones are read and rewritten as Hudi does it; what is found by ids is refused."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import TableUnsupportedError, UsageError
from lakeindex.operations.look.inspect import inspect_table
from tests.builders import make_table
from tests.unit.operations.tables import edit_commit, live_files, rewrite

FLOATS = [0.1, 1e10, 3.4e10, None]
DOUBLES = [0.1, 1e10, 33999999000.0, None]


def schema_with(kind: pa.DataType, ts: pa.DataType | None = None) -> pa.Schema:
    return pa.schema([pa.field("id", pa.string(), nullable=False), ("ts", ts or pa.int64()), ("x", kind)])


def rows(schema: pa.Schema, ids: list[str], ts: list[float], values: list[Any]) -> pa.Table:
    return pa.table(
        [ids, pa.array(ts, schema.field("ts").type), pa.array(values, schema.field("x").type)], schema=schema
    )


def stored(table: LakeTable) -> dict[str, Any]:
    """Values as they stand in the one live file."""
    (path,) = live_files(Path(table.uri))
    found = pq.ParquetFile(path).read(["id", "x"]).to_pylist()
    return {one["id"]: one["x"] for one in found}


def read(table: LakeTable) -> dict[str, Any]:
    return {one["id"]: one["x"] for one in table.read(meta=True).to_pylist()}


def change_schema(table: LakeTable, old: str, new: str) -> None:
    """As Hudi leaves a table when a column was widened and the file has not been written again."""

    def change(commit: dict[str, Any]) -> None:
        text = commit["extraMetadata"]["schema"]
        assert f'"{old}"' in text
        commit["extraMetadata"]["schema"] = text.replace(f'"{old}"', f'"{new}"')

    for path in (Path(table.uri) / ".hoodie").glob("*.commit"):
        edit_commit(path, change)


@pytest.mark.parametrize(
    ("narrow", "wide", "values", "expected"),
    [
        (("float", pa.float32()), ("double", pa.float64()), FLOATS, DOUBLES),
        (("int", pa.int32()), ("float", pa.float32()), [16777217, -5, 1, None], [16777216.0, -5.0, 1.0, None]),
        (("int", pa.int32()), ("long", pa.int64()), [16777217, -5, 1, None], [16777217, -5, 1, None]),
        (("float", pa.float32()), ("string", pa.string()), FLOATS, ["0.1", "1.0E10", "3.3999999E10", None]),
    ],
)
def test_a_widened_column_is_read_and_rewritten_as_hudi_does(
    tmp_path: Path,
    narrow: tuple[str, pa.DataType],
    wide: tuple[str, pa.DataType],
    values: list[Any],
    expected: list[Any],
) -> None:
    schema = schema_with(narrow[1])
    table = make_table(tmp_path / "t", partitions=(), schema=schema)
    ids = ["k0", "k1", "k2", "k3"]
    table.upsert(rows(schema, [*ids, "k4"], [1] * 5, [*values, None]), batch_id="one")
    change_schema(table, narrow[0], wide[0])
    assert read(table) == {**dict(zip(ids, expected, strict=True)), "k4": None}
    assert table.get(["k0"]).rows.column("x").to_pylist() == expected[:1]
    new = schema_with(wide[1])
    table.upsert(rows(new, ["k4"], [2], [expected[0]]), batch_id="two")
    after = {**dict(zip(ids, expected, strict=True)), "k4": expected[0]}
    assert read(table) == after
    assert stored(table) == after
    assert table.check(deep=True).ok


def test_milliseconds_that_were_called_microseconds_are_milliseconds(tmp_path: Path) -> None:
    """Hudi 0.15 and 1.0 stored a source's timestamp-millis so; since 1.1 tables say milliseconds again. Local times it did not."""
    instant, local = pa.timestamp("ms", "UTC"), pa.timestamp("ms")
    schema = pa.schema([("at", instant), ("ts", pa.int64()), ("local", local), ("o", pa.struct([("at", instant)]))])
    table = make_table(tmp_path / "t", schema=schema, keys=("at",), partitions=(), hoodie__write__table__version="6")

    def batch(ts: int, *moments: str) -> pa.Table:
        times = pa.array([dt.datetime.fromisoformat(one) for one in moments])
        at = times.cast(local).cast(instant)
        inner = pa.StructArray.from_arrays([at], fields=list(schema.field("o").type))
        return pa.table([at, [ts] * len(moments), times.cast(local), inner], schema=schema)

    def called_micros(rows: pa.Table) -> pa.Table:
        micros = rows["at"].combine_chunks().cast(pa.int64()).cast(pa.timestamp("us", "UTC"))
        named = {
            "at": micros,
            "o": pa.StructArray.from_arrays([micros], ["at"]),
            "local": rows["local"].cast(pa.timestamp("us")),
        }
        return pa.table([named.get(name, rows[name]) for name in rows.column_names], names=rows.column_names)

    first = batch(1, "2026-01-01T00:00:00", "2026-01-02T00:00:00.123", "9999-12-31T00:00:00")
    table.upsert(first)
    (path,) = live_files(Path(table.uri))
    rewrite(path, called_micros)
    assert pq.read_schema(path).field("at").type == pa.timestamp("us", "UTC")
    assert table.scan().to_arrow().sort_by("at").equals(first)
    for where, count in (
        ("at < '1980-01-01'", 0),
        ("at > '2026-01-01 12:00:00'", 2),
        ("o.at = '9999-12-31'", 1),
        ("local < '2026-01-02'", 1),
    ):
        assert table.scan(where=where).count() == count, where
    assert table.scan(where="at < '1980-01-01'").explain(analyze=True).files_read == 0
    with pytest.raises(UsageError, match="stores column 'at' as"):
        table.scan().to_dataset()
    table.upsert(batch(2, "2026-01-02T00:00:00.123"))
    assert table.scan().to_arrow().sort_by("at").drop_columns(["ts"]).equals(first.drop_columns(["ts"]))
    assert pq.read_schema(live_files(Path(table.uri))[0]).field("at").type == instant


def test_a_clustering_by_a_column_that_became_a_text(tmp_path: Path) -> None:
    narrow, wide = schema_with(pa.int32()), schema_with(pa.string())
    table = make_table(tmp_path / "t", partitions=(), schema=narrow)
    table.upsert(rows(narrow, ["a", "b"], [1, 1], [20, 3]), batch_id="one")
    change_schema(table, "int", "string")
    table.upsert(
        rows(wide, ["c", "d"], [1, 1], ["1", "4"]), batch_id="two", options={"hoodie.parquet.small.file.limit": "0"}
    )
    (done,) = table.cluster(sort="columns", columns=["x"]).partitions
    assert (done.files_before, done.files_after) == (2, 1)
    assert done.candidates_before["x"] > done.candidates_after["x"] == 1
    assert table.scan(columns=["x"]).to_arrow().column("x").to_pylist() == ["1", "20", "3", "4"]


def test_an_ordering_column_is_compared_widened(tmp_path: Path) -> None:
    """0.1f stored is 0.1: an incoming 0.1 is no older, and wins the tie."""
    narrow = schema_with(pa.string(), pa.float32())
    table = make_table(tmp_path / "t", partitions=(), schema=narrow)
    table.upsert(rows(narrow, ["a", "b"], [0.1, 0.1], ["old", "old"]), batch_id="one")
    change_schema(table, "float", "double")
    wide = schema_with(pa.string(), pa.float64())
    summary = table.upsert(rows(wide, ["a", "b"], [0.1, 0.09], ["new", "new"]), batch_id="two")
    assert (summary.updates, summary.ignored) == (1, 1)
    assert read(table) == {"a": "new", "b": "old"}


def altered_by_commit(table: Path) -> str:
    path = next((table / ".hoodie").glob("*.commit"))
    edit_commit(path, lambda commit: commit["extraMetadata"].update(latest_schema=json.dumps({"max_column_id": 3})))
    return f".hoodie/{path.name}"


def altered_by_history(table: Path) -> str:
    """As an older lakeindex left it, which did not carry ``latest_schema`` on."""
    folder = table / ".hoodie" / ".schema"
    folder.mkdir()
    (folder / "20261123023600028.schemacommit").write_text("{}", encoding="utf-8")
    return ".hoodie/.schema"


@pytest.mark.parametrize("alter", [altered_by_commit, altered_by_history])
def test_a_table_altered_by_column_ids_is_refused(tmp_path: Path, alter: Any) -> None:
    schema = schema_with(pa.int32())
    table = make_table(tmp_path / "t", partitions=(), schema=schema)
    batch = rows(schema, ["a"], [1], [1])
    table.upsert(batch, batch_id="one")
    culprit = alter(tmp_path / "t")
    before = sorted(path.name for path in (tmp_path / "t" / ".hoodie").iterdir())
    for call in (
        lambda: table.read(meta=True),
        table.check,
        lambda: table.get(["a"]),
        lambda: table.upsert(batch, batch_id="two"),
        lambda: table.delete(batch, batch_id="three"),
    ):
        with pytest.raises(TableUnsupportedError, match=r"hoodie\.schema\.on\.read\.enable") as caught:
            call()
        assert caught.value.culprit == culprit
        assert caught.value.exit_code == 4
    assert sorted(path.name for path in (tmp_path / "t" / ".hoodie").iterdir()) == before
    refusal = inspect_table(table.uri).refusal
    assert refusal is not None
    assert culprit == refusal.culprit


def test_an_empty_folder_of_schemas_means_nothing(tmp_path: Path) -> None:
    """Hudi makes one for every table."""
    schema = schema_with(pa.int32())
    table = make_table(tmp_path / "t", partitions=(), schema=schema)
    (tmp_path / "t" / ".hoodie" / ".schema").mkdir()
    table.upsert(rows(schema, ["a"], [1], [1]), batch_id="one")
    assert read(table) == {"a": 1}
