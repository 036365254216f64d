"""Base files in parts: an old one, in memory or not, decoded where it is asked for, and columns of a new one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import groupby
from typing import BinaryIO, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.bloom import marks
from lakeindex.errors import InvariantError
from lakeindex.hashing.arrow import one_array, plain_strings
from lakeindex.options.types import WriteConfig
from lakeindex.parquet import stamps
from lakeindex.parquet.pages import open_pages, read_batches, read_column, read_groups
from lakeindex.parquet.splice import ChunkOf, Content, ParquetParts, footer_bytes, joined, parts_of
from lakeindex.write.base_file import (
    FILE_NAME,
    RECORD_KEY,
    constant_column,
    file_schema_of,
    footer_texts,
    parquet_writer,
    schema_of_arrays,
)
from lakeindex.write.single_columns import has_floats, leaves_with_nan, nulls_of
from lakeindex.write.types.avro_schema import META_COLUMNS
from lakeindex.write.types.widening import widened

_OUR_WRITER: Final = "parquet-cpp-arrow"
_BATCH_ROWS: Final = 65_536
_PAGE_BUFFER: Final = 1024 * 1024


class StoredFile(Content, Protocol):
    """A base file's bytes, and the same as a file."""

    def reader(self) -> pa.NativeFile | BinaryIO:
        """Opened anew."""


class WholeFile:
    """A base file in memory."""

    def __init__(self, data: bytes) -> None:
        self._view = memoryview(data)

    def __len__(self) -> int:
        return len(self._view)

    def __getitem__(self, span: slice) -> memoryview:
        return self._view[span]

    def reader(self) -> pa.NativeFile:
        return pa.BufferReader(self._view)


def open_slice(
    file: StoredFile, schema: pa.Schema, config: WriteConfig, *, has_virtual_keys: bool = False
) -> OldSlice | ForeignSlice:
    """A base file that is to be rewritten: in parts if it is ours and of the schema that the new file will have.

    Args:
        has_virtual_keys: the new file's meta columns are null; those of an old one of ours are, too, if it says
            nothing of its keys.

    Raises:
        ArrowException, OSError: its footer cannot be read, or is not what was written.
    """
    footer = footer_bytes(file)
    metadata = open_pages(file.reader()).metadata
    entries = metadata.metadata or {}
    tells_keys = marks.MARK.encode() in entries
    is_marked = not tells_keys and stamps.HEADERS.encode() in entries if has_virtual_keys else tells_keys
    is_ours = is_marked and str(metadata.created_by).startswith(_OUR_WRITER)
    parts = parts_of(file, metadata, footer=footer, entries=entries) if is_ours else None
    if parts is None or parts.schema != _schema_bytes(schema, config):
        return ForeignSlice(file, metadata, entries, schema)
    return OldSlice(file, metadata, entries, schema, parts)


class _Slice:
    """A base file, decoded where it is asked for, in the table's types."""

    def __init__(
        self, file: StoredFile, metadata: pq.FileMetaData, entries: Mapping[bytes, bytes], schema: pa.Schema
    ) -> None:
        self._file = file
        self._metadata = metadata
        self._entries = entries
        self.schema = schema

    @property
    def row_group_starts(self) -> np.ndarray:
        """Where each row group starts, and the end: int64, shape (row groups + 1,)."""
        groups = range(self._metadata.num_row_groups)
        return np.cumsum([0, *(self._metadata.row_group(g).num_rows for g in groups)], dtype=np.int64)

    @property
    def rows(self) -> int:
        return int(self._metadata.num_rows)

    @property
    def row_bytes(self) -> int:
        """What a row takes before compression, on average; values that stand in dictionaries take more when decoded."""
        groups = map(self._metadata.row_group, range(self._metadata.num_row_groups))
        return sum(group.total_byte_size for group in groups) // max(self.rows, 1) + 1

    @cached_property
    def key_value(self) -> dict[str, str]:
        return footer_texts(self._entries)

    def keys(self) -> pa.Array:
        """All record keys, in the file's order."""
        stored = read_column(open_pages(self._file.reader(), metadata=self._metadata), RECORD_KEY)
        return plain_strings(one_array(stored))


