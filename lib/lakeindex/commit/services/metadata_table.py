"""What somebody asks for of a metadata table that is there: taking it away, compacting it, archiving its timeline.

Its timeline gets an instant for each action of the table, and is archived as the table's own is, into its own archive.
What goes is completed and older than all of these:

* the newest writes of it, as many as Hudi keeps at least;
* the compaction before the newest: readers may still use its slices, and what was completed after it is in logs of
  which Hudi believes only those whose instants it knows;
* the first write on the table's own timeline, and what is pending there: its rollback has to find its delta commit.
  Completed cleans and rollbacks there hold nothing up: they may stay for ever;
* what is pending on the metadata table's timeline.

One write that is older stays as well, so that a write of the table that the metadata table is not told of is still
newer than what the timeline begins with (:meth:`MetadataView.untold_writes`). An instant stays as long as a base file
or log bears its name: a file group in which nothing changes keeps its base file for years, and neither Hudi nor we
have to believe it for being older than the timeline. So there may be gaps in the timeline, of instants which no file
of the metadata table is of any more.

Source: Hudi 0.15 ``HoodieTimelineArchiver``, 1.2 ``TimelineArchiverV2``, ``getEarliestInstantForMetadataArchival``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from lakeindex.commit.archiving import ARCHIVED_ACTIONS, archive_instants
from lakeindex.commit.recovery import maintaining
from lakeindex.errors import MetadataTableError
from lakeindex.format import instants as names
from lakeindex.format.instants import comparable
from lakeindex.lock.held_lock import holding
from lakeindex.metadata.reading import MetadataView
from lakeindex.metadata.slices import instants_of_files
from lakeindex.metadata_upkeep.switch import drop_metadata
from lakeindex.metadata_upkeep.upkeep import compact_metadata, metadata_view
from lakeindex.model import Instant, InstantState
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.timeline.timeline import Timeline

KEPT_WRITES: Final = 21
"""One more than Hudi's ``hoodie.keep.min.commits``, as its metadata table has it."""

LEAST: Final = 10
"""Writes from which on archiving is worth a file: the distance of Hudi's ``hoodie.keep.max.commits``."""


def drop_metadata_table(
    table: Table, partitions: Collection[str] = (), config: WriteConfig | None = None, *, host: Host | None = None
) -> tuple[str, ...]:
    """Take the metadata table of a table away, or some of its partitions; those that went.

    Nothing of dead writers is settled before: what is damaged can be taken away.

    Args:
        partitions: those that go; all, if none are named or ``files`` is among them.
        config: lease and waiting times.

    Raises:
        MetadataTableError: it has no such partition.
        LockTimeoutError: another writer holds the lock for too long.
    """
    with holding(table, "dropping the metadata table", config or WriteConfig(), host=host) as (_, lock):
        properties = table.current_properties()
        there = (*properties.metadata_partitions, *properties.metadata_partitions_inflight)
        unknown = next((name for name in partitions if name not in there), None)
        if unknown is not None:
            raise MetadataTableError(
                f"the metadata table of {table.name} has no partition {unknown!r}",
                culprit=unknown,
                hint=f"it has: {', '.join(there) or 'none'}",
            )
        lock.check()
        return drop_metadata(table, partitions)


def compact_metadata_table(
    table: Table, config: WriteConfig | None = None, *, force: bool = False, host: Host | None = None
) -> str | None:
    """Compact the metadata table, and delete what nobody reads of it any more; the compaction's instant.

    None if there is no metadata table, nothing to compact, or a write is pending.

    Args:
        config: lease and waiting times.
        force: take other writers' pending instants for dead.

    Raises:
        PendingInstantError: a living writer of another kind is in flight.
        LockTimeoutError: another writer holds the lock for too long.
    """
    with maintaining(table, "compacting the metadata table", config, force=force, host=host) as (context, _):
        return compact_metadata(context)


def archive_metadata_table(
    table: Table, config: WriteConfig | None = None, *, force: bool = False, host: Host | None = None
) -> tuple[Instant, ...]:
    """Archive what nobody needs of the metadata table's own timeline; the instants that went.

    Repeating it, after a kill too, does what is left to do.

    Args:
        config: lease and waiting times.
        force: take other writers' pending instants for dead.

    Raises:
        MetadataTableError: the metadata table does not know of a commit.
        PendingInstantError: a living writer of another kind is in flight.
        LockTimeoutError: another writer holds the lock for too long.
        FencedError: this process stalled for longer than its lease.
    """
    with maintaining(table, "archiving the metadata table's timeline", config, force=force, host=host) as (
        context,
        lock,
    ):
        view = metadata_view(context)
        going = () if view is None else plan_metadata_archiving(view)
        if view is None or not going:
            return ()
        view.check_told()
        archive_instants(table.storage, view.table.load_timeline, lock, going)
        return going


def plan_metadata_archiving(view: MetadataView) -> tuple[Instant, ...]:
    """What archiving would take of the metadata table's own timeline now, in time order; nothing is changed.

    Args:
        view: the metadata table now.
    """
    timeline = view.timeline
    writes = timeline.completed_writes
    compactions = sorted(one.time for one in writes if one.action == names.COMMIT)
    if len(compactions) < 2 or len(writes) <= KEPT_WRITES:
        return ()
    limit = min(_holds(view, compactions[-2]), key=comparable)
    older = [one for one in timeline.completed if comparable(one.time) < comparable(limit)]
    last = [one for one in older if one in writes][-1:]
    cleans = [one for one in timeline.completed if one.action == names.CLEAN][-1:]
    named = instants_of_files(view.table)
    going = tuple(
        one for one in older if one.action in ARCHIVED_ACTIONS and one.time not in named and one not in (*last, *cleans)
    )
    return going if len(going) >= LEAST or _is_begun(timeline, going) else ()


def _is_begun(timeline: Timeline, going: tuple[Instant, ...]) -> bool:
    """Whether somebody was killed while he took some of them off the timeline: the requested files go first."""
    requested = {one.time for one in timeline.files if one.state is InstantState.REQUESTED}
    return any(one.time not in requested for one in going)


def _holds(view: MetadataView, compacted: str) -> Iterator[str]:
    """Instants from which on all must stay."""
    writes, data = view.timeline.completed_writes, view.data
    yield writes[-KEPT_WRITES].time
    yield from (one.time for one in writes if (one.completion_time or one.time) >= compacted)
    yield from (one.time for one in view.timeline.pending[:1])
    yield from (one.time for one in data.pending[:1])
    yield from (one.time for one in data.completed_writes[:1])
