"""The examples of docstrings, run as they stand; tests/docs runs those of the README and the pages."""

from __future__ import annotations

import doctest
import importlib
import inspect
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from tests.cli_support import lakeindex as command


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """The table ``lake/orders`` that examples speak of, in the working folder; gives a batch for it."""
    rows = pa.table({"id": ["a"], "region": ["eu"], "ts": [1], "amount": [3.5]})
    monkeypatch.chdir(tmp_path)
    pq.write_table(rows.slice(0, 0), "like.parquet")
    made = command(
        "create", "lake/orders", "--like", "like.parquet", "--key", "id", "--partition", "region", "--ordering", "ts"
    )
    assert made.exit_code == 0, made.stderr
    return rows


def line_of(name: str) -> int:
    """Where a name of a module stands in its file; doctest takes a decorated method for the decorator's."""
    found: object = importlib.import_module(".".join(name.split(".")[:2]))
    for part in name.split(".")[2:]:
        found = getattr(found, part)
    inspected = inspect.unwrap(found) if callable(found) else found
    return inspect.getsourcelines(inspected)[1] if callable(found) else 0  # type: ignore[arg-type] # a class or function


@pytest.mark.parametrize(
    "name",
    [
        "lakeindex.api.table",
        "lakeindex.api.looking",
        "lakeindex.api.creating",
        "lakeindex.api.finding",
        "lakeindex.showing.notebook",
    ],
)
def test_docstrings(name: str, lake: pa.Table):
    """The examples of a module follow each other, on one table, and know what those before them named."""
    module = importlib.import_module(name)
    names = {**vars(module), "orders": lakeindex.LakeTable("lake/orders")}
    found = [one for one in doctest.DocTestFinder().find(module, name) if one.examples]
    assert found
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    text: list[str] = []
    for one in sorted(found, key=lambda test: line_of(test.name)):
        one.globs = names
        runner.run(one, out=text.append, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0, "".join(text)
