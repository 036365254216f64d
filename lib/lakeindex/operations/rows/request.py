"""Which rows are asked for, and what a scan tells of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
from msgspec import field

from lakeindex.errors import UsageError
from lakeindex.frozen import ComparedInPart
from lakeindex.showing.json_result import TableResult
from lakeindex.write.types.avro_schema import META_COLUMNS

if TYPE_CHECKING:
    from lakeindex.predicates.predicate import Condition


class ScanRequest(ComparedInPart):
    """What is read of a table.

    Attributes:
        columns: columns to return, in this order; None: the table's.
        where: which rows; None: all.
        partitions: only rows of these partition paths; None: of all.
        as_of: an instant or ISO time, inclusive: rows as they were then.
        since: an instant or ISO time, exclusive: only rows written after it.
        meta: the meta columns come first, where ``columns`` does not say what is wanted; None: if the table fills them.
    """

    aside: ClassVar = frozenset({"where"})
    columns: tuple[str, ...] | None = None
    where: Condition | None = None
    partitions: tuple[str, ...] | None = None
    as_of: str | None = None
    since: str | None = None
    meta: bool | None = False
    options: Mapping[str, str] = field(default_factory=dict)

    def chosen(self, schema: pa.Schema) -> pa.Schema:
        """The columns to return.

        Args:
            schema: meta columns, unless the table has virtual keys, then the table's.

        Raises:
            UsageError: a column that is not there, or none at all.
        """
        if self.columns is None:
            return (
                schema if self.meta is not False else pa.schema([one for one in schema if one.name not in META_COLUMNS])
            )
        there = frozenset(schema.names)
        unknown = [name for name in self.columns if name not in there]
        if unknown or not self.columns:
            raise UsageError(
                f"the table has no column {unknown[0]!r}" if unknown else "no columns are requested",
                culprit=unknown[0] if unknown else None,
                hint=f"its columns: {', '.join(schema.names)}",
            )
        return pa.schema([schema.field(name) for name in dict.fromkeys(self.columns)])


class ScanReport(TableResult):
    """What a scan reads, and what it leaves out. What only reading tells is None in a plan.

    Attributes:
        instant: newest commit of the state that is read; None on an empty table.
        as_of: the point in time asked for, as an instant.
        since: rows are newer than this instant.
        where: the condition.
        columns: columns that are returned.
        keys: record keys that the condition asks for; None if it asks for none, or they are not known.
        index_type: the index that was asked for the keys; None if none was.
        files: live base files of the table.
        files_pruned_by_partition: of those, files left out by their partition.
        files_pruned_by_statistics: files left out by ``column_stats`` of the metadata table, or by ``since``.
        files_pruned_by_key: files left out by the index.
        files_left: files that are opened.
        files_opened: files whose footer was read.
        files_read: files of which columns were read: the others' footers said that no row of them is wanted.
        row_groups: row groups of the opened files.
        row_groups_read: row groups of which columns were read.
        rows_read: rows that were read and compared with the condition.
        rows: rows returned.
        requests: storage requests.
        bytes_read: bytes read.
        seconds: wall time.
        notes: what could not be pruned, and why.
    """

    instant: str | None
    as_of: str | None
    since: str | None
    where: str | None
    columns: tuple[str, ...]
    keys: int | None
    index_type: str | None
    files: int
    files_pruned_by_partition: int
    files_pruned_by_statistics: int
    files_pruned_by_key: int
    files_left: int
    files_opened: int | None = None
    files_read: int | None = None
    row_groups: int | None = None
    row_groups_read: int | None = None
    rows_read: int | None = None
    rows: int | None = None
    requests: int | None = None
    bytes_read: int | None = None
    seconds: float | None = None
    notes: tuple[str, ...] = ()
