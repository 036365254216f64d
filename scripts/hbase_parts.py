"""The parts of a standalone HBase, from package registries into ``.hbase/parts``. Standard library only.

``scripts/hbase/pom.xml`` says what is wanted, ``scripts/hbase/jars.lock`` names every jar it resolves to, with its
SHA-256. Maven fetches them where there is one (so that its settings, mirrors and cache apply), else the Ivy that is part
of Spark. Nothing is fetched again while the lock is the same::

    python scripts/hbase_parts.py          # fetch what is missing
    python scripts/hbase_parts.py lock     # resolve the pom anew and write jars.lock (needs Maven)

One jar is made here, not fetched: see :func:`codec_alias`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import interop_env  # noqa: E402 - found through the line above, whoever imports this

RECIPE: Final = ROOT / "scripts" / "hbase"
LOCK: Final = RECIPE / "jars.lock"
HOME: Final = Path(os.environ.get("LAKEINDEX_HBASE_HOME", ROOT / ".hbase"))
JARS: Final = HOME / "parts"
STAMP: Final = JARS / ".lock-sha256"
ALIAS_JAR: Final = "hudi-codec-alias.jar"
JAVA: Final = range(11, 24)
"""Releases that HBase 2.6 with Hadoop 2.10 runs on: Java 24 took out Subject.getSubject, which Hadoop 2 calls first."""

_DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
_HEADER: Final = "# every jar of pom.xml: group:artifact:version[:classifier] sha256; made by `hbase_parts.py lock`\n"


class PartsError(Exception):
    """The parts cannot be had; the message says what to do."""


@dataclass(frozen=True, order=True)
class Jar:
    """One line of the lock."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def name(self) -> str:
        """File name."""
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"

    @property
    def line(self) -> str:
        """The line."""
        parts = (self.group, self.artifact, self.version, self.classifier)
        return f"{':'.join(part for part in parts if part)} {self.sha256}"


def locked() -> list[Jar]:
    """The jars of the lock."""
    jars = []
    for line in LOCK.read_text().splitlines():
        if line and not line.startswith("#"):
            coordinates, digest = line.split()
            group, artifact, version, *classifier = coordinates.split(":")
            jars.append(Jar(group, artifact, version, "".join(classifier), digest))
    return jars


