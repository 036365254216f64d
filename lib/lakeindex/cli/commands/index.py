"""``lakeindex index``: the stored index of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lakeindex.cli.shared import (
    given_options,
    json_option,
    pairs_option,
    passed_on,
    runner_options,
    say,
    say_compared,
    table_argument,
)
from lakeindex.errors import REPAIR_KEYS, InvariantError, OptionError

if TYPE_CHECKING:
    from lakeindex.operations.index import IndexVerified

_index_options = given_options(
    table_argument,
    click.option("--type", "index_type", metavar="T", help="Which index; default: the one the table is bound to."),
    runner_options,
    click.option(
        "--checkpoints", metavar="DIR", help="Folder for working data; default: TABLE.lakeindex beside the table."
    ),
    pairs_option,
    json_option,
)


@click.group()
def index() -> None:
    """Build, drop, verify or show the stored index of a table."""


@index.command()
@_index_options
def build(*, table: str, as_json: bool, **given: Any) -> None:
    """Build a stored index again from the key columns of all live files.

    What was built before stays in force until the new one is whole.
    A key that must be unique and is not ends with exit code 6, and nothing has changed.
    """
    from lakeindex.api.table import LakeTable

    done = LakeTable(table).index_build(**passed_on(**given))
    say(done, as_json=as_json)


@index.command()
@_index_options
def drop(*, table: str, as_json: bool, **given: Any) -> None:
    """Remove a stored index. A table that is bound to it refuses writes until it is built again."""
    from lakeindex.api.table import LakeTable

    done = LakeTable(table).index_drop(**passed_on(**given))
    say(done, as_json=as_json)


@index.command()
@_index_options
@click.pass_context
def verify(ctx: click.Context, /, *, table: str, as_json: bool, **given: Any) -> None:
    """Compare every entry of a stored index with the keys in the live files; exit code 6 if one is wrong."""
    from lakeindex.api.table import LakeTable

    found = LakeTable(table).index_verify(**passed_on(**given))
    broken = None if found.ok else _broken(found)
    say_compared(ctx, found, broken, as_json=as_json)


@index.command()
@_index_options
def status(*, table: str, as_json: bool, **given: Any) -> None:
    """Show the state of a stored index: generation, the commit it covers, deltas, keys, size."""
    from lakeindex.api.table import LakeTable

    found = LakeTable(table).index_status(**passed_on(**given))
    say(found, as_json=as_json)


@index.command()
@_index_options
@click.option("--to", required=True, metavar="TYPE", help="New index type of the table.")
@click.option("--dry-run", is_flag=True, help="Check what can be checked, and change nothing.")
@click.option("--force", is_flag=True, help="Consider every pending instant of another writer dead.")
def migrate(*, table: str, as_json: bool, to: str, dry_run: bool, force: bool, **given: Any) -> None:
    """Change a table's index type. A type that stores nothing costs nothing, a stored index is built,
    BUCKET rewrites the table.

    Keys are proven to be unique in the whole table before it gets a global index.
    """
    from lakeindex.api.table import LakeTable

    arguments = passed_on(**given)
    if arguments.pop("index_type") is not None:
        raise OptionError("--type has no meaning here", culprit="--type", hint="--to names the index")
    done = LakeTable(table).index_migrate(to, dry_run=dry_run, force=force, **arguments)
    say(done, as_json=as_json)


def _broken(found: IndexVerified) -> InvariantError:
    from lakeindex.showing.upkeep import index_faults

    counts = (f"{n} {what}" for n, what in index_faults(found) if n)
    return InvariantError(
        f"index {found.index_type} of table {found.table} is wrong: {', '.join(counts)}",
        culprit=found.examples[0].key,
        hint=REPAIR_KEYS if found.doubled else "lakeindex index build TABLE",
    )
