"""One codec and level for every engine, so that how hard each compresses makes no difference.

Level 1 is pyarrow's default for zstd, and so that of lakeindex and the floor; parquet-mr's and delta-rs's is 3.
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
