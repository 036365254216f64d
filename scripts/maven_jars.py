"""Jars from Maven repositories, every one known by its SHA-256. Standard library only.

A recipe's ``pom.xml`` says what is wanted, its ``jars.lock`` names every jar that it resolves to, with its
SHA-256. Maven fetches them where there is one (so that its settings, mirrors and cache apply), else the
Ivy that is part of Spark.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts import interop_env  # noqa: E402 - found through the line above, whoever imports this

_DEPENDENCY_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


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
        return "-".join(part for part in (self.artifact, self.version, self.classifier) if part) + ".jar"

    @property
    def line(self) -> str:
        parts = (self.group, self.artifact, self.version, self.classifier)
        return f"{':'.join(part for part in parts if part)} {self.sha256}"


@dataclass(frozen=True)
class Recipe:
    """What to fetch, and where to.

    Attributes:
        folder: of ``pom.xml`` and ``jars.lock``.
        home: the jars come into its folder ``parts``.
    """

    title: str
    folder: Path
    home: Path

    @property
    def jars(self) -> Path:
        return self.home / "parts"

    def locked(self) -> list[Jar]:
        jars = []
        for line in self._lock.read_text().splitlines():
            if line and not line.startswith("#"):
                coordinates, digest = line.split()
                group, artifact, version, *classifier = coordinates.split(":")
                jars.append(Jar(group, artifact, version, "".join(classifier), digest))
        return jars

    def fetch(self, made: Mapping[str, bytes] | None = None) -> Path:
        """Every jar of the lock in one folder; returns it. Nothing is fetched again while the lock is the same.

        Args:
            made: name and content of jars that are made, not fetched.

        Raises:
            PartsError: no tool to fetch with, a download failed, or a jar is not the one of the lock.
        """
        made = made or {}
        stamp = self.jars / ".lock-sha256"
        digest = hashlib.sha256(self._lock.read_bytes() + b"".join(made.values())).hexdigest()
        if stamp.exists() and stamp.read_text() == digest:
            return self.jars
        arriving = self.home / f"arriving-{os.getpid()}"
        jars = self.locked()
        shutil.rmtree(arriving, ignore_errors=True)
        (arriving / "jars").mkdir(parents=True)
        mvn = shutil.which("mvn")
        if mvn:
            self._copy_with_maven(mvn, arriving / "jars")
        else:
            self._copy_with_ivy(arriving / "jars", jars)
        wrong = list(_wrong(arriving / "jars", jars))
        if wrong:
            raise PartsError(f"not installed: {'; '.join(wrong)}")
        for stranger in {path.name for path in (arriving / "jars").iterdir()} - {jar.name for jar in jars}:
            (arriving / "jars" / stranger).unlink()
        for name, content in made.items():
            (arriving / "jars" / name).write_bytes(content)
        (arriving / "jars" / stamp.name).write_text(digest)
        shutil.rmtree(self.jars, ignore_errors=True)
        (arriving / "jars").rename(self.jars)
        shutil.rmtree(arriving)
        return self.jars

    def lock(self) -> None:
        """Resolve the pom anew.

        Raises:
            PartsError: there is no Maven, or it failed.
        """
        mvn = shutil.which("mvn")
        if mvn is None:
            raise PartsError("the lock is made by Maven (Debian: apt-get install maven)")
        folder = self.home / "resolving"
        shutil.rmtree(folder, ignore_errors=True)
        self._copy_with_maven(mvn, folder, "-Dmdep.useRepositoryLayout=true")
        jars = []
        for path in folder.rglob("*.jar"):
            *group, artifact, version, name = path.relative_to(folder).parts
            classifier = Path(name).stem.removeprefix(f"{artifact}-{version}").removeprefix("-")
            jars.append(Jar(".".join(group), artifact, version, classifier, interop_env.sha256(path)))
        header = "# every jar of pom.xml: group:artifact:version[:classifier] sha256; made by the script with `lock`\n"
        self._lock.write_text(header + "".join(f"{jar.line}\n" for jar in sorted(jars)))
        shutil.rmtree(folder)

    @property
    def _lock(self) -> Path:
        return self.folder / "jars.lock"

    def _copy_with_maven(self, mvn: str, folder: Path, *more: str) -> None:
        command = [mvn, "-B", "-q", "-f", str(self.folder / "pom.xml"), f"{_DEPENDENCY_PLUGIN}:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}", *more]
        _run(command, f"fetching {self.title} with Maven")

    def _copy_with_ivy(self, folder: Path, jars: list[Jar]) -> None:
        ivy = ivy_jar()
        if ivy is None:
            raise PartsError(
                "neither Maven nor Spark's Ivy is here: run `make setup` (or Debian: apt-get install maven)"
            )
        module = folder.parent / "ivy.xml"
        module.write_text(_ivy_file(self.title, jars))
        pattern = str(folder / "[artifact]-[revision](-[classifier]).[ext]")
        java = shutil.which("java") or str(java_home(range(11, 100)) / "bin" / "java")
        command = [java, f"-Divy.home={self.home / 'ivy'}"]
        command += ["-cp", str(ivy), "org.apache.ivy.Main", "-error"]
        command += ["-ivy", str(module), "-confs", "default", "-retrieve", pattern]
        _run(command, f"fetching {self.title} with Ivy")


def ivy_jar() -> Path | None:
    """Spark's Ivy: of the project's environment, or of the one in which Hudi runs."""
    for env in (ROOT / ".venv", interop_env.HOME / "venv"):
        for found in sorted(env.glob("lib/python*/site-packages/pyspark/jars/ivy-*.jar")):
            return found
    return None


def java_home(releases: range) -> Path:
    """A Java of one of some releases: JAVA_HOME, ``java`` on PATH, else the Java 17 of the interop environment.

    Raises:
        PartsError: there is none and none could be had.
    """
    on_path = shutil.which("java")
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    candidates += [Path(on_path).resolve().parent.parent] if on_path else []
    for home in candidates:
        if _java_major(home) in releases:
            return home
    try:
        if interop_env.java_home() is None:
            interop_env.HOME.mkdir(exist_ok=True)
            interop_env.make_venv()
    except interop_env.SetupError as error:
        raise PartsError(
            f"no Java {releases[0]} .. {releases[-1]} is here, and none could be installed: {error}"
        ) from None
    locked_java = interop_env.java_home()
    if locked_java is None:
        raise PartsError(f"Java {releases[0]} .. {releases[-1]} is needed: set JAVA_HOME")
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


def _run(command: list[str], why: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PartsError(f"{why} failed: {' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")


def _ivy_file(module: str, jars: list[Jar]) -> str:
    """The lock as an Ivy module: every jar by name, nothing beyond them."""
    lines = ['<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">']
    lines += [f'<info organisation="lakeindex" module={quoteattr(module)}/>', "<dependencies>"]
    for jar in jars:
        names = f"org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        classifier = f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
        artifact = f'<artifact name={quoteattr(jar.artifact)} type="jar" ext="jar"{classifier}/>'
        lines.append(f'<dependency {names} transitive="false" conf="default->*">{artifact}</dependency>')
    return "\n".join([*lines, "</dependencies>", "</ivy-module>"])


def _wrong(folder: Path, jars: list[Jar]) -> Iterator[str]:
    for jar in jars:
        path = folder / jar.name
        if not path.exists():
            yield f"{jar.name} did not come"
        elif interop_env.sha256(path) != jar.sha256:
            yield f"{jar.name}: SHA-256 {interop_env.sha256(path)}, expected {jar.sha256}"
