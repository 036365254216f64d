"""The README and the page of options say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lakeindex.options.option_table import CREATE_OPTIONS, OPTION_AREAS, OPTIONS

ROOT = Path(__file__).resolve().parents[2]


def test_option_tables_are_those_of_the_config() -> None:
    done = subprocess.run([sys.executable, "scripts/options_page.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run scripts/options_page.py"


def test_each_option_has_one_row() -> None:
    shown = [option.key for options in OPTION_AREAS.values() for option in options]
    assert sorted(shown) == sorted({option.key for option in (*OPTIONS, *CREATE_OPTIONS)})
    page = (ROOT / "docs/options.md").read_text()
    assert {key: page.count(f"| `{key}` |") for key in shown} == dict.fromkeys(shown, 1)


def test_an_option_that_is_bound_says_so() -> None:
    for option in OPTIONS:
        assert ("Bound" in option.text) is option.bound, option.key


def test_the_readme_is_short() -> None:
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) <= 120
    assert sum(line.startswith(("| `hoodie.", "| `lakeindex.")) for line in readme.splitlines()) <= 8
