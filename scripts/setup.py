"""Make ``.venv`` from ``requirements.lock``, and the library of compiled loops: needs Python 3.11+ and a package
registry, nothing else.

Standard library only: this runs before anything is installed. Up to date (same lock, same project table, same
Python): it does nothing. uv does the work; where there is none, pip puts it into ``.uv``, an environment of its
own. Where uv cannot be had at all, pip does the work, slower.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOOPS = ROOT / "lib" / "lakeindex" / "hashing"
sys.path.insert(0, str(LOOPS))
import compile_loops  # noqa: E402 - standard library only, before there is an environment

LOCK = ROOT / "requirements.lock"
VENV = ROOT / ".venv"
STAMP = VENV / ".lakeindex-lock"
UV_ENV = ROOT / ".uv"
UV_RELEASE = "uv>=0.6,<1"
ZIG_LOCK = ROOT / "scripts" / "ziglang.lock"
INSTALL = ("--no-deps", "--require-hashes", "-r", str(LOCK))
EDITABLE = ("--no-deps", "--no-build-isolation", "-e", str(ROOT))


def bin_folder(env: Path) -> Path:
    """Where an environment keeps its commands."""
    return env / ("Scripts" if os.name == "nt" else "bin")


def fingerprint() -> str:
    """What the environment is made from: lock, project table (entry points), place and Python."""
    digest = hashlib.sha256()
    for part in (LOCK.read_bytes(), (ROOT / "pyproject.toml").read_bytes().split(b"\n# --- ")[0], str(ROOT).encode()):
        digest.update(part)
    return digest.hexdigest()


def run(*command: str | Path) -> None:
    """Run a command, echoed; its failure ends the set-up."""
    print("+", *command, flush=True)
    done = subprocess.run([str(part) for part in command], check=False, cwd=ROOT)
    if done.returncode:
        sys.exit(f"make setup failed at: {' '.join(str(part) for part in command)}")


def works(*command: str | Path) -> bool:
    try:
        return subprocess.run([str(part) for part in command], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def python_fits(python: Path) -> bool:
    """Whether this is a Python that lakeindex supports."""
    return works(python, "-c", "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))")


def make_env(folder: Path) -> None:
    """An environment with pip in it, also where the system's Python comes without ensurepip."""
    try:
        venv.create(folder, clear=True, with_pip=True)
    except (subprocess.CalledProcessError, SystemExit):
        venv.create(folder, clear=True, with_pip=False)
        if not works(sys.executable, "-m", "pip", "--version"):
            sys.exit(
                f"{sys.executable} has neither ensurepip nor pip: install them (Debian: apt-get install python3-venv) "
                "or put uv on PATH, then run make setup again"
            )


def pip(env: Path) -> tuple[str, ...]:
    """The pip of an environment: its own, else the base Python's."""
    own = bin_folder(env) / "python"
    if works(own, "-m", "pip", "--version"):
        return (str(own), "-m", "pip")
    return (sys.executable, "-m", "pip", "--python", str(own))


def find_uv() -> Path | None:
    """Find uv on PATH, in ``.uv``, or get it through pip; None if the registry has none for this machine."""
    for found in (shutil.which("uv"), bin_folder(UV_ENV) / "uv"):
        if found and works(found, "pip", "compile", "--help"):
            return Path(found)
    print("uv is not on PATH: installing it into .uv", flush=True)
    make_env(UV_ENV)
    if works(*pip(UV_ENV), "install", "--only-binary", ":all:", UV_RELEASE):
        return bin_folder(UV_ENV) / "uv"
    print("uv could not be installed: going on with pip", flush=True)
    return None


def install_with_uv(uv: Path) -> None:
    """The environment exactly as locked: what the lock does not name goes."""
    if not python_fits(bin_folder(VENV) / "python"):
        run(uv, "venv", "--clear", "--python", sys.executable, VENV)
    python = ("--python", str(bin_folder(VENV) / "python"))
    run(uv, "pip", "sync", *python, "--require-hashes", LOCK)
    run(uv, "pip", "install", *python, *EDITABLE)


def install_with_pip() -> None:
    """The same with pip alone."""
    if not python_fits(bin_folder(VENV) / "python"):
        make_env(VENV)
    run(*pip(VENV), "install", *INSTALL)
    run(*pip(VENV), "install", *EDITABLE)


def make_venv(wanted: str) -> None:
    """Make the environment, or bring it to what the lock says."""
    STAMP.unlink(missing_ok=True)
    uv = find_uv()
    if uv:
        install_with_uv(uv)
    else:
        install_with_pip()
    STAMP.write_text(wanted)


def make_loops() -> None:
    """The library of loops, by cc; where there is none, by zig, a compiler in a package that goes again."""
    try:
        print(f"compiled the loops with {compile_loops.make()}", flush=True)
    except (OSError, RuntimeError) as error:
        print(f"{error}: getting zig for it", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            own_uv = bin_folder(UV_ENV) / "uv"
            uv = shutil.which("uv") or (str(own_uv) if own_uv.exists() else None)
            pip_install = (uv, "pip", "install", "--python", sys.executable) if uv else (*pip(VENV), "install")
            command = (*pip_install, "--target", folder, "--no-deps", "--require-hashes", "-r", str(ZIG_LOCK))
            environment = {**os.environ, "PYTHONPATH": folder}
            compiling = [sys.executable, str(LOOPS / "compile_loops.py")]
            if not works(*command) or subprocess.run(compiling, env=environment, check=False).returncode:
                print("the loops could not be compiled: they will run in numpy, slower", flush=True)


def main() -> None:
    """Bring ``.venv`` and the library of loops up to date."""
    if not (3, 11) <= sys.version_info[:2] < (3, 14):
        sys.exit(f"lakeindex needs Python 3.11, 3.12 or 3.13; {sys.executable} is {sys.version.split()[0]}")
    wanted = fingerprint()
    os.environ.setdefault("UV_NATIVE_TLS", "true")  # the system's certificates, as pip: behind a proxy of one's company
    is_current = STAMP.exists() and STAMP.read_text() == wanted and (bin_folder(VENV) / "lakeindex").exists()
    if not is_current:
        make_venv(wanted)
    if compile_loops.problem_with(compile_loops.library()):
        make_loops()
    if not is_current:
        asked = [bin_folder(VENV) / "python", "-c", "import sys; print(sys.version.split()[0], 'of', sys.base_prefix)"]
        python = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        print(f"ready, with Python {python}: .venv/bin/lakeindex --help, make test, make demo", flush=True)


if __name__ == "__main__":
    main()
