"""Read a table's rows: now, as of a point in time, or those written since one."""

from __future__ import annotations

import contextlib
import os
import posixpath
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.commands.read.time_travel import LaterWrites, PastTable, past_table
from lakeindex.commands.rescale.aligned_rows import aligned_row_groups, open_base_file, row_schema
from lakeindex.commands.results import JsonResult
from lakeindex.commands.written_slices import open_at
from lakeindex.errors import StorageError, UsageError
from lakeindex.files.file_system_view import snapshot
from lakeindex.model import BaseFile
from lakeindex.run.spec import storage_at
from lakeindex.run.table_facts import table_schema
from lakeindex.storage import in_parallel
from lakeindex.write.base_file import COMMIT_TIME

Step: TypeAlias = Callable[[str, int], AbstractContextManager[Callable[[], None]]]

_FILES_AT_ONCE = 4
_OLD_TIME_DIGITS = 14


@dataclass(frozen=True, slots=True)
class ReadSummary(JsonResult):
    """What ``lakeindex read`` wrote.

    Attributes:
        table: the table's name.
        uri: where it is.
        instant: newest commit that is in the rows; None on an empty table.
        as_of: the point in time asked for, as an instant.
        since: rows are newer than this instant.
        rows: rows written.
        files: base files read.
        out: the file written.
        bytes_written: its size.
    """

    table: str
    uri: str
    instant: str | None
    as_of: str | None
    since: str | None
    rows: int
    files: int
    out: str
    bytes_written: int


@dataclass(frozen=True)
class RowSource:
    """The rows of a table at one point in time.

    Attributes:
        past: the table then.
        schema: meta columns, then the table's columns.
        files: base files that may hold such rows, by partition and file id.
    """

    past: PastTable
    schema: pa.Schema
    files: tuple[BaseFile, ...]

    def rows_of(self, file: BaseFile) -> Iterator[pa.Table]:
        """The rows of one file, a row group at a time. Raises: TableCorruptError."""
        source = open_base_file(self.past.table.storage, file)
        for rows in aligned_row_groups(source, file, self.schema):
            yield rows if self.past.since is None else _newer(rows, self.past.later)


def row_source(uri: str, *, as_of: str | None = None, since: str | None = None) -> RowSource:
    """Find out which files hold the rows; nothing of them is read yet.

    Raises:
        TableError: no table, or one that is not read; a commit or committed file that is damaged or gone.
        UsageError: a point in time that the history does not reach.
    """
    table = open_at(uri)
    past = past_table(table, as_of, since)
    # the columns of then; a table without commits then has those it got later
    then = snapshot(table.storage, past.timeline) if past.timeline.completed_writes else past.snapshot
    schema = row_schema(table_schema(table, then))
    files = past.snapshot.base_files_all()
    if past.since is not None:
        # a slice holds no row newer than itself
        files = tuple(file for file in files if past.later.has(file.instant_time))
    return RowSource(past, schema, files)


def read_rows(uri: str, *, as_of: str | None = None, since: str | None = None) -> pa.Table:
    """The table's rows, meta columns first, in the table's columns and types.

    Args:
        uri: the table.
        as_of: an instant or ISO time, inclusive: the rows as they were then.
        since: an instant or ISO time, exclusive: only rows whose ``_hoodie_commit_time`` is greater.

    Raises:
        TableError: no table, or one that is not read; a damaged file, by name.
        UsageError: a point in time that the history does not reach.
    """
    source = row_source(uri, as_of=as_of, since=since)
    pieces = in_parallel(uri, lambda file: list(source.rows_of(file)), source.files, _FILES_AT_ONCE)
    return pa.concat_tables([source.schema.empty_table(), *(rows for piece in pieces for rows in piece)])


def write_rows(
    uri: str, out: str, *, as_of: str | None = None, since: str | None = None, step: Step | None = None
) -> ReadSummary:
    """Read rows into one Parquet file, a row group at a time. It appears whole or not at all.

    Args:
        uri: the table.
        out: a path, or a URL (then the file is spooled to local disk and put in one piece).
        as_of: see :func:`read_rows`.
        since: see :func:`read_rows`.
        step: told about the files: a ``Progress.step``.

    Raises:
        TableError: as :func:`read_rows`.
        UsageError: as :func:`read_rows`, or ``out`` cannot be written.
    """
    _check_out(out)
    source = row_source(uri, as_of=as_of, since=since)
    rows, size = _put(out, lambda spool: _write_all(source, spool, step or _no_step))
    past = source.past
    table = past.table
    return ReadSummary(
        table.name, table.uri, past.snapshot.instant_time, past.as_of, past.since, rows, len(source.files), out, size
    )


def write_table(rows: pa.Table, out: str) -> int:
    """Write rows into one Parquet file, as :func:`write_rows` does; its size.

    Raises:
        UsageError: ``out`` cannot be written.
    """
    _check_out(out)

    def write(path: Path) -> int:
        pq.write_table(rows, path, compression="zstd")
        return rows.num_rows

    return _put(out, write)[1]


def _check_out(out: str) -> None:
    if not out.strip("/") or out.endswith("/") or Path(out).is_dir():
        raise UsageError(f"--out cannot be {out!r}: it is a folder", culprit=out, hint="name a file")


def _put(out: str, write: Callable[[Path], int]) -> tuple[int, int]:
    """Let a file be written and put it in one piece; rows and bytes."""
    remote = "://" in out
    folder = tempfile.gettempdir() if remote else str(Path(out).absolute().parent)
    with _spool(folder, out) as spool:
        rows = write(spool)
        size = spool.stat().st_size
        if remote:
            parent, name = posixpath.split(out)
            storage_at(parent).write(name, spool.read_bytes())
        else:
            spool.replace(out)
    return rows, size


def _write_all(source: RowSource, path: Path, step: Step) -> int:
    rows = 0
    with pq.ParquetWriter(path, source.schema, compression="zstd") as writer, step("read", len(source.files)) as done:
        for file in source.files:
            for piece in source.rows_of(file):
                if piece.num_rows:
                    writer.write_table(piece)
                    rows += piece.num_rows
            done()
    return rows


@contextlib.contextmanager
def _no_step(_title: str, _total: int) -> Iterator[Callable[[], None]]:
    yield lambda: None


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


def _newer(rows: pa.Table, later: LaterWrites) -> pa.Table:
    times = rows.column(COMMIT_TIME)
    old = pc.equal(pc.binary_length(times), _OLD_TIME_DIGITS)
    comparable = pc.if_else(old, pc.binary_join_element_wise(times, "999", ""), times)
    chosen = pc.greater(comparable, later.point)
    for is_after in (True, False):
        odd = [time for time, after in later.known.items() if after is is_after]
        if odd:
            chosen = pc.if_else(pc.is_in(times, pa.array(odd, pa.string())), is_after, chosen)
    return rows.filter(chosen)
