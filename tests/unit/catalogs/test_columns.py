"""Columns and partitions in a catalog's words, without one."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakeindex.catalogs.catalog import CatalogTable
from lakeindex.catalogs.column_types import can_become, hive_type, spark_schema
from lakeindex.catalogs.wanted import look
from lakeindex.errors import OptionError
from lakeindex.options.parse import parse_options
from lakeindex.options.sync_options import CatalogKind, SyncOptions
from lakeindex.table.handle import Table
from tests.builders import make_table

_STRUCT = pa.struct([pa.field("aB", pa.int32(), nullable=False), ("c", pa.list_(pa.decimal128(10, 2)))])
KINDS: tuple[tuple[pa.DataType, str, object], ...] = (
    (pa.bool_(), "boolean", "boolean"),
    (pa.int32(), "int", "integer"),
    (pa.int64(), "bigint", "long"),
    (pa.float32(), "float", "float"),
    (pa.float64(), "double", "double"),
    (pa.string(), "string", "string"),
    (pa.binary(), "binary", "binary"),
    (pa.binary(4), "binary", "binary"),
    (pa.date32(), "date", "date"),
    (pa.time32("ms"), "int", "integer"),
    (pa.time64("us"), "bigint", "long"),
    (pa.decimal128(38, 0), "decimal(38,0)", "decimal(38,0)"),
    (pa.timestamp("us", "UTC"), "timestamp", "timestamp"),
    (pa.timestamp("us"), "timestamp", "timestamp_ntz"),
    (
        pa.map_(pa.string(), _STRUCT),
        "map<string,struct<ab:int,c:array<decimal(10,2)>>>",
        {
            "type": "map",
            "keyType": "string",
            "valueContainsNull": True,
            "valueType": {
                "type": "struct",
                "fields": [
                    {"name": "aB", "type": "integer", "nullable": False, "metadata": {}},
                    {
                        "name": "c",
                        "type": {"type": "array", "elementType": "decimal(10,2)", "containsNull": True},
                        "nullable": True,
                        "metadata": {},
                    },
                ],
            },
        },
    ),
)


def test_types():
    for kind, hive, spark in KINDS:
        assert hive_type(kind, timestamps=True) == hive
        [field] = json.loads(spark_schema([pa.field("x", kind)]))["fields"]
        assert field == {"name": "x", "type": spark, "nullable": True, "metadata": {}}, kind
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        assert hive_type(kind, timestamps=False) == "bigint"


def test_changes_that_a_catalog_can_hold():
    wider = ["int", "bigint", "float", "double"]
    for at, before in enumerate(wider):
        for other, after in enumerate(wider):
            assert can_become(before, after) is (at <= other), (before, after)
    held = (
        ("decimal(10,2)", "decimal(12,2)"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("struct<a:int>", "struct<a:bigint,b:map<string,int>>"),
        ("struct<b:map<string,int>,a:int>", "struct<b : map<string, bigint>, a : int>"),
        ("array<struct<a:decimal(3,1)>>", "array<struct<a:decimal(4,1),c:string>>"),
        ("map<string,int>", "map<string,double>"),
    )
    refused = (
        ("decimal(10,2)", "decimal(10,4)"),
        ("decimal(10,2)", "decimal(12,1)"),
        ("bigint", "timestamp"),
        ("timestamp", "bigint"),
        ("string", "int"),
        ("int", "string"),
        ("struct<a:int,b:int>", "struct<a:int>"),
        ("struct<a:bigint>", "struct<a:int>"),
        ("array<double>", "array<int>"),
        ("array<int>", "map<string,int>"),
        ("map<string,int>", "map<int,int>"),
        ("date", "string"),
    )
    for before, after in held:
        assert can_become(before, after), (before, after)
    for before, after in refused:
        assert not can_become(before, after), (before, after)


SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("day", pa.string()), ("hour", pa.string())])
HIVE = "hoodie.datasource.hive_sync."
EXTRACTOR = f"{HIVE}partition_extractor_class"
CLASSES = "org.apache.hudi.hive."


def test_values_of_partitions(tmp_path: Path):
    """By the layout of the table and what options say; the rules are those of Hudi's classes."""
    tables = {
        "plain": make_table(tmp_path / "plain", schema=SCHEMA, partitions=("day",)),
        "named": make_table(
            tmp_path / "named",
            schema=SCHEMA,
            partitions=("day",),
            hoodie__datasource__write__hive_style_partitioning="true",
        ),
        "two": make_table(
            tmp_path / "two",
            schema=SCHEMA,
            partitions=("day", "hour"),
            hoodie__datasource__write__partitionpath__urlencode="true",
            hoodie__write__complex__keygen__new__encoding="true",
        ),
        "none": make_table(tmp_path / "none", schema=SCHEMA, partitions=()),
    }
    null = "__HIVE_DEFAULT_PARTITION__"
    cases: tuple[tuple[str, str, dict[str, str], tuple[str, ...] | None], ...] = (
        ("plain", "2026-11-27", {}, ("2026-11-27",)),
        ("plain", "2026/11/27", {}, ("2026-11-27",)),
        ("plain", "a=b", {}, ("a=b",)),
        ("plain", null, {}, (null,)),
        ("named", "day=2026-11-27", {}, ("2026-11-27",)),
        ("named", f"day={null}", {}, (null,)),
        ("named", "day=a=b", {}, ("a=b",)),
        ("named", "2026-11-27", {}, None),
        ("two", "2026-11-27/07", {}, ("2026-11-27", "07")),
        ("two", "day=2026-11-27/hour=a%2Fb", {}, ("2026-11-27", "a/b")),
        ("two", "x/a%2Fb", {"hoodie.meta.sync.decode_partition": "false"}, ("x", "a%2Fb")),
        ("two", "2026-11-27", {}, None),
        ("none", "", {}, ()),
        ("plain", "2026/1/7", {EXTRACTOR: f"{CLASSES}SlashEncodedDayPartitionValueExtractor"}, ("2026-01-07",)),
        ("plain", "y=2026/m=1/d=7", {EXTRACTOR: "SlashEncodedDayPartitionValueExtractor"}, ("2026-01-07",)),
        ("plain", "2026/01/07/9", {EXTRACTOR: f"{CLASSES}SlashEncodedHourPartitionValueExtractor"}, ("2026-01-07-09",)),
        ("plain", "2026/01", {EXTRACTOR: f"{CLASSES}SlashEncodedDayPartitionValueExtractor"}, None),
        ("plain", "2026/x/07", {EXTRACTOR: f"{CLASSES}SlashEncodedDayPartitionValueExtractor"}, None),
        ("plain", "2026/01", {f"{HIVE}partition_fields": "year,month"}, ("2026", "01")),
    )
    for name, path, options, expected in cases:
        config = parse_options(options).of(SyncOptions)
        truth = look(Table.at(tables[name].uri), config, CatalogKind.GLUE)
        if expected is None:
            with pytest.raises(OptionError, match="partition_extractor_class that fit"):
                truth.partition(path)
        else:
            assert truth.partition(path).values == expected, (name, path, options)
    with pytest.raises(OptionError, match="SinglePart"):
        parse_options({EXTRACTOR: "com.example.Own"})


