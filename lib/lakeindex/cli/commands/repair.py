"""``lakeindex repair``: mend what another writer has left in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, progress, say, table_argument
from lakeindex.options.parse import parse_options

if TYPE_CHECKING:
    from lakeindex.api.upkeep import KeepName
    from lakeindex.cli.screen import Screen
    from lakeindex.commands.repair.repair_keys import KeysRepaired

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
    say(done, lambda console: _show(console, done), as_json=as_json)


def _show(console: Screen, done: KeysRepaired) -> None:
    from lakeindex.cli.rendering import show_notes
    from lakeindex.report.grid import escape

    show_notes(console, done.notes)
    if not done.keys:
        console.print(f"every key is stored once in its {done.scope}")
        return
    for one in done.found[:_SHOWN]:
        console.print(escape(f"{one.key}: stays in {one.kept}, goes from {', '.join(one.removed)}"))
    if done.keys > _SHOWN:
        console.print(f"and {done.keys - min(_SHOWN, len(done.found)):,} more keys")
    console.print(
        f"{done.keys:,} keys are stored more than once in their {done.scope}; the {done.keep} row of each stays, "
        f"{done.rows_removed:,} rows go, {done.files_rewritten:,} files change"
    )
    console.print(
        "nothing was written: --apply does it" if done.dry_run else f"committed {done.instant}, {done.seconds:.1f} s"
    )
