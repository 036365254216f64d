"""What a table holds, without its rows: ``lakeindex schema``, ``properties``, ``count``, ``files``, ``partitions``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, say, table_argument

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
