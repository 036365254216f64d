"""``lakeindex index``: the stored index of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, progress, say, say_compared, table_argument
from lakeindex.errors import REPAIR_KEYS, InvariantError, OptionError
from lakeindex.options.parse import parse_options

if TYPE_CHECKING:
    from lakeindex.cli.screen import Screen
    from lakeindex.commands.index.index import IndexBuilt, IndexDropped, IndexStatus
    from lakeindex.commands.index.verify import IndexVerified
    from lakeindex.commands.upkeep.migrate import IndexMigrated

_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS = (
    table_argument,
    click.option("--type", "index_type", metavar="T", help="Which index; default: the one the table is bound to."),
    click.option(
        "--runner",
        type=click.Choice(["local", "spark"]),
        default="local",
        show_default=True,
        help="Threads of this process, or Spark.",
    ),
    click.option("--master", metavar="M", help="Spark master, e.g. local[4] or spark://host:7077."),
    click.option(
        "--checkpoints", metavar="DIR", help="Folder for working data; default: TABLE.lakeindex beside the table."
    ),
    pairs_option,
    json_option,
)


def _index_options(function: _F) -> _F:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


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

    done = LakeTable(table).index_build(**_arguments(**given))
    say(done, lambda console: _show_built(console, done), as_json=as_json)


@index.command()
@_index_options
def drop(*, table: str, as_json: bool, **given: Any) -> None:
    """Remove a stored index. A table that is bound to it refuses writes until it is built again."""
    from lakeindex.api.table import LakeTable

    done = LakeTable(table).index_drop(**_arguments(**given))
    say(done, lambda console: _show_dropped(console, done), as_json=as_json)


@index.command()
@_index_options
@click.pass_context
def verify(ctx: click.Context, /, *, table: str, as_json: bool, **given: Any) -> None:
    """Compare every entry of a stored index with the keys in the live files; exit code 6 if one is wrong."""
    from lakeindex.api.table import LakeTable

    found = LakeTable(table).index_verify(**_arguments(**given))
    broken = None if found.ok else _broken(found)
    say_compared(ctx, found, broken, lambda console: _show_verified(console, found), as_json=as_json)


@index.command()
@_index_options
def status(*, table: str, as_json: bool, **given: Any) -> None:
    """Show the state of a stored index: generation, the commit it covers, deltas, keys, size."""
    from lakeindex.api.table import LakeTable

    found = LakeTable(table).index_status(**_arguments(**given))
    say(found, lambda console: _show_status(console, found), as_json=as_json)


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

    arguments = _arguments(**given)
    if arguments.pop("index_type") is not None:
        raise OptionError("--type has no meaning here", culprit="--type", hint="--to names the index")
    done = LakeTable(table).index_migrate(to, dry_run=dry_run, force=force, **arguments)
    say(done, lambda console: _show_migrated(console, done), as_json=as_json)


def _arguments(
    *,
    index_type: str | None,
    runner: str,
    master: str | None,
    checkpoints: str | None,
    options: tuple[str, ...],
) -> dict[str, Any]:
    pairs = parse_pairs(options)
    parse_options(pairs)
    if master is not None and runner != "spark":
        raise OptionError("--master has no meaning for the local runner", culprit="--master", hint="add --runner spark")
    return {
        "index_type": index_type,
        "options": pairs,
        "checkpoints": checkpoints,
        "runner": runner,
        "master": master,
        "progress": progress(),
    }


def _broken(found: IndexVerified) -> InvariantError:
    counts = (f"{n} {what}" for n, what in _faults(found) if n)
    return InvariantError(
        f"index {found.index_type} of table {found.table} is wrong: {', '.join(counts)}",
        culprit=found.examples[0].key,
        hint=REPAIR_KEYS if found.doubled else "lakeindex index build TABLE",
    )


def _faults(found: IndexVerified) -> tuple[tuple[int, str], ...]:
    return (
        (found.missing, "keys without an entry"),
        (found.wrong, "entries that name another place"),
        (found.surplus, "entries of keys that are not stored"),
        (found.doubled, "keys stored twice"),
    )


def _show_built(console: Screen, done: IndexBuilt) -> None:
    console.print(
        f"built {done.index_type} as {done.generation}: {done.rows:,} keys of {done.files:,} files, through "
        f"{done.covered_through or 'the beginning'}, {done.bytes:,} bytes, {done.seconds:.2f} s",
        markup=False,
    )


def _show_migrated(console: Screen, done: IndexMigrated) -> None:
    from lakeindex.cli.rendering import show_notes

    show_notes(console, done.notes)
    if done.noop:
        console.print(f"the index of {done.table} is {done.index_type} already", markup=False)
        return
    facts = [
        f"{done.keys_checked:,} keys proven unique" if done.keys_checked else "",
        f"{done.rows_built:,} keys built" if done.rows_built else "",
        f"{done.rows_rewritten:,} rows in {done.files_rewritten:,} files rewritten" if done.files_rewritten else "",
        "no file rewritten" if not done.files_rewritten else "",
        f"{done.seconds:.2f} s",
    ]
    what = "would migrate" if done.dry_run else "migrated"
    at = f" at {done.instant}" if done.instant else ""
    console.print(f"{what} {done.before} to {done.index_type}{at}: {', '.join(f for f in facts if f)}", markup=False)


def _show_dropped(console: Screen, done: IndexDropped) -> None:
    what = "removed" if done.was_built else "was not built; removed what was left of"
    console.print(f"{what} {done.index_type} ({done.bytes:,} bytes)", markup=False)


def _show_verified(console: Screen, found: IndexVerified) -> None:
    console.print(
        f"compared {found.entries:,} entries of {found.index_type} with {found.rows:,} keys in {found.files:,} files; "
        f"{found.seconds:.2f} s",
        markup=False,
    )
    if found.files_behind:
        console.print(f"note: {found.files_behind:,} files are not covered yet; the next write reads them first")
    for count, what in _faults(found):
        if count:
            console.print(f"{count:,} {what}", markup=False)
    for one in found.examples:
        places = f"stored in {one.stored or 'no file'}, entry says {one.entry or 'nothing'}"
        console.print(f"  {one.kind} {one.key!r}: {places}", markup=False)
    if found.ok:
        console.print("[green]every entry is right[/green]")


def _show_status(console: Screen, found: IndexStatus) -> None:
    state = "built" if found.is_built else "not built: lakeindex index build TABLE"
    in_metadata = found.kept_in != "lakeindex"
    rows = (
        ("index", found.index_type + ("" if found.is_bound else " (the table is not bound to it)")),
        ("kept in", "the metadata table, by every commit" if in_metadata else "lakeindex's own store"),
        ("state", state),
        ("generation", found.generation or "none"),
        ("covers", f"through {found.covered_through or 'nothing'}; the newest commit is {found.last_commit or 'none'}"),
        ("files", f"{found.files:,} covered, {found.files_behind:,} to be read by the next write"),
        ("deltas", f"{found.deltas:,}"),
        ("keys", "not counted" if found.rows is None else f"{found.rows:,}"),
        ("size", f"{found.bytes:,} bytes"),
    )
    for name, value in rows:
        console.print(f"{name:<11} {value}", markup=False)
