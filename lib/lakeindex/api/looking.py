"""What a table is and holds, without reading its rows: methods of :class:`lakeindex.LakeTable`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lakeindex.api.batch_data import PathText, PointInTime, name_of, point_text, run_folders
from lakeindex.api.own_stores import in_its_stores
from lakeindex.errors import UsageError
from lakeindex.options.parse import Options

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeindex.api.table import LakeTable
    from lakeindex.operations.look.inspect import TableInspection
    from lakeindex.operations.look.live_files import LiveFiles, LivePartitions
    from lakeindex.report.compared_runs import Comparison
    from lakeindex.report.contents import RunReport, TableReport
    from lakeindex.run.summary import RunSummary


@in_its_stores
def schema(table: LakeTable) -> pa.Schema:
    """The table's columns as a pyarrow schema, without meta columns: those that the newest commit says.

    >>> orders.schema.names
    ['id', 'region', 'ts', 'amount']

    Raises:
        TableUnsupportedError: the table is empty and was made without columns.
    """
    from lakeindex.operations.look.live_files import columns_of

    return columns_of(table.uri)


@in_its_stores
def properties(table: LakeTable) -> dict[str, str]:
    """What the table's ``hoodie.properties`` says now, by Hudi's names; the table is not changed by changing it.

    >>> orders.properties["hoodie.table.recordkey.fields"]
    'id'
    """
    from lakeindex.operations.look.live_files import table_entries

    return table_entries(table.uri).properties


@in_its_stores
def count(
    table: LakeTable,
    *,
    partition: str | None = None,
    as_of: PointInTime | None = None,
    options: Options | None = None,
) -> int:
    """The number of rows. It comes from the commits, or from footers: no row is read.

    >>> import pyarrow as pa
    >>> batch = pa.table({"id": ["a", "b"], "region": ["eu", "us"], "ts": [1, 1], "amount": [3.5, 4.0]})
    >>> first = orders.upsert(batch, batch_id="2026-11-21")
    >>> orders.count(), orders.count(partition="eu")
    (2, 1)

    Args:
        partition: only rows of this partition path, as its folder is named.
        as_of: an instant, an ISO time or a datetime, inclusive: the rows as they were then.
        options: ``hoodie.metadata.enable=false`` lists folders, where a metadata table would name the files.

    Raises:
        UsageError: no such partition, or a point in time that the history does not reach.
    """
    from lakeindex.operations.look.live_files import count_rows

    return count_rows(
        table.uri, partition=name_of(partition, "partition"), as_of=point_text(as_of, "as_of"), options=options
    ).rows


@in_its_stores
def files(
    table: LakeTable,
    *,
    partition: str | None = None,
    as_of: PointInTime | None = None,
    options: Options | None = None,
) -> LiveFiles:
    """The base files that readers of the table read, by partition and file id: path, size in bytes, rows.
    Superseded files, which are in the folders as well, are not among them.

    >>> [(file.partition, file.rows, file.instant == first.instant) for file in orders.files()]
    [('eu', 1, True), ('us', 1, True)]

    Args:
        partition: as of :meth:`count`.
        as_of: as of :meth:`count`: the files as they were then.
        options: as of :meth:`count`.

    Raises:
        UsageError: as of :meth:`count`.
    """
    from lakeindex.operations.look.live_files import LiveFiles, live_files

    found = live_files(
        table.uri, partition=name_of(partition, "partition"), as_of=point_text(as_of, "as_of"), options=options
    )
    return LiveFiles(found.files)


@in_its_stores
def partitions(table: LakeTable, *, as_of: PointInTime | None = None, options: Options | None = None) -> LivePartitions:
    """The partitions that have rows, by path: files, size in bytes, rows. A table without partitions has one, ``""``.

    >>> [(one.path, one.files, one.rows) for one in orders.partitions()]
    [('eu', 1, 1), ('us', 1, 1)]

    Args:
        as_of: as of :meth:`count`: the partitions as they were then.
        options: as of :meth:`count`.

    Raises:
        UsageError: as of :meth:`count`.
    """
    from lakeindex.operations.look.live_files import LivePartitions, live_partitions

    return LivePartitions(live_partitions(table.uri, as_of=point_text(as_of, "as_of"), options=options).partitions)


@in_its_stores
def inspect(table: LakeTable) -> TableInspection:
    """Keys, what is bound, columns, size, pending instants, and whether a write would be accepted.

    >>> seen = orders.inspect()
    >>> str(seen.index_type), seen.rows, seen.writable
    ('BLOOM', 2, True)
    """
    from lakeindex.operations.look.inspect import inspect_table

    return inspect_table(table.uri)


@in_its_stores
def report(
    table: LakeTable, run: RunSummary | PathText | None = None, *, checkpoints: PathText | None = None
) -> RunReport:
    """What each stage of a run passed on and what it cost.

    >>> [stage.name for stage in orders.report(first).run.stages][-1]
    'merge_write'

    Args:
        run: what a write returned, its ``run_id``, or the run's folder; by default the newest finished run.
        checkpoints: root of the run folders; by default ``<table>.lakeindex`` beside the table.

    Raises:
        UsageError: there is no such finished run.
    """
    from lakeindex.report.make_report import find_report

    if run is None:
        return find_report(table.uri, run_folders(checkpoints, table.uri))
    return find_report(_run_folder(table, run, checkpoints))


@in_its_stores
def report_history(table: LakeTable, *, checkpoints: PathText | None = None) -> TableReport:
    """The table over its runs: size and files after every commit of the active timeline, rows that changed, and, where
    the run's folder or the ledger tells, seconds by stage and false positives. ``notes`` say what cannot be shown.

    >>> [(one.files, one.inserts, one.seconds is not None) for one in orders.report_history().commits]
    [(2, 2, True)]

    Args:
        checkpoints: as of :meth:`report`.
    """
    from lakeindex.operations.look.report_history import table_report

    return table_report(table.uri, run_folders(checkpoints, table.uri))


@in_its_stores
def compare(
    table: LakeTable,
    first: RunSummary | PathText,
    second: RunSummary | PathText,
    *,
    checkpoints: PathText | None = None,
) -> Comparison:
    """Two runs side by side: rows, files, bytes and seconds by stage.

    >>> again = orders.upsert(batch.slice(0, 1), batch_id="2026-11-22")
    >>> [(one.first, one.second) for one in orders.compare(first, again).figures if one.name == "rows_in"]
    [(2.0, 1.0)]

    Args:
        first: as ``run`` of :meth:`report`.
        second: as ``run`` of :meth:`report`.
        checkpoints: as of :meth:`report`.

    Raises:
        UsageError: as of :meth:`report`.
    """
    from lakeindex.report.compared_runs import compare as compared
    from lakeindex.report.make_report import find_report

    one, other = (find_report(_run_folder(table, run, checkpoints)) for run in (first, second))
    return compared(one, other)


def _run_folder(table: LakeTable, run: RunSummary | PathText, checkpoints: PathText | None) -> str:
    """Where a run's folder is."""
    root = run_folders(checkpoints, table.uri)
    name = os.fspath(run) if isinstance(run, (str, os.PathLike)) else getattr(run, "run_id", None)
    if not isinstance(name, str) or not name:
        raise UsageError(
            f"a run cannot be {run!r}", culprit=repr(run), hint="give what a write returned, its run_id, or a folder"
        )
    return name if "/" in name or isinstance(run, os.PathLike) else f"{root}/{name}"
