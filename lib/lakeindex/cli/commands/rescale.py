"""``lakeindex rescale``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, progress, say, table_argument
from lakeindex.errors import OptionError
from lakeindex.options.parse import parse_options

if TYPE_CHECKING:
    from lakeindex.cli.screen import Screen
    from lakeindex.commands.rescale.rescale import RescaleSummary


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
    say(done, lambda console: _show(console, done), as_json=as_json)


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


def _show(console: Screen, done: RescaleSummary) -> None:
    """What was rewritten, and what Hudi writers have to say from now on."""
    from lakeindex.cli.rendering import show_notes
    from lakeindex.report.grid import escape

    show_notes(console, done.notes)
    if done.noop:
        console.print(f"nothing to do: the table has these buckets already{_by(done)}")
        return
    for one in done.partitions:
        before = "another index" if one.buckets_before is None else f"{one.buckets_before} buckets"
        console.print(
            escape(
                f"{one.partition or '(the table)'}: {before} -> {one.buckets_after} ({one.files} files, "
                f"{one.bytes:,} bytes)"
            )
        )
    if done.dry_run:
        console.print(f"would rewrite {sum(one.files for one in done.partitions)} files; nothing was done")
    else:
        console.print(
            f"committed {done.instant}: {done.rows:,} rows in {done.files_created:,} files instead of "
            f"{done.files_replaced:,}, {done.seconds:.1f} s"
        )
    console.print("Hudi writers of this table need:", markup=False)
    for key, text in done.hudi_options.items():
        console.print(f"  {key}={text}", markup=False)


def _by(done: RescaleSummary) -> str:
    return f" (committed by {done.instant})" if done.instant else ""
