"""Peak memory of a streaming reader: ``python -m benchmarks.streaming --rows 20000000 FOLDER``.

Makes a table in FOLDER, unless one is there, and reads it with ``table.scan().to_batches()`` in a process of its own.
That says how many rows it saw, how long it took, and the most memory that it held (resident, with interpreter and
libraries).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakeindex
from tests.builders import make_table

READ = """
import sys, time
from pathlib import Path
import lakeindex
started, rows = time.perf_counter(), 0
for batch in lakeindex.open_table(sys.argv[1]).scan().to_batches():
    rows += batch.num_rows
status = Path("/proc/self/status").read_text()  # of this process alone: ru_maxrss counts in who started it
peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
print(f"{rows:,} rows in {time.perf_counter() - started:.1f} s, peak {peak:,.0f} MB")
"""
PIECE = 500_000
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("day", pa.string()),
        ("ts", pa.int64()),
        ("amount", pa.float64()),
        ("note", pa.string()),
    ]
)


def write_input(folder: Path, rows: int) -> None:
    """The rows as Parquet files, a piece each."""
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, rows, PIECE):
        numbers = np.arange(start, min(start + PIECE, rows))
        table = pa.table(
            {
                "id": numbers,
                "day": [f"d{n * 10 // rows}" for n in numbers],
                "ts": numbers,
                "amount": (numbers * 7919 % 10_007) / 7,
                "note": [f"note {n * 104_729 % 1_000_003}" for n in numbers],
            },
            schema=SCHEMA,
        )
        pq.write_table(table, folder / f"{start:010d}.parquet")


def main() -> None:
    """Make the table, and read it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=20_000_000)
    asked = parser.parse_args()
    table = asked.folder / "table"
    if not table.exists():
        write_input(asked.folder / "input", asked.rows)
        make_table(table, schema=SCHEMA)
        lakeindex.open_table(str(table)).upsert(str(asked.folder / "input" / "*.parquet"))
    subprocess.run([sys.executable, "-c", READ, str(table)], check=True)


if __name__ == "__main__":
    main()
