"""Reading beside delta-rs: a whole table, and one row by its key. Workloads of :mod:`benchmarks.operations`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import DeltaTable

import lakeindex
from benchmarks import timings
from benchmarks.measuring import Usage, with_stored_modules
from benchmarks.peers.delta import EQUAL, DeltaRs
from benchmarks.peers.lakeindex import LakeIndexLocal
from benchmarks.workloads import Workload

GETS: Final = 20
"""Keys that are looked up in a run, one call each."""
_ALONE: Final = """
import json, os, sys, time
from pathlib import Path
import pyarrow, pyarrow.compute, pyarrow.dataset, pyarrow.parquet
table, key = sys.argv[1:]
started, cpu = time.perf_counter(), time.process_time()
{imports}
{work}
took = dict(seconds=time.perf_counter() - started, cpu_seconds=time.process_time() - cpu)
status = Path("/proc/self/status").read_text()  # of this process alone: ru_maxrss counts in who started it
took["peak_bytes"] = int(status.partition("VmHWM:")[2].split()[0]) * 1024
print(json.dumps(dict(rows=rows, usage=took)), flush=True)
os._exit(0)  # threads that the libraries left abort one process in five on its way out
"""
_OURS: Final = "import lakeindex"
_DELTAS: Final = "from deltalake import DeltaTable"


def script(imports: str, work: str) -> str:
    """A program that does some work with ``table`` and ``key``, and prints ``rows`` and what it cost: Arrow is there
    already, the library is imported.
    """
    return _ALONE.format(imports=imports, work=work)


STREAM: Final = script(_OURS, "rows = sum(batch.num_rows for batch in lakeindex.open_table(table).scan().to_batches())")
_SCRIPTS: Final = {
    "read": script(_OURS, "rows = lakeindex.open_table(table).scan().to_arrow().num_rows"),
    "delta-read": script(_DELTAS, "rows = DeltaTable(table).to_pyarrow_table().num_rows"),
    "first-get": script(_OURS, "rows = lakeindex.open_table(table).get([key]).rows.num_rows"),
    "delta-first-get": script(
        _DELTAS,
        "rows = DeltaTable(table).to_pyarrow_dataset().to_table(filter=pyarrow.dataset.field('id') == key).num_rows",
    ),
}

ALONE: Final = frozenset({"stream", *_SCRIPTS})
"""What is done in a process of its own each time, whose memory is known."""


def alone(program: str, table: str, key: str = "") -> tuple[int, Usage]:
    """Run it in a process of its own: rows that it found, and what it cost."""
    command = [sys.executable, "-c", program, table, key]
    env = with_stored_modules(os.environ)
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    seen = json.loads(done.stdout)
    return seen["rows"], Usage(**seen["usage"])


class Reading:
    """One table of lakeindex and one of delta-rs with the same rows, codec, row groups and pages."""

    def __init__(self, wanted: Workload, folder: Path) -> None:
        self._rows = wanted.base_rows
        self._ours, self._deltas = folder / "ours" / "orders", folder / "deltas"
        self._ours.parent.mkdir(parents=True)
        LakeIndexLocal(sync=False).load(wanted, self._ours)
        DeltaRs(EQUAL).load(wanted, self._deltas)
        middle = wanted.base_files[len(wanted.base_files) // 2]
        self._keys = pq.read_table(middle, columns=["id"]).column("id").slice(0, 100 * GETS).to_pylist()[::100]
        self._get: dict[str, Callable[[str], int]] = {"get": self._our_row, "delta-get": self._delta_row}

    def once(self, peer: str) -> Usage:
        table = str(self._deltas if peer.startswith("delta") else self._ours)
        if peer in _SCRIPTS:
            found, usage = alone(_SCRIPTS[peer], table, self._keys[0])
            timings.checked(found, self._rows if "read" in peer else 1)
            return usage
        found = 0

        def work() -> None:
            nonlocal found
            found = sum(self._get[peer](key) for key in self._keys)

        usage = timings.timed(work)
        timings.checked(found, len(self._keys))
        return usage

    def _our_row(self, key: str) -> int:
        return int(lakeindex.open_table(str(self._ours)).get([key]).rows.num_rows)

    def _delta_row(self, key: str) -> int:
        return int(DeltaTable(self._deltas).to_pyarrow_dataset().to_table(filter=ds.field("id") == key).num_rows)
