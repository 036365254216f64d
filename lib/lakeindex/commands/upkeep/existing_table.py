"""Whether the table that is there is the one that was to be made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakeindex.commands.look.live_files import columns_of
from lakeindex.errors import LakeIndexError, TableExistsError
from lakeindex.model import IndexSpec
from lakeindex.options.values import TABLE_VERSION_OPTION
from lakeindex.table.binding import new_index
from lakeindex.table.create_spec import CreateSpec, generator_of, partition_fields_of
from lakeindex.table.handle import Table


def check_same_table(table: Table, spec: CreateSpec, columns: pa.Schema, named: Collection[str]) -> None:
    """Make sure that a table is as it would have been made.

    Key, partitions, ordering, key generator, style of paths and columns are compared in any case; index, merge mode,
    key encoding and version if they were asked for: a table may have been migrated since it was made.

    Args:
        table: what is there.
        spec: what was to be made.
        columns: its columns, as a new table would have them.
        named: names of the options that were given.

    Raises:
        TableExistsError: it is another one; the message has every difference.
    """
    found = [*_settings(table, spec, named), *_columns(table, columns)]
    if found:
        raise TableExistsError(
            f"there is another table at {table.uri}: {'; '.join(found)}",
            culprit=table.uri,
            hint="ask for what is there, or choose another folder; a table is not changed by creating it",
        )


def _settings(table: Table, spec: CreateSpec, named: Collection[str]) -> Iterator[str]:
    properties, binding, config = table.properties, table.binding, spec.config
    fields = tuple(partition_fields_of(spec))
    yield from _differ("key", spec.key_fields, properties.key_fields)
    yield from _differ("partition", tuple(name for name, _ in fields), properties.partition_fields)
    if any(kind for _, kind in fields):
        yield from _differ("partition types", tuple(kind for _, kind in fields), properties.partition_types)
    yield from _differ("ordering", spec.ordering_fields, properties.ordering_fields)
    yield from _differ("key generator", generator_of(spec), properties.key_generator)
    yield from _differ("hive-style partitions", config.hive_style, properties.hive_style)
    yield from _differ("escaped partition paths", config.url_encode, properties.url_encode)
    yield from _differ("stored meta columns", config.populate_meta_fields, properties.populate_meta_fields)
    yield from _differ("time-based key options", dict(config.timebased), dict(properties.timebased))
    if config.index_type is not None:
        yield from _index(table, new_index(config.index_type, config, spec.key_fields), named)
    if config.merge_mode is not None:
        merge_mode = properties.declared_merge_mode if binding is None else binding.merge_mode
        yield from _differ("merge mode", config.merge_mode, merge_mode)
    if config.complex_key_new_encoding is not None and binding is not None:
        yield from _differ("new key encoding", config.complex_key_new_encoding, binding.complex_key_new_encoding)
    if TABLE_VERSION_OPTION in named:
        yield from _differ("version", config.table_version, properties.version)


def _index(table: Table, wanted: IndexSpec, named: Collection[str]) -> Iterator[str]:
    """The type, and of what is bound with it the options that were given: buckets may have been rescaled."""
    now = table.index(table.load_timeline())
    if now is None or now.index_type is not wanted.index_type:
        yield from _differ("index", wanted.index_type, None if now is None else now.index_type)
        return
    bound = dict(now.options)
    for option, value in wanted.options:
        if option in named:
            yield from _differ(option, value, bound.get(option))


def _columns(table: Table, wanted: pa.Schema) -> Iterator[str]:
    try:
        there = columns_of(table.uri)
    except LakeIndexError as error:
        yield f"its columns are not known ({error.message})"
        return
    names, asked = frozenset(there.names), frozenset(wanted.names)
    for field in wanted:
        if field.name not in names:
            yield f"column {field.name} is asked for, and not there"
        else:
            yield from _differ(f"column {field.name}", _type(field), _type(there.field(field.name)))
    for name in there.names:
        if name not in asked:
            yield f"column {name} is there, and not asked for"


def _type(field: pa.Field) -> str:
    return f"{field.type}{'' if field.nullable else ' not null'}"


def _differ(what: str, wanted: object, there: object) -> Iterator[str]:
    if wanted != there:
        yield f"{what} is to be {_text(wanted)}, and is {_text(there)}"


def _text(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
