"""A metastore of each release, with an empty database."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import thriftpy2

from lakeindex.catalogs.hive import HiveCatalog, interface
from lakeindex.errors import TableNotFoundError

PLACES = dict(one.split("=") for one in os.environ.get("LAKEINDEX_HIVE", "").split())
"""Where the metastore of a release answers."""
AUTHORITY = os.environ.get("LAKEINDEX_HIVE_CA", "")
"""Certificate of the one that speaks TLS: 4.0.1."""


@dataclass
class HiveWorld:
    folder: Path
    hive: HiveCatalog
    partitions: int = int(os.environ.get("LAKEINDEX_HIVE_PARTITIONS", "600"))

    def catalog(self) -> HiveCatalog:
        empty(self.hive)
        return self.hive

    def drop_table(self, name: str = "orders") -> None:
        self.hive._client.drop_table("shop", name, False)

    def drop_database(self) -> None:
        empty(self.hive)
        self.hive._client.drop_database("shop", False, True)


def empty(catalog: HiveCatalog) -> None:
    """Drop every table of the tests' database: their files stay."""
    try:
        for table in [*catalog.tables("shop")]:
            catalog._client.drop_table(table.database, table.name, False)
    except TableNotFoundError:
        return


CALLS = """
service More {
  void drop_table(1: string database, 2: string name, 3: bool deleteData)
  void drop_database(1: string name, 2: bool deleteData, 3: bool cascade)
}
"""


def with_drops() -> None:
    """The interface with calls that only tests make."""
    service, more = interface().ThriftHiveMetastore, thriftpy2.load_fp(io.StringIO(CALLS), "more_thrift").More
    for name in more.thrift_services:
        if name not in service.thrift_services:
            service.thrift_services.append(name)
            for kind in (f"{name}_args", f"{name}_result"):
                setattr(service, kind, getattr(more, kind))


@pytest.fixture(params=["3.1.3", "4.0.1"])
def place(request: pytest.FixtureRequest) -> str:
    if request.param not in PLACES:
        pytest.skip("LAKEINDEX_HIVE names no metastore of this release: `make hive`")
    return PLACES[request.param]


def tls_of(place: str) -> str | bool:
    return AUTHORITY if place == PLACES.get("4.0.1") else False


@pytest.fixture
def hive(place: str) -> Iterator[HiveCatalog]:
    with_drops()
    host, _, port = place.removeprefix("thrift://").partition(":")
    catalog = HiveCatalog([(host, int(port))], tls=tls_of(place))
    empty(catalog)
    yield catalog
    empty(catalog)
    catalog.close()
