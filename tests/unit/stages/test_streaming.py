"""Base files larger than the memory there is for them: made some row groups at a time, with the same rows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from lakeindex.errors import TableCorruptError
from lakeindex.stages.merge_write import stage as merge_write
from lakeindex.storage.paths import TEMPORARY_PREFIX
from lakeindex.tasks.memory_bound import MIB, memory_bound
from tests.builders import Oracle, Row, batch_of, content_of, counts_of, make_table
from tests.strategies import examples

SLOW = settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
BATCHES = st.lists(
    st.lists(
        st.builds(
            Row,
            st.integers(0, 150).map("k{:03d}".format),
            st.sampled_from(["x", "y"]),
            st.integers(0, 4),
            st.sampled_from(["v", "w"]),
            st.booleans(),
        ),
        max_size=120,
    ),
    min_size=1,
    max_size=4,
)


SMALL_GROUPS = {"lakeindex.parquet.row.group.rows": "8"}


def base_files(table: Path) -> list[Path]:
    """All slices, oldest first."""
    found = (path for path in table.rglob("*.parquet") if ".hoodie" not in path.parts)
    return sorted(found, key=lambda path: (path.stem.rpartition("_")[2], path))


def as_another_writer_would(path: Path, row_group_rows: int) -> None:
    """The same rows in row groups of its own, without a word about the keys."""
    rows = pq.read_table(path).replace_schema_metadata(None)
    pq.write_table(rows, path, row_group_size=row_group_rows, compression="gzip", store_schema=False)


@SLOW
@given(BATCHES, st.booleans(), st.sampled_from([1_000, 20_000]))
def test_rows_are_the_same_however_little_memory_there_is(batches: list[list[Row]], foreign: bool, bound: int):
    with tempfile.TemporaryDirectory() as folder:
        table, oracle = make_table(f"{folder}/t"), Oracle()
        for rows in batches:
            with memory_bound(bound):
                assert counts_of(table.upsert(batch_of(rows), options=SMALL_GROUPS)) == oracle.apply(rows)
            assert content_of(table) == oracle.content()
            if foreign:
                for path in base_files(Path(folder) / "t"):
                    as_another_writer_would(path, 50)


@pytest.mark.few(0)
def test_a_file_that_breaks_off_is_named_and_nothing_is_written(tmp_path: Path):
    table = make_table(tmp_path / "t")
    numbers = range(2_000)
    table.upsert(batch_of([Row(f"k{n:05d}", "x", 1, f"{n * 7919:020d}") for n in numbers]), options=SMALL_GROUPS)
    (file,) = base_files(tmp_path / "t")
    metadata = pq.read_metadata(file)
    column = metadata.row_group(200).column(metadata.schema.names.index("v"))
    data = bytearray(file.read_bytes())
    data[column.data_page_offset : column.data_page_offset + column.total_compressed_size] = (
        b"\xff" * column.total_compressed_size
    )
    file.write_bytes(data)
    with memory_bound(20_000), pytest.raises(TableCorruptError, match="cannot be read") as caught:
        table.upsert(batch_of([Row(f"k{n:05d}", "x", 2, "new") for n in numbers]))
    assert str(file).endswith(str(caught.value.culprit))
    assert base_files(tmp_path / "t") == [file]
    assert not [path for path in file.parent.iterdir() if path.name.startswith(TEMPORARY_PREFIX)]


@pytest.mark.few(0)
def test_what_is_written_under_a_name_depends_on_nothing_that_a_retry_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
):
    """Row groups are cut by the memory there is: with another bound, a task of the dead run would write other bytes."""
    table, oracle = make_table(tmp_path / "t"), Oracle()
    first = [Row(f"k{n:05d}", "x", 1, f"{n * 7919:020d}") for n in range(2_000)]
    second = [Row(f"k{n:05d}", "x", 2, "new") for n in range(0, 3_000, 3)]
    for rows in (first, second):
        oracle.apply(rows)
    table.upsert(batch_of(first))
    as_another_writer_would(base_files(tmp_path / "t")[0], 500)

    def upsert() -> None:
        table.upsert(
            batch_of(second), batch_id="b", run_id="b", checkpoints=str(tmp_path / "runs"), options=SMALL_GROUPS
        )

    def dies(*_: object) -> str:
        raise KeyboardInterrupt

    with memory_bound(20_000), monkeypatch.context() as patched:
        patched.setattr(merge_write.MergeAttempt, "_publish", dies)
        with pytest.raises(KeyboardInterrupt):
            upsert()
    _, left = base_files(tmp_path / "t")
    data = left.read_bytes()
    dead = shutil.copytree(tmp_path, tmp_path_factory.mktemp("dead") / "all")
    for bound in (20_000, 30_000, None):
        shutil.rmtree(tmp_path)
        shutil.copytree(dead, tmp_path)
        with memory_bound(bound):
            upsert()
        newest = base_files(tmp_path / "t")[-1]
        assert (newest == left) is (bound == 20_000), bound
        assert (newest.read_bytes() == data) is (bound == 20_000), bound
        assert content_of(table) == oracle.content(), bound


CHILD = r"""
import json, re, sys
from pathlib import Path
import pyarrow as pa
from lakeindex.api.table import LakeTable
summary = LakeTable(sys.argv[1]).upsert(sys.argv[2], options=json.loads(sys.argv[3]))
peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps({"arrow": pa.default_memory_pool().max_memory(), "peak": peak, "updates": summary.updates,
                  "inserts": summary.inserts}))
"""


def orders(numbers: np.ndarray, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    texts = [pa.array(rng.integers(0, 2**62, len(numbers))).cast(pa.string()) for _ in range(8)]
    return pa.table(
        {
            "id": [f"key-{n:09d}" for n in numbers],
            "day": ["x"] * len(numbers),
            "ts": pa.array(numbers),
            "v": pc.binary_join_element_wise(*texts, "-"),
        }
    )


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize("kind", ["ours", pytest.param("foreign", marks=pytest.mark.slow)])
def test_a_file_several_times_the_bound_is_rewritten_in_parts(tmp_path: Path, kind: str):
    rows = 400_000
    table: LakeTable = make_table(tmp_path / "t")
    table.upsert(orders(np.arange(rows), 1))
    (file,) = base_files(tmp_path / "t")
    if kind == "foreign":
        as_another_writer_would(file, rows)
    assert file.stat().st_size > 30 * MIB
    batch = orders(np.r_[np.arange(0, rows, 1000), np.arange(rows, rows + 2_000)], 2)
    pq.write_table(batch, tmp_path / "b.parquet")
    options = {"lakeindex.memory": "64m", "lakeindex.parallelism": "2"}
    arguments = [sys.executable, "-c", CHILD, str(tmp_path / "t"), str(tmp_path / "b.parquet"), json.dumps(options)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=240)
    found = json.loads(done.stdout)
    assert (found["updates"], found["inserts"]) == (400, 2_000)
    assert found["arrow"] < 64 * MIB, f"{found['arrow'] / MIB:.0f} MiB"
    assert pq.read_metadata(base_files(tmp_path / "t")[-1]).num_rows == rows + 2_000
