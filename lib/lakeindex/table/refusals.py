"""Which tables are not read, which not written to, and why: versions, features, virtual keys, metadata tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from lakeindex.errors import MetadataTableError, OptionError, TableUnsupportedError
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, GROUP_PREFIXES, RECORD_INDEX
from lakeindex.model import IndexType, KeyGeneratorType
from lakeindex.options.option import INDEX_OPTION, UNKNOWN_PROPERTIES_OPTION, VERSION10_OPTION
from lakeindex.options.types import MetadataTablePolicy, UnknownProperties, Version10, WriteConfig
from lakeindex.table import property_keys as keys
from lakeindex.table.properties import TableProperties
from lakeindex.table.property_keys import unknown_properties, unwritable_properties
from lakeindex.timeline.layout import (
    SEVERAL_ORDERING_FIELDS,
    VERSION_9,
    VERSION_10,
    VERSIONS,
    layout_of_version,
    listed_versions,
)

_META_FIELDS: Final = keys.POPULATE_META_FIELDS[0]
_GENERATORS: Final = (KeyGeneratorType.SIMPLE, KeyGeneratorType.COMPLEX, KeyGeneratorType.NON_PARTITION)
_OF_STORED_KEYS: Final = (BLOOM_FILTERS, RECORD_INDEX)


def index_problem(index_type: IndexType) -> tuple[str, str] | None:
    """Why an index cannot find virtual keys, and what to do; None if it can."""
    if not index_type.has_filters:
        return None
    return (
        f"{index_type} asks bloom filters in the footers, and files without stored keys have none",
        f"these find keys that are made from columns: {', '.join(one for one in IndexType if not one.has_filters)}",
    )


def generator_problem(generator: KeyGeneratorType | None, key_fields: int) -> tuple[str, str] | None:
    """Why a key generator cannot make virtual keys that every writer agrees on, and what to do; None if it can."""
    if generator is not None and generator not in _GENERATORS:
        return (
            f"the key generator {generator} makes no virtual keys",
            f"Hudi knows {', '.join(_GENERATORS)} for them",
        )
    if generator is KeyGeneratorType.COMPLEX and key_fields == 1:
        return (
            "the complex key generator with one key field makes virtual keys that releases of Hudi spell differently",
            "Hudi 1.2 stores updated rows of such a table twice: use another field in the key, or one partition field",
        )
    return None


def check_virtual_index(properties: TableProperties, index_type: IndexType) -> None:
    """Refuse an index that finds no key on this table. Raises: OptionError."""
    problem = None if properties.populate_meta_fields else index_problem(index_type)
    if problem is not None:
        raise OptionError(
            f"option {INDEX_OPTION} cannot be {index_type} on table {properties.name} with {_META_FIELDS}=false: "
            f"{problem[0]}",
            culprit=INDEX_OPTION,
            hint=problem[1],
        )


def check_stores_keys(properties: TableProperties, what: str) -> None:
    """Refuse what is not done on tables with virtual keys. Raises: TableUnsupportedError."""
    if not properties.populate_meta_fields:
        raise TableUnsupportedError(
            f"{what} is not done on table {properties.name}, whose rows do not store their keys ({_META_FIELDS}=false)",
            culprit=_META_FIELDS,
            hint="copy its rows into a new table: with meta columns, or with the choice made at its creation",
        )


def check_virtual_metadata(properties: TableProperties, partitions: Collection[str]) -> None:
    """Refuse partitions of a metadata table that are about stored keys. Raises: MetadataTableError."""
    found = [] if properties.populate_meta_fields else [name for name in _OF_STORED_KEYS if name in partitions]
    if found:
        raise MetadataTableError(
            f"the metadata table of {properties.name} cannot have {found[0]}: the table's files say nothing of "
            f"their keys ({_META_FIELDS}=false)",
            culprit=found[0],
            hint=f"`lakeindex metadata drop TABLE --partition {found[0]}` takes it away; what Hudi writes there "
            "finds no key",
        )


def check_readable(properties: TableProperties) -> None:
    """Refuse tables whose rows we would read wrongly. Raises: TableUnsupportedError."""
    _refuse_first(properties, _read_refusals(properties))


def check_writable(properties: TableProperties, config: WriteConfig | None = None) -> None:
    """Refuse tables that we must not write to, the metadata table apart. Raises: TableUnsupportedError."""
    check_readable(properties)
    asked = config or WriteConfig()
    accept = asked.unknown_properties is UnknownProperties.ACCEPT
    if properties.version == VERSION_10.number and asked.version10 is Version10.REFUSE:
        raise unwritten_version(f"table {properties.name}")
    _refuse_first(properties, _write_refusals(properties, accept_unknown=accept))


def unwritten_version(what: str) -> TableUnsupportedError:
    """The error for a write to a table of version 10 that does not ask for it."""
    number = VERSION_10.number
    return TableUnsupportedError(
        f"{what} has version {number}, which is read, with its metadata table, and not written to yet: no release of "
        f"Hudi has written one that it could be tried with (1.2 still writes {VERSION_9.number})",
        culprit=keys.TABLE_VERSION[0],
        hint=f"-o {VERSION10_OPTION}={Version10.WRITE} writes to it all the same, as Hudi's main branch does; "
        f"Hudi's command line brings a table back to version {VERSION_9.number}",
    )


Refusal = tuple[str, str, str]
"""What is the case, the property to blame, and what to do."""


def _refuse_first(properties: TableProperties, refusals: Iterator[Refusal]) -> None:
    for message, culprit, hint in refusals:
        raise TableUnsupportedError(f"table {properties.name} {message}", culprit=culprit, hint=hint)


def _read_refusals(table: TableProperties) -> Iterator[Refusal]:
    if table.table_type != keys.COPY_ON_WRITE:
        yield f"is {table.table_type}", keys.TABLE_TYPE[0], "only COPY_ON_WRITE tables are read and written"
    if table.version not in VERSIONS:
        known = f"{listed_versions()}; Hudi's command line upgrades and downgrades tables"
        yield f"has version {table.version}", keys.TABLE_VERSION[0], known
    if table.layout != layout_of_version(table.version):
        yield (
            f"has version {table.version} with timeline layout {table.layout}",
            keys.LAYOUT_VERSION[0],
            "finish the upgrade or downgrade with Hudi's command line",
        )
    if table.table_format != "native":
        yield (
            f"has the table format {table.table_format}",
            keys.TABLE_FORMAT[0],
            "only Hudi's own format (native) is read and written",
        )
    if table.multiple_base_formats:
        yield (
            "may have base files of several formats (hoodie.table.multiple.base.file.formats.enable=true)",
            keys.MULTIPLE_BASE_FORMATS[0],
            "only PARQUET is read and written: use Hudi, or copy its rows into a new table",
        )
    if table.base_file_format != "PARQUET":
        yield f"has {table.base_file_format} base files", keys.BASE_FILE_FORMAT[0], "only PARQUET is read and written"
    if table.drop_partition_columns:
        yield (
            "drops its partition columns (hoodie.datasource.write.drop.partition.columns=true)",
            keys.DROP_PARTITION_COLUMNS[0],
            "nothing says the types of what its folders are called: use Hudi, or copy its rows into a new table",
        )
    if table.bootstrap_base_path is not None:
        yield (
            f"is bootstrapped from {table.bootstrap_base_path}",
            keys.BOOTSTRAP_BASE_PATH[0],
            "its rows are spread over two files each: `lakeindex import` the source, or bootstrap in full",
        )


def _write_refusals(table: TableProperties, *, accept_unknown: bool) -> Iterator[Refusal]:
    for key, value, why in unwritable_properties(table.entries, table.version):
        yield f"has {key}={value}: {why}", key, "write to it with Hudi"
    if (table.delete_field is None) is not (table.delete_marker is None):
        both = (keys.DELETE_FIELD[0], keys.DELETE_MARKER[0])
        there, lacking = both if table.delete_marker is None else both[::-1]
        yield f"has {there} without {lacking}", there, "Hudi refuses such a table, too: set both, or none"
    stated, mode = table.entries.get(keys.POPULATE_META_FIELDS[0], "").strip().lower(), table.meta_fields_mode
    if mode is not None and stated not in ("", str(table.populate_meta_fields).lower()):
        key = keys.META_FIELDS_MODE[0]
        yield (
            f"has {key}={mode} and {keys.POPULATE_META_FIELDS[0]}={stated}, of which releases of Hudi follow one each",
            key,
            "make them agree",
        )
    yield from _key_refusals(table)
    if not accept_unknown:
        for key, value in unknown_properties(table.entries):
            what = "which this release does not know: it may decide keys, partitions, deletes or merging"
            accept = f"-o {UNKNOWN_PROPERTIES_OPTION}={UnknownProperties.ACCEPT}"
            hint = f"if it is no matter to a writer, {accept} goes on; else write to the table with what knows it"
            yield f"has the property {key}={value}, {what}", key, hint


def _key_refusals(table: TableProperties) -> Iterator[Refusal]:
    generator = table.key_generator
    virtual = None if table.populate_meta_fields else generator_problem(generator, len(table.key_fields))
    if virtual is not None:
        name = keys.POPULATE_META_FIELDS[0]
        yield f"has virtual keys ({name}=false), and {virtual[0]}", name, f"{virtual[1]}; write to it with Hudi"
    if not table.key_fields:
        yield (
            "has no record key fields",
            keys.RECORD_KEY_FIELDS[0],
            "rows without a key of their own cannot be upserted",
        )
    if generator is None:
        known = ", ".join(kind.value for kind in KeyGeneratorType)
        yield f"has the key generator {table.key_generator_name}", keys.KEY_GENERATOR_CLASS[0], f"known ones: {known}"
    if len(table.ordering_fields) > 1 and table.version < SEVERAL_ORDERING_FIELDS:
        yield (
            f"has {len(table.ordering_fields)} ordering fields ({', '.join(table.ordering_fields)})",
            keys.ORDERING_FIELDS[0],
            "tables of version 9 may have several; Hudi before 1.1, which reads the others, knows one",
        )


_PARTITIONS_KEY: Final = keys.METADATA_PARTITIONS[0]
_MEANINGS: Final[dict[str, str]] = {
    "files": "file listing",
    "column_stats": "data skipping by column statistics",
    "partition_stats": "partition pruning by statistics",
    "bloom_filters": "bloom filters in the metadata table",
    "record_index": "the record index",
}


def check_kept(properties: TableProperties, policy: MetadataTablePolicy) -> None:
    """Refuse a table whose metadata table is not kept up. Raises: MetadataTableError."""
    partitions = properties.metadata_partitions
    unknown = tuple(name for name in partitions if name not in GROUP_PREFIXES)
    if properties.metadata_partitions_inflight:
        named = described(properties.metadata_partitions_inflight)
        raise MetadataTableError(
            f"table {properties.name} has a metadata table of which another writer is building {named}",
            culprit=keys.METADATA_PARTITIONS_INFLIGHT[0],
            hint="let it finish, or take it away with `lakeindex metadata drop TABLE "
            f"{' '.join(f'--partition {name}' for name in properties.metadata_partitions_inflight)}`",
        )
    if partitions and policy is MetadataTablePolicy.REFUSE:
        raise MetadataTableError(
            f"table {properties.name} has a metadata table ({described(partitions)}), "
            "and lakeindex.metadata.table=refuse",
            culprit=_PARTITIONS_KEY,
            hint="with lakeindex.metadata.table=keep it is kept up; `lakeindex metadata drop TABLE` takes it away",
        )
    if unknown:
        named = " ".join(f"--partition {name}" for name in unknown)
        raise MetadataTableError(
            f"table {properties.name} has a metadata table, parts of which our commits would leave stale: "
            f"{described(unknown)}",
            culprit=_PARTITIONS_KEY,
            hint=f"`lakeindex metadata drop TABLE {named}` takes them away (readers then do without; a Hudi writer "
            "whose options ask for them builds them anew), or write to the table with Hudi",
        )


def described(partitions: Collection[str]) -> str:
    """Partitions of a metadata table, and what readers use them for."""
    return ", ".join(f"{name} ({_MEANINGS.get(name, 'an index')})" for name in partitions)
