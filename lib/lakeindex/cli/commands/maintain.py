"""Commands that maintain a table: its files and timeline, buckets, stored index, metadata table, and what is to be
mended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lakeindex.cli.shared import (
    complete_instant,
    given_options,
    json_option,
    named_only,
    pairs_option,
    parse_pairs,
    passed_on,
    progress,
    runner_options,
    say,
    say_compared,
    table_argument,
)
from lakeindex.errors import REPAIR_KEYS, InvariantError, OptionError
from lakeindex.options.parse import parse_options

if TYPE_CHECKING:
    from lakeindex.operations.index import IndexVerified
    from lakeindex.operations.metadata import MetadataVerified

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
    help="Only these: settle, repair, savepoint, cluster, clean, metadata, archive, compact, cache, runs, sync, "
    "check.  [default: all but repair, cluster and check]",
)
@click.option(
    "--checkpoints", metavar="DIR", help="Folder for working data; default: TABLE.lakeindex beside the table."
)
@runner_options
@pairs_option
@json_option
def maintain(*, table: str, steps: str | None, as_json: bool, **given: Any) -> None:
    """Do all maintenance: settle what dead writers left, keep a commit (if asked), clean, compact the metadata table,
    archive, compact a stored index, fill the footer cache, drop dead runs, sync the catalogs of lakeindex.sync; repair,
    cluster and check on request.

    A failed step ends the command; the steps before it remain done.
    """
    from lakeindex.api.table import LakeTable

    say(LakeTable(table).maintain(named_only(steps, "--steps"), **passed_on(**given)), as_json=as_json)


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


@click.command()
@table_argument
@click.option(
    "--catalog",
    "catalogs",
    multiple=True,
    type=click.Choice(["glue", "hive"]),
    help="Catalog; may be repeated.  [default: those of -o lakeindex.sync]",
)
@click.option("--check", is_flag=True, help="Only say what differs, of all partitions; exit code 6 if anything does.")
@click.option(
    "--all", "all_partitions", is_flag=True, help="Compare all partitions, not only those that commits changed."
)
@pairs_option
@json_option
@click.pass_context
def sync(
    ctx: click.Context,
    *,
    table: str,
    catalogs: tuple[str, ...],
    check: bool,
    all_partitions: bool,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a catalog, AWS Glue or a Hive Metastore, agree with the table.

    What was changed there by hand is mended. A sync that was killed goes on with the next one.
    """
    from lakeindex.api.table import LakeTable

    named: Any = catalogs or None
    done = LakeTable(table).sync(named, check=check, all_partitions=all_partitions, options=parse_pairs(options))
    broken = None
    if check and not done.agrees:
        names = ", ".join(f"{one.catalog} {one.name}" for one in done.catalogs if not one.agrees)
        broken = InvariantError(
            f"{names} does not agree with the table", culprit=table, hint="`lakeindex sync` mends it"
        )
    say_compared(ctx, done, broken, as_json=as_json)


@click.command()
@table_argument
@click.option("--buckets", type=int, metavar="N", help="Buckets (file groups) of every partition, also of future ones.")
@click.option(
    "--partition", "partitions", multiple=True, metavar="P=N", help="Buckets of one partition; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Only print what would be rewritten.")
@click.option("--force", is_flag=True, help="Consider every pending instant of another writer dead.")
@pairs_option
@json_option
def rescale(
    *,
    table: str,
    buckets: int | None,
    partitions: tuple[str, ...],
    dry_run: bool,
    force: bool,
    options: tuple[str, ...],
    as_json: bool,
) -> None:
    """Change the number of buckets of a table with the BUCKET index.

    Without counts: as Hudi's procedure partition_bucket_index_manager has noted.
    Rewrites the partitions concerned in one replacecommit; rows keep their commit times.
    A run that was killed goes on when the same command is given again.
    """
    pairs = parse_pairs(options)
    parse_options(pairs)
    counts = _counts(partitions)
    from lakeindex.api.table import LakeTable

    done = LakeTable(table).rescale(
        buckets, partitions=counts or None, dry_run=dry_run, force=force, options=pairs, progress=progress()
    )
    say(done, as_json=as_json)


def _counts(texts: tuple[str, ...]) -> dict[str, int]:
    """Partition paths may hold ``=`` themselves: the last one counts."""
    counts: dict[str, int] = {}
    for text in texts:
        path, sign, count = text.rpartition("=")
        if not sign or not count.strip().isdecimal():
            raise OptionError(f"--partition cannot be {text!r}", culprit=text, hint="write --partition PATH=COUNT")
        if counts.setdefault(path, int(count)) != int(count):
            raise OptionError(f"partition {path!r} is given two counts", culprit=text, hint="give one")
    return counts


@click.command()
@table_argument
@click.option("--where", multiple=True, metavar="P", help="Partition path, or a pattern with * and ?; may be repeated.")
@click.option(
    "--sort",
    type=click.Choice(["key", "columns", "zorder", "hilbert", "none"]),
    help="Order of the rows; none: as they are.  [default: key]",
)
@click.option("--columns", metavar="COLUMN[,COLUMN]", help="Columns to sort by.")
@click.option("--target-size", type=click.IntRange(1), metavar="BYTES", help="Size of a new base file, about.")
@click.option("--small-files-only", is_flag=True, help="Leave files alone that are not small.")
@click.option("--max-bytes", type=click.IntRange(1), metavar="BYTES", help="Most bytes of base files to rewrite.")
@click.option("--dry-run", is_flag=True, help="Only print what would be put together.")
@click.option("--schedule", is_flag=True, help="Only put the plan on the timeline.")
@click.option("--instant", metavar="INSTANT", help="Carry out a plan that is on the timeline.")
@_force
@runner_options
@pairs_option
@json_option
def cluster(*, table: str, where: tuple[str, ...], columns: str | None, as_json: bool, **given: Any) -> None:
    """Put base files together and sort their rows, so that fewer files are looked at for a key or a value.

    Rewrites the files concerned in one replacecommit; rows keep their commit times.
    A run that was killed goes on when the same command is given again.
    """
    from lakeindex.api.table import LakeTable

    done = LakeTable(table).cluster(list(where), columns=named_only(columns, "--columns"), **passed_on(**given))
    say(done, as_json=as_json)


