"""The metadata table of a table: which partitions it has, and where its own timeline is.

It is a table of its own, ``.hoodie/metadata``, merged on read: each of its partitions is a few file groups, a file
group's slice a base file (HFile) and logs. Its timeline is laid out as that of the table itself, and an instant of it
that keeps up with an action of the table has that action's time.

Source: ``MetadataPartitionType``, ``HoodieTableMetadata`` of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

from lakeindex.format.partitions import escape_partition_value
from lakeindex.frozen import Frozen
from lakeindex.storage.port import Storage
from lakeindex.timeline.layout import LAYOUT_1, LAYOUT_2, TimelineLayout
from lakeindex.timeline.timeline import Timeline

METADATA_ROOT: Final = ".hoodie/metadata"

FILES: Final = "files"
COLUMN_STATS: Final = "column_stats"
PARTITION_STATS: Final = "partition_stats"
BLOOM_FILTERS: Final = "bloom_filters"
RECORD_INDEX: Final = "record_index"
ALL_PARTITIONS_KEY: Final = "__all_partitions__"
UNPARTITIONED_KEY: Final = "."
BLOCK_BYTES: Final = 65_536
"""Decoded size at which a data block of a base file ends, and one of a log of filters: a filter is alone in its block,
and a compaction takes the block.
"""

GROUP_PREFIXES: Final = {
    FILES: "files",
    COLUMN_STATS: "col-stats",
    PARTITION_STATS: "partition-stats",
    BLOOM_FILTERS: "bloom-filters",
    RECORD_INDEX: "record-index",
}
"""What the file ids of a partition that is kept up begin with."""

_NATIVE_LOGS: Final = 10
_GROUP_DIGITS: Final = 4
_GROUP_TAIL: Final = re.compile(r"(?P<data>.*)-[0-9]{4,}-0")
_OLD: Final = f"{METADATA_ROOT}/.hoodie"
_LAYOUTS: Final = {
    LAYOUT_1: TimelineLayout(LAYOUT_1, _OLD, f"{_OLD}/archived"),
    LAYOUT_2: TimelineLayout(LAYOUT_2, f"{_OLD}/timeline", f"{_OLD}/timeline/history"),
}


class RecordType(IntEnum):
    """What a record says; Hudi's ordinals."""

    ALL_PARTITIONS = 1
    FILES = 2
    COLUMN_STATS = 3
    BLOOM_FILTER = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


class MetadataTable(Frozen):
    """The metadata table that readers of a table use.

    Attributes:
        version: version of both tables.
        partitions: those that readers use.
    """

    storage: Storage
    version: int
    layout: TimelineLayout
    partitions: tuple[str, ...]

    @staticmethod
    def of(storage: Storage, version: int, layout: int, partitions: tuple[str, ...]) -> MetadataTable | None:
        """The metadata table of a table; None if readers use none."""
        return MetadataTable(storage, version, _LAYOUTS[layout], partitions) if partitions else None

    @property
    def has_native_logs(self) -> bool:
        """Whether what is written to it are logs that are whole files; those that are there may be of both kinds."""
        return self.version >= _NATIVE_LOGS

    def load_timeline(self) -> Timeline:
        return Timeline.listing(self.storage, self.layout)

    def folder(self, partition: str) -> str:
        """Folder of one of its partitions, relative to the table's."""
        return f"{METADATA_ROOT}/{partition}"


def file_id(partition: str, group: int, data_partition: str | None = None) -> str:
    """Id of a file group of the metadata table.

    Args:
        partition: one of :data:`GROUP_PREFIXES`.
        data_partition: partition of the table that its keys are of, in a partitioned record index; None elsewhere.
    """
    return f"{GROUP_PREFIXES[partition]}{scope_of(data_partition)}-{group:0{_GROUP_DIGITS}d}-0"


def is_of_data_partition(group_id: str, partition: str, data_partition: str | None) -> bool:
    """Whether a file group has keys of a partition of the table; None: whether it has keys of all of them."""
    return scope_of_group(group_id, partition) == scope_of(data_partition)


def scope_of_group(group_id: str, partition: str) -> str | None:
    """What the ids of all file groups have in common whose keys are of one partition of the table, or of all of them;
    None: it is no id of such a group.
    """
    match = _GROUP_TAIL.fullmatch(group_id.removeprefix(GROUP_PREFIXES[partition]))
    return None if match is None else match["data"]


def scope_of(data_partition: str | None) -> str:
    """The same of the file groups of a partition of the table, as :func:`file_id` takes it."""
    return "" if data_partition is None else f"-{_escaped(data_partition)}"


def _escaped(data_partition: str) -> str:
    """A partition's path within a file id: ``PartitionPathEncodeUtils.escapeFileName`` of Hudi 1.2."""
    return escape_partition_value(data_partition).replace("_", "%5F").replace("-", "%2D")


def key_of_partition(partition_path: str) -> str:
    """Key of the record about a partition's files."""
    return partition_path or UNPARTITIONED_KEY


def partition_of_key(key: str) -> str:
    """The inverse of :func:`key_of_partition`."""
    return "" if key == UNPARTITIONED_KEY else key
