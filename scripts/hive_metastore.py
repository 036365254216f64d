"""Run a command beside Hive Metastores of its own: ``scripts/hive_metastore.py -- pytest -m hive``.

One of each release that is supported, which stores in Derby. They come from Maven's repositories into ``.hive/``
(:mod:`scripts.maven_jars`) and run on the Hadoop client that is part of PySpark. That of 4.0.1 speaks TLS, by a
certificate of its own. The command finds them by ``LAKEINDEX_HIVE``, such as
``3.1.3=thrift://127.0.0.1:41083 4.0.1=thrift://127.0.0.1:41084``, and the certificate by ``LAKEINDEX_HIVE_CA``::

    scripts/hive_metastore.py -- COMMAND     run a command beside fresh ones, which go with it
    scripts/hive_metastore.py serve FOLDER RELEASE PORT    one, with its data in a folder and without TLS, until it ends
    scripts/hive_metastore.py lock           resolve scripts/hive/*/pom.xml anew and write jars.lock (needs Maven)
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

import tenacity

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import maven_jars  # noqa: E402 - found through the line above
from scripts.ports import free_port  # noqa: E402 - as above

RELEASES: Final = ("3.1.3", "4.0.1")
WITH_TLS: Final = RELEASES[-1]
PASSWORD: Final = "of a test"  # noqa: S105 - it is
MAIN: Final = "org.apache.hadoop.hive.metastore.HiveMetaStore"
JAVA: Final = range(17, 24)
"""Releases that the Hadoop client and these metastores both run on."""
_PROXY: Final = "org.apache.hadoop.hive.metastore.DefaultPartitionExpressionProxy"
_START_SECONDS: Final = 120


def recipe(release: str) -> maven_jars.Recipe:
    return maven_jars.Recipe(f"Hive Metastore {release}", ROOT / "scripts" / "hive" / release, ROOT / ".hive" / release)


def certificate(folder: Path) -> Path:
    """Make a key of 127.0.0.1 in ``key.p12`` of a folder; its certificate in PEM form."""
    keytool = str(maven_jars.java_home(JAVA) / "bin" / "keytool")
    store = ["-keystore", f"{folder}/key.p12", "-storepass", PASSWORD, "-alias", "metastore"]
    made = ["-genkeypair", "-keyalg", "RSA", "-validity", "30", "-dname", "CN=metastore", "-ext", "SAN=ip:127.0.0.1"]
    for words in (made, ["-exportcert", "-rfc", "-file", f"{folder}/certificate.pem"]):
        subprocess.run([keytool, *words, *store], check=True, capture_output=True)
    return folder / "certificate.pem"


def server_command(release: str, folder: Path, port: int, *, tls: bool = False) -> list[str]:
    """What starts one; its database is made when it starts first."""
    java = maven_jars.java_home(JAVA) / "bin" / "java"
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise maven_jars.PartsError("PySpark is not installed, whose Hadoop client the metastore runs on")
    hadoop = sorted((Path(spark.origin).parent / "jars").glob("hadoop-client-*.jar"))
    (folder / "conf").mkdir(exist_ok=True)
    (folder / "conf" / "core-site.xml").write_text(f"<configuration>{_stores(folder)}</configuration>")
    jars = [str(folder / "conf"), f"{recipe(release).fetch()}/*", *map(str, hadoop)]
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:{folder}/database;create=true",
        "derby.stream.error.file": f"{folder}/derby.log",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "metastore.warehouse.dir": f"{folder}/warehouse",
        "metastore.warehouse.external.dir": f"{folder}/external",
        "metastore.expression.proxy": _PROXY,
        "metastore.task.threads.always": "org.apache.hadoop.hive.metastore.events.EventCleanerTask",
        "metastore.event.db.notification.api.auth": "false",
    }
    if tls:
        settings |= {
            "metastore.use.SSL": "true",
            "metastore.keystore.path": f"{folder}/key.p12",
            "metastore.keystore.password": PASSWORD,
        }
    command = [str(java), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += [f"-D{name}={value}" for name, value in settings.items()]
    return [*command, "-cp", os.pathsep.join(jars), MAIN, "-p", str(port)]


def _stores(folder: Path) -> str:
    """Settings by which it takes places in object stores, and makes a local folder for each of them: a metastore wants
    to make the folders of tables and partitions, and this one has no client of a store.
    """
    named = {"fs.viewfs.mounttable.lake.linkFallback": f"file://{folder}/places"}
    for scheme in ("s3", "s3a"):
        named[f"fs.{scheme}.impl"] = "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"
        named[f"fs.viewfs.overload.scheme.target.{scheme}.impl"] = "org.apache.hadoop.fs.LocalFileSystem"
    (folder / "places").mkdir(exist_ok=True)
    return "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in named.items()
    )


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(OSError),
    stop=tenacity.stop_after_delay(_START_SECONDS),
    wait=tenacity.wait_fixed(0.2),
    reraise=True,
)
def wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Until it takes connections. Raises: PartsError: it ended."""
    if server.poll() is not None:
        raise maven_jars.PartsError(
            f"a metastore ended; the end of its log:\n{log.read_text(errors='replace')[-2000:]}"
        )
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass


def run_beside(command: list[str], folder: Path) -> int:
    """Start one of each release, run a command, stop them; the command's exit code."""
    servers: list[subprocess.Popen[bytes]] = []
    places: dict[str, int] = {}
    try:
        for release in RELEASES:
            places[release] = free_port()
            home = folder / release
            home.mkdir()
            with (home / "log").open("wb") as log:
                if release == WITH_TLS:
                    authority = certificate(home)
                started = server_command(release, home, places[release], tls=release == WITH_TLS)
                servers.append(subprocess.Popen(started, cwd=home, stdout=log, stderr=log))
        for server, (release, port) in zip(servers, places.items(), strict=True):
            wait_for(server, port, folder / release / "log")
        told = " ".join(f"{release}=thrift://127.0.0.1:{port}" for release, port in places.items())
        return subprocess.run(
            command, env={**os.environ, "LAKEINDEX_HIVE": told, "LAKEINDEX_HIVE_CA": str(authority)}, check=False
        ).returncode
    finally:
        for server in servers:
            server.kill()
        for server in servers:
            server.wait(timeout=30)


def main() -> int:
    if sys.argv[1:] == ["lock"]:
        for release in RELEASES:
            recipe(release).lock()
        return 0
    if sys.argv[1:2] == ["serve"]:
        folder, release, port = Path(sys.argv[2]).absolute(), sys.argv[3], int(sys.argv[4])
        folder.mkdir(parents=True, exist_ok=True)
        return subprocess.run(server_command(release, folder, port), cwd=folder, check=False).returncode
    command = sys.argv[sys.argv.index("--") + 1 :]
    with tempfile.TemporaryDirectory(prefix="lakeindex-hive-") as folder:
        return run_beside(command, Path(folder))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except maven_jars.PartsError as error:
        sys.exit(f"hive: {error}")
