"""A table of files that are there: ``python -m benchmarks.imports [--runs N]``.

lineitem of TPC-H at scale 1 as one file and in folders of its 84 months, imported by lakeindex, loaded by its bulk
insert,
and put into a log by delta-rs, which leaves the files where they are. Each run has a process of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.measuring import Usage, apart, measured, restore
from benchmarks.tpch import inputs
from benchmarks.workloads import DATA

_KEYS: Final = {"key": ["l_orderkey", "l_linenumber"], "ordering": "version"}
_FEW_GROUPS: Final = {"max_open_files": 100, "min_rows_per_group": 50_000, "max_rows_per_group": 122_880}
WAYS: Final = {
    "import": "lakeindex import, one file",
    "bulk": "lakeindex bulk insert of it",
    "folders": "lakeindex import, 84 folders",
    "delta": "delta-rs convert_to_deltalake, 84 folders (copies nothing)",
}


def _made(way: str, source: str, table: str) -> int:
    import lakeindex

    if way == "delta":
        from deltalake import DeltaTable, convert_to_deltalake
        from deltalake.schema import Field, PrimitiveType, Schema

        by = Schema([Field("ship_month", PrimitiveType("string"))])
        convert_to_deltalake(source, partition_by=by, partition_strategy="hive")
        return int(DeltaTable(source).to_pyarrow_dataset().count_rows())
    if way == "bulk":
        made = lakeindex.create_table(table, like=source, partition="ship_month", **_KEYS)
        return made.bulk_insert(source).inserts
    partition = "ship_month" if way == "import" else None
    return lakeindex.import_table(source, table, partition=partition, **_KEYS).inserted


def _once(way: str, source: str, table: str) -> tuple[int, Usage]:
    import lakeindex.api.table  # noqa: F401 - not measured

    with measured(os.getpid()) as usage:
        rows = _made(way, source, table)
    return rows, usage


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    runs = parser.parse_args().runs
    given = inputs("sf1")
    print("| what | median s | CPU s | peak MB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="import-", dir=DATA) as folder:
        folders = Path(folder) / "folders"
        by = ds.partitioning(pa.schema([("ship_month", pa.string())]), flavor="hive")
        rows = ds.dataset(given.file("load"))
        ds.write_dataset(rows, folders, format="parquet", partitioning=by, **_FEW_GROUPS)
        for way, title in WAYS.items():
            found = []
            for number in range(runs):
                source = given.file("load") if way in ("import", "bulk") else Path(folder) / "copy"
                if source.name == "copy":
                    restore(folders, source)
                count, usage = apart(_once, way, str(source), f"{folder}/{way}{number}/t")
                if count != given.rows["load"]:
                    raise SystemExit(f"{way}: {count} rows")
                found.append(usage)
            seconds, cpu = (statistics.median(getattr(u, f) for u in found) for f in ("seconds", "cpu_seconds"))
            peak = statistics.median(usage.peak_bytes for usage in found) / 2**20
            print(f"| {title} | {seconds:.2f} | {cpu:.1f} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
