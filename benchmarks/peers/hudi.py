"""Hudi itself: release 1.2.0 in a warm Spark 3.5 session of the interop environment, with one of its indexes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from benchmarks.compression import CODEC, HUDIS_OWN
from benchmarks.measuring import apart
from benchmarks.peers.base import hudi_totals
from benchmarks.peers.spark35 import Spark35
from benchmarks.workloads import Totals, Workload
from scripts import interop_env

OPTIONS: Final[dict[str, str]] = {
    "hoodie.table.name": "orders",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "day",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.parquet.compression.codec": CODEC,
    "hoodie.upsert.shuffle.parallelism": "4",
    "hoodie.index.type": "BLOOM",
}
BLOOM: Final[dict[str, str]] = {}  # as OPTIONS have it
#: Table version 6 without a metadata table: the kind of table lakeindex writes.
VERSION_6: Final[dict[str, str]] = {
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.metadata.enable": "false",
}
SIMPLE: Final[dict[str, str]] = {"hoodie.index.type": "SIMPLE", "hoodie.simple.index.parallelism": "4"}
BUCKET: Final[dict[str, str]] = {
    "hoodie.index.type": "BUCKET",
    "hoodie.storage.layout.type": "BUCKET",
    "hoodie.storage.layout.partitioner.class": "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner",
}
RECORD: Final[dict[str, str]] = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
OWN: Final[dict[str, str]] = {"hoodie.parquet.compression.codec": HUDIS_OWN}
BULK: Final[dict[str, str]] = {
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.bulkinsert.sort.mode": "NONE",
}
CONF: Final[dict[str, str]] = {
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}


class Hudi:
    """Hudi 1.2.0 with its defaults (table version 9, metadata table, BLOOM) but for the given options."""

    def __init__(self, options: Mapping[str, str]) -> None:
        interop_env.make()
        self._options = OPTIONS | dict(options)
        self._spark = Spark35([interop_env.bundle("1.2.0")], CONF)

    def _of(self, workload: Workload) -> dict[str, str]:
        """A bucket a file of the other layouts, so that all tables have as many files."""
        if self._options["hoodie.index.type"] != "BUCKET":
            return self._options
        return self._options | {"hoodie.bucket.index.num.buckets": str(workload.files_per_partition)}

    def load(self, workload: Workload, table: Path) -> None:
        """Bulk insert of the sorted files, unsorted mode: one base file a generated file."""
        self._spark.read_base(workload, "base")
        self._spark.write("base", table, "hudi", self._of(workload) | BULK, mode="overwrite")
        self._spark.read_normally()

    def upsert(self, workload: Workload, table: Path) -> None:
        """One upsert, or deletion: Hudi calls them so, too."""
        self._spark.read([workload.batch], "batch")
        options = self._of(workload) | {"hoodie.datasource.write.operation": workload.operation}
        self._spark.write("batch", table, "hudi", options)

    def totals(self, table: Path) -> Totals:
        return apart(hudi_totals, table)

    def close(self) -> None:
        self._spark.close()
