"""The whole demo, as a newcomer runs it; every number it compares comes from the dictionary replay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.demo
def test_demo_agrees_with_the_dictionary(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    env |= {"AIRFLOW_HOME": str(tmp_path / "airflow"), "COLUMNS": "140"}
    words = [sys.executable, "scripts/env.py", "run", "--", sys.executable, "-m", "demo.run", "--home"]
    done = subprocess.run(
        [*words, str(tmp_path / "demo")], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "all 25 counts equal a plain dictionary replay" in done.stdout
    assert done.stdout.count("bloom_check") == 2
    assert "Try next" in done.stdout
