"""Delta Lake 3.3.3 on Spark: MERGE, rewriting files, or with deletion vectors (merge on read: not the same work)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks import environment
from benchmarks.peers.spark35 import Spark35
from benchmarks.workloads import Totals, Workload

CONF: Final[dict[str, str]] = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class DeltaSpark:
    """See the module."""

    def __init__(self, *, vectors: bool) -> None:
        environment.make()
        self._vectors = vectors
        self._spark = Spark35([environment.jar("delta-spark"), environment.jar("delta-storage")], CONF)

    def load(self, workload: Workload, table: Path) -> None:
        """One write of the sorted files."""
        self._spark.read_base(workload, "base")
        options = {"delta.enableDeletionVectors": str(self._vectors).lower()}
        self._spark.write("base", table, "delta", options, mode="overwrite", partition=["day"])
        self._spark.read_normally()

    def upsert(self, workload: Workload, table: Path) -> None:
        """One MERGE, of a table whose log is not in memory."""
        self._spark.call("forget")
        self._spark.merge(f"delta.`{table}`", workload)

    def totals(self, table: Path) -> Totals:
        return self._spark.totals(f"delta.`{table}`")

    def close(self) -> None:
        self._spark.close()
