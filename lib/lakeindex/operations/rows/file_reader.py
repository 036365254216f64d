"""Read the chosen rows of base files, and of each file no more than it takes.

Rows are found in one of two ways. By key: a file is left alone if its key range or its filter (from the footer cache,
else from its footer) hold none of the keys; of the others the key column is read, in those row groups whose statistics
leave a key possible, and the other columns only of row groups where a key was found. Else row groups whose statistics
leave a row possible are read in batches: no more than a row group's columns is held at once. Parquet's page indexes are
not used: pyarrow does not read them, and our own row groups are small.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct, field
from msgspec.structs import replace

from lakeindex.bloom import BloomFilter, filter_candidates, usable_filter
from lakeindex.files.footer_cache import FooterCache
from lakeindex.files.footers import FileLayout, Footer, ParquetFooter, read_layout, read_parquet_footer
from lakeindex.files.key_columns import row_groups_for
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import RowNumbers, plain_strings, string_buffers
from lakeindex.index.bloom_options import BloomOptions
from lakeindex.index.key_ranges import KeyRange, prune
from lakeindex.model import BaseFile
from lakeindex.operations.rows.aligned_rows import (
    BATCH_ROWS,
    align,
    aligned_batches,
    blamed,
    open_base_file,
    stored_names,
)
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.pages import read_groups
from lakeindex.storage import StoreOptions, open_storage
from lakeindex.storage.port import Storage
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from lakeindex.write.types.avro_schema import META_COLUMNS

if TYPE_CHECKING:
    from lakeindex.operations.rows.time_travel import LaterWrites
    from lakeindex.predicates.predicate import Predicate
    from lakeindex.write.virtual_keys import VirtualKeys

_OLD_TIME_DIGITS: Final = 14
_WORTH_A_REQUEST: Final = 1024 * 1024
"""So many bytes of a far store take as long as a request more."""


class Tally(Struct):
    """What was read of one file, or of several.

    Attributes:
        files_opened: files whose footer was read.
        files_read: files of which columns were read.
        row_groups: row groups of the opened files.
        row_groups_read: row groups of which columns were read; by key: the key column.
        row_groups_found: row groups in which a key was found: their other columns were read, too.
        keys_read: keys in the key columns that were read.
        rows_read: rows that were read, and compared with the condition.
        rows: rows given out.
    """

    files_opened: int = 0
    files_read: int = 0
    row_groups: int = 0
    row_groups_read: int = 0
    row_groups_found: int = 0
    keys_read: int = 0
    rows_read: int = 0
    rows: int = 0

    def add(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class ReadSpec(Frozen):
    """How base files are read; a task can carry it.

    Attributes:
        schema: columns to return.
        inner: columns to read: those, and what conditions and the order of the rows need.
        predicate: the condition; None: all rows.
        keys: record keys, distinct, ascending by UTF-8 bytes, where rows are found by key; else None.
        later: rows must be of one of these writes; None: of any.
        virtual: how the keys of stored rows are made; None: they are stored, or not asked for.
    """

    uri: str
    schema: pa.Schema
    inner: pa.Schema
    predicate: Predicate | None
    keys: pa.Array | None
    later: LaterWrites | None
    config: WriteConfig
    virtual: VirtualKeys | None = None


class OpenFile(Frozen):
    """A file, and its row groups that can hold a chosen row; at least one."""

    source: pq.ParquetFile
    groups: list[int]


class FileReader(Frozen):
    """The chosen rows of one file.

    Attributes:
        rows: the keys to look for, by their numbers, ascending; None: its rows are compared with the condition only.
        ready: the file, if it was opened before.
    """

    spec: ReadSpec
    storage: Storage
    file: BaseFile
    rows: RowNumbers | None
    tally: Tally = field(default_factory=Tally)
    ready: OpenFile | None = None

    def opened(self) -> FileReader | None:
        """The same with its footer read, so that only decoding is left; None: no row can be chosen.

        Raises:
            TableCorruptError: the footer cannot be read.
        """
        if self.rows is not None:
            return self
        ready = self._opened()
        return None if ready is None else replace(self, ready=ready)

    def table(self, *, use_threads: bool) -> pa.Table:
        """All chosen rows at once; arguments and errors as of :meth:`tables`."""
        spec = self.spec
        if self.rows is not None or spec.predicate is not None or spec.later is not None:
            return pa.concat_tables([spec.schema.empty_table(), *self.tables(use_threads=use_threads)])
        opened = self._opened()
        if opened is None:
            return spec.schema.empty_table()
        source, groups = opened.source, opened.groups
        # in a third of the time of batches, most of which is fresh memory
        rows = self._read(source, groups, stored_names(source, spec.inner), use_threads=use_threads)
        self.tally.row_groups_read += len(groups)
        self.tally.rows += rows.num_rows
        return self._chosen(align(rows, self.file, spec.inner))

    def tables(self, *, use_threads: bool = True) -> Iterator[pa.Table]:
        """Rows with the plan's columns; tables without rows are left out.

        Raises:
            TableCorruptError: the file is missing or cannot be read.
        """
        for chosen in self._pieces(use_threads=use_threads):
            if chosen.num_rows:
                self.tally.rows += chosen.num_rows
                yield chosen

    def count(self, *, use_threads: bool = True) -> int:
        """How many rows are chosen; the footer tells, if all are."""
        if self.rows is None and self.spec.predicate is None and self.spec.later is None:
            opened = self._opened()
            return 0 if opened is None else int(opened.source.metadata.num_rows)
        return sum(table.num_rows for table in self.tables(use_threads=use_threads))

    def by_key(self) -> Iterator[tuple[pa.Table, RowNumbers]]:
        """The rows of its keys, with the columns to read, and the numbers of their keys, by row group.

        Raises:
            TableCorruptError: the file cannot be read.
        """
        assert self.rows is not None
        layout = read_layout(self.storage, self.file)
        self.tally.files_opened += 1
        self.tally.row_groups += len(layout.key_ends)
        every = _keys_of(self.spec)
        rows = _by_footer(self.spec, every, layout.footer, self.rows)
        keys = every.take(pa.array(rows))
        groups = row_groups_for(layout, keys)
        if not groups:
            return
        source = open_base_file(self.storage, self.file, layout.metadata)
        self.tally.files_read += 1
        self.tally.row_groups_read += len(groups)
        self.tally.keys_read += sum(layout.footer.row_group_rows[group] for group in groups)
        for group, stored in zip(groups, self._key_columns(source, groups, layout), strict=True):
            ordinals = pc.index_in(stored, value_set=keys.cast(stored.type))
            if ordinals.null_count < len(ordinals):
                self.tally.row_groups_found += 1
                found = self._rows_of(source, group, stored, ordinals.is_valid())
                yield found, rows[ordinals.drop_null().to_numpy()]

    def _chosen(self, rows: pa.Table) -> pa.Table:
        spec = self.spec
        self.tally.rows_read += rows.num_rows
        if spec.later is not None:
            rows = _newer(rows, spec.later)
        if spec.predicate is not None:
            rows = spec.predicate.filter(rows)
        return rows.select(spec.schema.names)

    def _pieces(self, *, use_threads: bool) -> Iterator[pa.Table]:
        """The chosen rows, a piece at a time; there may be none in one."""
        if self.rows is not None:
            yield from (self._chosen(rows) for rows, _ in self.by_key())
            return
        opened = self._opened()
        if opened is None:
            return
        source, groups = opened.source, opened.groups
        for some in _together(source.metadata, groups):
            self.tally.row_groups_read += len(some)
            later = self._read_later(source, some)
            if later is not None:
                yield from self._in_two_steps(source, some, later, use_threads=use_threads)
                continue
            for rows in aligned_batches(source, self.file, some, self.spec.inner, use_threads=use_threads):
                yield self._chosen(rows)

    def _read_later(self, source: pq.ParquetFile, groups: Sequence[int]) -> pa.Schema | None:
        """The columns of which the condition asks nothing, if they are worth a look at the condition's first."""
        predicate = self.spec.predicate
        if predicate is None or not predicate.columns or self.spec.later is not None:
            return None
        names = [name for name in self.spec.schema.names if name not in predicate.columns]
        tops, size = frozenset(names), 0
        for group in map(source.metadata.row_group, groups):
            chunks = map(group.column, range(group.num_columns))
            size += sum(one.total_compressed_size for one in chunks if one.path_in_schema.partition(".")[0] in tops)
            if size > _WORTH_A_REQUEST:
                return pa.schema([self.spec.schema.field(name) for name in names])
        return None

    def _in_two_steps(
        self, source: pq.ParquetFile, groups: Sequence[int], later: pa.Schema, *, use_threads: bool
    ) -> Iterator[pa.Table]:
        """The chosen rows of some row groups: the condition's columns are read first, the others of those groups only
        that have a chosen row.
        """
        spec, masks, parts, names = self.spec, [], [], frozenset(later.names)
        assert spec.predicate is not None
        first = pa.schema([one for one in spec.inner if one.name not in names])
        for rows in aligned_batches(source, self.file, groups, first, use_threads=use_threads):
            self.tally.rows_read += rows.num_rows
            masks.append(spec.predicate.mask(rows))
            parts.append(rows.filter(masks[-1]))
        found, mask, start = pa.concat_tables(parts), pa.concat_arrays(masks), 0
        filled, chosen = [], []
        for group in groups:
            rows_here = source.metadata.row_group(group).num_rows
            here = mask.slice(start, rows_here)
            start += rows_here
            if here.true_count:
                filled.append(group)
                chosen.append(here)
        if not filled:
            return
        mask, start, given = pa.concat_arrays(chosen), 0, 0
        for rows in aligned_batches(source, self.file, filled, later, use_threads=use_threads):
            rest = rows.filter(mask.slice(start, rows.num_rows))
            start += rows.num_rows
            columns = [
                (rest if name in names else found.slice(given, rest.num_rows)).column(name)
                for name in spec.schema.names
            ]
            given += rest.num_rows
            yield pa.table(columns, schema=spec.schema)

    def _opened(self) -> OpenFile | None:
        if self.ready is not None:
            return self.ready
        footer = read_parquet_footer(self.storage, self.file)
        groups = self._groups(footer)
        self.tally.files_opened += 1
        self.tally.row_groups += footer.metadata.num_row_groups
        if not groups:
            return None
        self.tally.files_read += 1
        return OpenFile(open_base_file(self.storage, self.file, footer.metadata), groups)

    def _groups(self, footer: ParquetFooter) -> list[int]:
        """Row groups that can hold a chosen row, by their statistics."""
        metadata = footer.metadata
        filled = [group for group in range(metadata.num_row_groups) if metadata.row_group(group).num_rows]
        predicate = self.spec.predicate
        if predicate is None:
            return filled
        from lakeindex.operations.rows.known_bounds import FooterStatistics  # not for who reads by key

        statistics = FooterStatistics(footer, predicate)
        return [group for group in filled if predicate.may_match(statistics.of(group))]

    def _key_columns(self, source: pq.ParquetFile, groups: Sequence[int], layout: FileLayout) -> list[pa.Array]:
        """Record keys of some row groups, an array each; neighbours are read with one request."""
        virtual = self.spec.virtual
        if virtual is None:
            whole = plain_strings(self._read(source, groups, [RECORD_KEY]).column(0))
        else:
            stored = self._read(source, groups, virtual.columns_in(source.schema_arrow))
            whole = virtual.of(stored, self.file.path)
        counts = [layout.footer.row_group_rows[group] for group in groups]
        starts = np.concatenate([[0], np.cumsum(counts)]).tolist()
        return [whole.slice(start, count) for start, count in zip(starts, counts, strict=False)]

    def _rows_of(self, source: pq.ParquetFile, group: int, keys: pa.Array, hits: pa.Array) -> pa.Table:
        """The rows that were found in one row group; the key column is not read again."""
        stored = set(source.schema_arrow.names)
        if self.spec.virtual is not None:
            stored -= set(META_COLUMNS)  # they are there, and say nothing
        names = [name for name in self.spec.inner.names if name != RECORD_KEY and name in stored]
        columns: dict[str, pa.Array | pa.ChunkedArray] = {}
        if names:
            read = self._read(source, [group], names)
            columns = {name: read.column(name) for name in names}
        columns[RECORD_KEY] = keys.cast(pa.string())
        if self.spec.virtual is not None:
            columns[PARTITION_PATH] = pa.repeat(self.file.partition_path, len(keys))
        return align(pa.table(columns), self.file, self.spec.inner).filter(hits)  # Arrow filters no views

    def _read(
        self, source: pq.ParquetFile, groups: Sequence[int], columns: list[str], *, use_threads: bool = True
    ) -> pa.Table:
        with blamed(self.file):
            return read_groups(source, groups, columns, use_threads=use_threads)


