"""The record keys of a base file: one column, by row group."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import pyarrow as pa

from lakeindex.errors import TableCorruptError, first_line
from lakeindex.files.footers import FileLayout, read_structure
from lakeindex.hashing.arrow import one_array, string_buffers
from lakeindex.index.key_ranges import search_sorted
from lakeindex.model import BaseFile
from lakeindex.parquet.pages import open_pages, read_groups
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile
from lakeindex.write.base_file import RECORD_KEY
from lakeindex.write.virtual_keys import VirtualKeys


class StoredColumns:
    """Columns of one base file by row group, read when they are asked for.

    Args:
        virtual: how record keys are made, where rows do not store them: their column is made then.

    Raises:
        TableCorruptError: it cannot be read.
    """

    def __init__(self, storage: Storage, file: BaseFile, virtual: VirtualKeys | None) -> None:
        self._path = file.path
        self._virtual = virtual
        self.partition_path = file.partition_path
        self._structure = read_structure(storage, file)
        self._layout: FileLayout | None = None
        whole = self._structure.whole
        source = StorageFile(storage, file.path, file.size_bytes) if whole is None else pa.BufferReader(whole)
        try:
            self._file = open_pages(source, metadata=self._structure.metadata, pre_buffer=whole is None)
        except (pa.ArrowException, OSError) as error:
            raise self._corrupt(error) from error

    @property
    def row_groups(self) -> range:
        return range(len(self._structure.shape.row_group_rows))

    @property
    def is_read(self) -> bool:
        """The whole file is in memory: it is a small one."""
        return self._structure.whole is not None

    def row_groups_for(self, keys: pa.Array) -> list[int]:
        """As :func:`row_groups_for`, of this file; a file that is in memory, of one row group, is not asked."""
        if self.is_read and len(self.row_groups) == 1:
            return list(self.row_groups)
        if self._layout is None:
            self._layout = self._structure.layout()
        return row_groups_for(self._layout, keys)

    def row_groups_since(self, name: str, least: str) -> list[int]:
        """Row groups that may hold a value of a column of texts that is not less than this one, by its statistics."""
        names = self._file.schema_arrow.names
        if name not in names:
            return list(self.row_groups)
        metadata, found = self._structure.metadata, []
        place = self._file.reader.column_paths.index([name])
        for group in self.row_groups:
            statistics = metadata.row_group(group).column(place).statistics
            greatest = statistics.max if statistics is not None and statistics.has_min_max else None
            if greatest is None or greatest >= least:
                found.append(group)
        return found

    def column(self, name: str, row_groups: Iterable[int]) -> list[pa.Array]:
        """The column's values, an array a row group; null where the file has no such column."""
        return self.columns([name], list(row_groups))[0]

    def columns(self, names: Sequence[str], row_groups: Sequence[int]) -> list[list[pa.Array]]:
        """The same, of several columns: they are read at once."""
        rows = [self._structure.shape.row_group_rows[group] for group in row_groups]
        schema = self._structure.shape.arrow_schema
        made: dict[str, list[pa.Array]] = {}
        if self._virtual is not None and RECORD_KEY in names:
            made[RECORD_KEY] = self._made_keys(self._virtual, row_groups)
        there = frozenset(schema.names)
        stored = [name for name in names if name in there and name not in made]
        if stored and row_groups:
            try:
                table = read_groups(self._file, row_groups, stored, use_threads=not self.is_read)
            except (pa.ArrowException, OSError) as error:
                raise self._corrupt(error) from error
            spans = list(zip(itertools.accumulate(rows, initial=0), rows, strict=False))
            made |= {name: [one_array(table.column(name).slice(*span)) for span in spans] for name in stored}
        return [made[name] if name in made else [pa.nulls(count) for count in rows] for name in names]

    def _made_keys(self, virtual: VirtualKeys, row_groups: Iterable[int]) -> list[pa.Array]:
        stored = virtual.columns_in(self._file.schema_arrow)
        found = []
        for group in row_groups:
            try:
                rows = read_groups(self._file, [group], stored)
            except (pa.ArrowException, OSError) as error:
                raise self._corrupt(error) from error
            found.append(virtual.of(rows, self._path))
        return found

    def _corrupt(self, error: Exception) -> TableCorruptError:
        return TableCorruptError(
            f"base file {self._path!r} cannot be read: {first_line(error)}",
            culprit=self._path,
            hint="restore the file, or roll the table back to an instant before it",
        )


def row_groups_for(layout: FileLayout, keys: pa.Array) -> list[int]:
    """Row groups that may hold one of these keys, by the key column's statistics;
    all if the footer is not to be trusted.

    Statistics are believed only of a footer without a problem: its filter holds the ends of every row group then.

    Args:
        keys: ascending by their UTF-8 bytes.
    """
    if not len(keys):
        return []
    filled = [group for group, rows in enumerate(layout.footer.row_group_rows) if rows]
    if layout.footer.problem is not None:
        return filled
    known = [(group, ends) for group in filled if (ends := layout.key_ends[group]) is not None]
    buffers = string_buffers(keys)
    first = search_sorted(buffers, [low for _, (low, _) in known], right=False)
    last = search_sorted(buffers, [high for _, (_, high) in known], right=True)
    closed = {group for (group, _), low, high in zip(known, first, last, strict=True) if high <= low}
    return [group for group in filled if group not in closed]


def read_record_keys(storage: Storage, file: BaseFile, virtual: VirtualKeys | None = None) -> pa.Array:
    """All record keys of a file, in file order; arguments as of :class:`StoredColumns`."""
    stored = StoredColumns(storage, file, virtual)
    groups = [group.cast(pa.string()) for group in stored.column(RECORD_KEY, stored.row_groups)]
    return pa.concat_arrays(groups) if groups else pa.array([], pa.string())