_SHOWN = 20


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


@index.command("build")
@_index_options
def build_index(*, table: str, as_json: bool, **given: Any) -> None:
    """Build a stored index again from the key columns of all live files.

    What was built before stays in force until the new one is whole.
    A key that must be unique and is not ends with exit code 6, and nothing has changed.
    """
    from lakeindex.api.table import LakeTable

    done = LakeTable(table).index_build(**passed_on(**given))
    say(done, as_json=as_json)


@index.command("drop")
@_index_options
def drop_index(*, table: str, as_json: bool, **given: Any) -> None:
    """Remove a stored index. A table that is bound to it refuses writes until it is built again."""
    from lakeindex.api.table import LakeTable

    done = LakeTable(table).index_drop(**passed_on(**given))
    say(done, as_json=as_json)


@index.command("verify")
@_index_options
@click.pass_context
def verify_index(ctx: click.Context, /, *, table: str, as_json: bool, **given: Any) -> None:
    """Compare every entry of a stored index with the keys in the live files; exit code 6 if one is wrong."""
    from lakeindex.api.table import LakeTable

    found = LakeTable(table).index_verify(**passed_on(**given))
    broken = None if found.ok else _broken_index(found)
    say_compared(ctx, found, broken, as_json=as_json)


@index.command("status")
@_index_options
def status_index(*, table: str, as_json: bool, **given: Any) -> None:
    """Show the state of a stored index: generation, the commit it covers, deltas, keys, size."""
    from lakeindex.api.table import LakeTable

    found = LakeTable(table).index_status(**passed_on(**given))
    say(found, as_json=as_json)


@index.command("migrate")
@_index_options
@click.option("--to", required=True, metavar="TYPE", help="New index type of the table.")
@click.option("--dry-run", is_flag=True, help="Check what can be checked, and change nothing.")
@click.option("--force", is_flag=True, help="Consider every pending instant of another writer dead.")
def migrate_index(*, table: str, as_json: bool, to: str, dry_run: bool, force: bool, **given: Any) -> None:
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


def _broken_index(found: IndexVerified) -> InvariantError:
    from lakeindex.showing.results import index_faults

    counts = (f"{n} {what}" for n, what in index_faults(found) if n)
    return InvariantError(
        f"index {found.index_type} of table {found.table} is wrong: {', '.join(counts)}",
        culprit=found.examples[0].key,
        hint=REPAIR_KEYS if found.doubled else "lakeindex index build TABLE",
    )


@click.group()
def metadata() -> None:
    """Build, drop, verify or show the metadata table, from which Hudi's readers list the table's files.

    Every write keeps it up (option lakeindex.metadata.table).
    """


@metadata.command("build")
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
def build_metadata(
    table: str, partitions: tuple[str, ...], force: bool, options: tuple[str, ...], as_json: bool
) -> None:
    """Build the metadata table, or add partitions to it. Readers use each once it is whole.

    By default a table of version 6 gets files, a later one also column_stats and, if it is partitioned,
    partition_stats. A record_index that is named and there is made anew.
    """
    config = parse_options(parse_pairs(options))
    from lakeindex.operations.metadata import metadata_build

    done = metadata_build(table, partitions, config, force=force)
    say(done, as_json=as_json)


@metadata.command("drop")
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
def drop_metadata(table: str, partitions: tuple[str, ...], options: tuple[str, ...], as_json: bool) -> None:
    """Take the metadata table away. Readers list folders from then on; no row is touched.

    A Hudi writer with hoodie.metadata.enable=true (its default) builds it anew.
    """
    config = parse_options(parse_pairs(options))
    from lakeindex.operations.metadata import metadata_drop

    done = metadata_drop(table, partitions, config)
    say(done, as_json=as_json)


@metadata.command("status")
@table_argument
@json_option
def status_metadata(table: str, as_json: bool) -> None:
    """Show which partitions the metadata table has, their size, and the newest compaction."""
    from lakeindex.operations.metadata import metadata_status

    found = metadata_status(table)
    say(found, as_json=as_json)


@metadata.command("verify")
@table_argument
@json_option
@click.pass_context
def verify_metadata(ctx: click.Context, /, table: str, as_json: bool) -> None:
    """Compare the metadata table with files, footers and record keys; exit code 6 if it says something wrong."""
    from lakeindex.operations.metadata import metadata_verify

    found = metadata_verify(table)
    broken = None if found.ok else _broken_metadata(found)
    say_compared(ctx, found, broken, as_json=as_json)


def _broken_metadata(found: MetadataVerified) -> InvariantError:
    counts = ", ".join(f"{count} {kind}" for kind, count in found.counts.items())
    return InvariantError(
        f"the metadata table of {found.table} is wrong: {counts}",
        culprit=found.examples[0].path,
        hint=found.examples[0].mend,
    )
