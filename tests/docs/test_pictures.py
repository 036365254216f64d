"""The pictures of the pages: those of docs/how-it-works.md are what the library does now, and each is shown somewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_every_picture_is_shown() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "benchmarks" / "README.md"]
    shown = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    pictures = sorted(path.name for path in (ROOT / "docs" / "images").iterdir())
    assert [name for name in pictures if f"images/{name}" not in shown] == []


@pytest.mark.slow
def test_pictures_are_those_that_the_library_gives() -> None:
    words = [sys.executable, "scripts/docs_pictures.py", "--check"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-2000:]}: run scripts/docs_pictures.py and look at them"
