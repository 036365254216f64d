"""Beside Hudi's own sync: its HiveSyncTool makes the same entries, and each goes on where the other ended."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.catalogs.hive import HiveCatalog
from scripts import interop_env
from tests.builders import make_table
from tests.catalog_contract import assert_agrees, entry, partitions, synced

pytestmark = pytest.mark.hive

TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("n", pa.int32()),
        ("f", pa.float32()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(10, 2)),
        ("s", pa.struct([("aB", pa.int32()), ("c", pa.list_(pa.string()))])),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("b", pa.binary()),
    ]
)
ONLY_OURS = {"lakeindex.synced"}
ONLY_THEIRS = {"hudi_writer_version", "last_commit_completion_time_sync"}
"""The second stands in version 6 for a file's time of change, which we do not write; from version 8 on both have it."""
VARY = {"transient_lastDdlTime", "totalSize", "numFiles"}


def rows(*keys: str) -> pa.Table:
    """One row for each ``id/region``."""
    ids, regions = zip(*(key.split("/") for key in keys), strict=True)
    one = {
        "ts": 1,
        "n": 1,
        "f": 1.5,
        "day": TIME.date(),
        "at": TIME,
        "local": TIME.replace(tzinfo=None),
        "price": Decimal("1.50"),
        "s": {"aB": 1, "c": ["x"]},
        "m": [("k", 1)],
        "b": b"x",
    }
    return pa.Table.from_pylist(
        [{"id": i, "region": r, **one} for i, r in zip(ids, regions, strict=True)], schema=SCHEMA
    )


def sync_by_hudi(release: str, place: str, table: LakeTable, name: str) -> None:
    java = Path(interop_env.environment()["JAVA_HOME"]) / "bin/java"
    spark = next((interop_env.HOME / "venv").glob("lib/python*/site-packages/pyspark/jars"))
    command = [str(java), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{interop_env.bundle(release)}:{spark}/*"]
    command += ["org.apache.hudi.hive.HiveSyncTool", "--sync-mode", "hms", "--metastore-uris", place]
    command += ["--base-path", Path(table.uri).as_uri(), "--database", "shop", "--table", name]
    command += ["--partitioned-by", "region"]
    command += ["--partition-value-extractor", "org.apache.hudi.hive.SinglePartPartitionValueExtractor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


def plain(value: Any) -> Any:
    """One of thrift's values, as dicts and lists."""
    if hasattr(value, "thrift_spec"):
        return {spec[1]: plain(getattr(value, spec[1])) for spec in value.thrift_spec.values()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def compared(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both without what is known to differ."""
    both = []
    for one, only in ((ours, ONLY_OURS), (theirs, ONLY_THEIRS)):
        names = {"tableName", "createTime", "lastAccessTime", "owner"}
        parameters = {k: v for k, v in one["parameters"].items() if k not in VARY | only | ONLY_THEIRS}
        both.append({**{k: v for k, v in one.items() if k not in names}, "parameters": parameters})
    return both[0], both[1]


@pytest.mark.parametrize(("release", "version"), [("0.15.0", "6"), ("1.2.0", "9")])
@pytest.mark.parametrize("place", ["3.1.3"], indirect=True)
def test_entries_and_turns(release: str, version: str, hive: HiveCatalog, place: str, tmp_path: Path):
    if not interop_env.bundle(release).exists():
        pytest.skip("Hudi's bundles are not there: scripts/interop_env.py")
    table = make_table(
        tmp_path / "orders",
        schema=SCHEMA,
        keys=("id",),
        partitions=("region",),
        ordering="ts",
        hoodie__write__table__version=version,
    )
    table.upsert(rows("a/eu", "b/us"))
    synced(hive, table)
    sync_by_hudi(release, place, table, "theirs")
    ours, theirs = compared(plain(entry(hive).native), plain(entry(hive, "theirs").native))
    key = "spark.sql.sources.schema.part.0"
    if release == "0.15.0":  # it knows no timestamps without a zone, and takes elements of lists for not null
        fields = {one["name"]: one for one in json.loads(ours["parameters"][key])["fields"]}
        fields["local"]["type"] = "long"
        fields["s"]["type"]["fields"][1]["type"]["containsNull"] = False
        assert [*fields.values()] == json.loads(theirs["parameters"][key])["fields"]
        del ours["parameters"][key], theirs["parameters"][key]
    assert ours == theirs
    places = [
        [{**plain(one), "parameters": {}, "tableName": "", "createTime": 0} for one in found]
        for found in (hive._named(entry(hive, name), [("eu",), ("us",)]) for name in ("orders", "theirs"))
    ]
    assert places[0] == places[1]

    table.upsert(rows("c/as"))
    table.delete_partitions(["us"])
    sync_by_hudi(release, place, table, "orders")
    assert partitions(hive) == ["as", "eu"], "Hudi goes on with our entry"
    synced(hive, table)
    assert_agrees(hive, table)
    other = {"hoodie.datasource.hive_sync.table": "theirs"}
    synced(hive, table, **other)
    assert partitions(hive, "theirs") == ["as", "eu"], "and we with Hudi's"
    assert dataclasses.replace(synced(hive, table, **other), instant=None).altered == []


SPARK = """
import json, sys
from pyspark.sql import SparkSession
place, scratch, jar = sys.argv[1:]
session = (
    SparkSession.builder.master("local[1]").enableHiveSupport().config("spark.jars", jar)
    .config("spark.hadoop.hive.metastore.uris", place).config("spark.sql.warehouse.dir", scratch)
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
    .config("spark.ui.enabled", "false").config("spark.sql.session.timeZone", "UTC").getOrCreate()
)
rows = session.sql("SELECT id, n, price, s.aB, m['k'], region FROM shop.orders ORDER BY id").collect()
some = session.sql("SELECT id FROM shop.orders WHERE region = 'us'")
print(json.dumps([[str(value) for value in row] for row in rows]))
plan = some._jdf.queryExecution().executedPlan().toString()
print(json.dumps([[row.id for row in some.collect()], "PartitionFilters: [isnotnull(region" in plan]))
"""


@pytest.mark.parametrize("place", ["3.1.3"], indirect=True)
def test_spark_reads_by_name(hive: HiveCatalog, place: str, tmp_path: Path):
    jar = interop_env.bundle("1.2.0")
    if not jar.exists():
        pytest.skip("Hudi's bundles are not there: scripts/interop_env.py")
    table = make_table(tmp_path / "orders", schema=SCHEMA, keys=("id",), partitions=("region",), ordering="ts")
    table.upsert(rows("a/eu", "b/us"))
    synced(hive, table)
    command = [str(interop_env.python()), "-c", SPARK, place, str(tmp_path / "warehouse"), str(jar)]
    done = subprocess.run(
        command, env=interop_env.environment(), capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    every, some = map(json.loads, done.stdout.strip().splitlines()[-2:])
    assert every == [["a", "1", "1.50", "1", "1", "eu"], ["b", "1", "1.50", "1", "1", "us"]]
    assert some == [["b"], True], "partitions are pruned"
