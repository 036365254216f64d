"""Set up ``.bench/``: what only the benchmark's peers need.

    python -m benchmarks.environment            # make or complete it; a second run does nothing

A virtual environment from ``benchmarks/requirements.lock``, and the jars of Delta Lake and Iceberg for the Spark 3.5 of the
interop environment (``scripts/interop_env.py``), checked by SHA-256. Jars come from Maven where there is one, else from the
Ivy that is part of Spark.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scripts import interop_env
from scripts.interop_env import SetupError, sha256

ROOT: Final = Path(__file__).resolve().parents[1]
HOME: Final = ROOT / ".bench"
LOCK: Final = ROOT / "benchmarks" / "requirements.lock"
STAMP: Final = HOME / "venv" / ".lock-sha256"


@dataclass(frozen=True)
class Jar:
    """One artifact of a Maven repository."""

    group: str
    artifact: str
    version: str
    digest: str

    @property
    def path(self) -> Path:
        """Where it lies here."""
        return HOME / "jars" / f"{self.artifact}-{self.version}.jar"


JARS: Final = {
    "delta-spark": Jar(
        "io.delta", "delta-spark_2.12", "3.3.3", "4912bf902a1c453aba3bd838ff212dedd357155212f9bb37a6b47d97f2827ebc"
    ),
    "delta-storage": Jar(
        "io.delta", "delta-storage", "3.3.3", "45ad193053fd30cebe6d9ab1889873cde39b223a0f210e00ebee8b6642476901"
    ),
    "iceberg-spark-runtime-3.5": Jar(
        "org.apache.iceberg",
        "iceberg-spark-runtime-3.5_2.12",
        "1.12.0",
        "8dd8c90e54ed1a20f2461309d047a255ee56382eb7c0a46162b27a4936fd86dc",
    ),
}


def python() -> Path:
    """Interpreter of the environment."""
    return HOME / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def jar(name: str) -> Path:
    """Path of a jar."""
    return JARS[name].path


def _run(command: list[str], why: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SetupError(f"{why} failed: {' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")


def _make_venv() -> None:
    shutil.rmtree(HOME / "venv", ignore_errors=True)
    local = ROOT / ".uv" / "bin" / "uv"
    uv = str(local) if local.exists() else shutil.which("uv")
    if uv:
        _run([uv, "venv", "-q", "--python", sys.executable, str(HOME / "venv")], "making a virtual environment")
        install = [uv, "pip", "install", "-q", "--python", str(python())]
    else:
        venv.create(HOME / "venv", with_pip=True, symlinks=os.name != "nt")
        install = [str(python()), "-m", "pip", "install", "-q"]
    _run([*install, "--require-hashes", "-r", str(LOCK)], "installing the benchmark's lock")
    STAMP.write_text(sha256(LOCK))


def _with_maven(mvn: str, wanted: Jar, target: Path) -> None:
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
    artifact = f"-Dartifact={wanted.group}:{wanted.artifact}:{wanted.version}"
    _run([mvn, "-q", "-B", f"{plugin}:get", "-Dtransitive=false", artifact], f"fetching {wanted.artifact} with Maven")
    copy = ["-Dmdep.useBaseVersion=true", f"-DoutputDirectory={target.parent}"]
    _run([mvn, "-q", "-B", f"{plugin}:copy", artifact, *copy], f"copying {wanted.artifact} from Maven's repository")


def _with_ivy(wanted: Jar, target: Path) -> None:
    ivy = sorted((interop_env.HOME / "venv").glob("lib/python*/site-packages/pyspark/jars/ivy-*.jar"))
    java = shutil.which("java")
    if not ivy or not java:
        raise SetupError("neither Maven nor a Java runtime for Spark's Ivy is here (Debian: apt-get install maven)")
    command = [java, f"-Divy.home={HOME / 'ivy'}", "-cp", str(ivy[0]), "org.apache.ivy.Main", "-warn", "-notransitive"]
    command += ["-dependency", wanted.group, wanted.artifact, wanted.version, "-types", "jar", "-confs", "default"]
    pattern = str(target.parent / "[artifact]-[revision].[ext]")
    _run([*command, "-retrieve", pattern], f"fetching {wanted.artifact} with Ivy")


def _fetch(wanted: Jar) -> None:
    """One jar; a wrong checksum removes it and fails."""
    if wanted.path.exists():
        return
    arriving = HOME / "arriving" / wanted.path.name
    shutil.rmtree(arriving.parent, ignore_errors=True)
    arriving.parent.mkdir(parents=True)
    mvn = shutil.which("mvn")
    if mvn:
        _with_maven(mvn, wanted, arriving)
    else:
        _with_ivy(wanted, arriving)
    found = sha256(arriving)
    if found != wanted.digest:
        raise SetupError(f"{arriving.name}: SHA-256 {found}, expected {wanted.digest}; not installed")
    wanted.path.parent.mkdir(exist_ok=True)
    arriving.replace(wanted.path)
    shutil.rmtree(arriving.parent)


def make() -> None:
    """Whatever is missing, the interop environment included.

    Raises:
        SetupError: a tool or download failed.
    """
    interop_env.make()
    HOME.mkdir(exist_ok=True)
    if not STAMP.exists() or STAMP.read_text() != sha256(LOCK):
        _make_venv()
    for wanted in JARS.values():
        _fetch(wanted)


def main() -> int:
    """Entry point; 0 when the environment is complete."""
    try:
        make()
    except SetupError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    print(f"benchmarks: ready in {HOME}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
