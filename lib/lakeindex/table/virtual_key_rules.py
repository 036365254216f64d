"""What can be done with a table whose rows do not store their keys (``hoodie.populate.meta.fields=false``)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lakeindex.errors import MetadataTableError, OptionError, TableUnsupportedError
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, RECORD_INDEX
from lakeindex.model import IndexType, KeyGeneratorType
from lakeindex.options.values import INDEX_OPTION
from lakeindex.table import property_keys as keys
from lakeindex.table.properties import TableProperties

_OPTION: Final = keys.POPULATE_META_FIELDS[0]
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
            f"option {INDEX_OPTION} cannot be {index_type} on table {properties.name} with {_OPTION}=false: "
            f"{problem[0]}",
            culprit=INDEX_OPTION,
            hint=problem[1],
        )


def check_stores_keys(properties: TableProperties, what: str) -> None:
    """Refuse what is not done on tables with virtual keys.

    Args:
        what: what is asked for, for the message.

    Raises:
        TableUnsupportedError: the table has virtual keys.
    """
    if not properties.populate_meta_fields:
        raise TableUnsupportedError(
            f"{what} is not done on table {properties.name}, whose rows do not store their keys ({_OPTION}=false)",
            culprit=_OPTION,
            hint="copy its rows into a new table: with meta columns, or with the choice made at its creation",
        )


def check_virtual_metadata(properties: TableProperties, partitions: Collection[str]) -> None:
    """Refuse partitions of a metadata table that are about stored keys. Raises: MetadataTableError."""
    found = [] if properties.populate_meta_fields else [name for name in _OF_STORED_KEYS if name in partitions]
    if found:
        raise MetadataTableError(
            f"the metadata table of {properties.name} cannot have {found[0]}: the table's files say nothing of "
            f"their keys ({_OPTION}=false)",
            culprit=found[0],
            hint=f"`lakeindex metadata drop TABLE --partition {found[0]}` takes it away; what Hudi writes there "
            "finds no key",
        )
