"""Footers of many files on a store that is far away, with the cache and without: ``python -m benchmarks.footers``.

The table is on an S3 server of this machine (``scripts/s3_server.py``); every request reaches it 10 ms late. Timed are
the stages that need footers (``index_lookup``: key ranges, ``bloom_check``: filters), of a batch that is staged
already. Each run is a new process. It looks the batch up without the cache to load everything, then once without the
cache, once with it, and once more with it, when the process knows the ranges already.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.harness import Part
from benchmarks.measuring import Usage, apart
from benchmarks.rows import DAYS, FIRST_TS, growing_keys, table_of
from benchmarks.slow_link import slow_link
from benchmarks.timings import Timing

DELAY: Final = 0.010
PEERS: Final = {
    "without": "footers read from the base files",
    "cached": "from the cache, in a new process",
    "again": "from the cache, ranges known to the process",
}


@dataclass(frozen=True)
class Far:
    """A table of many small files.

    Attributes:
        files: base files, the same number a day.
        batch: keys to look up, of the newest file of every day, a fifth of them new.
    """

    files: int
    rows: int
    batch: int

    def key(self, day: int, rows: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Array:
        """Keys of a day's rows; the odd numbers are never stored."""
        return growing_keys(day * 1_000_000_000 + rows * 2)

    @property
    def rows_a_day(self) -> int:
        return self.files // len(DAYS) * self.rows


WORKLOADS: Final = {"far_40": Far(40, 50, 100), "far_2000": Far(2_000, 500, 1_000)}


def rows_of_day(far: Far, day: int) -> pa.Table:
    """All rows of a partition; its files follow each other."""
    numbers = np.arange(far.rows_a_day, dtype=np.int64)
    return _rows(far, day, numbers, far.key(day, numbers))


def _rows(far: Far, day: int, numbers: np.ndarray[Any, np.dtype[np.int64]], ids: pa.Array) -> pa.Table:
    days = pa.array([DAYS[day]] * len(numbers))
    return table_of(np.random.default_rng((far.files, day, len(numbers))), ids, days, FIRST_TS + numbers)


def batch_of(far: Far) -> pa.Table:
    """The keys to look up."""
    each = far.batch // len(DAYS)
    stored = each * 4 // 5
    parts = []
    for day in range(len(DAYS)):
        numbers = far.rows_a_day - 1 - np.arange(each, dtype=np.int64)
        ids = pa.concat_arrays(
            [far.key(day, numbers[:stored]), growing_keys(day * 1_000_000_000 + numbers[stored:] * 2 + 1)]
        )
        parts.append(_rows(far, day, numbers, ids))
    return pa.concat_tables(parts)


def load(far: Far, uri: str) -> None:
    """Make the table; what is written is cached."""
    import pyarrow.parquet as pq

    import lakeindex
    from lakeindex.operations.create_table import create_like
    from lakeindex.options.parse import parse_create_options

    with tempfile.TemporaryDirectory(prefix="bench-footers-") as folder:
        paths = []
        for day in range(len(DAYS)):
            paths.append(f"{folder}/{day:02d}.parquet")
            pq.write_table(rows_of_day(far, day), paths[-1])
        create_like(uri, paths[0], keys=["id"], partitions=["day"], ordering=["ts"], config=parse_create_options({}))
        sizes = {
            "hoodie.copyonwrite.record.size.estimate": "1",
            "hoodie.parquet.max.file.size": str(far.rows),
            "hoodie.parquet.small.file.limit": "0",
        }
        lakeindex.open_table(uri).upsert(paths, options=sizes, checkpoints=f"{folder}/runs")


def _look_up(uri: str, batch: str, folder: str, *, cache: bool) -> dict[str, float]:
    """Seconds of the stages that need footers, and what they read."""
    from lakeindex.conductor.open_for_write import open_for_write
    from lakeindex.conductor.upsert import look_up, run_stage_input
    from lakeindex.model import Operation
    from lakeindex.run.spec import RunSpec
    from lakeindex.tasks.local_runner import LocalRunner

    run = f"r-{uuid.uuid4().hex[:8]}"
    asked = (("lakeindex.footer.cache", str(cache).lower()),)
    spec = RunSpec(uri, folder, run, run, Operation.UPSERT, (batch,), asked)
    opened, runner = open_for_write(spec.table_uri, spec.config), LocalRunner()
    staged = run_stage_input(spec, opened.facts, runner)
    done = look_up(spec, opened, staged, runner)
    mine = [one for one in done.summaries if one.name in {"index_lookup", "bloom_check"}]
    return {
        "seconds": sum(one.seconds for one in mine),
        "requests": sum(one.requests for one in mine),
        "bytes": sum(one.bytes_read for one in mine),
        "read": sum(int(one.counters.get("footers_read", 0)) for one in mine),
        "found": int(done.verified.counters["rows_out"]),
    }


def look_ups(uri: str, batch: pa.Table) -> dict[str, dict[str, float]]:
    """All peers, once, in this process."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory(prefix="bench-footers-") as folder:
        path = f"{folder}/batch.parquet"
        pq.write_table(batch, path)
        _look_up(uri, path, f"{folder}/runs", cache=False)
        wanted = {"without": False, "cached": True, "again": True}
        return {peer: _look_up(uri, path, f"{folder}/runs", cache=cache) for peer, cache in wanted.items()}


def _alone(endpoint: str, function: Callable[..., Any], *arguments: object) -> Any:
    os.environ["AWS_ENDPOINT_URL"] = endpoint
    return apart(function, *arguments)


def measure(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    """All peers; the server is there."""
    far = WORKLOADS[name]
    direct = os.environ["LAKEINDEX_S3_ENDPOINT"]
    uri = f"s3://{os.environ['LAKEINDEX_S3_BUCKET']}/{name}"
    found = {peer: Timing(name, peer, PEERS[peer]) for peer in peers}
    _alone(direct, load, far, uri)
    batch = batch_of(far)
    with slow_link(direct, DELAY) as link:
        for turn in range(runs):
            one = _alone(link.endpoint, look_ups, uri, batch)
            print(f"  {name} run {turn}: {one}", flush=True)
            for peer, timing in found.items():
                seen = one[peer]
                timing.add(Usage(seconds=seen["seconds"]))
                timing.facts = {
                    "requests": f"{seen['requests']:.0f}",
                    "MB read": f"{seen['bytes'] / 1e6:.2f}",
                    "footers read": f"{seen['read']:.0f}",
                }
    return list(found.values())


PART: Final = Part(
    "footers", "footers of many files on a store that is far away", WORKLOADS, ["far_2000"], PEERS, measure, on_s3=True
)

if __name__ == "__main__":
    raise SystemExit(PART.main())
