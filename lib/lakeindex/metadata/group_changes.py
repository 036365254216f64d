"""What a change of a partition of the metadata table is in each of its file groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakeindex.format.hfile.reading import Entry
from lakeindex.metadata.changes import PartitionChange
from lakeindex.metadata.groups import group_numbers, groups_of
from lakeindex.metadata.metadata_table import RECORD_INDEX, file_id
from lakeindex.metadata.records import Record, encode_record
from lakeindex.metadata.slices import FileSlice


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What changes in a file group.

    Attributes:
        group: its newest slice; one without files if the change begins it.
        puts: keys, each once and in any order, with the record that is put for all of them.
        deletes: keys whose records go, none of them among those that are put.
    """

    group: FileSlice
    puts: tuple[tuple[Sequence[str], Record], ...] = field(repr=False)
    deletes: frozenset[str] = field(repr=False)

    @property
    def put_count(self) -> int:
        """How many keys are put."""
        return sum(len(keys) for keys, _ in self.puts)

    def entries(self, schema: str) -> list[Entry]:
        """What is put, in the order of the keys' bytes, encoded.

        Args:
            schema: the Avro schema in use, JSON.
        """
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
    """The keys of each file group, by its number."""
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
