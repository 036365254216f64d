"""Rows into one file, in the format that its name says."""

from __future__ import annotations

import contextlib
import json
import os
import posixpath
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from lakeindex.errors import StorageError, UsageError
from lakeindex.showing.json_values import json_value
from lakeindex.storage.paths import plain
from lakeindex.tasks.stores import storage_at

_PARQUET: Final = (".parquet", ".pq", "")
_CSV: Final = (".csv",)
_JSON: Final = (".json", ".jsonl", ".ndjson")
_ARROW: Final = (".arrow", ".feather", ".ipc")
_JSON_ROWS: Final = 10_000
_NOT_IN_CSV: Final = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


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
        if any(is_so(column.type) for is_so in _NOT_IN_CSV):
            values = [json_value(value) for value in column.to_pylist()]
            texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
            rows = rows.set_column(at, name, pa.array(texts, pa.string()))
    return rows


def write_table(rows: pa.Table, out: str) -> int:
    """Write rows into one file, as :func:`write_rows` does; its size.

    Raises:
        UsageError: ``out`` cannot be written.
    """
    check_out(out)

    def write(path: Path) -> int:
        with row_writer(out, path, rows.schema) as writer:
            writer.write_table(rows)
        return rows.num_rows

    return put_file(out, write)[1]


def check_out(out: str) -> None:
    """Refuse a place that cannot be a file, and a format that is not written. Raises: UsageError."""
    if not out.strip("/") or out.endswith("/") or Path(plain(out)).is_dir():
        raise UsageError(f"--out cannot be {out!r}: it is a folder", culprit=out, hint="name a file")
    _suffix(out)


def put_file(out: str, write: Callable[[Path], int]) -> tuple[int, int]:
    """Let a file be written and put it in one piece; rows and bytes. Raises: UsageError: it cannot be written."""
    place = plain(out)
    remote = "://" in place
    folder = tempfile.gettempdir() if remote else posixpath.dirname(place)
    with _spool(folder, out) as spool:
        rows = write(spool)
        size = spool.stat().st_size
        if remote:
            parent, name = posixpath.split(place)
            storage_at(parent).write(name, spool.read_bytes())
        else:
            spool.replace(place)
    return rows, size


@contextlib.contextmanager
def _spool(folder: str, out: str) -> Iterator[Path]:
    """A temporary file beside ``out``, gone afterwards whatever happens."""
    try:
        handle, name = tempfile.mkstemp(prefix=".lakeindex-", suffix=".parquet", dir=folder)
    except OSError as error:
        raise UsageError(
            f"--out cannot be {out!r}: {error.strerror}", culprit=out, hint="name a file in a folder that is there"
        ) from error
    os.close(handle)
    path = Path(name)
    path.chmod(0o644)
    try:
        yield path
    except OSError as error:
        raise StorageError(f"{out} cannot be written: {error}", culprit=out, hint="is the disk full?") from error
    finally:
        path.unlink(missing_ok=True)
