"""``lakeindex repair``: mend what another writer has left in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, progress, say, table_argument
from lakeindex.options.parse import parse_options

if TYPE_CHECKING:
    from lakeindex.api.upkeep import KeepName

_SHOWN = 20


@click.group()
def repair() -> None:
    """Mend what another writer has left in a table."""


@repair.command()
@table_argument
@click.option(
    "--keep",
    type=click.Choice(["newest", "oldest", "ordering"]),
    help="Which row stays; default: ordering where the table's rows win by it, else newest.",
)
@click.option("--apply", is_flag=True, help="Do it; without it nothing is written.")
@click.option("--force", is_flag=True, help="Roll back pending instants of other writers whatever their age.")
@click.option(
    "--checkpoints", metavar="DIR", help="Root of the run folders; default: TABLE.lakeindex beside the table."
)
@pairs_option
@json_option
def keys(
    *,
    table: str,
    keep: KeepName | None,
    apply: bool,
    force: bool,
    checkpoints: str | None,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Keep one row of every key that is stored more than once, and delete the others in one commit.

    Another writer's insert makes such keys: it looks none up. Without --apply nothing is written.
    """
    pairs = parse_pairs(options)
    parse_options(pairs)
    from lakeindex.api.table import LakeTable

    done = LakeTable(table).repair_keys(
        keep=keep, apply=apply, force=force, checkpoints=checkpoints, options=pairs, progress=progress()
    )
    say(done, as_json=as_json)
