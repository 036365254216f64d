"""Read a table's rows: now, as of a point in time, or those written since one."""

from __future__ import annotations

import contextlib
import os
import posixpath
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.commands.consistent_read import read_consistently
from lakeindex.commands.read.out_file import check_format, row_writer
from lakeindex.commands.read.time_travel import LaterWrites, PastTable, check_meta_columns, past_table
from lakeindex.commands.rescale.aligned_rows import aligned_row_groups, open_base_file, read_schema
from lakeindex.errors import StorageError, UsageError
from lakeindex.model import BaseFile
from lakeindex.options.parse import Options, parse_options
from lakeindex.storage import decoded_in_parallel
from lakeindex.storage.paths import plain
from lakeindex.table.columns import table_schema
from lakeindex.table.handle import Table
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.base_file import COMMIT_TIME

_OLD_TIME_DIGITS = 14


@dataclass(frozen=True)
class RowSource:
    """The rows of a table at one point in time.

    Attributes:
        past: the table then.
        schema: meta columns, unless the table has virtual keys, then the table's columns.
        files: base files that may hold such rows, by partition and file id.
    """

    past: PastTable
    schema: pa.Schema
    files: tuple[BaseFile, ...]

    def rows_of(self, file: BaseFile) -> Iterator[pa.Table]:
        """The rows of one file, a row group at a time. Raises: TableCorruptError."""
        source = open_base_file(self.past.table.storage, file)
        for rows in aligned_row_groups(source, file, self.schema):
            yield rows if self.past.since is None else newer_rows(rows, self.past.later)


def row_source(table: Table, timeline: Timeline, as_of: str | None = None, since: str | None = None) -> RowSource:
    """Find out which files hold the rows; nothing of them is read yet.

    Raises:
        TableError: a commit or committed file that is damaged or gone.
        UsageError: a point in time that the history does not reach.
    """
    past = past_table(table, timeline, as_of, since)
    # the columns of then; a table without commits then has those it got later
    then = table.snapshot(timeline=past.timeline) if past.timeline.completed_writes else past.snapshot
    schema = read_schema(table, table_schema(table, then))
    files = past.snapshot.base_files_all()
    if past.since is not None:
        # a slice holds no row newer than itself
        files = tuple(file for file in files if past.later.has(file.instant_time))
    return RowSource(past, schema, files)


def read_rows(
    uri: str,
    *,
    as_of: str | None = None,
    since: str | None = None,
    meta: bool | None = None,
    options: Options | None = None,
) -> pa.Table:
    """The table's rows, meta columns first, in the table's columns and types.

    Args:
        as_of: an instant or ISO time, inclusive: the rows as they were then.
        since: an instant or ISO time, exclusive: only rows whose ``_hoodie_commit_time`` is greater.
        meta: the meta columns are asked for; a table that does not fill them has none to give if it is not said.
        options: ``hoodie.metadata.enable`` counts.

    Raises:
        TableError: no table, or one that is not read; a damaged file, by name.
        UsageError: a point in time that the history does not reach.
        WriteConflictError: other writers took away what was read, again and again.
    """
    use_metadata = parse_options(options or {}).use_metadata

    def read(table: Table, timeline: Timeline) -> pa.Table:
        if meta:
            check_meta_columns(table, "the meta columns")
        source = row_source(table, timeline, as_of, since)
        pieces = decoded_in_parallel(uri, lambda file: list(source.rows_of(file)), source.files)
        return pa.concat_tables([source.schema.empty_table(), *(rows for piece in pieces for rows in piece)])

    return read_consistently(uri, read, use_metadata=use_metadata)


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
    check_format(out)


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


def newer_rows(rows: pa.Table, later: LaterWrites) -> pa.Table:
    """Those of some rows, with their ``_hoodie_commit_time``, that one of these writes has written."""
    times = rows.column(COMMIT_TIME)
    old = pc.equal(pc.binary_length(times), _OLD_TIME_DIGITS)
    comparable = pc.if_else(old, pc.binary_join_element_wise(times, "999", ""), times)
    chosen = pc.greater(comparable, later.point)
    for is_after in (True, False):
        odd = [time for time, after in later.known.items() if after is is_after]
        if odd:
            chosen = pc.if_else(pc.is_in(times, pa.array(odd, pa.string())), is_after, chosen)
    return rows.filter(chosen)
