"""Make a table from Python: an empty one, or one of files that are there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

from lakeindex.api.arguments import ImportArguments, names_of_arguments
from lakeindex.api.batch_data import BatchData, schema_of, uri_text
from lakeindex.errors import OptionError, UsageError, door
from lakeindex.options.option import INDEX_OPTION, NULL_FOR_MISSING_OPTION, TABLE_VERSION_OPTION
from lakeindex.options.parse import Options, is_same_value, option_texts, parse_create_options, parse_options
from lakeindex.storage.options import StoreOptions, using
from lakeindex.time_spent import accounting

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeindex.api.table import LakeTable
    from lakeindex.operations.importing.import_table import ImportBatch, ImportSummary
    from lakeindex.options.types import CreateConfig, CsvFormat
    from lakeindex.run.summary import RunSummary


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


@door
@names_of_arguments(ImportArguments)
@accounting()
def import_table(  # noqa: PLR0913 - public: callers name what they want
    source: str | os.PathLike[str],
    uri: str | os.PathLike[str],
    *,
    key: str | Sequence[str],
    partition: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    index: str | None = None,
    table_version: int | None = None,
    properties: Options | None = None,
    metadata: bool | None = None,
    **arguments: Unpack[ImportArguments],
) -> ImportSummary:
    """Make a table of Parquet, CSV or JSON files, or of a Delta or Iceberg table; the source is only read.

    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> pq.write_table(pa.table({"id": ["a", "b"], "ts": [1, 2]}), "old.parquet")
    >>> import_table("old.parquet", "lake/old", key="id", ordering="ts").inserted
    2

    All keys are looked at first: without a key, or with a key twice, nothing is made. What is large is loaded in
    several commits; the same call goes on after one that ended early, and loads no row twice. Until it is complete,
    ``inspect`` and ``check`` say so.

    Args:
        source: a folder of files, Hive-style partitioned or not, a file, a Delta table's folder, an Iceberg table's
            folder or metadata file, or ``iceberg:CATALOG/NAMESPACE.TABLE``.
        uri: of the new table, as of :func:`create_table`; so are the arguments that are not described here.
        key: column, or columns, of the record key.
        partition: as of :func:`create_table`; by default the columns that divide the source, and ``()`` for none.
        ordering: as of :func:`create_table`; also says which of several rows of a key ``combine`` keeps.
        index: index type.
        table_version: version of the new table.
        properties: other options of it.
        metadata: whether it gets Hudi's metadata table.
        **arguments: as of :class:`lakeindex.api.arguments.ImportArguments`.

    Raises:
        InputError: nothing is there, rows without a key, a key twice, or a file that changed meanwhile.
        SchemaMismatchError: columns that a Hudi table cannot hold.
        TableExistsError: there is a table that is not of this import.
    """
    pairs, asked = _options(properties, index, table_version), {**arguments}
    named: Any = {
        "keys": _names(key, "key"),
        "partitions": None if partition is None else _names(partition, "partition"),
    }
    named |= {"ordering": _names(ordering or (), "ordering"), "named": frozenset(pairs), "metadata": metadata}
    with using(StoreOptions.of(arguments.get("storage_options"))):
        return _import(uri_text(source, "a source"), uri_text(uri), parse_create_options(pairs), named, asked)


def _import(source: str, uri: str, config: CreateConfig, named: Any, arguments: Any) -> ImportSummary:
    from lakeindex.api.run import chosen_runner
    from lakeindex.operations.importing.import_table import MAX_BYTES, ImportRequest, import_source

    loads = option_texts(arguments.get("options") or {}) | {NULL_FOR_MISSING_OPTION: "true"}
    write, like, most = parse_options(loads), arguments.get("like"), arguments.get("max_bytes")
    runner = chosen_runner(write.parallelism, {"progress": arguments.get("progress")})
    asked = ImportRequest(
        source=source,
        config=config,
        like=None if like is None else _like(like, config.csv),
        combine=bool(arguments.get("combine")),
        max_bytes=MAX_BYTES if most is None else most,
        write=write,
        dry_run=bool(arguments.get("dry_run")),
        **named,
    )
    of_run = {"options": loads, "runner": runner, "checkpoints": arguments.get("checkpoints")}
    return import_source(uri, asked, runner, partial(_load, uri, of_run))


def _load(uri: str, arguments: Any, batch: ImportBatch) -> RunSummary:
    """Write what a commit of an import has. The batch id names the run, too: nobody asks for a digest of its rows."""
    from lakeindex.api.run import Request

    named: Any = {**arguments, "batch_id": batch.batch_id, "run_id": batch.batch_id}
    request = Request.of(uri, batch.operation, named, constants=batch.constants)
    return request.done_with(list(batch.inputs) if batch.rows is None else batch.rows)


def _like(like: Any, csv: CsvFormat) -> pa.Schema:
    """Columns as a new table would have them."""
    import pyarrow as pa

    from lakeindex.operations.create_table import stored_columns

    is_schema = isinstance(like, pa.Schema) or (hasattr(like, "__arrow_c_schema__") and not hasattr(like, "schema"))
    return stored_columns(_columns(like, None, csv) if is_schema else _columns(None, like, csv))


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
        if value is not None and not is_same_value(option, pairs.setdefault(option, str(value)), str(value)):
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
