"""Upserts into a table of many files on a store that is far away: ``python -m benchmarks.objects``.

The table is on an S3 server of this machine (``scripts/s3_server.py``); every request reaches it 10 ms late. A batch of
a thousand rows updates keys in ten of its files. Each engine has a warm process; they take turns, and every upsert
updates other rows of the same files. The relay counts their requests.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks import footers, timings
from benchmarks.footers import DELAY, Far
from benchmarks.harness import Part
from benchmarks.measuring import Usage
from benchmarks.rows import DAYS, FIRST_TS, table_of
from benchmarks.slow_link import slow_link
from benchmarks.timings import Timing
from benchmarks.workloads import Totals

PEERS: Final = {"lakeindex": "lakeindex, local runner", "delta-rs": "delta-rs MERGE"}
WORKLOADS: Final = {"objects": Far(2_000, 500, 1_000), "T_objects": Far(40, 50, 100)}
TOUCHED: Final = 10
"""Files, of as many partitions, that hold a batch's keys."""


def batch_of(far: Far, turn: int) -> pa.Table:
    """Newer versions of rows in the newest file of each of the first ten days, other rows every turn."""
    each = far.batch // TOUCHED
    parts = []
    for day in range(TOUCHED):
        drawn = np.random.default_rng((turn, day)).choice(far.rows, each, replace=False)
        numbers = far.rows_a_day - far.rows + np.sort(drawn).astype(np.int64)
        days = pa.array([DAYS[day]] * each)
        newer = FIRST_TS + 10**9 * (turn + 1) + numbers
        parts.append(table_of(np.random.default_rng((turn, day, 1)), far.key(day, numbers), days, newer))
    return pa.concat_tables(parts)


def _uri(peer: str, name: str) -> str:
    return f"s3://{os.environ['LAKEINDEX_S3_BUCKET']}/{name}-{peer}"


def _load(peer: str, far: Far, uri: str) -> None:
    if peer == "lakeindex":
        footers.load(far, uri)
    else:
        from deltalake import write_deltalake

        from benchmarks.peers.delta import EQUAL

        days = [footers.rows_of_day(far, day) for day in range(len(DAYS))]
        for start in range(0, far.rows_a_day, far.rows):  # a file a day
            rows = pa.concat_tables([rows.slice(start, far.rows) for rows in days])
            write_deltalake(uri, rows, partition_by=["day"], mode="append", writer_properties=EQUAL)


def _upsert(peer: str, far: Far, uri: str, turn: int) -> dict[str, float]:
    """One upsert; its seconds, and those of CPU."""
    batch = batch_of(far, turn)
    started, cpu = time.perf_counter(), time.process_time()
    if peer == "lakeindex":
        import lakeindex

        lakeindex.open_table(uri).upsert(batch)
    else:
        from benchmarks.peers.delta import EQUAL, merge

        merge(uri, batch, EQUAL).when_matched_update_all().when_not_matched_insert_all().execute()
    return {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu}


def _totals(peer: str, uri: str) -> Totals:
    from benchmarks.peers.base import totals_of

    columns = ["id", "ts", "n1"]
    if peer == "lakeindex":
        import lakeindex

        return totals_of(lakeindex.open_table(uri).scan(columns=columns).to_arrow())
    from deltalake import DeltaTable

    return totals_of(DeltaTable(uri).to_pyarrow_table(columns=columns))


def _reach(endpoint: str) -> None:
    os.environ.update(AWS_ENDPOINT_URL=endpoint, AWS_ALLOW_HTTP="true")


class _Engine:
    """One peer in a process that sees the store at an endpoint."""

    def __init__(self, peer: str, endpoint: str, stack: ExitStack) -> None:
        self._peer = peer
        pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_reach, initargs=(endpoint,))
        self._pool = stack.enter_context(pool)

    def call(self, function: Callable[..., Any], *arguments: object) -> Any:
        return self._pool.submit(function, self._peer, *arguments).result()


def measure(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    """All peers; the server is there.

    Raises:
        RuntimeError: rows are missing, or the tables differ.
    """
    far, direct = WORKLOADS[name], os.environ["LAKEINDEX_S3_ENDPOINT"]
    found = {peer: Timing(name, peer, PEERS[peer]) for peer in peers}
    done: dict[str, list[int]] = {peer: [] for peer in peers}
    with ExitStack() as stack:
        near = {peer: _Engine(peer, direct, stack) for peer in peers}
        for peer, engine in near.items():
            engine.call(_load, far, _uri(peer, name))
        link = stack.enter_context(slow_link(direct, DELAY))
        away = {peer: _Engine(peer, link.endpoint, stack) for peer in peers}

        def once(peer: str) -> Usage:
            before = link.requests
            usage = Usage(**away[peer].call(_upsert, far, _uri(peer, name), len(done[peer])))
            done[peer].append(link.requests - before)
            return usage

        timings.in_turns(found, runs, once)
        totals = {peer: near[peer].call(_totals, _uri(peer, name)) for peer in peers}
    rows = far.files * far.rows
    if len(set(totals.values())) > 1 or any((one.count, one.distinct) != (rows, rows) for one in totals.values()):
        raise RuntimeError(f"expected {rows:,} rows, the same everywhere: {totals}")
    for peer, timing in found.items():
        if done[peer]:
            timing.facts["requests"] = str(statistics.median_low(done[peer][1:] or done[peer]))
    return list(found.values())


PART: Final = Part(
    "objects", "upserts into many files on a store that is far away", WORKLOADS, ["objects"], PEERS, measure, on_s3=True
)

if __name__ == "__main__":
    raise SystemExit(PART.main())
