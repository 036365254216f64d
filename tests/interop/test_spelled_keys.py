"""Keys that Hudi's operations spell differently: both sides write one table in turns, and no row is stored twice."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import TableCorruptError
from tests.interop.hudi_client import HudiServer, keep_options

pytestmark = pytest.mark.interop

_TEXTS = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
_OURS = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}


def _rows(version: int, *hours: int) -> pa.Table:
    at = [dt.datetime(2016, 12, 29, hour, 54, 0, 123_456, tzinfo=dt.UTC) for hour in hours]
    return pa.table(
        {
            "ts": pa.array(at, pa.timestamp("us", "UTC")),
            "id": [f"k{hour}" for hour in hours],
            "city": ["rome" if hour % 2 else "oslo" for hour in hours],
            "v": pa.array([version] * len(hours), pa.int64()),
        }
    )


def _options(hudi: HudiServer, operation: str, **more: str) -> dict[str, str]:
    return keep_options(hudi.version, hudi.table_version) | {
        "hoodie.table.name": "keys",
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.recordkey.field": "ts,id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "v",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        **more,
    }


def _stored(table: pa.Table) -> list[tuple[str, int]]:
    return sorted(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


def test_timestamps_of_the_row_writer(hudi: HudiServer, folder: Path) -> None:
    path = folder / "keys"
    hudi.write(path, _rows(1, 8, 9, 10), _options(hudi, "bulk_insert"), mode="overwrite")
    table = LakeTable(str(path))
    table.upsert(_rows(2, 9, 10, 11), options=_OURS)
    hudi.write(path, _rows(3, 10, 11, 12), _options(hudi, "upsert", **{_TEXTS: "true"}))
    table.upsert(_rows(4, 12, 13))
    wanted = [("k10", 3), ("k11", 3), ("k12", 4), ("k13", 4), ("k8", 1), ("k9", 2)]
    assert _stored(hudi.read(path)) == wanted
    assert _stored(table.read(meta=False)) == wanted
    assert table.check().violations == ()
    hudi.write(path, _rows(5, 14), _options(hudi, "upsert"))  # without the option: a number beside texts
    with pytest.raises(TableCorruptError, match="ts:2016-12-29 14:54:00"):
        table.upsert(_rows(6, 14))
