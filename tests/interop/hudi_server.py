"""A long-living process with one real Hudi release in a warm Spark session, driven by JSON lines.

Runs in ``.interop/venv`` (PySpark 3.5), never in the project's environment; :mod:`tests.interop.hudi_client` is the
other end. One request a line on standard input, one answer a line on standard output::

    {"op": "write", "path": "/t", "input": "/rows.parquet", "mode": "append", "options": {"hoodie...": "..."}}
    {"ok": true, "result": {...}} or {"ok": false, "error": "message of the innermost cause"}

Rows travel as Parquet files on local disk. Everything that Spark, Hudi or the JVM print goes to standard error.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TextIO

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

Request = dict[str, Any]


def _classes(scratch: str) -> str:
    """Folder of the classes that :meth:`Server.compile` makes."""
    folder = os.path.join(scratch, "classes")  # noqa: PTH118 - this file needs nothing of the project's
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - as above
    return folder


def start_session(jar: str, scratch: str, memory: str, java_options: str, more: dict[str, str]) -> SparkSession:
    """A local session with two cores and one Hudi bundle, as Hudi's documentation asks for it."""
    conf = {
        "spark.jars": jar,
        "spark.driver.extraClassPath": os.pathsep.join((jar, _classes(scratch))),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": java_options,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.local.dir": f"{scratch}/spark",
        "spark.ui.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",  # a query of a few rows is done before its classes are compiled
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.ui.showConsoleProgress": "false",
        **more,
    }
    builder = SparkSession.builder.master("local[2]").appName("lakeindex interop")
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


class Server:
    """Operations on one session."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._held: Any = None
        self._locks: dict[str, Any] = {}

    def _load(self, request: Request) -> DataFrame:
        reader = self._session.read.format("hudi").options(**request.get("options", {}))
        return reader.load(request["path"])

    def write(self, request: Request) -> Request:
        """Write the rows of a Parquet file with the given Hudi options, nothing added."""
        rows = self._session.read.parquet(request["input"])
        writer = rows.write.format("hudi").options(**request.get("options", {}))
        writer.mode(request.get("mode", "append")).save(request["path"])
        return {}

    def read(self, request: Request) -> Request:
        """Read a table (options decide: snapshot, as of an instant, incremental) into a Parquet folder."""
        frame = self._load(request)
        if request.get("filter"):
            frame = frame.filter(request["filter"])
        frame.coalesce(1).write.mode("overwrite").parquet(request["out"])
        return {}

    def counts(self, request: Request) -> Request:
        """How many rows of a table each of several filters finds; ``together``: by one pass over all rows."""
        if request["together"]:
            wanted = [f"count_if({where})" for where in request["filters"]]
            return {"counts": list(self._load(request).selectExpr(*wanted).first())}
        rows = self._load(request)
        each = [
            rows.filter(where).selectExpr(f"{number} as number", "count(1) as found")
            for number, where in enumerate(request["filters"])
        ]
        # one job for all: each part of it leaves out files by its own filter
        return {"counts": [found for _, found in sorted(functools.reduce(DataFrame.union, each).collect())]}

    def hold(self, request: Request) -> Request:
        """Hold the rows of a Parquet file as Hudi's records, made as its writer makes them, for :meth:`tag`."""
        jvm, options = self._session._jvm, request["options"]
        context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(self._session.sparkContext._jsc)
        tables = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        table = tables.setConf(context.getStorageConf()).setBasePath(request["path"]).build().getTableConfig()
        schema = jvm.org.apache.hudi.common.schema.HoodieSchema.parse(options["hoodie.avro.schema"])
        rows = self._session.read.parquet(request["input"]).repartition(2)
        parts = getattr(jvm.org.apache.hudi, "HoodieCreateRecordUtils$createHoodieRecordRddArgs")(
            rows._jdf,
            self._config(request),
            jvm.PythonUtils.toScalaMap(options),
            "orders_record",
            "hoodie.orders",
            schema,
            schema,
            jvm.org.apache.hudi.common.model.WriteOperationType.UPSERT,
            "20991231000000000",
            False,
            False,
            False,
            table,
        )
        if self._held is not None:
            self._held.unpersist(True)
        self._held = jvm.org.apache.hudi.HoodieCreateRecordUtils.createHoodieRecordRdd(parts).cache()
        return {"rows": self._held.count()}

    def tag(self, request: Request) -> Request:
        """Look all held records up with Hudi's index; the seconds of that alone."""
        jvm = self._session._jvm
        context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(self._session.sparkContext._jsc)
        client = jvm.org.apache.hudi.client.SparkRDDReadClient(context, self._config(request))
        started = time.perf_counter()
        tagged = client.tagLocation(self._held.coalesce(2)).count()  # an RDD of its own, which the index may cache
        return {"seconds": time.perf_counter() - started, "rows": tagged}

    def _config(self, request: Request) -> Any:
        jvm = self._session._jvm
        options = jvm.java.util.Properties()
        for key, text in request["options"].items():
            options.setProperty(key, text)
        builder = jvm.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
        return builder.withPath(request["path"]).withProps(options).build()

    def archived(self, request: Request) -> Request:
        """The archived timeline as Hudi reads it: instants, and the sizes of what it holds of the completed commits."""
        jvm = self._session._jvm
        context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(self._session.sparkContext._jsc)
        tables = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        timeline = tables.setConf(context.getStorageConf()).setBasePath(request["path"]).build().getArchivedTimeline()
        timeline.loadCompletedInstantDetailsInMemory()
        instants = list(timeline.getInstants())
        details = {one.toString(): timeline.getInstantDetails(one) for one in instants if one.isCompleted()}
        return {
            "instants": [one.toString() for one in instants],
            "details": {name: len(found.get()) if found.isPresent() else 0 for name, found in details.items()},
        }

    def compile(self, request: Request) -> Request:
        """Compile a Java class, with the compiler that is part of Spark, to where the JVM looks for classes."""
        compiler = self._session._jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setTargetVersion(8)
        compiler.cook(request["source"])
        made = compiler.getBytecodes()
        for name in list(made):
            file = os.path.join(_classes(request["scratch"]), *name.split(".")) + ".class"  # noqa: PTH118 - as above
            os.makedirs(os.path.dirname(file), exist_ok=True)  # noqa: PTH103, PTH120 - as above
            with open(file, "wb") as out:  # noqa: PTH123 - as above
                out.write(bytes(made[name]))
        return {"classes": list(made)}

    def lock(self, request: Request) -> Request:
        """Try to take a lock with Hudi's own provider, of the class that the options name; whether it was had."""
        jvm, options = self._session._jvm, request["options"]
        settings = jvm.org.apache.hudi.common.config.TypedProperties()
        for key, text in {"hoodie.base.path": request["path"], **options}.items():
            settings.setProperty(key, text)
        context = jvm.org.apache.hudi.client.common.HoodieSparkEngineContext(self._session.sparkContext._jsc)
        kind = getattr(jvm, options["hoodie.write.lock.provider"])
        provider = kind(jvm.org.apache.hudi.common.config.LockConfiguration(settings), context.getStorageConf())
        had = provider.tryLock(int(request["seconds"]), jvm.java.util.concurrent.TimeUnit.SECONDS)
        if had:
            self._locks[request["path"]] = provider
        return {"had": had}

    def unlock(self, request: Request) -> Request:
        """Let go of it."""
        self._locks.pop(request["path"]).unlock()
        return {}

    def sql(self, request: Request) -> Request:
        """Run one statement; rows as lists of texts (None stays None)."""
        rows = self._session.sql(request["statement"]).collect()
        return {"rows": [[None if value is None else str(value) for value in row] for row in rows]}

    def hive_sync(self, request: Request) -> Request:
        """Hudi's own sync, by its command line."""
        gateway = self._session.sparkContext._gateway
        words = gateway.new_array(gateway.jvm.java.lang.String, len(request["words"]))
        for at, word in enumerate(request["words"]):
            words[at] = word
        gateway.jvm.org.apache.hudi.hive.HiveSyncTool.main(words)
        return {}

    def several(self, request: Request) -> Request:
        """Several requests at once: a small job leaves most of two cores idle. All are done before one fails."""
        with ThreadPoolExecutor(len(request["requests"])) as pool:
            done = [pool.submit(operations(self)[one["op"]], one) for one in request["requests"]]
        return {"results": [one.result() for one in done]}

    def ping(self, request: Request) -> Request:
        """Say which Spark this is."""
        return {"spark": self._session.version, "echo": request.get("echo")}


