"""Commands that change nothing: what a table is and holds, its rows, its history, its runs, which index suits it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lakeindex.cli.shared import (
    checkpoints_option,
    complete_run,
    json_option,
    pairs_option,
    parse_pairs,
    passed_on,
    progress,
    runner_options,
    say,
    say_compared,
    screen,
    split_names,
    table_argument,
)
from lakeindex.errors import InvariantError, OptionError, UsageError
from lakeindex.options.parse import parse_options

if TYPE_CHECKING:
    import pyarrow as pa


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

    Of a database in a catalog (glue://database) the Hudi tables.

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


_F = TypeVar("_F", bound=Callable[..., Any])


def _as_of(function: _F) -> _F:
    return click.option("--as-of", metavar="I", help="As it was at this instant or ISO time, inclusive.")(function)


def _partition(function: _F) -> _F:
    return click.option("--partition", metavar="P", help="Only of this partition path, as its folder is named.")(
        function
    )


@click.command()
@table_argument
@json_option
def schema(table: str, as_json: bool) -> None:
    """List a table's columns and their Arrow types, without meta columns."""
    from lakeindex.operations.look.live_files import table_columns

    found = table_columns(table)
    say(found, as_json=as_json)


@click.command()
@table_argument
@json_option
def properties(table: str, as_json: bool) -> None:
    """List what a table's hoodie.properties says."""
    from lakeindex.operations.look.live_files import table_entries

    found = table_entries(table)
    say(found, as_json=as_json)


@click.command()
@table_argument
@_partition
@_as_of
@pairs_option
@json_option
def count(table: str, partition: str | None, as_of: str | None, *, options: tuple[str, ...], as_json: bool) -> None:
    """Count a table's rows, from its commits or footers: no row is read."""
    from lakeindex.operations.look.live_files import count_rows

    found = count_rows(table, partition=partition, as_of=as_of, options=parse_pairs(options))
    say(found, as_json=as_json)


@click.command()
@table_argument
@_partition
@_as_of
@pairs_option
@json_option
def files(table: str, partition: str | None, as_of: str | None, *, options: tuple[str, ...], as_json: bool) -> None:
    """List the base files that readers read; superseded files of the same folders are not among them."""
    from lakeindex.operations.look.live_files import live_files

    found = live_files(table, partition=partition, as_of=as_of, options=parse_pairs(options))
    say(found, as_json=as_json)


@click.command()
@table_argument
@_as_of
@pairs_option
@json_option
def partitions(table: str, as_of: str | None, *, options: tuple[str, ...], as_json: bool) -> None:
    """List the partitions that have rows, with their files, bytes and rows."""
    from lakeindex.operations.look.live_files import live_partitions

    found = live_partitions(table, as_of=as_of, options=parse_pairs(options))
    say(found, as_json=as_json)


