"""Make ``requirements.lock``, those of the images, ``docker/*.lock``, ``benchmarks/cold.lock`` and
``scripts/ziglang.lock``, or check them.

The images' have the same versions, without the tools of development and Java, which the image has from Debian; what
only the demo's has is in ``docker/demo.lock``. That of the benchmarks has what the library needs by itself, and
delta-rs, for cold commands; the last one has the compiler of a machine that has none. A lock's first line holds a
digest of what it was made from, so that the check needs no registry. The override file takes out pyspark-client, which
the Spark provider of Airflow asks for: it installs into pyspark's own folder and overwrites its files.
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
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LOCK = "requirements.lock"
IMAGE_LOCK = "docker/requirements.lock"
NOT_IN_IMAGE = ("dev", "java")
NOT_LOCKED = ("airflow-spark",)
"""Fixes versions itself, for an installation without the lock."""
IMAGE_TOOLS = "boto3\nhatchling\n"
"""What the image's own programs take of them: to make a bucket, to install the checkout."""
DEMO_LOCK = "docker/demo.lock"
DEMO_TOOLS = "duckdb\nhudi\n"
"""What reads the demo's table beside lakeindex; what they need is in the image."""
COLD_LOCK = "benchmarks/cold.lock"
COLD_TOOLS = "deltalake\nhatchling\n"
"""What is measured beside the library, and what installs the checkout."""
ZIG_LOCK = "scripts/ziglang.lock"
LOCKS = (LOCK, IMAGE_LOCK, DEMO_LOCK, COLD_LOCK, ZIG_LOCK)
MARK = "# made from: "
COMPILE = (
    "pip", "compile", "--universal", "--generate-hashes", "--no-emit-index-url", "--no-annotate", "--quiet",
    "--no-emit-package", "pyspark-client", "--override", "requirements.override",
    "--custom-compile-command", "make lock",
)  # fmt: skip


def _project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project: dict[str, Any] = tomllib.load(file)["project"]
    return project


def _extras() -> dict[str, list[str]]:
    found: dict[str, list[str]] = _project()["optional-dependencies"]
    return {name: packages for name, packages in found.items() if name not in NOT_LOCKED}


def digest() -> str:
    """SHA-256 of everything that decides what is locked."""
    project = _project()
    inputs = [project["requires-python"], project["dependencies"], _extras()]
    inputs.append((ROOT / "requirements.override").read_text().split("\n"))
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


def locked_digest(lock: str) -> str:
    """The digest in a lock's first line, or nothing."""
    first = (ROOT / lock).read_text().split("\n", 1)[0]
    return first.removeprefix(MARK) if first.startswith(MARK) else ""


def find_uv() -> str:
    uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
    if not Path(uv).exists():
        sys.exit("no uv on PATH or in .uv: run `pip install uv` first")
    return uv


def make() -> None:
    """Resolve anew; versions that still fit stay."""
    every = [f"--extra={name}" for name in _extras()]
    extras = [f"--extra={name}" for name in _extras() if name not in NOT_IN_IMAGE]
    beside = ("--constraint", LOCK, "-")
    wanted = (
        (LOCK, ["pyproject.toml", *every], ""),
        (IMAGE_LOCK, ["pyproject.toml", *extras, *beside], IMAGE_TOOLS),
        (DEMO_LOCK, ["--no-deps", *beside], DEMO_TOOLS),
        (COLD_LOCK, ["pyproject.toml", *beside], COLD_TOOLS),
        (ZIG_LOCK, ["--no-deps", "-"], "ziglang\n"),
    )
    for lock, chosen, tools in wanted:
        command = [find_uv(), *COMPILE, *chosen, "-o", lock]
        subprocess.run(command, cwd=ROOT, check=True, input=tools, text=True)
        file = ROOT / lock
        file.write_text(f"{MARK}{digest()}\n{file.read_text()}")


def main() -> None:
    """Make the locks, or with ``--check`` say whether one is stale (exit 1)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check; needs no registry")
    if parser.parse_args().check:
        for lock in LOCKS:
            if locked_digest(lock) != digest():
                sys.exit(f"{lock} does not belong to this pyproject.toml: run make lock")
    else:
        make()


if __name__ == "__main__":
    main()
