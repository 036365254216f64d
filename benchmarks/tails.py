"""Bases that grew day by day, one file a day, and batches that go to the newest rows: the workloads of a feed's tail.

A file is a function of its number and its rows alone. So a base of 5 files is the beginning of one of 20,
and all of them share their files on disk (hard links).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.rows import DAYS, FIRST_TS, growing_keys, repeat, table_of, write

_SEED: Final = 33


@dataclass(frozen=True)
class Tail:
    """One such workload.

    Attributes:
        files: files, and days, of the base.
        rows_per_file: rows of each.
        batch: rows of the batch, four fifths of them updates.
        newest: how many of the newest rows the updates are drawn from.
    """

    files: int
    rows_per_file: int
    batch: int
    newest: int


def _base_file(shared: Path, number: int, rows: int) -> Path:
    path = shared / f"p{number:02d}-0.parquet"
    if not path.exists():
        sequence = np.arange(number * rows, (number + 1) * rows, dtype=np.int64)
        rng = np.random.default_rng((_SEED, rows, number))
        table = table_of(rng, growing_keys(sequence), repeat(DAYS[number], rows), FIRST_TS + sequence * 10)
        arriving = path.with_suffix(".arriving")
        write(table, arriving)
        arriving.replace(path)
    return path


def generate(folder: Path, tail: Tail) -> dict[str, object]:
    """Write base (a file at a time), batch and owners; what ``workload.json`` says of them."""
    base = folder / "base"
    base.mkdir(parents=True, exist_ok=True)
    shared = folder.parent / f"days_of_{tail.rows_per_file}"
    shared.mkdir(exist_ok=True)
    base_rows = tail.files * tail.rows_per_file
    updates = tail.batch * 4 // 5
    rng = np.random.default_rng((_SEED, base_rows, tail.batch))
    picked = np.sort(rng.choice(tail.newest, updates, replace=False)) + base_rows - tail.newest

    sum_ts = sum_n1 = 0
    for number in range(tail.files):
        source = _base_file(shared, number, tail.rows_per_file)
        linked = base / source.name
        linked.unlink(missing_ok=True)
        os.link(source, linked)
        values = pq.read_table(source, columns=["ts", "n1"])
        ts, n1 = values["ts"].to_numpy(), values["n1"].to_numpy()
        rows = picked[picked // tail.rows_per_file == number] % tail.rows_per_file
        sum_ts += int(ts.sum()) - int(ts[rows].sum())
        sum_n1 += int(n1.sum()) - int(n1[rows].sum())

    inserts = tail.batch - updates
    numbers = np.concatenate([picked, np.arange(base_rows, base_rows + inserts, dtype=np.int64)])
    owner = np.where(numbers < base_rows, numbers // tail.rows_per_file, -1)
    days = pa.array(DAYS[: tail.files]).take(pa.array(np.where(owner < 0, tail.files - 1, owner)))
    ts = FIRST_TS + base_rows * 10 + rng.integers(0, 1000, tail.batch)
    order = rng.permutation(tail.batch)
    batch = table_of(rng, growing_keys(numbers), days, ts).take(pa.array(order))
    write(batch, folder / "batch.parquet")
    np.save(folder / "owners.npy", owner[order])
    return {
        "base_rows": base_rows,
        "batch_rows": tail.batch,
        "touched_files": len(np.unique(owner[owner >= 0])),
        "truth": {
            "count": base_rows + inserts,
            "distinct": base_rows + inserts,
            "sum_ts": sum_ts + int(ts.sum()),
            "sum_n1": sum_n1 + int(pc.sum(batch["n1"]).as_py()),
        },
    }
