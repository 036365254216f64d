"""Find out what is at a path, and which files there are: those of a folder, or of a Delta or Iceberg table."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from datetime import date
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from msgspec.structs import replace

from lakeindex.errors import InputError, SchemaMismatchError, UsageError
from lakeindex.format.partitions import DEFAULT_PARTITION
from lakeindex.operations.importing.delta import open_delta
from lakeindex.operations.importing.iceberg import newest_metadata, open_iceberg
from lakeindex.operations.importing.sources import ICEBERG_NAME, Source, SourceKind, joined_columns
from lakeindex.options.types import CsvFormat, InputFormat
from lakeindex.run.input_rows import Constants, repeated_text
from lakeindex.stages.stage_input.inputs import InputFile, find_inputs
from lakeindex.storage.paths import absolute
from lakeindex.tasks.stores import storage_at

_HUDI: Final = ".hoodie"
_DELTA: Final = "_delta_log"
_ICEBERG: Final = ".metadata.json"


def open_source(
    uri: str, wanted: InputFormat, csv: CsvFormat, like: pa.Schema | None = None, version: str | None = None
) -> Source:
    """What is at a path: a folder of files, Hive-style partitioned or not, one file, or a Delta or Iceberg table.

    Args:
        like: the columns, instead of those that the files have.
        version: of a Delta or Iceberg table, another one than the newest.

    Raises:
        InputError: nothing is there, or it cannot be read.
        SchemaMismatchError: files whose columns do not go together, or that a table cannot have.
        UsageError: the source is a Hudi table, or a library is missing.
    """
    if uri.startswith(ICEBERG_NAME) or uri.endswith(_ICEBERG):
        return open_iceberg(uri, like, version)
    place = absolute(uri)
    folders = _folders(place)
    if _HUDI in folders:
        raise UsageError(
            f"{uri} is a Hudi table, which needs no import",
            culprit=uri,
            hint=f"lakeindex inspect {uri} says what it is and whether it can be written to as it is",
        )
    if _DELTA in folders:
        return open_delta(place, like, version)
    if "metadata" in folders:
        found = newest_metadata(place)
        if found is not None:
            return open_iceberg(found, like, version, place)
    return _open_files(place, wanted, csv, like)


def _folders(place: str) -> frozenset[str]:
    """Names of the folders in a folder; none of what is a file, a pattern, or not there."""
    if "*" in place:
        return frozenset()
    listing = storage_at(place).list_folder("")
    return frozenset(posixpath.basename(one.rstrip("/")) for one in listing.folders)


def _open_files(place: str, wanted: InputFormat, csv: CsvFormat, like: pa.Schema | None) -> Source:
    found = find_inputs((place,), wanted)
    levels = [_levels(file) for file in found]
    names = tuple(name for name, _ in levels[0])
    for file, mine in zip(found, levels, strict=True):
        if tuple(name for name, _ in mine) != names:
            raise InputError(
                f"{file.place!r} lies in folders of {', '.join(n for n, _ in mine) or 'no column'}, and "
                f"{found[0].place!r} in folders of {', '.join(names) or 'no column'}",
                culprit=file.place,
                hint="import folders that are divided alike one by one, or name the files that belong together",
            )
    files = [replace(file, constants=mine) for file, mine in zip(found, levels, strict=True)]
    kinds = {name: _type_of(name, files, like) for name in names}
    columns, casts = joined_columns(files, kinds, wanted, csv, like)
    return Source(SourceKind.FILES, place, None, tuple(files), columns, names, casts)


def _levels(file: InputFile) -> Constants:
    """The columns that the folders below the source say."""
    found = []
    for level in file.path.split("/")[:-1]:
        name, sign, value = level.partition("=")
        if sign and name:
            found.append((unquote(name), None if value == DEFAULT_PARTITION else unquote(value)))
    return tuple(found)


def _type_of(name: str, files: Sequence[InputFile], like: pa.Schema | None) -> pa.DataType:
    """The type of values that folders are named by: the one that all of them are texts of, with nothing lost, or the
    one that is asked for.
    """
    places = {dict(file.constants)[name]: file.place for file in files}
    values = {text for text in places if text is not None}
    if like is not None and name in like.names:
        kind = like.field(name).type
        for text in values:
            try:
                repeated_text(text, kind, 1)
            except pa.ArrowInvalid:
                raise SchemaMismatchError(
                    f"column {name!r} is to be {kind}, and the folder of {places[text]!r} says {text!r}",
                    culprit=name,
                    hint="ask for a type of which all folders say values: a text takes every one",
                ) from None
        return kind
    if values and all(_is_integer(text) for text in values):
        return pa.int64()
    if values and all(_is_date(text) for text in values):
        return pa.date32()
    return pa.string()


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and str(int(text)) == text and abs(int(text)) < 2**63


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
