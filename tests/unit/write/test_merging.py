"""Merging rows into a slice: against a dictionary, and what must survive of untouched rows."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.pipeline import STAGED_KEY
from lakeindex.write.merge_rows import Changes, Merge, NewSlice, merge_slices
from lakeindex.write.types.avro_schema import META_COLUMNS

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), ("v", pa.int64())])
OLD = "20260101000000000"
NEW = NewSlice("p", "20260102000000000", "f_0-0-0_20260102000000000.parquet", 7)


def old_slice(keys: list[str]):
    rows = len(keys)
    columns = [[OLD] * rows, [f"{OLD}_0_{i}" for i in range(rows)], keys, ["p"] * rows, ["old.parquet"] * rows]
    arrays = [pa.array(c, pa.string()) for c in columns] + [
        pa.array(keys, pa.string()),
        pa.array([0] * rows, pa.int64()),
    ]
    return pa.table(arrays, names=[*META_COLUMNS, "id", "v"])


def staged(keys: list[str], value: int):
    return pa.table(
        {
            STAGED_KEY: pa.array(keys, pa.string()),
            "id": pa.array(keys, pa.string()),
            "v": pa.array([value] * len(keys), pa.int64()),
        }
    )


@given(st.data())
def test_merge_slice_equals_a_dictionary(data: st.DataObject):
    stored = data.draw(st.lists(st.text("abcé中", min_size=1, max_size=3), unique=True, max_size=12))
    fates = [data.draw(st.sampled_from(["keep", "update", "delete"])) for _ in stored]
    fresh = data.draw(st.lists(st.text("xyz", min_size=1, max_size=2), unique=True, max_size=5))
    at = {fate: [i for i, f in enumerate(fates) if f == fate] for fate in ("update", "delete")}
    changes = Changes(
        staged([stored[i] for i in at["update"]], 1),
        np.array(at["update"], np.int64),
        np.array(at["delete"], np.int64),
        staged(fresh, 2),
    )
    (rows,) = merge_slices(old_slice(stored) if stored else None, [Merge(len(stored), changes, NEW)], SCHEMA)
    merged = rows.to_pylist()
    expected = {k: 1 if f == "update" else 0 for k, f in zip(stored, fates, strict=True) if f != "delete"}
    expected |= dict.fromkeys(fresh, 2)
    assert {r["_hoodie_record_key"]: r["v"] for r in merged} == expected
    assert [r["id"] for r in merged] == sorted(expected, key=str.encode)
    for row in merged:
        touched = row["v"] > 0
        assert row["_hoodie_commit_time"] == (NEW.instant if touched else OLD)
        assert row["_hoodie_commit_seqno"].startswith(f"{NEW.instant}_7_" if touched else f"{OLD}_0_")
        assert (row["_hoodie_file_name"], row["_hoodie_partition_path"]) == (NEW.file_name, "p")
    assert len({r["_hoodie_commit_seqno"] for r in merged}) == len(merged)
