"""What a table's handle does beside upserts: delete, update, insert, overwrite, and take partitions away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from lakeindex.api.arguments import (
    ClusterArguments,
    OnConflict,
    ReplaceArguments,
    RunArguments,
    RunnerArguments,
    SortName,
    names_of_arguments,
)
from lakeindex.api.batch_data import BatchData, PathText, names_of, uri_text
from lakeindex.api.changes import applied_until, run_apply
from lakeindex.api.own_stores import in_its_stores
from lakeindex.api.run import chosen_runner, run, run_delete_partitions, run_where, with_conflict
from lakeindex.errors import UsageError, doors
from lakeindex.model import Change, Operation
from lakeindex.options.clustering_options import sorted_by
from lakeindex.options.parse import parse_options
from lakeindex.time_spent import accounting

if TYPE_CHECKING:
    from lakeindex.operations.cluster_run import ClusterSummary
    from lakeindex.predicates.predicate import Condition
    from lakeindex.run.summary import RunSummary


@doors
class TableOperations:
    """Operations of :class:`lakeindex.api.table.LakeTable`; ``docs/operations.md`` describes them."""

    if TYPE_CHECKING:
        uri: str
        storage_options: Mapping[str, str]

    @in_its_stores
    @names_of_arguments(RunArguments)
    def delete(
        self, data: BatchData = None, *, where: Condition | None = None, **arguments: Unpack[RunArguments]
    ) -> RunSummary:
        """Delete the keys of ``data``, or the rows that meet a condition.

        Args:
            data: key and partition columns of the rows, as of :meth:`upsert`; other columns are not needed. Keys that
                are not stored are counted as ignored.
            where: SQL-like text or a pyarrow expression, as of :meth:`scan`, instead of ``data``. If partition paths
                decide it alone, whole partitions are taken out of the table, and no row is read.
            **arguments: as :func:`lakeindex.api.run.run`.

        Raises:
            UsageError: both are given, or none, or the condition does not fit the table's columns.
        """
        if (data is None) is (where is None):
            raise UsageError(
                f"a delete takes {'keys or a condition' if data is None else 'either keys or a condition'}",
                culprit="where",
                hint='delete(keys), or delete(where="amount < 0")',
            )
        if where is None:
            return run(self.uri, data, Operation.DELETE, **arguments)
        return run_where(self.uri, Change.DELETE, where, **arguments)

    @in_its_stores
    @names_of_arguments(RunArguments)
    def apply(self, data: BatchData, **arguments: Unpack[RunArguments]) -> RunSummary:
        """Apply the changes of another table: what it inserted and updated is upserted, what it deleted is deleted.

        A feed of :meth:`changes` says which table's it is and of which time, and is applied once: what is applied
        already is a noop, and one that does not begin where the last one of its source ended is refused, because rows
        would stay that were deleted. A row that moved to another partition leaves the one where it was.

        Args:
            data: what :meth:`changes` returns, any of its forms, or paths of files that hold one (Parquet, Arrow). A
                form that does not keep what the feed is of (pandas, Polars, Spark) is applied as it comes; give it a
                ``batch_id`` then.
            **arguments: as :func:`lakeindex.api.run.run`; by default the batch id is made of source and points.

        Returns:
            What happened to every row of the feed: the row before an update is combined with the one after it.

        Raises:
            UsageError: the feed leaves changes out, or has some again.
            InputError: it has no ``_change_type``, or one that is none.
        """
        return run_apply(self.uri, data, **arguments)

    @in_its_stores
    def applied_until(self, source: PathText) -> str | None:
        """How far the changes of a table are applied to this one: where the next feed begins.

        Args:
            source: the path or URL of the table that the changes are of, or its name in a catalog.

        Returns:
            A point in time for ``changes(since=...)``; None: nothing of it is applied.
        """
        from lakeindex.catalogs.places import located

        return applied_until(self.uri, located(uri_text(source)))

    @in_its_stores
    @names_of_arguments(RunArguments)
    def update(
        self,
        set: Mapping[str, Any],  # noqa: A002 - SQL's word for it
        *,
        where: Condition,
        **arguments: Unpack[RunArguments],
    ) -> RunSummary:
        """Set columns of the rows that meet a condition. Those of the record key and of the partition path cannot be
        set, nor the ordering field where it decides which version of a row wins.

        Args:
            set: by column its new value: a text is an SQL-like expression over the row as it was (``"amount * 2"``,
                ``"'closed'"``); a pyarrow expression is one, too; a pyarrow scalar or any other value is a constant.
            where: as of :meth:`delete`; ``"true"`` means all rows.
            **arguments: as :func:`lakeindex.api.run.run`.

        Raises:
            UsageError: a column that is not there or cannot be set, or a value of another type.
            SchemaMismatchError: a value that does not fit its column, such as a number that is too large.
        """
        return run_where(self.uri, Change.UPDATE, where, values=set, **arguments)

    @in_its_stores
    @names_of_arguments(RunArguments)
    def replace_where(self, data: BatchData, *, where: Condition, **arguments: Unpack[RunArguments]) -> RunSummary:
        """Put a batch in the place of the rows that meet a condition, which all rows of the batch must meet.

        Args:
            data: the batch.
            where: as of :meth:`delete`.
            **arguments: as :func:`lakeindex.api.run.run`.

        Returns:
            Rows of the batch and those that met the condition, by fate; of a key that both have, an update.

        Raises:
            QuarantineExceededError: rows of the batch do not meet the condition, or their keys are stored in rows that
                stay.
        """
        return run_where(self.uri, Change.REPLACE, where, data=data, **arguments)

    @in_its_stores
    @names_of_arguments(RunArguments)
    def insert(
        self, data: BatchData, on_conflict: OnConflict | None = None, **arguments: Unpack[RunArguments]
    ) -> RunSummary:
        """Insert new keys. A key that is stored is an error, or its row is left out.

        Args:
            data: the batch.
            on_conflict: ``error``: rows whose keys are stored are bad rows, and end the run if there are more than
                ``max_quarantined``; ``ignore``: they are counted as ignored. By default as
                ``hoodie.datasource.insert.dup.policy`` says: error.
            **arguments: as :func:`lakeindex.api.run.run`.

        Raises:
            KeysStoredError: keys are stored, and nothing was published.
        """
        if on_conflict is not None:
            arguments = {**arguments, "options": with_conflict(on_conflict, arguments.get("options"))}
        return run(self.uri, data, Operation.INSERT, **arguments)

    @in_its_stores
    @names_of_arguments(RunArguments)
    def bulk_insert(self, data: BatchData, **arguments: Unpack[RunArguments]) -> RunSummary:
        """Load a batch into an empty table or empty partitions: no key is looked up.

        Args:
            data: the batch, in which no key is twice.
            **arguments: as :func:`lakeindex.api.run.run`.

        Raises:
            UsageError: a partition of the batch (under a global index, the table) has rows.
            InputError: a key is in two rows of the batch.
        """
        return run(self.uri, data, Operation.BULK_INSERT, **arguments)

    @in_its_stores
    @names_of_arguments(RunArguments)
    def insert_overwrite(self, data: BatchData, **arguments: Unpack[RunArguments]) -> RunSummary:
        """Put a batch in the place of all rows of the partitions that it has rows of.

        Args:
            data: the batch.
            **arguments: as :func:`lakeindex.api.run.run`.

        Returns:
            The rows of the batch by fate, and how many rows they replaced.
        """
        return run(self.uri, data, Operation.INSERT_OVERWRITE, **arguments)

    @in_its_stores
    @names_of_arguments(RunArguments)
    def insert_overwrite_table(self, data: BatchData, **arguments: Unpack[RunArguments]) -> RunSummary:
        """Put a batch in the place of all rows of the table; arguments as of :meth:`insert_overwrite`.

        Raises:
            InputError: the batch has no rows.
        """
        return run(self.uri, data, Operation.INSERT_OVERWRITE_TABLE, **arguments)

    @in_its_stores
    @names_of_arguments(ReplaceArguments)
    def delete_partitions(self, partitions: Sequence[str], **arguments: Unpack[ReplaceArguments]) -> RunSummary:
        """Take whole partitions out of the table. No row is read; a clean deletes the files later.

        Args:
            partitions: partition paths, as ``inspect`` lists them.
            **arguments: as :func:`lakeindex.api.run.run_delete_partitions`.

        Returns:
            How many file groups and rows were replaced by nothing.

        Raises:
            UsageError: there is no such partition.
        """
        return run_delete_partitions(self.uri, names_of(partitions, "partitions") or (), **arguments)

    @in_its_stores
    @names_of_arguments(ReplaceArguments)
    def truncate(self, **arguments: Unpack[ReplaceArguments]) -> RunSummary:
        """Take all rows out of the table, as :meth:`delete_partitions` of all partitions. Columns, index and
        properties stay.

        Args:
            **arguments: as :func:`lakeindex.api.run.run_delete_partitions`.
        """
        return run_delete_partitions(self.uri, None, **arguments)

    @in_its_stores
    @accounting()
    @names_of_arguments(ClusterArguments)
    def cluster(
        self,
        where: str | Sequence[str] | None = None,
        *,
        sort: SortName | None = None,
        columns: str | Sequence[str] | None = None,
        **arguments: Unpack[ClusterArguments],
    ) -> ClusterSummary:
        """Put base files together and sort their rows, in one replacecommit; rows keep their commit times. Files that
        are in order already are left alone. A run that was killed goes on when the same call is made again.

        Args:
            where: partition paths, or patterns of them with ``*`` and ``?``; default: all.
            sort: by record ``key``, by ``columns`` one after the other, or along a curve through them (``zorder``,
                ``hilbert``), or ``none``: small files are only put together, and their column chunks are copied where
                that can be; by default as the options say, else by key. In a table with buckets rows are sorted within
                their bucket.
            columns: to sort by.
            **arguments: see :class:`lakeindex.api.arguments.ClusterArguments`.

        Returns:
            What was put together; ``noop`` if there was nothing to.

        Raises:
            UsageError: no such partition, column or plan.
            ConflictError: other writers are in the way for good; nothing was published.
        """
        from lakeindex.operations.cluster import cluster_table
        from lakeindex.operations.cluster_plan import Asked

        config = sorted_by(
            parse_options(arguments.get("options") or {}),
            sort,
            names_of(columns, "columns"),
            arguments.get("target_size"),
        )
        runner = chosen_runner(
            config.parallelism,
            cast(
                RunnerArguments,
                {name: one for name, one in arguments.items() if name in RunnerArguments.__annotations__},
            ),
        )
        asked = Asked(
            tuple(names_of(where, "where") or ()),
            arguments.get("small_files_only", False),
            arguments.get("max_bytes"),
            schedule=arguments.get("schedule", False),
            instant=arguments.get("instant"),
        )
        dry_run, force = arguments.get("dry_run", False), arguments.get("force", False)
        return cluster_table(self.uri, runner, asked, config=config, dry_run=dry_run, force=force)
