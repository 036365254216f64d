"""Make a table from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lakeindex.api.batch_data import BatchData, schema_of, uri_text
from lakeindex.errors import OptionError, UsageError, door
from lakeindex.options.option import INDEX_OPTION, TABLE_VERSION_OPTION
from lakeindex.options.parse import Options, option_texts, parse_create_options
from lakeindex.storage.options import StoreOptions, using

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeindex.api.table import LakeTable
    from lakeindex.options.types import CsvFormat


@door
def create_table(  # noqa: PLR0913 - public: callers name what they want
    uri: str | os.PathLike[str],
    schema: pa.Schema | str | None = None,
    like: BatchData = None,
    *,
    key: str | Sequence[str],
    partition: str | Sequence[str] = (),
    ordering: str | Sequence[str] | None = None,
    index: str | None = None,
    table_version: int | None = None,
    properties: Options | None = None,
    metadata: bool | None = None,
    exists: Literal["error", "ok"] = "error",
    storage_options: Mapping[str, str] | None = None,
) -> LakeTable:
    """Make an empty table.

    >>> import pyarrow as pa
    >>> columns = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64())])
    >>> create_table("lake/visits", columns, key="id", partition="day", ordering="ts")
    LakeTable('lake/visits')

    Index type, merge mode and key encoding are bound: later options cannot change them.

    Args:
        uri: a path, or a URL such as ``s3://bucket/table``; the last element of its path is the table's name.
        schema: the table's columns: a pyarrow schema, what has ``__arrow_c_schema__``, or text, DDL
            (``id STRING NOT NULL``) or a printed schema. Meta columns and ``_hoodie_is_deleted`` are left out.
        like: or what has these columns: a Parquet, CSV, JSON or DDL file, or any batch in memory; no row is written.
        key: column, or columns, of the record key.
        partition: column, or columns, of the partition path; ``"day:month"``: a date or timestamp by ``year``,
            ``month``, ``day`` or ``hour``; ``field:SIMPLE`` or ``field:TIMESTAMP`` with the custom key generator.
        ordering: column that says which version of a row is newer, or, of a table of version 9, a list of columns: the
            first one in which two rows differ decides.
        index: index type, ``hoodie.index.type``; BLOOM if it is not given.
        table_version: 6, 8, 9 (or 10, for who asks for it), ``hoodie.write.table.version``; 6 if it is not given.
        properties: other options of a new table, as ``lakeindex options --create`` lists them.
        metadata: whether it gets Hudi's metadata table; by default from version 8 on, as Hudi 1.x does.
        exists: ``"ok"`` opens the table that is there if it is the one that would be made: key, partition, ordering,
            key generator and columns agree, and so do index, merge mode and version if they are given.
        storage_options: as of :func:`lakeindex.open_table`.

    Raises:
        UsageError: neither or both of ``schema`` and ``like``.
        InputError: a file that is not there, or a column that a Hudi table cannot hold.
        OptionError: a column that is not there, or choices that do not fit together.
        TableExistsError: there is a table, or what is left of one; with ``exists="ok"`` another one, and every
            difference is named.
    """
    from lakeindex.api.table import LakeTable
    from lakeindex.operations.create_table import create_or_find

    pairs, options = _options(properties, index, table_version), StoreOptions.of(storage_options)
    table, accepted = LakeTable(uri_text(uri), options), _exists(exists)
    fields: Any = {"keys": _names(key, "key"), "partitions": _names(partition, "partition")}
    fields |= {"ordering": _names(ordering or (), "ordering")}
    made: Any = {**fields, "config": parse_create_options(pairs), "metadata": metadata}
    with using(options):
        create_or_find(table.uri, _columns(schema, like, made["config"].csv), accepted, pairs.keys(), **made)
    return table


def _exists(text: Any) -> Any:
    from lakeindex.operations.create_table import Exists

    try:
        return Exists(text)
    except ValueError:
        raise OptionError(f"exists cannot be {text!r}", culprit="exists", hint=f"valid: {' | '.join(Exists)}") from None


def _options(properties: Options | None, index: str | None, table_version: int | None) -> dict[str, str]:
    """All options of the new table, those that arguments are short for as well."""
    pairs = option_texts(properties or {})
    for name, option, value in (("index", INDEX_OPTION, index), ("table_version", TABLE_VERSION_OPTION, table_version)):
        if value is not None and pairs.setdefault(option, str(value)) != str(value):
            raise OptionError(
                f"{name} is {value!r}, and properties say {option}={pairs[option]}", culprit=option, hint="give one"
            )
    return pairs


def _names(given: Any, argument: str) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise UsageError(
            f"{argument} cannot be {given!r}", culprit=argument, hint="give the name of a column, or a list of names"
        )
    return tuple(names)


def _columns(schema: Any, like: BatchData, csv: CsvFormat) -> pa.Schema:
    import pyarrow as pa

    if (schema is None) == (like is None):
        raise UsageError(
            "a table needs its columns once: as schema, or as like",
            culprit="schema",
            hint="schema=pyarrow.schema([('id', pyarrow.string())]), or like='file.parquet'",
        )
    if like is None:
        if isinstance(schema, pa.Schema):
            return schema
        if hasattr(schema, "__arrow_c_schema__"):
            return pa.schema(schema)
        if isinstance(schema, str):
            from lakeindex.operations.schema_text import schema_from_text

            return schema_from_text(schema)
        raise UsageError(
            f"schema cannot be a {type(schema).__name__}",
            culprit="schema",
            hint="give a pyarrow.Schema, or columns as text, 'id STRING, at TIMESTAMP'; like= takes files and frames",
        )
    if isinstance(like, (str, os.PathLike)):
        from lakeindex.operations.create_table import columns_like

        return columns_like(os.fspath(like), csv)
    return schema_of(like)
