"""Deterministic workloads: a base table of orders over 20 days, and one batch to upsert into it.

``mono`` has keys that grow with time and updates in the newest six days (a feed of events); ``uuid`` has random keys
and updates everywhere (the worst case for an index by key range). Four fifths of a batch are updates, one fifth
inserts. Every file is a function of the name, and ``truth`` is what any correct upsert must leave behind.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

DATA: Final = Path(__file__).resolve().parent / "data"
PARTITIONS: Final = 20
FILES_PER_PARTITION: Final = 2
DAYS: Final = tuple(f"2026-10-{day:02d}" for day in range(1, PARTITIONS + 1))
#: rows of the base, rows of the batch
SIZES: Final[dict[str, tuple[int, int]]] = {
    "T": (20_000, 1_000),  # to try the benchmark itself
    "S": (1_000_000, 20_000),
    "M": (5_000_000, 100_000),
}
_FIRST_TS: Final = 1_790_000_000_000
_STATES: Final = ("new", "paid", "packed", "shipped", "returned")

Ints = NDArray[np.int64]
_Keys = Callable[[int], pa.Array]


@dataclass(frozen=True)
class Totals:
    """What a table is judged by after an upsert."""

    count: int
    distinct: int
    sum_ts: int
    sum_n1: int


@dataclass(frozen=True)
class Workload:
    """One generated workload on disk."""

    name: str
    folder: Path
    base_rows: int
    batch_rows: int
    touched_files: int
    truth: Totals

    @property
    def base_files(self) -> list[Path]:
        """Two files a day, in day and key order."""
        return sorted((self.folder / "base").glob("*.parquet"))

    @property
    def batch(self) -> Path:
        """The rows to upsert, shuffled."""
        return self.folder / "batch.parquet"

    @property
    def base_bytes(self) -> int:
        """Size of the base on disk."""
        return sum(path.stat().st_size for path in self.base_files)

    def owners(self) -> Ints:
        """For every batch row the base file that holds its key, -1 for a new key (only the floor may look)."""
        owners: Ints = np.load(self.folder / "owners.npy")
        return owners


def names() -> list[str]:
    """All workload names."""
    return [f"{size}_{keys}" for size in SIZES for keys in ("mono", "uuid")]


def workload(name: str) -> Workload:
    """The named workload, generated at the first call.

    Raises:
        KeyError: no such workload.
    """
    size, _, keys = name.partition("_")
    if name not in names():
        raise KeyError(f"no workload {name!r}; there are {', '.join(names())}")
    folder = DATA / name
    described = folder / "workload.json"
    if not described.exists():
        facts = _generate(folder, *SIZES[size], keys)
        described.write_text(json.dumps(facts, indent=1))
    facts = json.loads(described.read_text())
    truth = Totals(**facts.pop("truth"))
    return Workload(name=name, folder=folder, truth=truth, **facts)


def _strings(letters: NDArray[np.uint8]) -> pa.Array:
    """Rows of a (n, width) matrix of ASCII codes as Arrow strings."""
    rows, width = letters.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(letters))]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _growing_keys(numbers: Ints) -> pa.Array:
    letters = np.empty((len(numbers), 16), np.uint8)
    letters[:, :4] = np.frombuffer(b"ord-", np.uint8)
    rest = numbers.copy()
    for column in range(15, 3, -1):
        letters[:, column] = ord("0") + rest % 10
        rest //= 10
    return _strings(letters)


def _random_keys(rng: np.random.Generator, rows: int) -> pa.Array:
    digits = np.frombuffer(rng.bytes(16 * rows).hex().encode(), np.uint8).reshape(rows, 32)
    letters = np.full((rows, 36), ord("-"), np.uint8)
    taken = 0
    for start, end in ((0, 8), (9, 13), (14, 18), (19, 23), (24, 36)):
        letters[:, start:end] = digits[:, taken : taken + end - start]
        taken += end - start
    return _strings(letters)


@functools.cache
def _vocabulary() -> pa.Array:
    rng = np.random.default_rng(7)
    return pa.array(["".join(chr(97 + c) for c in rng.integers(0, 26, 7)) for _ in range(2000)])


def _table(rng: np.random.Generator, keys: pa.Array, days: pa.Array, ts: Ints) -> pa.Table:
    rows = len(keys)
    vocabulary = _vocabulary()
    words = [vocabulary.take(pa.array(rng.integers(0, len(vocabulary), rows))) for _ in range(5)]
    return pa.table(
        {
            "id": keys,
            "day": days,
            "ts": pa.array(ts),
            "amount": pa.array(np.round(rng.gamma(2, 50, rows), 2)),
            "status": pa.array(_STATES).take(pa.array(rng.integers(0, len(_STATES), rows))),
            "note": pc.binary_join_element_wise(*words, " "),
            "n1": pa.array(rng.integers(0, 1_000_000, rows)),
            "n2": pa.array(rng.normal(0, 1, rows)),
        }
    )


def _write(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd", use_dictionary=["day", "status"], row_group_size=1 << 20)


def _repeat(value: str, rows: int) -> pa.Array:
    return pa.array([value]).take(pa.array(np.zeros(rows, np.int64)))


def _updated_partitions(rng: np.random.Generator, updates: int, keys: str) -> Ints:
    if keys == "uuid":
        return rng.integers(0, PARTITIONS, updates)
    newest = rng.integers(PARTITIONS - 2, PARTITIONS, updates)
    before = rng.integers(PARTITIONS - 6, PARTITIONS - 2, updates)
    return np.where(rng.random(updates) < 0.8, newest, before)


def _generate(folder: Path, base_rows: int, batch_rows: int, keys: str) -> dict[str, object]:
    (folder / "base").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng({"mono": 11, "uuid": 22}[keys] + base_rows)
    batch_rng = np.random.default_rng(99 + base_rows + batch_rows)
    per_partition = base_rows // PARTITIONS
    per_file = per_partition // FILES_PER_PARTITION
    updates = batch_rows * 4 // 5
    counts = np.bincount(_updated_partitions(batch_rng, updates, keys), minlength=PARTITIONS)
    picked = [np.sort(batch_rng.choice(per_partition, count, replace=False)) for count in counts]

    sum_ts = sum_n1 = 0
    updated: list[pa.Array] = []
    owners: list[Ints] = []
    days: list[str] = []
    for number in range(PARTITIONS):
        sequence = np.arange(number * per_partition, (number + 1) * per_partition, dtype=np.int64)
        if keys == "mono":
            ids, ts = _growing_keys(sequence), _FIRST_TS + sequence * 10
        else:
            ids = _random_keys(rng, per_partition)
            ids, ts = ids.take(pc.sort_indices(ids)), _FIRST_TS + rng.integers(0, base_rows * 10, per_partition)
        table = _table(rng, ids, _repeat(DAYS[number], per_partition), ts)
        for part in range(FILES_PER_PARTITION):
            _write(table.slice(part * per_file, per_file), folder / "base" / f"p{number:02d}-{part}.parquet")
        rows = picked[number]
        n1 = table["n1"].to_numpy()
        sum_ts += int(ts.sum()) - int(ts[rows].sum())
        sum_n1 += int(n1.sum()) - int(n1[rows].sum())
        updated.append(ids.take(pa.array(rows)))
        owners.append(number * FILES_PER_PARTITION + rows // per_file)
        days += [DAYS[number]] * len(rows)

    inserts = batch_rows - updates
    if keys == "mono":
        new_ids = _growing_keys(np.arange(base_rows, base_rows + inserts, dtype=np.int64))
        days += [DAYS[-1]] * inserts
    else:
        new_ids = _random_keys(batch_rng, inserts)
        days += [DAYS[day] for day in batch_rng.integers(0, PARTITIONS, inserts)]
    ts = _FIRST_TS + base_rows * 10 + batch_rng.integers(0, 1000, batch_rows)
    order = batch_rng.permutation(batch_rows)
    batch = _table(batch_rng, pa.concat_arrays([*updated, new_ids]), pa.array(days), ts).take(pa.array(order))
    _write(batch, folder / "batch.parquet")
    owner = np.concatenate([*owners, np.full(inserts, -1, np.int64)])[order]
    np.save(folder / "owners.npy", owner)
    rows_after = base_rows + inserts
    truth = Totals(rows_after, rows_after, sum_ts + int(ts.sum()), sum_n1 + int(pc.sum(batch["n1"]).as_py()))
    return {
        "base_rows": base_rows,
        "batch_rows": batch_rows,
        "touched_files": len(np.unique(owner[owner >= 0])),
        "truth": asdict(truth),
    }
