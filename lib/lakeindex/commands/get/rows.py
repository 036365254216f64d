"""Read the rows of some keys from base files, and of each file no more than it takes.

A file is left alone if the index did not propose it, if its key range or its filter (from the footer cache, else from
its footer) hold none of the keys. Of the others the key column is read, in those row groups whose statistics leave a
key possible; the other columns only of row groups where a key was found. Parquet's page indexes are not used: pyarrow
does not read them, and our own row groups are small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.bloom import BloomFilter, filter_candidates, usable_filter
from lakeindex.commands.rescale.aligned_rows import align, damaged
from lakeindex.files.footer_cache import FooterCache
from lakeindex.files.footers import FileLayout, Footer, read_layout
from lakeindex.files.key_columns import row_groups_for
from lakeindex.hashing.arrow import RowNumbers, plain_strings, string_buffers
from lakeindex.index.bloom.options import BloomOptions
from lakeindex.index.key_ranges import KeyRange, prune
from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.read_pages import open_pages, read_groups
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import PARTITION_PATH, RECORD_KEY
from lakeindex.write.types.avro_schema import META_COLUMNS
from lakeindex.write.virtual_keys import VirtualKeys


@dataclass(frozen=True, slots=True)
class FileAsk:
    """One file, and the keys to look for in it.

    Attributes:
        file: the base file.
        rows: int64, ascending: which of the task's keys; None: all of them.
        cached_in: the side file of the footer cache that has its filter; None if its footer is not cached.
    """

    file: BaseFile
    rows: RowNumbers | None
    cached_in: str | None = None


@dataclass(frozen=True, slots=True)
class GetTask:
    """Some files to ask.

    Attributes:
        uri: the table.
        keys: distinct keys, ascending by UTF-8 bytes.
        asks: the files.
        schema: columns to return, of the meta columns and the table's.
        config: how to prune.
        virtual: how the keys of stored rows are made; None: they are stored.
    """

    uri: str
    keys: pa.Array
    asks: tuple[FileAsk, ...]
    schema: pa.Schema
    config: WriteConfig
    virtual: VirtualKeys | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """What was looked into.

    Attributes:
        files_opened: files whose footer was read.
        files_read: files whose key column was read.
        row_groups: row groups of the opened files.
        row_groups_searched: row groups whose key column was read.
        row_groups_read: row groups of which the other columns were read.
        keys_read: keys in the columns that were read.
    """

    files_opened: int = 0
    files_read: int = 0
    row_groups: int = 0
    row_groups_searched: int = 0
    row_groups_read: int = 0
    keys_read: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.files_opened + other.files_opened,
            self.files_read + other.files_read,
            self.row_groups + other.row_groups,
            self.row_groups_searched + other.row_groups_searched,
            self.row_groups_read + other.row_groups_read,
            self.keys_read + other.keys_read,
        )


@dataclass(frozen=True, slots=True)
class Got:
    """Rows of some files; ``found``: which keys, by their number, each as often as it is there."""

    rows: pa.Table
    found: RowNumbers
    counts: Counts


def get_from_files(task: GetTask) -> Got:
    """The rows of the task's keys in its files.

    Raises:
        TableCorruptError: a file that may hold a key cannot be read.
    """
    store = storage_at(task.uri)
    got = [get_from_file(task, store, file, rows) for file, rows in narrowed(task, store)]
    return Got(
        pa.concat_tables([task.schema.empty_table(), *(one.rows for one in got)]),
        np.concatenate([np.zeros(0, np.int64), *(one.found for one in got)]),
        sum((one.counts for one in got), Counts()),
    )


def narrowed(task: GetTask, store: Storage) -> Iterator[tuple[BaseFile, RowNumbers]]:
    """Files that are left, and their keys (by their numbers), after the filters that the footer cache has."""
    every = np.arange(len(task.keys), dtype=np.int64)
    wanted = {ask.file.path: every if ask.rows is None else ask.rows for ask in task.asks}
    cached = [(ask.cached_in, ask.file) for ask in task.asks if ask.cached_in is not None]
    for file, footer in FooterCache(store).load_filters(cached):
        if footer is not None:
            bloom = usable_filter(footer.filter_text, footer.filter_type, footer.rows)
            wanted[file.path] = _held(bloom, task.keys, wanted[file.path])
    for ask in task.asks:
        if len(wanted[ask.file.path]):
            yield ask.file, wanted[ask.file.path]


def _held(bloom: BloomFilter | None, keys: pa.Array, rows: RowNumbers) -> RowNumbers:
    """Those of some keys, by their numbers, that a filter may hold."""
    if bloom is None:
        return rows
    return rows[filter_candidates(bloom, string_buffers(keys.take(pa.array(rows))), 0, len(rows))]


def get_from_file(task: GetTask, store: Storage, file: BaseFile, rows: RowNumbers) -> Got:
    """The rows of some keys in one file. Raises: TableCorruptError: it cannot be read."""
    layout = read_layout(store, file)
    opened = Counts(files_opened=1, row_groups=len(layout.key_ends))
    rows = _by_footer(task, layout.footer, rows)
    keys = task.keys.take(pa.array(rows))
    groups = row_groups_for(layout, keys)
    if not groups:
        return Got(task.schema.empty_table(), np.zeros(0, np.int64), opened)
    source = _open(store, file, layout)
    searched = opened + Counts(
        files_read=1,
        row_groups_searched=len(groups),
        keys_read=sum(layout.footer.row_group_rows[group] for group in groups),
    )
    tables, found = [], []
    for group, stored in zip(groups, _key_column(task, source, file, groups, layout), strict=True):
        ordinals = pc.index_in(stored, value_set=keys.cast(stored.type))
        hits = ordinals.is_valid()
        if ordinals.null_count < len(ordinals):
            tables.append(_rows_of(task, source, file, group, stored, hits))
            found.append(rows[ordinals.drop_null().to_numpy()])
    return Got(
        pa.concat_tables([task.schema.empty_table(), *tables]),
        np.concatenate([np.zeros(0, np.int64), *found]),
        searched + Counts(row_groups_read=len(tables)),
    )


def _by_footer(task: GetTask, footer: Footer, rows: RowNumbers) -> RowNumbers:
    """Keys that the footer's range and filter leave possible; what cannot be trusted excludes nothing."""
    if task.config.of(BloomOptions).prune_by_ranges:
        slices = prune(task.keys.take(pa.array(rows)), [KeyRange(footer.min_key, footer.max_key)])
        rows = rows[int(slices.from_row[0]) : int(slices.to_row[0])]
    return _held(usable_filter(footer.filter_text, footer.filter_type, footer.rows), task.keys, rows)


