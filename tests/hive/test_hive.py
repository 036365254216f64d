"""Real Hive Metastores: the contract of catalogs, and what is Hive's alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import lakeindex as library
from lakeindex.catalogs.hive import HiveCatalog
from lakeindex.errors import CatalogError, OptionError
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
from tests.hive.conftest import AUTHORITY, PLACES, HiveWorld, tls_of

pytestmark = pytest.mark.hive


@pytest.mark.parametrize("story", STORIES, ids=lambda one: one.__name__)
def test_contract(story: Callable[[World], object], hive: HiveCatalog, place: str, tmp_path: Path):
    if story is very_many_partitions and place == PLACES.get("3.1.3"):
        pytest.skip("it counts our calls, which are the same in each release")
    print(story(HiveWorld(tmp_path, hive)))  # noqa: T201 - requests for very many partitions, which -rP shows


def test_doors(hive: HiveCatalog, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SSL_CERT_FILE", AUTHORITY)
    table = table_of(HiveWorld(tmp_path, hive))
    options = {
        "lakeindex.sync": "hive",
        "hoodie.datasource.hive_sync.database": "shop",
        "hoodie.datasource.hive_sync.metastore.uris": f"thrift://127.0.0.1:1,{place}",
        "lakeindex.hive.tls": tls_of(place) or "false",
    }
    assert table.upsert(rows("a/eu", "b/u%s"), options=options).notes == ()
    assert partitions(hive) == ["eu", "u%s"]
    assert_agrees(hive, table)
    url = place.replace("thrift", "hives" if tls_of(place) else "hive")
    assert library.open_table(f"{url}/shop/orders").read(meta=False).num_rows == 2
    assert lakeindex("count", f"{url}/shop/orders").stdout.split()[0] == "2"
    assert [one.name for one in library.find_tables(f"{url}/shop").tables] == ["orders"]
    assert "numFiles" not in entry(hive).parameters


@pytest.mark.parametrize("place", ["4.0.1"], indirect=True)
def test_tls_is_checked(place: str, tmp_path: Path):
    host, _, port = place.removeprefix("thrift://").partition(":")
    cases: tuple[tuple[str, str | bool, str], ...] = (
        (host, True, "CERTIFICATE_VERIFY_FAILED"),
        ("localhost", AUTHORITY, "Hostname mismatch"),
        (host, False, "did not answer get_table_req"),
    )
    for name, tls, said in cases:
        catalog = HiveCatalog([(name, int(port))], tls=tls)
        with pytest.raises(CatalogError, match=said) as caught:
            catalog.table("shop", "orders")
        assert "lakeindex.hive.tls" in str(caught.value.hint)
        catalog.close()
    no_file = tmp_path / "none.pem"
    for text in ("", "of no certificate"):
        if text:
            no_file.write_text(text)
        with pytest.raises(OptionError, match=r"lakeindex\.hive\.tls cannot be"):
            HiveCatalog([(host, int(port))], tls=str(no_file))


@pytest.mark.parametrize("place", ["3.1.3"], indirect=True)
def test_tls_where_there_is_none(place: str):
    host, _, port = place.removeprefix("thrift://").partition(":")
    with pytest.raises(CatalogError, match="no Hive Metastore answers"):
        HiveCatalog([(host, int(port))], tls=True).table("shop", "orders")