def _run(command: list[str], why: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PartsError(f"{why} failed: {' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")


def _copy_with_maven(mvn: str, folder: Path, *more: str) -> None:
    command = [mvn, "-B", "-q", "-f", str(RECIPE / "pom.xml"), f"{_DEPENDENCY_PLUGIN}:copy-dependencies"]
    _run([*command, "-DincludeScope=runtime", f"-DoutputDirectory={folder}", *more], "fetching HBase with Maven")


def ivy_jar() -> Path | None:
    """Spark's Ivy: of the project's environment, or of the one in which Hudi runs."""
    for env in (ROOT / ".venv", interop_env.HOME / "venv"):
        for found in sorted(env.glob("lib/python*/site-packages/pyspark/jars/ivy-*.jar")):
            return found
    return None


def _ivy_file(jars: list[Jar]) -> str:
    """The lock as an Ivy module: every jar by name, nothing beyond them."""
    lines = ['<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">']
    lines += ['<info organisation="lakeindex" module="hbase"/>', "<dependencies>"]
    for jar in jars:
        names = f"org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
        artifact = f'<artifact name={quoteattr(jar.artifact)} type="jar" ext="jar"{classifier}/>'
        lines.append(f'<dependency {names} transitive="false" conf="default->*">{artifact}</dependency>')
    return "\n".join([*lines, "</dependencies>", "</ivy-module>"])


def _copy_with_ivy(folder: Path, jars: list[Jar]) -> None:
    ivy, java = ivy_jar(), shutil.which("java") or str(java_home() / "bin" / "java")
    if ivy is None:
        raise PartsError("neither Maven nor Spark's Ivy is here: run `make setup` (or Debian: apt-get install maven)")
    module = folder.parent / "ivy.xml"
    module.write_text(_ivy_file(jars))
    pattern = str(folder / "[artifact]-[revision](-[classifier]).[ext]")
    command = [java, f"-Divy.home={HOME / 'ivy'}", "-cp", str(ivy), "org.apache.ivy.Main", "-error"]
    _run([*command, "-ivy", str(module), "-confs", "default", "-retrieve", pattern], "fetching HBase with Ivy")


def _wrong(folder: Path, jars: list[Jar]) -> Iterator[str]:
    for jar in jars:
        path = folder / jar.name
        if not path.exists():
            yield f"{jar.name} did not come"
        elif interop_env.sha256(path) != jar.sha256:
            yield f"{jar.name}: SHA-256 {interop_env.sha256(path)}, expected {jar.sha256}"


def fetch() -> Path:
    """Every jar of the lock in one folder; returns it.

    Raises:
        PartsError: no tool to fetch with, a download failed, or a jar is not the one of the lock.
    """
    recipe = hashlib.sha256(LOCK.read_bytes() + codec_alias()).hexdigest()
    if STAMP.exists() and STAMP.read_text() == recipe:
        return JARS
    arriving = HOME / f"arriving-{os.getpid()}"
    jars = locked()
    shutil.rmtree(arriving, ignore_errors=True)
    (arriving / "jars").mkdir(parents=True)
    mvn = shutil.which("mvn")
    if mvn:
        _copy_with_maven(mvn, arriving / "jars")
    else:
        _copy_with_ivy(arriving / "jars", jars)
    wrong = list(_wrong(arriving / "jars", jars))
    if wrong:
        raise PartsError(f"not installed: {'; '.join(wrong)}")
    for stranger in {path.name for path in (arriving / "jars").iterdir()} - {jar.name for jar in jars}:
        (arriving / "jars" / stranger).unlink()
    with zipfile.ZipFile(arriving / "jars" / ALIAS_JAR, "w") as alias:
        alias.writestr(f"{ALIAS_CLASS}.class", codec_alias())
    (arriving / "jars" / STAMP.name).write_text(recipe)
    shutil.rmtree(JARS, ignore_errors=True)
    (arriving / "jars").rename(JARS)
    shutil.rmtree(arriving)
    return JARS


def write_lock() -> None:
    """Resolve the pom anew.

    Raises:
        PartsError: there is no Maven, or it failed.
    """
    mvn = shutil.which("mvn")
    if mvn is None:
        raise PartsError("the lock is made by Maven (Debian: apt-get install maven)")
    folder = HOME / "resolving"
    shutil.rmtree(folder, ignore_errors=True)
    _copy_with_maven(mvn, folder, "-Dmdep.useRepositoryLayout=true")
    jars = []
    for path in folder.rglob("*.jar"):
        *group, artifact, version, name = path.relative_to(folder).parts
        classifier = Path(name).stem.removeprefix(f"{artifact}-{version}").removeprefix("-")
        jars.append(Jar(".".join(group), artifact, version, classifier, interop_env.sha256(path)))
    LOCK.write_text(_HEADER + "".join(f"{jar.line}\n" for jar in sorted(jars)))
    shutil.rmtree(folder)


# --- Java ------------------------------------------------------------------------------------------------------


def java_home() -> Path:
    """A Java that HBase runs on: JAVA_HOME, ``java`` on PATH, else the Java 17 of the interop environment.

    Raises:
        PartsError: there is none and none could be had.
    """
    on_path = shutil.which("java")
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    candidates += [Path(on_path).resolve().parent.parent] if on_path else []
    for home in candidates:
        if _java_major(home) in JAVA:
            return home
    try:
        if interop_env.java_home() is None:
            interop_env.HOME.mkdir(exist_ok=True)
            interop_env.make_venv()
    except interop_env.SetupError as error:
        raise PartsError(f"no Java {JAVA[0]} .. {JAVA[-1]} is here, and none could be installed: {error}") from None
    locked_java = interop_env.java_home()
    if locked_java is None:
        raise PartsError(f"HBase needs Java {JAVA[0]} .. {JAVA[-1]}: set JAVA_HOME")
    return locked_java


def _java_major(home: Path) -> int | None:
    java = home / "bin" / "java"
    if not java.exists():
        return None
    shown = subprocess.run([java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=False)
    for line in shown.stderr.splitlines():
        name, _, value = line.strip().partition(" = ")
        if name == "java.specification.version":
            return int(value.removeprefix("1."))
    return None


# --- the alias -------------------------------------------------------------------------------------------------

CODEC: Final = "org/apache/hadoop/hbase/codec/KeyValueCodec"
ALIAS_CLASS: Final = f"org/apache/hudi/{CODEC}"


def codec_alias() -> bytes:
    """The class file of ``public class ALIAS_CLASS extends CODEC {}``, which needs no Java compiler this way.

    The bundles of Hudi 0.x hold HBase's client under names of their own and tell the server the name of the codec in its
    hello; a server that cannot load a class of this name closes the connection, which the client takes for a network
    error and repeats for minutes. With the alias on its class path the server can serve them.

    Layout: The Java Virtual Machine Specification, Java SE 8, chapter 4 (class file version 52).
    """
    texts = [ALIAS_CLASS, CODEC, "<init>", "()V", "Code"]  # constants 1 .. 5
    pool = b"".join(struct.pack(">BH", 1, len(text)) + text.encode() for text in texts)
    pool += struct.pack(">BH", 7, 1) + struct.pack(">BH", 7, 2)  # 6: this class, 7: its parent
    pool += struct.pack(">BHH", 12, 3, 4) + struct.pack(">BHH", 10, 7, 8)  # 8: <init>()V, 9: the parent's
    code = bytes([0x2A, 0xB7, 0x00, 0x09, 0xB1])  # aload_0, invokespecial #9, return
    body = struct.pack(">HHI", 1, 1, len(code)) + code + struct.pack(">HH", 0, 0)  # stack, locals; no handlers
    constructor = struct.pack(">HHHH", 0x0001, 3, 4, 1) + struct.pack(">HI", 5, len(body)) + body
    return b"".join(
        (
            struct.pack(">IHHH", 0xCAFEBABE, 0, 52, 10),
            pool,
            struct.pack(">HHHH", 0x0021, 6, 7, 0),  # public super, no interfaces
            struct.pack(">HH", 0, 1),  # no fields, one method
            constructor,
            struct.pack(">H", 0),  # no attributes
        )
    )


def main() -> int:
    """Fetch the parts, or write the lock."""
    try:
        if sys.argv[1:] == ["lock"]:
            write_lock()
        print(f"hbase: {sum(1 for _ in fetch().glob('*.jar'))} jars in {JARS}")
    except PartsError as error:
        print(f"hbase: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
