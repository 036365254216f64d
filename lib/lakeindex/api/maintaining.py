"""Changes of a table's layout, and mending it: methods of :class:`lakeindex.LakeTable`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lakeindex.api.arguments import RunArguments
from lakeindex.api.batch_data import PathText, PointInTime, names_of, point_text
from lakeindex.api.own_stores import in_its_stores
from lakeindex.api.run import Request, chosen_runner
from lakeindex.model import Change, Operation
from lakeindex.options.parse import Options, option_texts, parse_options
from lakeindex.time_spent import accounting, loading

if TYPE_CHECKING:
    from lakeindex.api.table import LakeTable
    from lakeindex.catalogs.syncing import SyncSummary
    from lakeindex.operations.repair import RepairSummary
    from lakeindex.operations.repair_kept import RepairDiscarded
    from lakeindex.operations.repair_keys import KeysRepaired
    from lakeindex.operations.repair_properties import PropertiesRepaired
    from lakeindex.operations.rescale_run import RescaleSummary
    from lakeindex.operations.restore import RestoreSummary, Savepoints, SavepointSummary
    from lakeindex.tasks.progress_bars import ProgressChoice

CatalogName: TypeAlias = Literal["glue", "hive"]
"""A kind of catalog."""

KeepName: TypeAlias = Literal["newest", "oldest", "ordering"]
"""Which row stays of a key that is stored more than once."""

MendName: TypeAlias = Literal[
    "metadata", "pending", "partition", "requested", "clean", "stray", "leftover", "footer", "file", "keys"
]
"""What a repair mends."""


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
        partitions: or buckets of some partitions, by partition path; neither: as Hudi's procedure
            ``partition_bucket_index_manager`` has noted in the table since it was bound.
        dry_run: say what would be rewritten, and do nothing.
        force: consider every pending instant of another writer dead.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        progress: receives the progress of the steps; by default bars in a notebook and on a terminal; False: none.

    Returns:
        What was rewritten; ``noop`` if the table had these buckets.

    Raises:
        UsageError: not a bucket table, no such partition, both of the counts are given, or neither and none is noted.
        ConflictError: other writers are in the way for good; nothing was published.
    """
    from lakeindex.operations.rescale import rescale_table

    config = parse_options(options or {})
    runner = chosen_runner(config.parallelism, {"progress": progress})
    return rescale_table(
        table.uri, runner, buckets=buckets, partitions=partitions, config=config, dry_run=dry_run, force=force
    )


@in_its_stores
def repair(
    table: LakeTable,
    only: Sequence[MendName] | MendName | None = None,
    *,
    apply: bool = False,
    force: bool = False,
    options: Options | None = None,
    checkpoints: PathText | None = None,
    progress: ProgressChoice = None,
) -> RepairSummary:
    """Mend what a check finds, on positive evidence only: a plan by default. What is removed or replaced is kept in
    ``<table>.repaired`` beside the table, until :meth:`repair_discard`. A repair that was killed is finished by the
    next one (docs/repair.md).

    Args:
        only: these kinds of mends; by default all, for which all rows are read.
        apply: do it; otherwise only say what would be done, and why the rest would not, and write nothing.
        force: consider every pending instant of another writer dead.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        checkpoints: root of the run folders, for keys that are stored twice; by default ``<table>.lakeindex`` beside
            the table.
        progress: receives the progress of the steps; by default bars in a notebook and on a terminal; False: none.

    Raises:
        OptionError: there is no such kind.
        TableNotFoundError: no table; of one whose properties are lost the hint says what to do.
        ConflictError: another writer is in flight or holds the lock.
    """
    from lakeindex.operations.repair import Asked, repair_table

    texts = option_texts(options or {})
    config = parse_options(texts)
    runner = chosen_runner(config.parallelism, {"progress": progress})
    asked: dict[str, Any] = {"options": texts, "checkpoints": checkpoints, "force": force, "progress": progress}

    def repaired(*, dry_run: bool) -> KeysRepaired:
        return repair_keys(table, apply=not dry_run, **asked)

    named = names_of([only] if isinstance(only, str) else only, "only")
    return repair_table(table.uri, runner, repaired, Asked(named, apply, force), config)


