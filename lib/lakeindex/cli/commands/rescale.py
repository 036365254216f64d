"""``lakeindex rescale``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lakeindex.cli.shared import json_option, pairs_option, parse_pairs, progress, say, table_argument
from lakeindex.errors import OptionError
from lakeindex.options.parse import parse_options

if TYPE_CHECKING:
    pass


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
