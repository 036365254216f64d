"""Changes of a table's layout: methods of :class:`lakeindex.LakeTable`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakeindex.api.own_stores import in_its_stores
from lakeindex.api.run import chosen_runner
from lakeindex.options.parse import Options, parse_options

if TYPE_CHECKING:
    from lakeindex.api.table import LakeTable
    from lakeindex.commands.rescale.run import RescaleSummary
    from lakeindex.tasks.progress_bars import Progress


@in_its_stores
def rescale(
    table: LakeTable,
    buckets: int | None = None,
    *,
    partitions: Mapping[str, int] | None = None,
    dry_run: bool = False,
    force: bool = False,
    options: Options | None = None,
    progress: Progress | None = None,
) -> RescaleSummary:
    """Change the number of buckets of a table with the BUCKET index, in one replacecommit; rows keep their commit
    times. A run that was killed goes on when the same call is made again.

    Args:
        buckets: buckets (file groups) of every partition, also of future ones.
        partitions: or buckets of some partitions, by partition path.
        dry_run: say what would be rewritten, and do nothing.
        force: consider every pending instant of another writer dead.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        progress: receives the progress of the steps.

    Returns:
        What was rewritten; ``noop`` if the table had these buckets.

    Raises:
        UsageError: not a bucket table, no such partition, or neither or both of the counts are given.
        ConflictError: other writers are in the way for good; nothing was published.
    """
    from lakeindex.commands.rescale.rescale import rescale_table

    config = parse_options(options or {})
    runner = chosen_runner("local", config.parallelism, None, progress)
    return rescale_table(
        table.uri, runner, buckets=buckets, partitions=partitions, config=config, dry_run=dry_run, force=force
    )
