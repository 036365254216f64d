"""RECORD_INDEX and RECORD_LEVEL_INDEX: locations in sorted Parquet shards inside the table, or in Hudi's metadata table
where that has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lakeindex.index.record.options import RecordOptions
from lakeindex.index.record.shards import split
from lakeindex.index.record.store import RecordStore
from lakeindex.index.stored.contract import StoredIndex
from lakeindex.index.stored.store_context import StoreContext
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig


@dataclass(frozen=True, slots=True)
class RecordIndex(StoredIndex):
    """The record index; "global" is part of the spec."""

    metadata_partition: ClassVar[str | None] = "record_index"

    spec: IndexSpec

    def open(self, context: StoreContext) -> RecordStore:
        """The shards of a table."""
        return RecordStore(context)

    def arrange(self, delta: pa.Table, context: StoreContext) -> Sequence[pa.Table]:
        """A row group a shard, of as many shards as what was built has."""
        return split(delta, RecordStore(context).shard_count)

    def moves_rows(self, config: WriteConfig) -> bool:
        """As ``hoodie.record.index.update.partition.path`` says."""
        return config.of(RecordOptions).moves_rows


def make_index(spec: IndexSpec) -> RecordIndex:
    """The kind."""
    return RecordIndex(spec)
