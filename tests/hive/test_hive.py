"""Real Hive Metastores: the contract of catalogs, and what is Hive's alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lakeindex as library
from lakeindex.catalogs.hive import HiveCatalog
from tests.catalog_contract import (
    STORIES,
    World,
    assert_agrees,
    entry,
    partitions,
    rows,
    table_of,
    very_many_partitions,
)
from tests.cli_support import lakeindex
from tests.hive.conftest import PLACES, HiveWorld

pytestmark = pytest.mark.hive


@pytest.mark.parametrize("story", STORIES, ids=lambda one: one.__name__)
def test_contract(story: Callable[[World], object], hive: HiveCatalog, place: str, tmp_path: Path):
    if story is very_many_partitions and place == PLACES.get("3.1.3"):
        pytest.skip("it counts our calls, which are the same in each release")
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
