"""What an updated row has of the stored row, and what of the row of the batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakeindex.hashing.arrow import one_array
from lakeindex.pipeline import STAGED_KEY
from lakeindex.write.columns import nulls_of
from lakeindex.write.merge_function import MergeFunction


@dataclass(frozen=True, slots=True)
class UpdateRule:
    """How a stored row and a row of the batch with its key become one; by default the latter takes its place.

    Attributes:
        kept: columns that the batch does not have; the stored value stays.
        filled: columns in which a null of the batch leaves the stored value; fields inside of them are not looked at.
        function: gets the stored rows, and the rows as they would be without it.
        deciding: columns that the function cannot change.
    """

    kept: frozenset[str] = frozenset()
    filled: frozenset[str] = frozenset()
    function: MergeFunction | None = None
    deciding: frozenset[str] = frozenset()

    @property
    def replaces(self) -> bool:
        """Rows of the batch are taken as they are."""
        return not self.kept and not self.filled and self.function is None

    def value(self, name: str, stored: pa.Array, incoming: pa.Array) -> pa.Array:
        """A column of updated rows, from that of the stored rows and that of the batch."""
        return without_nulls(incoming, stored) if name in self.filled else incoming

    def updated(self, stored: pa.Table, incoming: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
        """Whole rows that take the place of stored ones.

        Args:
            stored: the stored rows, with the table's columns.
            incoming: for each its row of the batch: record key, and the columns that the batch has.
            where: the file that they go to, for messages.

        Returns:
            Record key and the table's columns.

        Raises:
            UsageError: of the function.
        """
        stored = pa.table([one_array(stored.column(field.name)).cast(field.type) for field in schema], schema=schema)
        columns = []
        for field in schema:
            before = one_array(stored.column(field.name))
            if field.name in self.kept:
                columns.append(before)
            else:
                columns.append(self.value(field.name, before, one_array(incoming.column(field.name)).cast(field.type)))
        if self.function is not None and len(incoming):
            new = pa.table(columns, schema=schema)
            columns = self.function.merged(stored, new, self.deciding, where).columns
        return pa.table([one_array(incoming.column(STAGED_KEY)), *columns], names=[STAGED_KEY, *schema.names])

    def inserted(self, incoming: pa.Table, schema: pa.Schema) -> pa.Table:
        """Whole rows that are new: columns that the batch does not have are null; arguments as of :meth:`updated`."""
        columns, there = [one_array(incoming.column(STAGED_KEY))], frozenset(incoming.column_names)
        for field in schema:
            is_there = field.name in there
            column = one_array(incoming.column(field.name)) if is_there else nulls_of(incoming.num_rows, field.type)
            columns.append(column.cast(field.type))
        return pa.table(columns, names=[STAGED_KEY, *schema.names])


REPLACE = UpdateRule()
"""The row of the batch takes the place of the stored one."""


def without_nulls(values: pa.Array, others: pa.Array) -> pa.Array:
    """The values, and where there is none the other one, of a column of any type."""
    if not values.null_count:
        return values
    places = np.arange(len(values), dtype=np.int64)
    is_there = values.is_valid().to_numpy(zero_copy_only=False)
    picked = pa.array(np.where(is_there, places, len(values) + places))
    return pa.concat_arrays([values, others]).take(picked)