class OldSlice(_Slice):
    """A base file of ours: its column chunks can be copied."""

    def __init__(
        self,
        file: StoredFile,
        metadata: pq.FileMetaData,
        entries: Mapping[bytes, bytes],
        schema: pa.Schema,
        parts: ParquetParts,
    ) -> None:
        super().__init__(file, metadata, entries, schema)
        self.parts = parts

    def chunk(self, group: int, column: int) -> ChunkOf:
        """A chunk to copy. Its least and greatest value are left out if it has values that are not a number: files
        from before their writer did so are told by having no checksum of the chunk's page headers, and such a
        chunk is decoded for it.
        """
        parts = self.parts
        is_old = parts.headers[group][column] is None and parts.text.chunks[group][column].ends is not None
        name = parts.columns[column].partition(".")[0]
        if not is_old or not has_floats(self.schema.field(name).type if name in self.schema.names else pa.null()):
            return parts.chunk(group, column)
        first = next(n for n, path in enumerate(parts.columns) if path.partition(".")[0] == name)
        found = leaves_with_nan(self.decode([group], [name]))
        return ChunkOf(parts, group, column, without_ends=column - first in found)

    def has_dictionary(self, group: int, column: str) -> bool:
        """Whether a flat column's values stand in a dictionary."""
        if column not in self.parts.columns:
            return False
        return self.parts.text.chunks[group][self.parts.columns.index(column)].has_dictionary

    def decode(
        self, groups: Sequence[int], columns: Sequence[str] | None = None, dictionaries: Sequence[str] = ()
    ) -> pa.Table:
        """Rows of some row groups, one after the other.

        Args:
            columns: the columns; all if not said.
            dictionaries: text columns to leave in dictionaries, as they are stored.

        Returns:
            The columns in the table's types, or dictionaries of them.
        """
        file = open_pages(self._file.reader(), metadata=self._metadata, read_dictionary=list(dictionaries))
        return _decoded(file, groups, self.schema, columns, dictionaries)

    def rows_at(self, row_group: np.ndarray, row_in_group: np.ndarray, columns: Sequence[str]) -> pa.Table:
        """Some rows, as they are asked for; their row groups ascend. One is decoded at a time.

        Args:
            row_group: of each row: int64 [n].
            row_in_group: its place there: int64 [n].
        """
        return pa.concat_tables(
            [
                self.decode([int(group)], columns).take(pa.array(row_in_group[row_group == group]))
                for group in np.unique(row_group)
            ]
        )


def decode_together(
    wanted: Sequence[tuple[OldSlice, Sequence[int]]],
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] = (),
) -> pa.Table:
    """Rows of row groups of several files of one schema, one behind the other; as :meth:`OldSlice.decode`."""
    sources = [(slice_, [g for _, groups in some for g in groups]) for slice_, some in groupby(wanted, lambda w: w[0])]
    if len(sources) == 1:
        return sources[0][0].decode(sources[0][1], columns, dictionaries)
    raw = joined([(slice_.parts, groups) for slice_, groups in sources], columns)
    file = open_pages(pa.BufferReader(raw), read_dictionary=list(dictionaries))
    return _decoded(file, range(file.num_row_groups), sources[0][0].schema, columns, dictionaries)


def _decoded(
    file: pq.ParquetFile,
    groups: Sequence[int],
    schema: pa.Schema,
    columns: Sequence[str] | None,
    dictionaries: Sequence[str],
) -> pa.Table:
    names = [*META_COLUMNS, *schema.names] if columns is None else list(columns)
    table = read_groups(file, groups, names, use_threads=False)
    kinds = {f.name: f.type for f in schema} | {n: table.schema.field(n).type for n in dictionaries}
    return pa.table([table.column(n).cast(kinds.get(n, pa.string())) for n in names], names=names)


