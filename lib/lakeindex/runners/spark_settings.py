"""Settings of Spark that the library's own sessions and submits have, and that are worth having in others. Knows no pyspark."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

WORKER_SOCKETS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": "/tmp",  # noqa: S108 - a socket's path has 108 bytes, YARN's folders take more
    }
)
"""Spark speaks with its Python workers over Unix sockets: over TCP each task waits 40 ms for an acknowledgement.

From Spark 4.1; those before pass over it. The socket belongs to the user of the worker, and only who owns it can connect.
"""
