"""The guide to a new index type shows the code that tests/contract/test_toy_index.py runs."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest
from pytest_examples import CodeExample, find_examples

from tests.contract.test_toy_index import LINE

ROOT = Path(__file__).resolve().parents[2]
TOY = (ROOT / "tests/contract/toy_index.py").read_text()
PAGE = ROOT / "docs/adding-an-index.md"
EXAMPLES = list(find_examples(PAGE))


def is_of_the_toy(code: str) -> bool:
    """Whether the code stands in the toy, at the left or as methods; or is the one line of the registry."""
    lines = TOY.splitlines()
    blocks = [code.splitlines(), [line.rstrip() for line in indent(code, " " * 4).splitlines()]]
    starts = range(len(lines))
    return code.strip() == LINE.strip() or any(lines[n : n + len(block)] == block for block in blocks for n in starts)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_the_guides_code_is_the_tested_code(example: CodeExample) -> None:
    assert is_of_the_toy(example.source), f"{example}: not as in tests/contract/toy_index.py"


def test_the_guide_shows_the_kind_the_store_and_the_line() -> None:
    shown = "\n".join(example.source for example in EXAMPLES)
    for name in ("class ToyIndex", "def make_index", "def apply", "def undo", "def look_up", LINE.strip()):
        assert name in shown


def test_other_code_is_not_of_the_toy() -> None:
    whole = EXAMPLES[-1].source
    assert is_of_the_toy(whole)
    assert not is_of_the_toy(whole.replace("unknown", "doubted"))