def test_what_options_change_in_the_entry(tmp_path: Path):
    table = make_table(tmp_path / "t", schema=SCHEMA, partitions=("day",))

    def wanted(kind: CatalogKind = CatalogKind.HIVE, **options: str) -> CatalogTable:
        given = {f"{HIVE}{name}": value for name, value in options.items()}
        return look(Table.at(table.uri), parse_options(given).of(SyncOptions), kind).wanted

    plain = wanted()
    assert (plain.database, plain.name) == ("default", "t")
    assert [one.name for one in plain.columns][4:] == ["_hoodie_file_name", "id", "ts", "hour"]
    assert [one.name for one in wanted(omit_metadata_fields="true").columns] == ["id", "ts", "hour"]
    named = wanted(database="Shop", table="Orders", table_properties="a=b\nc = d=e")
    assert (named.database, named.name, named.parameters["a"], named.parameters["c"]) == ("shop", "orders", "b", "d=e")
    for wrong in ("a", "a=b\nc", "=b", " = b"):
        with pytest.raises(OptionError, match="table_properties"):
            wanted(table_properties=wrong)
    assert wanted(CatalogKind.GLUE).parameters["hudi.metadata-listing-enabled"] == "FALSE"
    assert "hudi.metadata-listing-enabled" not in plain.parameters


def test_long_schemas_are_divided(tmp_path: Path):
    schema = pa.schema([*SCHEMA, *((f"column_{number:03}", pa.float64()) for number in range(200))])
    table = make_table(tmp_path / "t", schema=schema, partitions=("day",))
    found = look(Table.at(table.uri), SyncOptions(), CatalogKind.GLUE).wanted.parameters
    count = int(found["spark.sql.sources.schema.numParts"])
    parts = [found[f"spark.sql.sources.schema.part.{at}"] for at in range(count)]
    assert count > 1
    assert {len(one) for one in parts[:-1]} == {4000}
    assert [one["name"] for one in json.loads("".join(parts))["fields"]][-1] == "day"


def test_comments_of_columns(tmp_path: Path):
    """Those of the newest commit's schema, on request; where there is none (None), that of the catalog stays."""
    table = make_table(tmp_path / "t", schema=SCHEMA, partitions=("day",))
    table.upsert(pa.table([["k"], [1], ["d"], ["7"]], schema=SCHEMA))
    (commit,) = (tmp_path / "t" / ".hoodie").rglob("*.commit")
    told = json.loads(commit.read_text())
    schema = json.loads(told["extraMetadata"]["schema"])
    for field, doc in zip(schema["fields"][-4:], ("", "when", "of the month", None), strict=True):
        field["doc"] = doc
    told["extraMetadata"]["schema"] = json.dumps(schema)
    commit.write_text(json.dumps(told))
    for given, expected in (("true", [None, "when", None, "of the month"]), ("false", [None] * 4)):
        config = parse_options({f"{HIVE}sync_comment": given}).of(SyncOptions)
        wanted = look(Table.at(table.uri), config, CatalogKind.GLUE).wanted
        found = {one.name: one.comment for one in (*wanted.columns, *wanted.partition_columns)}
        assert [found[name] for name in ("id", "ts", "hour", "day")] == expected, given
