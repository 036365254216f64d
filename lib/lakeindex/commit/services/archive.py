"""Archiving: completed instants that the table does not need go from the timeline into the archived timeline.

A timeline is listed and partly read by every reader and writer; it must not grow for ever. What is archived goes, as
Hudi's records of it, into a new file of the archive, which stands whole before the first instant file is deleted
(:mod:`lakeindex.commit.archiving`).

Hudi and we take every base file that is older than the timeline for a committed one. That sets the rules:

* Nothing from the oldest pending instant on, nor from the oldest savepoint on.
* Strays are swept first, else they would show. Files about which nothing is proven hold up the
  archiving of their instants.
* A replacecommit stays, and all that is newer, until no file of the groups that it replaced is left:
  without it they would be live again. Cleaning removes them.
* The newest completed clean stays: Hudi plans its next one from it.
* Nothing that the newest compaction of the metadata table does not hold, if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakeindex.commit.archiving import ARCHIVED_ACTIONS, archive_instants, archive_of
from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.clean import finish_cleans
from lakeindex.commit.undo.sweep import Stray, find_unexplained, sweep_all
from lakeindex.files.file_system_view import Snapshot, snapshot
from lakeindex.format import instants as names
from lakeindex.format.instants import comparable
from lakeindex.metadata.reading import MetadataView
from lakeindex.metadata_upkeep.upkeep import archiving_bound
from lakeindex.model import Instant
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.table.properties import metadata_table_of
from lakeindex.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class ArchivingPlan:
    """What archiving would take from the timeline.

    Attributes:
        instants: completed instants, in time order.
        held_by: what keeps newer ones on the timeline though they are more than are to be kept: a savepoint, a pending
            instant or a replacecommit, in words; None if nothing does.
    """

    instants: tuple[Instant, ...] = ()
    held_by: str | None = None


@dataclass(frozen=True, slots=True)
class Archived:
    """Archiving that is done.

    Attributes:
        plan: what went.
        logs: the log files that were written.
        strays: strays that were swept before.
        notes: what was done to other writers' instants.
    """

    plan: ArchivingPlan
    logs: tuple[str, ...] = ()
    strays: tuple[Stray, ...] = ()
    notes: tuple[str, ...] = ()


def archive_table(
    table: Table, keep_commits: int, config: WriteConfig | None = None, *, force: bool = False, host: Host | None = None
) -> Archived:
    """Archive all but the newest writes. Repeating it, after a kill too, does what is left to do.

    Args:
        keep_commits: completed writes that stay on the timeline, 1 or more;
            not fewer than cleaning keeps, so that what can be read as of then can be named.
        config: lease, waiting times, metadata table policy.
        force: take other writers' pending instants for dead.

    Raises:
        PendingInstantError: a living writer of another kind is in flight.
        LockTimeoutError: another writer holds the lock for too long.
        FencedError: this process stalled for longer than its lease.
    """
    with maintaining(table, "archiving", config, force=force, host=host) as (context, lock):
        finish_cleans(context, lock)
        strays = sweep_all(context)
        plan = plan_archiving(table, keep_commits)
        logs = archive_instants(table.storage, table.load_timeline, lock, plan.instants)
        return Archived(plan, tuple(logs), strays, tuple(context.notes))


def plan_archiving(table: Table, keep_commits: int) -> ArchivingPlan:
    """What archiving would take now; nothing is changed. Raises: TableCorruptError."""
    timeline = table.load_timeline()
    writes = timeline.completed_writes
    if len(writes) <= keep_commits:
        return ArchivingPlan()
    limit, held_by = writes[-keep_commits].time, None
    for time, what in (*_holds(snapshot(table.storage, timeline)), *_held_by_metadata(table, timeline)):
        if comparable(time) < comparable(limit):
            limit, held_by = time, what
    cleans = [one for one in timeline.completed if one.action == names.CLEAN]
    going = (
        one
        for one in timeline.completed
        if one.action in ARCHIVED_ACTIONS and comparable(one.time) < comparable(limit) and one not in cleans[-1:]
    )
    return ArchivingPlan(tuple(going), held_by)


def _holds(found: Snapshot) -> Iterator[tuple[str, str]]:
    """Instants that must stay with all that is newer, and why."""
    timeline = found.timeline
    for one in timeline.pending[:1]:
        yield one.time, f"pending {one.action} {one.time}"
    for time in sorted(timeline.savepoints, key=comparable)[:1]:
        yield time, f"savepoint {time}"
    for file in sorted(find_unexplained(found), key=lambda one: comparable(one.instant_time))[:1]:
        # as long as a write before it is on the timeline, no reader takes it for an archived one's
        before = [one.time for one in timeline.completed_writes if comparable(one.time) < comparable(file.instant_time)]
        if before:
            yield before[-1], f"{file.path}, which no instant explains: see `lakeindex check`"
    left = [time for group, time in found.replaced.items() if _has_files(found, *group)]
    if left:
        first = min(left, key=comparable)
        yield first, f"files that replacecommit {first} replaced: clean first"


def _held_by_metadata(table: Table, timeline: Timeline) -> Iterator[tuple[str, str]]:
    """What is newer than the newest compaction of the metadata table: Hudi 0.15 believes no log of an instant that is
    archived.
    """
    metadata = metadata_table_of(table.storage, table.current_properties())
    if metadata is not None:
        bound = archiving_bound(MetadataView.load(metadata, timeline))
        kept = (one.time for one in timeline.completed if comparable(one.time) >= bound)
        yield from ((time, "the metadata table, which is not compacted so far") for time in list(kept)[:1])


def _has_files(found: Snapshot, partition: str, file_id: str) -> bool:
    """Whether files of a replaced group are left."""
    return any(file.file_id == file_id for file in found.files_of(partition).older)


def archived_lately(table: Table) -> frozenset[tuple[str, str]]:
    """Time and action of completed instants that were archived last. One that is on the timeline, too,
    was left there by a kill.
    """
    return archive_of(table.storage, table.properties.timeline_layout).recorded().instants
