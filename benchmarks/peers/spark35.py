"""What the engines on Spark 3.5 share: a session in the interop environment, with jars and settings of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.compression import CODEC, PARQUET_MR
from benchmarks.peers.remote import Remote
from benchmarks.workloads import Totals, Workload
from scripts import interop_env

_SERVER: Final = Path(__file__).with_name("spark35_server.py")
COLUMNS: Final = "id string, day string, ts bigint, amount double, status string, note string, n1 bigint, n2 double"

#: The same for every engine: two cores, four shuffle partitions, zstd at one level.
COMMON: Final[dict[str, str]] = {
    "spark.driver.memory": "4g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.sql.parquet.compression.codec": CODEC,
    **PARQUET_MR,
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


class Spark35:
    """A warm session."""

    def __init__(self, jars: Sequence[Path], conf: Mapping[str, str]) -> None:
        on_path = {"spark.jars": ",".join(map(str, jars)), "spark.driver.extraClassPath": ":".join(map(str, jars))}
        command = [str(interop_env.python()), "-P", str(_SERVER), json.dumps({**COMMON, **on_path, **conf})]
        self._remote = Remote(command, interop_env.environment())

    def sql(self, statement: str) -> list[list[str | None]]:
        rows: list[list[str | None]] = self._remote.call("sql", statement=statement)
        return rows

    def call(self, op: str) -> Any:
        return self._remote.call(op)

    def read(self, paths: Sequence[Path], view: str) -> None:
        self._remote.call("read", paths=[str(path) for path in paths], view=view)

    def read_base(self, workload: Workload, view: str) -> None:
        """Name the base's rows, so that each file is one Spark partition and is written as one file."""
        for key in ("maxPartitionBytes", "openCostInBytes"):
            self.sql(f"set spark.sql.files.{key}=96m")
        self.read(workload.base_files, view)

    def read_normally(self) -> None:
        for key in ("maxPartitionBytes", "openCostInBytes"):
            self.sql(f"reset spark.sql.files.{key}")

    def write(
        self,
        view: str,
        path: Path,
        format_name: str,
        options: Mapping[str, str],
        *,
        mode: str = "append",
        partition: Sequence[str] = (),
    ) -> None:
        request = {"format": format_name, "options": dict(options), "mode": mode, "partition": list(partition)}
        self._remote.call("write", view=view, path=str(path), **request)

    def merge(self, table: str, workload: Workload) -> None:
        """MERGE of the batch by key and partition, the touched partitions as literals:
        what the documentations advise.
        """
        self.read([workload.batch], "batch")
        days = ",".join(f"'{row[0]}'" for row in self.sql("select distinct day from batch"))
        self.sql(
            f"MERGE INTO {table} t USING batch s ON t.id = s.id AND t.day = s.day AND t.day IN ({days}) "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def totals(self, table: str) -> Totals:
        row = self.sql(f"select count(*), count(distinct id), sum(ts), sum(n1) from {table}")[0]
        return Totals(*(int(value or 0) for value in row))

    def close(self) -> None:
        self._remote.close()
