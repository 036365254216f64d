"""``lakeindex get`` and ``lakeindex head``: rows by key, through the index; and some rows, to be looked at."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, Any

import click

from lakeindex.cli.screen import screen
from lakeindex.cli.shared import (
    json_option,
    pairs_option,
    parse_pairs,
    passed_on,
    runner_options,
    say,
    split_names,
    table_argument,
)
from lakeindex.errors import OptionError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa


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
