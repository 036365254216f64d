"""A Spark session for the library: found if there is one, else made with a Java that Spark can start;
for a job, when it is needed.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from lakeindex.errors import UsageError
from lakeindex.runners.java import find_java_home
from lakeindex.runners.spark_settings import FAST_WORKERS
from lakeindex.time_spent import age_of, begin_with_process, loading, starting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""Set in a process that spark-submit started."""
_LAUNCH_SECONDS = 300
"""A JVM that starts a job's Python later than that was started for something else."""
_YARN_CONTAINER = "CONTAINER_ID"
"""Set by YARN's node manager in each container it starts (Hadoop's ``ApplicationConstants.Environment``; Spark itself
goes by it): a driver in one is in cluster mode."""


def spark_session(master: str | None = None, app_name: str = "lakeindex") -> SparkSession:
    """The running session, or a new one.

    Args:
        master: Spark master of a new session; ``spark-submit`` and a running session have theirs already.
        app_name: name of a new session; one that is submitted has its name from spark-submit.

    Raises:
        UsageError: PySpark is not installed, or no Java that Spark can start is on this machine.
    """
    with starting():
        return _session(master, app_name)


def _session(master: str | None, app_name: str) -> SparkSession:
    try:
        with loading():
            from pyspark.sql import SparkSession
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise UsageError(
            "the Spark runner needs PySpark, which is not installed",
            culprit="pyspark",
            hint="pip install 'lakeindex[spark]' (it needs Java 17 or later), or leave the runner out: threads of this "
            "process do the same",
        ) from error
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    is_submitted = _GATEWAY in os.environ
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


def begin_with_submit() -> None:
    """Count the time of a job from when the JVM that spark-submit started it with began; a JVM that was there for long
    has not been started for it.
    """
    if _GATEWAY in os.environ:
        own, parent = os.getpid(), os.getppid()
        begin_with_process(parent if age_of(parent) - age_of(own) < _LAUNCH_SECONDS else own)


class JobSession:
    """The session of a spark-submit job, made when it is first asked for.

    A job whose steps are small enough for the driver's cores asks the cluster for nothing, does not even
    load PySpark, and ends some seconds earlier. On YARN in cluster mode the session is made at once: there a
    job without one has failed.
    """

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        if _GATEWAY in os.environ and _YARN_CONTAINER in os.environ:
            self()

    @property
    def is_made(self) -> bool:
        return self._session is not None

    def __call__(self) -> SparkSession:
        if self._session is None:
            self._session = spark_session()
        return self._session

    @staticmethod
    def setting(name: str) -> str | None:
        """One of Spark's settings, as the job was submitted; None if it is not set."""
        from pyspark import SparkConf, SparkContext

        is_submitted = _GATEWAY in os.environ
        if is_submitted:
            SparkContext._ensure_initialized()  # noqa: SLF001 - what was submitted is behind the gateway
        return SparkConf(loadDefaults=is_submitted).get(name)

    def stop(self) -> None:
        if self._session is not None:
            self._session.stop()
