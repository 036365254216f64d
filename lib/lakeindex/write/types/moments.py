"""Parquet files of others, of which some store moments in 96 bits (INT96): Spark, by default, Hive and Impala.

Such a value is a moment, as Spark and Hudi read it, in microseconds: the file says no time zone, and pyarrow alone
makes of it a local time in nanoseconds, which hold no year before 1678 or behind 2261.

pyarrow reads no dictionaries inside of lists, structs and maps from several row groups at once: they are read one by
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

_AS_STORED: Final = pa.timestamp("us")
_MOMENT: Final = pa.timestamp("us", "UTC")


class MomentsFile(pq.ParquetFile):
    """A Parquet file whose columns of INT96 are moments in UTC, in whatever depth. ``schema_arrow`` says so, too."""

    def __init__(self, source: pa.NativeFile | BinaryIO, **how: Any) -> None:
        super().__init__(source, coerce_int96_timestamp_unit="us", **how)
        stored = super().schema_arrow
        self._columns = self._with_moments(stored) if str(_AS_STORED) in str(stored) else stored
        self._has_moments = self._columns is not stored and self._columns != stored
        self._is_apart = any("dictionary<" in str(kind) for kind in stored.types if pa.types.is_nested(kind))

    @property
    def schema_arrow(self) -> pa.Schema:
        return self._columns

    def read(self, columns: Sequence[str] | None = None, **how: Any) -> pa.Table:
        if self._is_apart:
            return self.read_row_groups([*range(self.num_row_groups)], columns, **how)
        return self._in_utc(super().read(columns, **how))

    def read_row_group(self, i: int, columns: Sequence[str] | None = None, **how: Any) -> pa.Table:
        return self._in_utc(super().read_row_group(i, columns, **how))

    def read_row_groups(self, row_groups: Sequence[int], columns: Sequence[str] | None = None, **how: Any) -> pa.Table:
        if self._is_apart and len(row_groups) > 1:
            return pa.concat_tables([self.read_row_group(one, columns, **how) for one in row_groups])
        return self._in_utc(super().read_row_groups(row_groups, columns, **how))

    def iter_batches(
        self, batch_size: int = 65_536, row_groups: Sequence[int] | None = None, **how: Any
    ) -> Iterator[pa.RecordBatch]:
        groups = range(self.num_row_groups) if row_groups is None else row_groups
        for some in [[one] for one in groups] if self._is_apart else [list(groups)]:
            yield from self._batches(batch_size, some, **how)

    def _batches(self, batch_size: int, row_groups: Sequence[int], **how: Any) -> Iterator[pa.RecordBatch]:
        for batch in super().iter_batches(batch_size, row_groups, **how):
            yield from self._in_utc(pa.Table.from_batches([batch])).to_batches() if self._has_moments else (batch,)

    def _with_moments(self, stored: pa.Schema) -> pa.Schema:
        leaves = self.metadata.schema
        kinds = (leaves.column(place).physical_type for place in range(self.metadata.num_columns))
        return pa.schema([field.with_type(_with_moments(field.type, kinds)) for field in stored], stored.metadata)

    def _in_utc(self, rows: pa.Table) -> pa.Table:
        if not self._has_moments:
            return rows
        return rows.cast(pa.schema([self._columns.field(name) for name in rows.column_names]))


def _with_moments(kind: pa.DataType, leaves: Iterator[str]) -> pa.DataType:
    """A type of a file.

    Args:
        leaves: Parquet's types of what it consists of; they are taken from there.
    """
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_moments(field.type, leaves)) for field in kind])
    if pa.types.is_map(kind):
        key = kind.key_field.with_type(_with_moments(kind.key_type, leaves))
        return pa.map_(key, kind.item_field.with_type(_with_moments(kind.item_type, leaves)))
    if pa.types.is_nested(kind):  # a list
        value = kind.value_field.with_type(_with_moments(kind.value_type, leaves))
        if pa.types.is_fixed_size_list(kind):
            return pa.list_(value, kind.list_size)
        return pa.large_list(value) if pa.types.is_large_list(kind) else pa.list_(value)
    return _MOMENT if next(leaves) == "INT96" else kind
