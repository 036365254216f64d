"""The typed view of ``hoodie.properties``, whichever release wrote it.

Hudi renamed several keys between 0.15 and 1.x; of each pair either is read (the newer one first). What this version
does not write, or does not read, is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import field

from lakeindex.errors import LakeIndexError, ObjectNotFoundError, TableCorruptError, TableNotFoundError
from lakeindex.format.java_properties import parse_properties, table_checksum
from lakeindex.frozen import Frozen
from lakeindex.metadata.metadata_table import MetadataTable
from lakeindex.model import IndexType, KeyGeneratorType, MergeMode
from lakeindex.options.option import KEY_GENERATOR_CLASSES, TIMEBASED_PREFIX
from lakeindex.storage import list_names
from lakeindex.storage.port import Storage
from lakeindex.table import property_keys as keys
from lakeindex.table.property_keys import PROPERTIES_BACKUP_PATH, PROPERTIES_PATH
from lakeindex.timeline.layout import HOODIE_FOLDER, LAYOUT_1, LAYOUT_2, TimelineLayout, layout_of_version
from lakeindex.timeline.timeline import Timeline

ALL_META_FIELDS: Final = "ALL"
NO_META_FIELDS: Final = "NONE"
"""Values of ``hoodie.meta.fields.mode``; others store some of the meta columns."""

CREATED_COMMENT: Final = "Properties of a table created by lakeindex"

METADATA_PROPERTIES: Final = f"{HOODIE_FOLDER}/metadata/.hoodie/hoodie.properties"
_TIMELINE: Final = f"{HOODIE_FOLDER}/timeline"
_RECORD: Final = "_record"
_METADATA: Final = "_metadata"
_BINDING: Final = "lakeindex.table.binding"
_WRITERS: Final = (b"#Properties saved on ", b"#Updated at ", b"#Updated by lakeindex", f"#{CREATED_COMMENT}".encode())
"""How the properties begin that Hudi and lakeindex wrote."""
_CLASS_OF: Final = {kind: name for name, kind in KEY_GENERATOR_CLASSES.items()}


def default_index(*, stores_keys: bool) -> IndexType:
    """The index of who says none: in files without meta columns there are no filters to ask."""
    return IndexType.BLOOM if stores_keys else IndexType.SIMPLE


class TableProperties(Frozen):
    """What ``hoodie.properties`` says, typed.

    Attributes:
        table_type: ``COPY_ON_WRITE`` or ``MERGE_ON_READ``.
        layout: timeline layout, 1 or 2.
        key_fields: columns of the record key, in order; empty where Hudi generates the keys.
        partition_fields: columns of the partition path, in order.
        partition_types: with the custom key generator, ``SIMPLE`` or ``TIMESTAMP`` per partition field, if known.
        ordering_fields: columns that decide which version of a record is newer; usually none or one.
        key_generator: type of the key generator; ``None`` if none is named.
        hive_style: partition levels are ``field=value``.
        url_encode: partition values are escaped.
        timebased: options of the timestamp-based key generator, by their name behind ``hoodie.keygen.timebased.``.
        timeline_path: folder below ``.hoodie`` of a layout-2 timeline.
        archive_folder: folder below ``.hoodie`` of the archived timeline of layout 1.
        history_path: folder below the timeline's of the archived timeline of layout 2.
        timezone: ``UTC`` or ``LOCAL``.
        populate_meta_fields: rows store their key, partition path and commit.
        meta_fields_mode: which of these they store, as tables of version 10 say it; ``None`` if it is not said.
        delete_field: column whose value marks a row of a batch as one to be deleted, if there is one.
        delete_marker: that value, as text.
        metadata_partitions: partitions of the metadata table that readers use, empty if there is none.
        metadata_partitions_inflight: those being built.
        entries: all properties as they stand in the file.
    """

    name: str
    database: str = ""
    table_type: str = keys.COPY_ON_WRITE
    version: int = 6
    layout: int = LAYOUT_1
    key_fields: tuple[str, ...] = ()
    partition_fields: tuple[str, ...] = ()
    partition_types: tuple[str, ...] | None = None
    ordering_fields: tuple[str, ...] = ()
    key_generator: KeyGeneratorType | None = None
    key_generator_name: str = ""
    hive_style: bool = False
    url_encode: bool = False
    timebased: Mapping[str, str] = field(default_factory=dict)
    timeline_path: str = "timeline"
    archive_folder: str = "archived"
    history_path: str = "history"
    timezone: str = "LOCAL"
    base_file_format: str = "PARQUET"
    table_format: str = "native"
    multiple_base_formats: bool = False
    populate_meta_fields: bool = True
    meta_fields_mode: str | None = None
    drop_partition_columns: bool = False
    bootstrap_base_path: str | None = None
    delete_field: str | None = None
    delete_marker: str | None = None
    metadata_partitions: tuple[str, ...] = ()
    metadata_partitions_inflight: tuple[str, ...] = ()
    merge_mode_text: str | None = None
    payload_class: str | None = None
    merge_strategy: str | None = None
    create_schema: str | None = None
    entries: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_partitioned(self) -> bool:
        return bool(self.partition_fields) and self.key_generator is not KeyGeneratorType.NON_PARTITION

    @property
    def default_index(self) -> IndexType:
        return default_index(stores_keys=self.populate_meta_fields)

    @property
    def delete_mark(self) -> tuple[str, str] | None:
        """The column and the value, as text, by which rows of a batch are marked as deleted; None if none says it."""
        if self.delete_field is None or self.delete_marker is None:
            return None
        return self.delete_field, self.delete_marker

    @property
    def timeline_layout(self) -> TimelineLayout:
        """Where the files of the timeline are."""
        if self.layout == LAYOUT_1:
            return TimelineLayout(LAYOUT_1, HOODIE_FOLDER, f"{HOODIE_FOLDER}/{self.archive_folder}")
        folder = f"{HOODIE_FOLDER}/{self.timeline_path}"
        return TimelineLayout(self.layout, folder, f"{folder}/{self.history_path}")

    @property
    def declared_merge_mode(self) -> MergeMode | None:
        """The merge mode that the properties state, or ``None`` if they state none we know.

        The merge mode, the payload class and the merge strategy may each state it, and have to agree; where 0.15 states
        a payload class, its strategy says nothing. A table without an ordering field has only one possible mode.
        """
        stated: list[MergeMode | None] = []
        if self.merge_mode_text is not None:
            stated.append({mode.value: mode for mode in MergeMode}.get(self.merge_mode_text.upper()))
        if self.payload_class is not None:
            stated.append(_MODE_OF_PAYLOAD.get(self.payload_class))
        if self.merge_strategy is not None and (self.layout != LAYOUT_1 or not stated):
            stated.append(_MODE_OF_STRATEGY.get(self.merge_strategy))
        if not stated:
            return None if self.ordering_fields else MergeMode.COMMIT_TIME_ORDERING
        return stated[0] if len(set(stated)) == 1 else None

    @property
    def stated_merge(self) -> str:
        said = (self.merge_mode_text, self.payload_class, self.merge_strategy)
        return ", ".join(one for one in said if one is not None)

    @property
    def undeclared_merge(self) -> bool:
        """Whether the properties are silent on merging (0.15 tables), as opposed to stating a mode we do not know."""
        return (self.merge_mode_text, self.payload_class, self.merge_strategy) == (None, None, None)


_MODE_OF_PAYLOAD: Final[dict[str, MergeMode]] = {
    keys.DEFAULT_PAYLOAD: MergeMode.EVENT_TIME_ORDERING,
    keys.EVENT_TIME_PAYLOAD: MergeMode.EVENT_TIME_ORDERING,
    keys.OVERWRITE_PAYLOAD: MergeMode.COMMIT_TIME_ORDERING,
}
_MODE_OF_STRATEGY: Final[dict[str, MergeMode]] = {
    keys.EVENT_TIME_STRATEGY: MergeMode.EVENT_TIME_ORDERING,
    keys.COMMIT_TIME_STRATEGY: MergeMode.COMMIT_TIME_ORDERING,
}


def generator_class(kind: KeyGeneratorType) -> str:
    """Java class of a key generator, as 0.15 names it in the properties."""
    return _CLASS_OF[kind]


def load_table_properties(storage: Storage) -> TableProperties:
    """Read ``hoodie.properties``, or its backup while a writer is replacing it.

    Raises:
        TableNotFoundError: there is neither.
        TableCorruptError: the file is cut off, or a property is missing or not valid.
    """
    return _parsed(*_read_properties(storage))


@lru_cache(maxsize=16)  # a run reads them in every stage and before each of its steps
def _parsed(data: bytes, path: str) -> TableProperties:
    return parse_table_properties(parse_properties(data, path), path)


def _read_properties(storage: Storage) -> tuple[bytes, str]:
    cut: tuple[str, str, bytes] | None = None
    # Hudi replaces the file by deleting and writing it anew: a reader in between may see it empty, or a part of it.
    # Between the looks at the file and at its backup Hudi may end that: the file is whole then, and the backup is gone.
    for path in (PROPERTIES_PATH, PROPERTIES_BACKUP_PATH, PROPERTIES_PATH):
        try:
            data = storage.read(path)
        except ObjectNotFoundError:
            continue
        lost = _lost(data, path)
        if lost is None:
            return data, path
        if data.strip(b"\0 \r\n") and cut is None:
            cut = path, lost, data
    there = lost_table(storage)
    if there is not None:
        if cut is not None and _has_all_but_checksum(cut[2]):
            return cut[2], cut[0]
        if cut is not None:
            raise TableCorruptError(f"{cut[0]} {cut[1]}, and {there.found}", culprit=cut[0], hint=there.hint)
        raise TableNotFoundError(
            f"no Hudi table can be opened at {storage.uri}: {PROPERTIES_PATH} is missing or empty, and {there.found}",
            culprit=storage.uri,
            hint=there.hint,
        )
    if cut is not None and not is_torn(cut[2]):
        raise TableCorruptError(f"{cut[0]} {cut[1]}", culprit=cut[0], hint="restore it from a copy")
    raise TableNotFoundError(
        f"no Hudi table at {storage.uri}: {PROPERTIES_PATH} is missing or empty",
        culprit=storage.uri,
        hint="check the path, or make a table with `lakeindex create`",
    )


def _has_all_but_checksum(data: bytes) -> bool:
    """Whether a file of a table that lakeindex made is whole but for its end: the binding comes last before it."""
    if not data.startswith(f"#{CREATED_COMMENT}".encode()):
        return False
    try:
        return bool(json.loads(parse_properties(data).get(_BINDING, "")))
    except (ValueError, TableCorruptError):
        return False


@lru_cache(maxsize=16)
def _lost(data: bytes, path: str) -> str | None:
    """What shows that the end of the file is lost; None if nothing does.

    Hudi and lakeindex say in a comment that they wrote it, end every line, and have each of these properties somewhere
    in it: Hudi in the order of a hash map, lakeindex the checksum last. A file of somebody else may lack some.
    """
    if data.strip(b"\0 \r\n") and not data.startswith(_WRITERS):
        return "is cut off" if is_torn(data) else None
    if not data.endswith(b"\n"):
        return "is cut off: its last line has no end"
    read = _Reader(parse_properties(data, path), path)
    needed = [keys.TABLE_NAME, keys.TABLE_TYPE, keys.TABLE_VERSION, keys.CHECKSUM]
    if read.text(keys.HIVE_STYLE) is not None:
        needed.append(keys.POPULATE_META_FIELDS)
    missing = next((spellings[0] for spellings in needed if read.text(spellings) is None), None)
    return None if missing is None else f"is cut off: it has no {missing}"


class LostTable(Frozen):
    """What is there, in words, and what to do.

    Attributes:
        layout: of the timeline.
        name: of the table; empty if nothing says it.
        beside: properties of the metadata table; empty if there is none.
    """

    found: str
    hint: str
    layout: int
    name: str
    beside: Mapping[str, str]

    @property
    def timeline_layout(self) -> TimelineLayout:
        """Where the timeline is, if nobody has moved it."""
        return _layout_at(self.layout)


def _layout_at(layout: int) -> TimelineLayout:
    folder = HOODIE_FOLDER if layout == LAYOUT_1 else _TIMELINE
    return TimelineLayout(layout, folder, f"{folder}/{'archived' if layout == LAYOUT_1 else 'history'}")


def lost_table(storage: Storage) -> LostTable | None:
    """What is there of a table without its properties; None if nothing has happened to it yet."""
    layout, names = LAYOUT_1, _instants(storage, HOODIE_FOLDER)
    if newer := _instants(storage, _TIMELINE):
        layout, names = LAYOUT_2, newer
    if not names:
        return None
    beside = _properties(storage, METADATA_PROPERTIES)
    name = (beside.get(keys.TABLE_NAME[0]) or "").removesuffix(_METADATA) or _name_in_commit(storage, layout)
    metadata = " and a metadata table" if beside else ""
    version = beside.get(keys.TABLE_VERSION[0]) or ("6" if layout == LAYOUT_1 else "8, 9 or 10")
    lines = [f"{keys.TABLE_NAME[0]}={name}"] if name else []
    lines += [f"{keys.TABLE_TYPE[0]}={keys.COPY_ON_WRITE}", f"{keys.TABLE_VERSION[0]}={version}"]
    lines += [f"{keys.LAYOUT_VERSION[0]}={layout}"]
    lines += [f"{keys.CHECKSUM[0]}={table_checksum('', name)} (of a table without a database)"] if name else []
    hint = (
        "the table is there: do not make another one in its place. `lakeindex repair properties TABLE` makes the file "
        f"again; or restore {keys.PROPERTIES_PATH} from a copy of the table, or write it as the table was made: "
        f"{', '.join(lines)}, and its fields of the record key, the partition path and the ordering, its key generator"
        + (f" and {keys.METADATA_PARTITIONS[0]}" if beside else "")
        + ", each on a line that ends; then run `lakeindex check`"
    )
    found = f"{len(names)} instants{metadata} are there, the newest is {max(names)}"
    return LostTable(found, hint, layout, name, beside)


def standing_properties(storage: Storage) -> tuple[str, bytes] | None:
    """Path and content of what readers take for the properties, or would once they are lost; None if they are lost."""
    try:
        data, path = _read_properties(storage)
    except (TableNotFoundError, TableCorruptError):
        return None
    return path, data


def _instants(storage: Storage, folder: str) -> set[str]:
    return {name[:17] for name in list_names(storage, folder) if name[:14].isdigit()}


def _properties(storage: Storage, path: str) -> dict[str, str]:
    try:
        return parse_properties(storage.read(path), path)
    except (ObjectNotFoundError, LakeIndexError):
        return {}


def _name_in_commit(storage: Storage, layout: int) -> str:
    """The table's name, by the schema of its newest commit; empty if no commit says it."""
    try:
        timeline = Timeline.load(storage, _layout_at(layout))
        last = timeline.completed_writes[-1:]
        text = timeline.commit_metadata(storage, last[0]).schema_text if last else None
        return str(json.loads(text or "{}").get("name", "")).removesuffix(_RECORD)
    except (LakeIndexError, ValueError, AttributeError):
        return ""


