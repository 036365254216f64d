"""The same upsert on a short and a long timeline: workload ``commits`` of :mod:`benchmarks.operations`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

import lakeindex
from benchmarks import timings
from benchmarks.measuring import Usage, restore
from benchmarks.peers.lakeindex import LakeIndexLocal
from benchmarks.rows import FIRST_TS
from benchmarks.workloads import Workload

_BESIDE: Final = 40
"""Partitions that the commits write into: small ones, which the upsert leaves alone."""


class LongTimeline:
    """One table, and a copy of it that got many commits of one row each. Neither is cleaned or archived.

    Args:
        wanted: whose base and batch it is.
        folder: where the tables are made.
        commits: how many more the copy gets.
    """

    def __init__(self, wanted: Workload, folder: Path, commits: int) -> None:
        self._wanted, self._copy = wanted, folder / "copy" / "orders"
        self._bases = {"short": folder / "short" / "orders", "long": folder / "long" / "orders"}
        self._bases["short"].parent.mkdir(parents=True)
        self._peer = LakeIndexLocal(sync=False)
        self._peer.load(wanted, self._bases["short"])
        restore(self._bases["short"].parent, self._bases["long"].parent)
        row = pq.read_table(wanted.base_files[0]).slice(0, 1)
        table = lakeindex.open_table(str(self._bases["long"]))
        for number in range(commits):
            ts = pa.array([FIRST_TS + number])
            beside = row.set_column(row.column_names.index("ts"), "ts", ts)
            day = pa.array([f"beside-{number % _BESIDE:02d}"])
            table.upsert(beside.set_column(row.column_names.index("day"), "day", day))

    def once(self, peer: str) -> Usage:
        restore(self._bases[peer].parent, self._copy.parent)
        before = lakeindex.open_table(str(self._copy)).count()
        usage = timings.timed(lambda: self._peer.upsert(self._wanted, self._copy))
        inserts = self._wanted.truth.count - self._wanted.base_rows
        timings.checked(lakeindex.open_table(str(self._copy)).count(), before + inserts)
        return usage
