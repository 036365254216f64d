"""The table of how far concepts are spread says what the source says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_table_is_todays() -> None:
    command = [sys.executable, "scripts/house.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}: correct the column 'now' in docs/architecture.md"
