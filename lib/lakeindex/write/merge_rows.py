"""Merge a batch's rows into a file slice: a pure function over Arrow tables.

Untouched rows keep commit time and sequence number (incremental reads filter on them); updated and new rows get the
instant's; every row gets the new file's name. The result is sorted by record key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.hashing.arrow import one_array
from lakeindex.pipeline import STAGED_KEY
from lakeindex.write.base_file import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    PARTITION_PATH,
    RECORD_KEY,
    constant_column,
    sequence_numbers,
)
from lakeindex.write.types.avro_schema import META_FIELDS
from lakeindex.write.updated_rows import REPLACE, UpdateRule
from lakeindex.write.virtual_keys import VirtualKeys


@dataclass(frozen=True, slots=True)
class NewSlice:
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


@dataclass(frozen=True, slots=True)
class Changes:
    """What a batch does to one file group.

    Attributes:
        updates: staged rows that replace stored ones.
        update_positions: int64 per update: the row it replaces, counted from the start of the file.
        delete_positions: int64: rows that go away (deleted, or moved to another partition).
        inserts: staged rows that are new in this file group.
    """

    updates: StoredRows
    update_positions: np.ndarray
    delete_positions: np.ndarray
    inserts: StoredRows


def merge_slice(
    old: pa.Table | None,
    changes: Changes,
    schema: pa.Schema,
    new: NewSlice,
    rule: UpdateRule = REPLACE,
    virtual: VirtualKeys | None = None,
) -> pa.Table:
    """Rows of the new file slice.

    Args:
        old: all rows and columns of the old slice in file order, or None for a new file group.
        changes: what to replace, drop and add.
        schema: the table's columns.
        new: where the slice goes.
        rule: what updated rows are made of.
        virtual: how the keys of stored rows are made; None: they are stored. If not, meta columns are null, as Hudi
            leaves them.

    Returns:
        Meta columns, then the table's columns; sorted by record key (UTF-8 bytes).
    """
    staged = _staged(old, changes, schema, new, rule)
    stored = 0 if old is None else old.num_rows
    source = _sources(stored, changes)
    picked = _picked(source, stored + staged.num_rows)
    keys = _column(_old_keys(old, new, virtual), staged.column(STAGED_KEY), picked, pa.string())
    if not _is_sorted(keys):
        order = pc.sort_indices(keys)
        source = source[order.to_numpy()]
        picked = pa.array(source)
        keys = keys.take(order)
    body = [_column(None if old is None else old.column(f.name), staged.column(f.name), picked, f.type) for f in schema]
    names = [COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME, *schema.names]
    if virtual is not None:
        return pa.table([*(pa.nulls(len(source), f.type) for f in META_FIELDS), *body], names=names)
    fresh = source >= stored
    rows = len(source)
    numbers = sequence_numbers(new.instant, new.task, new.first_row + np.flatnonzero(fresh))
    meta = [
        _stamp(
            None if old is None else old.column(COMMIT_TIME),
            constant_column(new.instant, int(fresh.sum())),
            source,
            fresh,
        ),
        _stamp(None if old is None else old.column(COMMIT_SEQNO), numbers, source, fresh),
        keys,
        constant_column(new.partition_path, rows),
        constant_column(new.file_name, rows),
    ]
    return pa.table([*meta, *body], names=names)


def _old_keys(old: pa.Table | None, new: NewSlice, virtual: VirtualKeys | None) -> pa.ChunkedArray | None:
    if old is None:
        return None
    return old.column(RECORD_KEY) if virtual is None else pa.chunked_array([virtual.of(old, new.file_name)])


def _staged(old: pa.Table | None, changes: Changes, schema: pa.Schema, new: NewSlice, rule: UpdateRule) -> pa.Table:
    """Rows that take the place of stored ones, then new ones."""
    updates, inserts = (rows.slice(0, len(rows)) for rows in (changes.updates, changes.inserts))
    if rule.replaces:
        return pa.concat_tables([updates, inserts])
    added = rule.inserted(inserts, schema)
    if old is None or not len(changes.updates):
        return added
    stored = old.take(pa.array(changes.update_positions))
    return pa.concat_tables([rule.updated(stored, updates, schema, new.file_name), added])


def _sources(stored: int, changes: Changes) -> np.ndarray:
    """Row numbers into (old rows, updates, inserts), in file order: int64."""
    source = np.arange(stored, dtype=np.int64)
    source[changes.update_positions] = stored + np.arange(len(changes.updates), dtype=np.int64)
    if len(changes.delete_positions):
        keep = np.ones(stored, np.bool_)
        keep[changes.delete_positions] = False
        source = source[keep]
    first_insert = stored + len(changes.updates)
    return np.concatenate([source, first_insert + np.arange(len(changes.inserts), dtype=np.int64)])


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


def _stamp(old: pa.ChunkedArray | None, stamps: pa.Array, source: np.ndarray, fresh: np.ndarray) -> pa.Array:
    """The old value where a row is untouched, the next of the stamps where it is fresh."""
    if old is None or not len(old) or fresh.all():
        return stamps
    untouched = one_array(old).take(pa.array(np.where(fresh, 0, source)))
    if not fresh.any():
        return untouched
    return pc.replace_with_mask(untouched, pa.array(fresh), stamps.cast(pa.string()))


def _is_sorted(keys: pa.Array) -> bool:
    if len(keys) < 2:
        return True
    return bool(pc.all(pc.less_equal(keys.slice(0, len(keys) - 1), keys.slice(1))).as_py())
