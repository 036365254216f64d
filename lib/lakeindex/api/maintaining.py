"""Changes of a table's layout, and mending it: methods of :class:`lakeindex.LakeTable`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from lakeindex.api.arguments import RunArguments
from lakeindex.api.batch_data import PathText, names_of
from lakeindex.api.own_stores import in_its_stores
from lakeindex.api.run import Request, chosen_runner
from lakeindex.model import Change, Operation
from lakeindex.options.parse import Options, parse_options
from lakeindex.time_spent import accounting, loading

if TYPE_CHECKING:
    from lakeindex.api.table import LakeTable
    from lakeindex.catalogs.syncing import SyncSummary
    from lakeindex.operations.repair_keys import KeysRepaired
    from lakeindex.operations.rescale_run import RescaleSummary
    from lakeindex.tasks.progress_bars import ProgressChoice

CatalogName: TypeAlias = Literal["glue", "hive"]
"""A kind of catalog."""

KeepName: TypeAlias = Literal["newest", "oldest", "ordering"]
"""Which row stays of a key that is stored more than once."""


@in_its_stores
def rescale(
    table: LakeTable,
    buckets: int | None = None,
    *,
    partitions: Mapping[str, int] | None = None,
    dry_run: bool = False,
    force: bool = False,
    options: Options | None = None,
    progress: ProgressChoice = None,
) -> RescaleSummary:
    """Change the number of buckets of a table with the BUCKET index, in one replacecommit; rows keep their commit
    times. A run that was killed goes on when the same call is made again.

    Args:
        buckets: buckets (file groups) of every partition, also of future ones.
        partitions: or buckets of some partitions, by partition path.
        dry_run: say what would be rewritten, and do nothing.
        force: consider every pending instant of another writer dead.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        progress: receives the progress of the steps; by default bars in a notebook and on a terminal; False: none.

    Returns:
        What was rewritten; ``noop`` if the table had these buckets.

    Raises:
        UsageError: not a bucket table, no such partition, or neither or both of the counts are given.
        ConflictError: other writers are in the way for good; nothing was published.
    """
    from lakeindex.operations.rescale import rescale_table

    config = parse_options(options or {})
    runner = chosen_runner(config.parallelism, {"progress": progress})
    return rescale_table(
        table.uri, runner, buckets=buckets, partitions=partitions, config=config, dry_run=dry_run, force=force
    )


@in_its_stores
@accounting()
def repair_keys(
    table: LakeTable,
    *,
    keep: KeepName | None = None,
    apply: bool = False,
    options: Options | None = None,
    checkpoints: PathText | None = None,
    force: bool = False,
    progress: ProgressChoice = None,
) -> KeysRepaired:
    """Keep one row of every key that is stored more than once, as Hudi's ``insert`` can store it, and delete the others
    in one commit. All record keys of the table are read.

    Args:
        keep: which row stays: ``newest`` (of the newest commit), ``oldest``, or ``ordering`` (with the greatest
            ordering value); by default ordering where it decides which version of a row wins, else newest.
        apply: do it; otherwise only say what would be done, and write nothing.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        checkpoints: root of the run folders; by default ``<table>.lakeindex`` beside the table.
        force: roll back pending instants of other writers whatever their age.
        progress: receives the progress of the steps; by default bars in a notebook and on a terminal; False: none.

    Returns:
        The keys, and for the first hundred which files hold them and which row stays.

    Raises:
        OptionError: there is no such choice, or no ordering field to choose by.
        ConflictError: other writers are in the way for good; nothing was published.
    """
    with loading():
        from lakeindex.operations import repair_keys as repairing
        from lakeindex.run.spec import ChosenRows

    asked: RunArguments = {"options": options, "checkpoints": checkpoints, "force": force}
    asked |= {"progress": progress, "dry_run": not apply}
    chosen = ChosenRows(Change.REPAIR, "", "that their keys are stored more than once", (("keep", str(keep)),))
    request = Request.of(table.uri, Operation.DELETE, asked, chosen=chosen)
    return repairing.repair_keys(request.spec, request.runner, keep, request.done, dry_run=request.dry_run)


@in_its_stores
def sync(
    table: LakeTable,
    catalogs: Sequence[CatalogName] | CatalogName | None = None,
    *,
    check: bool = False,
    all_partitions: bool = False,
    options: Options | None = None,
) -> SyncSummary:
    """Make catalogs agree with the table: its entry, columns and partitions there (docs/catalogs.md).

    Args:
        catalogs: ``glue``, ``hive``; by default those of the option ``lakeindex.sync``.
        check: only say what differs, of all partitions; nothing is written.
        all_partitions: compare all partitions, not only those of commits since the last sync.
        options: ``hoodie.*`` and ``lakeindex.*`` options.

    Returns:
        What was changed in each catalog, or would be.

    Raises:
        OptionError: no catalog is named, or one that there is not.
        TableExistsError: another table has the name there.
        SchemaMismatchError: a change of a column that a catalog cannot hold; nothing was changed.
        AccessDeniedError, CatalogError: of a catalog; the next sync goes on where this one ended.
    """
    from lakeindex.catalogs.syncing import sync_table

    named = names_of([catalogs] if isinstance(catalogs, str) else catalogs, "catalogs") or ()
    return sync_table(
        table.uri, parse_options(options or {}), catalogs=named, check=check, all_partitions=all_partitions
    )
