"""The same batch into two copies of a table, once by us and once by Hudi: both must merge to the same rows.

The table is created by us, and Hudi is told nothing about merging: what ``lakeindex create`` records has to do.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.interop import ours
from tests.interop.hudi_client import HudiServer, keep_options
from tests.interop.rows import SIMPLE

pytestmark = pytest.mark.interop

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("val", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
_STORED_TS = 100


def _row(key: str, ts: int, val: str, *, deleted: bool = False) -> dict[str, Any]:
    return {"id": key, "region": "eu", "ts": ts, "val": val, "_hoodie_is_deleted": deleted}


_BASE = [_row(key, _STORED_TS, "stored") for key in ("late", "tie", "newer", "untouched", "twice", "twice-late")]
_BASE += [_row(key, _STORED_TS, "stored") for key in ("gone", "gone-tie", "gone-late", "back", "last-gone")]
_BATCH = [
    _row("late", 99, "incoming"),
    _row("tie", 100, "incoming"),
    _row("newer", 101, "incoming"),
    _row("new", 1, "incoming"),
    # two versions of a key in one batch: the greater ordering value is the batch's word
    _row("twice", 101, "incoming 101"),
    _row("twice", 102, "incoming 102"),
    _row("twice-late", 97, "incoming 97"),
    _row("twice-late", 98, "incoming 98"),
    _row("gone", 101, "deleted", deleted=True),
    _row("gone-tie", 100, "deleted", deleted=True),
    _row("gone-late", 99, "deleted", deleted=True),
    _row("never-there", 101, "deleted", deleted=True),
    _row("back", 101, "deleted", deleted=True),
    _row("back", 102, "incoming"),
    _row("last-gone", 101, "incoming"),
    _row("last-gone", 102, "deleted", deleted=True),
]

# With commit-time ordering, Hudi 1.2 takes the batch's last row of a key, 0.15 and we the one with the greatest ordering
# value: only where both are the same row can all three agree. With event-time ordering there is one answer.
_BACKWARDS = [_row("backwards", 105, "incoming 105"), _row("backwards", 104, "incoming 104")]

Rows = dict[str, tuple[int, str]]


def _rows(table: pa.Table) -> Rows:
    keys = table["id"].to_pylist()
    assert len(set(keys)) == len(keys), f"doubled keys in {sorted(keys)}"
    return dict(zip(keys, zip(table["ts"].to_pylist(), table["val"].to_pylist(), strict=True), strict=True))


def _create(path: Path, mode: str) -> None:
    like = path.with_name("like.parquet")
    pq.write_table(_SCHEMA.empty_table(), like)
    keys = ("--key", "id", "--partition", "region", "--ordering", "ts")
    answer = ours.command("create", path, "--like", like, *keys, "-o", f"hoodie.write.record.merge.mode={mode}")
    assert answer.code == 0, answer.text


@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_we_and_hudi_merge_alike(hudi: HudiServer, mode: str, folder: Path) -> None:
    options = {**keep_options(hudi.version), **SIMPLE.hudi_options()}

    def by_us(path: Path, batch: pa.Table) -> None:
        ours.upsert(path, batch)

    def by_hudi(path: Path, batch: pa.Table) -> None:
        hudi.write(path, batch, {**options, "hoodie.datasource.write.operation": "upsert"})

    writers: dict[str, Callable[[Path, pa.Table], None]] = {"us": by_us, "Hudi": by_hudi}
    path = folder / SIMPLE.name
    _create(path, mode)
    ours.upsert(path, pa.Table.from_pylist(_BASE, _SCHEMA))
    event_time = mode == "EVENT_TIME_ORDERING"
    batch = pa.Table.from_pylist(_BATCH + (_BACKWARDS if event_time else []), _SCHEMA)
    merged: dict[str, Rows] = {}
    for name, write in writers.items():
        copy = folder / name / SIMPLE.name
        shutil.copytree(path, copy)
        write(copy, batch)
        merged[name] = _rows(hudi.read(copy))
        assert merged[name] == _rows(ours.read(copy))
    assert merged["us"] == merged["Hudi"]
    assert merged["us"]["late"] == ((100, "stored") if event_time else (99, "incoming"))
    assert merged["us"]["tie"] == (100, "incoming")
    assert merged["us"]["twice"] == (102, "incoming 102")
    assert ("gone-late" in merged["us"]) == event_time
    assert merged["us"]["back"] == (102, "incoming")


def test_late_rows_lose_whoever_wrote_the_stored_one(hudi: HudiServer, folder: Path) -> None:
    """Turns in event time: each side's late rows lose against what the other side stored."""
    options = {**keep_options(hudi.version), **SIMPLE.hudi_options(), "hoodie.datasource.write.operation": "upsert"}
    path = folder / SIMPLE.name
    _create(path, "EVENT_TIME_ORDERING")

    def batch(ts: int, val: str) -> pa.Table:
        return pa.Table.from_pylist([_row(f"k{n}", ts + n % 2, val) for n in range(10)], _SCHEMA)

    assert ours.upsert(path, batch(10, "ours at 10")).inserts == 10
    hudi.write(path, batch(9, "Hudi at 9"), options)
    assert _rows(hudi.read(path)) == {f"k{n}": (10 + n % 2, "ours at 10") for n in range(10)}
    hudi.write(path, batch(20, "Hudi at 20"), options)
    late = ours.upsert(path, batch(15, "ours at 15"))
    assert (late.updates, late.ignored, late.instant) == (0, 10, None)
    assert _rows(ours.read(path)) == {f"k{n}": (20 + n % 2, "Hudi at 20") for n in range(10)}
