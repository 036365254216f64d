"""Commands that keep commits, and take a table back to one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from lakeindex.cli.shared import (
    complete_instant,
    is_terminal,
    json_option,
    pairs_option,
    parse_pairs,
    say,
    screen,
    table_argument,
)
from lakeindex.errors import UsageError
from lakeindex.options.parse import parse_options
from lakeindex.showing.notebook import shower

if TYPE_CHECKING:
    from lakeindex.operations.restore import RestoreSummary

_force = click.option("--force", is_flag=True, help="Consider every pending instant of another writer dead.")
_instant = click.argument("instant", metavar="INSTANT", shell_complete=complete_instant)


@click.group()
def savepoint() -> None:
    """Keep a commit, so that the table can be restored to it: no clean takes its files, and it is not archived."""


@savepoint.command()
@table_argument
@click.option(
    "--instant", metavar="INSTANT", shell_complete=complete_instant, help="A completed commit.  [default: the newest]"
)
@click.option("--comment", default="", metavar="TEXT", help="Why; `savepoint list` and `history` show it.")
@_force
@pairs_option
@json_option
def create(
    *, table: str, instant: str | None, comment: str, force: bool, options: tuple[str, ...], as_json: bool
) -> None:
    """Keep a commit. Nothing newer is archived either, until the savepoint is deleted."""
    from lakeindex.api.table import LakeTable

    done = LakeTable(table).savepoint_create(instant, comment=comment, force=force, options=parse_pairs(options))
    say(done, as_json=as_json)


@savepoint.command("list")
@table_argument
@json_option
def list_them(table: str, as_json: bool) -> None:
    """List the savepoints, oldest first; those of Hudi, too."""
    from lakeindex.api.table import LakeTable

    say(LakeTable(table).savepoint_list(), as_json=as_json)


@savepoint.command()
@table_argument
@_instant
@_force
@pairs_option
@json_option
def delete(table: str, instant: str, force: bool, options: tuple[str, ...], as_json: bool) -> None:
    """Let a commit be cleaned and archived as any other."""
    from lakeindex.api.table import LakeTable

    say(LakeTable(table).savepoint_delete(instant, force=force, options=parse_pairs(options)), as_json=as_json)


@click.command()
@table_argument
@click.option(
    "--to",
    metavar="INSTANT",
    shell_complete=complete_instant,
    help="The commit that the table is as of afterwards, or an ISO time.",
)
@click.option(
    "--before",
    metavar="INSTANT",
    shell_complete=complete_instant,
    help="Or the oldest commit that goes, too, or a time: several are rolled back in one step.",
)
@click.option("--dry-run", is_flag=True, help="Only print which commits, files and rows would go.")
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can be asked.")
@_force
@pairs_option
@json_option
def restore(*, table: str, dry_run: bool, yes: bool, options: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Take the table back to a commit: all that was committed after it goes, for readers in one step.

    Batches that went can be sent again. It is refused if files of then were cleaned away; a savepoint keeps them.
    A restore that was killed is carried to its end by the next write.
    """
    given["options"] = parse_pairs(options)
    config = parse_options(given["options"])
    from lakeindex.api.table import LakeTable

    wanted = LakeTable(table)
    if dry_run or yes:
        say(wanted.restore(dry_run=dry_run, **given), as_json=as_json)
        return
    from lakeindex.operations.restore import restore as restored

    planned = _asked(lambda: wanted.restore(dry_run=True, **given))
    say(restored(wanted.uri, planned.to, config, force=given["force"], shown=planned), as_json=as_json)


def _asked(plan: Callable[[], RestoreSummary]) -> RestoreSummary:
    """What a restore would take away, and the person at the terminal agrees to. Raises: UsageError: there is none, or
    what is asked for cannot be done.
    """
    planned = plan()
    if not (is_terminal(err=True) and sys.stdin.isatty()):
        raise UsageError(
            "a restore takes commits away, and there is nobody to ask",
            culprit="--yes",
            hint="look at --dry-run first, then give --yes",
        )
    shower(planned.shown_by)(screen(err=True), planned)
    if planned.commits and not click.confirm("take these commits away?", err=True):
        raise click.Abort
    return planned
