"""Beside Hudi's own sync: its HiveSyncTool makes the same entries, and each goes on where the other ended."""

from __future__ import annotations

import datetime as dt
import json
import os
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.catalogs.hive import HiveCatalog
from scripts import interop_env
from tests.builders import make_table
from tests.catalog_contract import assert_agrees, entry, live_paths, newest_commit, partitions, synced
from tests.hive.conftest import PLACES
from tests.interop.hudi_client import HudiError, HudiServer, in_zone, keep_options
from tests.scheduling import turn_of_commit

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
COMBINATIONS = [("0.15.0", "6"), ("1.2.0", "8"), ("1.2.0", "9")]
if os.environ.get("LAKEINDEX_INTEROP") != "all":  # one of them, in turns by commit
    COMBINATIONS = [COMBINATIONS[turn_of_commit() % len(COMBINATIONS)]]
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


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], HudiServer]]:
    """Real Hudi, a process for each release that is asked for."""
    started: dict[str, HudiServer] = {}

    def server(release: str) -> HudiServer:
        if not interop_env.bundle(release).exists():
            pytest.skip("Hudi's bundles are not there: scripts/interop_env.py")
        if release not in started:
            started[release] = HudiServer(
                release,
                tmp_path_factory.mktemp(f"hudi-{release}"),
                memory="1g",
                conf={
                    "spark.sql.catalogImplementation": "hive",
                    "spark.hadoop.hive.metastore.uris": PLACES["3.1.3"],
                },
            )
        return started[release]

    with in_zone():
        yield server
    for one in started.values():
        one.close()


def sync_by_hudi(hudi: HudiServer, place: str, table: LakeTable, name: str) -> None:
    words = ["--sync-mode", "hms", "--metastore-uris", place, "--partitioned-by", "region"]
    words += ["--base-path", Path(table.uri).as_uri(), "--database", "shop", "--table", name]
    words += ["--partition-value-extractor", "org.apache.hudi.hive.SinglePartPartitionValueExtractor"]
    hudi.hive_sync(*words)


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


@pytest.mark.parametrize(("release", "version"), COMBINATIONS)
@pytest.mark.parametrize("place", ["3.1.3"], indirect=True)
def test_entries(
    release: str, version: str, hive: HiveCatalog, place: str, tmp_path: Path, servers: Callable[[str], HudiServer]
):
    hudi = servers(release)
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
    sync_by_hudi(hudi, place, table, "theirs")
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
    other = {"hoodie.datasource.hive_sync.table": "theirs"}
    synced(hive, table, **other)
    assert partitions(hive, "theirs") == ["as", "eu"], "we go on with Hudi's entry"
    assert replace(synced(hive, table, **other), instant=None).altered == []


PLAIN = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64())])


def plain_rows(*keys: str, **more: str) -> pa.Table:
    ids, regions = zip(*(key.split("/") for key in keys), strict=True)
    made = pa.table({"id": ids, "region": regions, "ts": [1] * len(ids)}, schema=PLAIN)
    for name, value in more.items():
        made = made.append_column(name, pa.array([value] * len(ids)))
    return made


