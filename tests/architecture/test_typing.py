"""The public API is typed for whoever uses it: mypy --strict on a sample, right and wrong."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lakeindex

ROOT = Path(__file__).resolve().parents[2]
RIGHT = """\
from typing import assert_type
import lakeindex
from lakeindex.operations.look.history import History
from lakeindex.run.summary import RunSummary

table = lakeindex.open_table("lake/orders")
assert_type(table, lakeindex.LakeTable)
run = table.upsert(["a.parquet"], batch_id="b", options={"lakeindex.report": "none"}, max_quarantined=3)
assert_type(run, RunSummary)
assert_type(run.inserts, int)
assert_type(run.instant, str | None)
assert_type(table.history(), History)
assert_type(table.history()[0].rows, int | None)
assert_type(table.check().ok, bool)
assert_type(table.get(["k"]).missing, tuple[str, ...])
table.index_build("RECORD_INDEX", runner="local")
"""
WRONG = """\
import lakeindex

table = lakeindex.open_table("lake/orders")
table.upsert(["a.parquet"], batch=1)
table.upsert(["a.parquet"], max_quarantined="3")
table.index_build(force=True)
lakeindex.open_table(3)
"""


ONLY_OURS = """\
[mypy]
strict = True
mypy_path = lib
explicit_package_bases = True
follow_imports = skip

[mypy-lakeindex.*]
follow_imports = silent
"""
"""What other libraries say of types, of which the samples ask nothing, takes mypy four times as long as the rest."""


def checked(folder: Path, **texts: str) -> dict[str, set[int]]:
    """The lines of each module with which a user's mypy finds fault, by its name."""
    config = folder / "mypy.ini"
    config.write_text(ONLY_OURS)
    paths = [folder / f"{name}.py" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    cache = ["--cache-dir", os.devnull]
    command = [sys.executable, "-m", "mypy", "--config-file", str(config), *cache, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stderr) in [(0, ""), (1, "")]
    found = re.findall(r"(\w+)\.py:(\d+): error:", done.stdout)
    return {name: {int(line) for of, line in found if of == name} for name in texts}


@pytest.mark.slow
def test_a_sample(tmp_path: Path):
    assert (ROOT / "lib" / "lakeindex" / "py.typed").is_file()
    assert checked(tmp_path, right=RIGHT, wrong=WRONG) == {"right": set(), "wrong": {4, 5, 6, 7}}


def test_signatures_have_names_and_types():
    """What help, notebooks and editors show of a method: each argument by name, with its type and its default."""
    methods = {name: one for name, one in inspect.getmembers(lakeindex.LakeTable, callable) if not name.startswith("_")}
    assert len(methods) > 35
    vague = [
        f"{name}({argument})"
        for name, method in methods.items()
        for argument in list(inspect.signature(method).parameters.values())[1:]
        if argument.kind in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD) or argument.annotation is argument.empty
    ]
    assert vague == []
    upsert = inspect.signature(lakeindex.LakeTable("lake/orders").upsert).parameters
    assert (upsert["batch_id"].default, upsert["runner"].default, upsert["partial"].default) == (None, "local", False)
    assert "nulls" not in inspect.signature(lakeindex.LakeTable.delete).parameters
