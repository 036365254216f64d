"""What happened to a table's rows between two points in time, and applying it to another table. Heavy libraries load
when they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

from msgspec.structs import replace

from lakeindex.api.arguments import RunArguments
from lakeindex.api.batch_data import BatchData, is_spark_frame, paths_in, uri_text
from lakeindex.api.own_stores import in_its_stores
from lakeindex.api.run import Request
from lakeindex.api.scan import within
from lakeindex.errors import InputError, door, doors, our_words
from lakeindex.frozen import Frozen
from lakeindex.model import Operation
from lakeindex.storage.options import NO_OPTIONS, StoreOptions
from lakeindex.storage.paths import absolute
from lakeindex.time_spent import accounting, loading

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeindex.operations.changes import ChangesRequest
    from lakeindex.run.summary import RunSummary


@doors
class Changes(Frozen):
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
    request: ChangesRequest
    storage_options: Mapping[str, str] = NO_OPTIONS

    @in_its_stores
    def to_batches(self) -> pa.RecordBatchReader:
        """The changes in record batches, read while they are asked for; in no order.

        Raises:
            UsageError: files of a point were cleaned away; the earliest instant is said.
            TableError: a damaged file, by name.
            WriteConflictError: while reading: other writers took away files after rows were given out.
        """
        import pyarrow as pa

        from lakeindex.operations.changes import stream_changes

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

        Raises:
            UsageError: pandas is not installed.
        """
        from lakeindex.operations.rows.engines import pandas_frame

        return pandas_frame(lambda: self.to_batches().read_all(), how)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        with our_words():
            return self.to_batches().__arrow_c_stream__(requested_schema)


@door
@accounting()
def run_apply(uri: str, feed: BatchData, **arguments: Unpack[RunArguments]) -> RunSummary:
    """Apply a feed of changes.

    Args:
        uri: the table.
        feed: rows with ``_change_type``.
        **arguments: as of :class:`lakeindex.api.arguments.RunArguments`.

    Raises:
        UsageError: the feed does not go on where the last one of its source ended.
        InputError: it has no ``_change_type``, or one that is none.
        LakeIndexError: see :mod:`lakeindex.errors`; nothing was published.
    """
    with loading():
        from lakeindex.operations.changes import done_before, mark_empty, marked
        from lakeindex.run.feeds import Feed

    rows = feed if is_spark_frame(feed) else _opened(feed)
    known = Feed() if is_spark_frame(feed) else Feed.of(rows.schema.metadata) or Feed()
    arguments = {**arguments, "batch_id": arguments.get("batch_id") or known.batch_id}
    request = Request.of(uri, Operation.UPSERT, arguments, feed=known)
    done = None if request.spec.force else done_before(request.spec)
    if done is not None:
        return replace(done, dry_run=request.dry_run)
    summary = request.done_with(_marked_frame(rows) if is_spark_frame(feed) else marked(rows))
    if summary.instant is None and not request.dry_run:
        mark_empty(request.spec)
    return summary


@door
def applied_until(uri: str, source: str) -> str | None:
    """How far the changes of a table are applied to another: the point in time at which the next feed begins.

    Args:
        uri: the table.
        source: the one that the changes are of.

    Returns:
        None: nothing of it is applied.
    """
    from lakeindex.operations.changes import applied_to

    found = applied_to(absolute(uri), absolute(uri_text(source)))
    return None if found is None else found.until


def _opened(feed: BatchData) -> Any:
    """The feed as a table, or as a reader of batches; nothing but its columns is read of what is not in memory.

    Raises:
        InputError: it is no feed, or its files are of different feeds.
    """
    import pyarrow as pa

    from lakeindex.api.given_rows import rows_in

    paths = paths_in(feed)
    if paths is not None:
        from lakeindex.operations.changes import feed_in_files

        return feed_in_files(paths)
    if isinstance(feed, pa.Table):
        return feed
    if isinstance(feed, Changes):
        return feed.to_batches()
    metadata = getattr(feed, "schema", None)
    rows = rows_in(feed)
    if isinstance(rows, pa.Table):
        return rows
    said = metadata.metadata if isinstance(metadata, pa.Schema) else rows.schema.metadata
    return pa.RecordBatchReader.from_batches(
        rows.schema.with_metadata(said), (one.replace_schema_metadata(said) for one in rows.batches)
    )


def _marked_frame(frame: Any) -> Any:
    """A feed in a Spark DataFrame as a batch."""
    from lakeindex.operations.changes import COMMIT_INSTANT, mark_expression
    from lakeindex.write.types.avro_schema import CHANGE_TYPE, DELETE_MARK

    if CHANGE_TYPE not in frame.columns:
        raise InputError(f"the feed has no column {CHANGE_TYPE!r}", culprit=CHANGE_TYPE, hint="give a feed of changes")
    kept = [name for name in frame.columns if name not in (CHANGE_TYPE, COMMIT_INSTANT, DELETE_MARK)]
    return frame.selectExpr(*(f"`{name}`" for name in kept), mark_expression())
