"""``lakeindex clean``, ``archive``, ``maintain`` and ``rollback``."""

from __future__ import annotations

import click

from lakeindex.cli.completion import complete_instant
from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, say, split_names, table_argument
from lakeindex.options.parse import parse_options

_dry_run = click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
_force = click.option("--force", is_flag=True, help="Consider every pending instant of another writer dead.")


@click.command()
@table_argument
@click.option("--keep-commits", type=int, metavar="N", help="Commits whose files stay readable.  [default: 10]")
@_dry_run
@_force
@pairs_option
@json_option
def clean(
    table: str, keep_commits: int | None, dry_run: bool, force: bool, options: tuple[str, ...], as_json: bool
) -> None:
    """Delete base files that none of the last commits needs.

    What a savepoint or a pending instant may still read stays.
    """
    from lakeindex.api.table import LakeTable

    summary = LakeTable(table).clean(keep_commits, dry_run=dry_run, force=force, options=parse_pairs(options))
    say(summary, as_json=as_json)


@click.command()
@table_argument
@click.option("--keep-commits", type=int, metavar="N", help="Commits that stay on the timeline.  [default: 20]")
@_dry_run
@_force
@pairs_option
@json_option
def archive(
    table: str, keep_commits: int | None, dry_run: bool, force: bool, options: tuple[str, ...], as_json: bool
) -> None:
    """Move old instants from the timeline to the archived timeline.

    Strays are deleted first; a savepoint, a pending instant or files that were not cleaned yet hold it back.
    """
    from lakeindex.api.table import LakeTable

    summary = LakeTable(table).archive(keep_commits, dry_run=dry_run, force=force, options=parse_pairs(options))
    say(summary, as_json=as_json)


@click.command()
@table_argument
@click.option(
    "--steps",
    metavar="STEP[,STEP]",
    help="Only these: settle, clean, metadata, archive, compact, cache, runs, check.  [default: all but check]",
)
@click.option(
    "--checkpoints", metavar="DIR", help="Folder for working data; default: TABLE.lakeindex beside the table."
)
@pairs_option
@json_option
def maintain(table: str, steps: str | None, checkpoints: str | None, options: tuple[str, ...], as_json: bool) -> None:
    """Do all maintenance: settle what dead writers left, clean, compact the metadata table, archive, compact a stored
    index, fill the footer cache, drop dead runs.

    A failed step ends the command; the steps before it remain done.
    """
    from lakeindex.api.table import LakeTable

    summary = LakeTable(table).maintain(
        split_names(steps) or None, options=parse_pairs(options), checkpoints=checkpoints
    )
    say(summary, as_json=as_json)


@click.command()
@table_argument
@click.argument("instant", metavar="INSTANT", shell_complete=complete_instant)
@_force
@pairs_option
@json_option
def rollback(table: str, instant: str, force: bool, options: tuple[str, ...], as_json: bool) -> None:
    """Roll back the newest commit, or a pending instant whose writer is dead.

    The batch that it committed may be committed again afterwards.
    """
    config = parse_options(parse_pairs(options))
    from lakeindex.operations.table_services import rollback_table

    summary = rollback_table(table, instant, config, force=force)
    say(summary, as_json=as_json)
