"""A store that takes a connection and never answers, and one that does not take it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakeindex.api.table import LakeTable, open_table
from lakeindex.errors import OptionError, StorageError
from lakeindex.storage import StoreOptions, objects, open_storage
from lakeindex.storage import options as store_options
from lakeindex.storage.options import TimeLimits

SHORT = {"lakeindex_store_timeout": "0.2", "lakeindex_store_connect_timeout": "0.2"}
S3 = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "us-east-1"}
AZURE = {"azure_storage_account_name": "a", "azure_storage_account_key": "a2V5"}
_FAR_BELOW_A_DEFAULT_S = 25
"""All tries with short limits end before one with the default limits would."""


@pytest.fixture
def silent() -> Iterator[str]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(64)
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_no_store_is_waited_for_longer_than_asked(silent: str):
    stores = {
        "s3://bucket/t": {**S3, "aws_endpoint_url": f"http://{silent}"},
        "az://bucket/t": {**AZURE, "azure_storage_endpoint": f"http://{silent}"},
        f"hdfs://{silent}/t": {},
    }

    def ask(uri: str) -> None:
        options = {**stores[uri], **SHORT}
        store = open_storage(uri, StoreOptions.of(options))
        for call in (
            lambda: store.read("x"),
            store.list,
            lambda: store.create("x", b"1"),
            lambda: store.write("x", b"1"),
            lambda: open_table(uri, options),
            lambda: LakeTable(uri, options).count(),
        ):
            with pytest.raises(StorageError):
                call()

    began = time.monotonic()
    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(ask, stores))
    assert time.monotonic() - began < _FAR_BELOW_A_DEFAULT_S * len(stores)


def test_limits_are_those_of_the_handle_then_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    for name in ("LAKEINDEX_STORE_TIMEOUT", "LAKEINDEX_STORE_CONNECT_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    usual = TimeLimits.of(StoreOptions())
    assert [one.total_seconds() for one in (usual.connect, usual.answer, usual.all_tries)] == [5, 30, 60]
    monkeypatch.setenv("LAKEINDEX_STORE_TIMEOUT", "7")
    assert TimeLimits.of(StoreOptions()).answer.total_seconds() == 7
    assert TimeLimits.of(StoreOptions.of({"LAKEINDEX_STORE_TIMEOUT": 3})).answer.total_seconds() == 3
    for wrong in ("0", "-1", "soon", "inf", "nan"):
        with pytest.raises(OptionError, match="LAKEINDEX_STORE_TIMEOUT cannot be"):
            TimeLimits.of(StoreOptions.of({"lakeindex_store_timeout": wrong}))


_DRIPS: int = 200
"""Bytes of an object that a store gives one by one, a tenth of a second apart."""
_HEAD = (
    f'HTTP/1.1 200 OK\r\nETag: "1"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: {_DRIPS}\r\n\r\n'
).encode()


@pytest.fixture
def dripping() -> Iterator[str]:
    """A store whose answer never pauses for long, and takes 20 seconds to be whole."""
    over = threading.Event()

    def answer(connection: socket.socket) -> None:
        with connection:
            connection.recv(65_536)
            try:
                connection.sendall(_HEAD)
                for _ in range(_DRIPS):
                    if over.wait(0.1):
                        return
                    connection.sendall(b"x")
            except OSError:
                return

    def serve(server: socket.socket) -> None:
        while not over.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=[connection], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        thread = threading.Thread(target=serve, args=[server], daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        over.set()
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_an_answer_that_never_ends_is_not_waited_for(dripping: str, monkeypatch: pytest.MonkeyPatch):
    """Each of its bytes comes in time: what ends it is the limit of the whole call, or the object is there after all."""
    monkeypatch.setattr(store_options, "_WHOLE_S", 0.5)
    for uri, settings in (
        ("s3://bucket/t", {**S3, "aws_endpoint_url": f"http://{dripping}"}),
        ("az://bucket/t", {**AZURE, "azure_storage_endpoint": f"http://{dripping}"}),
    ):
        store = open_storage(uri, StoreOptions.of({**settings, "lakeindex_store_timeout": "0.4"}))
        with pytest.raises(StorageError):
            store.read("x")


def test_no_limit_of_a_create_is_longer_than_its_own():
    whole = TimeLimits.of(StoreOptions()).within(objects.CONTROL_TIMEOUT)
    assert {one.total_seconds() for one in (whole.answer, whole.all_tries, whole.whole)} == {10}
    assert whole.connect.total_seconds() == 5
