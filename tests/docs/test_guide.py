"""The guide to a new index type shows the code that tests/contract/test_added_index.py runs."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
from pytest_examples import CodeExample, find_examples

from tests.contract.test_added_index import ADDED, LINE

ROOT = Path(__file__).resolve().parents[2]
ADDED_LINES = [path.read_text().splitlines() for path in sorted(ADDED.glob("*.py"))]
PAGE = ROOT / "docs/adding-an-index.md"
EXAMPLES = list(find_examples(PAGE))


def is_of_the_example(code: str) -> bool:
    """Whether the code stands in the added folder, at the left or as methods; or is the one line of the registry."""
    blocks = [code.splitlines(), [line.rstrip() for line in indent(code, " " * 4).splitlines()]]
    return code.strip() == LINE.strip() or any(
        lines[n : n + len(block)] == block for lines in ADDED_LINES for block in blocks for n in range(len(lines))
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_guides_code_is_the_tested_code(example: CodeExample) -> None:
    assert is_of_the_example(example.source), f"{example}: not as in tests/contract/sqlite_index"


def test_the_guide_shows_the_kind_the_store_and_the_line() -> None:
    shown = "\n".join(example.source for example in EXAMPLES)
    wanted = ("class SqliteIndex", "class SqliteOptions", "def make_index", "def _folder", "def apply", "def undo")
    for name in (*wanted, "def count", "def look_up", LINE.strip()):
        assert name in shown


def test_other_code_is_not_of_the_example() -> None:
    whole = EXAMPLES[-1].source
    assert is_of_the_example(whole)
    assert not is_of_the_example(whole.replace("held", "kept"))
