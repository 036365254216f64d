"""lakeindex itself, on its in-process runner and on Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import lakeindex
from benchmarks.peers.base import hudi_totals
from benchmarks.workloads import Totals, Workload

_COMMAND: Final = (sys.executable, "-m", "lakeindex.cli")


def _create(workload: Workload, table: Path) -> None:
    like = ["--like", str(workload.batch), "--key", "id", "--partition", "day", "--ordering", "ts"]
    option = ["-o", "hoodie.datasource.write.hive_style_partitioning=true"]
    subprocess.run([*_COMMAND, "create", str(table), *like, *option], check=True, capture_output=True)


class _LakeIndex:
    """What both runners share: the base is loaded day by day through the library itself."""

    _runner: str

    def _upsert(self, table: Path, paths: Sequence[Path], options: dict[str, str] | None = None) -> None:
        handle: Any = lakeindex.open_table(str(table))
        handle.upsert([str(path) for path in paths], runner=self._runner, options=options or {})

    def load(self, workload: Workload, table: Path) -> None:
        """One upsert of the whole base; the file size is set so that each day gets two files, as everywhere."""
        _create(workload, table)
        files = workload.base_files
        per_file = int(1.02 * workload.base_bytes / len(files))
        options = {"hoodie.parquet.max.file.size": str(per_file), "hoodie.parquet.small.file.limit": "0"}
        self._upsert(table, files, options)

    def upsert(self, workload: Workload, table: Path) -> None:
        """One upsert with default options."""
        self._upsert(table, [workload.batch])

    def totals(self, table: Path) -> Totals:
        """Through hudi-rs."""
        return hudi_totals(table)

    def close(self) -> None:
        """Nothing runs on."""


class LakeIndexLocal(_LakeIndex):
    """The in-process runner.

    Args:
        sync: flush to disk before a commit counts, as the library does by default.
    """

    _runner = "local"

    def __init__(self, *, sync: bool) -> None:
        self._sync = sync


class LakeIndexSpark(_LakeIndex):
    """The Spark runner in one warm session."""

    _runner = "spark"

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
        self._session = builder.config("spark.ui.enabled", "false").getOrCreate()

    def close(self) -> None:
        """End the session."""
        self._session.stop()
