"""lakeindex itself, on its in-process runner and on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final
from unittest.mock import patch

import lakeindex
from benchmarks.bases import DELETE
from benchmarks.measuring import apart
from benchmarks.peers.base import hudi_totals, in_steps
from benchmarks.workloads import Totals, Workload
from lakeindex.operations.create_table import create_like
from lakeindex.options.parse import parse_create_options
from lakeindex.runners.spark_settings import FAST_WORKERS
from lakeindex.storage.local import LocalStorage

#: Folders are named ``day=...`` in all tables that are laid out by folders.
_CREATE: Final = {"hoodie.datasource.write.hive_style_partitioning": "true"}


def create(workload: Workload, table: Path, version: int = 6) -> None:
    """An empty table for the workload's rows, without a metadata table."""
    config = parse_create_options({**_CREATE, "hoodie.write.table.version": str(version)})
    like = str(workload.batch)
    create_like(str(table), like, keys=["id"], partitions=["day"], ordering=["ts"], config=config, metadata=False)


class _LakeIndex:
    """What both runners share: the base is loaded through the library itself."""

    _runner: str
    _version = 6

    def _upsert(self, table: Path, paths: Sequence[Path], options: dict[str, str] | None = None) -> None:
        handle = lakeindex.open_table(str(table))
        handle.upsert([str(path) for path in paths], runner=self._runner, options=options or {})

    def load(self, workload: Workload, table: Path) -> None:
        """Upserts of the base; sizes are set so that each day gets as many files as everywhere."""
        create(workload, table, self._version)
        files = workload.base_files
        options = {
            # a record of one byte: the file size is a number of rows
            "hoodie.copyonwrite.record.size.estimate": "1",
            "hoodie.parquet.max.file.size": str(workload.base_rows // len(files)),
            "hoodie.parquet.small.file.limit": "0",
        }
        for step in in_steps(workload, files):
            self._upsert(table, step, options)

    def upsert(self, workload: Workload, table: Path) -> None:
        """One upsert, or deletion, with default options."""
        if workload.operation == DELETE:
            lakeindex.open_table(str(table)).delete([str(workload.batch)], runner=self._runner)
        else:
            self._upsert(table, [workload.batch])

    def totals(self, table: Path) -> Totals:
        return apart(hudi_totals, table)

    def close(self) -> None:
        """Nothing runs on."""


def _no_sync(_store: LocalStorage, _paths: Iterable[str]) -> None:
    """In place of ``LocalStorage.sync``."""


class LakeIndexLocal(_LakeIndex):
    """The in-process runner.

    Args:
        sync: flush to disk before a commit counts. The library always does on local disk and has no option not to; no
            other peer does, so the benchmark can take it out while this peer works.
        version: of the tables that it makes.
    """

    _runner = "local"

    def __init__(self, *, sync: bool, version: int = 6) -> None:
        self._version = version
        self._sync = sync

    def load(self, workload: Workload, table: Path) -> None:
        with self._syncing():
            super().load(workload, table)

    def upsert(self, workload: Workload, table: Path) -> None:
        with self._syncing():
            super().upsert(workload, table)

    def _syncing(self) -> AbstractContextManager[object]:
        return nullcontext() if self._sync else patch.object(LocalStorage, "sync", _no_sync)


class LakeIndexSpark(_LakeIndex):
    """The Spark runner in one warm session."""

    _runner = "spark"

    def __init__(self) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
        quiet = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
        # tasks give back metadata only: there is room for no more
        lean = quiet.config("spark.driver.maxResultSize", "1m")
        self._session = lean.config(map=dict(FAST_WORKERS)).getOrCreate()
        self._session.sparkContext.setLogLevel("ERROR")

    def close(self) -> None:
        """End the session."""
        self._session.stop()
