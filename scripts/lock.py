"""Make ``requirements.lock`` from ``pyproject.toml``, or check that it still belongs to it.

The lock's first line holds a digest of what it was made from, so that the check needs no registry. The override
file takes out pyspark-client, which the Spark provider of Airflow asks for: it installs into pyspark's own folder
and overwrites its files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "requirements.lock"
MARK = "# made from: "
COMPILE = (
    "pip", "compile", "--universal", "--generate-hashes", "--no-emit-index-url", "--no-annotate", "--quiet",
    "--no-emit-package", "pyspark-client", "--override", "requirements.override", "--all-extras",
    "--custom-compile-command", "make lock", "pyproject.toml", "-o", "requirements.lock",
)  # fmt: skip


def digest() -> str:
    """SHA-256 of everything that decides what is locked."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    inputs = [project[key] for key in ("requires-python", "dependencies", "optional-dependencies")]
    inputs.append((ROOT / "requirements.override").read_text().split("\n"))
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def locked_digest() -> str:
    """The digest in the lock's first line, or nothing."""
    first = LOCK.read_text().split("\n", 1)[0]
    return first.removeprefix(MARK) if first.startswith(MARK) else ""


def find_uv() -> str:
    """Find uv on PATH or in ``.uv``."""
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    if not Path(uv).exists():
        sys.exit("no uv on PATH or in .uv: run `pip install uv` first")
    return uv


def make() -> None:
    """Resolve anew; versions that still fit stay."""
    subprocess.run([find_uv(), *COMPILE], cwd=ROOT, check=True)
    LOCK.write_text(f"{MARK}{digest()}\n{LOCK.read_text()}")


def main() -> None:
    """Make the lock, or with ``--check`` say whether it is stale (exit 1)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check; needs no registry")
    if parser.parse_args().check:
        if locked_digest() != digest():
            sys.exit("requirements.lock does not belong to this pyproject.toml: run make lock")
    else:
        make()


if __name__ == "__main__":
    main()
