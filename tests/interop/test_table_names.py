"""Every name that a table of ours may have is one that Hudi reads and writes."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from lakeindex import create_table
from lakeindex.api.table import LakeTable
from tests.interop.hudi_client import HudiServer, keep_options

pytestmark = pytest.mark.interop

NAMES = ("2026_orders", "9", "7.1-b", "a.b", "_x-1")


def _rows(version: int, *keys: str) -> pa.Table:
    kind = pa.struct([("in", pa.struct([("m", pa.decimal128(5, 2))]))])
    nested = [{"in": {"m": Decimal("1.50")}}] * len(keys)
    return pa.table({"id": list(keys), "v": pa.array([version] * len(keys), pa.int64()), "s": pa.array(nested, kind)})


def test_names_of_tables(hudi: HudiServer, folder: Path) -> None:
    wrong = {}
    for name in NAMES:
        path = folder / name
        create_table(str(path), like=_rows(1, "a"), key="id", ordering="v", table_version=hudi.table_version)
        table = LakeTable(str(path))
        options = keep_options(hudi.version, hudi.table_version) | {
            "hoodie.table.name": name,
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "v",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        }
        try:
            table.upsert(_rows(1, "a", "b", "c"))
            hudi.write(path, _rows(2, "b", "d"), options)
            table.upsert(_rows(3, "c", "d"))
            found = hudi.read(path)
            stored = sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
        except Exception as error:  # noqa: BLE001 - each name is told of
            wrong[name] = str(error)[:400]
        else:
            if stored != [("a", 1), ("b", 2), ("c", 3), ("d", 3)] or not table.check().ok:
                wrong[name] = str(stored)
    assert not wrong
