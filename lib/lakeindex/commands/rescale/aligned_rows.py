"""Rows of one base file in the table's columns and types, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.errors import LakeIndexError, ObjectNotFoundError, TableCorruptError
from lakeindex.files.footers import read_footer_bytes
from lakeindex.model import BaseFile
from lakeindex.parquet.read_pages import open_pages, read_groups
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile
from lakeindex.table.handle import Table
from lakeindex.write.columns import nulls_of
from lakeindex.write.types.avro_schema import META_FIELDS
from lakeindex.write.types.widening import widened


def row_schema(schema: pa.Schema) -> pa.Schema:
    """The meta columns, then the table's columns."""
    return pa.schema([*META_FIELDS, *schema])


def read_schema(table: Table, schema: pa.Schema) -> pa.Schema:
    """What readers see of a table: of one with virtual keys its columns alone, as with Hudi."""
    return row_schema(schema) if table.properties.populate_meta_fields else schema


def open_base_file(store: Storage, file: BaseFile) -> pq.ParquetFile:
    """Open a base file for reading.

    Raises:
        TableCorruptError: it is missing or its footer cannot be read.
    """
    try:
        # the footer's claims are checked against the file before anything is allocated
        footer_bytes = len(read_footer_bytes(store, file))
        return open_pages(
            StorageFile(store, file.path, file.size_bytes),
            pre_buffer=True,
            thrift_string_size_limit=footer_bytes + 1,
            thrift_container_size_limit=footer_bytes + 16,
        )
    except ObjectNotFoundError as error:
        raise damaged(file, "it is missing") from error
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        raise damaged(file, str(error)) from error


def aligned_row_groups(source: pq.ParquetFile, file: BaseFile, schema: pa.Schema) -> Iterator[pa.Table]:
    """Row groups of a base file.

    Args:
        file: which it is, for messages.
        schema: columns wanted, see :func:`row_schema`; those that the file lacks come out null.

    Raises:
        TableCorruptError: a page cannot be decoded, or a column does not convert.
    """
    for group in range(source.num_row_groups):
        yield align(read_row_group(source, group, file), file, schema)


def read_row_group(source: pq.ParquetFile, group: int, file: BaseFile) -> pa.Table:
    """One row group as it is stored.

    Raises:
        TableCorruptError: it cannot be decoded; which column is said.
    """
    try:
        return read_groups(source, [group])
    except LakeIndexError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise damaged(file, str(error)) from error


def align(rows: pa.Table, file: BaseFile, schema: pa.Schema) -> pa.Table:
    """The rows with these columns, in this order.

    Raises:
        TableCorruptError: a column does not convert, or one that must not be null is not there.
    """
    there = frozenset(rows.column_names)
    return pa.table([_column(rows, file, field, field.name in there) for field in schema], schema=schema)


def _column(rows: pa.Table, file: BaseFile, field: pa.Field, is_there: bool) -> pa.ChunkedArray:  # noqa: FBT001 - private
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


def damaged(file: BaseFile, what: str) -> TableCorruptError:
    """The error for a base file that cannot be read."""
    first = (what.splitlines() or [what])[0]
    return TableCorruptError(
        f"base file {file.path} is damaged: {first}",
        culprit=file.path,
        hint="restore the file from a copy, or roll back the commit that wrote it",
    )
