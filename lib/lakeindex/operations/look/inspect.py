"""What a table is: its properties, what is bound to it, how big it is, and whether we can write to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from lakeindex.commit.import_mark import incomplete
from lakeindex.commit.written_slices import read_commits, rows_of_files
from lakeindex.errors import LakeIndexError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.frozen import Frozen
from lakeindex.model import BaseFile, Instant
from lakeindex.operations.look.history import iso_time
from lakeindex.options.types import WriteConfig
from lakeindex.showing.json_result import JsonResult
from lakeindex.table.handle import Table
from lakeindex.table.table_columns import check_written, table_schema
from lakeindex.timeline.timeline import Timeline

_MIB = 1024 * 1024
_BOUNDS = (1, 16, 64, 120, 256)


class SizeBucket(Frozen):
    """Live files below a size (None: the rest)."""

    below_bytes: int | None
    files: int


class PendingInstant(Frozen):
    """An instant that has not completed."""

    instant: str
    action: str
    state: str
    time: str | None


class Column(Frozen):
    """A column of the table."""

    name: str
    type: str
    nullable: bool


class WriteRefusal(Frozen):
    """Why the table is not written to."""

    error: str
    message: str
    culprit: str | None
    hint: str | None


class TableInspection(JsonResult):
    """What a table is.

    Attributes:
        name: table name.
        uri: where it is.
        table_type: COPY_ON_WRITE.
        version: table version.
        key_fields: columns of the record key.
        partition_fields: columns of the partition path.
        ordering_fields: columns that say which version of a row is newer.
        key_generator: its type; None if it is none we know.
        hive_style: partition folders are ``field=value``.
        merge_mode: which version of a row wins; None if the table does not say.
        index_type: the index that writes use; None until the first write binds it.
        complex_key_new_encoding: how one-field complex keys are stored; None where it does not matter or is not bound.
        bound: whether index, merge mode and key encoding are bound.
        metadata_partitions: partitions of a metadata table.
        columns: the table's columns, without meta columns; empty if it does not say.
        instants: instants of the active timeline, by action.
        last_commit: newest completed write.
        last_commit_time: the same as ISO time.
        pending: instants that have not completed.
        savepoints: commits that savepoints keep.
        partitions: partitions with files.
        files: live base files.
        bytes: their size.
        rows: their rows.
        file_sizes: live files by size.
        older_files: superseded files that a clean would remove.
        older_bytes: their size.
        uncommitted_files: files of pending, failed or rolled back writes.
        pending_import: what there is to say of an import that is not complete; None if there is none.
        writable: whether an upsert would be accepted.
        refusal: why not.
    """

    shown_by: ClassVar[str] = "results:show_inspection"

    name: str
    uri: str
    table_type: str
    version: int
    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    key_generator: str | None
    hive_style: bool
    merge_mode: str | None
    index_type: str | None
    complex_key_new_encoding: bool | None
    bound: bool
    metadata_partitions: tuple[str, ...]
    columns: tuple[Column, ...]
    instants: dict[str, int]
    last_commit: str | None
    last_commit_time: str | None
    pending: tuple[PendingInstant, ...]
    savepoints: tuple[str, ...]
    partitions: int
    files: int
    bytes: int
    rows: int
    file_sizes: tuple[SizeBucket, ...]
    older_files: int
    older_bytes: int
    uncommitted_files: int
    writable: bool
    refusal: WriteRefusal | None
    pending_import: str | None = None


def inspect_table(uri: str) -> TableInspection:
    """Look at a table.

    Raises:
        TableError: no table, one that is not read, or a damaged commit or footer.
    """
    table = Table.at(uri)
    timeline = table.load_timeline()
    found = table.listed_snapshot(timeline)
    live = found.base_files_all()
    sorted_out = [found.files_of(path) for path in found.partitions()]
    older = [file for one in sorted_out for file in (*one.older, *one.doubles)]
    properties, binding, index, refusal = table.properties, table.binding, table.index(timeline), _refusal(table, found)
    declared = properties.declared_merge_mode if binding is None else binding.merge_mode
    last = timeline.last_completed_write_time
    return TableInspection(
        name=table.name,
        uri=table.uri,
        table_type=properties.table_type,
        version=properties.version,
        key_fields=properties.key_fields,
        partition_fields=properties.partition_fields,
        ordering_fields=properties.ordering_fields,
        key_generator=properties.key_generator,
        hive_style=properties.hive_style,
        merge_mode=declared,
        index_type=None if index is None else index.index_type,
        complex_key_new_encoding=None if binding is None else binding.complex_key_new_encoding,
        bound=binding is not None,
        metadata_partitions=properties.metadata_partitions,
        columns=_columns(table, found),
        instants=_instants(timeline),
        last_commit=last,
        last_commit_time=None if last is None else iso_time(table, last),
        pending=tuple(_pending(table, one) for one in timeline.pending),
        savepoints=tuple(sorted(timeline.savepoints)),
        partitions=sum(bool(one.live) for one in sorted_out),
        files=len(live),
        bytes=sum(file.size_bytes for file in live),
        rows=sum(rows_of_files(table, read_commits(table, timeline), live).values()),
        file_sizes=_histogram(live),
        older_files=len(older),
        older_bytes=sum(file.size_bytes for file in older),
        uncommitted_files=sum(len(one.unseen) for one in sorted_out),
        writable=refusal is None,
        refusal=refusal,
        pending_import=incomplete(table.storage, timeline),
    )


def _columns(table: Table, found: Snapshot) -> tuple[Column, ...]:
    try:
        schema = table_schema(table, found)
    except LakeIndexError:
        return ()  # a table that never said which columns it has is still a table
    return tuple(Column(field.name, str(field.type), field.nullable) for field in schema)


def _refusal(table: Table, found: Snapshot) -> WriteRefusal | None:
    try:
        check_written(table, found)
        table.bound_for(WriteConfig())
    except LakeIndexError as error:
        return WriteRefusal(type(error).__name__, error.message, error.culprit, error.hint)
    return None


def _instants(timeline: Timeline) -> dict[str, int]:
    actions = [instant.action for instant in timeline.completed]
    return {action: actions.count(action) for action in sorted(set(actions))}


def _pending(table: Table, instant: Instant) -> PendingInstant:
    return PendingInstant(instant.time, instant.action, instant.state.value, iso_time(table, instant.time))


def _histogram(files: Sequence[BaseFile]) -> tuple[SizeBucket, ...]:
    bounds = [bound * _MIB for bound in _BOUNDS]
    counts = [0] * (len(bounds) + 1)
    for file in files:
        counts[sum(file.size_bytes >= bound for bound in bounds)] += 1
    return tuple(SizeBucket(bound, count) for bound, count in zip([*bounds, None], counts, strict=True))
