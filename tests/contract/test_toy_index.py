"""A stored index type is one module and one registry line: a copy of the library gets one, and passes the whole suite."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lakeindex

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(lakeindex.__file__).resolve().parent
LINE = '    TOY = "TOY", "lakeindex.index.toy", "stored", "global"\n'


def library_with_a_toy(folder: Path) -> Path:
    """The library, linked, with one line and one module more."""
    package, index = folder / "lakeindex", folder / "lakeindex" / "index"
    index.mkdir(parents=True)
    for inside, original in ((package, LIBRARY), (index, LIBRARY / "index")):
        for one in original.iterdir():
            if one.name not in ("model.py", "index", "__pycache__"):
                (inside / one.name).symlink_to(one)
    text = (LIBRARY / "model.py").read_text()
    last = '    STATE = "STATE", "lakeindex.index.state.store", "stored", "global"\n'
    assert text.count(last) == 1
    (package / "model.py").write_text(text.replace(last, last + LINE))
    (index / "toy.py").write_text((Path(__file__).parent / "toy_index.py").read_text())
    return folder


@pytest.mark.slow
def test_one_module_and_one_line_are_an_index_type(tmp_path: Path):
    paths = [str(library_with_a_toy(tmp_path)), str(ROOT)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "LAKEINDEX_CONTRACT_TYPES": "TOY"}
    env.pop("COVERAGE_PROCESS_START", None)
    suite = "tests/contract/test_index_contract.py"
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", f"pythonpath={' '.join(paths)}"]
    command = [sys.executable, "-m", "pytest", *options, suite]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.match(r"8 passed, 1 skipped", done.stdout.splitlines()[-1]), done.stdout[-400:]
    assert "TOY" in subprocess.run(
        [sys.executable, "-c", "from lakeindex.cli import main; main()", "options"],
        cwd=ROOT, env=env, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
