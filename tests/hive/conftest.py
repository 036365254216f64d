"""A metastore of each release, with an empty database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakeindex.catalogs.hive import HiveCatalog, interface
from lakeindex.errors import TableNotFoundError

PLACES = dict(one.split("=") for one in os.environ.get("LAKEINDEX_HIVE", "").split())
"""Where the metastore of a release answers."""


@dataclass
class HiveWorld:
    folder: Path
    hive: HiveCatalog
    partitions: int = 600

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