@click.command()
@table_argument
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option(
    "--key",
    "columns_of_keys",
    multiple=True,
    metavar="COLUMN=VALUE[,COLUMN=VALUE]",
    help="A column of a key; once for each column of a composite key, and again for more keys.",
)
@click.option("--keys", "keys_file", metavar="FILE", help="More keys: text with one key a line, or a Parquet file.")
@click.option("--partition", metavar="P", help="Only rows of this partition path, as its folder is named.")
@click.option("--columns", metavar="F[,F]", help="Columns to show; default: all, meta columns first.")
@click.option("--as-of", metavar="I", help="Rows as they were at this instant or ISO time, inclusive.")
@click.option(
    "--out", metavar="FILE", help="Write the rows to this file instead of showing them: .parquet, .csv, .jsonl, .arrow."
)
@runner_options
@pairs_option
@json_option
def get(  # noqa: PLR0913 - the command's options
    table: str,
    keys: tuple[str, ...],
    *,
    columns_of_keys: tuple[str, ...],
    keys_file: str | None,
    partition: str | None,
    columns: str | None,
    as_of: str | None,
    out: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Show the rows of record keys; the table's index says which files to read.

    KEY is a record key as it is stored (`_hoodie_record_key`): the value of the key field; of a table with
    a complex key the encoded text, such as `region:eu,id:7`, or `--key region=eu --key id=7`. What it took is
    said on stderr. A key that is not there is no failure.
    """
    arguments = passed_on(**given)
    if not keys and not columns_of_keys and keys_file is None:
        raise UsageError("no key is given", hint="name keys, columns of them with --key, or a file with --keys FILE")
    from lakeindex.api.table import LakeTable
    from lakeindex.operations.rows.key_sets import KeysFile, OneKey
    from lakeindex.operations.rows.out_file import write_table
    from lakeindex.showing.results import show_get

    asked: list[OneKey | KeysFile] = [*keys, *_by_columns(columns_of_keys)]
    if keys_file is not None:
        asked.append(KeysFile(keys_file))

    found = LakeTable(table).get(
        asked,
        partition=partition,
        columns=split_names(columns) if columns is not None else None,
        as_of=as_of,
        **arguments,
    )
    if out is not None:
        write_table(found.rows, out)
        found = found.written_to(out)
    say(found, lambda console: show_get(console, found, screen(err=True)), as_json=as_json)


def _by_columns(texts: tuple[str, ...]) -> list[dict[str, str]]:
    """Keys by their columns; a column that comes again begins the next key."""
    keys: list[dict[str, str]] = []
    for pair in (pair for text in texts for pair in re.split(r",(?=[^,=]+=)", text)):
        name, sign, value = pair.partition("=")
        if not sign or not name.strip():
            raise OptionError(f"--key cannot be {pair!r}", culprit=pair, hint="write --key COLUMN=VALUE")
        if not keys or name.strip() in keys[-1]:
            keys.append({})
        keys[-1][name.strip()] = value
    return keys


@click.command()
@table_argument
@click.option("--limit", type=click.IntRange(0), default=10, show_default=True, metavar="N", help="How many rows.")
@click.option("--columns", metavar="F[,F]", help="Columns to show; default: the table's, without meta columns.")
@click.option("--where", metavar="COND", help="Only rows that meet a condition, as SQL has it behind WHERE.")
@click.option("--as-of", metavar="I", help="Rows as they were at this instant or ISO time, inclusive.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV: null is empty, lists, maps and structs are JSON.")
@pairs_option
@json_option
def head(  # noqa: PLR0913 - the command's options
    table: str,
    *,
    limit: int,
    columns: str | None,
    where: str | None,
    as_of: str | None,
    as_csv: bool,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show some rows of a table, the first that are found; no more is read than it takes."""
    if as_csv and as_json:
        raise OptionError("--csv and --json are two forms of one output", culprit="--csv", hint="give one of them")
    from lakeindex.api.table import LakeTable
    from lakeindex.showing.json_result import SCHEMA_VERSION
    from lakeindex.showing.json_values import json_value
    from lakeindex.showing.results import show_rows

    names = None if columns is None else split_names(columns)
    scan = LakeTable(table).scan(columns=names, where=where, as_of=as_of, options=parse_pairs(options))
    found = scan.head(limit)
    if as_csv:
        click.echo(csv_text(found), nl=False)
    elif as_json:
        rows = [json_value(row) for row in found.to_pylist()]
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "columns": found.column_names, "rows": rows}))
    elif found.num_rows:
        show_rows(screen(), found.column_names, found.to_pylist())
    else:
        screen().print("no rows" if where is None else "no row meets the condition")


def csv_text(rows: pa.Table) -> str:
    """Rows as CSV with a heading, such as ``upsert`` reads; nested values and bytes are texts, as JSON has them."""
    import pyarrow.csv as pc

    from lakeindex.operations.rows.out_file import as_texts

    out = io.BytesIO()
    pc.write_csv(as_texts(rows), out)
    return out.getvalue().decode()


@click.command()
@table_argument
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@checkpoints_option
@pairs_option
@json_option
def advise(
    table: str, inputs: tuple[str, ...], *, checkpoints: str | None, options: tuple[str, ...], as_json: bool
) -> None:
    """Estimate what each index type would cost for batches like INPUT, and recommend one. Changes nothing.

    A sample of the batch's keys and of the table's footers is read. INPUT: as for upsert.
    """
    pairs = parse_pairs(options)
    parse_options(pairs)
    from lakeindex.api.table import LakeTable

    found = LakeTable(table).advise(list(inputs), options=pairs, checkpoints=checkpoints)
    say(found, as_json=as_json)


@click.command()
@click.argument("run", metavar="RUN", shell_complete=complete_run)
@click.option("--history", is_flag=True, help="Show the table RUN over its runs, commit by commit.")
@click.option("--checkpoints", metavar="URI", help="Of a table: root of its run folders; default: TABLE.lakeindex.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the report as an HTML page: one file that needs no network.",
)
@json_option
def report(run: str, *, history: bool, checkpoints: str | None, html: Path | None, as_json: bool) -> None:
    """Show what each stage of a run passed on and what it cost.

    RUN: the run's folder, TABLE.lakeindex/RUN; or TABLE, or TABLE.lakeindex, for the newest run.
    """
    if history:
        from lakeindex.operations.look.report_history import table_report

        over_time = table_report(run, checkpoints)
        if html is not None:
            from lakeindex.report.page import render_history

            html.write_text(render_history(over_time), encoding="utf-8")
        say(over_time, as_json=as_json)
        return
    from lakeindex.report.make_report import find_report

    found = find_report(run, checkpoints)
    if html is not None:
        from lakeindex.report.page import render_page

        html.write_text(render_page(found), encoding="utf-8")
    say(found, as_json=as_json)


@click.command()
@click.argument("first", metavar="RUN", shell_complete=complete_run)
@click.argument("second", metavar="RUN", shell_complete=complete_run)
@json_option
def compare(first: str, second: str, as_json: bool) -> None:
    """Show two runs side by side: rows, files, bytes and seconds by stage."""
    from lakeindex.report.compared_runs import compare as compared
    from lakeindex.report.make_report import find_report

    found = compared(find_report(first), find_report(second))
    say(found, as_json=as_json)
