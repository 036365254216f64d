"""Real Hive Metastores: the contract of catalogs, and what is Hive's alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import lakeindex as library
from lakeindex.catalogs.hive import HiveCatalog, interface
from lakeindex.errors import TableNotFoundError
from tests.catalog_contract import STORIES, World, assert_agrees, entry, partitions, rows, table_of
from tests.cli_support import lakeindex

pytestmark = pytest.mark.hive

PLACES = dict(one.split("=") for one in os.environ.get("LAKEINDEX_HIVE", "").split())
"""Where the metastore of a release answers."""


@dataclass
class HiveWorld:
    folder: Path
    hive: HiveCatalog
    partitions: int = 1_000

    def catalog(self) -> HiveCatalog:
        empty(self.hive)
        return self.hive


def empty(catalog: HiveCatalog) -> None:
    """Drop every table of the tests' database: their files stay."""
    try:
        for table in [*catalog.tables("shop")]:
            catalog._client.drop_table(table.database, table.name, False)
    except TableNotFoundError:
        return


def with_drop_table() -> None:
    """The interface with a call that only tests make."""
    service = interface().ThriftHiveMetastore
    if "drop_table" not in service.thrift_services:
        from thriftpy2.thrift import TPayload, TType

        class Arguments(TPayload):
            thrift_spec = {  # noqa: RUF012 - thriftpy2's
                1: (TType.STRING, "dbname", False),
                2: (TType.STRING, "name", False),
                3: (TType.BOOL, "deleteData", False),
            }
            default_spec = [("dbname", None), ("name", None), ("deleteData", None)]  # noqa: RUF012 - thriftpy2's

        class Result(TPayload):
            oneway = False
            thrift_spec = {}  # noqa: RUF012 - thriftpy2's
            default_spec = []  # noqa: RUF012 - thriftpy2's

        service.drop_table_args, service.drop_table_result = Arguments, Result
        service.thrift_services.append("drop_table")


@pytest.fixture(params=["3.1.3", "4.0.1"])
def place(request: pytest.FixtureRequest) -> str:
    if request.param not in PLACES:
        pytest.skip("LAKEINDEX_HIVE names no metastore of this release: `make hive`")
    return PLACES[request.param]


@pytest.fixture
def hive(place: str) -> Iterator[HiveCatalog]:
    with_drop_table()
    host, _, port = place.removeprefix("thrift://").partition(":")
    catalog = HiveCatalog([(host, int(port))])
    empty(catalog)
    yield catalog
    empty(catalog)
    catalog.close()


@pytest.mark.parametrize("story", STORIES, ids=lambda one: one.__name__)
def test_contract(story: Callable[[World], object], hive: HiveCatalog, tmp_path: Path):
    story(HiveWorld(tmp_path, hive))


def test_doors(hive: HiveCatalog, place: str, tmp_path: Path):
    table = table_of(HiveWorld(tmp_path, hive))
    options = {
        "lakeindex.sync": "hive",
        "hoodie.datasource.hive_sync.database": "shop",
        "hoodie.datasource.hive_sync.metastore.uris": f"thrift://127.0.0.1:1,{place}",
    }
    assert table.upsert(rows("a/eu", "b/u%s"), options=options).notes == ()
    assert partitions(hive) == ["eu", "u%s"]
    assert_agrees(hive, table)
    url = place.replace("thrift", "hive")
    assert library.open_table(f"{url}/shop/orders").read(meta=False).num_rows == 2
    assert lakeindex("count", f"{url}/shop/orders").stdout.split()[0] == "2"
    assert [one.name for one in library.find_tables(f"{url}/shop").tables] == ["orders"]
    assert "numFiles" not in entry(hive).parameters
