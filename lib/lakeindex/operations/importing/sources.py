"""What is imported: the files of a folder, or the live files of a Delta or Iceberg table, with the columns that they
have together and the values that only folders or a log say.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa

from lakeindex.errors import InputError, LakeIndexError, ObjectNotFoundError, SchemaMismatchError
from lakeindex.frozen import Frozen
from lakeindex.options.types import CsvFormat, InputFormat, SchemaMode
from lakeindex.run.input_rows import Constants
from lakeindex.stages.stage_input.input_pieces import read_columns
from lakeindex.stages.stage_input.inputs import InputFile
from lakeindex.storage import in_parallel
from lakeindex.tasks.stores import storage_at
from lakeindex.write.types.avro_schema import DELETE_MARK, META_COLUMNS, schema_from_avro, schema_to_avro
from lakeindex.write.types.schema_fit import evolved
from lakeindex.write.types.type_fit import plain_type, storable_type, type_problem

ICEBERG_NAME: Final = "iceberg:"
"""What a table of an Iceberg catalog is named by: ``iceberg:CATALOG/NAMESPACE.TABLE``."""
CURE: Final = "give the column's type: --like 'a BIGINT, b STRING, ...' (like=), all columns of the table"

Rows: TypeAlias = Callable[[Sequence[InputFile], Sequence[str] | None], Iterator[pa.RecordBatch]]
"""Reads files of a source, some columns of them (None: all), where they cannot be read as they lie."""


class SourceKind(StrEnum):
    """What a source is."""

    FILES = "files"
    DELTA = "delta"
    ICEBERG = "iceberg"


class Source(Frozen):
    """What is imported, as it is now.

    Attributes:
        uri: as it was named, absolute.
        version: of a Delta or Iceberg table, the version whose files these are.
        files: with the values that they do not hold themselves.
        columns: their columns together, in types that a table can have.
        partitions: columns that divide the files into partitions, the outermost first.
        casts: columns that get another type than a file has, in words.
        rows: reads the files, if they cannot be read as they lie.
        notes: what else there is to know.
    """

    kind: SourceKind
    uri: str
    version: str | None
    files: tuple[InputFile, ...]
    columns: pa.Schema
    partitions: tuple[str, ...] = ()
    casts: tuple[str, ...] = ()
    rows: Rows | None = None
    notes: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


def mark_of(file: InputFile) -> str:
    """What changes when a file's content does."""
    return f"{file.size_bytes}:{file.etag or file.modified_ms}"


def named_file(where: str, named_by: str, constants: Constants = ()) -> InputFile:
    """A file that a table names, as it is now.

    Args:
        named_by: the table, in words.

    Raises:
        InputError: it is not there.
    """
    root, name = posixpath.split(where)
    try:
        now = storage_at(root).head(name)
    except ObjectNotFoundError:
        raise InputError(f"{where!r} is in {named_by} and not there", culprit=where, hint="restore the file") from None
    return InputFile(root, name, now.size_bytes, now.etag, now.modified_ms, constants)


def joined_columns(
    files: Sequence[InputFile],
    constants: Mapping[str, pa.DataType],
    wanted: InputFormat,
    csv: CsvFormat,
    like: pa.Schema | None,
) -> tuple[pa.Schema, tuple[str, ...]]:
    """The columns that files have together: all of them, each as wide as the widest; and which are cast, in words.

    Args:
        constants: types of the columns that files need not hold.

    Raises:
        InputError: a file cannot be read.
        SchemaMismatchError: two types that no column can have, or one that a table cannot have.
    """
    known = pa.schema([]) if like is None else like
    look = partial(read_columns, schema=known, wanted=wanted, csv=csv)
    found = [_own(one) for one in in_parallel(files[0].root, look, files)]
    given = [pa.schema([*one, *_lacking(one, constants)]) for one in found]
    return columns_of(given, [file.place for file in files], like)


def _own(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in schema if field.name not in (*META_COLUMNS, DELETE_MARK)])


def _lacking(schema: pa.Schema, constants: Mapping[str, pa.DataType]) -> list[pa.Field]:
    there = frozenset(schema.names)
    return [pa.field(name, kind) for name, kind in constants.items() if name not in there]


def columns_of(
    given: Sequence[pa.Schema], names: Sequence[str], like: pa.Schema | None
) -> tuple[pa.Schema, tuple[str, ...]]:
    """As :func:`joined_columns`, of schemas that have names."""
    if not any(len(one) for one in given):
        raise InputError(f"{names[0]!r} has no columns", culprit=names[0], hint="give files that have some")
    where: dict[pa.Schema, str] = {}
    for schema, name in zip(given, names, strict=True):
        where.setdefault(schema, name)
    joined = _stored(_joined(where), names[0]) if like is None else like
    casts: dict[str, None] = {}
    for schema, name in where.items():
        for field in schema:
            place = joined.get_field_index(field.name)
            if place < 0:
                raise SchemaMismatchError(
                    f"column {field.name!r} of {name!r} is none of those that were asked for",
                    culprit=field.name,
                    hint="name it, too: what is imported keeps all of its columns",
                )
            kind = joined.field(place).type
            problem = type_problem(storable_type(field.type), kind)
            if problem is not None:
                raise SchemaMismatchError(
                    f"column {field.name!r} is {field.type} in {name!r} and {kind} elsewhere: {problem}",
                    culprit=field.name,
                    hint="write the files again with one type, or import those that agree into tables of their own",
                )
            if plain_type(field.type) != kind and not pa.types.is_null(field.type):
                casts[f"{field.name}: {field.type} becomes {kind}"] = None
    return joined, tuple(casts)


def _joined(where: Mapping[pa.Schema, str]) -> pa.Schema:
    joined = pa.schema([])
    for schema, name in where.items():
        typed = pa.schema([field for field in schema if not pa.types.is_null(field.type)])
        try:
            joined = evolved(joined, typed, SchemaMode.WIDEN)
        except LakeIndexError as error:
            raise SchemaMismatchError(
                f"{name!r}: {error.message}", culprit=error.culprit, hint=f"{error.hint}; or {CURE}"
            ) from None
    known = frozenset(joined.names)
    nothing = [field.name for schema in where for field in schema if field.name not in known]
    if nothing:
        raise SchemaMismatchError(
            f"column {nothing[0]!r} has no type: it is null in every row of every file (CSV, JSON: of the first MiB)",
            culprit=nothing[0],
            hint=CURE,
        )
    needed = set(joined.names).intersection(*({one.name for one in schema if not one.nullable} for schema in where))
    order = dict.fromkeys(field.name for schema in where for field in schema)  # as the first file that has it
    return pa.schema([joined.field(name).with_nullable(name not in needed) for name in order])


def _stored(schema: pa.Schema, name: str) -> pa.Schema:
    """As a table has them."""
    try:
        return schema_from_avro(schema_to_avro(schema, "imported"))
    except LakeIndexError as error:
        raise SchemaMismatchError(
            f"{name!r}: {error.message}", culprit=error.culprit, hint=f"{error.hint}; or {CURE}"
        ) from None
