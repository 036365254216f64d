"""Making a table: what is asked for, whether the choices fit together, and one file, put create-if-absent:
``hoodie.properties``.

In version 6 both spellings of every pair are written, so that Hudi 0.15, Hudi 1.2 and hudi-rs find the same keys,
ordering and merge behaviour. Properties of later versions (``hoodie.record.merge.mode``, ...) stay out of it: Hudi
itself drops them. In versions 8 and 9 stands what Hudi 1.2 writes: the merge mode, which 8 repeats as payload class
and merge strategy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import field

from lakeindex.errors import ObjectExistsError, ObjectNotFoundError, OptionError, TableExistsError, UnknownOutcomeError
from lakeindex.format.file_names import METADATA_FOLDER, parse_base_path
from lakeindex.format.instants import parse_instant
from lakeindex.format.java_properties import format_properties, table_checksum
from lakeindex.frozen import Frozen
from lakeindex.model import KeyGeneratorType, MergeMode
from lakeindex.options.option import INDEX_OPTION, TABLE_VERSION_OPTION, TIMEBASED_PREFIX, VERSION10_OPTION
from lakeindex.options.types import CreateConfig, Version10
from lakeindex.storage.port import Storage
from lakeindex.table import property_keys as keys
from lakeindex.table.binding import (
    BINDING_PROPERTY,
    ENCODING_OPTION,
    MERGE_OPTION,
    TableBinding,
    format_binding,
    new_index,
    open_encoding,
    store_binding,
    this_release,
)
from lakeindex.table.handle import Table
from lakeindex.table.properties import (
    ALL_META_FIELDS,
    CREATED_COMMENT,
    NO_META_FIELDS,
    default_index,
    generator_class,
    is_torn,
)
from lakeindex.table.property_keys import POPULATE_META_FIELDS
from lakeindex.table.refusals import generator_problem, index_problem
from lakeindex.timeline import records
from lakeindex.timeline.layout import (
    HOODIE_FOLDER,
    LAYOUT_1,
    SEVERAL_ORDERING_FIELDS,
    VERSION_8,
    VERSION_9,
    VERSION_10,
    VERSIONS,
    TableVersion,
    TimelineLayout,
)

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_META_COLUMN_PREFIX: Final = "_hoodie_"
GENERATOR_OPTION: Final = "hoodie.table.keygenerator.type"
_PARTITION_TYPES: Final = ("SIMPLE", "TIMESTAMP")


class CreateSpec(Frozen):
    """A table to be made.

    Attributes:
        columns: names of the table's columns, without meta columns; ``a.b`` names a field of a struct.
        key_fields: columns of the record key, in order.
        partition_fields: columns of the partition path, in order; ``field:SIMPLE`` or ``field:TIMESTAMP`` with the
            custom key generator.
        ordering_fields: columns that say which version of a record is newer, the first one first; several in version 9.
        schema_text: Avro schema without meta columns, so that an empty table can be read; optional.
    """

    name: str
    columns: Sequence[str]
    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    config: CreateConfig = field(default_factory=CreateConfig)
    schema_text: str | None = None


def table_name_of(uri: str) -> str:
    """The table's name: the last element of its path.

    Raises:
        OptionError: it is empty or has characters that are not safe in the names Hudi derives from it.
    """
    name = uri.partition("://")[2] if "://" in uri else uri
    name = name.rstrip("/").rpartition("/")[2]
    if _NAME.fullmatch(name) is None:
        raise OptionError(
            f"{name!r} cannot be a table name",
            culprit=uri,
            hint="the last element of the path names the table: letters, digits, '_', '-' and '.', not starting with "
            "'-' or '.'",
        )
    return name


def generator_of(spec: CreateSpec) -> KeyGeneratorType:
    """The key generator asked for, or the one that fits the number of fields."""
    if spec.config.key_generator is not None:
        return spec.config.key_generator
    if not spec.partition_fields:
        return KeyGeneratorType.NON_PARTITION
    simple = (len(spec.key_fields), len(spec.partition_fields)) == (1, 1)
    return KeyGeneratorType.SIMPLE if simple else KeyGeneratorType.COMPLEX


def partition_fields_of(spec: CreateSpec) -> Iterator[tuple[str, str]]:
    """Name and type (upper case, empty if none is given) of each partition field."""
    for text in spec.partition_fields:
        name, _, kind = text.partition(":")
        yield name, kind.upper()


def key_entries(spec: CreateSpec) -> dict[str, str]:
    """All that makes keys and partition paths, under the names that key generation reads."""
    typed = (f"{name}:{kind}" if kind else name for name, kind in partition_fields_of(spec))
    return {
        "hoodie.table.recordkey.fields": ",".join(spec.key_fields),
        "hoodie.table.partition.fields": ",".join(typed),
        GENERATOR_OPTION: generator_of(spec).value,
        **{TIMEBASED_PREFIX + option: text for option, text in spec.config.timebased.items()},
        **dict(spec.config.key_options),
    }


def check_spec(spec: CreateSpec) -> None:
    """Refuse choices that make no table. Raises: OptionError."""
    if _NAME.fullmatch(spec.name) is None:
        table_name_of(spec.name)
    if not spec.key_fields:
        raise OptionError("a table needs at least one key field", culprit="--key", hint="name it with --key")
    partitions = tuple(name for name, _ in partition_fields_of(spec))
    for option, names in (
        ("--key", spec.key_fields),
        ("--partition", partitions),
        ("--ordering", spec.ordering_fields),
    ):
        for name in names:
            check_column(option, name, spec.columns)
        if len(set(names)) < len(names):
            raise OptionError(f"{option} names a column twice: {','.join(names)}", culprit=option)
    if len(spec.ordering_fields) > 1 and spec.config.table_version < SEVERAL_ORDERING_FIELDS:
        raise OptionError(
            f"a table of version {spec.config.table_version} cannot have {len(spec.ordering_fields)} ordering fields "
            f"({', '.join(spec.ordering_fields)})",
            culprit="--ordering",
            hint=f"name one, or make a table of version {SEVERAL_ORDERING_FIELDS}: "
            "Hudi before 1.1, which reads the others, knows one",
        )
    if spec.config.table_version == VERSION_10.number and spec.config.version10 is Version10.REFUSE:
        raise OptionError(
            f"a table of version {VERSION_10.number} is made only for who asks for it: no release of Hudi reads one",
            culprit=TABLE_VERSION_OPTION,
            hint=f"Hudi 1.2 makes {VERSION_9.number}; -o {VERSION10_OPTION}={Version10.WRITE} makes it all the same",
        )
    reserved = [name for name in spec.columns if name.startswith(_META_COLUMN_PREFIX) and name != "_hoodie_is_deleted"]
    if reserved:
        raise OptionError(f"the column {reserved[0]} is one of Hudi's own", culprit=reserved[0], hint="leave it out")
    if not spec.config.populate_meta_fields:
        _check_virtual(spec)
    _check_generator(spec, generator_of(spec), tuple(kind for _, kind in partition_fields_of(spec)))


def _check_virtual(spec: CreateSpec) -> None:
    index_type = spec.config.index_type
    problems = (
        (GENERATOR_OPTION, generator_problem(generator_of(spec), len(spec.key_fields))),
        (INDEX_OPTION, None if index_type is None else index_problem(index_type)),
    )
    for option, problem in problems:
        if problem is not None:
            raise OptionError(
                f"a table with {POPULATE_META_FIELDS[0]}=false cannot be made: {problem[0]}",
                culprit=option,
                hint=problem[1],
            )


def check_column(option: str, name: str, columns: Sequence[str]) -> None:
    """Refuse a name that is no column, or that a table's properties cannot hold. Raises: OptionError."""
    if name not in columns:
        raise OptionError(
            f"{option} names {name!r}, which is no column",
            culprit=name,
            hint=f"columns: {', '.join(columns)}",
        )
    if "," in name or ":" in name or name.strip() != name or not name:
        raise OptionError(
            f"{option} cannot be {name!r}", culprit=name, hint="',' and ':' separate names in a table's properties"
        )


