"""Which columns have statistics in the metadata table, and in which encoding: ``.hoodie/.index_defs/index.json``.

Hudi 1.x keeps the list there; Hudi 0.15 has no such file and takes all columns, those of structs, lists and maps
excepted, as no column of a Parquet file has their name. A new table of Hudi 1.2 has three of the meta columns and the
first 32 others of a type that is supported, again without structs, lists and maps; their leaves have statistics where
the table's writer asked for it by name (``st.x``, ``list.list.element``, ``map.key_value.key``).

Source: ``HoodieTableMetadataUtil.getColumnsToIndex``, ``isColumnTypeSupported``, ``HoodieIndexDefinition``,
``HoodieIndexVersion`` of Hudi 1.2, ``getColumnsToIndex`` of Hudi 0.15; compared with files of both.

``definitions`` is the text of the file, None if the table has none; what is damaged is a TableCorruptError.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from lakeindex.errors import METADATA_ANEW, ObjectNotFoundError, TableCorruptError
from lakeindex.metadata.metadata_table import COLUMN_STATS, PARTITION_STATS, RECORD_INDEX
from lakeindex.storage.port import Storage

DEFINITIONS_PATH: Final = ".hoodie/.index_defs/index.json"

_META_INDEXED: Final = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
_META: Final = (*_META_INDEXED, "_hoodie_commit_seqno", "_hoodie_file_name", "_hoodie_operation")
_IS_PARTITIONED: Final = "isPartitioned"
_MOST: Final = 32
_V2_VERSION: Final = 9
_OLD_VERSION: Final = 6
_WRAPPER_PRECISION: Final = 30
_WRAPPER_SCALE: Final = 15


class StatsEncoding(StrEnum):
    """How the ends of a range are written; Hudi's names of the versions of an index."""

    V1 = "V1"
    """The wrapper says the type: dates and decimals have their own."""

    V2 = "V2"
    """Only wrappers of primitive types; ``valueType`` says the type."""


def read_definitions(storage: Storage) -> str | None:
    """Text of ``index.json``; None if the table has none."""
    try:
        return storage.read(DEFINITIONS_PATH).decode()
    except ObjectNotFoundError:
        return None
    except UnicodeDecodeError:
        return "damaged"


def is_partitioned_index(definitions: str | None) -> bool:
    """Whether the record index has a record for a key in each partition of the table: Hudi 1.1 and later."""
    options = _definitions(definitions).get(RECORD_INDEX, {}).get("indexOptions")
    return isinstance(options, dict) and options.get(_IS_PARTITIONED) == "true"


def stats_encoding(definitions: str | None, table_version: int) -> StatsEncoding:
    """The encoding of a table's statistics."""
    found = None
    known = _definitions(definitions)
    for name in (COLUMN_STATS, PARTITION_STATS):
        found = found or known.get(name, {}).get("version")
    if found is None:
        return StatsEncoding.V2 if table_version >= _V2_VERSION else StatsEncoding.V1
    try:
        return StatsEncoding(found)
    except ValueError:
        raise _damaged(f"statistics of version {found!r} are not known") from None


def indexed_columns(definitions: str | None, table_version: int, schema: pa.Schema) -> tuple[str, ...]:
    """Columns that have statistics, in Hudi's order and by Hudi's names.

    Args:
        schema: of its base files, meta columns included.
    """
    known = _definitions(definitions).get(COLUMN_STATS)
    if known is None:
        if table_version <= _OLD_VERSION:
            return tuple(schema.names)
        return columns_to_index(schema, stats_encoding(definitions, table_version))
    fields = known.get("sourceFields")
    if not isinstance(fields, list) or not all(isinstance(one, str) for one in fields):
        raise _damaged("the columns with statistics are not a list of names")
    return tuple(fields)


def columns_to_index(schema: pa.Schema, encoding: StatsEncoding) -> tuple[str, ...]:
    """Columns that a new table of Hudi 1.2 has statistics of.

    Args:
        schema: of its base files, with or without meta columns.
    """
    others = [one.name for one in schema if one.name not in _META and _is_supported(one.type, encoding)]
    return (*_META_INDEXED, *others[:_MOST])


def with_definition(
    text: str | None, name: str, columns: Sequence[str], table_version: int, *, partitioned: bool = False
) -> str:
    """Text of ``index.json`` with an index more, as Hudi 1.2 writes it.

    Args:
        name: ``column_stats`` or ``record_index``.
        columns: with statistics; none of a record index.
        partitioned: the record index has a record for a key in each partition of the table.
    """
    of_keys = name == RECORD_INDEX
    definition = {
        "indexName": name,
        "indexType": name,
        "indexFunction": "" if of_keys else name,
        "sourceFields": list(columns),
        "indexOptions": {_IS_PARTITIONED: str(partitioned).lower()} if of_keys else {},
        "version": str(StatsEncoding.V1 if of_keys else stats_encoding(None, table_version)),
    }
    return _as_jackson({"indexDefinitions": {**_definitions(text), name: definition}})


def with_new_columns(text: str, before: pa.Schema, after: pa.Schema) -> str:
    """Text of ``index.json`` with statistics of the columns that a table has got, if it has those of all columns that
    Hudi takes by itself: Hudi's next commit would enter them, and readers would skip the files that have none.
    """
    known = _definitions(text)
    if COLUMN_STATS not in known:
        return text
    encoding = stats_encoding(text, _V2_VERSION)
    if set(indexed_columns(text, _V2_VERSION, before)) != set(columns_to_index(before, encoding)):
        return text  # its writer chose them
    wanted = columns_to_index(after, encoding)
    changed = {**known[COLUMN_STATS], "sourceFields": list(wanted)}
    return _as_jackson({"indexDefinitions": {**known, COLUMN_STATS: changed}})


def without_definitions(text: str, names: Collection[str]) -> str:
    """Text of ``index.json`` without some indexes. Raises: TableCorruptError: the text is damaged."""
    kept = {name: one for name, one in _definitions(text).items() if name not in names}
    return _as_jackson({"indexDefinitions": kept})


def _as_jackson(value: object, indent: str = "") -> str:
    """JSON as Hudi writes it: objects over lines, lists on one."""
    inner = indent + "  "
    if isinstance(value, dict):
        if not value:
            return "{ }"
        lines = (
            f"{inner}{json.dumps(str(key), ensure_ascii=False)} : {_as_jackson(one, inner)}"
            for key, one in value.items()
        )
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list):
        return "[ ]" if not value else f"[ {', '.join(_as_jackson(one, indent) for one in value)} ]"
    return json.dumps(value, ensure_ascii=False)


def _is_supported(kind: pa.DataType, encoding: StatsEncoding) -> bool:
    if pa.types.is_nested(kind):
        return False
    if encoding is StatsEncoding.V1 and pa.types.is_decimal(kind):
        whole_digits = kind.precision - kind.scale
        return kind.scale <= _WRAPPER_SCALE and whole_digits <= _WRAPPER_PRECISION - _WRAPPER_SCALE
    return True


def _definitions(text: str | None) -> dict[str, dict[str, Any]]:
    if text is None:
        return {}
    try:
        found = json.loads(text)["indexDefinitions"]
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(f"{type(error).__name__}: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise _damaged("it has no definitions by name")
    return found


def _damaged(why: str) -> TableCorruptError:
    return TableCorruptError(
        f"{DEFINITIONS_PATH} is damaged: {why}",
        culprit=DEFINITIONS_PATH,
        hint=f"restore the file from a copy, or {METADATA_ANEW}",
    )
