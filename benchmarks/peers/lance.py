"""Lance: merge_insert with a BTREE index over the keys. Not Parquet, so its files say less than its times."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from benchmarks import environment
from benchmarks.compression import CODEC, LEVEL
from benchmarks.peers.remote import Remote
from benchmarks.workloads import Totals, Workload

_SERVER: Final = Path(__file__).with_name("lance_server.py")


class Lance:
    """Finds keys by its index; new and changed rows go to new fragments, old ones are marked as deleted."""

    def __init__(self) -> None:
        environment.make()
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self._remote = Remote([str(environment.python()), "-P", str(_SERVER)], env)

    def load(self, workload: Workload, table: Path) -> None:
        """The base and its index."""
        files = [str(path) for path in workload.base_files]
        self._remote.call("load", paths=files, table=str(table), codec=CODEC, level=LEVEL)

    def upsert(self, workload: Workload, table: Path) -> None:
        self._remote.call("upsert", batch=str(workload.batch), table=str(table))

    def totals(self, table: Path) -> Totals:
        return Totals(*self._remote.call("totals", table=str(table)))

    def close(self) -> None:
        self._remote.close()
