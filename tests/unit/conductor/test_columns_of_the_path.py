"""An update copies the columns of the partition path from the stored row only where the path is known to say them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakeindex.api.table import LakeTable
from tests.builders import Row, as_hudis, batch_of, make_table

LEAVE = {"hoodie.bloom.index.update.partition.path": "false"}
MERGE = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}


def rows_of(table: LakeTable) -> list[tuple[str, str, str, int]]:
    """Key, folder, the column that makes its name, and version."""
    rows = table.read(meta=True).sort_by("id").to_pylist()
    return [(row["id"], row["_hoodie_partition_path"], row["day"], row["ts"]) for row in rows]


def test_under_a_global_index_the_column_is_the_batchs(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type="GLOBAL_BLOOM")
    table.upsert(batch_of(Row(one, "x", 1, "v") for one in "ab"), options=LEAVE)
    for version, day in enumerate(("y", "z", "x", "y"), 2):  # the file is ours, so that columns can be copied
        done = table.upsert(batch_of([Row("a", day, version, "w")]), options=LEAVE)
        assert done.updates == 1
        assert rows_of(table) == [("a", "x", day, version), ("b", "x", "x", 1)]
    assert table.check().ok


@pytest.mark.parametrize("stated", ["", "by an option", "by the properties"])
def test_an_index_that_was_found_copies_no_column_of_the_path(tmp_path: Path, stated: str) -> None:
    """A row lies in x and says y, as a global index of another writer leaves it; then keys are unique in a partition."""
    table = make_table(tmp_path / "t", hoodie__index__type="GLOBAL_BLOOM")
    table.upsert(batch_of(Row(one, "x", 1, "v") for one in "ab"), options=LEAVE)
    path = as_hudis(table) / ".hoodie" / ".lakeindex" / "table.json"
    table, is_stated, index = LakeTable(table.uri), bool(stated), {"hoodie.index.type": "BLOOM"}
    if stated == "by the properties":
        properties = Path(table.uri) / ".hoodie/hoodie.properties"
        properties.write_text(properties.read_text() + "hoodie.index.type=BLOOM\n")
    table.upsert(batch_of([Row("b", "x", 2, "v")]), options=MERGE | (index if stated == "by an option" else {}))
    assert json.loads(path.read_text()).get("is_stated", False) is is_stated
    copied = table.upsert(batch_of([Row("a", "x", 3, "w")])).chunks_copied
    assert rows_of(table) == [("a", "x", "x", 3), ("b", "x", "x", 2)]
    global_again = json.loads(path.read_text()) | {"index_type": "GLOBAL_BLOOM"}
    path.write_text(json.dumps(global_again))
    (path.parent / "table.copy.json").write_text(json.dumps(global_again))
    table.upsert(batch_of([Row("a", "y", 4, "w")]), options=LEAVE)
    assert rows_of(table) == [("a", "x", "y", 4), ("b", "x", "x", 2)]
    found = global_again | {"index_type": "BLOOM", "is_stated": is_stated}
    path.write_text(json.dumps(found))
    (path.parent / "table.copy.json").write_text(json.dumps(found))
    table.upsert(batch_of([Row("a", "x", 5, "w")]))
    said = "y" if is_stated else "x"  # who states the index says that rows lie where their columns say
    assert rows_of(table) == [("a", "x", said, 5), ("b", "x", "x", 2)]
    assert copied > 0
