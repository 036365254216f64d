"""A TCP relay that makes a server on this machine as far away as a store in a data centre:
each request arrives later.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Final
from urllib.parse import urlsplit

_CHUNK: Final = 1 << 18
_BACKLOG: Final = 1024


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay: float) -> None:
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


async def _serve(host: str, port: int, delay: float, ready: Connection) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(_pass_on(reader, back, delay), _pass_on(there, writer, 0.0))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=_BACKLOG)
    ready.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _run(host: str, port: int, delay: float, ready: Connection) -> None:
    asyncio.run(_serve(host, port, delay, ready))


@contextlib.contextmanager
def slow_link(endpoint: str, delay: float) -> Iterator[str]:
    """An endpoint that leads to another one, in a process of its own.

    Args:
        endpoint: such as ``http://127.0.0.1:9000``.
        delay: seconds that are added to each request.
    """
    where = urlsplit(endpoint)
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    arguments = (where.hostname, where.port or 80, delay, theirs)
    process = context.Process(target=_run, args=arguments, daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{mine.recv()}"
    finally:
        process.terminate()
        process.join()