@in_its_stores
def repair_properties(
    table: LakeTable,
    *,
    key: Sequence[str] | str | None = None,
    partition: Sequence[str] | str | None = None,
    ordering: Sequence[str] | str | None = None,
    properties: Mapping[str, str] | None = None,
    apply: bool = False,
    options: Options | None = None,
) -> PropertiesRepaired:
    """Make a lost ``hoodie.properties`` again: of its backup, or of the timeline, the metadata table, what is bound in
    ``.hoodie/.lakeindex``, and what is said here. Nothing is guessed; the fields of keys and partition paths must make
    the keys and paths of stored rows again.

    Args:
        key: columns of the record key.
        partition: columns of the partition path.
        ordering: columns that say which version of a row is newer.
        properties: properties as they were, by name; they are laid over what is found.
        apply: write it; otherwise only say what it would be.
        options: ``hoodie.*`` options as of a new table: version, key generator, hive style.

    Raises:
        TableNotFoundError: there is no table.
        UsageError: something that nothing shows is not said, or does not fit the stored rows; nothing was written.
    """
    from lakeindex.operations.repair_properties import Given, repair_properties

    def named(fields: Sequence[str] | str | None, name: str) -> tuple[str, ...]:
        return names_of([fields] if isinstance(fields, str) else fields, name) or ()

    given = Given(
        key=named(key, "key"),
        partition=named(partition, "partition"),
        ordering=named(ordering, "ordering"),
        properties=dict(properties or {}),
        options=option_texts(options or {}),
    )
    return repair_properties(table.uri, given, apply=apply)


@in_its_stores
def repair_discard(table: LakeTable, repair: str | None = None, *, dry_run: bool = False) -> RepairDiscarded:
    """Remove what repairs have kept beside the table.

    Args:
        repair: only what this one has kept, by the name of its folder; by default all.
        dry_run: only say what would be removed.

    Raises:
        UsageError: there is no such repair, or it was cut short and needs what it has kept.
    """
    from lakeindex.operations.repair_kept import discard_kept

    return discard_kept(table.uri, repair, dry_run=dry_run)


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
def savepoint_create(
    table: LakeTable,
    instant: str | None = None,
    *,
    comment: str = "",
    force: bool = False,
    options: Options | None = None,
) -> SavepointSummary:
    """Keep a commit, so that the table can be restored to it: no clean takes its files, and it is not archived, nor
    anything newer, until the savepoint is deleted.

    Args:
        instant: a completed write; default: the newest.
        comment: why.
        force: consider every pending instant of another writer dead.
        options: ``hoodie.*`` and ``lakeindex.*`` options.

    Raises:
        UsageError: there is no such write.
        TableUnsupportedError: files that the table had then were cleaned away.
    """
    from lakeindex.operations import restore as restoring

    return restoring.savepoint_create(table.uri, instant, comment, parse_options(options or {}), force=force)


@in_its_stores
def savepoint_list(table: LakeTable) -> Savepoints:
    """The savepoints of the table, oldest first; those of other writers, too."""
    from lakeindex.operations import restore as restoring

    return restoring.savepoint_list(table.uri)


@in_its_stores
def savepoint_delete(
    table: LakeTable, instant: str, *, force: bool = False, options: Options | None = None
) -> SavepointSummary:
    """Let a commit be cleaned and archived as any other.

    Args:
        instant: the commit of the savepoint.
        force: consider every pending instant of another writer dead.
        options: ``hoodie.*`` and ``lakeindex.*`` options.

    Raises:
        UsageError: there is no such savepoint.
    """
    from lakeindex.operations import restore as restoring

    return restoring.savepoint_delete(table.uri, instant, parse_options(options or {}), force=force)


@in_its_stores
def restore(
    table: LakeTable,
    to: PointInTime | None = None,
    *,
    before: PointInTime | None = None,
    dry_run: bool = False,
    force: bool = False,
    options: Options | None = None,
) -> RestoreSummary:
    """Take the table back to a commit: all that was committed after it goes, in one step. Batches that went can be
    sent again. A restore that was killed is carried to its end by the next write.

    Args:
        to: a completed write, savepointed or not; ``history()`` and ``savepoint_list()`` say which there are. Or an
            ISO time, in UTC unless it says otherwise: what was committed by then stays.
        before: or the oldest write that goes, too: several commits are rolled back in one step. Or a time from which
            on all goes.
        dry_run: say which commits, files and rows would go, and do nothing.
        force: consider every pending instant of another writer dead.
        options: ``hoodie.*`` and ``lakeindex.*`` options.

    Raises:
        UsageError: there is no such write on the timeline, or none before it.
        TableUnsupportedError: files of then were cleaned away, later commits were archived, or a savepoint keeps one.
        ConflictError: another writer is in flight, or has written since the table was looked at; nothing was changed.
    """
    from lakeindex.operations import restore as restoring

    asked, earlier = point_text(to, "to"), point_text(before, "before")
    config = parse_options(options or {})
    return restoring.restore(table.uri, asked, config, before=earlier, dry_run=dry_run, force=force)


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
