"""What is not imported, because ``-m`` leaves it out: modules of one mark, never one of which a test is chosen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import is_left_out
from tests.scheduling import LONG, SHARED

ROOT = Path(__file__).resolve().parents[2]
APART = "not (slow or interop)"


@pytest.mark.parametrize(
    ("text", "marks", "left_out"),
    [
        ("pytestmark = pytest.mark.slow\n", APART, True),
        ("pytestmark = [pytest.mark.spark, pytest.mark.interop]  # why\n", APART, True),
        ("pytestmark = pytest.mark.slow\n", "not (slow)", True),
        ("pytestmark = pytest.mark.spark\n", APART, False),
        ("pytestmark = pytest.mark.slowly\n", APART, False),
        ("pytestmark = pytest.mark.parametrize('slow', [1])\n", APART, False),
        ("@pytest.mark.slow\ndef test_x(): ...\n", APART, False),
        ("def f():\n    pytestmark = pytest.mark.slow\n", APART, False),
        ("", APART, False),
        ("pytestmark = pytest.mark.slow\n", "", False),
        ("pytestmark = pytest.mark.slow\n", "slow", False),
        ("pytestmark = pytest.mark.slow\n", "not (slow or interop) or spark", False),
        ("pytestmark = pytest.mark.slow\n", "not (slow and interop)", False),
        ("pytestmark = pytest.mark.slow\n", "not slow", False),
    ],
)
def test_only_modules_whose_tests_are_all_left_out(tmp_path: Path, text: str, marks: str, left_out: bool) -> None:
    module = tmp_path / "test_it.py"
    module.write_text(text)
    assert is_left_out(module, marks) is left_out


def test_what_make_test_leaves_out_is_of_that_form() -> None:
    (apart,) = re.findall(r"^APART := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert is_left_out(ROOT / "tests/interop/test_bucket.py", f"not ({apart})")
    assert is_left_out(ROOT / "tests/spark/test_jobs.py", f"not ({apart})")
    assert not is_left_out(ROOT / "tests/spark/test_spark_runner.py", f"not ({apart})")


def test_what_is_played_first_is_there() -> None:
    assert [name for name in (*LONG, *SHARED) if not (ROOT / name).exists()] == []
