"""Making a table: one file, ``hoodie.properties``, put create-if-absent.

In version 6 both spellings of every pair are written, so that Hudi 0.15, Hudi 1.2 and hudi-rs find the same keys,
ordering and merge behaviour. Properties of later versions (``hoodie.record.merge.mode``, ...) stay out of it: Hudi
itself drops them. In versions 8 and 9 stands what Hudi 1.2 writes: the merge mode, which 8 repeats as payload class
and merge strategy.
"""

from __future__ import annotations

from lakeindex.errors import ObjectExistsError, ObjectNotFoundError, OptionError, TableExistsError, UnknownOutcomeError
from lakeindex.format.file_names import METADATA_FOLDER, parse_base_path
from lakeindex.format.instants import parse_instant
from lakeindex.format.properties import format_properties, table_checksum
from lakeindex.model import KeyGeneratorType, MergeMode
from lakeindex.options.values import TIMEBASED_PREFIX
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
from lakeindex.table.create_spec import CreateSpec, check_spec, generator_of, partition_fields_of, table_name_of
from lakeindex.table.handle import Table
from lakeindex.table.properties import (
    ALL_META_FIELDS,
    CREATED_COMMENT,
    NO_META_FIELDS,
    default_index,
    generator_class,
    is_torn,
)
from lakeindex.table.version import VERSION_8, VERSION_10, VERSIONS, TableVersion
from lakeindex.timeline import records
from lakeindex.timeline.layout import HOODIE_FOLDER, LAYOUT_1, TimelineLayout

__all__ = ["CreateSpec", "create_table", "table_entries", "table_name_of"]


def create_table(storage: Storage, spec: CreateSpec) -> Table:
    """Make an empty table.

    Args:
        storage: its folder; made if it is not there.

    Raises:
        OptionError: a field is missing, or the choices do not fit together.
        TableExistsError: there is a table, or what is left of one.
    """
    binding = _binding(spec)
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


def _binding(spec: CreateSpec) -> TableBinding:
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