def _check_generator(spec: CreateSpec, generator: KeyGeneratorType, types: tuple[str, ...]) -> None:
    keys_and_levels = (len(spec.key_fields), len(types))
    fits = {
        KeyGeneratorType.SIMPLE: keys_and_levels == (1, 1),
        KeyGeneratorType.COMPLEX: keys_and_levels[1] >= 1,
        KeyGeneratorType.NON_PARTITION: keys_and_levels[1] == 0,
        KeyGeneratorType.TIMESTAMP: keys_and_levels == (1, 1),
        KeyGeneratorType.CUSTOM: keys_and_levels[1] >= 1,
    }
    needs = {
        KeyGeneratorType.SIMPLE: "one key field and one partition field",
        KeyGeneratorType.COMPLEX: "at least one partition field",
        KeyGeneratorType.NON_PARTITION: "no partition field",
        KeyGeneratorType.TIMESTAMP: "one key field and one partition field",
        KeyGeneratorType.CUSTOM: "at least one partition field",
    }
    if not fits[generator]:
        raise OptionError(
            f"the key generator {generator} does not fit {keys_and_levels[0]} key field(s) and {keys_and_levels[1]} "
            "partition field(s)",
            culprit=GENERATOR_OPTION,
            hint=f"{generator} takes {needs[generator]}",
        )
    _check_types(generator, types)
    _check_timebased(spec, generator, types)


