"""The README says what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_readme_option_tables_are_those_of_the_config() -> None:
    done = subprocess.run([sys.executable, "scripts/readme_options.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run scripts/readme_options.py"
