"""``lakeindex tables``, ``inspect``, ``history``, ``check``, ``read`` and ``changes``: commands that change nothing."""

from __future__ import annotations

import click

from lakeindex.cli.shared import (
    json_option,
    pairs_option,
    parse_pairs,
    progress,
    say,
    say_compared,
    split_names,
    table_argument,
)
from lakeindex.errors import InvariantError


@click.command()
@click.argument("uri", metavar="URI")
@click.option(
    "--depth", type=int, default=3, show_default=True, metavar="N", help="How many levels below URI tables may be."
)
@click.option(
    "--size",
    is_flag=True,
    help="Count live files and bytes, too; lists every partition where no metadata table names the files.",
)
@json_option
def tables(uri: str, depth: int, size: bool, as_json: bool) -> None:
    """List the tables below a folder, a path or URL, with version, type, index, last commit and health.

    Health is what properties and timeline say: pending instants, a stale metadata table, what lakeindex does not write
    to. `check` looks at the files. A table that cannot be opened is a line with its error. At most 1,000 folders
    are listed, and none below a table.
    """
    from lakeindex.operations.look.find_tables import find_tables

    found = find_tables(uri, depth=depth, size=size)
    say(found, as_json=as_json)


@click.command()
@table_argument
@json_option
def inspect(table: str, as_json: bool) -> None:
    """Show a table's keys, bound options, size and pending instants, and whether lakeindex can write to it."""
    from lakeindex.operations.look.inspect import inspect_table

    found = inspect_table(table)
    say(found, as_json=as_json)


@click.command()
@table_argument
@json_option
def history(table: str, as_json: bool) -> None:
    """List the instants of the active timeline, newest first."""
    from lakeindex.operations.look.history import history_of
    from lakeindex.table.handle import Table

    found = history_of(Table.at(table))
    say(found, as_json=as_json)


@click.command()
@table_argument
@click.option("--deep", is_flag=True, help="Compare every page of every file, superseded ones too, with its checksums.")
@json_option
@click.pass_context
def check(ctx: click.Context, table: str, deep: bool, as_json: bool) -> None:
    """Check every invariant of a table; exit code 6 if one is broken."""
    from lakeindex.operations.check import check_table
    from lakeindex.tasks.local_runner import LocalRunner

    report = check_table(table, LocalRunner(progress=progress()), deep=deep)
    broken = None
    if report.violations:
        first = report.violations[0]
        others = len(report.violations) - 1
        message = first.told + (f" (and {others} more)" if others else "")
        broken = InvariantError(message, culprit=first.culprit, hint=first.hint)
    say_compared(ctx, report, broken, as_json=as_json)


@click.command()
@table_argument
@click.option("--where", metavar="COND", help="Only rows that meet a condition, as SQL has it behind WHERE.")
@click.option("--columns", metavar="F[,F]", help="Columns to write; default: all, meta columns first.")
@click.option(
    "--partition", "partitions", multiple=True, metavar="P", help="Only rows of this partition path (repeatable)."
)
@click.option("--as-of", metavar="I", help="Rows as they were at this instant or ISO time, inclusive.")
@click.option("--since", metavar="I", help="Only rows written after this instant or ISO time.")
@click.option("--out", required=True, metavar="FILE", help="File to write: .parquet, .csv, .jsonl or .arrow.")
@pairs_option
@json_option
def read(  # noqa: PLR0913 - the command's options
    table: str,
    *,
    where: str | None,
    columns: str | None,
    partitions: tuple[str, ...],
    as_of: str | None,
    since: str | None,
    out: str,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write a table's rows, meta columns first, into one file, in the format that its name says.

    Files that cannot hold a row that meets the condition are not opened: partitions, statistics and, for
    `KEYFIELD = ...` and `KEYFIELD IN (...)`, the index say which. docs/reading.md says what a condition may be.
    """
    from lakeindex.operations.rows.request import ScanRequest
    from lakeindex.operations.rows.scan import write_rows

    names = None if columns is None else tuple(split_names(columns))
    request = ScanRequest(names, where, partitions or None, as_of, since, meta=True, options=dict(parse_pairs(options)))
    summary = write_rows(table, out, request, step=progress().step)
    say(summary, as_json=as_json)


@click.command()
@table_argument
@click.option("--since", metavar="I", help="Changes after this instant or ISO time; default: since the beginning.")
@click.option("--until", metavar="I", help="Changes up to this instant or ISO time, inclusive; default: now.")
@click.option("--columns", metavar="F[,F]", help="Columns to write before those of the change; default: the table's.")
@click.option("--out", required=True, metavar="FILE", help="File to write: .parquet, .csv, .jsonl or .arrow.")
@pairs_option
@json_option
def changes(
    table: str,
    *,
    since: str | None,
    until: str | None,
    columns: str | None,
    out: str,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write what happened to a table's rows between two points in time into one file, in the format that its name says.

    For each key at most one insert, one delete, or one update (the row before and the row after): `_change_type`
    says which, `_commit_instant` the commit. The next feed begins at the instant that is printed.
    """
    from lakeindex.operations.changes import ChangesRequest, write_changes

    names = None if columns is None else tuple(split_names(columns))
    summary = write_changes(table, out, ChangesRequest(since, until, names, options=dict(parse_pairs(options))))
    say(summary, as_json=as_json)
