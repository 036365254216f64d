"""What an action of the table changes in the metadata table, by partition of it, and in each of its file groups.

Source: ``HoodieTableMetadataUtil.convertMetadataToFilesPartitionRecords`` of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import field

from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.hfile.reading import Entry
from lakeindex.frozen import Frozen
from lakeindex.metadata.metadata_keys import group_numbers, groups_of
from lakeindex.metadata.metadata_records import Record, encode_record, files_record
from lakeindex.metadata.metadata_table import (
    ALL_PARTITIONS_KEY,
    FILES,
    RECORD_INDEX,
    RecordType,
    file_id,
    key_of_partition,
)
from lakeindex.metadata.slices import FileSlice


class KeyRun(Frozen):
    """Record keys of a partition of the table that one record says the same of, in the record index.

    Attributes:
        keys: the record keys, text, each once.
        record: their record; None if they go.
    """

    partition: str
    keys: pa.Array
    record: Record | None


class PartitionChange(Frozen):
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
    puts = {
        key_of_partition(partition): files_record(RecordType.FILES, {}, sorted(names))
        for partition, names in files.items()
    }
    return {FILES: PartitionChange(puts)}


def _added(files: Mapping[str, Mapping[str, int]]) -> dict[str, Record]:
    puts = {key_of_partition(path): files_record(RecordType.FILES, dict(sizes)) for path, sizes in files.items()}
    partitions = dict.fromkeys(sorted(puts), 0)
    return {ALL_PARTITIONS_KEY: files_record(RecordType.ALL_PARTITIONS, partitions), **puts}


class GroupChange(Frozen):
    """What changes in a file group.

    Attributes:
        group: its newest slice; one without files if the change begins it.
        puts: keys, each once and in any order, with the record that is put for all of them.
        deletes: keys whose records go, none of them among those that are put.
    """

    group: FileSlice
    puts: tuple[tuple[Sequence[str], Record], ...]
    deletes: frozenset[str]

    @property
    def put_count(self) -> int:
        return sum(len(keys) for keys, _ in self.puts)

    def entries(self, schema: str) -> list[Entry]:
        """What is put, in the order of the keys' bytes, encoded with an Avro schema (JSON)."""
        found: list[Entry] = []
        for keys, record in self.puts:
            value = encode_record(record, schema)
            found += [(key.encode(), value) for key in keys]
        found.sort()
        return found


def by_group(groups: Sequence[FileSlice], change: PartitionChange, time: str) -> Iterator[GroupChange]:
    """What changes in each file group of a partition; groups in which nothing does are left out.

    Args:
        groups: newest slices of all file groups of the partition.
        time: instant of a group that the change begins: the first one of a partition of the table, in a partitioned
            record index.
    """
    puts: dict[FileSlice, list[tuple[Sequence[str], Record]]] = defaultdict(list)
    deletes: dict[FileSlice, set[str]] = defaultdict(set)
    if change.puts or change.deletes:
        for number, key in zip(groups_of(list(change.puts), len(groups)), change.puts, strict=True):
            puts[groups[number]].append(((key,), change.puts[key]))
        gone = sorted(change.deletes)
        for number, key in zip(groups_of(gone, len(groups)), gone, strict=True):
            deletes[groups[number]].add(key)
    for run in change.runs:
        within = _groups_within(groups, run.partition, time)
        for number, keys in _split(run.keys, len(within)):
            if run.record is None:
                deletes[within[number]].update(keys)
            else:
                puts[within[number]].append((keys, run.record))
    for group in sorted({*puts, *deletes}, key=lambda one: one.file_id):
        kept = tuple(puts.get(group, ()))
        left = deletes.get(group, set())
        left.difference_update(*(some for some, _ in kept if left))
        yield GroupChange(group, kept, frozenset(left))


def is_partitioned(groups: Sequence[FileSlice]) -> bool:
    """Whether each file group of a record index has keys of one partition of the table."""
    return not any(one.is_of(None) for one in groups)


def _groups_within(groups: Sequence[FileSlice], data_partition: str, time: str) -> list[FileSlice]:
    """The file groups that keys of a partition of the table are in."""
    if not is_partitioned(groups):
        return list(groups)
    within = [one for one in groups if one.is_of(data_partition)]
    if within:
        return within
    return [FileSlice(RECORD_INDEX, file_id(RECORD_INDEX, 0, data_partition), time, None, ())]


def _split(keys: pa.Array, count: int) -> Iterator[tuple[int, list[str]]]:
    if not len(keys):
        return
    if count == 1:
        yield 0, keys.to_pylist()
        return
    numbers = group_numbers(keys, count)
    order = np.argsort(numbers, kind="stable")
    found, starts = np.unique(numbers[order], return_index=True)
    ends = [*starts[1:], len(order)]
    for number, start, end in zip(found, starts, ends, strict=True):
        yield int(number), keys.take(pa.array(order[start:end])).to_pylist()