def _innermost(error: BaseException) -> str:
    """Message of a Java error with the chain of its causes: Spark wraps what Hudi says several times."""
    if not isinstance(error, Py4JJavaError):
        return f"{type(error).__name__}: {error}"[:4000]
    texts, cause = [], error.java_exception
    while cause is not None and len(texts) < 12:
        texts.append(str(cause.toString())[:1500])
        cause = cause.getCause()
    return " <- ".join(reversed(texts))


def operations(server: Server) -> dict[str, Callable[[Request], Request]]:
    """What can be asked for, by name."""
    names = "write read counts several sql hive_sync compile lock unlock archived hold tag ping"
    return {name: getattr(server, name) for name in names.split()}


def serve(server: Server, requests: TextIO, answers: TextIO) -> None:
    """Answer until standard input ends."""
    known = operations(server)
    for line in requests:
        request: Request = json.loads(line)
        try:
            answer: Request = {"ok": True, "result": known[request["op"]](request)}
        except (Py4JError, PySparkException) as error:
            traceback.print_exc()
            answer = {"ok": False, "error": _innermost(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    """``hudi_server.py JAR SCRATCH MEMORY JAVA_OPTIONS CONF``; the first line on standard output says that the session is up."""
    jar, scratch, memory, java_options, more = sys.argv[1:6]
    # The JVM inherits descriptor 1 and may print there: keep the answers on a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = Server(start_session(jar, scratch, memory, java_options, json.loads(more)))
    answers.write(json.dumps({"ok": True, "result": server.ping({})}) + "\n")
    answers.flush()
    serve(server, sys.stdin, answers)


if __name__ == "__main__":
    main()
