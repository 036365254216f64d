"""``lakeindex inspect``, ``history``, ``check`` and ``read``: commands that change nothing."""

from __future__ import annotations

import json

import click

from lakeindex.cli.group import Failure
from lakeindex.cli.shared import json_option, out_console, progress, say, table_argument
from lakeindex.errors import InvariantError


@click.command()
@table_argument
@json_option
def inspect(table: str, as_json: bool) -> None:
    """Show a table's keys, bound options, size and pending instants, and whether lakeindex can write to it."""
    from lakeindex.cli.rendering import show_inspection
    from lakeindex.commands.look.inspect import inspect_table

    found = inspect_table(table)
    say(found, lambda console: show_inspection(console, found), as_json=as_json)


@click.command()
@table_argument
@json_option
def history(table: str, as_json: bool) -> None:
    """List the instants of the active timeline, newest first."""
    from lakeindex.cli.rendering import show_history
    from lakeindex.commands.look.history import history_of
    from lakeindex.commands.written_slices import open_at

    found = history_of(open_at(table))
    say(found, lambda console: show_history(console, found), as_json=as_json)


@click.command()
@table_argument
@click.option("--deep", is_flag=True, help="Compare every page of every file, superseded ones too, with its checksums.")
@json_option
@click.pass_context
def check(ctx: click.Context, table: str, deep: bool, as_json: bool) -> None:
    """Check every invariant of a table; exit code 6 if one is broken."""
    from lakeindex.cli.rendering import show_check
    from lakeindex.commands.check.check import check_table
    from lakeindex.tasks.local_runner import LocalRunner

    report = check_table(table, LocalRunner(progress=progress()), deep=deep)
    broken = None
    if report.violations:
        first = report.violations[0]
        others = len(report.violations) - 1
        message = first.message + (f" (and {others} more)" if others else "")
        broken = InvariantError(message, culprit=first.culprit, hint=first.hint)
    if as_json:
        error = None if broken is None else Failure.of(broken).as_dict()
        click.echo(json.dumps({**report.as_dict(), "error": error}))
    else:
        show_check(out_console(), report)
    if broken is not None:
        ctx.exit(broken.exit_code)


@click.command()
@table_argument
@click.option("--as-of", metavar="I", help="Rows as they were at this instant or ISO time, inclusive.")
@click.option("--since", metavar="I", help="Only rows written after this instant or ISO time.")
@click.option("--out", required=True, metavar="FILE.parquet", help="File to write.")
@json_option
def read(table: str, as_of: str | None, since: str | None, out: str, as_json: bool) -> None:
    """Write a table's rows, meta columns first, into one Parquet file."""
    from lakeindex.cli.rendering import show_read
    from lakeindex.commands.read.read import write_rows

    summary = write_rows(table, out, as_of=as_of, since=since, step=progress().step)
    say(summary, lambda console: show_read(console, summary), as_json=as_json)
