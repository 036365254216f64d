"""Make a table whose columns are those of a Parquet file."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.commands.look.inspect import Column
from lakeindex.commands.results import JsonResult
from lakeindex.errors import InputError, ObjectNotFoundError, first_line
from lakeindex.options.types import CreateConfig, WriteConfig
from lakeindex.run.spec import storage_at
from lakeindex.storage.paths import absolute
from lakeindex.storage.storage_file import StorageFile
from lakeindex.table.create import create_table
from lakeindex.table.create_spec import CreateSpec, check_spec, key_entries, table_name_of
from lakeindex.table.version import VERSIONS
from lakeindex.write.keys.key_spec import KeySpec
from lakeindex.write.keys.keys import KeyGenerator, column_at
from lakeindex.write.ordering import check_orderable
from lakeindex.write.types.avro_schema import META_COLUMNS, check_names, schema_from_avro, schema_to_avro
from lakeindex.write.types.schema_fit import DELETE_MARK


@dataclass(frozen=True, slots=True)
class CreatedTable(JsonResult):
    """A new, empty table.

    Attributes:
        table: its name.
        uri: where it is.
        version: table version.
        unread_by: who cannot read such a table, in words; None of a version that all readers know.
        key_fields: columns of the record key.
        partition_fields: columns of the partition path.
        ordering_field: column that says which version of a row is newer.
        key_generator: how keys are made.
        index_type: the index, bound.
        merge_mode: which version of a row wins, bound.
        columns: the table's columns.
    """

    table: str
    uri: str
    version: int
    unread_by: str | None
    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_field: str | None
    key_generator: str | None
    index_type: str
    merge_mode: str
    columns: tuple[Column, ...]


def create_like(
    uri: str,
    like: str,
    *,
    keys: Sequence[str],
    partitions: Sequence[str] = (),
    ordering: str | None = None,
    config: CreateConfig | None = None,
) -> CreatedTable:
    """Make an empty table.

    Args:
        uri: its folder; the last element of its path is its name.
        like: Parquet file with the table's columns; meta columns and ``_hoodie_is_deleted`` are left out.
        keys: columns of the record key.
        partitions: columns of the partition path; ``field:SIMPLE`` or ``field:TIMESTAMP`` with the custom generator.
        ordering: column that says which version of a row is newer.
        config: everything else.

    Raises:
        InputError: ``like`` is not there or no Parquet file, or a column that a Hudi table cannot hold.
        OptionError: a column that is not there, or choices that do not fit together.
        TableExistsError: there is a table, or what is left of one.
    """
    name = table_name_of(uri if "://" in uri else str(Path.cwd() / uri))  # a link has a name of its own
    given = _columns_of(like)
    check_names(given)
    text = schema_to_avro(given, name)
    columns = schema_from_avro(text)
    spec = CreateSpec(
        name=name,
        columns=_paths(columns),
        key_fields=tuple(keys),
        partition_fields=tuple(partitions),
        ordering_field=ordering,
        config=config or CreateConfig(),
        schema_text=text,
    )
    check_spec(spec)
    _check_fields(spec, columns)
    table = create_table(storage_at(absolute(uri)), spec)
    binding = table.bound_for(WriteConfig())
    return CreatedTable(
        table=table.name,
        uri=table.uri,
        version=table.properties.version,
        unread_by=VERSIONS[table.properties.version].unread_by,
        key_fields=table.properties.key_fields,
        partition_fields=table.properties.partition_fields,
        ordering_field=table.properties.ordering_field,
        key_generator=table.properties.key_generator,
        index_type=binding.index_type,
        merge_mode=binding.merge_mode,
        columns=tuple(Column(field.name, str(field.type), field.nullable) for field in columns),
    )


def _check_fields(spec: CreateSpec, columns: pa.Schema) -> None:
    """Refuse a key, partition or ordering field that the first upsert would refuse:
    made of no rows, by what makes theirs.

    Raises:
        SchemaMismatchError: a field whose values cannot be part of a key or path, or cannot be ordered.
        OptionError: a time format or zone that is not understood.
    """
    KeyGenerator(KeySpec.from_properties(key_entries(spec))).keys_of(columns.empty_table())
    if spec.ordering_field is not None:
        check_orderable(column_at(columns.empty_table(), spec.ordering_field).type, spec.ordering_field)


def _columns_of(like: str) -> pa.Schema:
    parent, name = posixpath.split(absolute(like))
    try:
        schema = pq.read_schema(StorageFile(storage_at(parent or "/"), name))
    except ObjectNotFoundError:
        raise InputError(
            f"no file at {like!r}", culprit=like, hint="give a Parquet file with the table's columns"
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{like!r} cannot be read as Parquet: {first_line(error)}",
            culprit=like,
            hint="give a Parquet file with the table's columns",
        ) from error
    return pa.schema([field for field in schema if field.name not in (*META_COLUMNS, DELETE_MARK)])


def _paths(columns: pa.Schema) -> tuple[str, ...]:
    """Names of the columns, and of the fields inside structs as ``a.b``."""
    found: list[str] = []

    def walk(prefix: str, field: pa.Field) -> None:
        found.append(prefix + field.name)
        if pa.types.is_struct(field.type):
            for inner in field.type:
                walk(f"{prefix}{field.name}.", inner)

    for field in columns:
        walk("", field)
    return tuple(found)
