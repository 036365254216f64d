"""Work out what a run needs to know about a table: its columns, how keys are made, which version wins."""

from __future__ import annotations

import pyarrow as pa

from lakeindex.errors import OptionError, TableCorruptError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.key_columns import read_record_keys
from lakeindex.model import KeyGeneratorType, MergeMode
from lakeindex.options.types import WriteConfig
from lakeindex.run.spec import TableFacts
from lakeindex.table.binding import ENCODING_OPTION, open_encoding
from lakeindex.table.columns import table_schema
from lakeindex.table.handle import Table
from lakeindex.table.index_changes import index_in_force
from lakeindex.table.index_inference import index_of_stored
from lakeindex.table.virtual_key_rules import check_virtual_index
from lakeindex.write.keys.keys import KeySpec, detect_complex_encoding

_SAMPLED_FILES = 3
_ENCODINGS = {True: "bare `value`", False: "`field:value`"}


def bind_for_write(table: Table, snapshot: Snapshot, config: WriteConfig) -> Table:
    """The table with everything bound that writers must agree on; the key encoding is detected from stored keys.

    Raises:
        OptionError: an option differs from what is bound, or the table needs a choice.
        TableCorruptError: stored keys have both encodings of a one-field complex key.
    """
    stored = stored_encoding(table, snapshot)
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


def stored_encoding(table: Table, snapshot: Snapshot) -> bool | None:
    """How complex keys of one field are stored (:func:`detect_complex_encoding`); None of other keys, or if none is."""
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
        delete_mark=properties.delete_mark,
    )
