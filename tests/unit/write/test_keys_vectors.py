"""Keys and partition paths that real Hudi 0.15.0 and 1.2.0 made."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec

VECTORS = Path(__file__).parents[2] / "vectors"
CASES: dict[str, list[dict[str, Any]]] = {
    version: [
        case
        for case in json.loads((VECTORS / f"keys_{version}.json").read_text(encoding="utf-8"))["keygen"]
        if case["gen"] != "GlobalDelete"  # no such class in these releases
    ]
    for version in ("12", "15")
}
D = decimal.Decimal
# the five records of recipes/Vec2.java
ROWS = pa.table(
    {
        "id": pa.array(["a", "", None, "k/1", "__null__"]),
        "n": pa.array([1, 0, None, 7, 2147483647], pa.int32()),
        "l": pa.array([2, -1, None, 1609459200, 9223372036854775807], pa.int64()),
        "d": pa.array([1.5, 1e20, None, 100.0, -0.0], pa.float64()),
        "f": pa.array([0.1, 1e-7, None, 3.4e10, 1.0], pa.float32()),
        "bo": pa.array([True, False, None, True, True]),
        "dt": pa.array([18262, -1, None, 0, 1], pa.int32()).cast(pa.date32()),
        "ts": pa.array([1609459200123456, 0, None, 1609459200000, -1], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "p": pa.array(["us", "", None, "a b/c=d:e%f?#'\"\\{}[]^*中", "2021-01-02"]),
        "dec": pa.array([D("1234.56"), D("0.00"), None, D("-0.05"), D("0.99")], pa.decimal128(10, 2)),
        "s": pa.array([{"x": "sx"}, {"x": ""}, None, {"x": "x,y:z"}, {"x": "q"}], pa.struct([("x", pa.string())])),
    }
)


def properties(case: dict[str, Any]) -> dict[str, str]:
    found = {
        "hoodie.table.recordkey.fields": case["keys"],
        "hoodie.table.partition.fields": case["parts"],
        "hoodie.table.keygenerator.class": f"org.apache.hudi.keygen.{case['gen']}KeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": case["hive"] or "false",
        "hoodie.datasource.write.partitionpath.urlencode": case["enc"] or "false",
    }
    if "tstype" in case:
        found |= {
            "hoodie.keygen.timebased.timestamp.type": case["tstype"],
            "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd HH",
            "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
            "hoodie.keygen.timebased.timezone": "UTC",
            "hoodie.keygen.timebased.timestamp.scalar.time.unit": "MICROSECONDS",
        }
    return found


def all_cases() -> list[Any]:
    return [
        pytest.param(version, case, id=f"{version}-{case['gen']}-{case['keys']}-{case['parts']}-{n}")
        for version, cases in CASES.items()
        for n, case in enumerate(cases)
    ]


@pytest.mark.parametrize(("version", "case"), all_cases())
def test_keys_are_hudis(version: str, case: dict[str, Any]) -> None:
    # one-field complex keys: 0.15.0 writes the bare value, 1.2.0 the field's name before it
    spec = KeySpec.from_properties(properties(case), complex_new_encoding=version == "15")
    keyed = KeyGenerator(spec).keys_of(ROWS.slice(case["row"], 1))
    if "error" in case:
        assert keyed.bad_rows == 1
        assert keyed.record_key.to_pylist() == [None]
        return
    assert keyed.problem.to_pylist() == [None]
    assert keyed.record_key.to_pylist() == [case["key"]]
    assert keyed.partition_path.to_pylist() == [case["partition"]]


@pytest.mark.parametrize("version", ["12", "15"])
def test_no_vector_got_lost(version: str) -> None:
    assert len(CASES[version]) == 97


def test_rows_are_those_of_the_recipe() -> None:
    assert ROWS["dt"].to_pylist()[0] == dt.date(2020, 1, 1)
    assert ROWS.num_rows == 5
