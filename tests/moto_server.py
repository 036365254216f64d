"""AWS as moto's server plays it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def moto_here() -> Iterator[str]:
    """A server in this process: its URL."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def empty_glue(client: Any) -> None:
    """Take away what Glue knows, and no more: all servers of a process share what they know, buckets, too."""
    for database in client.get_databases()["DatabaseList"]:
        for table in client.get_tables(DatabaseName=database["Name"])["TableList"]:
            client.delete_table(DatabaseName=database["Name"], Name=table["Name"])
        client.delete_database(Name=database["Name"])


def use_aws(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """Let the environment say that AWS is there."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
