"""The README and the page of options say what the code says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lakeindex
from lakeindex.options.option_table import CREATE_OPTIONS, OPTION_AREAS, OPTIONS
from tests.docs.examples import blocks_of, run_page

ROOT = Path(__file__).resolve().parents[2]


def test_option_tables_are_those_of_the_config() -> None:
    done = subprocess.run([sys.executable, "scripts/options_page.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run scripts/options_page.py"


@pytest.mark.slow
def test_the_python_page_is_that_of_the_docstrings() -> None:
    done = subprocess.run([sys.executable, "scripts/api_page.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run scripts/api_page.py"


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


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_example_makes_its_own_data(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands, in an empty folder; and it prints what its comments say."""
    example = next(block.content for block in blocks_of(ROOT / page) if not isinstance(block.content, tuple))
    monkeypatch.chdir(tmp_path)
    alone = tmp_path / "page.md"
    alone.write_text(f"```python\n{example.source}```\n")
    run_page(alone)
    assert capsys.readouterr().out == "{'id': ['a', 'b'], 'amount': [3.5, 5.0], 'ts': [1, 2]}\n"
    newest = lakeindex.open_table("lake/orders").history()[0]
    assert (newest.inserts, newest.updates) == (1, 1)


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_what_is_shown_first_is_how_to_install_it(page: str) -> None:
    first = blocks_of(ROOT / page)[0].content
    assert isinstance(first, tuple)
    assert first[0].words.startswith("pip install .")  # no release is on PyPI, where the name finds nothing
