"""Of two staged columns that hold the same, one is stored; who reads a chunk does not see which."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.run.chunks import StagedRows, chunk_columns, chunk_keys, chunks_of
from lakeindex.run.spec import run_folder
from lakeindex.tasks.memory_bound import BoundedCache
from tests.builders import Row, batch_of, make_table
from tests.unit.stages.test_split_order import staged

KEY, PARTITION = "_li_key", "_li_partition"


def names_in(table: LakeTable) -> set[str]:
    (file,) = Path(f"{table.uri}.lakeindex").glob("*/stage_input/*/staged/*.parquet")
    return set(pq.read_schema(file).names)


@pytest.mark.parametrize(
    ("row", "options", "stored"),
    [
        (Row("a", "x", 1, "v"), {}, set()),
        (Row("a", "a/b", 1, "v"), {"hoodie__datasource__write__partitionpath__urlencode": "true"}, {PARTITION}),
        (Row("a", "x", 1, "v"), {"hoodie__datasource__write__hive_style_partitioning": "true"}, {PARTITION}),
        (Row("a", "", 1, "v"), {}, {PARTITION}),
        (Row("a", "x", 1, "v"), {"keys": ("id", "ts")}, {KEY}),
        (Row("a", "x", 1, "v"), {"keys": ("ts",)}, {KEY}),
        (Row("a", "x", 1, "v"), {"partitions": ()}, {PARTITION}),
        (
            Row("a", "x", 1, "v"),
            {"partitions": ("day", "v"), "hoodie__write__complex__keygen__new__encoding": "false"},
            {KEY, PARTITION},
        ),  # and its key has the field's name in it
    ],
)
def test_what_is_the_same_is_stored_once(tmp_path: Path, row: Row, options: dict[str, str], stored: set[str]):
    table = make_table(tmp_path / "t", **options)
    table.upsert(batch_of([row]))
    assert names_in(table) & {KEY, PARTITION} == stored
    assert [(r["id"], r["day"], r["v"]) for r in content_rows(table)] == [(row.id, row.day, row.v)]


def content_rows(table: LakeTable) -> list[dict[str, object]]:
    return table.read(meta=True).to_pylist()


def test_chunks_of_files_that_store_other_columns_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "in"
    folder.mkdir()
    table = make_table(tmp_path / "t")
    for number, day in enumerate(["", "x"]):  # the first stands in the default partition
        pq.write_table(batch_of([Row(f"k{number}{n}", day, n, "v") for n in range(3)]), folder / f"{number}.parquet")
    monkeypatch.setattr("lakeindex.stages.stage_input.stage._LEAST_BYTES", 1)
    manifest, spec = staged(table, folder)
    parts = [
        set(pq.read_schema(pa.BufferReader(run_folder(spec).read_bytes(p))).names) for p in manifest.parts("staged")
    ]
    assert sorted(PARTITION in names for names in parts) == [False, True]
    run = run_folder(spec)
    found = chunks_of(run, manifest)
    monkeypatch.setattr("lakeindex.run.chunks._decoded", BoundedCache(0))  # what was just staged is remembered
    keys = [chunk_keys(run, chunk).to_pylist() for chunk in found]
    assert keys == [["k00", "k01", "k02"], ["k10", "k11", "k12"]]
    rows = [chunk_columns(run, chunk, None) for chunk in found]
    assert rows[0].schema.equals(rows[1].schema, check_metadata=True)
    assert rows[0].column_names == [PARTITION, KEY, "_li_op", "id", "day", "ts", "v"]
    assert [r.column(PARTITION).to_pylist()[0] for r in rows] == ["__HIVE_DEFAULT_PARTITION__", "x"]
    everywhere = StagedRows(
        run, {c.number: c for c in found}, pa.array([0, 1, 0]).to_numpy(), pa.array([1, 0, 2]).to_numpy(), rows[0]
    )
    assert everywhere.column("id").to_pylist() == ["k01", "k10", "k02"]
