"""The live base files of a table, now or at a point in time, with their rows: no row is read for any of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import pyarrow as pa

from lakeindex.commit.written_slices import rows_of_files
from lakeindex.frozen import Frozen
from lakeindex.operations.consistent_read import read_consistently
from lakeindex.operations.look.inspect import Column
from lakeindex.operations.rows.time_travel import past_table
from lakeindex.options.parse import Options, parse_options
from lakeindex.showing.json_result import TableResult
from lakeindex.showing.notebook import Shown
from lakeindex.table.handle import Table
from lakeindex.table.table_columns import table_schema
from lakeindex.timeline.timeline import Timeline


class LiveFile(Frozen):
    """A base file that readers of the table read.

    Attributes:
        path: below the table's folder.
        partition: its partition path; empty if the table has no partitions.
        file_id: its file group.
        instant: the commit that wrote it.
        bytes: its size.
        rows: its rows.
    """

    path: str
    partition: str
    file_id: str
    instant: str
    bytes: int
    rows: int


class LiveFiles(tuple[LiveFile, ...], Shown):
    """Live base files, by partition and file id: a tuple that shows itself."""

    __slots__ = ()
    shown_by: ClassVar[str] = "facts:show_live_files"


class TableFiles(TableResult):
    """The live base files of a table.

    Attributes:
        instant: newest commit that counts; None on an empty table.
        as_of: the point in time asked for, as an instant; None for now.
        files: by partition and file id.
    """

    shown_by: ClassVar[str] = "facts:show_files"

    instant: str | None
    as_of: str | None
    files: tuple[LiveFile, ...]


class LivePartition(Frozen):
    """A partition that has live files.

    Attributes:
        path: its partition path; empty if the table has no partitions.
        files: its live base files.
        bytes: their size.
        rows: their rows.
    """

    path: str
    files: int
    bytes: int
    rows: int


class LivePartitions(tuple[LivePartition, ...], Shown):
    """Partitions that have live files, by path: a tuple that shows itself."""

    __slots__ = ()
    shown_by: ClassVar[str] = "facts:show_live_partitions"


class TablePartitions(TableResult):
    """The partitions of a table; attributes as of :class:`TableFiles`, and its partitions by path."""

    shown_by: ClassVar[str] = "facts:show_partitions"

    instant: str | None
    as_of: str | None
    partitions: tuple[LivePartition, ...]


class TableCount(TableResult):
    """The number of rows of a table; attributes as of :class:`TableFiles`, and its live rows and files."""

    shown_by: ClassVar[str] = "facts:show_count"

    instant: str | None
    as_of: str | None
    rows: int
    files: int


class TableColumns(TableResult):
    """The columns of a table, without meta columns."""

    shown_by: ClassVar[str] = "facts:show_columns"

    columns: tuple[Column, ...]


class TableEntries(TableResult):
    """What a table's ``hoodie.properties`` says, name by name."""

    shown_by: ClassVar[str] = "facts:show_entries"

    properties: dict[str, str]


def live_files(
    uri: str, *, partition: str | None = None, as_of: str | None = None, options: Options | None = None
) -> TableFiles:
    """The live base files. Their rows are those that the commits state; of a file whose commit is not on the active
    timeline any more, those that its footer states.

    Args:
        partition: only those of this partition path.
        as_of: an instant or ISO time, inclusive: the files as they were then.
        options: ``hoodie.metadata.enable`` counts.

    Raises:
        TableError: no table, or one that is not read; a damaged commit or footer.
        UsageError: a point in time that the history does not reach, or no such partition.
        WriteConflictError: other writers took away what was read, again and again.
    """

    def look(table: Table, timeline: Timeline) -> TableFiles:
        past = past_table(table, timeline, as_of)
        past.check_partitions(() if partition is None else (partition,))
        found = past.snapshot.base_files_all()
        if partition is not None:
            found = tuple(one for one in found if one.partition_path == partition)
        rows = rows_of_files(table, past.commits, found)
        files = (
            LiveFile(one.path, one.partition_path, one.file_id, one.instant_time, one.size_bytes, rows[one.path])
            for one in found
        )
        ordered = tuple(sorted(files, key=lambda one: (one.partition, one.file_id)))
        return TableFiles(table.name, table.uri, past.snapshot.instant_time, past.as_of, ordered)

    return read_consistently(uri, look, use_metadata=parse_options(options or {}).use_metadata)


def live_partitions(uri: str, *, as_of: str | None = None, options: Options | None = None) -> TablePartitions:
    """The partitions that have live files; arguments and errors as of :func:`live_files`."""
    found = live_files(uri, as_of=as_of, options=options)
    by_path: dict[str, list[LiveFile]] = {}
    for one in found.files:
        by_path.setdefault(one.partition, []).append(one)
    partitions = tuple(
        LivePartition(path, len(files), sum(one.bytes for one in files), _rows(files))
        for path, files in sorted(by_path.items())
    )
    return TablePartitions(found.table, found.uri, found.instant, found.as_of, partitions)


def count_rows(
    uri: str, *, partition: str | None = None, as_of: str | None = None, options: Options | None = None
) -> TableCount:
    """The number of live rows; arguments and errors as of :func:`live_files`."""
    found = live_files(uri, partition=partition, as_of=as_of, options=options)
    return TableCount(found.table, found.uri, found.instant, found.as_of, _rows(found.files), len(found.files))


def _rows(files: Iterable[LiveFile]) -> int:
    return sum(one.rows for one in files)


def columns_of(uri: str) -> pa.Schema:
    """The table's columns, without meta columns.

    Raises:
        TableUnsupportedError: it does not say which columns it has.
    """
    return read_consistently(uri, lambda table, timeline: table_schema(table, table.snapshot(timeline=timeline)))


def table_columns(uri: str) -> TableColumns:
    """As :func:`columns_of`, with the table's name, types as text."""
    table, found = Table.at(uri), columns_of(uri)
    return TableColumns(
        table.name, table.uri, tuple(Column(field.name, str(field.type), field.nullable) for field in found)
    )


def table_entries(uri: str) -> TableEntries:
    """What the table's ``hoodie.properties`` says now. Raises: TableNotFoundError, TableCorruptError."""
    table = Table.at(uri)
    return TableEntries(table.name, table.uri, dict(table.properties.entries))
