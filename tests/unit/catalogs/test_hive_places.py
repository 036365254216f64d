"""Where a metastore is said to be, without one."""

from __future__ import annotations

import pytest

from lakeindex.catalogs.hive import hive_catalog
from lakeindex.catalogs.places import catalog_url
from lakeindex.errors import CatalogError, OptionError
from lakeindex.options.sync_options import SyncOptions


def test_places_that_are_none():
    for text in ("localhost:9083", "thrift://", "http://host:9083", "thrift://host:port", ""):
        with pytest.raises(OptionError, match="thrift://host:port"):
            hive_catalog(SyncOptions(metastore=text))
    for url in ("hive://host:1", "hive://host:1/a/b/c", "hive:///a/b"):
        with pytest.raises(OptionError, match="hive://host:port/database"):
            catalog_url(url)


def test_nobody_answers():
    catalog = hive_catalog(SyncOptions(metastore="thrift://127.0.0.1:1,thrift://127.0.0.1:2"))
    with pytest.raises(
        CatalogError, match=r"no Hive Metastore answers at thrift://127\.0\.0\.1:1, thrift://127\.0\.0\.1:2"
    ):
        catalog.table("a", "b")
    catalog.close()