def _check_types(generator: KeyGeneratorType, types: tuple[str, ...]) -> None:
    if generator is KeyGeneratorType.CUSTOM:
        wrong = [kind for kind in types if kind not in _PARTITION_TYPES]
        if wrong:
            raise OptionError(
                f"a partition field of the custom key generator has the type {wrong[0] or 'none'!r}",
                culprit="--partition",
                hint=f"write field:TYPE with one of {', '.join(_PARTITION_TYPES)}",
            )
    elif any(types):
        raise OptionError(
            f"the key generator {generator} takes no types of partition fields",
            culprit="--partition",
            hint=f"leave ':{next(filter(None, types))}' out, or use -o {GENERATOR_OPTION}=CUSTOM",
        )


def _check_timebased(spec: CreateSpec, generator: KeyGeneratorType, types: tuple[str, ...]) -> None:
    wanted = generator is KeyGeneratorType.TIMESTAMP or "TIMESTAMP" in types
    given = spec.config.timebased
    if given and not wanted:
        option = TIMEBASED_PREFIX + next(iter(given))
        raise OptionError(
            f"option {option} has no meaning for the key generator {generator}",
            culprit=option,
            hint=f"it belongs to {KeyGeneratorType.TIMESTAMP} and {KeyGeneratorType.CUSTOM}",
        )
    required = ("timestamp.type", "output.dateformat") if wanted else ()
    if given.get("timestamp.type") in ("DATE_STRING", "MIXED"):
        required = (*required, "input.dateformat")
    for name in required:
        if name not in given:
            raise OptionError(
                f"the key generator {generator} needs the option {TIMEBASED_PREFIX}{name}",
                culprit=TIMEBASED_PREFIX + name,
                hint="give it with -o",
            )


def create_table(storage: Storage, spec: CreateSpec) -> Table:
    """Make an empty table; its folder is made if it is not there.

    Raises:
        OptionError: a field is missing, or the choices do not fit together.
        TableExistsError: there is a table, or what is left of one.
    """
    binding = binding_of(spec)
    entries = table_entries(spec, binding)
    _check_vacant(storage)
    version = this_release().removeprefix("lakeindex")
    data = format_properties(entries, comments=(f"{CREATED_COMMENT}{version}",))
    try:
        storage.create(keys.PROPERTIES_PATH, data)
    except ObjectExistsError:
        if not _is_torn(storage, keys.PROPERTIES_PATH):
            raise _exists(storage) from None
        storage.write(keys.PROPERTIES_PATH, data)
    except UnknownOutcomeError:
        if not _stored(storage, data):
            raise
    storage.sync([keys.PROPERTIES_PATH])
    store_binding(storage, binding)
    table = Table.open(storage)
    _make_timeline_folder(storage, table.properties.timeline_layout)
    return table


