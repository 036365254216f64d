"""``lakeindex rollback``."""

from __future__ import annotations

import click

from lakeindex.cli.completion import complete_instant
from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, say, table_argument
from lakeindex.options.parse import parse_options


@click.command()
@table_argument
@click.argument("instant", metavar="INSTANT", shell_complete=complete_instant)
@click.option("--force", is_flag=True, help="Consider every pending instant of another writer dead.")
@pairs_option
@json_option
def rollback(table: str, instant: str, force: bool, options: tuple[str, ...], as_json: bool) -> None:
    """Roll back the newest commit, or a pending instant whose writer is dead.

    The batch that it committed may be committed again afterwards.
    """
    config = parse_options(parse_pairs(options))
    from lakeindex.cli.rendering import show_rollback
    from lakeindex.commands.upkeep.rollback_table import rollback_table

    summary = rollback_table(table, instant, config, force=force)
    say(summary, lambda console: show_rollback(console, summary), as_json=as_json)