@pytest.mark.parametrize(("release", "version"), COMBINATIONS)
@pytest.mark.parametrize("place", ["3.1.3"], indirect=True)
def test_ten_turns(
    release: str, version: str, hive: HiveCatalog, place: str, tmp_path: Path, servers: Callable[[str], HudiServer]
):
    """Hudi and we write and sync in turns: who syncs goes on where the other ended, whoever wrote."""
    hudi = servers(release)
    table = make_table(
        tmp_path / "orders",
        schema=PLAIN,
        keys=("id",),
        partitions=("region",),
        ordering="ts",
        hoodie__write__table__version=version,
    )
    options = keep_options(release, int(version)) | {
        "hoodie.table.name": "orders",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "region",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.hive_sync.mode": "hms",
        "hoodie.datasource.hive_sync.metastore.uris": place,
        "hoodie.datasource.hive_sync.database": "shop",
        "hoodie.datasource.hive_sync.partition_extractor_class": "SinglePartPartitionValueExtractor",
    }
    told = dict(options)
    extractor = "hoodie.datasource.hive_sync.partition_extractor_class"
    told[extractor] = f"org.apache.hudi.hive.{options[extractor]}"

    def theirs(*keys: str, operation: str = "upsert", synced: str = "false", **more: str) -> None:
        chosen = {"hoodie.datasource.write.operation": operation, "hoodie.datasource.hive_sync.enable": synced}
        hudi.write(table.uri, plain_rows(*keys, **more), told | chosen)

    def procedure(text: str) -> None:
        hudi.sql(f"call {text.format(path=table.uri)}")

    def restore() -> None:
        call = f"rollback_to_savepoint(path => '{{path}}', instant_time => '{saved[0]}')"
        try:
            procedure(call)
        except HudiError as error:
            if "Please delete metadata table and retry" not in str(error):  # it has no base file that is older
                raise
            table.metadata_drop()
            procedure(call)

    saved: list[str] = []

    def save() -> None:
        saved.append(str(newest_commit(table)))
        procedure(f"create_savepoint(path => '{{path}}', commit_time => '{saved[0]}')")
        table.upsert(plain_rows("l/late", note="x"))

    we, hudis = (lambda: synced(hive, table)), (lambda: sync_by_hudi(hudi, place, table, "orders"))
    turns: tuple[tuple[Callable[[], object], Callable[[], object] | None, list[str]], ...] = (
        (lambda: table.upsert(plain_rows("a/eu", "b/us")), hudis, ["eu", "us"]),
        (lambda: theirs("c/as"), we, ["as", "eu", "us"]),
        (lambda: table.delete_partitions(["us"]), hudis, ["as", "eu"]),
        (lambda: theirs("d/af", synced="true"), None, ["af", "as", "eu"]),
        (lambda: table.upsert(plain_rows("e/oc", note="x"), schema_mode="add"), we, ["af", "as", "eu", "oc"]),
        (lambda: theirs("f/us", note="x", synced="true"), None, ["af", "as", "eu", "oc", "us"]),
        (lambda: table.rollback(str(newest_commit(table))), hudis, ["af", "as", "eu", "oc", "us"]),
        (lambda: table.upsert(plain_rows("a/eu", note="y")), hudis, ["af", "as", "eu", "oc", "us"]),
        (lambda: None, we, ["af", "as", "eu", "oc"]),
        (lambda: theirs("g/sa", operation="insert_overwrite_table", note="x"), we, ["sa"]),
        (save, we, ["late", "sa"]),
        (restore, we, ["sa"]),
        (lambda: table.insert_overwrite_table(plain_rows("h/na", note="x")), hudis, ["na"]),
        (lambda: theirs("i/eu", note="x", synced="true"), None, ["eu", "na"]),
        (lambda: None, we, ["eu", "na"]),
    )
    for turn, (write, sync, expected) in enumerate(turns):
        write()
        if sync is not None:
            sync()
        assert partitions(hive) == expected, (turn, live_paths(table))
        if sync is we:
            assert_agrees(hive, table)
            assert {"eu", "na"} != set(expected) or "note" in {one.name for one in entry(hive).columns}


@pytest.mark.parametrize("release", {one for one, _ in COMBINATIONS})
@pytest.mark.parametrize("place", ["3.1.3"], indirect=True)
def test_spark_reads_by_name(
    release: str, hive: HiveCatalog, place: str, tmp_path: Path, servers: Callable[[str], HudiServer]
):
    spark = servers(release)
    version = "6" if release == "0.15.0" else "9"
    name = f"names_of_{version}"
    table = make_table(
        tmp_path / "its own%20 folder" / name,
        schema=SCHEMA,
        keys=("id",),
        partitions=("region",),
        ordering="ts",
        hoodie__write__table__version=version,
    )
    table.upsert(rows("a/eu", "b/us", "c/u s%"))
    synced(hive, table)
    every = spark.sql(f"SELECT id, n, price, s.aB, m['k'], region FROM shop.{name} ORDER BY id")
    assert every == [[key, "1", "1.50", "1", "1", region] for key, region in (("a", "eu"), ("b", "us"), ("c", "u s%"))]
    for region, key in (("us", "b"), ("u s%", "c")):
        some = f"SELECT id FROM shop.{name} WHERE region = '{region}'"
        assert spark.sql(some) == [[key]]
        [[plan]] = spark.sql(f"EXPLAIN {some}")
        assert "PartitionFilters: [isnotnull(region" in str(plan), "partitions are pruned"