def is_torn(data: bytes) -> bool:
    """Whether the properties are empty, or what a power loss left of those of a table that was just being created."""
    if not data.strip(b"\0 \r\n"):
        return True
    comment = f"#{CREATED_COMMENT}".encode()
    if comment.startswith(data):
        return True
    return data.startswith(comment) and (not data.endswith(b"\n") or keys.CHECKSUM[0].encode() not in data)


def parse_table_properties(entries: Mapping[str, str], source: str = PROPERTIES_PATH) -> TableProperties:
    """Type the entries of ``hoodie.properties``.

    Raises:
        TableCorruptError: the name is missing, a number or flag is none, or the checksum is another table's.
    """
    read = _Reader(entries, source)
    name = read.text(keys.TABLE_NAME)
    if name is None:
        raise TableCorruptError(f"{source} names no table ({keys.TABLE_NAME[0]})", culprit=source)
    database = read.text(keys.DATABASE_NAME) or ""
    checksum = read.number(keys.CHECKSUM, None)
    if checksum is not None and checksum != table_checksum(database, name):
        raise TableCorruptError(
            f"{source}: {keys.CHECKSUM[0]}={checksum} does not fit the table {database}.{name}",
            culprit=source,
            hint=f"the file is damaged or edited; for this name it is {table_checksum(database, name)}",
        )
    version = read.number(keys.TABLE_VERSION, 0) or 0
    layout = read.number(keys.LAYOUT_VERSION, layout_of_version(version)) or LAYOUT_1
    key_fields, fields = read.names(keys.RECORD_KEY_FIELDS), read.names(keys.PARTITION_FIELDS)
    generator_name, generator = _stated_generator(read, layout, key_fields, fields)
    return TableProperties(
        name=name,
        database=database,
        table_type=(read.text(keys.TABLE_TYPE) or keys.COPY_ON_WRITE).upper(),
        version=version,
        layout=layout,
        key_fields=key_fields,
        partition_fields=tuple(one.partition(":")[0] for one in fields),
        partition_types=_partition_types(fields),
        ordering_fields=read.names(keys.ORDERING_FIELDS),
        key_generator=generator,
        key_generator_name=generator_name,
        hive_style=read.flag(keys.HIVE_STYLE, default=False),
        url_encode=read.flag(keys.URL_ENCODE, default=False),
        timebased=_timebased(entries),
        timeline_path=read.folder(keys.TIMELINE_PATH, "timeline"),
        archive_folder=read.folder(keys.ARCHIVE_FOLDER, "archived"),
        history_path=read.folder(keys.HISTORY_PATH, "history"),
        timezone=(read.text(keys.TIMEZONE) or "LOCAL").upper(),
        base_file_format=(read.text(keys.BASE_FILE_FORMAT) or "PARQUET").upper(),
        table_format=(read.text(keys.TABLE_FORMAT) or "native").lower(),
        multiple_base_formats=read.flag(keys.MULTIPLE_BASE_FORMATS, default=False),
        populate_meta_fields=_populates(read),
        meta_fields_mode=read.text(keys.META_FIELDS_MODE),
        drop_partition_columns=read.flag(keys.DROP_PARTITION_COLUMNS, default=False),
        bootstrap_base_path=read.text(keys.BOOTSTRAP_BASE_PATH),
        delete_field=read.text(keys.DELETE_FIELD),
        delete_marker=read.text(keys.DELETE_MARKER),
        metadata_partitions=read.names(keys.METADATA_PARTITIONS),
        metadata_partitions_inflight=read.names(keys.METADATA_PARTITIONS_INFLIGHT),
        merge_mode_text=read.text(keys.MERGE_MODE),
        payload_class=(read.text(keys.PAYLOAD_CLASS) or "").replace(keys.OLD_PACKAGE, keys.PACKAGE) or None,
        merge_strategy=read.text(keys.MERGE_STRATEGY),
        create_schema=read.text(keys.CREATE_SCHEMA),
        entries=dict(entries),
    )


