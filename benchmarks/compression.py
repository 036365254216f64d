"""One codec and level for every engine: what is compared is not how hard each of them compresses.

Level 1 is what pyarrow takes for zstd, and so lakeindex and the floor;
parquet-mr and delta-rs take 3 if they are not told.
"""

from __future__ import annotations

from typing import Final

CODEC: Final = "zstd"
LEVEL: Final = 1
ROW_GROUP_ROWS: Final = 25_000
PAGE_ROWS: Final = 20_000
"""Bounds of lakeindex's row groups and pages, for engines that can be told."""
HUDIS_OWN: Final = "gzip"
"""What Hudi takes if it is not told."""
SAID: Final = f"{CODEC} level {LEVEL}"
"""How results state it."""

PARQUET_MR: Final = {"spark.hadoop.parquet.compression.codec.zstd.level": str(LEVEL)}
"""Setting of a Spark session for what parquet-mr writes: Hudi, Delta and Iceberg."""
