"""The live files of a Delta table, with the partition values that its log says."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa

from lakeindex.errors import InputError, TableUnsupportedError, UsageError, first_line
from lakeindex.operations.importing.sources import Source, SourceKind, columns_of, named_file
from lakeindex.stages.stage_input.inputs import InputFile
from lakeindex.storage import current_options, in_parallel
from lakeindex.storage.paths import absolute

_MAPPING: Final = "delta.columnMapping.mode"
_PURGE: Final = "REORG TABLE ... APPLY (PURGE) in Spark writes files without them; delete them there first"


def open_delta(place: str, like: pa.Schema | None, version: str | None) -> Source:
    """A Delta table of a version; the newest if none is named.

    Raises:
        UsageError: its library is not installed.
        InputError: it cannot be read.
        TableUnsupportedError: files of it do not say by themselves which rows and columns it has.
    """
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise UsageError(
            f"{place} is a Delta table, which is read with deltalake, and that is not installed",
            culprit=place,
            hint="pip install 'lakeindex[delta]'",
        ) from None
    options = dict(current_options().pairs) or None
    try:
        table = DeltaTable(place, version=None if version is None else int(version), storage_options=options)
        return _source_of(table, place, like)
    except (DeltaError, OSError, pa.ArrowException) as error:
        raise InputError(
            f"the Delta table {place} cannot be read{'' if version is None else f' as of version {version}'}: "
            f"{first_line(error)}",
            culprit=place,
            hint="look at it with delta-rs; nothing was imported",
        ) from error


def _source_of(table: Any, place: str, like: pa.Schema | None) -> Source:
    mode = table.metadata().configuration.get(_MAPPING, "none")
    if mode != "none":
        raise TableUnsupportedError(
            f"the Delta table {place} maps the names of its columns ({_MAPPING}={mode}): its files call them otherwise",
            culprit=_MAPPING,
            hint="ALTER TABLE ... DROP FEATURE columnMapping in Spark gives its files the names; or read it with Spark "
            "and give the frame to bulk_insert",
        )
    actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
    hidden = _with_vectors(table)
    if hidden:
        raise TableUnsupportedError(
            f"the Delta table {place} has deletion vectors, which hide rows of its files: {hidden[0]}"
            f"{f' and {len(hidden) - 1} more' if len(hidden) > 1 else ''}",
            culprit=hidden[0],
            hint=_PURGE,
        )
    columns = pa.schema(table.schema().to_arrow())
    partitions = tuple(table.metadata().partition_columns)
    files = _files(place, actions, columns, partitions)
    joined, casts = columns_of([columns], [place], like)
    return Source(SourceKind.DELTA, place, str(table.version()), files, joined, partitions, casts)


def _with_vectors(table: Any) -> list[str]:
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return []
    return [
        path for batch in table.deletion_vectors() for path in pa.record_batch(batch).column("filepath").to_pylist()
    ]


def _files(
    place: str, actions: Sequence[dict[str, Any]], columns: pa.Schema, partitions: Sequence[str]
) -> tuple[InputFile, ...]:
    def found(action: dict[str, Any]) -> InputFile:
        path = action["path"]
        if "://" in path or path.startswith("file:/"):  # an URL of the log is encoded
            where = absolute(path if path.startswith("file:") else unquote(path))
        else:
            where = posixpath.join(place, unquote(path))
        given = action.get("partition") or action.get("partition_values") or {}
        constants = tuple((name, _text(given.get(name), columns.field(name).type)) for name in partitions)
        return named_file(where, "the log of the Delta table", constants)

    return tuple(sorted(in_parallel(place, found, actions))) if actions else ()


def _text(value: Any, kind: pa.DataType) -> str | None:
    """A partition value as a text that Arrow makes the value of."""
    if value is None:
        return None
    text: str = pa.scalar(value, kind).cast(pa.string()).as_py()
    return text
