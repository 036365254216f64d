"""A TCP relay that makes a server on this machine as far away as a store in a data centre: each request arrives later.
It counts them, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from typing import Final
from urllib.parse import urlsplit

_CHUNK: Final = 1 << 18
_BACKLOG: Final = 1024
_METHODS: Final = (b"GET ", b"PUT ", b"POST ", b"HEAD ", b"DELETE ")


async def _pass_on(source: asyncio.StreamReader | _Counted, sink: asyncio.StreamWriter, delay: float) -> None:
    """Bytes in order, each ``delay`` seconds after it came; how many come at once does not matter."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def send() -> None:
        while True:
            due, data = await waiting.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            if not data:
                break
            sink.write(data)
            await sink.drain()

    sender = asyncio.create_task(send())
    with contextlib.suppress(ConnectionError):
        while data := await source.read(_CHUNK):
            waiting.put_nowait((loop.time() + delay, data))
    waiting.put_nowait((loop.time() + delay, b""))
    with contextlib.suppress(ConnectionError):
        await sender
        sink.close()


@dataclass(frozen=True)
class SlowLink:
    """A relay that runs."""

    endpoint: str
    _count: Synchronized[int]

    @property
    def requests(self) -> int:
        """Requests that came through so far: what a client sends begins a segment of its own with each."""
        return self._count.value


class _Counted:
    """A stream of a client, whose requests are counted."""

    def __init__(self, stream: asyncio.StreamReader, count: Synchronized[int]) -> None:
        self._stream, self._count = stream, count

    async def read(self, most: int) -> bytes:
        data = await self._stream.read(most)
        if data.startswith(_METHODS):
            with self._count.get_lock():
                self._count.value += 1
        return data


async def _serve(host: str, port: int, delay: float, ready: Connection, count: Synchronized[int]) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(_pass_on(_Counted(reader, count), back, delay), _pass_on(there, writer, 0.0))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=_BACKLOG)
    ready.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _run(host: str, port: int, delay: float, ready: Connection, count: Synchronized[int]) -> None:
    asyncio.run(_serve(host, port, delay, ready, count))


@contextlib.contextmanager
def slow_link(endpoint: str, delay: float) -> Iterator[SlowLink]:
    """A relay to an endpoint, in a process of its own.

    Args:
        delay: seconds that are added to each request.
    """
    where = urlsplit(endpoint)
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    count = context.Value(ctypes.c_int64, 0)
    arguments = (where.hostname, where.port or 80, delay, theirs, count)
    process = context.Process(target=_run, args=arguments, daemon=True)
    process.start()
    try:
        yield SlowLink(f"http://127.0.0.1:{mine.recv()}", count)
    finally:
        process.terminate()
        process.join()
