"""Run a command beside an HDFS of its own: ``scripts/hdfs_server.py -- pytest -m hdfs``.

A NameNode and two DataNodes run in one process: Hadoop's own mini cluster, which comes from Maven's
repositories into ``.hdfs/`` (:mod:`scripts.maven_jars`), on the Hadoop client that is part of PySpark. The
command finds it by ``LAKEINDEX_HDFS``::

    scripts/hdfs_server.py -- COMMAND    run a command beside a fresh one, which goes with it
    scripts/hdfs_server.py lock          resolve scripts/hdfs/pom.xml anew and write jars.lock (needs Maven)
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

import tenacity
from hdfs_native import Client, WriteOptions

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import maven_jars  # noqa: E402 - found through the line above
from scripts.ports import free_port  # noqa: E402 - as above
from scripts.s3_server import run_beside  # noqa: E402 - as above

RECIPE: Final = maven_jars.Recipe("HDFS", ROOT / "scripts" / "hdfs", ROOT / ".hdfs")
MAIN: Final = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
JAVA: Final = range(17, 30)
"""Releases that Hadoop 3.5 runs on."""
_START_SECONDS: Final = 120


def server_command(port: int, data: str) -> list[str]:
    java = maven_jars.java_home(JAVA) / "bin" / "java"
    spark = next(ROOT.glob(".venv/lib/python*/site-packages/pyspark/jars"))
    jars = [f"{RECIPE.fetch()}/*", f"{spark}/*"]
    command = [str(java), "-Xmx512m", "-XX:+UseSerialGC", f"-Dtest.build.data={data}", f"-Dhadoop.log.dir={data}"]
    command += ["-cp", os.pathsep.join(jars), MAIN, "-nomr", "-format", "-datanodes", "2", "-nnport", str(port)]
    settings = {
        "hdfs.minidfs.basedir": f"{data}/dfs",
        "hadoop.tmp.dir": f"{data}/hadoop",
        "dfs.replication": "2",
        "dfs.namenode.file.close.num-committed-allowed": "1",  # else a close waits half a second (docs/storage.md)
        "dfs.blockreport.incremental.intervalMsec": "100",  # so that files are read before their blocks are reported
    }
    return command + [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]


@tenacity.retry(stop=tenacity.stop_after_delay(_START_SECONDS), wait=tenacity.wait_fixed(0.5), reraise=True)
def wait_for(uri: str) -> None:
    """Until a file can be written."""
    client = Client(uri)
    with client.create("/ready", WriteOptions(overwrite=True)) as file:  # an earlier try may have left it
        file.write(b"ready")
    client.delete("/ready")


def main() -> int:
    """Start the cluster, run the command, stop the cluster; the command's exit code."""
    if sys.argv[1:] == ["lock"]:
        RECIPE.lock()
        return 0
    command = sys.argv[sys.argv.index("--") + 1 :]
    port = free_port()
    uri = f"hdfs://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="lakeindex-hdfs-") as data:
        return run_beside(
            server_command(port, data), lambda: wait_for(uri), command, {**os.environ, "LAKEINDEX_HDFS": uri}
        )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except maven_jars.PartsError as error:
        sys.exit(f"hdfs: {error}")
