"""Compare the branch coverage of the last ``make test`` with ``coverage.floor``, which may only rise.

Exit 1 if coverage fell below the floor, or if the floor is lower than it once was in the history. Coverage well
above the floor asks for a higher one: ``scripts/coverage_floor.py --raise`` writes it.
"""

from __future__ import annotations

import io
import math
import subprocess
import sys
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parents[1]
FLOOR = ROOT / "coverage.floor"
ROOM = 1.0  # percent between a measurement and the floor made from it: runs differ a little


def measured() -> float:
    """Total of the data file, in percent, branches included."""
    data = coverage.Coverage(config_file=str(ROOT / "pyproject.toml"))
    data.load()
    return data.report(file=io.StringIO())


def highest_floor() -> float:
    """The highest floor that was ever committed; 0 outside a git checkout."""
    log = subprocess.run(
        ["git", "log", "-p", "--format=", "--", FLOOR.name], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return max((float(line[1:]) for line in log.stdout.splitlines() if line[:1] == "+" and line[:2] != "++"), default=0)


def main() -> None:
    """Check, or raise the floor."""
    total, floor = measured(), float(FLOOR.read_text())
    if "--raise" in sys.argv:
        FLOOR.write_text(f"{max(floor, math.floor((total - ROOM) * 10) / 10)}\n")
        return
    if floor < highest_floor():
        sys.exit(f"coverage.floor is {floor} but was {highest_floor()} before: it may only rise")
    if total < floor:
        sys.exit(f"coverage {total:.1f} % is below the floor of {floor} %: test what was added")
    print(f"coverage {total:.1f} % (floor {floor} %)")
    if total > floor + 2 * ROOM:
        print("well above the floor: raise it with .venv/bin/python scripts/coverage_floor.py --raise")


if __name__ == "__main__":
    main()
