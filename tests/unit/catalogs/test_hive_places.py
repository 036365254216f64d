"""Where a metastore is said to be, and what it refuses, without one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from thriftpy2.server import TThreadedServer
from thriftpy2.thrift import TProcessor
from thriftpy2.transport import TServerSocket

from lakeindex.catalogs.hive import HiveCatalog, hive_catalog, interface
from lakeindex.catalogs.places import catalog_url
from lakeindex.errors import AccessDeniedError, CatalogError, OptionError, TableNotFoundError
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


@pytest.mark.parametrize(("scheme", "first"), [("hive", 0x80), ("hives", 0x16), ("HIVES", 0x16)])
def test_a_url_says_whether_tls_is_spoken(scheme: str, first: int):
    """By the first byte that a metastore gets: of a call, or of a greeting of TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        got: list[bytes] = []

        def answer() -> None:
            connection, _ = server.accept()
            got.append(connection.recv(1))
            connection.close()

        answering = threading.Thread(target=answer)
        answering.start()
        named = catalog_url(f"{scheme}://127.0.0.1:{server.getsockname()[1]}/a/b")
        with closing(named.catalog), pytest.raises(CatalogError):
            named.held()
        answering.join()
    assert got == [bytes([first])]


class _Refusing:
    """A metastore that answers everything with the error that it is given."""

    def __init__(self) -> None:
        self.error: Exception = Exception()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def refuse(*_: object) -> Any:
            if name == "set_ugi":
                return []
            raise self.error

        return refuse


@pytest.fixture
def refusing() -> Iterator[tuple[_Refusing, HiveCatalog]]:
    metastore, listening = _Refusing(), TServerSocket("127.0.0.1", 0)
    server = TThreadedServer(TProcessor(interface().ThriftHiveMetastore, metastore), listening)
    listening.listen()
    answering = threading.Thread(target=lambda: server.handle(listening.accept()))
    answering.start()
    catalog = hive_catalog(SyncOptions(metastore=f"thrift://127.0.0.1:{listening.sock.getsockname()[1]}"))
    yield metastore, catalog
    catalog.close()
    answering.join()
    listening.close()


def test_what_a_metastore_refuses(refusing: tuple[_Refusing, HiveCatalog]):
    """As a metastore that asks the file system or a plugin for rights says it (MetaException, with any words)."""
    metastore, catalog = refusing
    thrift = interface()
    denied = "Permission denied: user=sync, access=WRITE, inode=shop.db"
    for error, kind, said in (
        (thrift.MetaException(message=denied), AccessDeniedError, f"refuses get_table_req to .*: {denied}"),
        (thrift.MetaException(message="AccessControlException: x"), AccessDeniedError, "refuses"),
        (thrift.MetaException(message="the disk is full"), CatalogError, "MetaException: the disk is full"),
    ):
        metastore.error = error
        with pytest.raises(kind, match=said) as caught:
            catalog.table("shop", "orders")
        assert caught.type is kind


def test_an_entry_that_went_away_in_the_middle(refusing: tuple[_Refusing, HiveCatalog]):
    """As metastores of 3.1.3 and 4.0.1 say it, each call in its own words: the next look finds no entry and makes it."""
    metastore, catalog = refusing
    thrift = interface()
    request = thrift.AddPartitionsRequest(dbName="shop", tblName="orders", parts=[], ifNotExists=True)
    gone = "hive.shop.orders table not found"
    for error, call, arguments in (
        (thrift.NoSuchObjectException(message=gone), "get_partitions_by_names", ("shop", "orders", [])),
        (
            thrift.InvalidOperationException(message=gone),
            "alter_table_with_environment_context",
            ("shop", "orders", thrift.Table(), thrift.EnvironmentContext()),
        ),
        (
            thrift.InvalidObjectException(message="Unable to add partitions because hive.shop.orders does not exist"),
            "add_partitions_req",
            (request,),
        ),
    ):
        metastore.error = error
        with pytest.raises(TableNotFoundError, match=r"shop\.orders"):
            catalog._call(call, *arguments)
