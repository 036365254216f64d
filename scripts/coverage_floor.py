"""Compare the branch coverage of the last ``make test COVERAGE=1`` with ``coverage.floor``, a floor a package.

``coverage.floor`` has a line for the whole and one for each package of the library, by its dotted name and without the
packages below it (``lakeindex``: the modules beside the packages), so that none is hidden in another; floors may only
rise. Exit 1 if a package fell below its floor, has none, or its floor is lower than it once was in the history.
Coverage well above a floor asks for a higher one: ``scripts/coverage_floor.py --raise`` writes them.
"""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import coverage

ROOT = Path(__file__).resolve().parents[1]
FLOOR = ROOT / "coverage.floor"
LIBRARY = ROOT / "lib" / "lakeindex"
TOTAL = "total"
ROOM = 1.0  # percent between a measurement and the floor made from it: runs differ a little
_LINE = re.compile(r"(?:(?P<name>[\w.]+) )?(?P<floor>\d+(?:\.\d+)?)")
_HEAD = (
    "# Percent of statements and branches that `make test COVERAGE=1` reaches; "
    "scripts/coverage_floor.py. May only rise.\n"
)


def packages(library: Path = LIBRARY) -> tuple[str, ...]:
    """Dotted names of the library and of all packages in it that have modules of their own."""
    found = (
        path.parent
        for path in library.rglob("__init__.py")
        if any(one.name != path.name for one in path.parent.glob("*.py"))
    )
    return tuple(sorted(".".join(one.relative_to(library.parent).parts) for one in found))


def measured() -> dict[str, float]:
    """The data file's coverage in percent, branches included: of the whole, and of the modules of each package."""
    data = coverage.Coverage(config_file=str(ROOT / "pyproject.toml"))
    data.load()
    found = {TOTAL: data.report(file=io.StringIO())}
    for name in packages():
        folder = LIBRARY.parent.joinpath(*name.split("."))
        include = [str(one) for one in folder.glob("*.py") if one.name != "__init__.py"]
        found[name] = data.report(file=io.StringIO(), include=include)
    return found


def parse(lines: Iterable[str]) -> dict[str, float]:
    """Floors by name; a bare number, as the file once held alone, is that of the whole.
    The greatest of several counts.
    """
    floors: dict[str, float] = {}
    for line in lines:
        match = _LINE.fullmatch(line.strip())
        if match:
            name = match["name"] or TOTAL
            floors[name] = max(floors.get(name, 0.0), float(match["floor"]))
    return floors


def highest_floors() -> dict[str, float]:
    """The highest floors that were ever committed; none outside a git checkout."""
    log = subprocess.run(
        ["git", "log", "-p", "--format=format:commit", "--", FLOOR.name],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return highest_in(log.stdout)


def highest_in(log: str) -> dict[str, float]:
    """The highest floors of a history, the newest change first.

    A package that takes in one below it is another package from then on: what it had before does not count.
    """
    highest: dict[str, float] = {}
    others: set[str] = set()
    for change in re.split(r"^commit$", log, flags=re.MULTILINE):
        added, removed = (
            parse(line[1:] for line in change.splitlines() if line[:1] == sign and line[:2] != 2 * sign)
            for sign in "+-"
        )
        for name in added.keys() - others:
            highest[name] = max(highest.get(name, 0.0), added[name])
        others |= added.keys() & {name.rpartition(".")[0] for name in removed.keys() - added.keys()}
    return highest


def problems(found: Mapping[str, float], floors: Mapping[str, float], highest: Mapping[str, float]) -> list[str]:
    """What is wrong, a sentence each.

    Args:
        found: measured coverage, by name.
        floors: those of the file.
        highest: the highest that were ever committed.
    """
    wrong = [f"{name} has no floor: every package needs one" for name in found if name not in floors]
    for name, floor in floors.items():
        if name in found and floor < highest.get(name, 0.0):
            wrong.append(f"the floor of {name} is {floor} but was {highest[name]} before: it may only rise")
    for name, percent in found.items():
        if percent < floors.get(name, 0.0):
            wrong.append(f"{name}: {percent:.1f} % is below the floor of {floors[name]} %: test what was added")
    return wrong


def raised(found: Mapping[str, float], floors: Mapping[str, float]) -> dict[str, float]:
    """Floors as high as the measurement allows; none is lowered, those of packages that are gone are left out."""
    return {name: max(floors.get(name, 0.0), math.floor((percent - ROOM) * 10) / 10) for name, percent in found.items()}


def text_of(floors: Mapping[str, float]) -> str:
    return _HEAD + "".join(f"{name} {floor:.1f}\n" for name, floor in floors.items())


def main() -> None:
    found, floors = measured(), parse(FLOOR.read_text().splitlines())
    if "--raise" in sys.argv:
        FLOOR.write_text(text_of(raised(found, floors)))
        return
    for name, percent in found.items():
        print(f"{name:32} {percent:5.1f} %  (floor {floors.get(name, 0.0):.1f} %)")
    wrong = problems(found, floors, highest_floors())
    if wrong:
        sys.exit("\n".join(["coverage:", *wrong]))
    if any(percent > floors[name] + 2 * ROOM for name, percent in found.items()):
        print("well above a floor: raise them with .venv/bin/python scripts/coverage_floor.py --raise")


if __name__ == "__main__":
    main()
