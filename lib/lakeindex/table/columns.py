"""The columns of a table, and how the keys of its stored rows are made."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakeindex.errors import TableUnsupportedError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footers import read_shape
from lakeindex.format.commit_metadata import INTERNAL_SCHEMA_KEY
from lakeindex.table.handle import Table
from lakeindex.write.keys.keys import KeySpec
from lakeindex.write.types.avro_schema import META_COLUMNS, schema_from_avro
from lakeindex.write.virtual_keys import VirtualKeys

_SCHEMA_HISTORY: Final = ".hoodie/.schema"


def table_schema(table: Table, snapshot: Snapshot) -> pa.Schema:
    """The table's columns, without meta columns: of the newest commit that says, else as created, else of a base file.

    Raises:
        TableUnsupportedError: the table has no schema anywhere, as it was never written to; or one by column ids.
    """
    timeline = snapshot.timeline
    if table.storage.list_folder(_SCHEMA_HISTORY).objects:
        raise _altered(table, _SCHEMA_HISTORY)
    for instant in reversed(timeline.completed_writes):
        metadata = timeline.commit_metadata(table.storage, instant)
        if metadata.extra_metadata.get(INTERNAL_SCHEMA_KEY):
            raise _altered(table, timeline.path(instant))
        if metadata.schema_text:
            return schema_from_avro(metadata.schema_text)
    if table.properties.create_schema:
        return schema_from_avro(table.properties.create_schema)
    for file in snapshot.base_files_all():
        schema = read_shape(table.storage, file).arrow_schema
        return pa.schema([f.remove_metadata() for f in schema if f.name not in META_COLUMNS])
    raise TableUnsupportedError(
        f"table {table.name!r} does not say which columns it has: it is empty and has no hoodie.table.create.schema",
        culprit=table.uri,
        hint="write to it once with Hudi, or, as nothing is in it, remove the folder and make the table with "
        "`lakeindex create TABLE --like FILE.parquet`",
    )


def virtual_keys(table: Table, schema: pa.Schema) -> VirtualKeys | None:
    """How the keys of stored rows are made; None where they are stored.

    Args:
        table: the table.
        schema: its columns.

    Raises:
        TableUnsupportedError, OptionError: a key generator that is not followed.
    """
    if table.properties.populate_meta_fields:
        return None
    return VirtualKeys(KeySpec.from_properties(table.key_properties()), schema)


def _altered(table: Table, culprit: str) -> TableUnsupportedError:
    """A column may stand under an earlier name in some files:
    by its name now it would be read, and rewritten, as null.
    """
    return TableUnsupportedError(
        f"table {table.name!r} was altered with hoodie.schema.on.read.enable: "
        f"its columns are found by ids that {culprit} keeps, not by their names",
        culprit=culprit,
        hint="read and write it with Hudi and hoodie.schema.on.read.enable=true, "
        "or copy its rows with Hudi into a new table",
    )
