"""The machine: Java, Spark, memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from packaging.version import Version

from lakeindex.doctor.findings import Check, fail, failed_with, ok, warn
from lakeindex.errors import UsageError
from lakeindex.runners.java import find_java_home, java_major
from lakeindex.tasks.memory_bound import LEAST_DEFAULT, default_memory

_SPARK_SECONDS: Final = 180
_GIB: Final = 2**30
#: Spark 3.5's Hadoop asks for the security manager, which Java 24 has taken away.
_FIRST_WITHOUT_SECURITY_MANAGER: Final = 24
_START_SPARK: Final = """\
from lakeindex.runners.spark_session import spark_session
session = spark_session("local[1]", "lakeindex doctor")
assert session.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3
java = session.sparkContext._jvm.java.lang.System.getProperty("java.version")
print("started Spark", session.version, "on Java", java)
session.stop()
"""


def check_java(pyspark: str | None, environ: Mapping[str, str] | None = None) -> Check:
    """Which Java Spark would start with, and whether it fits this PySpark.

    Args:
        pyspark: the version that is installed, None if none is.
        environ: where to look; by default this process's environment.
    """
    try:
        home = find_java_home(environ=environ)
    except UsageError as error:
        if pyspark is None:
            return ok("java", "none; only Spark needs one")
        return failed_with("java", error)
    major = java_major(home)
    text = f"Java {major} in {home}"
    if pyspark is None:
        return ok("java", text)
    if Version(pyspark) < Version("4") and (major or 0) >= _FIRST_WITHOUT_SECURITY_MANAGER:
        return fail("java", f"{text}; PySpark {pyspark} does not start on it", "set JAVA_HOME to a Java 17")
    return ok("java", f"{text}, fits PySpark {pyspark}")


def check_submit(pyspark: str | None, environ: Mapping[str, str] | None = None) -> Check | None:
    """Whether jobs would be submitted by this environment's Spark and run by its Python; None without PySpark."""
    if pyspark is None:
        return None
    env = os.environ if environ is None else environ
    command = shutil.which("spark-submit", path=env.get("PATH", ""))
    if command is None:
        return warn("spark-submit", "not on PATH", f"for Airflow, put {Path(sys.executable).parent} first on PATH")
    if not env.get("PYSPARK_PYTHON"):
        cure = f"for jobs, export PYSPARK_PYTHON={sys.executable}; else Spark takes the first python3 on PATH"
        return warn("spark-submit", f"{command}, but PYSPARK_PYTHON is not set", cure)
    return ok("spark-submit", f"{command}, workers run {env['PYSPARK_PYTHON']}")


def check_spark_starts() -> Check:
    """Start Spark in a process of its own, and send rows through a Python worker."""
    command = [sys.executable, "-c", _START_SPARK]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SPARK_SECONDS, check=False)  # noqa: S603 - this Python, our text
    except subprocess.TimeoutExpired:
        return fail("spark", f"did not start within {_SPARK_SECONDS} s", "look at the machine's load and memory")
    if done.returncode == 0:
        return ok("spark", done.stdout.strip().rpartition("\n")[2])
    last = (done.stderr.strip() or "it said nothing").rpartition("\n")[2]
    return fail("spark", last, "pip install 'lakeindex[spark]'; see java above", "RuntimeError", 1)


def check_memory(available: int | None = None) -> Check:
    """What a run's tasks may hold together if nothing is said."""
    bound = default_memory() if available is None else available
    text = f"{bound / _GIB:.1f} GiB for a run's tasks (half of the machine's or the cgroup's)"
    if bound <= LEAST_DEFAULT:
        return warn("memory", text, "give -o lakeindex.memory=SIZE, 64m or more, or a larger machine")
    return ok("memory", text)
