"""Rows of a Spark DataFrame are written by tasks, and Spark may do a task twice: at once, or because it took it for lost."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakeindex.runners.spark import _write_piece
from lakeindex.storage import current_options


def test_two_tries_of_one_task_replace_nothing_of_each_other(tmp_path: Path) -> None:
    """Behind a shuffle each try has the rows in an order of its own, and cuts them into files at other places."""

    def tried(*values: int) -> list[str]:
        batches = iter([pa.record_batch({"v": [value]}) for value in values])
        (done,) = _write_piece(str(tmp_path), "run/input", current_options(), batches)
        return list(done.column("path").to_pylist())

    def read(paths: list[str]) -> list[int]:
        return [v for path in paths for v in pa.ipc.open_file(tmp_path / path).read_all().column("v").to_pylist()]

    first = tried(1, 2)
    second = tried(2, 1)
    assert not set(first) & set(second)
    assert (read(first), read(second)) == ([1, 2], [2, 1])
    assert all(path.startswith("run/input/00000-") for path in (*first, *second))  # sorted, they are in order
