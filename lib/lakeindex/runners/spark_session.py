"""A Spark session for the library: found if there is one, else made with a Java that Spark can start."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from lakeindex.runners.java import find_java_home
from lakeindex.runners.spark_settings import FAST_WORKERS

DEFAULT_MASTER = "local[*]"


def spark_session(master: str | None = None, app_name: str = "lakeindex") -> SparkSession:
    """The running session, or a new one.

    Args:
        master: Spark master of a new session; ``spark-submit`` and a running session have theirs already.
        app_name: name of a new session; one that is submitted has its name from spark-submit.

    Raises:
        UsageError: no Java that Spark can start is on this machine.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    # Workers must be this interpreter, not whatever python3 is first on their PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    if not is_submitted:
        os.environ["JAVA_HOME"] = str(find_java_home())
        builder = (
            builder.appName(app_name)
            .master(master or DEFAULT_MASTER)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.log.level", "WARN")
            .config(map=dict(FAST_WORKERS))
        )
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return builder.getOrCreate()
