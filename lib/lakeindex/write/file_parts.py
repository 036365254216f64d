"""Base files in parts: an old one, decoded where it is asked for, and columns of a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.bloom import marks
from lakeindex.config import WriteConfig
from lakeindex.errors import InvariantError
from lakeindex.parquet.splicing import ParquetParts, parts_of
from lakeindex.write.avro_schema import META_COLUMNS
from lakeindex.write.base_file import file_schema_of, footer_texts, parquet_writer, schema_of_arrays

_OUR_WRITER: Final = "parquet-cpp-arrow"


def open_slice(data: bytes, schema: pa.Schema, config: WriteConfig) -> OldSlice | None:
    """A base file, if it can be rewritten in parts: ours, and of the schema that the new file will have.

    Raises:
        ArrowException: its footer cannot be read.
    """
    file = pq.ParquetFile(pa.BufferReader(data))
    metadata = file.metadata
    if marks.MARK.encode() not in (metadata.metadata or {}) or not str(metadata.created_by).startswith(_OUR_WRITER):
        return None
    parts = parts_of(data, metadata)
    if parts is None or parts.schema != _schema_bytes(schema, config):
        return None
    return OldSlice(data, file.metadata, parts, schema)


class OldSlice:
    """A base file in memory, decoded where it is asked for."""

    def __init__(self, data: bytes, metadata: pq.FileMetaData, parts: ParquetParts, schema: pa.Schema) -> None:
        self._data = data
        self._metadata = metadata
        self.parts = parts
        self._schema = schema

    @property
    def row_group_starts(self) -> np.ndarray:
        """Where each row group starts, and the end: int64, shape (row groups + 1,)."""
        return np.concatenate([[0], np.cumsum(self.parts.rows)]).astype(np.int64)

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return sum(self.parts.rows)

    @cached_property
    def key_value(self) -> dict[str, str]:
        """The footer's entries."""
        return footer_texts(self._metadata)

    def has_dictionary(self, group: int, column: str) -> bool:
        """Whether a flat column's values stand in a dictionary."""
        if column not in self.parts.columns:
            return False
        return self.parts.text.chunks[group][self.parts.columns.index(column)].has_dictionary

    def decode(
        self, groups: Sequence[int], columns: Sequence[str] | None = None, dictionaries: Sequence[str] = ()
    ) -> pa.Table:
        """Rows of some row groups, one after the other.

        Args:
            groups: the row groups.
            columns: the columns; all if not said.
            dictionaries: text columns to leave in dictionaries, as they are stored.

        Returns:
            The columns in the table's types, or dictionaries of them.
        """
        names = [*META_COLUMNS, *self._schema.names] if columns is None else list(columns)
        source = pa.BufferReader(self._data)
        file = pq.ParquetFile(source, metadata=self._metadata, read_dictionary=list(dictionaries))
        table = file.read_row_groups(list(groups), columns=names, use_threads=False)
        kinds = {f.name: f.type for f in self._schema} | {n: table.schema.field(n).type for n in dictionaries}
        return pa.table([table.column(n).cast(kinds.get(n, pa.string())) for n in names], names=names)


@lru_cache(maxsize=64)
def _schema_bytes(schema: pa.Schema, config: WriteConfig) -> bytes:
    """The Parquet schema of base files that are written so."""
    return encoded_parts([], file_schema_of(schema), config).schema


def encoded_parts(
    groups: Sequence[pa.Table],
    schema: pa.Schema,
    config: WriteConfig,
    entries: Mapping[str, str] | None = None,
    dictionaries: Sequence[str] = (),
) -> ParquetParts:
    """A Parquet file in memory, a row group a table."""
    fitted = schema_of_arrays(groups[0], schema) if groups else schema
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, fitted, config, dictionaries) as writer:
        for group in groups:
            writer.write_table(group.cast(fitted), row_group_size=max(group.num_rows, 1))
        if entries:
            writer.add_key_value_metadata(entries)
    parts = parts_of(sink.getvalue())
    if parts is None:
        raise InvariantError("a file that was just encoded cannot be taken apart", culprit=str(schema.names))
    return parts