class _Reader:
    """Properties by any of their spellings; an empty text counts as absent, as it does in Hudi."""

    def __init__(self, entries: Mapping[str, str], source: str) -> None:
        self._entries = entries
        self._source = source

    def text(self, spellings: tuple[str, ...]) -> str | None:
        for key in spellings:
            value = self._entries.get(key, "").strip()
            if value:
                return value
        return None

    def names(self, spellings: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for part in (self.text(spellings) or "").split(",") if (name := part.strip()))

    def number(self, spellings: tuple[str, ...], default: int | None) -> int | None:
        text = self.text(spellings)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise self._invalid(spellings, text, "a whole number") from None

    def flag(self, spellings: tuple[str, ...], *, default: bool) -> bool:
        text = self.text(spellings)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise self._invalid(spellings, text, "true or false")
        return text.lower() == "true"

    def folder(self, spellings: tuple[str, ...], default: str) -> str:
        text = self.text(spellings) or default
        if text.startswith("/") or any(level in ("", ".", "..") for level in text.split("/")):
            raise self._invalid(spellings, text, "a relative folder")
        return text

    def _invalid(self, spellings: tuple[str, ...], text: str, expected: str) -> TableCorruptError:
        return TableCorruptError(
            f"{self._source}: {spellings[0]} cannot be {text!r}", culprit=self._source, hint=f"it must be {expected}"
        )


