"""Work out what a run needs to know about a table: its columns, how keys are made, which version wins."""

from __future__ import annotations

import pyarrow as pa

from lakeindex.errors import OptionError, TableCorruptError, TableUnsupportedError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footers import read_shape
from lakeindex.files.key_columns import read_record_keys
from lakeindex.format.commit_metadata import INTERNAL_SCHEMA_KEY
from lakeindex.model import KeyGeneratorType, MergeMode
from lakeindex.options.types import WriteConfig
from lakeindex.run.spec import TableFacts
from lakeindex.table.binding import ENCODING_OPTION, open_encoding
from lakeindex.table.handle import Table
from lakeindex.table.index_changes import index_in_force
from lakeindex.table.index_inference import index_of_stored
from lakeindex.table.virtual_key_rules import check_virtual_index
from lakeindex.write.keys.keys import KeySpec, detect_complex_encoding
from lakeindex.write.types.avro_schema import META_COLUMNS, schema_from_avro
from lakeindex.write.virtual_keys import VirtualKeys

_SAMPLED_FILES = 3
_SCHEMA_HISTORY = ".hoodie/.schema"
_ENCODINGS = {True: "bare `value`", False: "`field:value`"}


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
        hint="create it with lakeindex create TABLE --like FILE.parquet, or write to it once with Hudi",
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


def bind_for_write(table: Table, snapshot: Snapshot, config: WriteConfig) -> Table:
    """The table with everything bound that writers must agree on; the key encoding is detected from stored keys.

    Raises:
        OptionError: an option differs from what is bound, or the table needs a choice.
        TableCorruptError: stored keys have both encodings of a one-field complex key.
    """
    stored = _stored_encoding(table, snapshot)
    if table.binding is None and _has_open_key(table):
        _check_encoding(table, stored=stored, asked=config.complex_key_new_encoding)
    index = index_of_stored(table, snapshot, config)
    if index is not None:
        check_virtual_index(table.properties, index.index_type)
    bound = table.bind(config, complex_key_new_encoding=stored, index=index)
    agreed = bound.binding is not None and bool(bound.binding.complex_key_new_encoding)
    if stored is not None and stored is not agreed:
        raise TableCorruptError(
            f"table {table.name!r} is bound to {_ENCODINGS[agreed]} record keys, "
            f"but stored keys are {_ENCODINGS[stored]}",
            culprit=table.properties.key_fields[0],
            hint="another writer encodes one-field complex keys differently; an upsert would store every key twice. "
            "Roll its commits back, or rewrite its rows",
        )
    return bound


def _check_encoding(table: Table, *, stored: bool | None, asked: bool | None) -> None:
    """Stored keys decide; without any the option does. Raises: OptionError."""
    key = table.properties.key_fields[0]
    if stored is None and asked is None:
        raise open_encoding(f"table {table.name} has no row yet; its record key {key!r}", key)
    if stored is not None and asked not in (None, stored):
        raise OptionError(
            f"option {ENCODING_OPTION} cannot be {str(asked).lower()}: stored record keys are {_ENCODINGS[stored]}",
            culprit=ENCODING_OPTION,
            hint="leave the option out",
        )


def _has_open_key(table: Table) -> bool:
    """Whether record keys are complex keys of one field, which releases of Hudi store in two ways."""
    properties = table.properties
    return properties.key_generator is KeyGeneratorType.COMPLEX and len(properties.key_fields) == 1


def _stored_encoding(table: Table, snapshot: Snapshot) -> bool | None:
    properties = table.properties
    if not _has_open_key(table) or not properties.populate_meta_fields:
        return None
    files = list(snapshot.base_files_all())
    sample = [files[0], files[len(files) // 2], files[-1]][:_SAMPLED_FILES] if files else []
    keys = [read_record_keys(table.storage, file) for file in sample]
    if not keys:
        return None
    return detect_complex_encoding(pa.concat_arrays(keys), properties.key_fields[0])


def facts_of(table: Table, snapshot: Snapshot, config: WriteConfig) -> TableFacts:
    """Facts for a run with these options, from a bound table."""
    binding = table.bound_for(config)
    properties = table.properties
    event_time = binding.merge_mode is MergeMode.EVENT_TIME_ORDERING
    index = index_in_force(table.storage, snapshot.timeline, binding.index)
    check_virtual_index(properties, index.index_type)
    return TableFacts(
        name=table.name,
        schema=table_schema(table, snapshot),
        keys=KeySpec.from_properties(table.key_properties()),
        ordering_fields=properties.ordering_fields if event_time else (),
        merge_mode=binding.merge_mode,
        index=index,
        has_virtual_keys=not properties.populate_meta_fields,
    )
