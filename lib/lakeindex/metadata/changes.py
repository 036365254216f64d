"""What an action of the table changes in the metadata table.

Source: ``HoodieTableMetadataUtil.convertMetadataToFilesPartitionRecords`` of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.metadata.metadata_table import ALL_PARTITIONS_KEY, FILES, RecordType, key_of_partition
from lakeindex.metadata.records import Record, files_record


@dataclass(frozen=True, slots=True)
class KeyRun:
    """Record keys of a partition of the table that one record says the same of, in the record index.

    Attributes:
        keys: the record keys, text, each once.
        record: their record; None if they go.
    """

    partition: str
    keys: pa.Array = field(repr=False)
    record: Record | None


@dataclass(frozen=True, slots=True)
class PartitionChange:
    """What changes in one partition of the metadata table.

    Attributes:
        puts: records by their keys.
        deletes: keys whose records go.
        runs: what changes in the record index. A key that is put and goes is put: it has moved.
    """

    puts: Mapping[str, Record] = field(default_factory=dict)
    deletes: frozenset[str] = frozenset()
    runs: tuple[KeyRun, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything changes."""
        return bool(self.puts or self.deletes or self.runs)


MetadataChange: TypeAlias = Mapping[str, PartitionChange]
"""What changes, by partition of the metadata table."""


def files_of_commit(commit: CommitMetadata) -> dict[str, dict[str, int]]:
    """Partition path -> file name -> bytes, of what a commit wrote. What it replaced stays until it is cleaned."""
    added: dict[str, dict[str, int]] = defaultdict(dict)
    for partition, stats in commit.write_stats.items():
        for stat in stats:
            if stat.path is not None:
                added[partition][stat.path.rpartition("/")[2]] = stat.file_size_bytes
    return dict(added)


def change_of_files(files: Mapping[str, Mapping[str, int]]) -> MetadataChange:
    """What new files change in the partition that names them.

    Args:
        files: partition path -> file name -> bytes.
    """
    return {FILES: PartitionChange(_added(files))}


def change_of_deletion(files: Mapping[str, Iterable[str]]) -> MetadataChange:
    """What the deletion of files changes.

    Args:
        files: partition path -> file names.
    """
    puts = {
        key_of_partition(partition): files_record(RecordType.FILES, {}, sorted(names))
        for partition, names in files.items()
    }
    return {FILES: PartitionChange(puts)}


def _added(files: Mapping[str, Mapping[str, int]]) -> dict[str, Record]:
    puts = {key_of_partition(path): files_record(RecordType.FILES, dict(sizes)) for path, sizes in files.items()}
    partitions = dict.fromkeys(sorted(puts), 0)
    return {ALL_PARTITIONS_KEY: files_record(RecordType.ALL_PARTITIONS, partitions), **puts}
