"""Options of RECORD_INDEX and RECORD_LEVEL_INDEX."""

from __future__ import annotations

from typing import Final

from lakeindex.frozen import Frozen
from lakeindex.options.option import FLAG, Option, OptionArea, flag, growth, whole


class RecordOptions(Frozen):
    """How a record index is cut into shards."""

    moves_rows: bool = False
    min_shards: int = 10
    max_shards: int = 10_000
    shard_bytes: int = 1_073_741_824
    growth: float = 2.0


# A table of options, not code: the formatter would give each argument a line.
# fmt: off
AREA: Final = OptionArea(
    "RECORD_INDEX and RECORD_LEVEL_INDEX",
    RecordOptions,
    (
        Option("hoodie.record.index.update.partition.path", "moves_rows", flag, FLAG,
               "RECORD_INDEX, if a stored key arrives with another partition: "
               "`true` moves the row to that partition, `false` updates the row in its present partition."),
        Option("hoodie.metadata.record.index.min.filegroup.count", "min_shards", whole(1, 100_000),
               "1 .. 100000",
               "RECORD: minimum number of shards. If the maximum has the same value, this is the number of shards."),
        Option("hoodie.metadata.record.index.max.filegroup.count", "max_shards", whole(1, 100_000),
               "1 .. 100000", "RECORD: maximum number of shards."),
        Option("hoodie.metadata.global.record.level.index.min.filegroup.count", "min_shards", whole(1, 100_000),
               "1 .. 100000", "RECORD: name of `hoodie.metadata.record.index.min.filegroup.count` since Hudi 1.1."),
        Option("hoodie.metadata.global.record.level.index.max.filegroup.count", "max_shards", whole(1, 100_000),
               "1 .. 100000", "RECORD: name of `hoodie.metadata.record.index.max.filegroup.count` since Hudi 1.1."),
        Option("hoodie.metadata.record.index.max.filegroup.size", "shard_bytes", whole(48), "bytes, 48 or more",
               "RECORD: target size of a shard when the index is built or compacted, at 48 bytes for each key."),
        Option("hoodie.metadata.record.index.growth.factor", "growth", growth, "1 or more",
               "RECORD: expected growth of the table. The number of shards is chosen for the table's keys "
               "times this factor."),
    ),
)
# fmt: on
