"""One warm Spark 3.5 session with one engine's jars; runs in ``.interop/venv``.
:mod:`benchmarks.peers.remote` is the client.

``spark35_server.py CONF``: the session's settings as a JSON object.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

Request = dict[str, Any]


class Server:
    """Operations on one session."""

    def __init__(self, conf: dict[str, str]) -> None:
        scratch = os.environ["BENCH_SCRATCH"]
        mine = {"spark.sql.warehouse.dir": f"{scratch}/warehouse", "spark.local.dir": f"{scratch}/spark"}
        builder = SparkSession.builder.master("local[2]").appName("benchmark")
        for key, value in {**mine, **conf}.items():
            builder = builder.config(key, value)
        self._session = builder.getOrCreate()
        self._session.sparkContext.setLogLevel("ERROR")

    def read(self, request: Request) -> None:
        self._session.read.parquet(*request["paths"]).createOrReplaceTempView(request["view"])

    def write(self, request: Request) -> None:
        writer = self._session.table(request["view"]).write.format(request["format"]).options(**request["options"])
        if request["partition"]:
            writer = writer.partitionBy(*request["partition"])
        writer.mode(request["mode"]).save(request["path"])

    def sql(self, request: Request) -> list[list[str | None]]:
        """Run one statement; rows as lists of texts (None stays None)."""
        rows = self._session.sql(request["statement"]).collect()
        return [[None if value is None else str(value) for value in row] for row in rows]

    def forget(self, _request: Request) -> None:
        """Forget the logs of Delta tables: a table was put back to what it was, which Delta does not expect."""
        jvm: Any = self._session._jvm  # noqa: SLF001 - Delta's Python package does not reach it
        jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def _message(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:4000]


def main() -> None:
    """Answer until standard input ends."""
    # The JVM inherits descriptor 1 and may print there: keep the answers on a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(answer: Request) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    server = Server(json.loads(sys.argv[1]))
    operations: dict[str, Callable[[Request], object]] = {
        "read": server.read,
        "write": server.write,
        "sql": server.sql,
        "forget": server.forget,
    }
    say({"ok": True, "result": None})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say({"ok": True, "result": operations[request["op"]](request)})
        except (Py4JError, PySparkException) as error:
            say({"ok": False, "error": _message(error)})


if __name__ == "__main__":
    main()
