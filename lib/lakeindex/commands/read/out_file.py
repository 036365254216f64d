"""Rows into one file, in the format that its name says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from lakeindex.commands.read.json_values import json_value
from lakeindex.errors import UsageError

_PARQUET: Final = (".parquet", ".pq", "")
_CSV: Final = (".csv",)
_JSON: Final = (".json", ".jsonl", ".ndjson")
_ARROW: Final = (".arrow", ".feather", ".ipc")
_JSON_ROWS: Final = 10_000


class RowWriter(Protocol):
    """Takes rows, a part at a time."""

    def write_table(self, rows: pa.Table) -> None:
        """Write some rows."""


class _JsonLines:
    """An object a line."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write_table(self, rows: pa.Table) -> None:
        for batch in rows.to_batches(_JSON_ROWS):
            for row in batch.to_pylist(maps_as_pydicts="lossy"):
                self._file.write(json.dumps(json_value(row), ensure_ascii=False) + "\n")


def check_format(out: str) -> None:
    """Refuse a name that says a format which is not written. Raises: UsageError."""
    _suffix(out)


def _suffix(out: str) -> str:
    suffix = PurePosixPath(out).suffix.lower()
    if suffix not in (*_PARQUET, *_CSV, *_JSON, *_ARROW):
        raise UsageError(
            f"--out cannot be {out!r}: {suffix} is not written",
            culprit=out,
            hint="name it .parquet, .csv, .jsonl (an object a line) or .arrow",
        )
    return suffix


@contextlib.contextmanager
def row_writer(out: str, path: Path, schema: pa.Schema) -> Iterator[RowWriter]:
    """Writes rows with these columns: Parquet, CSV with a header, JSON lines or Arrow's file format.

    Args:
        out: where the file will be, whose name says the format; without a suffix Parquet.

    Raises:
        UsageError: another format.
    """
    suffix = _suffix(out)
    if suffix in _CSV:
        with pyarrow.csv.CSVWriter(path, as_texts(schema.empty_table()).schema) as csv:
            yield _Csv(csv)
    elif suffix in _JSON:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            yield _JsonLines(file)
    elif suffix in _ARROW:
        with pa.ipc.new_file(path, schema) as arrow:
            yield arrow
    else:
        with pq.ParquetWriter(path, schema, compression="zstd") as parquet:
            yield parquet


class _Csv:
    """A header, and a line a row."""

    def __init__(self, writer: pyarrow.csv.CSVWriter) -> None:
        self._writer = writer

    def write_table(self, rows: pa.Table) -> None:
        self._writer.write_table(as_texts(rows))


def as_texts(rows: pa.Table) -> pa.Table:
    """Rows with nested values and bytes as texts, as JSON has them: CSV has no others."""
    for at, (name, column) in enumerate(zip(rows.column_names, rows.columns, strict=True)):
        if pa.types.is_nested(column.type) or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            values = [json_value(value) for value in column.to_pylist()]
            texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
            rows = rows.set_column(at, name, pa.array(texts, pa.string()))
    return rows
