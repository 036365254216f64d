"""Which rows differ between two states of a table, by comparing the file slices of the file groups that differ.

Only keys and commit times are compared, and only those that changed their file group are held. A row is the same if its
``_hoodie_commit_time`` is: nobody has written it since. So a rewritten file shows only the rows that were
written, and rows that clustering or a rescale has put into other file groups do not show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.files.file_system_view import Snapshot
from lakeindex.hashing.arrow import RowNumbers, plain_strings
from lakeindex.model import BaseFile, Group
from lakeindex.operations.rows.aligned_rows import blamed, open_base_file
from lakeindex.parquet.read_pages import read_groups
from lakeindex.storage.port import Storage
from lakeindex.write.base_file import COMMIT_TIME, RECORD_KEY


class Change(StrEnum):
    """What happened to a row, in the words of Delta's change data feed."""

    INSERT = "insert"
    BEFORE = "update_preimage"
    AFTER = "update_postimage"
    DELETE = "delete"


@dataclass(frozen=True)
class ChangedRows:
    """Rows of one file that are given out.

    Attributes:
        file: the file.
        change: what happened to them.
        rows: their numbers in the file, ascending; None: all of them.
        instants: of each the commit that did it; None: the one that wrote the row.
    """

    file: BaseFile
    change: Change
    rows: RowNumbers | None
    instants: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class GroupPair:
    """The slices of a file group in both states, where they differ.

    Attributes:
        old: the slice before; None if the group was not there.
        new: the slice after; None if it is gone.
        instant: the last commit that touched the group.
    """

    old: BaseFile | None
    new: BaseFile | None
    instant: str


def changed_groups(before: Snapshot, after: Snapshot) -> tuple[GroupPair, ...]:
    """File groups whose live slice is another one, by partition and file id."""
    old: dict[Group, BaseFile] = {(one.partition_path, one.file_id): one for one in before.base_files_all()}
    new: dict[Group, BaseFile] = {(one.partition_path, one.file_id): one for one in after.base_files_all()}
    newest = after.instant_time or ""
    found = []
    for group in sorted(old.keys() | new.keys()):
        was, now = old.get(group), new.get(group)
        if was is None or now is None or was.path != now.path:
            instant = now.instant_time if now is not None else after.replaced.get(group, newest)
            found.append(GroupPair(was, now, instant))
    return tuple(found)


@dataclass
class _Side:
    """Rows that are in one state only, as far as their file groups tell."""

    keys: list[pa.Array] = field(default_factory=list)
    times: list[pa.Array] = field(default_factory=list)
    places: list[tuple[int, RowNumbers]] = field(default_factory=list)

    def add(self, number: int, stored: pa.Table, rows: RowNumbers, partition: str | None) -> None:
        if len(rows):
            chosen = stored.take(pa.array(rows))
            keys = plain_strings(chosen.column(RECORD_KEY)).cast(pa.string())
            if partition is not None:
                keys = pc.binary_join_element_wise(pa.scalar(f"{len(partition)}:{partition}"), keys, "")
            self.keys.append(keys)
            self.times.append(plain_strings(chosen.column(COMMIT_TIME)).cast(pa.string()))
            self.places.append((number, rows))

    def joined(self) -> tuple[pa.Array, pa.Array, RowNumbers, RowNumbers]:
        """Keys, commit times, numbers of the pairs, rows in the files."""
        none = pa.array([], pa.string())
        pairs = [np.full(len(rows), number, np.int64) for number, rows in self.places]
        rows = [rows for _, rows in self.places]
        start = np.zeros(0, np.int64)
        return (
            pa.concat_arrays([none, *self.keys]),
            pa.concat_arrays([none, *self.times]),
            np.concatenate([start, *pairs]),
            np.concatenate([start, *rows]),
        )


