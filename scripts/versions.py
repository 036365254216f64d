"""Run unit and Spark tests with other versions of Python and PySpark, each in an environment of its own.

    scripts/versions.py                      all of them
    scripts/versions.py py3.12-spark3.5 ...  some
    scripts/versions.py py3.12-spark3.5 -- tests/spark -k upsert   with arguments of pytest's

Environments are made by uv below ``.versions`` from the lock, PySpark apart. An interpreter that is neither here nor
to be had from uv is said to be missing, and is a failure only if it was asked for by name.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from lock import find_uv

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / ".versions"
#: Python, and what is asked of pyspark.
COMBINATIONS: Final = {
    "py3.11-spark3.5": ("3.11", "pyspark>=3.5,<3.6"),
    "py3.12-spark3.5": ("3.12", "pyspark>=3.5,<3.6"),
    "py3.12-spark4.0": ("3.12", "pyspark>=4.0,<4.1"),
    "py3.12-spark4": ("3.12", "pyspark>=4.0,<5"),
    "py3.13-spark4": ("3.13", "pyspark>=4.0,<5"),
}
EXTRAS: Final = "spark,hbase,hdfs,metrics,lineage,java"
TOOLS: Final = (
    *("deltalake", "duckdb", "hypothesis", "jsonschema", "mypy", "polars", "psutil", "pytest", "pytest-cov"),
    *("pytest-examples", "pytest-timeout", "pytest-xdist", "hudi", "moto[server]", "types-PyYAML", "types-jsonschema"),
    "setuptools",  # which PySpark 3.5 asks for distutils, gone from Python 3.12
)
TESTS: Final = ("tests/unit", "tests/contract", "tests/spark")
#: PySpark 3.5 leaves sockets to the garbage collector and asks for distutils;
#: our own warnings are errors in `make test`.
OTHERS: Final = (
    *("-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"),
    *("-W", "ignore:The distutils package is deprecated:DeprecationWarning"),
    *("-W", "ignore:distutils Version classes are deprecated:DeprecationWarning"),
)
PROBE: Final = "import sys, pyspark; print('.'.join(map(str, sys.version_info[:3])), pyspark.__version__)"


def interpreter(uv: str, version: str) -> str | None:
    """A Python of this version: here, in pyenv, or from uv; None if it is not to be had."""
    homes = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*"), reverse=True)
    for found in (str(home / "bin" / "python") for home in homes):
        if subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0:
            return found
    for command in (
        ["python", "find", version],
        ["python", "install", "--quiet", version],
        ["python", "find", version],
    ):
        done = subprocess.run([uv, *command], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip().splitlines()[-1]
    return None


def make_env(uv: str, name: str, python: str, pyspark: str) -> Path:
    """The environment; versions are those of the lock, but for pyspark."""
    env = FOLDER / name
    pins = FOLDER / f"{name}.txt"
    FOLDER.mkdir(exist_ok=True)
    names = re.findall(
        r"^([A-Za-z0-9._-]+==\S+(?: *;[^\\\n]*)?)", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    )
    pins.write_text("".join(f"{pin}\n" for pin in names if not pin.startswith("pyspark==")))
    if not (env / "bin" / "python").exists():
        subprocess.run([uv, "venv", "--quiet", "--python", python, str(env)], check=True)
    command = [uv, "pip", "install", "--quiet", "--python", str(env / "bin" / "python"), "--constraint", str(pins)]
    subprocess.run([*command, "-e", f"{ROOT}[{EXTRAS}]", pyspark, *TOOLS], check=True, cwd=ROOT)
    return env


def run(name: str, arguments: list[str]) -> tuple[str, bool | None]:
    """Make an environment and run the tests in it; what to say, and whether they passed (None: no such Python)."""
    uv = find_uv()
    version, pyspark = COMBINATIONS[name]
    python = interpreter(uv, version)
    if python is None:
        return f"{name}: no Python {version} here or to be had", None
    env = make_env(uv, name, python, pyspark)
    bare = {k: v for k, v in os.environ.items() if k not in {"PYSPARK_PYTHON", "PYTHONPATH", "SPARK_HOME"}}
    found = subprocess.run([env / "bin" / "python", "-c", PROBE], capture_output=True, text=True, check=True, env=bare)
    apart = re.search(r"^APART := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    others = (
        apart[1].removeprefix("slow or ") if apart else ""
    )  # slow ones are what differs between releases of PySpark
    marks = ["-m", f"not ({others} or dag)"]
    tests = arguments or [*TESTS, "-n", "2", "--dist", "loadfile"]
    command = [str(env / "bin" / "python"), "scripts/env.py", "run", "--", str(env / "bin" / "pytest"), "-q", *OTHERS]
    begin = time.monotonic()
    done = subprocess.run([*command, *marks, *tests], check=False, cwd=ROOT, env=bare)
    seconds = time.monotonic() - begin
    return (
        f"{name}: Python and PySpark {found.stdout.strip()}, exit {done.returncode}, {seconds:.0f} s",
        done.returncode == 0,
    )


def main() -> int:
    """Run what was asked for; 1 if tests failed."""
    given = sys.argv[1 : sys.argv.index("--")] if "--" in sys.argv else sys.argv[1:]
    arguments = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*COMBINATIONS, []], metavar="NAME", help=", ".join(COMBINATIONS))
    asked = parser.parse_args(given).names
    outcomes = [run(name, arguments) for name in asked or COMBINATIONS]
    print("\n".join(text for text, _ in outcomes))
    return int(any(passed is False or (passed is None and bool(asked)) for _, passed in outcomes))


if __name__ == "__main__":
    sys.exit(main())
