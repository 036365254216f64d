"""The columns of a table, and how the keys of its stored rows are made."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakeindex.errors import TableUnsupportedError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footers import read_shape
from lakeindex.format.commit_metadata import INTERNAL_SCHEMA_KEY
from lakeindex.table.handle import Table
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.keys.key_generators import KeySpec
from lakeindex.write.types.avro_schema import META_COLUMNS, schema_from_avro, unknown_logical_type
from lakeindex.write.virtual_keys import VirtualKeys

_SCHEMA_HISTORY: Final = ".hoodie/.schema"


def table_schema(table: Table, snapshot: Snapshot) -> pa.Schema:
    """The table's columns, without meta columns: of the newest commit that says, else as created, else of a base file.

    Raises:
        TableUnsupportedError: the table has no schema anywhere, as it was never written to; or one by column ids.
    """
    return _schema_of(table, snapshot, _schema_text(table, snapshot.timeline))


def _schema_of(table: Table, snapshot: Snapshot, text: str | None) -> pa.Schema:
    if text is not None:
        return schema_from_avro(text)
    for file in snapshot.base_files_all():
        schema = read_shape(table.storage, file).arrow_schema
        return pa.schema([f.remove_metadata() for f in schema if f.name not in META_COLUMNS])
    raise TableUnsupportedError(
        f"table {table.name!r} does not say which columns it has: it is empty and has no hoodie.table.create.schema",
        culprit=table.uri,
        hint="write to it once with Hudi, or, as nothing is in it, remove the folder and make the table with "
        "`lakeindex create TABLE --like FILE.parquet`",
    )


def written_schema(table: Table, snapshot: Snapshot) -> pa.Schema:
    """The same of a table that is to be written to.

    Raises:
        TableUnsupportedError: also if a column has a logical type that is not known.
    """
    text = _schema_text(table, snapshot.timeline)
    check_logical_types(table.name, text)
    return _schema_of(table, snapshot, text)


def check_logical_types(name: str, text: str | None) -> None:
    """Refuse columns of logical types that are not known: written anew, the schema would lose them.

    Raises:
        TableUnsupportedError: there is one.
    """
    found = None if text is None else unknown_logical_type(text)
    if found is not None:
        raise TableUnsupportedError(
            f"table {name!r} has a column of the logical type {found!r}, which this release does not know",
            culprit=found,
            hint="write to it with the release of Hudi that made it",
        )


def check_written(table: Table, snapshot: Snapshot) -> None:
    """Refuse a table that must not be written to, whatever says so: properties, timeline, metadata table, columns.

    Raises:
        TableUnsupportedError, MetadataTableError: as of all of them.
    """
    table.check_writable()
    snapshot.timeline.check_known()
    if snapshot.timeline.completed_writes:
        written_schema(table, snapshot)


def _schema_text(table: Table, timeline: Timeline) -> str | None:
    """The Avro schema of the newest commit that says one, else as created."""
    if table.storage.list_folder(_SCHEMA_HISTORY).objects:
        raise _altered(table, _SCHEMA_HISTORY)
    for instant in reversed(timeline.completed_writes):
        metadata = timeline.commit_metadata(table.storage, instant)
        if metadata.extra_metadata.get(INTERNAL_SCHEMA_KEY):
            raise _altered(table, timeline.path(instant))
        if metadata.schema_text:
            return metadata.schema_text
    return table.properties.create_schema


def virtual_keys(table: Table, schema: pa.Schema) -> VirtualKeys | None:
    """How the keys of stored rows are made; None where they are stored.

    Raises:
        TableUnsupportedError, OptionError: a key generator that is not followed.
    """
    if table.properties.populate_meta_fields:
        return None
    return VirtualKeys(KeySpec.from_properties(table.key_properties()), schema)


def _altered(table: Table, culprit: str) -> TableUnsupportedError:
    """Some files may have a column under an earlier name: under its present name it would be read, and rewritten, as
    null.
    """
    return TableUnsupportedError(
        f"table {table.name!r} was altered with hoodie.schema.on.read.enable: "
        f"its columns are found by ids that {culprit} keeps, not by their names",
        culprit=culprit,
        hint="read and write it with Hudi and hoodie.schema.on.read.enable=true, "
        "or copy its rows with Hudi into a new table",
    )