def _open(store: Storage, file: BaseFile, layout: FileLayout) -> pq.ParquetFile:
    try:
        return open_pages(StorageFile(store, file.path, file.size_bytes), metadata=layout.metadata, pre_buffer=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(file, str(error)) from error


def _key_column(
    task: GetTask, source: pq.ParquetFile, file: BaseFile, groups: Sequence[int], layout: FileLayout
) -> list[pa.Array]:
    """Record keys of some row groups, an array each; neighbours are read with one request."""
    if task.virtual is None:
        whole = plain_strings(_read(source, file, groups, [RECORD_KEY]).column(0))
    else:
        stored = task.virtual.columns_in(source.schema_arrow)
        whole = task.virtual.of(_read(source, file, groups, stored), file.path)
    counts = [layout.footer.row_group_rows[group] for group in groups]
    starts = np.concatenate([[0], np.cumsum(counts)]).tolist()
    return [whole.slice(start, count) for start, count in zip(starts, counts, strict=False)]


def _rows_of(
    task: GetTask, source: pq.ParquetFile, file: BaseFile, group: int, keys: pa.Array, hits: pa.Array
) -> pa.Table:
    """The rows that were found in one row group; the key column is not read again."""
    stored = set(source.schema_arrow.names)
    if task.virtual is not None:
        stored -= set(META_COLUMNS)  # they are there, and say nothing
    names = [name for name in task.schema.names if name != RECORD_KEY and name in stored]
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    if names:
        read = _read(source, file, [group], names)
        columns = {name: read.column(name).filter(hits) for name in names}
    columns[RECORD_KEY] = keys.filter(hits).cast(pa.string())
    if task.virtual is not None:
        columns[PARTITION_PATH] = pa.repeat(file.partition_path, len(columns[RECORD_KEY]))
    return align(pa.table(columns), file, task.schema)


def _read(source: pq.ParquetFile, file: BaseFile, groups: Sequence[int], columns: list[str]) -> pa.Table:
    try:
        return read_groups(source, groups, columns)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise damaged(file, str(error)) from error
