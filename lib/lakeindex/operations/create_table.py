"""Make an empty table, of a schema or with the columns of a Parquet file."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, Required, TypedDict, Unpack

import pyarrow as pa
from msgspec.structs import replace

from lakeindex.commit.services.metadata_service import build_metadata_table, default_partitions
from lakeindex.errors import (
    InputError,
    LakeIndexError,
    ObjectNotFoundError,
    OptionError,
    TableExistsError,
    TableNotFoundError,
    first_line,
)
from lakeindex.frozen import Frozen
from lakeindex.metadata.metadata_table import FILES, RECORD_INDEX
from lakeindex.model import IndexSpec, IndexType, KeyGeneratorType
from lakeindex.operations.look.inspect import Column
from lakeindex.operations.look.live_files import columns_of
from lakeindex.operations.schema_text import is_schema_text, schema_from_text
from lakeindex.options.option import TABLE_VERSION_OPTION, TIMEBASED_PREFIX
from lakeindex.options.option_table import BY_KEY
from lakeindex.options.types import CreateConfig, CsvFormat, InputFormat, WriteConfig
from lakeindex.showing.json_result import TableResult
from lakeindex.stages.stage_input.input_pieces import read_columns
from lakeindex.stages.stage_input.inputs import TEXT_SUFFIXES, find_inputs
from lakeindex.storage.paths import absolute, plain
from lakeindex.storage.storage_file import StorageFile
from lakeindex.table.binding import new_index
from lakeindex.table.create import (
    GENERATOR_OPTION,
    CreateSpec,
    binding_of,
    check_column,
    check_spec,
    create_table,
    generator_of,
    key_entries,
    partition_fields_of,
    table_name_of,
)
from lakeindex.table.handle import Table
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.layout import LAYOUT_1, VERSIONS
from lakeindex.write.combine import check_ordering
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec, column_at
from lakeindex.write.keys.time_partitions import TRANSFORMS, TimeOptions
from lakeindex.write.types.avro_schema import DELETE_MARK, META_COLUMNS, check_names, schema_from_avro, schema_to_avro
from lakeindex.write.types.moments import MomentsFile
from lakeindex.write.types.type_fit import storable_schema

_NOT_BY_OLD_HUDI: Final = "Hudi 0.15 on Spark, which takes the values of a time from the path of its partition"


class Exists(StrEnum):
    """What happens if there is a table."""

    ERROR = "error"
    OK = "ok"


class CreateArguments(TypedDict, total=False):
    """Arguments of :func:`create_empty`."""

    keys: Required[Sequence[str]]
    partitions: Sequence[str]
    ordering: Sequence[str]
    config: CreateConfig | None
    metadata: bool | None


class CreatedTable(TableResult):
    """A new, empty table, or one that was there.

    Attributes:
        version: table version.
        unread_by: who cannot read such a table, in words; None of one that all readers know.
        key_fields: columns of the record key.
        partition_fields: columns of the partition path.
        ordering_field: column that says which version of a row is newer; of several a list with commas.
        key_generator: how keys are made.
        index_type: the index, bound.
        merge_mode: which version of a row wins, bound.
        metadata: partitions of its metadata table; none if it has none.
        columns: the table's columns.
        existed: it was there, as it was to be made, and was left as it was.
    """

    shown_by: ClassVar[str] = "results:show_created"

    version: int
    unread_by: str | None
    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_field: str | None
    key_generator: str | None
    index_type: str
    merge_mode: str
    metadata: tuple[str, ...]
    columns: tuple[Column, ...]
    existed: bool = False


def create_like(uri: str, like: str, **arguments: Unpack[CreateArguments]) -> CreatedTable:
    """Make an empty table with the columns of a Parquet file; arguments and errors as of :func:`create_empty`.

    Raises:
        InputError: ``like`` is not there or no Parquet file.
    """
    return create_empty(uri, columns_of_file(like), **arguments)


def create_or_find(
    uri: str, given: pa.Schema, exists: Exists, named: Collection[str], **arguments: Unpack[CreateArguments]
) -> CreatedTable:
    """Make an empty table; a table that is there is left as it is if it is the one that would be made.

    Args:
        exists: ``error``: a table that is there is an error in any case.
        named: names of the options that were given; others are not compared.

    Raises:
        TableExistsError: there is another table; the message has every difference.
    """
    try:
        return create_empty(uri, given, **arguments)
    except TableExistsError as error:
        if exists is Exists.ERROR:
            raise
        try:
            table = Table.at(uri)
        except TableNotFoundError:
            raise error from None  # only what is left of one
    fields = {name: value for name, value in arguments.items() if name != "metadata"}
    spec, columns = _spec_of(uri, given, **fields)  # type: ignore[arg-type] # a dict of typed arguments
    check_same_table(table, spec, columns, named)
    # One of ours, without rows: who made it may have been killed before its metadata table.
    if table.binding is not None and not table.load_timeline().completed_writes:
        _make_metadata_table(table, spec, wanted=arguments.get("metadata"))
    return _created(table, columns, table.reload().properties.metadata_partitions, existed=True)


def create_empty(
    uri: str,
    given: pa.Schema,
    *,
    keys: Sequence[str],
    partitions: Sequence[str] = (),
    ordering: Sequence[str] = (),
    config: CreateConfig | None = None,
    metadata: bool | None = None,
) -> CreatedTable:
    """Make an empty table.

    Its metadata table is made after it: a kill between both leaves a table without one, which
    :func:`create_or_find` makes then.

    Args:
        uri: its folder; the last element of its path is its name.
        given: the table's columns; meta columns and ``_hoodie_is_deleted`` are left out.
        partitions: columns of the partition path; ``field:month`` and its like of a date or timestamp;
            ``field:SIMPLE`` or ``field:TIMESTAMP`` with the custom generator.
        ordering: columns that say which version of a row is newer, the first one first; several in version 9.
        metadata: whether it gets a metadata table, as Hudi makes it; None: from version 8 on, as Hudi 1.x does.

    Raises:
        InputError: a column that a Hudi table cannot hold.
        OptionError: a column that is not there, or choices that do not fit together.
        TableExistsError: there is a table, or what is left of one.
    """
    spec, columns = _spec_of(uri, given, keys=keys, partitions=partitions, ordering=ordering, config=config)
    table = create_table(storage_at(absolute(uri)), spec)
    made = _make_metadata_table(table, spec, wanted=metadata)
    return _created(table, columns, made, existed=False)


def stored_columns(given: pa.Schema) -> pa.Schema:
    """Columns in the types that a table has for them. Raises: InputError: one that a Hudi table cannot hold."""
    given = storable_schema(pa.schema([field for field in given if field.name not in (*META_COLUMNS, DELETE_MARK)]))
    check_names(given)
    return schema_from_avro(schema_to_avro(given, "columns"))


class PlannedTable(Frozen):
    """A table that could be made.

    Attributes:
        columns: as a Hudi table holds them.
        keys: how its keys and partition paths are made.
        index: its index.
    """

    columns: pa.Schema
    keys: KeySpec
    index: IndexSpec


def plan_table(uri: str, given: pa.Schema, **arguments: Unpack[CreateArguments]) -> PlannedTable:
    """What :func:`create_empty` would make; arguments and errors as there."""
    fields = {name: value for name, value in arguments.items() if name != "metadata"}
    spec, columns = _spec_of(uri, given, **fields)  # type: ignore[arg-type] # a dict of typed arguments
    binding = binding_of(spec)
    keys = KeySpec.from_properties(key_entries(spec), complex_new_encoding=binding.complex_key_new_encoding)
    keys = replace(keys, hive_style=spec.config.hive_style, url_encode=spec.config.url_encode)
    return PlannedTable(columns, keys, IndexSpec(binding.index_type, binding.index_options))


def _spec_of(
    uri: str,
    given: pa.Schema,
    *,
    keys: Sequence[str],
    partitions: Sequence[str] = (),
    ordering: Sequence[str] = (),
    config: CreateConfig | None = None,
) -> tuple[CreateSpec, pa.Schema]:
    """What is to be made, checked, and its columns as a Hudi table holds them."""
    name = table_name_of(plain(uri))  # a link has a name of its own
    given = storable_schema(pa.schema([field for field in given if field.name not in (*META_COLUMNS, DELETE_MARK)]))
    check_names(given)
    text = schema_to_avro(given, name)
    columns = schema_from_avro(text)
    partitions, config = _by_time(keys, partitions, columns, config or CreateConfig())
    spec = CreateSpec(
        name=name,
        columns=_paths(columns),
        key_fields=tuple(keys),
        partition_fields=tuple(partitions),
        ordering_fields=tuple(ordering),
        config=config,
        schema_text=text,
    )
    check_spec(spec)
    _check_fields(spec, columns)
    return spec, columns


def _by_time(
    keys: Sequence[str], partitions: Sequence[str], columns: pa.Schema, config: CreateConfig
) -> tuple[Sequence[str], CreateConfig]:
    """Partition fields and options with ``field:month`` and its like as Hudi's key generators have them.

    Raises:
        OptionError: more than one of them, a column that is no date or timestamp, or an option that says another thing.
    """
    parts = [(text, *text.partition(":")[::2]) for text in partitions]
    asked = [(text, name, part.lower()) for text, name, part in parts if part.lower() in TRANSFORMS]
    if not asked:
        return partitions, config
    text, name, transform = asked[0]
    if len(asked) > 1:
        raise OptionError(
            f"a table has one partition field by time, not {', '.join(one for one, *_ in asked)}",
            culprit=asked[1][0],
            hint="Hudi keeps one time format for a table: name the finest of them",
        )
    check_column("--partition", name, _paths(columns))
    wanted = TimeOptions.of_transform(transform, column_at(columns.empty_table(), name).type, name)
    if not {"timezone", "output.timezone"} & set(config.timebased):
        wanted["output.timezone"] = "UTC"
    for option, value in wanted.items():
        if config.timebased.get(option, value) != value:
            raise OptionError(
                f"--partition {text} means {option} {value}, and an option says {config.timebased[option]}",
                culprit=TIMEBASED_PREFIX + option,
                hint=f"leave the option out, or name the column alone: --partition {name}",
            )
    simple = len(keys) == len(partitions) == 1 and config.key_generator is not KeyGeneratorType.CUSTOM
    generator = KeyGeneratorType.TIMESTAMP if simple else KeyGeneratorType.CUSTOM
    if (config.key_generator or generator) is not generator:
        raise OptionError(
            f"the key generator {config.key_generator} makes no partitions by {transform}",
            culprit=GENERATOR_OPTION,
            hint=f"leave the option out: {text} takes {generator}",
        )
    typed = [f"{one}:{'TIMESTAMP' if given == text else kind or 'SIMPLE'}" for given, one, kind in parts]
    made = [name] if simple else typed
    return made, replace(config, key_generator=generator, timebased={**config.timebased, **wanted})


def _created(table: Table, columns: pa.Schema, metadata: tuple[str, ...], *, existed: bool) -> CreatedTable:
    binding = table.bound_for(WriteConfig())
    by_time = KeySpec.from_properties(table.key_properties()).needs_time_options
    return CreatedTable(
        table=table.name,
        uri=table.uri,
        version=table.properties.version,
        unread_by=VERSIONS[table.properties.version].unread_by or (_NOT_BY_OLD_HUDI if by_time else None),
        key_fields=table.properties.key_fields,
        partition_fields=table.properties.partition_fields,
        ordering_field=",".join(table.properties.ordering_fields) or None,
        key_generator=table.properties.key_generator,
        index_type=binding.index_type,
        merge_mode=binding.merge_mode,
        metadata=metadata,
        columns=tuple(Column(field.name, str(field.type), field.nullable) for field in columns),
        existed=existed,
    )


def _make_metadata_table(table: Table, spec: CreateSpec, *, wanted: bool | None) -> tuple[str, ...]:
    """Make what is missing of the metadata table of a new table, if it is to have one; what was made.

    A partitioned record index is made only for who asks for a metadata table, and in the place of statistics: Hudi 1.2
    fails to write to a table that has both.
    """
    if not (table.properties.layout != LAYOUT_1 if wanted is None else wanted):
        return ()
    partitions = default_partitions(table.properties, spec.schema_text or "")
    index_type = table.bound_for(WriteConfig()).index_type
    if not table.properties.populate_meta_fields:
        pass  # no partition of keys is made of files that say nothing of them: a record index is stored beside it
    elif index_type is IndexType.RECORD_INDEX:
        partitions = (*partitions, RECORD_INDEX)
    elif index_type is IndexType.RECORD_LEVEL_INDEX and wanted and table.properties.layout != LAYOUT_1:
        partitions = (FILES, RECORD_INDEX)
    missing = [name for name in partitions if name not in table.properties.metadata_partitions]
    if not missing:
        return ()
    return build_metadata_table(table, WriteConfig(version10=spec.config.version10), missing).partitions


def _check_fields(spec: CreateSpec, columns: pa.Schema) -> None:
    """Refuse a key, partition or ordering field that the first upsert would refuse: its code is run on no rows.

    Raises:
        SchemaMismatchError: a field whose values cannot be part of a key or path, or cannot be ordered.
        OptionError: a time format or zone that is not understood.
    """
    KeyGenerator(KeySpec.from_properties(key_entries(spec))).keys_of(columns.empty_table())
    check_ordering(spec.ordering_fields, columns)


def columns_like(like: str, csv: CsvFormat) -> pa.Schema:
    """The columns that a text says, or that a file has: Parquet, CSV or JSON lines, or DDL in a file ``.sql``.

    Raises:
        InputError: the file is not there or cannot be read, or the text is no schema.
    """
    name = like.lower()
    is_file = name.endswith((".parquet", ".sql", *TEXT_SUFFIXES)) or "://" in like
    if not is_file and is_schema_text(like) and not Path(like).exists():
        return schema_from_text(like)
    if name.endswith(TEXT_SUFFIXES):
        (file,) = find_inputs((absolute(like),), InputFormat.AUTO)[:1]
        return read_columns(file, pa.schema([]), InputFormat.AUTO, csv)
    if name.endswith(".sql"):
        parent, last = posixpath.split(absolute(like))
        return schema_from_text(storage_at(parent or "/").read(last).decode())
    return columns_of_file(like)


def columns_of_file(like: str) -> pa.Schema:
    """The columns of a Parquet file. Raises: InputError: it is not there, or no Parquet file."""
    parent, name = posixpath.split(absolute(like))
    try:
        return MomentsFile(StorageFile(storage_at(parent or "/"), name)).schema_arrow
    except ObjectNotFoundError:
        raise InputError(
            f"no file at {like!r}",
            culprit=like,
            hint="give a Parquet, CSV or JSON file with the table's columns, or columns as text: 'id STRING, n INT'",
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{like!r} cannot be read as Parquet: {first_line(error)}",
            culprit=like,
            hint="give a Parquet file with the table's columns",
        ) from error


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


def check_same_table(table: Table, spec: CreateSpec, columns: pa.Schema, named: Collection[str]) -> None:
    """Make sure that a table is as it would have been made.

    Key, partitions, ordering, key generator, style of paths and columns are compared in any case; index, merge mode,
    spelling of keys, database and version if they were asked for: a table may have been migrated since it was made.

    Args:
        columns: its columns, as a new table would have them.

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
    bound = {} if binding is None else dict(binding.key_options)
    for option, text in config.key_options:
        yield from _differ(option, text, bound.get(option, BY_KEY[option].bound_default))
    if config.index_type is not None:
        yield from _index(table, new_index(config.index_type, config, spec.key_fields), named)
    if config.merge_mode is not None:
        merge_mode = properties.declared_merge_mode if binding is None else binding.merge_mode
        yield from _differ("merge mode", config.merge_mode, merge_mode)
    if config.complex_key_new_encoding is not None and binding is not None:
        yield from _differ("new key encoding", config.complex_key_new_encoding, binding.complex_key_new_encoding)
    if config.database:
        yield from _differ("database", config.database, properties.database)
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
