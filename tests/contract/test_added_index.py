"""A stored index type is a module, its options and one registry line: a copy of the library gets one, and passes the whole suite."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lakeindex

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(lakeindex.__file__).resolve().parent
ADDED = Path(__file__).parent / "sqlite_index"
LINE = '    SQLITE = "SQLITE", "lakeindex.index.locations.sqlite", "stored", "global"\n'


def library_with_one_more(folder: Path) -> Path:
    """The library, linked, with one line and the modules of one type more."""
    package = folder / "lakeindex"
    locations = package / "index/locations"
    locations.mkdir(parents=True)
    for inside in (package, package / "index", locations):
        original = LIBRARY / inside.relative_to(package)
        for one in original.iterdir():
            if one.name not in ("model.py", "index", "locations", "__pycache__"):
                (inside / one.name).symlink_to(one)
    text = (LIBRARY / "model.py").read_text()
    last = '    STATE = "STATE", "lakeindex.index.locations.state", "stored", "global"\n'
    assert text.count(last) == 1
    (package / "model.py").write_text(text.replace(last, last + LINE))
    for one in ADDED.glob("sqlite*.py"):
        shutil.copy(one, locations)
    return folder


def environment(library: Path) -> dict[str, str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join((str(library), str(ROOT))), "LAKEINDEX_CONTRACT_TYPES": "SQLITE"}
    for name in ("COVERAGE_PROCESS_START", "LAKEINDEX_IN_TURNS"):
        env.pop(name, None)
    return env


@pytest.mark.slow
def test_its_modules_and_one_line_are_an_index_type(tmp_path: Path):
    library = library_with_one_more(tmp_path)
    suite = "tests/contract/test_index_contract.py"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", f"pythonpath={library} {ROOT}"]
    command = [sys.executable, "-m", "pytest", *options, suite]
    done = subprocess.run(command, cwd=ROOT, env=environment(library), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.match(r"(\d+) passed", done.stdout.splitlines()[-1])
    assert passed is not None, done.stdout[-400:]
    assert int(passed[1]) >= 17, "the contract was asked of it"


@pytest.mark.slow
def test_its_options_and_its_advice_are_there_without_another_line(tmp_path: Path):
    code = """
from lakeindex.index.contract import FilesInScope
from lakeindex.index.registry import advice_of, index_for
from lakeindex.model import IndexType
from lakeindex.options.option_table import OPTION_AREAS
from lakeindex.options.parse import index_spec, parse_options

config = parse_options({"hoodie.index.type": "sqlite", "lakeindex.sqlite.update.partition.path": "true"})
print([option.key for option in OPTION_AREAS["SQLITE"]])
print(index_for(index_spec(IndexType.SQLITE, config)).moves_rows(config), advice_of(IndexType.SQLITE).is_plain)
"""
    env = environment(library_with_one_more(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "['lakeindex.sqlite.folder', 'lakeindex.sqlite.update.partition.path']",
        "True False",
    ]