def _populates(read: _Reader) -> bool:
    """Whether rows store their meta columns. Where a mode is stated it counts, whatever the flag of before it says."""
    flag, mode = read.flag(keys.POPULATE_META_FIELDS, default=True), read.text(keys.META_FIELDS_MODE)
    return flag if mode is None else mode.upper() == ALL_META_FIELDS


def _stated_generator(
    read: _Reader, layout: int, key_fields: tuple[str, ...], partitions: tuple[str, ...]
) -> tuple[str, KeyGeneratorType | None]:
    """The generator and what it is called; none where type and class differ, and releases read one each."""
    names = [name for one in (keys.KEY_GENERATOR_TYPE, keys.KEY_GENERATOR_CLASS) if (name := read.text(one))] or [""]
    if layout != LAYOUT_1:
        del names[1:]
    found = {_key_generator(name, key_fields, partitions) for name in names}
    return " and ".join(names) if len(found) > 1 else names[0], found.pop() if len(found) == 1 else None


def _key_generator(name: str, key_fields: tuple[str, ...], partitions: tuple[str, ...]) -> KeyGeneratorType | None:
    """The generator by type or class name; where none is named, the one Hudi infers; ``None`` for any other."""
    if not name:
        if not partitions:
            return KeyGeneratorType.NON_PARTITION
        return KeyGeneratorType.SIMPLE if (len(key_fields), len(partitions)) == (1, 1) else KeyGeneratorType.COMPLEX
    by_type = {kind.value: kind for kind in KeyGeneratorType}
    upper = name.upper().removesuffix("_AVRO")
    if upper in by_type:
        return by_type[upper]
    return KEY_GENERATOR_CLASSES.get(name.replace("AvroKeyGenerator", "KeyGenerator"))


def _partition_types(fields: tuple[str, ...]) -> tuple[str, ...] | None:
    types = tuple(field.partition(":")[2].upper() for field in fields)
    return types if types and all(types) else None


def _timebased(entries: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for prefix in (keys.OLD_TIMEBASED_PREFIX, TIMEBASED_PREFIX):
        for key, value in entries.items():
            if key.startswith(prefix):
                found[key.removeprefix(prefix)] = value
    return found


def metadata_table_of(storage: Storage, properties: TableProperties) -> MetadataTable | None:
    """The metadata table that readers of a table use; None if they use none."""
    version, layout = properties.version, properties.timeline_layout.version
    return MetadataTable.of(storage, version, layout, properties.metadata_partitions)
