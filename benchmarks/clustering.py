"""Clustering a month that came in many small files, beside delta-rs's compaction: ``python -m benchmarks.clustering``.

Ten batches of random keys make a partition of small files whose ranges overlap, alone or beside months that stay as
they are. lakeindex puts them together as they are, by key, and along a Z-order curve of two columns; delta-rs compacts
them, and puts them into Z-order by the same columns, with the same codec and target size. Each works in a process of
its own, on a copy of the table of its own.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks import timings
from benchmarks.harness import Part
from benchmarks.measuring import Usage, apart, measured, restore
from benchmarks.rows import FIRST_TS, random_keys, repeat, table_of
from benchmarks.timings import Timing

TARGET: Final = 120 * 1024 * 1024
BATCHES: Final = 10
COLUMNS: Final = ["n1", "ts"]
MONTH: Final = "2026-11-01"

PEERS: Final = {
    "lakeindex": "lakeindex cluster, by key",
    "lakeindex-none": "lakeindex cluster, only put together",
    "lakeindex-zorder": "lakeindex cluster, Z-order",
    "delta-rs": "delta-rs optimize.compact",
    "delta-rs-zorder": "delta-rs optimize.z_order",
}


@dataclass(frozen=True, slots=True)
class Month:
    """Rows of the partition, and the small files that they came in.

    Attributes:
        older: months of as many rows before it, which stay as they are.
    """

    rows: int
    files: int
    older: int = 0


WORKLOADS: Final = {
    "month": Month(5_000_000, 300),
    "year": Month(5_000_000, 300, 11),
    "short": Month(1_000_000, 100),
    "T_month": Month(2_000, 20, 2),
}


def rows_of(day: str, number: int, rows: int) -> pa.Table:
    """Rows with random keys and times, others for each number."""
    rng = np.random.default_rng(number)
    ts = FIRST_TS + rng.integers(0, 10**9, rows)
    return table_of(rng, random_keys(rng, rows), repeat(day, rows), ts)


def load(peer: str, month: Month, uri: str) -> None:
    """Make a table of so many small files."""
    each = month.files // BATCHES
    for number in range(BATCHES):
        batch = rows_of(MONTH, number, month.rows // BATCHES)
        if peer.startswith("lakeindex"):
            import lakeindex

            if not number:
                lakeindex.create_table(uri, like=batch, key=["id"], partition=["day"], ordering="ts", metadata=False)
            options = {
                "hoodie.parquet.small.file.limit": "0",
                "hoodie.copyonwrite.record.size.estimate": "100",
                "hoodie.parquet.max.file.size": str(100 * -(-batch.num_rows // each)),
            }
            lakeindex.open_table(uri).insert(batch, options=options)
        else:
            from deltalake import write_deltalake

            from benchmarks.peers.delta import EQUAL

            rows = -(-batch.num_rows // each)
            for at in range(0, batch.num_rows, rows):
                piece = batch.slice(at, rows)
                write_deltalake(uri, piece, partition_by=["day"], mode="append", writer_properties=EQUAL)
    for number in range(month.older):
        rows = rows_of(f"2025-{number + 1:02}-01", BATCHES + number, month.rows)
        if peer.startswith("lakeindex"):
            lakeindex.open_table(uri).bulk_insert(rows)
        else:
            write_deltalake(uri, rows, partition_by=["day"], mode="append", writer_properties=EQUAL)


def cluster(peer: str, uri: str) -> dict[str, str]:
    """Put the files together; what is to be said of it."""
    if peer.startswith("lakeindex"):
        import lakeindex

        sort = peer.partition("-")[2] or "key"
        how: dict[str, Any] = {"sort": sort, "columns": COLUMNS if sort == "zorder" else None}
        done = lakeindex.open_table(uri).cluster([MONTH], target_size=TARGET, progress=False, **how)
        (line,) = done.partitions
        name = COLUMNS[0] if peer.endswith("zorder") else "_hoodie_record_key"
        held = f"{line.candidates_before[name]:.1f} -> {line.candidates_after[name]:.2f}"
        return {"files": f"{done.files_before} -> {done.files_after}", "files a value": held}
    from deltalake import DeltaTable

    from benchmarks.peers.delta import EQUAL

    optimize = DeltaTable(uri).optimize
    how = {"partition_filters": [("day", "=", MONTH)], "target_size": TARGET, "writer_properties": EQUAL}
    found = optimize.z_order(COLUMNS, **how) if peer.endswith("zorder") else optimize.compact(**how)
    return {"files": f"{found['numFilesRemoved']} -> {found['numFilesAdded']}"}


def _kind(peer: str) -> str:
    """Which table it works on."""
    return "lakeindex" if peer.startswith("lakeindex") else "delta-rs"


def _measured(peer: str, uri: str) -> tuple[Usage, dict[str, str]]:
    import os

    with measured(os.getpid()) as usage:
        facts = cluster(peer, uri)
    return usage, facts


def measure(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    """All peers in turns."""
    month = WORKLOADS[name]
    found = {peer: Timing(name, peer, PEERS[peer]) for peer in peers}
    with tempfile.TemporaryDirectory() as folder:
        made: dict[str, Path] = {}
        for peer in peers:
            kind = _kind(peer)
            if kind not in made:
                made[kind] = Path(folder) / kind
                apart(load, kind, month, str(made[kind]))

        def once(peer: str) -> Usage:
            work = Path(folder) / "work"
            restore(made[_kind(peer)], work)
            usage, facts = apart(_measured, peer, str(work))
            found[peer].facts.update(facts)
            return usage

        timings.in_turns(found, runs, once)
    return list(found.values())


PART: Final = Part("clustering", "a month of small files put together", WORKLOADS, ["month"], PEERS, measure)

if __name__ == "__main__":
    raise SystemExit(PART.main())
