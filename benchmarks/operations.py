"""What operations cost beside each other: ``python -m benchmarks.operations [--workload partial]``.

``partial``: an upsert of two of a table's columns beside one of all, on fresh copies of one table. ``insert``: new rows
into an empty table with buckets, their keys looked up or not. ``stream``: a whole table read in batches, in a process
of its own, and the most memory that it held. ``commits``: an upsert on a short and a long timeline. ``read`` and
``get``: a whole table, and single rows by their keys, beside delta-rs. Batches of the first two are Arrow tables in
memory; operations take turns.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakeindex
from benchmarks import reads, timings
from benchmarks.harness import Part
from benchmarks.measuring import Usage, restore
from benchmarks.peers.lakeindex import LakeIndexLocal
from benchmarks.reads import Reading
from benchmarks.rows import DAYS, FIRST_TS, growing_keys, table_of
from benchmarks.shapes import wide
from benchmarks.timings import Timing
from benchmarks.workloads import DATA, Workload, workload

PEERS: Final = {
    "whole": "upsert of all columns",
    "partial": "upsert of two columns, partial",
    "bulk-insert": "bulk_insert",
    "insert": "insert, keys looked up",
    "stream": "scan().to_batches()",
    "short": "upsert of S mono, without them",
    "long": "upsert of S mono, beside them",
    "read": "scan().to_arrow()",
    "delta-read": "delta-rs, to_pyarrow_table()",
    "get": f"get of one key, {reads.GETS} times, process warm",
    "delta-get": f"delta-rs, one key by to_pyarrow_dataset(), {reads.GETS} times, process warm",
    "first-get": "get of one key, first call",
    "delta-first-get": "delta-rs, the same",
}
GIVEN: Final = 2
"""Columns of a partial update beside key, partition and ordering field."""
_BUCKETS: Final = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "8"}
_PIECE: Final = 500_000
_BESIDE: Final = 40
"""Partitions that the many commits write into: small ones, which the timed upsert leaves alone."""
Once = Callable[[str], Usage]


@dataclass(frozen=True)
class Asked:
    """A workload.

    Attributes:
        size: of the table, or of the batch that is inserted.
        prepare: makes what they need in a folder, and says how one is done once.
    """

    size: int
    peers: tuple[str, ...]
    prepare: Callable[[Path, int], Once]
    unit: str = "rows"


def _orders(first: int, rows: int, days: int = 1) -> pa.Table:
    numbers = np.arange(first, first + rows, dtype=np.int64)
    day = pa.array(DAYS).take(pa.array(numbers * days // (first + rows)))
    return table_of(np.random.default_rng((first, rows)), growing_keys(numbers), day, FIRST_TS + numbers)


def _create(path: Path, schema: pa.Schema, properties: Mapping[str, str]) -> lakeindex.Table:
    return lakeindex.create_table(
        str(path), schema, key="id", partition="day", ordering="ts", properties=dict(properties)
    )


def partial(folder: Path, rows: int) -> Once:
    """All rows of a table of 200 columns are updated."""
    base, copy = folder / "base" / "wide", folder / "copy" / "wide"

    def batch_of(version: int) -> pa.Table:
        keys, day = growing_keys(np.arange(rows, dtype=np.int64)), pa.array([DAYS[0]] * rows)
        return wide(np.random.default_rng(version), keys, day, np.full(rows, FIRST_TS + version, np.int64))

    first, whole = batch_of(1), batch_of(2)
    few = whole.select(["id", "day", "ts", *[f"c{number:03d}" for number in range(GIVEN)]])
    _create(base, first.schema, {}).upsert(first)

    def once(peer: str) -> Usage:
        restore(base.parent, copy.parent)
        table, done = lakeindex.open_table(str(copy)), []
        batch = few if peer == "partial" else whole
        usage = timings.timed(lambda: done.append(table.upsert(batch, partial=peer == "partial")))
        timings.checked(done[0].updates, rows)
        return usage

    return once


def insert(folder: Path, rows: int) -> Once:
    batch = _orders(0, rows, len(DAYS))

    def once(peer: str) -> Usage:
        shutil.rmtree(folder / "table", ignore_errors=True)
        table = _create(folder / "table", batch.schema, _BUCKETS)
        write = table.insert if peer == "insert" else table.bulk_insert
        usage = timings.timed(lambda: write(batch))
        timings.checked(table.count(), rows)
        return usage

    return once


def stream(folder: Path, rows: int) -> Once:
    pieces = folder / "pieces"
    pieces.mkdir()
    for start in range(0, rows, _PIECE):
        pq.write_table(_orders(start, min(_PIECE, rows - start)), pieces / f"{start:010d}.parquet")
    table = _create(folder / "table", _orders(0, 1).schema, {})
    table.upsert(str(pieces / "*.parquet"))

    def once(peer: str) -> Usage:
        assert peer == "stream"
        found, usage = reads.alone(reads.STREAM, table.uri)
        timings.checked(found, rows)
        return usage

    return once


def _of(name: str, make: Callable[[Workload, Path, int], Once]) -> Callable[[Path, int], Once]:
    """Prepares what works on the tables of a workload of the upserts."""
    return lambda folder, number: make(workload(name), folder, number)


def _long(wanted: Workload, folder: Path, commits: int) -> Once:
    """One table, and a copy that got so many commits of one row each; neither is cleaned or archived."""
    copy, ours = folder / "copy" / "orders", LakeIndexLocal(sync=False)
    bases = {peer: folder / peer / "orders" for peer in ("short", "long")}
    bases["short"].parent.mkdir(parents=True)
    ours.load(wanted, bases["short"])
    restore(bases["short"].parent, bases["long"].parent)
    row = pq.read_table(wanted.base_files[0]).slice(0, 1)
    table = lakeindex.open_table(str(bases["long"]))
    for number in range(commits):
        ts, day = pa.array([FIRST_TS + number]), pa.array([f"beside-{number % _BESIDE:02d}"])
        beside = row.set_column(row.column_names.index("ts"), "ts", ts)
        table.upsert(beside.set_column(row.column_names.index("day"), "day", day))

    def once(peer: str) -> Usage:
        restore(bases[peer].parent, copy.parent)
        before = lakeindex.open_table(str(copy)).count()
        usage = timings.timed(lambda: ours.upsert(wanted, copy))
        inserts = wanted.truth.count - wanted.base_rows
        timings.checked(lakeindex.open_table(str(copy)).count(), before + inserts)
        return usage

    return once


def _reading(wanted: Workload, folder: Path, rows: int) -> Once:
    assert wanted.base_rows == rows
    return Reading(wanted, folder).once


WORKLOADS: Final = {
    "partial": Asked(100_000, ("whole", "partial"), partial),
    "insert": Asked(1_000_000, ("bulk-insert", "insert"), insert),
    "stream": Asked(20_000_000, ("stream",), stream),
    "commits": Asked(2_000, ("short", "long"), _of("S_mono", _long), "commits"),
    "read": Asked(5_000_000, ("read", "delta-read"), _of("M_mono", _reading)),
    "get": Asked(1_000_000, ("get", "delta-get", "first-get", "delta-first-get"), _of("S_mono", _reading)),
    "T_partial": Asked(500, ("whole", "partial"), partial),  # to try the benchmark itself, as the next five
    "T_insert": Asked(1_000, ("bulk-insert", "insert"), insert),
    "T_stream": Asked(1_000, ("stream",), stream),
    "T_commits": Asked(3, ("short", "long"), _of("T_mono", _long), "commits"),
    "T_read": Asked(20_000, ("read", "delta-read"), _of("T_mono", _reading)),
    "T_get": Asked(20_000, ("get", "delta-get", "first-get", "delta-first-get"), _of("T_mono", _reading)),
}


def measure(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    asked = WORKLOADS[name]
    found = {
        peer: Timing(name, peer, f"{PEERS[peer]}, {asked.size:,} {asked.unit}") for peer in asked.peers if peer in peers
    }
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="operations-", dir=DATA) as folder:
        once = asked.prepare(Path(folder), asked.size)
        timings.in_turns(found, runs, once)
    for peer in reads.ALONE & found.keys():  # the others share this process
        found[peer].facts["peak MB"] = f"{found[peer].peak_bytes / 2**20:.0f}"
    return list(found.values())


_DEFAULT: Final = [name for name in WORKLOADS if not name.startswith("T_")]
PART: Final = Part("operations", "what operations cost beside each other", WORKLOADS, _DEFAULT, PEERS, measure)

if __name__ == "__main__":
    raise SystemExit(PART.main())
