"""Bases of 20 days with two files each, and batches that touch many of them: the workloads ``*_mono`` and ``*_uuid``,
those with other rows or other batches, as ``wide``, ``all`` or ``deletes``, and ``parts`` with many days.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.rows import FIRST_TS, Ints, day, growing_keys, random_keys, repeat, write
from benchmarks.shapes import SHAPES

UPSERT: Final = "upsert"
DELETE: Final = "delete"


@dataclass(frozen=True)
class Spread:
    """One such workload.

    Attributes:
        base_rows: rows of the base, all files alike.
        batch_rows: rows of the batch.
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


def generate(folder: Path, wanted: Spread) -> dict[str, object]:
    """Write base, batch and owners; what ``workload.json`` says of them."""
    base_rows, batch_rows, keys, table_of = wanted.base_rows, wanted.batch_rows, wanted.keys, SHAPES[wanted.shape]
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

    sum_ts = sum_n1 = 0
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
        table = table_of(rng, ids, repeat(day(number), per_partition), ts)
        for part in range(files):
            write(table.slice(part * per_file, per_file), folder / "base" / f"p{number:0{digits}d}-{part}.parquet")
        rows = picked[number]
        n1 = table["n1"].to_numpy()
        sum_ts += int(ts.sum()) - int(ts[rows].sum())
        sum_n1 += int(n1.sum()) - int(n1[rows].sum())
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
    ts = FIRST_TS + base_rows * 10 + batch_rng.integers(0, 1000, batch_rows)
    order = batch_rng.permutation(batch_rows)
    batch = table_of(batch_rng, pa.concat_arrays([*updated, new_ids]), pa.array(days), ts).take(pa.array(order))
    write(batch, folder / "batch.parquet")
    owner = np.concatenate([*owners, np.full(inserts, -1, np.int64)])[order]
    np.save(folder / "owners.npy", owner)
    is_delete = wanted.operation == DELETE
    rows_after = base_rows - updates if is_delete else base_rows + inserts
    return {
        "operation": wanted.operation,
        "base_rows": base_rows,
        "batch_rows": batch_rows,
        "touched_files": len(np.unique(owner[owner >= 0])),
        "truth": {
            "count": rows_after,
            "distinct": rows_after,
            "sum_ts": sum_ts + (0 if is_delete else int(ts.sum())),
            "sum_n1": sum_n1 + (0 if is_delete else int(pc.sum(batch["n1"]).as_py())),
        },
    }
