"""A table's columns from text, and from files of every kind."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.errors import InputError, LakeIndexError
from lakeindex.operations.schema_text import schema_from_text
from lakeindex.write.types.avro_schema import schema_from_avro, schema_to_avro
from lakeindex.write.types.type_fit import storable_schema
from tests.cli_support import lakeindex as run_cli

EVERY = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("u32", pa.uint32()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("ns")),
        ("day", pa.date32()),
        ("n", pa.decimal128(38, 10)),
        ("raw", pa.binary()),
        ("fixed", pa.binary(16)),
        ("l", pa.list_(pa.int64())),
        ("deep", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]))),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("o", pa.struct([("q", pa.timestamp("ms")), ("r", pa.decimal128(5, 2))])),
        ("c", pa.dictionary(pa.int32(), pa.string())),
        ("large", pa.large_string()),
        ("mo", pa.map_(pa.string(), pa.struct([("z", pa.bool_())]))),
        ("int64", pa.int64()),
        ("list", pa.string()),
    ],
    metadata={"made": "'by', a test"},
)
DDL = """
    id STRING NOT NULL, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT COMMENT 'a number, of course', u32 LONG, f FLOAT,
    d DOUBLE, b BOOLEAN, at TIMESTAMP, `local` TIMESTAMP_NTZ, day DATE, n DECIMAL(38, 10), raw BINARY, fixed BINARY,
    l ARRAY<BIGINT>, deep ARRAY<STRUCT<x: BIGINT, y: ARRAY<STRING>>>, m MAP<STRING, BIGINT>,
    o STRUCT<q: TIMESTAMP_NTZ, r: DECIMAL(5,2)>, c VARCHAR(10), large CHAR(3), mo MAP<STRING, STRUCT<z: BOOLEAN>>,
    int64 BIGINT, list STRING"""
PYTHON = """pa.schema([("id", pa.string()), pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
    ("l", pa.list_(pa.struct([("x", pa.int32())])))])"""


def stored(schema: pa.Schema) -> pa.Schema:
    return schema_from_avro(schema_to_avro(storable_schema(schema), "t"))


def test_ddl_and_printed_schemas_are_the_columns_that_they_say() -> None:
    for text in (
        str(EVERY),
        DDL,
        f"CREATE TABLE IF NOT EXISTS lake.t ({DDL}) USING hudi PARTITIONED BY (day) TBLPROPERTIES (primaryKey = 'id')",
    ):
        assert stored(schema_from_text(text)) == stored(EVERY), text
    assert schema_from_text("id: string not null, n: int64").field("id").nullable is False
    of_parts = pa.schema(
        [
            ("l", pa.list_(pa.field("item", pa.int64(), False))),
            ("m", pa.map_(pa.string(), pa.field("v", pa.int64(), False))),
        ]
    )
    assert schema_from_text(str(of_parts)).types == [pa.list_(pa.int64()), pa.map_(pa.string(), pa.int64())]
    inner = schema_from_text("o STRUCT<x: INT NOT NULL>").field("o").type.field("x")
    assert (inner.type, inner.nullable) == (pa.int32(), False)
    wanted = pa.schema(
        [
            ("id", pa.string()),
            pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
            ("l", pa.list_(pa.struct([("x", pa.int32())]))),
        ]
    )
    assert schema_from_text(PYTHON) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "id string, x",
        "id string, v foo",
        "id string ts int",
        "hello world",
        "",
        "id string, t INTERVAL YEAR",
        "SELECT 1",
        "pa.schema([('id', __import__('os').getcwd())])",
        "pa.schema([('id', pa.memory_map('x'))])",
        "pa.schema([('id', pa.string(1))])",
    ],
)
def test_what_is_no_schema_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="columns cannot be made of") as caught:
        schema_from_text(text)
    assert "STRING" in str(caught.value.hint)
    assert "\x1b" not in str(caught.value)


def test_create_takes_every_kind_of_file_and_text(tmp_path: Path) -> None:
    rows = [{"id": "a", "n": 1, "f": 1.5, "at": "2026-01-02T00:00:00", "b": True}]
    columns = {"id": "string", "n": "int64", "f": "double", "at": "timestamp[us]", "b": "bool"}
    ddl = "id STRING, n BIGINT, f DOUBLE, at TIMESTAMP_NTZ, b BOOLEAN"
    (tmp_path / "j.jsonl").write_text(json.dumps(rows[0]) + "\n")
    (tmp_path / "c.csv").write_text("id,n,f,at,b\na,1,1.5,2026-01-02T00:00:00,true\n")
    (tmp_path / "s.csv").write_text("id;n;f;at;b\na;1;1.5;2026-01-02T00:00:00;true\n")
    (tmp_path / "q.sql").write_text(f"CREATE TABLE t ({ddl})")
    pq.write_table(pa.table({"id": ["a"], "n": [1], "f": [1.5], "at": pa.array([0], pa.timestamp("us")), "b": [True]}),
                   tmp_path / "p.parquet")  # fmt: skip
    pq.write_table(pq.read_table(tmp_path / "p.parquet"), tmp_path / "without suffix")
    likes = ["j.jsonl", "c.csv", "s.csv", "q.sql", "p.parquet", "without suffix"]
    semicolons = {"lakeindex.csv.delimiter": ";"}
    for number, like in enumerate([*(str(tmp_path / name) for name in likes), ddl]):
        options = semicolons if like.endswith("s.csv") else {}
        table = lakeindex.create_table(tmp_path / f"t{number}", like=like, key="id", properties=options)
        assert {field.name: str(field.type) for field in table.schema} == columns, like
        given = [text for option in options.items() for text in ("-o", "=".join(option))]
        assert run_cli("create", tmp_path / f"c{number}", "--like", like, "--key", "id", *given).exit_code == 0, like
        assert lakeindex.open_table(tmp_path / f"c{number}").schema == table.schema, like
    assert lakeindex.create_table(tmp_path / "text", ddl, key="id").schema.names == list(columns)
    for like in ("nothing.parquet", "nothing.csv", str(tmp_path / "nothing.jsonl")):
        with pytest.raises(LakeIndexError, match="nothing") as caught:
            lakeindex.create_table(tmp_path / "none", like=like, key="id")
        assert caught.value.hint


def test_a_new_column_of_a_large_csv_file_has_the_type_of_its_values(tmp_path: Path) -> None:
    table = lakeindex.create_table(tmp_path / "t", "id STRING", key="id")
    (tmp_path / "b.csv").write_text("id,n\n" + "".join(f"{'k' * 40}{n},{n}\n" for n in range(30_000)))
    table.upsert(tmp_path / "b.csv", schema_mode="add")
    assert str(table.schema.field("n").type) == "int64"
    assert table.scan(where="n = 29999").to_arrow().num_rows == 1
