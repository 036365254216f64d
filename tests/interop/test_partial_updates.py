"""Hudi reads, filters and updates what partial updates and merge functions of ours made of its rows and of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeindex
from tests.interop.hudi_client import HudiServer
from tests.interop.test_changed_columns import MERGE, options, rows

pytestmark = pytest.mark.interop

NAMES = ("ts", "text", "number", "pair")


def of_both(hudi: HudiServer, path: Path) -> dict[str, tuple[Any, ...]]:
    """Rows by key, which are the same for us and for Hudi."""
    table = lakeindex.open_table(str(path))
    found, theirs = (
        {row["id"]: tuple(row[name] for name in NAMES) for row in one.to_pylist()}
        for one in (table.read(meta=True), hudi.read(path))
    )
    assert found == theirs
    assert table.check(deep=True).ok
    return found


def added(old: pa.Table, new: pa.Table) -> pa.Table:
    return new.set_column(new.column_names.index("number"), "number", pc.add(old["number"], new["number"]))


def test_columns_that_were_kept_are_there_for_hudi(hudi: HudiServer, folder: Path) -> None:
    path = folder / "t"
    ids = [f"{p}{n}" for p in "ab" for n in range(4)]
    columns = {
        "text": [f"t{n}" for n in range(8)],
        "number": pa.array(range(8), pa.int64()),
        "pair": [{"x": n, "y": f"y{n}"} if n % 2 else None for n in range(8)],
    }
    hudi.write(
        path,
        rows(ids, 1, {name: pa.array(column) for name, column in columns.items()}),
        options(hudi),
        mode="overwrite",
    )
    expected = {one: (1, f"t{n}", n, columns["pair"][n]) for n, one in enumerate(ids)}
    table = lakeindex.open_table(str(path))
    table.upsert(rows(["a0", "b9"], 2, {"number": pa.array([100, 9])}), partial=True, options=MERGE)  # of Hudi's file
    expected |= {"a0": (2, "t0", 100, None), "b9": (2, None, 9, None)}
    assert of_both(hudi, path) == expected
    done = table.upsert(
        rows(["a0", "a1"], 3, {"text": pa.array(["new", None])}), partial=True, nulls="keep", options=MERGE
    )
    assert done.chunks_copied > 0  # of ours
    expected |= {"a0": (3, "new", 100, None), "a1": (3, "t1", 1, columns["pair"][1])}
    assert of_both(hudi, path) == expected
    whole = {"text": pa.array(["m"]), "number": pa.array([5]), "pair": pa.array([None], pa.array(columns["pair"]).type)}
    table.upsert(rows(["a0"], 4, whole), merge=added, options=MERGE)
    expected["a0"] = (4, "m", 105, None)
    assert of_both(hudi, path) == expected
    assert hudi.read(path, where="number = 105").column("id").to_pylist() == ["a0"]
    hudi.write(path, rows(["a1"], 5, whole), options(hudi))
    expected["a1"] = (5, "m", 5, None)
    assert of_both(hudi, path) == expected
