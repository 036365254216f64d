"""Iceberg 1.12.0 on Spark: MERGE, copy on write."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks import environment
from benchmarks.compression import CODEC, LEVEL
from benchmarks.peers.spark35 import COLUMNS, Spark35
from benchmarks.workloads import Totals, Workload

CONF: Final[dict[str, str]] = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
    "spark.sql.catalog.ice.cache-enabled": "false",
}
_PROPERTIES: Final = (
    "'format-version'='2', 'write.merge.mode'='copy-on-write', "
    f"'write.parquet.compression-codec'='{CODEC}', 'write.parquet.compression-level'='{LEVEL}', "
    "'write.distribution-mode'='none'"
)


class IcebergSpark:
    """A catalog of folders: the table's path is its name. Its metadata hold that path,
    so it must stay where it was made.
    """

    def __init__(self) -> None:
        environment.make()
        self._spark = Spark35([environment.jar("iceberg-spark-runtime-3.5")], CONF)

    def _name(self, table: Path) -> str:
        """The table, in the catalog of its folder: a process that did not load it is told, too,
        before the catalog is first used.
        """
        self._spark.sql(f"set spark.sql.catalog.ice.warehouse={table.parents[1]}")
        return f"ice.`{table.parent.name}`.`{table.name}`"

    def load(self, workload: Workload, table: Path) -> None:
        """One append of the sorted files."""
        name = self._name(table)
        self._spark.sql(
            f"create table {name} ({COLUMNS}) using iceberg partitioned by (day) tblproperties({_PROPERTIES})"
        )
        self._spark.read_base(workload, "base")
        self._spark.sql(f"insert into {name} select * from base")
        self._spark.read_normally()

    def upsert(self, workload: Workload, table: Path) -> None:
        self._spark.merge(self._name(table), workload)

    def totals(self, table: Path) -> Totals:
        return self._spark.totals(self._name(table))

    def close(self) -> None:
        self._spark.close()
