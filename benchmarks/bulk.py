"""Bulk load of a whole base into a new table:
``python -m benchmarks.bulk [--workload M_mono] [--peer delta-rs] [--runs 5]``.

Each peer reads the Parquet files that the upserts' tables are made of and writes a table with as many files.
lakeindex does it as an upsert into an empty table: it checks keys for duplicates and writes filters.
"""

from __future__ import annotations

import shutil
from typing import Final

from benchmarks import timings
from benchmarks.harness import Part
from benchmarks.measuring import Usage, measured
from benchmarks.peers import PEERS
from benchmarks.timings import Timing
from benchmarks.worker import PeerError, PeerProcess
from benchmarks.workloads import DATA, Workload, names, workload

USUAL: Final = (
    "floor", "lakeindex", "lakeindex-nosync", "lakeindex-spark", "delta-rs", "delta-rs-own", "lance", "hudi", "hudi-v6",
    "delta-spark", "iceberg-spark",
)  # fmt: skip


def measure(wanted: Workload, peer: str, runs: int) -> Timing:
    timing = Timing(wanted.name, peer, PEERS[peer].title)
    timing.facts["compression"] = PEERS[peer].compression
    table = DATA / "tables" / "bulk" / f"{peer}-work" / "orders"
    shutil.rmtree(table.parents[1], ignore_errors=True)
    try:
        process = PeerProcess(peer)
    except PeerError as error:
        timing.fail(error)
        return timing

    def once() -> Usage:
        shutil.rmtree(table.parent, ignore_errors=True)
        table.parent.mkdir(parents=True)
        with measured(process.pid) as usage:
            process.load(wanted, table)
        found = process.totals(table)
        if (found.count, found.distinct) != (wanted.base_rows, wanted.base_rows):
            raise PeerError(f"{found}, expected {wanted.base_rows} rows")
        return usage

    try:
        timings.repeat(timing, runs, once)
        timing.facts["peak MB"] = f"{timing.peak_bytes / 2**20:.0f}"
    finally:
        process.close()
        shutil.rmtree(table.parents[1], ignore_errors=True)
    return timing


def _all(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    wanted = workload(name)
    return [measure(wanted, peer, runs) for peer in peers]


PART: Final = Part("bulk", "bulk load of a base into a new table", names(), ["M_mono"], PEERS, _all, USUAL, "bulk_load")

if __name__ == "__main__":
    raise SystemExit(PART.main())
