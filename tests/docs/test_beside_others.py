"""The page that compares: each yes of ours names a test, and the tests are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "beside-others.md"
HEADER = "| | lakeindex | delta-rs | PyIceberg | Hudi | test |"
LEAST_ROWS = 35


def rows() -> list[list[str]]:
    """The cells of each row of the page's tables."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ") and line != HEADER]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def is_there(test: str) -> bool:
    """Whether a test, or a module of tests, is in the checkout."""
    path, _, name = test.partition("::")
    if not (ROOT / path).is_file():
        return False
    return not name or re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE) is not None


def test_every_cell_says_yes_or_no() -> None:
    assert len(rows()) >= LEAST_ROWS
    wrong = [
        row for row in rows() if len(row) != 6 or any(not re.match(r"(yes|no)\b", cell) for cell in row[1:5])
    ]  # fmt: skip
    assert wrong == []


def test_each_yes_of_ours_is_a_test_that_is_there() -> None:
    missing = []
    for what, ours, *_, test in rows():
        named = re.fullmatch(r"`([^`]+)`", test)
        if ours.startswith("yes") and (named is None or not is_there(named[1])):
            missing.append(f"{what}: {test}")
        if ours.startswith("no") and test:
            missing.append(f"{what} is a no, and has a test")
    assert missing == []


def test_a_test_that_is_not_there_is_found() -> None:
    assert is_there("tests/docs/test_beside_others.py::test_a_test_that_is_not_there_is_found")
    assert not is_there("tests/docs/test_beside_others.py::test_of_nothing")
    assert not is_there("tests/docs/test_nothing.py")
