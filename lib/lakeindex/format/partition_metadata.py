"""``.hoodie_partition_metadata``: the file that makes a folder a partition.

Properties text with ``commitTime`` (the instant that created the partition) and ``partitionDepth`` (number of path
levels, 0 on a non-partitioned table). Tables with ``hoodie.partition.metafile.use.base.format=true`` keep a Parquet
(or ORC) file of that name and suffix instead; being there is all a reader needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakeindex.errors import TableCorruptError
from lakeindex.format.instants import iso_of_instant_time
from lakeindex.format.properties import format_properties, parse_properties

PARTITION_METADATA_FILE: Final = ".hoodie_partition_metadata"
PARTITION_METADATA_FILES: Final = frozenset(
    {PARTITION_METADATA_FILE, PARTITION_METADATA_FILE + ".parquet", PARTITION_METADATA_FILE + ".orc"}
)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Content of the file.

    Attributes:
        commit_time: the instant that created the partition.
        depth: number of levels of the partition path.
    """

    commit_time: str
    depth: int


def partition_depth(partition_path: str) -> int:
    """Number of levels of a partition path; 0 for the non-partitioned one."""
    return partition_path.count("/") + 1 if partition_path else 0


def partition_metadata_path(partition_path: str) -> str:
    """Path of the (text) file of a partition, relative to the table's folder."""
    return f"{partition_path}/{PARTITION_METADATA_FILE}" if partition_path else PARTITION_METADATA_FILE


def parse_partition_metadata(data: bytes, source: str = PARTITION_METADATA_FILE) -> PartitionMetadata:
    """Read the text form.

    Raises:
        TableCorruptError: a key is missing or the depth is no number.
    """
    entries = parse_properties(data, source)
    try:
        return PartitionMetadata(entries["commitTime"], int(entries["partitionDepth"]))
    except (KeyError, ValueError) as error:
        raise TableCorruptError(
            f"{source} is damaged: {error}", culprit=source, hint="it must hold commitTime and partitionDepth"
        ) from None


def format_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """Write the text form; a function of its content, so that two writers of one plan write the same bytes."""
    created = iso_of_instant_time(metadata.commit_time) or metadata.commit_time
    return format_properties(
        {"commitTime": metadata.commit_time, "partitionDepth": str(metadata.depth)},
        comments=("partition metadata", created),
    )
