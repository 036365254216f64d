"""Peak resident memory beside ``lakeindex.memory``: ``python -m benchmarks.memory [--workload months] [--peer 256m]``.

Each step has a process of its own, whose peak the system tells. ``months`` and ``days`` are lineitem of TPC-H (6
million rows, a key of two fields) in 84 and in 2,526 partitions, the others 300,000 rows of the upserts' shapes. What
is more than the limit and :data:`PROMISED_MB` breaks a promise of docs/architecture.md.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import tpch
from benchmarks.harness import Part
from benchmarks.measuring import Usage, apart, measured, restore
from benchmarks.rows import DAYS, FIRST_TS, growing_keys
from benchmarks.shapes import SHAPES
from benchmarks.timings import Timing
from benchmarks.workloads import DATA

STEPS: Final = ("load", "upsert", "delete", "update", "overwrite", "scan", "changes")
LIMITS: Final = {"256m": 256, "1g": 1024, "default": 0}
"""MB; 0: whatever the machine's default is."""
PROMISED_MB: Final = 500
_LINEITEM: Final = {
    "months": ("sf1", "ship_month"),
    "days": ("sf1", "l_shipdate"),
    "T_months": ("T_tpch", "ship_month"),
}
_SHAPES: Final = {"wide": 300_000, "text": 300_000, "nested": 300_000, "T_nested": 2_000}
_FILES: Final = 4
_CHANGED: Final = 20


@dataclass(frozen=True)
class Inputs:
    """Files of the load and of the changes, keys to delete, and what the table is like."""

    load: list[str]
    upsert: str
    delete: str
    table: dict[str, Any]
    where: str
    set: dict[str, Any]


def inputs(name: str) -> Inputs:
    """Of a workload, generated at the first call."""
    if name in _LINEITEM:
        scale, partition = _LINEITEM[name]
        given = tpch.inputs(scale)
        table = {"key": ["l_orderkey", "l_linenumber"], "partition": [partition], "ordering": ["version"]}
        files = [str(given.file(step)) for step in ("load", "spread", "delete")]
        if partition not in pq.read_schema(files[2]).names:  # it names the month, not the day
            files[2] = files[1]
        return Inputs(files[:1], files[1], files[2], table, "l_quantity = 1", {"l_shipmode": "'NONE'"})
    folder = DATA / "memory" / name
    if not (folder / "upsert.parquet").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for stem, numbers in _numbers(_SHAPES[name]):
            days = pa.array(DAYS).take(pa.array(numbers % len(DAYS)))
            ts = FIRST_TS + numbers + (10**9 if stem == "upsert" else 0)
            make = SHAPES[name.removeprefix("T_")]
            rows = make(np.random.default_rng(7), growing_keys(numbers), days, ts)
            pq.write_table(rows, folder / f"{stem}.parquet", row_group_size=20_000)
    files = [str(folder / f"load{number}.parquet") for number in range(_FILES)]
    changed = str(folder / "upsert.parquet")
    table = {"key": ["id"], "partition": ["day"], "ordering": ["ts"]}
    return Inputs(files, changed, changed, table, "n1 < 50000", {"status": "'late'"})


def _numbers(rows: int) -> Iterator[tuple[str, np.ndarray]]:
    order = np.random.default_rng(3).permutation(rows)
    yield from ((f"load{number}", order[number::_FILES]) for number in range(_FILES))
    yield "upsert", order[::_CHANGED]


def _step(step: str, at: str, given: Inputs, limit: str) -> tuple[int, Usage]:
    """One step in this process: rows that it changed or gave, and what it cost."""
    import lakeindex
    from lakeindex.tasks.memory_bound import peak_resident_bytes

    options = {"lakeindex.memory": limit} if LIMITS[limit] else {}
    with measured(os.getpid()) as usage:
        if step == "load":
            table = lakeindex.create_table(at, like=given.load[0], **given.table)
            rows = table.upsert(given.load, options=options).inserts
        else:
            rows = _changed(lakeindex.open_table(at), step, given, options)
    usage.peak_bytes = max(usage.peak_bytes, peak_resident_bytes())
    return rows, usage


def _changed(table: Any, step: str, given: Inputs, options: dict[str, str]) -> int:
    if step in {"scan", "changes"}:
        first = table.history()[-1].instant
        found = table.scan() if step == "scan" else table.changes(since=first)
        return sum(batch.num_rows for batch in found.to_batches())
    done = {
        "upsert": lambda: table.upsert(given.upsert, options=options),
        "delete": lambda: table.delete(given.delete, options=options),
        "update": lambda: table.update(given.set, where=given.where, options=options),
        "overwrite": lambda: table.insert_overwrite(given.load, options=options),
    }[step]()
    return int(done.rows_in)


def measure(name: str, limits: tuple[str, ...], runs: int) -> list[Timing]:
    """All steps under all limits; ``changes`` are those of the upsert."""
    given, found = inputs(name), []
    with tempfile.TemporaryDirectory(prefix="memory-", dir=DATA) as folder:
        bases = {step: Path(folder) / step / "table" for step in ("load", "upsert", "work")}
        for limit in limits:
            for step in STEPS:
                timing = Timing(name, limit, step)
                for _ in range(runs):
                    at = bases.get(step, bases["work"])
                    source = None if step == "load" else bases["upsert" if step == "changes" else "load"]
                    shutil.rmtree(at.parent, ignore_errors=True)
                    if source is None:
                        at.parent.mkdir(parents=True)
                    else:
                        restore(source.parent, at.parent)
                    try:
                        rows, usage = apart(_step, step, str(at), given, limit)
                        timing.add(usage)
                        if not rows:
                            timing.failed = f"{step} did nothing"
                    except Exception as error:  # noqa: BLE001 - it is the result
                        timing.fail(error)
                        break
                timing.facts |= _facts(timing, limit)
                print(f"  {name} {limit:8} {step:10} {timing.facts}", flush=True)
                found.append(timing)
    return found


def _facts(timing: Timing, limit: str) -> dict[str, str]:
    from lakeindex.tasks.memory_bound import default_memory

    bound = LIMITS[limit] or default_memory() >> 20
    peak = timing.peak_bytes >> 20
    above = max(peak - bound - PROMISED_MB, 0)
    return {"peak MB": str(peak), "limit MB": str(bound), "above what is promised MB": str(above or "-")}


WORKLOADS: Final = [*_LINEITEM, *_SHAPES]
USUAL: Final = [name for name in WORKLOADS if not name.startswith("T_")]
PART: Final = Part("memory", "peak memory beside its limit", WORKLOADS, USUAL, LIMITS, measure)

if __name__ == "__main__":
    raise SystemExit(PART.main())