def _make_timeline_folder(storage: Storage, layout: TimelineLayout) -> None:
    """Hudi 1.x lists the folder of the timeline, and fails where it is not; a store has no folders."""
    if layout.version != LAYOUT_1:
        path = f"{layout.folder}/.folder"
        records.put(storage, path, b"")
        records.remove(storage, [path])


def table_entries(spec: CreateSpec, binding: TableBinding) -> dict[str, str]:
    """Properties of a new table, in the order they are written."""
    config = spec.config
    generator = generator_of(spec)
    version = VERSIONS[config.table_version]
    entries = {
        keys.TABLE_NAME[0]: spec.name,
        keys.TABLE_TYPE[0]: keys.COPY_ON_WRITE,
        keys.TABLE_VERSION[0]: str(version.number),
        keys.LAYOUT_VERSION[0]: str(version.layout),
        keys.BASE_FILE_FORMAT[0]: "PARQUET",
        keys.DATABASE_NAME[0]: config.database,
        keys.RECORD_KEY_FIELDS[0]: ",".join(spec.key_fields),
        keys.KEY_GENERATOR_TYPE[0]: generator.value,
        keys.HIVE_STYLE[0]: _flag(config.hive_style),
        keys.URL_ENCODE[0]: _flag(config.url_encode),
        keys.POPULATE_META_FIELDS[0]: _flag(config.populate_meta_fields),
        keys.CDC_ENABLED[0]: "false",
        keys.DROP_PARTITION_COLUMNS[0]: "false",
        keys.METAFILE_USES_BASE_FORMAT[0]: "false",
        keys.TIMEZONE[0]: "UTC",
    }
    entries.update(_versioned_entries(spec, binding, version))
    entries.update({TIMEBASED_PREFIX + name: value for name, value in config.timebased.items()})
    if spec.schema_text is not None:
        entries[keys.CREATE_SCHEMA[0]] = spec.schema_text
    entries[BINDING_PROPERTY] = format_binding(binding).decode()
    entries[keys.CHECKSUM[0]] = str(table_checksum(config.database, spec.name))
    return entries


def _versioned_entries(spec: CreateSpec, binding: TableBinding, version: TableVersion) -> dict[str, str]:
    """What tables of one version say differently from those of others."""
    old = version.layout == LAYOUT_1
    entries: dict[str, str] = {}
    if spec.partition_fields:
        # Version 6 keeps bare names here; the types of a custom key generator are bound beside it.
        fields = partition_fields_of(spec)
        entries[keys.PARTITION_FIELDS[0]] = ",".join(
            name if old or not kind else f"{name}:{kind}" for name, kind in fields
        )
    if spec.ordering_fields:
        named = ",".join(spec.ordering_fields)
        # Hudi 1.0 knows the older name alone, and drops what it does not know
        renamed = version.number > VERSION_8.number
        entries.update(dict.fromkeys(keys.ORDERING_FIELDS[:1] if renamed else keys.ORDERING_FIELDS, named))
    if old:
        entries[keys.ARCHIVE_FOLDER[0]] = "archived"
        entries[keys.KEY_GENERATOR_CLASS[0]] = generator_class(generator_of(spec))
    else:
        entries[keys.INITIAL_VERSION[0]] = str(version.number)
        entries[keys.TIMELINE_PATH[0]] = "timeline"
        entries[keys.HISTORY_PATH[0]] = entries[keys.ARCHIVE_FOLDER[0]] = "history"
        entries[keys.TABLE_FORMAT[0]] = "native"
        entries[keys.MULTIPLE_BASE_FORMATS[0]] = "false"
        entries[keys.MERGE_MODE[0]] = binding.merge_mode.value
    if version.number >= VERSION_10.number:
        entries[keys.META_FIELDS_MODE[0]] = ALL_META_FIELDS if spec.config.populate_meta_fields else NO_META_FIELDS
    if version.number <= VERSION_8.number:
        event_time = binding.merge_mode is MergeMode.EVENT_TIME_ORDERING
        entries[keys.PAYLOAD_CLASS[0]] = keys.DEFAULT_PAYLOAD if event_time else keys.OVERWRITE_PAYLOAD
        entries[keys.MERGE_STRATEGY[0]] = keys.EVENT_TIME_STRATEGY if event_time else keys.COMMIT_TIME_STRATEGY
    return entries