def compared(storage: Storage, pairs: Sequence[GroupPair], *, across_partitions: bool) -> list[ChangedRows]:
    """What happened to the rows of these file groups: for each key at most one change.

    Args:
        pairs: file groups that differ.
        across_partitions: a key is unique in the whole table, so that a row may move to another partition.

    Raises:
        TableCorruptError: a file is missing or cannot be read.
    """
    if all(pair.old is None for pair in pairs):
        return [ChangedRows(pair.new, Change.INSERT, None) for pair in pairs if pair.new is not None]
    before, after = _Side(), _Side()
    found: list[ChangedRows] = []
    for number, pair in enumerate(pairs):
        old, new = _keys_of(storage, pair.old), _keys_of(storage, pair.new)
        place = pc.index_in(new.column(RECORD_KEY).combine_chunks(), value_set=old.column(RECORD_KEY).combine_chunks())
        is_there = place.is_valid().to_numpy(zero_copy_only=False)
        here = np.flatnonzero(is_there)
        there = place.drop_null().to_numpy().astype(np.int64)
        times = new.column(COMMIT_TIME).combine_chunks().take(pa.array(here))
        is_other = pc.not_equal(times, old.column(COMMIT_TIME).combine_chunks().take(pa.array(there)))
        written = is_other.to_numpy(zero_copy_only=False).astype(np.bool_)
        found += _updates(pair.old, there[written], pair.new, here[written], times.filter(is_other))
        lone = None if across_partitions else (pair.new or pair.old)
        partition = None if lone is None else lone.partition_path
        gone = np.setdiff1d(np.arange(old.num_rows, dtype=np.int64), there)
        before.add(number, old, gone, partition)
        after.add(number, new, np.flatnonzero(~is_there), partition)
    return found + list(_across(pairs, before, after))


def _across(pairs: Sequence[GroupPair], before: _Side, after: _Side) -> Iterator[ChangedRows]:
    """Rows that left their file group or came into it: moved, deleted, inserted, or only put elsewhere."""
    old_keys, old_times, old_pairs, old_rows = before.joined()
    new_keys, new_times, new_pairs, new_rows = after.joined()
    place = pc.index_in(new_keys, value_set=old_keys)
    is_there = place.is_valid().to_numpy(zero_copy_only=False)
    there = place.drop_null().to_numpy().astype(np.int64)
    here = np.flatnonzero(is_there)
    times = new_times.take(pa.array(here))
    is_other = pc.not_equal(times, old_times.take(pa.array(there))).to_numpy(zero_copy_only=False).astype(np.bool_)
    moved_old, moved_new, moved_times = there[is_other], here[is_other], times.filter(pa.array(is_other))
    deleted = np.setdiff1d(np.arange(len(old_keys), dtype=np.int64), there)
    inserted = np.flatnonzero(~is_there)
    for number, pair in enumerate(pairs):
        if pair.old is not None:
            mine = old_pairs[deleted] == number
            rows = np.sort(old_rows[deleted][mine])
            if len(rows):
                yield ChangedRows(pair.old, Change.DELETE, rows, pa.array([pair.instant] * len(rows), pa.string()))
            mine = old_pairs[moved_old] == number
            if mine.any():
                yield _sorted(pair.old, Change.BEFORE, old_rows[moved_old][mine], moved_times.filter(pa.array(mine)))
        if pair.new is not None:
            for change, chosen in ((Change.AFTER, moved_new), (Change.INSERT, inserted)):
                rows = np.sort(new_rows[chosen][new_pairs[chosen] == number])
                if len(rows):
                    yield ChangedRows(pair.new, change, rows)


def _updates(
    old: BaseFile | None, old_rows: RowNumbers, new: BaseFile | None, new_rows: RowNumbers, times: pa.Array
) -> list[ChangedRows]:
    if old is None or new is None or not len(new_rows):
        return []
    return [_sorted(old, Change.BEFORE, old_rows, times), ChangedRows(new, Change.AFTER, new_rows)]


def _sorted(file: BaseFile, change: Change, rows: RowNumbers, instants: pa.Array) -> ChangedRows:
    order = np.argsort(rows, kind="stable")
    return ChangedRows(file, change, rows[order], instants.take(pa.array(order)))


def _keys_of(storage: Storage, file: BaseFile | None) -> pa.Table:
    """Key and commit time of every row; no rows of a file that is not there."""
    names = [RECORD_KEY, COMMIT_TIME]
    if file is None:
        return pa.table({name: pa.array([], pa.string()) for name in names})
    source = open_base_file(storage, file)
    with blamed(file):
        read = read_groups(source, range(source.num_row_groups), names)
    return pa.table({name: plain_strings(read.column(name)).cast(pa.string()) for name in names})
