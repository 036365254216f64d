"""``lakeindex metadata``: the metadata table of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, say, say_compared, table_argument
from lakeindex.errors import InvariantError
from lakeindex.options.parse import parse_options

if TYPE_CHECKING:
    from lakeindex.operations.metadata import MetadataVerified


@click.group()
def metadata() -> None:
    """Build, drop, verify or show the metadata table, from which Hudi's readers list the table's files.

    Every write keeps it up (option lakeindex.metadata.table).
    """


@metadata.command()
@table_argument
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME",
    help="Build this partition: files, column_stats, partition_stats, bloom_filters or record_index; may be repeated. "
    "Default: those that Hudi makes by itself.",
)
@click.option("--force", is_flag=True, help="Consider every pending instant of another writer dead.")
@pairs_option
@json_option
def build(table: str, partitions: tuple[str, ...], force: bool, options: tuple[str, ...], as_json: bool) -> None:
    """Build the metadata table, or add partitions to it. Readers use each once it is whole.

    By default a table of version 6 gets files, a later one also column_stats and, if it is partitioned,
    partition_stats. A record_index that is named and there is made anew.
    """
    config = parse_options(parse_pairs(options))
    from lakeindex.operations.metadata import metadata_build

    done = metadata_build(table, partitions, config, force=force)
    say(done, as_json=as_json)


@metadata.command()
@table_argument
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="NAME",
    help="Only this partition of the metadata table, e.g. column_stats; may be repeated. Default: all of it.",
)
@pairs_option
@json_option
def drop(table: str, partitions: tuple[str, ...], options: tuple[str, ...], as_json: bool) -> None:
    """Take the metadata table away. Readers list folders from then on; no row is touched.

    A Hudi writer with hoodie.metadata.enable=true (its default) builds it anew.
    """
    config = parse_options(parse_pairs(options))
    from lakeindex.operations.metadata import metadata_drop

    done = metadata_drop(table, partitions, config)
    say(done, as_json=as_json)


@metadata.command()
@table_argument
@json_option
def status(table: str, as_json: bool) -> None:
    """Show which partitions the metadata table has, their size, and the newest compaction."""
    from lakeindex.operations.metadata import metadata_status

    found = metadata_status(table)
    say(found, as_json=as_json)


@metadata.command()
@table_argument
@json_option
@click.pass_context
def verify(ctx: click.Context, /, table: str, as_json: bool) -> None:
    """Compare the metadata table with files, footers and record keys; exit code 6 if it says something wrong."""
    from lakeindex.operations.metadata import metadata_verify

    found = metadata_verify(table)
    broken = None if found.ok else _broken(found)
    say_compared(ctx, found, broken, as_json=as_json)


def _broken(found: MetadataVerified) -> InvariantError:
    counts = ", ".join(f"{count} {kind}" for kind, count in found.counts.items())
    return InvariantError(
        f"the metadata table of {found.table} is wrong: {counts}",
        culprit=found.examples[0].path,
        hint=found.examples[0].mend,
    )
