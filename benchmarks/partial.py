"""Partial updates beside whole upserts: ``python -m benchmarks.partial FOLDER``.

Makes a table of ``--rows`` rows and ``--columns`` columns in FOLDER, unless one is there. In turns, on fresh copies of
it, a batch with all columns of all rows is upserted, and a batch with ``--given`` of them. Both are Arrow tables in
memory. Prints the seconds of each, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import lakeindex
from tests.builders import make_table


def batch_of(rows: int, columns: int, version: int) -> pa.Table:
    """All columns of all rows: key, partition, ordering field, then floats, ints and texts in turn."""
    numbers = np.arange(rows)
    made = {
        "id": pa.array([f"k{n:08d}" for n in numbers]),
        "day": pa.array(["d0"] * rows),
        "ts": pa.array(np.full(rows, version)),
    }
    for n in range(columns):
        values = (numbers * (n + 7919) + version) % 10_007
        made[f"c{n:03d}"] = (
            pa.array(values / 7)
            if n % 3 == 0
            else pa.array(values)
            if n % 3 == 1
            else pa.array(values).cast(pa.string())
        )
    return pa.table(made)


def seconds_of(base: Path, copy: Path, batch: pa.Table, *, partial: bool) -> float:
    """How long an upsert into a fresh copy takes."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(base, copy)
    started = time.perf_counter()
    done = lakeindex.open_table(copy).upsert(batch, partial=partial)
    seconds = time.perf_counter() - started
    assert done.updates == batch.num_rows
    return seconds


def main() -> None:
    """Make the table, and update it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--given", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    base, copy = asked.folder / "table", asked.folder / "copy"
    if not base.exists():
        first = batch_of(asked.rows, asked.columns, 1)
        make_table(base, schema=first.schema)
        lakeindex.open_table(base).upsert(first)
    whole = batch_of(asked.rows, asked.columns, 2)
    few = whole.select(whole.column_names[: 3 + asked.given])
    took: dict[bool, list[float]] = {True: [], False: []}
    seconds_of(base, copy, few, partial=True)  # what is compiled is compiled
    for _ in range(asked.runs):
        for partial, batch in ((False, whole), (True, few)):
            took[partial].append(seconds_of(base, copy, batch, partial=partial))
    for partial, name in ((False, "all columns"), (True, f"{asked.given} columns")):
        print(f"{name}: {', '.join(f'{one:.2f}' for one in took[partial])} s")
    print(f"ratio of the medians: {median(took[True]) / median(took[False]):.2f}")


if __name__ == "__main__":
    main()
