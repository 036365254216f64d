"""What an action of the table changes in every partition that its metadata table has.

Each follows from what the action says it did, and from the files: whoever finishes the action of a writer that died
finds the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto

from lakeindex.files.file_system_view import named_snapshot, snapshot
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.file_names import names_by_partition
from lakeindex.format.instants import comparable
from lakeindex.metadata.changes import (
    MetadataChange,
    PartitionChange,
    change_of_deletion,
    change_of_files,
    files_of_commit,
)
from lakeindex.metadata.group_changes import is_partitioned
from lakeindex.metadata.indexes.bloom_filters import filters_of_gone, filters_of_new
from lakeindex.metadata.metadata_table import PARTITION_STATS, RECORD_INDEX
from lakeindex.metadata.new_files import NewFile, read_new_files
from lakeindex.metadata.reading import MetadataView
from lakeindex.metadata.statistics import statistics_of_gone, statistics_of_touched
from lakeindex.metadata_upkeep.moved_keys import MovedKeys, moved_keys, record_index_change, returned_keys, said_moves
from lakeindex.table.properties import TableProperties


class KeyScope(Enum):
    """Where a key is unique: in the table, or in its partition, so that it may be in several, of which a global record
    index knows one. What was decided before is done, whatever that index says.
    """

    TABLE = auto()
    PARTITION = auto()
    PARTITION_DECIDED = auto()


def change_of_commit(
    view: MetadataView, properties: TableProperties, time: str, commit: CommitMetadata, keys: KeyScope = KeyScope.TABLE
) -> MetadataChange:
    """What a commit changes.

    Args:
        view: the metadata table, before it.
        properties: the table's.
        time: the commit's instant.
        commit: what it did.
        keys: where a key is unique.

    Raises:
        TableCorruptError: a file that it wrote or replaced cannot be read.
        MetadataTableError: it puts a key into two file groups, or into another than it is in, and there is a global
            record index.
    """
    files = files_of_commit(commit)
    new = read_new_files(view.table, files)
    earlier = [one for one in view.data.pending_writes if comparable(one.time) < comparable(time)]
    change = {
        **change_of_files(files),
        **_statistics(view, new, _touched(commit), tight=not earlier),
        **filters_of_new(view.table, new, time),
    }
    if RECORD_INDEX not in view.table.partitions:
        return change
    moved = moved_keys(view.table.storage, snapshot(view.table.storage, view.data), commit)
    return {**change, **_of_keys(view, properties, moved, keys)}


def change_of_gone(view: MetadataView, files: Mapping[str, Sequence[str]]) -> MetadataChange:
    """What the deletion of files that nobody reads any more changes.

    Args:
        view: the metadata table.
        files: partition path -> file names.

    Raises:
        TableCorruptError: the definitions of the indexes, or the newest commit, cannot be read.
    """
    return {
        **change_of_deletion(files),
        **statistics_of_gone(view.table, files, view.data.schema_text(view.table.storage)),
        **filters_of_gone(view.table, files),
    }


def change_of_undone(
    view: MetadataView,
    properties: TableProperties,
    time: str,
    paths: Iterable[str],
    returned: frozenset[str] | None,
    keys: KeyScope = KeyScope.TABLE,
) -> MetadataChange:
    """What the roll-back of an instant changes that a compaction has taken in; its files are still there.

    Args:
        view: the metadata table.
        properties: the table's.
        time: the instant, which is pending.
        paths: its data files.
        returned: partitions in which it replaced file groups, which are live again; None if that is not known.
        keys: where a key is unique.

    Raises:
        TableCorruptError: a file cannot be read.
    """
    listed = frozenset(paths)
    gone = names_by_partition(listed)
    others = [one for one in view.data.pending_writes if one.time != time]
    replaced = any(names.completed_action(one.action) == names.REPLACE_COMMIT for one in view.data.find(time))
    if returned is None:
        returned = view.listing().partitions if replaced else frozenset()
    touched: dict[str, frozenset[str]] = dict.fromkeys((*gone, *returned), frozenset())
    change = {**change_of_gone(view, gone), **_statistics(view, (), touched, tight=not others)}
    if RECORD_INDEX not in view.table.partitions:
        return change
    before = snapshot(view.table.storage, view.data)
    moved = returned_keys(view.table.storage, before, listed, everywhere=replaced)
    return {**change, **_of_keys(view, properties, moved, keys)}


def _touched(commit: CommitMetadata) -> dict[str, frozenset[str]]:
    """Partitions in which a commit wrote or replaced something -> ids of those file groups."""
    found: dict[str, set[str]] = defaultdict(set)
    for partition, stats in commit.write_stats.items():
        found[partition] |= {one.file_id for one in stats if one.path is not None}
    for partition, file_id in commit.replaced():
        found[partition].add(file_id)
    return {partition: frozenset(ids) for partition, ids in found.items()}


def _statistics(
    view: MetadataView, new: Sequence[NewFile], touched: Mapping[str, frozenset[str]], *, tight: bool
) -> MetadataChange:
    """What changes in the statistics of files and of partitions.

    Args:
        view: the metadata table. Which files are live, it says itself: its readers have no others.
        new: files that come.
        touched: partition path -> ids of file groups whose files of before are live no longer.
        tight: no other write is pending whose records could come later, and stand before these.
    """
    staying: dict[str, dict[str, int]] = {}
    if PARTITION_STATS in view.table.partitions:
        before = named_snapshot(view.table.storage, view.data, view.listing().files)
        for partition, gone in touched.items():
            files = (one for one in before.base_files(partition) if one.file_id not in gone)
            staying[partition] = {one.name: one.size_bytes for one in files}
    return statistics_of_touched(view, new, staying, tight=tight)


def _of_keys(
    view: MetadataView, properties: TableProperties, moved: Iterable[MovedKeys], keys: KeyScope
) -> MetadataChange:
    partitioned = is_partitioned(view.slices(RECORD_INDEX))
    if keys is not KeyScope.TABLE and not partitioned:
        moved = said_moves(view, moved, refuse=keys is KeyScope.PARTITION)
    put: PartitionChange = record_index_change(moved, properties.timezone, partitioned=partitioned)
    return {RECORD_INDEX: put} if put else {}
