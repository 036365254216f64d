"""What every peer of the benchmark can do, and what they share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.workloads import Totals, Workload

_STEP_ROWS: Final = 5_000_000


class Peer(Protocol):
    """One engine in a process of its own. Everything slow to start is started by the constructor."""

    def load(self, workload: Workload, table: Path) -> None:
        """Make the base table in a folder that does not exist yet."""

    def upsert(self, workload: Workload, table: Path) -> None:
        """Upsert the workload's batch: the step that is timed."""

    def totals(self, table: Path) -> Totals:
        """Judge the table after the upsert."""

    def close(self) -> None:
        """End whatever the constructor started."""


def in_steps(workload: Workload, files: Sequence[Path]) -> Iterator[Sequence[Path]]:
    """Base files in steps of at most five million rows: what a peer without a JVM holds in memory at once."""
    step = max(1, _STEP_ROWS * len(workload.base_files) // workload.base_rows)
    for start in range(0, len(files), step):
        yield files[start : start + step]


def totals_of(rows: pa.Table) -> Totals:
    return Totals(
        count=rows.num_rows,
        distinct=pc.count_distinct(rows["id"]).as_py(),
        sum_ts=sum(pc.sum(chunk).as_py() or 0 for chunk in rows["ts"].chunks),  # 20 million would overflow at once
        sum_n1=pc.sum(rows["n1"]).as_py(),
    )


def totals_of_files(files: list[Path]) -> Totals:
    columns = ["id", "ts", "n1"]
    tables = [pq.read_table(path, columns=columns, partitioning=None).cast(_PLAIN) for path in files]
    return totals_of(pa.concat_tables(tables))


_PLAIN = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("n1", pa.int64())])


def hudi_totals(table: Path) -> Totals:
    """Totals of a Hudi table as hudi-rs sees it: a reader that is neither ours nor Hudi's own."""
    from hudi import HudiTableBuilder

    slices = HudiTableBuilder.from_base_uri(str(table)).build().get_file_slices()
    return totals_of_files([table / file_slice.base_file_relative_path() for file_slice in slices])
