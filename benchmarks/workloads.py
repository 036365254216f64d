"""Deterministic workloads: a base table of orders, and one batch to upsert into it.

``mono`` has keys that grow with time and updates in the newest six of 20 days (a feed of events); ``uuid`` has random
keys and updates everywhere (the worst case for an index by key range); ``tail`` and ``small`` have growing keys, a file
of many rows a day, and updates among the newest rows only. Four fifths of a batch are updates, one fifth inserts,
unless ``SPREAD`` says otherwise. Every file is a function of the name, and ``truth`` is what any correct engine must
leave behind.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import bases
from benchmarks.bases import DELETE, UPSERT, Spread, Tail
from benchmarks.rows import Ints, day

DATA: Final = Path(__file__).resolve().parent / "data"
_MILLION: Final = 1_000_000
SPREAD: Final[dict[str, Spread]] = {
    **{f"T_{keys}": Spread(20_000, 1_000, keys) for keys in ("mono", "uuid")},  # to try the benchmark itself
    **{f"S_{keys}": Spread(_MILLION, 20_000, keys) for keys in ("mono", "uuid")},
    **{f"M_{keys}": Spread(5 * _MILLION, 100_000, keys) for keys in ("mono", "uuid")},
    "T_wide": Spread(2_000, 200, shape="wide"),  # to try the benchmark itself, as the next six
    "T_nested": Spread(2_000, 200, shape="nested"),
    "T_text": Spread(2_000, 200, shape="text"),
    "T_all": Spread(2_000, 2_000, updates=1.0),
    "T_inserts": Spread(20_000, 1_000, updates=0.0),
    "T_deletes": Spread(20_000, 1_000, updates=1.0, operation=DELETE),
    "T_parts": Spread(2_400, 360, "uuid", partitions=120, files_per_partition=1, evenly=True),
    "wide": Spread(400_000, 20_000, shape="wide"),
    "nested": Spread(_MILLION, 20_000, shape="nested"),
    "text": Spread(_MILLION // 2, 20_000, shape="text"),
    "all": Spread(_MILLION, _MILLION, updates=1.0),
    "one": Spread(_MILLION, 1, updates=1.0),
    "inserts": Spread(5 * _MILLION, 100_000, updates=0.0),
    "deletes": Spread(5 * _MILLION, 100_000, updates=1.0, operation=DELETE),
    "thousand": Spread(_MILLION, 1_000),
    "parts": Spread(_MILLION, 6_000, "uuid", partitions=2_000, files_per_partition=1, evenly=True),
}
TAILS: Final[dict[str, Tail]] = {
    "TL_tail": Tail(5, 4_000, 400, 2_000),  # to try the benchmark itself, as the next three
    "TL_small": Tail(5, 4_000, 20, 2_000),
    "TG1_tail": Tail(1, 4_000, 400, 2_000),
    "TG20_tail": Tail(20, 4_000, 400, 2_000),
    "L_tail": Tail(5, _MILLION, 20_000, 100_000),
    "L_small": Tail(5, _MILLION, 1_000, 100_000),
    "G1_tail": Tail(1, _MILLION, 20_000, 100_000),
    "G20_tail": Tail(20, _MILLION, 20_000, 100_000),
}


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
    operation: str = UPSERT

    @property
    def base_files(self) -> list[Path]:
        """The base, in day and key order."""
        return sorted((self.folder / "base").glob("*.parquet"))

    @property
    def files_per_partition(self) -> int:
        """Base files a day."""
        return 1 if self.name in TAILS else SPREAD[self.name].files_per_partition

    def day_of(self, file: int) -> str:
        """The day, and so the partition, of a base file."""
        return day(file // self.files_per_partition)

    @property
    def batch(self) -> Path:
        """The rows to upsert, shuffled."""
        return self.folder / "batch.parquet"

    def owners(self) -> Ints:
        """For every batch row the base file that holds its key, -1 for a new key (only the floor may look)."""
        owners: Ints = np.load(self.folder / "owners.npy")
        return owners


def names() -> list[str]:
    return [*SPREAD, *TAILS]


def workload(name: str) -> Workload:
    """The named workload, generated at the first call.

    Raises:
        KeyError: no such workload.
    """
    if name not in names():
        raise KeyError(f"no workload {name!r}; there are {', '.join(names())}")
    folder = DATA / name
    described = folder / "workload.json"
    if not described.exists():
        facts = _generate(name, folder)
        described.write_text(json.dumps(facts, indent=1))
    facts = json.loads(described.read_text())
    truth = Totals(**facts.pop("truth"))
    return Workload(name=name, folder=folder, truth=truth, **facts)


def _generate(name: str, folder: Path) -> dict[str, object]:
    if name in TAILS:
        return bases.tail(folder, TAILS[name])
    return bases.spread(folder, SPREAD[name])
