"""Tables whose columns Hudi changed: widened ones hold for us what they hold for Hudi, before and after an upsert of ours; tables
whose columns are found by ids, or stand in no file, are refused.
"""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.errors import TableUnsupportedError
from tests.builders import make_table
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
    assert texts(table.read(meta=True)) == expected
    assert table.check(deep=True).ok
    table.upsert(rows(["a-new"], 3, wide), options=MERGE)  # now those of a are
    expected["a-new"] = ["3", *expected["b-new"][1:]]
    assert texts(table.read(meta=True)) == expected
    assert texts(hudi.read(path)) == expected
    hudi.write(path, rows(["a-new"], 4, wide), options(hudi))  # and Hudi writes on top
    expected["a-new"][0] = "4"
    assert texts(table.read(meta=True)) == texts(hudi.read(path)) == expected


def test_a_renamed_column_is_refused(servers: dict[str, HudiServer], folder: Path) -> None:
    hudi, path = servers["0.15.0"], folder / "t"
    batch = rows(["a1", "b1"], 1, {"x": pa.array([1, 2], pa.int32())})
    hudi.write(path, batch, options(hudi, hoodie__schema__on__read__enable="true"), mode="overwrite")
    assert lakeindex.open_table(str(path)).read(meta=True).column("x").to_pylist() == [1, 2]
    name = f"renamed_{folder.name}".replace("-", "_")
    with hudi.settings({"hoodie.schema.on.read.enable": "true"}):
        hudi.sql(f"create table {name} using hudi location '{path}'")
        hudi.sql(f"alter table {name} rename column x to y")
    table = lakeindex.open_table(str(path))
    for call in (
        lambda: table.read(meta=True),
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
        lakeindex.open_table(str(path)).read(meta=True)


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


def test_columns_that_we_change_are_as_hudi_changes_them(hudi: HudiServer, folder: Path) -> None:
    """The same two writes by Hudi into one table, by us into another: what both readers find is the same in both."""
    numbers = {name: one for name, one in WIDENED.items() if not pa.types.is_string(one[2])}
    narrow = {
        name: pa.array([*values, *[None] * (ROWS - len(values))] * 2, kind)
        for name, (kind, values, _, _) in numbers.items()
    }
    wide = {name: pa.array([value], kind) for name, (_, _, kind, value) in numbers.items()}
    narrow["pair"] = pa.array([{"x": 1, "y": "a"}, None] * ROWS)
    wide["pair"] = pa.array([{"x": 2, "y": "b", "z": 2.5}])
    wide["new"] = pa.array([["n"]])
    ids = [f"{p}{n}" for p in "ab" for n in range(ROWS)]
    first, second, third = rows(ids, 1, narrow), rows(["b-new"], 2, wide), rows(["a-new"], 3, wide)
    theirs, ours = folder / "theirs", folder / "t"
    told = options(hudi) | keep_options(hudi.version, hudi.table_version)
    hudi.write(theirs, first, told, mode="overwrite")
    hudi.write(theirs, second, told)
    table = lakeindex.open_table(str(_created(ours, first.schema, hudi.table_version)))
    table.upsert(first)
    done = table.upsert(second, options={"lakeindex.schema.mode": "widen"})
    assert len(done.notes) == len(numbers) + 2

    def seen(read: pa.Table) -> dict[str, list[str]]:
        return {row["id"]: [repr(row[name]) for name in second.column_names] for row in read.to_pylist()}

    expected = seen(hudi.read(theirs))
    assert seen(hudi.read(ours)) == seen(table.read(meta=True)) == expected
    table.upsert(third)  # files of a are rewritten, which had none of it
    expected["a-new"] = [repr("a-new"), repr("a"), "3", *expected["b-new"][3:]]
    assert seen(hudi.read(ours)) == seen(table.read(meta=True)) == expected
    hudi.write(ours, rows(["a-theirs"], 4, wide), told)
    expected["a-theirs"] = [repr("a-theirs"), repr("a"), "4", *expected["b-new"][3:]]
    assert seen(hudi.read(ours)) == seen(table.read(meta=True)) == expected
    assert table.check(deep=True).ok


def test_decimals_that_we_make_wider(hudi: HudiServer, folder: Path) -> None:
    cents = pa.array([Decimal("1.25"), Decimal("-99999999.99"), None], pa.decimal128(10, 2))
    more = pa.array([Decimal("12345678901234.1234")], pa.decimal128(18, 4))
    path = _created(folder / "t", rows(["a"], 1, {"money": cents.slice(0, 1)}).schema, hudi.table_version)
    table = lakeindex.open_table(str(path))
    table.upsert(rows(["a1", "b1", "b2"], 1, {"money": cents}))
    table.upsert(rows(["b3"], 2, {"money": more}), options={"lakeindex.schema.mode": "widen"})
    expected = {"a1": "1.2500", "b1": "-99999999.9900", "b2": "None", "b3": "12345678901234.1234"}
    for found in (table.read(meta=True), hudi.read(path)):
        assert found.schema.field("money").type == pa.decimal128(18, 4)
        assert {row["id"]: str(row["money"]) for row in found.to_pylist()} == expected


def _created(path: Path, schema: pa.Schema, version: int) -> Path:
    make_table(path, schema=schema, keys=("id",), partitions=("p",), hoodie__write__table__version=str(version))
    return path


def test_statistics_of_columns_that_we_change(servers: dict[str, HudiServer], folder: Path) -> None:
    """Hudi skips files by what we say of columns that some files have in another type, or not at all."""
    hudi = servers["1.2.0"].writing(9)
    path = _created(folder / "t", rows(["a"], 1, {"n": pa.array([1], pa.int32())}).schema, 9)
    table = lakeindex.open_table(str(path))
    table.metadata_build(["files", "column_stats", "partition_stats"])
    table.upsert(rows(["a1", "a2", "b1", "c1"], 1, {"n": pa.array([1, 2, 3, 4], pa.int32())}))
    widen = {"lakeindex.schema.mode": "widen"}
    table.upsert(rows(["b2"], 2, {"n": pa.array([2**40]), "e": pa.array(["x"])}), options=widen)
    table.upsert(rows(["c2"], 3, {"n": pa.array([0.5]), "e": pa.array(["y"])}), options=widen)
    filters = {
        "n = 1": 1, "n = 1.0": 1, "n > 2": 3, "n < 1": 1, "n >= 1000000": 1, "n is null": 0, "n is not null": 6,
        "e = 'x'": 1, "e >= 'x'": 2, "e is null": 4, "e is not null": 2, "id > 'b'": 4,
    }  # fmt: skip
    skipping = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    for turn in ("as we left it", "after Hudi's upsert"):
        found = hudi.counts(path, list(filters), skipping)
        assert dict(zip(filters, found, strict=True)) == filters, turn
        told = options(hudi) | keep_options("1.2.0", 9) | {"hoodie.metadata.enable": "true"}
        hudi.write(path, rows(["a2"], 4, {"n": pa.array([2.0]), "e": pa.array([None], pa.string())}), told)
    assert table.metadata_verify().ok
    assert table.check().ok
