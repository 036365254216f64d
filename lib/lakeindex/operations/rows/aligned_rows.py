"""Rows of one base file in the table's columns and types, a row group or a batch of it at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.errors import LakeIndexError, TableCorruptError
from lakeindex.files.footers import read_parquet_footer
from lakeindex.model import BaseFile
from lakeindex.parquet.pages import open_pages, read_group_batches, read_groups
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile
from lakeindex.table.handle import Table
from lakeindex.write.base_file import RECORD_KEY
from lakeindex.write.single_columns import nulls_of
from lakeindex.write.types.avro_schema import META_FIELDS
from lakeindex.write.types.widening import widened

BATCH_ROWS: Final = 65_536
_DICTIONARY: Final = pa.dictionary(pa.int32(), pa.string())


def row_schema(schema: pa.Schema) -> pa.Schema:
    """The meta columns, then the table's columns."""
    return pa.schema([*META_FIELDS, *schema])


def read_schema(table: Table, schema: pa.Schema) -> pa.Schema:
    """What readers see of a table: of one with virtual keys its columns alone, as with Hudi."""
    return row_schema(schema) if table.properties.populate_meta_fields else schema


def open_base_file(
    store: Storage, file: BaseFile, metadata: pq.FileMetaData | None = None, *, dictionaries: Sequence[str] = ()
) -> pq.ParquetFile:
    """Open a base file for reading.

    Args:
        metadata: of its footer, if that was read before.
        dictionaries: text columns to leave in dictionaries.

    Raises:
        TableCorruptError: it is missing or its footer cannot be read.
    """
    known = read_parquet_footer(store, file).metadata if metadata is None else metadata
    with blamed(file):
        whole = StorageFile(store, file.path, file.size_bytes)
        return open_pages(whole, metadata=known, pre_buffer=True, read_dictionary=list(dictionaries))


def in_dictionaries(metadata: pq.FileMetaData, schema: pa.Schema) -> pa.Schema:
    """The columns, those texts but the keys in dictionaries that are stored so in all row groups: they need not be put
    together value by value.
    """
    places = {metadata.schema.column(n).path: n for n in range(metadata.num_columns)}
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]

    def is_stored_so(field: pa.Field) -> bool:
        place = places.get(field.name)
        if field.type != pa.string() or field.name == RECORD_KEY or place is None or not groups:
            return False
        return all(group.column(place).has_dictionary_page for group in groups)

    return pa.schema([field.with_type(_DICTIONARY) if is_stored_so(field) else field for field in schema])


def dictionaries_of(schema: pa.Schema) -> list[str]:
    """Columns in dictionaries."""
    return [field.name for field in schema if pa.types.is_dictionary(field.type)]


def aligned_batches(
    source: pq.ParquetFile, file: BaseFile, groups: Sequence[int], schema: pa.Schema, *, use_threads: bool = True
) -> Iterator[pa.Table]:
    """Rows of some row groups, 65,536 at most at a time: what is decoded is never the whole of a large one.

    Args:
        schema: columns wanted; those that the file lacks come out null.

    Raises:
        TableCorruptError: a page cannot be decoded, or a column does not convert.
    """
    with blamed(file):
        names = stored_names(source, schema)
        rows = sum(source.metadata.row_group(group).num_rows for group in groups)
        if 0 < rows <= BATCH_ROWS:  # sooner than in batches
            yield align(read_groups(source, groups, names, use_threads=use_threads), file, schema)
            return
        for batch in read_group_batches(source, groups, names, BATCH_ROWS, use_threads=use_threads):
            yield align(pa.Table.from_batches([batch]), file, schema)


def stored_names(source: pq.ParquetFile, schema: pa.Schema) -> list[str]:
    """The columns of a schema that a file has; at least one, because rows without columns are not counted."""
    stored = frozenset(source.schema_arrow.names)
    return [name for name in schema.names if name in stored] or [RECORD_KEY]


def read_row_group(source: pq.ParquetFile, group: int, file: BaseFile) -> pa.Table:
    """One row group as it is stored.

    Raises:
        TableCorruptError: it cannot be decoded; which column is said.
    """
    with blamed(file):
        return read_groups(source, [group])


def align(rows: pa.Table, file: BaseFile, schema: pa.Schema) -> pa.Table:
    """The rows with these columns, in this order.

    Raises:
        TableCorruptError: a column does not convert, or one that must not be null is not there.
    """
    there = frozenset(rows.column_names)
    return pa.table([_column(rows, file, field, is_there=field.name in there) for field in schema], schema=schema)


def _column(rows: pa.Table, file: BaseFile, field: pa.Field, *, is_there: bool) -> pa.ChunkedArray:
    if not is_there:
        if not field.nullable and rows.num_rows:
            raise damaged(file, f"it lacks column {field.name!r}, which must not be null")
        return pa.chunked_array([nulls_of(rows.num_rows, field.type)])
    column = rows.column(field.name)
    if column.type == field.type:
        return column
    try:
        return widened(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise damaged(file, f"column {field.name!r} is {column.type}, not {field.type}: {error}") from error


@contextmanager
def blamed(file: BaseFile) -> Iterator[None]:
    """What goes wrong is this file's. Raises: TableCorruptError."""
    try:
        yield
    except LakeIndexError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise damaged(file, str(error)) from error


def damaged(file: BaseFile, what: str) -> TableCorruptError:
    """The error for a base file that cannot be read."""
    first = (what.splitlines() or [what])[0]
    return TableCorruptError(
        f"base file {file.path} is damaged: {first}",
        culprit=file.path,
        hint="restore the file from a copy, or roll back the commit that wrote it",
    )
