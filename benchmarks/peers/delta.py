"""delta-rs: MERGE of the ``deltalake`` package, the fastest peer without a JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.table import TableMerger

from benchmarks.bases import DELETE
from benchmarks.compression import CODEC, LEVEL, PAGE_ROWS, ROW_GROUP_ROWS
from benchmarks.measuring import apart
from benchmarks.peers.base import in_steps, totals_of
from benchmarks.workloads import Totals, Workload

#: The codec and level of all, and the row groups and pages of lakeindex.
EQUAL: Final = WriterProperties(
    compression=CODEC.upper(),
    compression_level=LEVEL,
    max_row_group_size=ROW_GROUP_ROWS,
    data_page_row_count_limit=PAGE_ROWS,
)


def merge(table: str | Path, batch: pa.Table, writer: WriterProperties | None) -> TableMerger:
    """A MERGE of a batch by key and partition, with the touched partitions as literals; what it does is yet to say."""
    days = ",".join(f"'{day}'" for day in sorted(pc.unique(batch["day"]).to_pylist()))
    return DeltaTable(table).merge(
        source=batch,
        predicate=f"t.id = s.id AND t.day = s.day AND t.day IN ({days})",
        source_alias="s",
        target_alias="t",
        writer_properties=writer,
    )


class DeltaRs:
    """Merge by key and partition, with the touched partitions as literals: what its documentation advises."""

    def __init__(self, writer: WriterProperties | None) -> None:
        self._writer = writer

    def load(self, workload: Workload, table: Path) -> None:
        """Appends of one file a day, so that each day has as many files as everywhere."""
        for part in range(workload.files_per_partition):
            for files in in_steps(workload, workload.base_files[part :: workload.files_per_partition]):
                rows = pa.concat_tables([pq.read_table(path) for path in files])
                write_deltalake(table, rows, partition_by=["day"], mode="append", writer_properties=self._writer)

    def upsert(self, workload: Workload, table: Path) -> None:
        """One MERGE, which updates and inserts, or deletes."""
        merger = merge(table, pq.read_table(workload.batch), self._writer)
        if workload.operation == DELETE:
            merger.when_matched_delete().execute()
        else:
            merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def totals(self, table: Path) -> Totals:
        return apart(_totals, table)

    def close(self) -> None:
        """Nothing runs on."""


def _totals(table: Path) -> Totals:
    return totals_of(DeltaTable(table).to_pyarrow_table(columns=["id", "ts", "n1"]))
