"""What a table's handle does beside upserts and deletes: insert, overwrite, and take partitions away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Unpack

from lakeindex.api.batch_data import BatchData
from lakeindex.api.own_stores import in_its_stores
from lakeindex.api.run import (
    OnConflict,
    ReplaceArguments,
    RunArguments,
    run,
    run_delete_partitions,
    with_conflict,
)
from lakeindex.model import Operation
from lakeindex.raw_errors import doors

if TYPE_CHECKING:
    from lakeindex.run.summary import RunSummary


@doors
class TableOperations:
    """Operations of :class:`lakeindex.api.table.LakeTable`; ``docs/operations.md`` describes them."""

    if TYPE_CHECKING:
        uri: str
        storage_options: Mapping[str, str]

    @in_its_stores
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
            QuarantineExceededError: keys are stored, and nothing was published.
        """
        if on_conflict is not None:
            arguments = {**arguments, "options": with_conflict(on_conflict, arguments.get("options"))}
        return run(self.uri, data, Operation.INSERT, **arguments)

    @in_its_stores
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
    def insert_overwrite_table(self, data: BatchData, **arguments: Unpack[RunArguments]) -> RunSummary:
        """Put a batch in the place of all rows of the table; arguments as of :meth:`insert_overwrite`.

        Raises:
            InputError: the batch has no rows.
        """
        return run(self.uri, data, Operation.INSERT_OVERWRITE_TABLE, **arguments)

    @in_its_stores
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
        return run_delete_partitions(self.uri, partitions, **arguments)

    @in_its_stores
    def truncate(self, **arguments: Unpack[ReplaceArguments]) -> RunSummary:
        """Take all rows out of the table, as :meth:`delete_partitions` of all partitions. Columns, index and
        properties stay.

        Args:
            **arguments: as :func:`lakeindex.api.run.run_delete_partitions`.
        """
        return run_delete_partitions(self.uri, None, **arguments)
