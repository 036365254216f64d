"""Bases and batches of the workloads.

A :class:`Spread` has days of a few files each, and batches that touch many of them. A :class:`Tail` grew day by day,
one file a day, and its batches go to the newest rows. A file of a tail is a function of its number and its rows alone:
a base of 5 files is the beginning of one of 20, and all of them share their files on disk (hard links).
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

from benchmarks.rows import DAYS, FIRST_TS, Ints, day, growing_keys, random_keys, repeat, table_of, write
from benchmarks.shapes import SHAPES, Shape

UPSERT: Final = "upsert"
DELETE: Final = "delete"
_TAIL_SEED: Final = 33


@dataclass(frozen=True)
class Spread:
    """One such workload.

    Attributes:
        base_rows: rows of the base, all files alike.
        keys: ``mono``, which grow with time, or ``uuid``.
        shape: of the rows, of ``SHAPES``.
        updates: part of the batch whose keys are stored; as many rows as the base: every row is updated.
        operation: what is done with the batch; of a deletion every key is stored.
        partitions: days of the base.
        files_per_partition: files of each.
        evenly: every partition has as many updates as any other, as far as their number can be divided.
    """

    base_rows: int
    batch_rows: int
    keys: str = "mono"
    shape: str = "order"
    updates: float = 0.8
    operation: str = UPSERT
    partitions: int = 20
    files_per_partition: int = 2
    evenly: bool = False


def updated_partitions(rng: np.random.Generator, updates: int, wanted: Spread) -> Ints:
    """Numbers of the partitions that a batch updates, one for each update."""
    if wanted.evenly:
        return np.arange(updates) % wanted.partitions
    if wanted.keys == "uuid":
        return rng.integers(0, wanted.partitions, updates)
    newest = rng.integers(wanted.partitions - 2, wanted.partitions, updates)
    before = rng.integers(wanted.partitions - 6, wanted.partitions - 2, updates)
    return np.where(rng.random(updates) < 0.8, newest, before)


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


class _Sums:
    """Sums of ts and n1 over the rows that a batch leaves alone."""

    def __init__(self) -> None:
        self.ts = self.n1 = 0

    def add(self, ts: Ints, n1: Ints, updated: Ints) -> None:
        self.ts += int(ts.sum()) - int(ts[updated].sum())
        self.n1 += int(n1.sum()) - int(n1[updated].sum())


@dataclass(frozen=True)
class _Batch:
    """Rows of a batch, updates first: their keys and days, and the base file that holds each, -1 for a new key."""

    keys: pa.Array
    days: pa.Array
    owner: Ints
    operation: str = UPSERT
    shape: Shape = table_of

    def write(self, folder: Path, rng: np.random.Generator, base_rows: int, left: _Sums) -> dict[str, object]:
        """Write it, shuffled, and the owners; what ``workload.json`` says."""
        rows = len(self.owner)
        ts = FIRST_TS + base_rows * 10 + rng.integers(0, 1000, rows)
        order = rng.permutation(rows)
        batch = self.shape(rng, self.keys, self.days, ts).take(pa.array(order))
        write(batch, folder / "batch.parquet")
        np.save(folder / "owners.npy", self.owner[order])
        updates = int((self.owner >= 0).sum())
        is_delete = self.operation == DELETE
        rows_after = base_rows - updates if is_delete else base_rows + rows - updates
        return {
            "operation": self.operation,
            "base_rows": base_rows,
            "batch_rows": rows,
            "touched_files": len(np.unique(self.owner[self.owner >= 0])),
            "truth": {
                "count": rows_after,
                "distinct": rows_after,
                "sum_ts": left.ts + (0 if is_delete else int(ts.sum())),
                "sum_n1": left.n1 + (0 if is_delete else int(pc.sum(batch["n1"]).as_py())),
            },
        }


def spread(folder: Path, wanted: Spread) -> dict[str, object]:
    """Write base, batch and owners; what ``workload.json`` says of them."""
    base_rows, batch_rows, keys, shape = wanted.base_rows, wanted.batch_rows, wanted.keys, SHAPES[wanted.shape]
    (folder / "base").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng({"mono": 11, "uuid": 22}[keys] + base_rows)
    batch_rng = np.random.default_rng(99 + base_rows + batch_rows)
    partitions, files = wanted.partitions, wanted.files_per_partition
    per_partition = base_rows // partitions
    per_file = per_partition // files
    digits = len(str(partitions - 1))
    updates = round(batch_rows * wanted.updates)
    if updates == base_rows:
        counts = np.full(partitions, per_partition)
    else:
        counts = np.bincount(updated_partitions(batch_rng, updates, wanted), minlength=partitions)
    picked = [np.sort(batch_rng.choice(per_partition, count, replace=False)) for count in counts]

    left = _Sums()
    updated: list[pa.Array] = []
    owners: list[Ints] = []
    days: list[str] = []
    for number in range(partitions):
        sequence = np.arange(number * per_partition, (number + 1) * per_partition, dtype=np.int64)
        if keys == "mono":
            ids, ts = growing_keys(sequence), FIRST_TS + sequence * 10
        else:
            ids = random_keys(rng, per_partition)
            ids, ts = ids.take(pc.sort_indices(ids)), FIRST_TS + rng.integers(0, base_rows * 10, per_partition)
        table = shape(rng, ids, repeat(day(number), per_partition), ts)
        for part in range(files):
            write(table.slice(part * per_file, per_file), folder / "base" / f"p{number:0{digits}d}-{part}.parquet")
        rows = picked[number]
        left.add(ts, table["n1"].to_numpy(), rows)
        updated.append(ids.take(pa.array(rows)))
        owners.append(number * files + rows // per_file)
        days += [day(number)] * len(rows)

    inserts = batch_rows - updates
    if keys == "mono":
        new_ids = growing_keys(np.arange(base_rows, base_rows + inserts, dtype=np.int64))
        days += [day(partitions - 1)] * inserts
    else:
        new_ids = random_keys(batch_rng, inserts)
        days += [day(number) for number in batch_rng.integers(0, partitions, inserts)]
    owner = np.concatenate([*owners, np.full(inserts, -1, np.int64)])
    batch = _Batch(pa.concat_arrays([*updated, new_ids]), pa.array(days), owner, wanted.operation, shape)
    return batch.write(folder, batch_rng, base_rows, left)


def _base_file(shared: Path, number: int, rows: int) -> Path:
    path = shared / f"p{number:02d}-0.parquet"
    if not path.exists():
        sequence = np.arange(number * rows, (number + 1) * rows, dtype=np.int64)
        rng = np.random.default_rng((_TAIL_SEED, rows, number))
        table = table_of(rng, growing_keys(sequence), repeat(DAYS[number], rows), FIRST_TS + sequence * 10)
        arriving = path.with_suffix(".arriving")
        write(table, arriving)
        arriving.replace(path)
    return path


def tail(folder: Path, wanted: Tail) -> dict[str, object]:
    """Write base (a file at a time), batch and owners; what ``workload.json`` says of them."""
    base = folder / "base"
    base.mkdir(parents=True, exist_ok=True)
    shared = folder.parent / f"days_of_{wanted.rows_per_file}"
    shared.mkdir(exist_ok=True)
    base_rows = wanted.files * wanted.rows_per_file
    updates = wanted.batch * 4 // 5
    rng = np.random.default_rng((_TAIL_SEED, base_rows, wanted.batch))
    picked = np.sort(rng.choice(wanted.newest, updates, replace=False)) + base_rows - wanted.newest

    left = _Sums()
    for number in range(wanted.files):
        source = _base_file(shared, number, wanted.rows_per_file)
        linked = base / source.name
        linked.unlink(missing_ok=True)
        os.link(source, linked)
        values = pq.read_table(source, columns=["ts", "n1"])
        rows = picked[picked // wanted.rows_per_file == number] % wanted.rows_per_file
        left.add(values["ts"].to_numpy(), values["n1"].to_numpy(), rows)

    inserts = wanted.batch - updates
    numbers = np.concatenate([picked, np.arange(base_rows, base_rows + inserts, dtype=np.int64)])
    owner = np.where(numbers < base_rows, numbers // wanted.rows_per_file, -1)
    days = pa.array(DAYS[: wanted.files]).take(pa.array(np.where(owner < 0, wanted.files - 1, owner)))
    return _Batch(growing_keys(numbers), days, owner).write(folder, rng, base_rows, left)
