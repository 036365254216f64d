"""A Thrift server that takes a connection and never answers is given up at the limits that the options set."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("happybase")

from lakeindex.errors import HBaseUnavailableError
from lakeindex.index.hbase.hbase_rows import HBaseAddress, HBaseClient

_GIVES_UP_S = 20
"""Then the server ends its connections: a client that still waits is told otherwise than one that gave up before."""


@pytest.fixture
def silent() -> Iterator[int]:
    taken: list[socket.socket] = []

    def end() -> None:
        for one in taken:
            one.shutdown(socket.SHUT_RDWR)

    def serve(server: socket.socket) -> None:
        while True:
            try:
                taken.append(server.accept()[0])
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        thread, timer = threading.Thread(target=serve, args=[server]), threading.Timer(_GIVES_UP_S, end)
        thread.start()
        timer.start()
        yield server.getsockname()[1]
        timer.cancel()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for one in taken:
        one.close()


def test_it_is_given_up(silent: int) -> None:
    of_options = HBaseClient(HBaseAddress("127.0.0.1", silent, connect_seconds=0.2, retry_seconds=0.0), "t")
    with pytest.raises(HBaseUnavailableError, match="timed out"):
        of_options.call(lambda client: client.getTableNames())
    at_the_start = HBaseClient(HBaseAddress("127.0.0.1", silent, connect_seconds=0.2), "t")
    with pytest.raises(HBaseUnavailableError, match=r"tried for 0\.1 s.*timed out"):
        at_the_start.call(lambda client: client.getTableNames(), retry_seconds=0.1)


def test_limits_of_an_answer() -> None:
    for connect, retry, answer in ((10, 60, 60), (10, 0, 10), (10, 30, 30), (10, 300, 60), (90, 60, 90)):
        assert HBaseAddress("h", 1, connect, retry).answer_seconds == answer
