"""A run in one process does not ask the store for what it has just written."""

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.scaling_store import CountingStorage
from lakeindex.run import checkpoints
from lakeindex.run.checkpoints import LARGEST_HELD, CheckpointError, RunFolder, checkpoints_held

ROWS = pa.table({"n": list(range(100))})


def test_what_was_written_is_read_without_a_request():
    folder = RunFolder(CountingStorage(), "run")
    with checkpoints_held():
        part = folder.write_table("run/rows.parquet", ROWS)
        assert folder.read_table(part).equals(ROWS)
        with ThreadPoolExecutor(1) as pool:  # as tasks run
            assert pool.submit(copy_context().run, folder.read_table, part).result().equals(ROWS)
        assert folder.store.requests == {"write": 1}
    assert folder.read_table(part).equals(ROWS)
    assert folder.store.requests == {"write": 1, "read": 1}


def test_what_was_written_is_decoded_once():
    folder, rows = RunFolder(CountingStorage(), "run"), ROWS.append_column("t", pa.array([str(n) for n in range(100)]))
    with checkpoints_held():
        part = folder.write_table("run/rows.parquet", rows)
        first = folder.read_table(part, ["t"])
        assert first.equals(rows.select(["t"]))
        assert folder.read_table(part).equals(rows)
        again = folder.read_table(part, ["t"])
        assert again.column(0).chunk(0).buffers()[1].address == first.column(0).chunk(0).buffers()[1].address


def test_what_another_run_has_written_is_read_and_checked():
    folder = RunFolder(CountingStorage(), "run")
    part = folder.write_table("run/rows.parquet", ROWS)
    with checkpoints_held():
        assert folder.read_table(part).equals(ROWS)
        folder.store.write(part.path, b"damaged")
        with pytest.raises(CheckpointError, match="is damaged"):
            folder.read_table(part)


def test_large_files_are_not_held_nor_more_than_is_said(monkeypatch: pytest.MonkeyPatch):
    folder = RunFolder(CountingStorage(), "run")
    large = pa.table({"x": np.random.default_rng(1).random(LARGEST_HELD // 8 + 1)})
    monkeypatch.setattr(checkpoints, "HELD_BYTES", 2_000)
    with checkpoints_held():
        parts = [folder.write_table("run/rows.parquet", rows) for rows in (large, ROWS, ROWS, ROWS)]
        folder.store.reset()
        for part in parts[1:]:
            folder.read_table(part)
        assert 0 < folder.store.requests["read"] < 3
        folder.read_table(parts[0])
        assert folder.store.requests["read"] > 1
