"""What page checksums cost: process time of decoding, encoding and copying one base file, with them and without.

python -m benchmarks.checksums
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.parquet.pages import open_pages, read_groups
from lakeindex.parquet.splice import parts_of, splice

ROWS = 200_000
GROUP_ROWS = 25_000
TURNS = 25


def rows() -> pa.Table:
    """Numbers and texts, some of which repeat."""
    draw = np.random.default_rng(1)
    return pa.table(
        {
            "id": [f"k{n:09d}" for n in range(ROWS)],
            "a": draw.normal(size=ROWS),
            "b": draw.integers(0, 10**9, ROWS),
            "c": [f"text {n}" for n in draw.integers(0, 10**6, ROWS)],
            "d": draw.integers(0, 100, ROWS),
            "e": [str(n) for n in draw.integers(0, 50, ROWS)],
        }
    )


def encoded(table: pa.Table, *, checksums: bool) -> pa.Buffer:
    """A file of the table, with a key/value as ours have."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", store_schema=False, write_page_checksum=checksums
    ) as writer:
        writer.write_table(table, row_group_size=GROUP_ROWS)
        writer.add_key_value_metadata({"of": "the benchmark"})
    return sink.getvalue()


def best(*works: Callable[[], object]) -> list[float]:
    """Least process time of each of them, milliseconds; they take turns."""
    took: list[list[float]] = [[] for _ in works]
    for _ in range(TURNS):
        for work, times in zip(works, took, strict=True):
            started = time.process_time()
            work()
            times.append(time.process_time() - started)
    return [1000 * min(times) for times in took]


def main() -> None:
    """Print the figures."""
    table = rows()
    data = encoded(table, checksums=True)
    metadata = pq.read_metadata(pa.BufferReader(data))
    parts = parts_of(memoryview(data), metadata)
    if parts is None:
        raise SystemExit("the file cannot be taken apart")
    groups = range(metadata.num_row_groups)
    print(f"{len(data) / 1e6:.1f} MB, {metadata.num_row_groups * metadata.num_columns} column chunks; milliseconds")
    plain, compared = best(
        lambda: pq.ParquetFile(pa.BufferReader(data)).read_row_groups(groups, use_threads=False),
        lambda: read_groups(open_pages(pa.BufferReader(data)), groups, use_threads=False),
    )
    print(f"decode {plain:.1f}, and compare {compared:.1f}")
    without, summed = best(lambda: encoded(table, checksums=False), lambda: encoded(table, checksums=True))
    print(f"encode {without:.1f}, with checksums {summed:.1f}")
    (copied,) = best(lambda: list(splice(parts, parts.groups())))
    print(f"copy all chunks and compare {copied:.1f}")


if __name__ == "__main__":
    main()
