"""What happened to a table's rows between two points in time. Heavy libraries load when they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakeindex.api.own_stores import in_its_stores
from lakeindex.api.scan import within
from lakeindex.raw_errors import doors, our_words
from lakeindex.storage.options import NO_OPTIONS, StoreOptions
from lakeindex.storage.paths import absolute

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeindex.commands.changes.feed import ChangesRequest


@doors
@dataclass(frozen=True)
class Changes:
    """The net changes between two points in time: for each key at most one insert, one delete, or one update (its row
    before and its row after). Made by :meth:`LakeTable.changes`; rows are read when a form is asked for.

    Rows have the table's columns, then ``_change_type`` (``insert``, ``update_preimage``, ``update_postimage``,
    ``delete``) and ``_commit_instant``: of an insert and of both rows of an update the commit that wrote the new row;
    of a delete the last commit that touched its file group.

    Attributes:
        uri: the table.
        since: the first point, exclusive, as an instant; None: the beginning.
        until: the second point, inclusive, as an instant; None of a table without commits. The next feed begins there.
        request: what is read.
        storage_options: of the table's handle.
    """

    uri: str
    since: str | None
    until: str | None
    request: ChangesRequest = field(repr=False)
    storage_options: Mapping[str, str] = field(default=NO_OPTIONS, repr=False)

    @in_its_stores
    def to_batches(self) -> pa.RecordBatchReader:
        """The changes in record batches, read while they are asked for; in no order.

        Raises:
            UsageError: files of a point were cleaned away; the earliest instant is said.
            TableError: a damaged file, by name.
            WriteConflictError: while reading: other writers took away files after rows were given out.
        """
        import pyarrow as pa

        from lakeindex.commands.changes.feed import stream_changes

        schema, batches = stream_changes(absolute(self.uri), self.request)
        return pa.RecordBatchReader.from_batches(schema, within(batches, StoreOptions.of(self.storage_options)))

    @in_its_stores
    def to_arrow(self) -> pa.Table:
        """All changes as an Arrow table. Raises: as :meth:`to_batches`."""
        return self.to_batches().read_all()

    @in_its_stores
    def to_pandas(self, /, **how: Any) -> Any:
        """All changes as a pandas frame.

        Args:
            **how: arguments of ``pyarrow.Table.to_pandas``.
        """
        return self.to_batches().read_all().to_pandas(**how)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        with our_words():
            return self.to_batches().__arrow_c_stream__(requested_schema)
