"""Rows that differ between two states of a table: file slices of the file groups that differ are compared, by keys and
commit times alone. Only the keys that changed their file group are held, and of the others 8 bytes each.

A row is unchanged if its ``_hoodie_commit_time`` is: nobody has written it since. So rows that clustering or a rescale
moved to other file groups are none that changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from lakeindex.files.file_system_view import Snapshot
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import RowNumbers, plain_strings
from lakeindex.model import BaseFile, Group
from lakeindex.operations.check_base_files import KeyHashes, hashes_of
from lakeindex.operations.rows.aligned_rows import blamed, open_base_file
from lakeindex.operations.rows.file_reader import FileReader, ReadSpec
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.pages import read_groups
from lakeindex.storage import in_parallel
from lakeindex.storage.port import Storage
from lakeindex.write.base_file import COMMIT_TIME, RECORD_KEY


class Change(StrEnum):
    """What happened to a row, in the words of Delta's change data feed."""

    INSERT = "insert"
    BEFORE = "update_preimage"
    AFTER = "update_postimage"
    DELETE = "delete"


class ChangedRows(Frozen):
    """Rows of one file that are given out.

    Attributes:
        rows: their numbers in the file, ascending; None: all of them.
        instants: of each the commit that did it; None: the one that wrote the row.
    """

    file: BaseFile
    change: Change
    rows: RowNumbers | None
    instants: pa.Array | None = None


class GroupPair(Frozen):
    """The slices of a file group in both states, where they differ.

    Attributes:
        old: the slice before; None if the group was not there.
        new: the slice after; None if it is gone.
        instant: the last commit that touched the group.
    """

    old: BaseFile | None
    new: BaseFile | None
    instant: str

    @property
    def group(self) -> Group:
        one = self.new or self.old
        assert one is not None  # a group is in one state at least
        return one.partition_path, one.file_id


def changed_groups(before: Snapshot, after: Snapshot, kept: Collection[Group] = ()) -> tuple[GroupPair, ...]:
    """File groups whose live slice is another one, by partition and file id.

    Args:
        kept: groups that belong to them though they are as they were.
    """
    old: dict[Group, BaseFile] = {(one.partition_path, one.file_id): one for one in before.base_files_all()}
    new: dict[Group, BaseFile] = {(one.partition_path, one.file_id): one for one in after.base_files_all()}
    newest = after.instant_time or ""
    found = []
    for group in sorted(old.keys() | new.keys()):
        was, now = old.get(group), new.get(group)
        if was is None or now is None or was.path != now.path or group in kept:
            instant = now.instant_time if now is not None else after.replaced.get(group, newest)
            found.append(GroupPair(was, now, instant))
    return tuple(found)


class _Side(Struct):
    """Rows that are in one state only, as far as their file groups tell."""

    keys: list[pa.Array] = field(default_factory=list)
    times: list[pa.Array] = field(default_factory=list)
    places: list[tuple[int, RowNumbers]] = field(default_factory=list)

    def add(self, number: int, stored: pa.Table, rows: RowNumbers, partition: str | None) -> None:
        if len(rows):
            chosen = stored.take(pa.array(rows))
            self.keys.append(_scoped(chosen.column(RECORD_KEY), partition))
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


def compared(
    storage: Storage,
    pairs: Sequence[GroupPair],
    kept: Collection[Group] = (),
    *,
    across_partitions: bool,
    others: Sequence[BaseFile] = (),
) -> list[ChangedRows]:
    """What happened to the rows of these file groups: for each key at most one change.

    Args:
        kept: groups with rows of keys that went out of others: these keys are not gone.
        across_partitions: a key is unique in the whole table, so that a row may move to another partition.
        others: files that nobody touched, where they may have rows of keys that went out of these groups.

    Raises:
        TableCorruptError: a file is missing or cannot be read.
    """
    if all(pair.old is None for pair in pairs):
        return [ChangedRows(pair.new, Change.INSERT, None) for pair in pairs if pair.new is not None]
    before, after = _Side(), _Side()
    found: list[ChangedRows] = []
    left: list[tuple[Group, KeyHashes]] = []
    for number, pair in enumerate(pairs):
        old, new = _keys_of(storage, pair.old), _keys_of(storage, pair.new)
        lone = None if across_partitions else (pair.new or pair.old)
        partition = None if lone is None else lone.partition_path
        here = _Rows.all_of(old, new) if pair.group in kept else _Rows.of(*_columns(old), *_columns(new))
        if pair.old is not None and pair.new is not None and len(here.after):
            found += [_sorted(pair.old, Change.BEFORE, here.before, here.instants)]
            found += [ChangedRows(pair.new, Change.AFTER, here.after)]
        before.add(number, old, here.gone, partition)
        after.add(number, new, here.came, partition)
        if pair.group not in kept:
            hashes = hashes_of(_scoped(new.column(RECORD_KEY), partition))
            left.append((pair.group, np.delete(hashes, here.came)))
    gone = np.concatenate([np.zeros(0, np.uint64), *map(hashes_of, before.keys)])
    several = [group for group, hashes in left if len(np.intersect1d(hashes, gone))] if len(gone) else []
    if several:  # of a key that goes from one group another one has a row
        return compared(storage, pairs, {*kept, *several}, across_partitions=across_partitions, others=others)
    across = list(_across(pairs, before, after))
    beside = _holding(storage, others, before, after) if any(one.change is Change.DELETE for one in across) else []
    if beside:
        added = [GroupPair(one, one, one.instant_time) for one in beside]
        groups = {*kept, *(one.group for one in added)}
        return compared(storage, [*pairs, *added], groups, across_partitions=across_partitions)
    return found + across


