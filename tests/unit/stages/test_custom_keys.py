"""A custom key generator with a time in the partition path: created and written to, by several batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.builders import make_table, rows_of

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("region", pa.string()),
        ("at", pa.int64()),
        ("ts", pa.int64()),
        ("v", pa.string()),
    ]
)
NOON = 1_767_268_800_000  # 2026-01-01 12:00:00 UTC, in milliseconds
OPTIONS = {
    "hoodie__table__keygenerator__type": "CUSTOM",
    "hoodie__keygen__timebased__timestamp__type": "EPOCHMILLISECONDS",
    "hoodie__keygen__timebased__output__dateformat": "yyyy-MM-dd",
}


def batch(rows: list[tuple[str, str, int, int, str]]) -> pa.Table:
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


@pytest.mark.parametrize(
    "fields", [("region:SIMPLE", "at:TIMESTAMP"), ("at:TIMESTAMP",), ("at:TIMESTAMP", "region:SIMPLE")]
)
def test_what_is_created_can_be_written_to(tmp_path: Path, fields: tuple[str, ...]) -> None:
    """``create`` accepted it, and every upsert was refused."""
    table = make_table(tmp_path / "t", schema=SCHEMA, partitions=fields, **OPTIONS)
    table.upsert(batch([("a", "eu", NOON, 1, "1"), ("b", "us", NOON + 86_400_000, 1, "1")]), batch_id="first")
    done = table.upsert(batch([("a", "eu", NOON, 2, "2"), ("c", "eu", NOON, 2, "2")]), batch_id="second")
    assert (done.updates, done.inserts) == (1, 1)
    paths = {row["id"]: row["_hoodie_partition_path"] for row in rows_of(table)}
    parts = {"region:SIMPLE": {"a": "eu", "b": "us", "c": "eu"}, "at:TIMESTAMP": dict.fromkeys("ac", "2026-01-01")}
    parts["at:TIMESTAMP"]["b"] = "2026-01-02"
    assert paths == {key: "/".join(parts[field][key] for field in fields) for key in "abc"}
    assert table.check().ok