def binding_of(spec: CreateSpec) -> TableBinding:
    """What is bound to such a table for good. Raises: OptionError."""
    check_spec(spec)
    config = spec.config
    mode = config.merge_mode
    if mode is None:
        mode = MergeMode.EVENT_TIME_ORDERING if spec.ordering_fields else MergeMode.COMMIT_TIME_ORDERING
    if mode is MergeMode.EVENT_TIME_ORDERING and not spec.ordering_fields:
        raise OptionError(
            f"option {MERGE_OPTION} cannot be {mode} without an ordering field",
            culprit=MERGE_OPTION,
            hint="name one with ordering= (--ordering)",
        )
    one_field_complex = generator_of(spec) is KeyGeneratorType.COMPLEX and len(spec.key_fields) == 1
    if config.complex_key_new_encoding is not None and not one_field_complex:
        raise OptionError(
            f"option {ENCODING_OPTION} has no meaning for this table",
            culprit=ENCODING_OPTION,
            hint="it is about complex keys of one field only",
        )
    if config.complex_key_new_encoding is None and one_field_complex:
        raise open_encoding(
            f"the record key {spec.key_fields[0]!r} of a table with the complex key generator", spec.key_fields[0]
        )
    types = tuple(kind for _, kind in partition_fields_of(spec) if kind)
    default = default_index(stores_keys=config.populate_meta_fields)
    index = new_index(config.index_type or default, config, spec.key_fields)
    return TableBinding(
        index_type=index.index_type,
        index_options=index.options,
        merge_mode=mode,
        complex_key_new_encoding=config.complex_key_new_encoding,
        partition_types=types or None,
        created_by=this_release(),
        key_options=config.key_options,
        is_stated=True,
    )


def _check_vacant(storage: Storage) -> None:
    """Refuse a folder with a table, or with files that a new table there would take for its own."""
    top = storage.list_folder(METADATA_FOLDER)
    names = {one.path.rpartition("/")[2] for one in top.objects}
    for path in (keys.PROPERTIES_PATH, keys.PROPERTIES_BACKUP_PATH):
        if path.rpartition("/")[2] in names and not _is_torn(storage, path):
            raise _exists(storage)
    timeline = storage.list_folder(f"{HOODIE_FOLDER}/timeline")
    names |= {one.path.rpartition("/")[2] for one in timeline.objects}
    leftover = next((name for name in sorted(names) if parse_instant(name) is not None), None)
    if leftover is None:
        found = (one.path for one in storage.list("") if parse_base_path(one.path) is not None)
        leftover = next((path for path in found if not path.startswith(METADATA_FOLDER)), None)
    if leftover is not None:
        raise TableExistsError(
            f"{storage.uri} has no {keys.PROPERTIES_PATH}, but files of a table: {leftover}",
            culprit=leftover,
            hint="restore the table's properties, or remove its files before making another",
        )


def _is_torn(storage: Storage, path: str) -> bool:
    """Whether a power loss cut the creation of a table short there: nothing can have been written into it."""
    try:
        return is_torn(storage.read(path))
    except ObjectNotFoundError:
        return True


def _exists(storage: Storage) -> TableExistsError:
    return TableExistsError(
        f"there is a table at {storage.uri}",
        culprit=storage.uri,
        hint='write to it, or choose another folder; exists="ok" (--exists ok) takes it, if it is what would be made',
    )


def _stored(storage: Storage, data: bytes) -> bool:
    try:
        return storage.read(keys.PROPERTIES_PATH) == data
    except ObjectNotFoundError:
        return False


def _flag(value: object) -> str:
    return "true" if value else "false"