def _holding(storage: Storage, files: Sequence[BaseFile], before: _Side, after: _Side) -> list[BaseFile]:
    """Those of some files that have a row of a key which is in rows before alone."""
    keys = before.joined()[0].unique()
    keys = keys.filter(pc.invert(pc.is_in(keys, after.joined()[0])))
    keys = keys.take(pc.sort_indices(keys))
    column = pa.schema([pa.field(RECORD_KEY, pa.string())])
    spec = ReadSpec(storage.uri, column, column, None, keys, None, WriteConfig())
    every = np.arange(len(keys), dtype=np.int64)

    def has_one(file: BaseFile) -> bool:
        return any(True for _ in FileReader(spec, storage, file, every).by_key())

    return [file for file, found in zip(files, in_parallel(storage.uri, has_one, files), strict=True) if found]


def _scoped(column: pa.ChunkedArray, partition: str | None) -> pa.Array:
    """Keys as they are unique: in a partition, or (None) in the table."""
    keys = plain_strings(column).cast(pa.string())
    if partition is None:
        return keys
    return pc.binary_join_element_wise(pa.scalar(f"{len(partition)}:{partition}"), keys, "")


class _Rows(Frozen):
    """What happened to rows, by their numbers, ascending.

    Attributes:
        before: rows before of keys that were written again.
        after: their rows after.
        instants: of each row before the commit that did it.
        gone: rows before of keys that are in no row after.
        came: rows after of keys that were in no row before.
    """

    before: RowNumbers
    after: RowNumbers
    instants: pa.Array
    gone: RowNumbers
    came: RowNumbers

    @staticmethod
    def all_of(old: pa.Table, new: pa.Table) -> _Rows:
        """Rows that are not compared here: all went and all came."""
        none = np.zeros(0, np.int64)
        return _Rows(none, none, pa.array([], pa.string()), np.arange(old.num_rows), np.arange(new.num_rows))

    @staticmethod
    def of(old_keys: pa.Array, old_times: pa.Array, new_keys: pa.Array, new_times: pa.Array) -> _Rows:
        """Rows before and after, compared. Of a key with several rows all count as one: if one of them is another, or
        went, the key was written again, and all that are left are what it has now.
        """
        place = pc.index_in(new_keys, value_set=old_keys)
        is_there = place.is_valid().to_numpy(zero_copy_only=False)
        here = np.flatnonzero(is_there)
        there = place.drop_null().to_numpy().astype(np.int64)
        came = np.flatnonzero(~is_there)
        if all(pc.count_distinct(keys).as_py() == len(keys) for keys in (old_keys, new_keys)):
            times = new_times.take(pa.array(here))
            is_other = pc.not_equal(times, old_times.take(pa.array(there)))
            written = is_other.to_numpy(zero_copy_only=False).astype(np.bool_)
            gone = np.setdiff1d(np.arange(len(old_keys), dtype=np.int64), there)
            return _Rows(there[written], here[written], times.filter(is_other), gone, came)
        old, new = _copies(old_keys, old_times), _copies(new_keys, new_times)
        left, added = pc.invert(pc.is_in(old, new)), pc.invert(pc.is_in(new, old))
        touched = pa.concat_arrays([old_keys.filter(left), new_keys.filter(added)])
        stays = pc.is_in(old_keys, new_keys)
        before = _numbers(pc.and_(pc.is_in(old_keys, touched), stays))
        after = _numbers(pc.and_(pc.is_in(new_keys, touched), place.is_valid()))
        at = pc.index_in(old_keys.take(pa.array(before)), new_keys.take(pa.array(after)))
        instants = new_times.take(pa.array(after)).take(at)
        return _Rows(before, after, instants, _numbers(pc.invert(stays)), came)


def _copies(keys: pa.Array, times: pa.Array) -> pa.Array:
    """Of each row its key, its commit, and which of those that have the same of both it is."""
    both = pc.binary_join_element_wise(times, keys, " ")
    codes = both.dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    return pc.binary_join_element_wise(pa.array(numbers).cast(pa.string()), both, " ")


def _numbers(is_so: pa.Array) -> RowNumbers:
    return np.flatnonzero(is_so.to_numpy(zero_copy_only=False))


def _columns(stored: pa.Table) -> tuple[pa.Array, pa.Array]:
    return stored.column(RECORD_KEY).combine_chunks(), stored.column(COMMIT_TIME).combine_chunks()


def _across(pairs: Sequence[GroupPair], before: _Side, after: _Side) -> Iterator[ChangedRows]:
    """Rows that left their file group or came into it: moved, deleted, inserted, or only put elsewhere."""
    old_keys, old_times, old_pairs, old_rows = before.joined()
    new_keys, new_times, new_pairs, new_rows = after.joined()
    moved = _Rows.of(old_keys, old_times, new_keys, new_times)
    for number, pair in enumerate(pairs):
        if pair.old is not None:
            rows = old_rows[moved.gone][old_pairs[moved.gone] == number]
            if len(rows):
                yield ChangedRows(pair.old, Change.DELETE, rows, pa.array([pair.instant] * len(rows), pa.string()))
            mine = old_pairs[moved.before] == number
            if mine.any():
                instants = moved.instants.filter(pa.array(mine))
                yield _sorted(pair.old, Change.BEFORE, old_rows[moved.before][mine], instants)
        if pair.new is not None:
            for change, chosen in ((Change.AFTER, moved.after), (Change.INSERT, moved.came)):
                rows = new_rows[chosen][new_pairs[chosen] == number]
                if len(rows):
                    yield ChangedRows(pair.new, change, rows)


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
