"""``lakeindex create``, ``lakeindex import`` and ``lakeindex options``."""

from __future__ import annotations

import json

import click

from lakeindex.cli.shared import (
    checkpoints_option,
    given_options,
    is_terminal,
    json_option,
    memory_option,
    pairs_option,
    parse_pairs,
    progress,
    say,
    screen,
    short_option,
    split_names,
    table_argument,
)
from lakeindex.model import IndexType
from lakeindex.options.option import INDEX_OPTION, MEMORY_OPTION, TABLE_VERSION_OPTION, TABLE_VERSIONS
from lakeindex.options.option_table import BY_KEY, CREATE_BY_KEY, CREATE_OPTIONS, OPTIONS, default_text, options_table
from lakeindex.options.parse import parse_create_options
from lakeindex.showing.facts import show_options

_key = click.option("--key", "keys", required=True, metavar="F[,F]", help="Columns of the record key.")
_of_new_tables = given_options(
    click.option("--ordering", metavar="F[,F]", help="Columns that say which version of a row is newer."),
    short_option("--table-version", TABLE_VERSION_OPTION, TABLE_VERSIONS, "Version of the table"),
    click.option(
        "--metadata/--no-metadata",
        default=None,
        help="Make Hudi's metadata table, too, or not. Default: from version 8 on, as Hudi 1.x does.",
    ),
    short_option("--index", INDEX_OPTION, IndexType, "Index type"),
)


@click.command()
@table_argument
@click.option(
    "--like",
    required=True,
    metavar="FILE|DDL",
    help="Parquet, CSV or JSON file with the table's columns, or the columns as text: 'id STRING, at TIMESTAMP'.",
)
@_key
@click.option(
    "--partition",
    "partitions",
    metavar="F[,F]",
    help="Columns of the partition path; of a date or timestamp also by year, month, day or hour: F:month.",
)
@_of_new_tables
@click.option(
    "--exists",
    type=click.Choice(["error", "ok"]),
    default="error",
    show_default=True,
    help="What happens if there is a table: ok leaves it as it is if it is the one that would be made.",
)
@pairs_option
@json_option
def create(  # noqa: PLR0913 - the command's options
    *,
    table: str,
    like: str,
    keys: str,
    partitions: str | None,
    ordering: str | None,
    metadata: bool | None,
    exists: str,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Create an empty table. The last element of its path is its name.

    Index type, merge mode and key encoding are bound: later options cannot change them.
    """
    pairs = parse_pairs(options)
    config = parse_create_options(pairs)
    from lakeindex.operations.create_table import Exists, columns_like, create_or_find

    created = create_or_find(
        table,
        columns_like(like, config.csv),
        Exists(exists),
        pairs.keys(),
        keys=split_names(keys),
        partitions=split_names(partitions),
        ordering=split_names(ordering),
        config=config,
        metadata=metadata,
    )

    say(created, as_json=as_json)


@click.command("import")
@click.argument("source", metavar="SOURCE")
@table_argument
@_key
@click.option(
    "--partition",
    "partitions",
    metavar="F[,F]",
    help="Columns of the partition path, as of create; default: those that divide the source; '' for none.",
)
@_of_new_tables
@click.option(
    "--like", metavar="FILE|DDL", help="The columns and their types, as of create, instead of those of the files."
)
@click.option("--combine", is_flag=True, help="Of rows with one key, keep the newest by the ordering column.")
@click.option(
    "--max-bytes",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Bytes of the source that are committed together, about.  [default: 16 GiB]",
)
@memory_option
@checkpoints_option
@click.option("--dry-run", is_flag=True, help="Only look at the source, and say what would be made.")
@pairs_option
@json_option
def import_(  # noqa: PLR0913 - the command's options
    *,
    source: str,
    table: str,
    keys: str,
    partitions: str | None,
    ordering: str | None,
    metadata: bool | None,
    like: str | None,
    combine: bool,
    max_bytes: int | None,
    memory: str | None,
    checkpoints: str | None,
    dry_run: bool,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a table of files that are there: Parquet, CSV or JSON, or a Delta or Iceberg table. The same command goes on
    after one that ended early.

    SOURCE: a folder, Hive-style partitioned or not, a file, the folder of a Delta or Iceberg table, a metadata.json, or
    iceberg:CATALOG/NAMESPACE.TABLE. It is only read.
    """
    pairs = parse_pairs(options if memory is None else (*options, f"{MEMORY_OPTION}={memory}"))
    of_table = {key: text for key, text in pairs.items() if key in CREATE_BY_KEY}
    of_load = {key: text for key, text in pairs.items() if key in BY_KEY or key not in of_table}
    from lakeindex.api.creating import import_table

    done = import_table(
        source,
        table,
        key=split_names(keys),
        partition=None if partitions is None else split_names(partitions),
        ordering=split_names(ordering),
        properties=of_table,
        metadata=metadata,
        like=like,
        combine=combine,
        max_bytes=max_bytes,
        dry_run=dry_run,
        options=of_load,
        checkpoints=checkpoints,
        progress=progress(),
    )
    say(done, as_json=as_json)


@click.command(name="options")
@click.option(
    "--create", "of_create", is_flag=True, help="The options of `lakeindex create` instead of those of a write."
)
@json_option
def options(of_create: bool, as_json: bool) -> None:
    """List the -o options, what is valid, and their defaults."""
    chosen = CREATE_OPTIONS if of_create else OPTIONS
    if not as_json:
        if is_terminal():
            show_options(screen(), [(one.key, one.valid, default_text(one.default), one.text) for one in chosen])
        else:
            click.echo(options_table(chosen))
        return
    rows = [
        {
            "key": option.key,
            "valid": option.valid,
            "default": option.default if isinstance(option.default, (str, int, float, bool)) else None,
            "text": option.text,
            "bound_at_creation": option.bound,
        }
        for option in chosen
    ]
    click.echo(json.dumps({"schema_version": 1, "options": rows}))
