"""Hudi itself: release 1.2.0, BLOOM index, in a warm Spark 3.5 session of the interop environment."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from benchmarks.peers.base import hudi_totals
from benchmarks.workloads import Totals, Workload
from scripts import interop_env
from tests.interop.hudi_client import HudiServer

OPTIONS: Final[dict[str, str]] = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.parquet.compression.codec": "zstd",
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.index.type": "BLOOM",
}
#: Table version 6 without a metadata table: the kind of table lakeindex writes.
VERSION_6: Final[dict[str, str]] = {
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.metadata.enable": "false",
}


class Hudi:
    """Hudi 1.2.0 with its defaults (table version 9, metadata table) or on a table of version 6.

    Args:
        version_6: write the kind of table lakeindex writes.
        memory: heap of the driver, which is also the executor.
    """

    def __init__(self, *, version_6: bool, memory: str = "4g") -> None:
        interop_env.make()
        self._options = OPTIONS | (VERSION_6 if version_6 else {})
        scratch = Path(tempfile.mkdtemp(prefix="bench-hudi-"))
        self._server = HudiServer("1.2.0", scratch, memory, quick=False)
        self._server.call("ping")

    def load(self, workload: Workload, table: Path) -> None:
        """Bulk insert of the sorted files, unsorted mode: one base file a generated file."""
        options = self._options | {
            "hoodie.datasource.write.operation": "bulk_insert",
            "hoodie.bulkinsert.sort.mode": "NONE",
        }
        self._server.sql("set spark.sql.files.maxPartitionBytes=64m")
        self._server.sql("set spark.sql.files.openCostInBytes=64m")
        source = str(workload.folder / "base")
        self._server.call("write", 1800, path=str(table), input=source, mode="overwrite", options=options)
        self._server.sql("reset spark.sql.files.maxPartitionBytes")
        self._server.sql("reset spark.sql.files.openCostInBytes")

    def upsert(self, workload: Workload, table: Path) -> None:
        """One upsert."""
        options = self._options | {"hoodie.datasource.write.operation": "upsert"}
        self._server.call("write", 1800, path=str(table), input=str(workload.batch), mode="append", options=options)

    def totals(self, table: Path) -> Totals:
        """Through hudi-rs."""
        return hudi_totals(table)

    def close(self) -> None:
        """End the JVM."""
        self._server.close()
