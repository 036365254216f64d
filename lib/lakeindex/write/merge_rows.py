"""Merge a batch's rows into file slices: pure functions over Arrow tables.

Untouched rows keep commit time and sequence number (incremental reads filter on them); updated and new rows get the
instant's; every row gets the new file's name. The result is sorted by record key.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.pipeline import STAGED_KEY
from lakeindex.write.base_file import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    RECORD_KEY,
    constant_column,
    sequence_numbers,
)
from lakeindex.write.merge_function import MergeFunction
from lakeindex.write.single_columns import nulls_of
from lakeindex.write.types.avro_schema import META_COLUMNS, META_FIELDS
from lakeindex.write.virtual_keys import VirtualKeys


class UpdateRule(Frozen):
    """How a stored row and a row of the batch with its key become one; by default the latter takes its place.

    Attributes:
        kept: columns that the batch does not have; the stored value stays.
        filled: columns in which a null of the batch leaves the stored value; fields inside of them are not looked at.
        function: gets the stored rows, and the rows as they would be without it.
        deciding: columns that the function cannot change.
        delete_mark: the table's own, which the function cannot set either.
        required: columns that may not be null, of rows whose schema does not say so: staged ones.
    """

    kept: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()
    function: MergeFunction | None = None
    deciding: frozenset[str] = frozenset()
    delete_mark: tuple[str, str] | None = None
    required: frozenset[str] = frozenset()

    @property
    def replaces(self) -> bool:
        """Rows of the batch are taken as they are."""
        return not self.kept and not self.filled and self.function is None

    def value(self, name: str, stored: pa.Array, incoming: pa.Array) -> pa.Array:
        """A column of updated rows, from that of the stored rows and that of the batch."""
        return without_nulls(incoming, stored) if name in self.filled else incoming

    def updated(self, stored: pa.Table, incoming: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
        """Whole rows that take the place of stored ones.

        Args:
            incoming: for each its row of the batch: record key, and the columns that the batch has.

        Returns:
            Record key and the table's columns.

        Raises:
            UsageError: of the function.
        """
        stored = pa.table([one_array(stored.column(field.name)).cast(field.type) for field in schema], schema=schema)
        columns = []
        for field in schema:
            before = one_array(stored.column(field.name))
            if field.name in self.kept:
                columns.append(before)
            else:
                columns.append(self.value(field.name, before, one_array(incoming.column(field.name)).cast(field.type)))
        if self.function is not None and len(incoming):
            new = pa.table(columns, schema=schema)
            columns = self.function.merged(stored, new, self.deciding, where, self.delete_mark).columns
        return pa.table([one_array(incoming.column(STAGED_KEY)), *columns], names=[STAGED_KEY, *schema.names])

    def inserted(self, incoming: pa.Table, schema: pa.Schema) -> pa.Table:
        """Whole rows that are new: columns that the batch does not have are null; arguments as of :meth:`updated`."""
        columns, there = [one_array(incoming.column(STAGED_KEY))], frozenset(incoming.column_names)
        for field in schema:
            is_there = field.name in there
            column = one_array(incoming.column(field.name)) if is_there else nulls_of(incoming.num_rows, field.type)
            columns.append(column.cast(field.type))
        return pa.table(columns, names=[STAGED_KEY, *schema.names])


REPLACE = UpdateRule()
"""The row of the batch takes the place of the stored one."""


def without_nulls(values: pa.Array, others: pa.Array) -> pa.Array:
    """The values, and where there is none the other one, of a column of any type."""
    if not values.null_count:
        return values
    places = np.arange(len(values), dtype=np.int64)
    is_there = values.is_valid().to_numpy(zero_copy_only=False)
    picked = pa.array(np.where(is_there, places, len(values) + places))
    return pa.concat_arrays([values, others]).take(picked)


class NewSlice(Frozen):
    """What names a file slice: its partition, instant, file name, and the number of the task that writes it.

    ``first_row``: where its rows begin in the file, if they are a part of one; sequence numbers count from there.
    """

    partition_path: str
    instant: str
    file_name: str
    task: int
    first_row: int = 0


class StoredRows(Protocol):
    """Staged rows of a batch (record key column and the table's columns):
    an Arrow table, or rows read where they are sliced.
    """

    def __len__(self) -> int: ...

    def take(self, places: pa.Array, /) -> StoredRows:
        """These rows, in this order."""

    def slice(self, offset: int, length: int, /) -> pa.Table:
        """Rows behind each other."""

    def column(self, name: str, /) -> pa.ChunkedArray:
        """One column of all rows."""


class Changes(Frozen):
    """What a batch does to one file group.

    Attributes:
        update_positions: int64 per update: the row it replaces, counted from the start of the file.
        delete_positions: int64: rows that go away (deleted, or moved to another partition).
        inserts: staged rows that are new in this file group.
    """

    updates: StoredRows
    update_positions: np.ndarray
    delete_positions: np.ndarray
    inserts: StoredRows

    def in_file_order(self) -> Changes:
        updates, positions = self.updates, self.update_positions
        if not bool((positions[1:] > positions[:-1]).all()):
            order = np.argsort(positions, kind="stable")
            updates, positions = updates.take(pa.array(order)), positions[order]
        return Changes(updates, positions, np.sort(self.delete_positions), self.inserts)


class Merge(Frozen):
    """What is merged into one file slice; ``stored``: rows of the old slice, 0 if there is none."""

    stored: int
    changes: Changes
    new: NewSlice


def merge_slices(
    old: pa.Table | None,
    merges: Sequence[Merge],
    schema: pa.Schema,
    rule: UpdateRule = REPLACE,
    virtual: VirtualKeys | None = None,
) -> list[pa.Table]:
    """Rows of new file slices of one commit, made at once; each is what it would be alone.

    Args:
        old: all rows and columns of the old slices in file order, one slice behind the other; None if all are new.
        virtual: how the keys of stored rows are made; None: they are stored. If not, meta columns are null, as Hudi
            leaves them.

    Returns:
        For each slice meta columns, then the table's columns; sorted by record key (UTF-8 bytes).
    """
    stored = 0 if old is None else old.num_rows
    staged = _staged(old, merges, schema, rule)
    sources = _sources(stored, merges)
    ends = np.cumsum([0, *(len(source) for source in sources)]).tolist()
    source = np.concatenate(sources)
    picked = _picked(source, stored + staged.num_rows)
    keys = _column(_old_keys(old, merges[0].new, virtual), staged.column(STAGED_KEY), picked, pa.string())
    order = _order(keys, ends)
    if order is not None:
        source = source[order]
        picked = pa.array(source)
        keys = keys.take(pa.array(order))
    body = [_column(None if old is None else old.column(f.name), staged.column(f.name), picked, f.type) for f in schema]
    spans = [(*span, one) for span, one in zip(itertools.pairwise(ends), merges, strict=True)]
    stamps: list[pa.Array] = []
    if virtual is None:
        fresh = source >= stored
        rows = np.concatenate([one.new.first_row + np.arange(end - at, dtype=np.int64) for at, end, one in spans])
        tasks = np.repeat([one.new.task for one in merges], np.diff(ends))
        instant = merges[0].new.instant
        times = constant_column(instant, int(fresh.sum()))
        numbers = sequence_numbers(instant, tasks[fresh], rows[fresh])
        stamps = [
            _stamp(old, COMMIT_TIME, times, source, fresh),
            _stamp(old, COMMIT_SEQNO, numbers, source, fresh),
            keys,
        ]
    names = [*META_COLUMNS, *schema.names]
    return [
        pa.table([*_meta(stamps, one.new, at, end), *(column.slice(at, end - at) for column in body)], names=names)
        for at, end, one in spans
    ]


def _meta(stamps: Sequence[pa.Array], new: NewSlice, at: int, end: int) -> list[pa.Array]:
    """The meta columns of a slice whose rows are ``[at, end)``; nulls if there are no stamps."""
    count = end - at
    if not stamps:
        return [pa.nulls(count, field.type) for field in META_FIELDS]
    constants = [constant_column(new.partition_path, count), constant_column(new.file_name, count)]
    return [*(column.slice(at, count) for column in stamps), *constants]


def _old_keys(old: pa.Table | None, new: NewSlice, virtual: VirtualKeys | None) -> pa.ChunkedArray | None:
    if old is None:
        return None
    return old.column(RECORD_KEY) if virtual is None else pa.chunked_array([virtual.of(old, new.file_name)])


def _staged(old: pa.Table | None, merges: Sequence[Merge], schema: pa.Schema, rule: UpdateRule) -> pa.Table:
    """Rows that take the place of stored ones, of all slices, then new ones."""
    updates, inserts = (
        pa.concat_tables([rows.slice(0, len(rows)) for rows in some], promote_options="default")
        for some in ([one.changes.updates for one in merges], [one.changes.inserts for one in merges])
    )
    if rule.replaces:
        return pa.concat_tables([updates, inserts])
    added = rule.inserted(inserts, schema)
    if old is None or not updates.num_rows:
        return added
    firsts = np.cumsum([0, *(one.stored for one in merges)])
    places = [first + one.changes.update_positions for first, one in zip(firsts, merges, strict=False)]
    stored = old.take(pa.array(np.concatenate(places)))
    return pa.concat_tables([rule.updated(stored, updates, schema, merges[0].new.file_name), added])


def _sources(stored: int, merges: Sequence[Merge]) -> list[np.ndarray]:
    """For each slice row numbers into (all old rows, all updates, all inserts), in file order: int64."""
    found = []
    first, update = 0, stored
    insert = stored + sum(len(one.changes.updates) for one in merges)
    for one in merges:
        changes = one.changes
        source = np.arange(first, first + one.stored, dtype=np.int64)
        source[changes.update_positions] = update + np.arange(len(changes.updates), dtype=np.int64)
        if len(changes.delete_positions):
            keep = np.ones(one.stored, np.bool_)
            keep[changes.delete_positions] = False
            source = source[keep]
        found.append(np.concatenate([source, insert + np.arange(len(changes.inserts), dtype=np.int64)]))
        first += one.stored
        update += len(changes.updates)
        insert += len(changes.inserts)
    return found


def _picked(source: np.ndarray, rows: int) -> pa.Array | None:
    """Row numbers to take; None if they are all, in their order."""
    is_all = len(source) == rows and bool((source[1:] > source[:-1]).all())
    return None if is_all else pa.array(source)


def _column(
    old: pa.ChunkedArray | None, staged: pa.ChunkedArray, picked: pa.Array | None, kind: pa.DataType
) -> pa.Array:
    stored = [] if old is None else old.chunks
    chunks = [c if c.type == kind else c.cast(kind) for c in (*stored, *staged.chunks) if len(c)]
    joined = chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], kind)
    return joined if picked is None else joined.take(picked)


def _stamp(old: pa.Table | None, name: str, stamps: pa.Array, source: np.ndarray, fresh: np.ndarray) -> pa.Array:
    """The old value where a row is untouched, the next of the stamps where it is fresh."""
    if old is None:
        return stamps
    untouched = one_array(old.column(name)).take(pa.array(np.where(fresh, 0, source)))
    if not fresh.any():
        return untouched
    return pc.replace_with_mask(untouched, pa.array(fresh), stamps.cast(pa.string()))


def _order(keys: pa.Array, ends: Sequence[int]) -> np.ndarray | None:
    """Places of the keys, each slice sorted: int64; None if all slices are sorted."""
    if len(keys) < 2:
        return None
    falls = pc.less(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy(zero_copy_only=False)
    order = None
    for at, end in itertools.pairwise(ends):
        if falls[at : max(end - 1, at)].any():
            order = np.arange(len(keys), dtype=np.int64) if order is None else order
            order[at:end] = at + pc.sort_indices(keys.slice(at, end - at)).to_numpy().astype(np.int64)
    return order
