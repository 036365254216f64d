"""Commands that mend a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lakeindex.cli.shared import (
    checkpoints_option,
    json_option,
    named_only,
    pairs_of,
    pairs_option,
    parse_pairs,
    progress,
    say,
    table_argument,
)
from lakeindex.options.parse import parse_options

if TYPE_CHECKING:
    from lakeindex.api.maintaining import KeepName

_apply = click.option("--apply", is_flag=True, help="Do it; without it nothing is written.")
_force = click.option("--force", is_flag=True, help="Roll back pending instants of other writers whatever their age.")


class WithDefault(click.Group):
    """A group that is a command, too: what follows is its own unless that names one of its commands.

    Attributes:
        default: that command.
    """

    default: click.Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return self.default.name, self.default, args

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["--", *args]  # its options are not the group's
        return super().parse_args(ctx, args)


@click.group(cls=WithDefault)
def repair() -> None:
    """Mend what `lakeindex check` finds: `lakeindex repair TABLE` prints a plan, with --apply it is done.

    Each mend rests on positive evidence; what has none is named, with the reason and what you can do. What is removed
    or replaced is kept in TABLE.repaired beside the table.
    """


@click.command("repair")
@table_argument
@click.option(
    "--only",
    metavar="KIND[,KIND]",
    help="Only these: metadata, pending, partition, requested, clean, stray, leftover, footer, file, keys.  "
    "[default: all]",
)
@_apply
@_force
@checkpoints_option
@pairs_option
@json_option
def everything(*, table: str, only: str | None, options: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Mend what `lakeindex check` finds. Without --apply nothing is written."""
    pairs = parse_pairs(options)
    parse_options(pairs)
    from lakeindex.api.table import LakeTable

    kinds: Any = named_only(only, "--only")
    say(LakeTable(table).repair(kinds, options=pairs, progress=progress(), **given), as_json=as_json)


repair.default = everything


@repair.command()
@table_argument
@click.option(
    "--keep",
    type=click.Choice(["newest", "oldest", "ordering"]),
    help="Which row stays; default: ordering where the table's rows win by it, else newest.",
)
@_apply
@_force
@checkpoints_option
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


@repair.command()
@table_argument
@click.option("--key", metavar="F[,F]", help="Columns of the record key.")
@click.option("--partition", metavar="F[,F]", help="Columns of the partition path.")
@click.option("--ordering", metavar="F[,F]", help="Columns that say which version of a row is newer.")
@click.option(
    "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A property as it was; may be repeated."
)
@_apply
@pairs_option
@json_option
def properties(
    *,
    table: str,
    properties: tuple[str, ...],
    apply: bool,
    options: tuple[str, ...],
    as_json: bool,
    **fields: str | None,
) -> None:
    """Make a lost hoodie.properties again, of its backup, or of what is written elsewhere and what you say.

    Nothing is guessed: what nothing shows has to be given, and must make the keys and paths of stored rows again.
    """
    from lakeindex.api.table import LakeTable

    named: Any = {name: named_only(text, f"--{name}") for name, text in fields.items()}
    said = pairs_of(properties, "--property", "property")
    done = LakeTable(table).repair_properties(**named, properties=said, apply=apply, options=parse_pairs(options))
    say(done, as_json=as_json)


@repair.command()
@table_argument
@click.option("--repair", metavar="NAME", help="Only what this repair has kept.  [default: all]")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@json_option
def discard(table: str, repair: str | None, dry_run: bool, as_json: bool) -> None:
    """Remove what repairs have kept in TABLE.repaired beside the table."""
    from lakeindex.api.table import LakeTable

    say(LakeTable(table).repair_discard(repair, dry_run=dry_run), as_json=as_json)
