"""Remove files that no recent commit needs (clean), move instants out of the timeline (archive), take back an instant
(rollback).
"""

from __future__ import annotations

from typing import ClassVar

from lakeindex.catalogs.syncing import sync_after
from lakeindex.commit.services.archive import Archived, archive_table, plan_archiving
from lakeindex.commit.services.clean import Cleaned, clean_table, plan_clean
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import OptionError, PendingInstantError, UsageError
from lakeindex.format.instants import parse_point_in_time
from lakeindex.frozen import Frozen
from lakeindex.options.types import WriteConfig
from lakeindex.showing.json_result import TableResult
from lakeindex.table.handle import Table


class CleanSummary(TableResult):
    """What a clean deleted, or would delete.

    Attributes:
        dry_run: nothing was changed.
        keep_commits: commits whose files stay readable.
        instant: the clean's own instant; None if there was nothing to delete.
        earliest_retained: earliest commit that can still be read; None if the timeline has no more than are kept.
        files: base files that went, by path.
        bytes: their size.
        kept_for_savepoints: files that stayed only because a savepoint names them.
        finished: instants of unfinished cleans that were carried out first.
        notes: what was done to other writers' instants.
    """

    shown_by: ClassVar[str] = "results:show_clean"

    dry_run: bool
    keep_commits: int
    instant: str | None
    earliest_retained: str | None
    files: tuple[str, ...]
    bytes: int
    kept_for_savepoints: int
    finished: tuple[str, ...]
    notes: tuple[str, ...]


class ArchivedInstant(Frozen):
    """An instant that left the timeline."""

    time: str
    action: str


class ArchiveSummary(TableResult):
    """What archiving took from the timeline, or would take.

    Attributes:
        dry_run: nothing was changed.
        keep_commits: commits that stay on the timeline.
        instants: what went, oldest first.
        logs: archive files that were written, by path.
        strays: data files that no commit knows and that were deleted first, by path.
        held_by: what keeps more on the timeline than was asked for; None if nothing does.
        first_commit: the oldest commit that is left; None on an empty table.
        notes: what was done to other writers' instants.
    """

    shown_by: ClassVar[str] = "results:show_archive"

    dry_run: bool
    keep_commits: int
    instants: tuple[ArchivedInstant, ...]
    logs: tuple[str, ...]
    strays: tuple[str, ...]
    held_by: str | None
    first_commit: str | None
    notes: tuple[str, ...]


def clean(
    uri: str,
    keep_commits: int | None = None,
    config: WriteConfig | None = None,
    *,
    dry_run: bool = False,
    force: bool = False,
) -> CleanSummary:
    """Delete base files that the last commits do not need. Repeating it does what is left to do.

    Args:
        keep_commits: commits whose files stay readable, 1 or more; default ``hoodie.cleaner.commits.retained``.
        force: take other writers' pending instants for dead.

    Raises:
        OptionError: fewer than one commit.
        TableError: no table, or one that is not written to.
        ConflictError: another writer is in flight or holds the lock.
    """
    settings = config or WriteConfig()
    keep = _at_least_one(settings.cleaner_commits if keep_commits is None else keep_commits)
    table = Table.at(uri)
    table.check_writable(settings)
    done = Cleaned(None, plan_clean(table, keep)) if dry_run else clean_table(table, keep, settings, force=force)
    return CleanSummary(
        table.name,
        table.uri,
        dry_run,
        keep,
        done.instant,
        done.plan.earliest.time if done.plan.earliest is not None else None,
        tuple(file.path for file in done.plan.files),
        sum(file.size_bytes for file in done.plan.files),
        done.plan.kept_for_savepoints,
        done.finished,
        done.notes,
    )


def archive(
    uri: str,
    keep_commits: int | None = None,
    config: WriteConfig | None = None,
    *,
    dry_run: bool = False,
    force: bool = False,
) -> ArchiveSummary:
    """Move old instants from the timeline to the archived timeline. Repeating it does what is left to do.

    Args:
        keep_commits: commits that stay, 1 or more; default ``hoodie.keep.min.commits``.
        config: lease, waiting times, metadata table policy, and how many commits cleaning keeps.
        force: take other writers' pending instants for dead.

    Raises:
        OptionError: fewer than one commit.
        UsageError: fewer than cleaning keeps: cleaning would never find more than it keeps, and delete nothing.
        TableError: no table, or one that is not written to.
        ConflictError: another writer is in flight or holds the lock.
    """
    settings = config or WriteConfig()
    keep = _at_least_one(settings.archive_commits if keep_commits is None else keep_commits)
    if keep < settings.cleaner_commits:
        raise UsageError(
            f"archiving cannot keep {keep} commits while cleaning keeps {settings.cleaner_commits}: "
            "nothing would be cleaned any more",
            culprit=str(keep),
            hint="keep as many, or lower hoodie.cleaner.commits.retained, too",
        )
    table = Table.at(uri)
    table.check_writable(settings)
    done = Archived(plan_archiving(table, keep)) if dry_run else archive_table(table, keep, settings, force=force)
    return ArchiveSummary(
        table.name,
        table.uri,
        dry_run,
        keep,
        tuple(ArchivedInstant(one.time, one.action) for one in done.plan.instants),
        done.logs,
        tuple(stray.file.path for stray in done.strays),
        done.plan.held_by,
        _first_commit(table),
        done.notes,
    )


def _first_commit(table: Table) -> str | None:
    writes = table.load_timeline().completed_writes
    return writes[0].time if writes else None


def _at_least_one(keep: int) -> int:
    if keep < 1:
        raise OptionError(
            f"--keep-commits cannot be {keep}", culprit=str(keep), hint="1 or more: the newest commit is the table"
        )
    return keep


class RollbackSummary(TableResult):
    """A rollback that is done.

    Attributes:
        instant: what was rolled back.
        rollback_instant: the rollback's own instant; None if nothing was on the timeline any more.
        files_deleted: data files that went, by path.
        last_commit: newest commit that is left; None if there is none.
        notes: what was done to other writers' instants beside this one.
    """

    shown_by: ClassVar[str] = "results:show_rollback"

    instant: str
    rollback_instant: str | None
    files_deleted: tuple[str, ...]
    last_commit: str | None
    notes: tuple[str, ...]


def rollback_table(
    uri: str, instant: str, config: WriteConfig | None = None, *, force: bool = False
) -> RollbackSummary:
    """Roll an instant back, the way Hudi does.

    Args:
        instant: the newest completed write, or a pending one whose writer is dead.

    Raises:
        UsageError: there is no such write, or it is completed and not the newest.
        TableError: no table, one that is not written to, or a savepoint keeps the instant.
        ConflictError: its writer may be alive, or another writer holds the lock or rolls it back just now.
    """
    parse_point_in_time(instant, "INSTANT")
    table = Table.at(uri)
    table.check_writable(config)
    done = rollback_instant(table, instant, config, force=force)
    if not done.finished:
        raise PendingInstantError(
            f"another writer is rolling {instant} back", culprit=instant, hint="wait for it, then look at the history"
        )
    last = table.reload().load_timeline().last_completed_write_time
    notes = done.notes + sync_after(table.uri, config or WriteConfig())
    return RollbackSummary(table.name, table.uri, done.instant, done.rollback_instant, done.files, last, notes)