class FileAsk(Frozen):
    """One file, and the keys to look for in it.

    Attributes:
        rows: int64, ascending: which of the keys; None: all of them.
        cached_in: the side file of the footer cache that has its filter; None if its footer is not cached.
    """

    file: BaseFile
    rows: RowNumbers | None
    cached_in: str | None = None


class KeyTask(Frozen):
    """Some files to look for keys in."""

    spec: ReadSpec
    asks: tuple[FileAsk, ...]


class Got(Frozen):
    """Rows of some files; ``found``: which keys, by their number, each as often as it is there."""

    rows: pa.Table
    found: RowNumbers
    tally: Tally

    @staticmethod
    def of(schema: pa.Schema, parts: Sequence[tuple[pa.Table, RowNumbers]], tally: Tally) -> Got:
        return Got(
            pa.concat_tables([schema.empty_table(), *(rows for rows, _ in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(found for _, found in parts)]),
            tally,
        )


def get_from_files(task: KeyTask) -> Got:
    """The rows of the task's keys in its files.

    Raises:
        TableCorruptError: a file that may hold a key cannot be read.
    """
    spec, store, tally = task.spec, storage_at(task.spec.uri), Tally()
    left = narrowed(_keys_of(spec), task.asks, store)
    parts = [part for file, rows in left for part in FileReader(spec, store, file, rows, tally).by_key()]
    return Got.of(spec.inner, parts, tally)


def narrowed(keys: pa.Array, asks: Sequence[FileAsk], store: Storage) -> Iterator[tuple[BaseFile, RowNumbers]]:
    """Files that are left, and their keys (by their numbers), after the filters that the footer cache has."""
    every = np.arange(len(keys), dtype=np.int64)
    wanted = {ask.file.path: every if ask.rows is None else ask.rows for ask in asks}
    cached = [(ask.cached_in, ask.file) for ask in asks if ask.cached_in is not None]
    for file, footer in FooterCache(store).load_filters(cached):
        if footer is not None:
            bloom = usable_filter(footer.filter_text, footer.filter_type, footer.rows)
            wanted[file.path] = _held(bloom, keys, wanted[file.path])
    for ask in asks:
        if len(wanted[ask.file.path]):
            yield ask.file, wanted[ask.file.path]


def _together(metadata: pq.FileMetaData, groups: Sequence[int]) -> Iterator[list[int]]:
    """The row groups, small neighbours together: as many as a batch holds."""
    some: list[int] = []
    rows = 0
    for group in groups:
        more = metadata.row_group(group).num_rows
        if some and rows + more > BATCH_ROWS:
            yield some
            some, rows = [], 0
        some.append(group)
        rows += more
    if some:
        yield some


def _keys_of(spec: ReadSpec) -> pa.Array:
    return spec.keys if spec.keys is not None else pa.array([], pa.string())


def _held(bloom: BloomFilter | None, keys: pa.Array, rows: RowNumbers) -> RowNumbers:
    """The keys that a filter may hold, by their numbers."""
    if bloom is None:
        return rows
    return rows[filter_candidates(bloom, string_buffers(keys.take(pa.array(rows))), 0, len(rows))]


def _by_footer(spec: ReadSpec, keys: pa.Array, footer: Footer, rows: RowNumbers) -> RowNumbers:
    """Keys that the footer's range and filter leave possible; what cannot be trusted excludes nothing."""
    if spec.config.of(BloomOptions).prune_by_ranges:
        slices = prune(keys.take(pa.array(rows)), [KeyRange(footer.min_key, footer.max_key)])
        rows = rows[int(slices.from_row[0]) : int(slices.to_row[0])]
    return _held(usable_filter(footer.filter_text, footer.filter_type, footer.rows), keys, rows)


def _newer(rows: pa.Table, later: LaterWrites) -> pa.Table:
    """The rows that one of these writes wrote, as their ``_hoodie_commit_time`` says."""
    times = rows.column(COMMIT_TIME)
    old = pc.equal(pc.binary_length(times), _OLD_TIME_DIGITS)
    comparable = pc.if_else(old, pc.binary_join_element_wise(times, "999", ""), times)
    chosen = pc.greater(comparable, later.point)
    for is_after in (True, False):
        odd = [time for time, after in later.known.items() if after is is_after]
        if odd:
            chosen = pc.if_else(pc.is_in(times, pa.array(odd, pa.string())), is_after, chosen)
    return rows.filter(chosen)


class PieceReader(Frozen):
    """Reads the files of a plan by their numbers, in another process.

    Attributes:
        options: of the stores; they are shown nowhere.
    """

    spec: ReadSpec
    files: tuple[tuple[BaseFile, RowNumbers | None], ...]
    options: StoreOptions

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        file, rows = self.files[number]
        for table in FileReader(self.spec, open_storage(self.spec.uri, self.options), file, rows).tables():
            yield from table.to_batches()