class ForeignSlice(_Slice):
    """A base file of another writer's, or from before a schema change: nothing of it can be copied."""

    def units(self, most: int) -> tuple[int, ...]:
        """Rows of its windows."""
        return tuple(min(most, self.rows - at) for at in range(0, self.rows, most))

    def windows(self, most: int) -> Iterator[pa.Table]:
        """All rows in their order, so many at once, the last ones fewer; columns that the file has not got are null."""
        if most >= self.rows:
            whole = open_pages(self._file.reader(), metadata=self._metadata)
            yield self._fitted(read_groups(whole, range(whole.num_row_groups)))
            return
        file = open_pages(self._file.reader(), metadata=self._metadata, pre_buffer=False, buffer_size=_PAGE_BUFFER)
        some: list[pa.Table] = []
        held = 0
        for batch in read_batches(file, min(most, _BATCH_ROWS)):
            rows = self._fitted(pa.Table.from_batches([batch]))
            while rows.num_rows:
                some.append(rows.slice(0, most - held))
                rows = rows.slice(some[-1].num_rows)
                held += some[-1].num_rows
                if held == most:
                    yield pa.concat_tables(some)
                    some, held = [], 0
        if some:
            yield pa.concat_tables(some)

    def rows_at(self, row_group: np.ndarray, row_in_group: np.ndarray, columns: Sequence[str]) -> pa.Table:
        wanted = self.row_group_starts[row_group] + row_in_group
        order = np.argsort(wanted, kind="stable")
        found, first = [], 0
        for rows in self.windows(_BATCH_ROWS):
            inside = wanted[order][slice(*np.searchsorted(wanted[order], (first, first + rows.num_rows)))] - first
            found.append(rows.select(list(columns)).take(pa.array(inside)))
            first += rows.num_rows
        return pa.concat_tables(found).take(pa.array(np.argsort(order, kind="stable")))

    def _fitted(self, rows: pa.Table) -> pa.Table:
        fields = [*(pa.field(n, pa.string()) for n in META_COLUMNS), *self.schema]
        there = frozenset(rows.column_names)
        columns = [
            widened(rows.column(f.name), f.type) if f.name in there else nulls_of(rows.num_rows, f.type) for f in fields
        ]
        return pa.table(columns, names=[f.name for f in fields])


@lru_cache(maxsize=64)
def _schema_bytes(schema: pa.Schema, config: WriteConfig) -> bytes:
    return encoded_parts([], file_schema_of(schema), config).schema


def encoded_file_names(
    name: str, counts: Iterable[int], schema: pa.Schema, config: WriteConfig
) -> dict[int, ParquetParts]:
    """The column of a base file's name alone, one row group each, by its rows."""
    fields = pa.schema([file_schema_of(schema).field(FILE_NAME)])
    columns = {rows: pa.table([constant_column(name, rows)], names=[FILE_NAME]) for rows in counts}
    return {rows: encoded_parts([one], fields, config, dictionaries=[FILE_NAME]) for rows, one in columns.items()}


def encoded_parts(
    groups: Sequence[pa.Table],
    schema: pa.Schema,
    config: WriteConfig,
    entries: Mapping[str, str] | None = None,
    dictionaries: Sequence[str] = (),
) -> ParquetParts:
    """A Parquet file in memory, a row group a table."""
    fitted = schema_of_arrays(groups[0], schema) if groups else schema
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, fitted, config, dictionaries) as writer:
        for group in groups:
            fits = group.schema.equals(fitted)
            writer.write_table(group if fits else group.cast(fitted), row_group_size=max(group.num_rows, 1))
        if entries:
            writer.add_key_value_metadata(entries)
    data = sink.getvalue()
    has_nan = bool(groups) and bool(leaves_with_nan(pa.concat_tables(groups)))
    nan = frozenset((n, leaf) for n, group in enumerate(groups) for leaf in (leaves_with_nan(group) if has_nan else ()))
    parts = parts_of(memoryview(data), pq.read_metadata(pa.BufferReader(data)), is_stored=False, nan=nan)
    if parts is None:
        raise InvariantError("a file that was just encoded cannot be taken apart", culprit=str(schema.names))
    return parts
