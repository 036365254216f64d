"""Settings of Spark that the library's own sessions and submits have, and that are worth having in others.
Knows no pyspark.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

FAST_WORKERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spark.python.daemon.module": "lakeindex.runners.spark_daemon",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": "/tmp",  # noqa: S108 - YARN's are too long for a socket
    }
)
"""Spark's Python workers begin with the library loaded, and speak over Unix sockets:
over TCP each task waits 40 ms for an acknowledgement.

The sockets are Spark 4.1's; those before pass over them. A socket belongs to the user of the worker,
and only its owner can connect.
"""
