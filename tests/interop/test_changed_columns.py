"""Tables whose columns Hudi changed: widened ones hold for us what they hold for Hudi, before and after an upsert of ours; tables
whose columns are found by ids, or stand in no file, are refused.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.errors import TableUnsupportedError
from tests.interop.hudi_client import HudiServer, keep_options

pytestmark = pytest.mark.interop

INTS = [16777217, -5, 2147483647, None]
LONGS = [9007199254740993, -5, 16777217, None]
FLOATS = [0.1, 1e10, 3.4e10, 3.4028234663852886e38, math.nan, -0.0, math.inf, 1e-45, None]
DOUBLES = [0.1, 1e300, 2e23, -0.0, None]
WIDENED: dict[str, tuple[pa.DataType, list[Any], pa.DataType, Any]] = {
    "i2l": (pa.int32(), INTS, pa.int64(), 7),
    "i2f": (pa.int32(), INTS, pa.float32(), 7.5),
    "i2d": (pa.int32(), INTS, pa.float64(), 7.5),
    "i2s": (pa.int32(), INTS, pa.string(), "x"),
    "l2f": (pa.int64(), LONGS, pa.float32(), 7.5),
    "l2d": (pa.int64(), LONGS, pa.float64(), 7.5),
    "l2s": (pa.int64(), LONGS, pa.string(), "x"),
    "f2d": (pa.float32(), FLOATS, pa.float64(), 7.5),
    "f2s": (pa.float32(), FLOATS, pa.string(), "x"),
    "d2s": (pa.float64(), DOUBLES, pa.string(), "x"),
}
MERGE = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
ROWS = max(len(values) for _, values, _, _ in WIDENED.values())


def options(hudi: HudiServer, **more: str) -> dict[str, str]:
    return {
        **keep_options(hudi.version),
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.operation": "upsert",
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def rows(ids: list[str], ts: int, columns: dict[str, pa.Array]) -> pa.Table:
    n = len(ids)
    return pa.table({"id": ids, "p": [one[0] for one in ids], "ts": pa.array([ts] * n, pa.int64()), **columns})


def texts(table: pa.Table) -> dict[str, list[str]]:
    """Rows by key, as texts: NaN is not equal to itself, and -0.0 is to 0.0."""
    names = ["ts", *WIDENED]
    return {row["id"]: [repr(row[name]) for name in names] for row in table.to_pylist()}


def test_widened_columns(hudi: HudiServer, folder: Path) -> None:
    path = folder / "t"
    narrow = {
        name: pa.array([*values, *[None] * (ROWS - len(values))] * 2, kind)
        for name, (kind, values, _, _) in WIDENED.items()
    }
    wide = {name: pa.array([value], kind) for name, (_, _, kind, value) in WIDENED.items()}
    ids = [f"{p}{n}" for p in "ab" for n in range(ROWS)]
    hudi.write(path, rows(ids, 1, narrow), options(hudi), mode="overwrite")
    hudi.write(path, rows(["b-new"], 2, wide), options(hudi))  # files of b are rewritten, those of a stay as they are
    expected = texts(hudi.read(path))
    assert expected["a0"] == expected["b0"]
    table = lakeindex.open_table(str(path))
    assert texts(table.read()) == expected
    assert table.check(deep=True).ok
    table.upsert(rows(["a-new"], 3, wide), options=MERGE)  # now those of a are
    expected["a-new"] = ["3", *expected["b-new"][1:]]
    assert texts(table.read()) == expected
    assert texts(hudi.read(path)) == expected
    hudi.write(path, rows(["a-new"], 4, wide), options(hudi))  # and Hudi writes on top
    expected["a-new"][0] = "4"
    assert texts(table.read()) == texts(hudi.read(path)) == expected


def test_a_renamed_column_is_refused(servers: dict[str, HudiServer], folder: Path) -> None:
    hudi, path = servers["0.15.0"], folder / "t"
    batch = rows(["a1", "b1"], 1, {"x": pa.array([1, 2], pa.int32())})
    hudi.write(path, batch, options(hudi, hoodie__schema__on__read__enable="true"), mode="overwrite")
    assert lakeindex.open_table(str(path)).read().column("x").to_pylist() == [1, 2]
    hudi.sql("set hoodie.schema.on.read.enable=true")
    name = f"renamed_{folder.name}".replace("-", "_")
    hudi.sql(f"create table {name} using hudi location '{path}'")
    hudi.sql(f"alter table {name} rename column x to y")
    hudi.sql("set hoodie.schema.on.read.enable=false")
    table = lakeindex.open_table(str(path))
    for call in (
        table.read,
        table.check,
        lambda: table.upsert(batch, options=MERGE),
    ):
        with pytest.raises(TableUnsupportedError, match=r"hoodie\.schema\.on\.read\.enable"):
            call()


def test_dropped_partition_columns_are_refused(hudi: HudiServer, folder: Path) -> None:
    path = folder / "t"
    batch = rows(["a1", "b1"], 1, {"x": pa.array([1, 2], pa.int32())})
    hudi.write(path, batch, options(hudi, hoodie__datasource__write__drop__partition__columns="true"), mode="overwrite")
    with pytest.raises(TableUnsupportedError, match="drops its partition columns"):
        lakeindex.open_table(str(path)).read()


def test_hudi_checks_and_filters_what_we_wrote(hudi: HudiServer, folder: Path) -> None:
    """Page checksums of ours are right for parquet-mr, and a NaN is found by a filter."""
    path = folder / "t"
    values = [math.nan if n == 3 else n / 2 for n in range(9)]
    ids = [f"a{n}" for n in range(9)]
    hudi.write(path, rows(ids, 1, {"x": pa.array(values)}), options(hudi), mode="overwrite")
    table = lakeindex.open_table(str(path))
    for ts in (2, 3):  # the second one copies chunks
        table.upsert(rows(ids[ts : ts + 2], ts, {"x": pa.array(values[ts : ts + 2])}), options=MERGE)
    assert hudi.read(path, where="x > 1e308").column("id").to_pylist() == ["a3"]
    verify = {"parquet.page.verify-checksum.enabled": "true"}
    assert sorted(hudi.read(path, verify).column("id").to_pylist()) == ids
