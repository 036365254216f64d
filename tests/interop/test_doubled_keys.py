"""Keys that Hudi's `insert` stored more than once: a delete takes every copy as Hudi's does, and a repair is Hudi's table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import InvariantError
from tests.interop.hudi_client import HudiServer, keep_options

pytestmark = pytest.mark.interop

_FIELDS = {
    "hoodie.table.name": "doubled",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
}


def rows(keys: str, ts: int) -> pa.Table:
    return pa.table(
        {"id": list(keys), "region": ["eu"] * len(keys), "ts": [ts] * len(keys), "val": [f"v{ts}"] * len(keys)}
    )


def write(hudi: HudiServer, path: Path, data: pa.Table, operation: str, *, new_files: bool = False) -> None:
    options = {**keep_options(hudi.version, hudi.table_version), **_FIELDS}
    options |= {"hoodie.datasource.write.operation": operation}
    if new_files:
        options["hoodie.parquet.small.file.limit"] = "0"
    hudi.write(path, data, options)


def stored(hudi: HudiServer, path: Path) -> list[tuple[str, int]]:
    found = hudi.read(path)
    return sorted(zip(found.column("id").to_pylist(), found.column("ts").to_pylist(), strict=True))


def test_deletes_and_repairs_of_keys_that_hudi_has_doubled(hudi: HudiServer, folder: Path) -> None:
    """Within one file, by a batch that has them twice and by a small file that is filled, and across files."""
    theirs, mine = folder / "theirs", folder / "mine"
    write(hudi, theirs, rows("abcdd", 1), "insert")
    write(hudi, theirs, rows("aec", 2), "insert")
    write(hudi, theirs, rows("bf", 3), "insert", new_files=True)
    doubled = stored(hudi, theirs)
    assert [key for key, _ in doubled].count("d") == 2
    assert len(doubled) == 10
    shutil.copytree(theirs, mine)

    table = LakeTable(str(mine))
    says = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}  # which a table of Hudi 0.15 does not
    with pytest.raises(InvariantError, match="key 'a' is stored 2 times") as refused:
        table.upsert(rows("a", 9), options=says)
    assert "lakeindex repair keys" in str(refused.value.hint)
    gone = table.delete(rows("ad", 9))
    assert (gone.deletes, gone.copies) == (2, 2)
    assert stored(hudi, mine) == [(key, ts) for key, ts in doubled if key not in "ad"]
    assert table.delete(where="id = 'c' AND ts = 1").copies == 1  # of one copy: a delete is of the key
    left = stored(hudi, mine)
    assert left == [("b", 1), ("b", 3), ("e", 2), ("f", 3)]
    write(hudi, theirs, rows("adc", 9), "delete")
    if hudi.release < (1, 1):  # later ones leave copies that are in one file
        assert stored(hudi, theirs) == left
    else:
        assert set(stored(hudi, theirs)) > set(left)

    done = table.repair_keys(apply=True)
    assert (done.keys, done.rows_removed) == (1, 1)
    assert stored(hudi, mine) == [("b", 3), ("e", 2), ("f", 3)]
    assert not [one for one in table.check().violations if one.kind == "duplicate_key"]
    write(hudi, mine, rows("bg", 9), "upsert")
    assert table.upsert(rows("eh", 10)).fates == {"inserts": 1, "updates": 1}
    assert stored(hudi, mine) == [("b", 9), ("e", 10), ("f", 3), ("g", 9), ("h", 10)]
