"""Cleaning: delete the base files that no reader within the last N commits needs,
the way Hudi's KEEP_LATEST_COMMITS does.

Of the completed writes on the timeline the N-th newest is the earliest to retain. A base file goes if something took
its place *before* that: the next file of its file group, or a replacecommit that replaced the group. So every commit
from the earliest on can still be read, and so can the state that the earliest one found. Nothing goes that a savepoint
names, and nothing that was in the table when a pending instant was taken, whoever takes it: the earliest to retain is
never newer than the write before it.

The order is Hudi's: ``<t>.clean.requested`` (an Avro plan that names every file), ``<t>.clean.inflight``,
the deletions, then ``<t>.clean``. Who finds a pending clean finishes it before planning its own. That is
safe whenever it happens:

* a plan is carried out only if the lock was still held *after* it was on the timeline:
  whoever holds the lock later sees it;
* who takes a completed commit back (:mod:`lakeindex.commit.services.rollback`) first finishes pending cleans,
  then makes sure that the files which the commit replaced are still there;
* a plan that somebody left is compared with the table as it is now: what is live again is not deleted.

Source: Hudi 0.15 and 1.2, ``CleanPlanner.getFilesToCleanKeepingLatestCommits``; the files as both releases write them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from lakeindex.commit.recovery import maintaining
from lakeindex.commit.undo import complete_service, is_fresh_service, located, request_service, settle_service
from lakeindex.errors import FencedError, ObjectNotFoundError, TableCorruptError
from lakeindex.files.file_system_view import PartitionFiles, Snapshot
from lakeindex.format import instants as names
from lakeindex.format.file_names import crc_path
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata_upkeep.keeping import keep_deletion
from lakeindex.model import BaseFile, Group, Instant, InstantState
from lakeindex.options.types import WriteConfig
from lakeindex.storage import sync_folders
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import (
    OWN_SYNC_MARKER,
    CleanMetadata,
    CleanPlan,
    format_clean_metadata,
    format_clean_plan,
    parse_clean_plan,
    parse_savepoint,
)
from lakeindex.timeline.timeline import Timeline

POLICY: Final = "KEEP_LATEST_COMMITS"


class Superseded(Frozen):
    """A base file that something took the place of.

    Attributes:
        by: the instant that did.
    """

    file: BaseFile
    by: str


class CleaningPlan(Frozen):
    """What a clean would delete.

    Attributes:
        earliest: earliest completed write to retain; None if the timeline has no more than are kept,
            and nothing is deleted.
        files: files to delete, in path order.
        kept_for_savepoints: files that would go if no savepoint named them.
    """

    earliest: Instant | None = None
    files: tuple[BaseFile, ...] = ()
    kept_for_savepoints: int = 0


class Cleaned(Frozen):
    """A clean that is done.

    Attributes:
        instant: its instant; None if there was nothing to delete.
        finished: instants of cleans that somebody had left unfinished, and that were finished first.
        notes: what was done to other writers' instants.
    """

    instant: str | None
    plan: CleaningPlan
    finished: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def clean_table(
    table: Table, keep_commits: int, config: WriteConfig | None = None, *, force: bool = False, host: Host | None = None
) -> Cleaned:
    """Delete what the last commits do not need. Repeating it, after a kill too, does what is left to do.

    Args:
        keep_commits: completed writes whose files stay readable, 1 or more.

    Raises:
        FencedError: this process stalled for longer than its lease; nothing was deleted that may not be.
    """
    with maintaining(table, "cleaning", config, force=force, host=host) as (context, lock):
        finished = finish_cleans(context, lock)
        plan = plan_clean(table, keep_commits)
        if plan.earliest is None or not plan.files:
            return Cleaned(None, plan, finished, tuple(context.notes))
        instant = _clean(context, lock, plan.earliest, plan.files)
        return Cleaned(instant, plan, finished, tuple(context.notes))


def plan_clean(table: Table, keep_commits: int) -> CleaningPlan:
    """What a clean would delete now; nothing is changed. Raises: TableCorruptError.

    Partitions without an old file are not listed, if the metadata table says so; of the others what is there counts.
    """
    snapshot = table.snapshot()
    earliest = _earliest_to_retain(snapshot.timeline, keep_commits)
    if earliest is None:
        return CleaningPlan()
    told = [one for one in superseded_files(snapshot) if _is_before(one.by, earliest.time)]
    there = table.listed_snapshot(snapshot.timeline)
    there.preload(one.file.partition_path for one in told)
    partitions = dict.fromkeys(one.file.partition_path for one in told)
    found = (one for partition in partitions for one in superseded_in(there, partition))
    old = [one.file for one in found if _is_before(one.by, earliest.time)]
    saved = saved_names(table, snapshot.timeline)
    going = tuple(file for file in old if file.path not in saved)
    return CleaningPlan(earliest, going, len(old) - len(going))


def finish_cleans(context: WriteContext, lock: TableLock) -> tuple[str, ...]:
    """Carry out pending cleans whose writers left them, but not fresh ones of other writers; their instants."""
    timeline = context.table.load_timeline()
    pending = [one.time for one in timeline.pending if one.action == names.CLEAN]
    return tuple(time for time in pending if _finish(context, lock, timeline, time))


def superseded_files(snapshot: Snapshot) -> Iterator[Superseded]:
    """Every base file that something took the place of, in partition and path order.

    A group whose replacecommit is archived has no files any more: see archiving.
    """
    for partition in snapshot.partitions():
        yield from superseded_in(snapshot, partition)


def superseded_in(snapshot: Snapshot, partition: str) -> list[Superseded]:
    """Those of one partition, in path order."""
    return _superseded_in(partition, snapshot.files_of(partition), snapshot.replaced)


def by_end(one: Instant) -> tuple[str, str]:
    """The order in which writes were completed; where nobody says when, that in which they began."""
    return comparable(one.completion_time or one.time), one.time


def _earliest_to_retain(timeline: Timeline, keep_commits: int) -> Instant | None:
    writes = timeline.completed_writes
    if len(writes) <= keep_commits:
        return None
    last = sorted(writes, key=by_end)[-keep_commits:]  # what one of these superseded, readers had until lately
    wanted = min((writes[-keep_commits], *last), key=lambda one: comparable(one.time))
    oldest_pending = min(
        (one.time for one in timeline.pending if one.action != names.CLEAN), key=comparable, default=None
    )
    if oldest_pending is None or _is_before(wanted.time, oldest_pending):
        return wanted
    return next((one for one in reversed(writes) if _is_before(one.time, oldest_pending)), None)


def _superseded_in(partition: str, files: PartitionFiles, replaced: Mapping[Group, str]) -> list[Superseded]:
    groups: dict[str, list[BaseFile]] = defaultdict(list)
    for file in (*files.older, *files.live):
        groups[file.file_id].append(file)
    found: list[Superseded] = []
    for file_id, slices in groups.items():
        slices.sort(key=lambda file: comparable(file.instant_time))
        found += [Superseded(file, following.instant_time) for file, following in pairwise(slices)]
        at = replaced.get((partition, file_id))
        if at is not None:
            found.append(Superseded(slices[-1], at))
    return sorted(found, key=lambda one: one.file.path)


def saved_names(table: Table, timeline: Timeline, time: str | None = None) -> frozenset[str]:
    """Paths of all files that a savepoint names.

    Args:
        time: only the savepoint of this commit.
    """
    saved: set[str] = set()
    for one in timeline.completed:
        if one.action == names.SAVEPOINT and time in (None, one.time):
            path = timeline.path(one)
            savepoint = records.read_filled(table.storage, path, parse_savepoint)
            saved |= {_joined(partition, name) for partition, files in savepoint.files.items() for name in files}
    return frozenset(saved)


def _clean(context: WriteContext, lock: TableLock, earliest: Instant, files: Sequence[BaseFile]) -> str:
    storage, timeline = context.storage, context.table.load_timeline()
    last = timeline.last_completed_write_time or ""
    paths = [file.path for file in files]
    savepoints = tuple(sorted(timeline.savepoints, key=comparable))
    plan = CleanPlan(POLICY, located(storage, paths), (earliest.time, earliest.action), last, savepoints)
    data = format_clean_plan(plan)
    time = request_service(context, timeline, names.CLEAN, data)
    try:
        lock.check()
    except FencedError:
        # Whoever holds the lock may have begun before the plan was there: it must not be carried out as it is.
        records.remove(storage, [timeline.path(Instant(time, names.CLEAN, InstantState.REQUESTED))])
        raise
    _carry_out(context, timeline, time, plan, paths, data)
    return time


def _finish(context: WriteContext, lock: TableLock, timeline: Timeline, time: str) -> bool:
    """Carry out a plan that somebody left; returns whether that was done."""
    storage = context.storage
    path = timeline.path(Instant(time, names.CLEAN, InstantState.REQUESTED))
    try:
        data, plan = records.read_filled(storage, path, lambda data, path: (data, parse_clean_plan(data, path)))
    except ObjectNotFoundError:
        _drop_orphaned(context, timeline, time)
        return False
    except TableCorruptError:
        return False  # Hudi drops an unreadable plan when it cleans next; it names no file that we could take for old
    if OWN_SYNC_MARKER not in data and is_fresh_service(context, timeline, names.CLEAN, time):
        return False
    lock.check()
    snapshot = context.table.listed_snapshot()
    old = {one.file.path for partition in plan.files for one in superseded_in(snapshot, partition)}
    old -= saved_names(context.table, snapshot.timeline)
    _carry_out(context, timeline, time, plan, [one for one in _planned(plan) if one in old], data)
    return True


def _drop_orphaned(context: WriteContext, timeline: Timeline, time: str) -> None:
    """Remove an inflight file of ours whose plan was withdrawn while somebody else began to carry it out."""
    path = timeline.path(Instant(time, names.CLEAN, InstantState.INFLIGHT))
    try:
        ours = OWN_SYNC_MARKER in context.storage.read(path)
    except ObjectNotFoundError:
        return
    if ours:
        records.remove(context.storage, [path])


def _carry_out(
    context: WriteContext, timeline: Timeline, time: str, plan: CleanPlan, paths: Sequence[str], data: bytes
) -> None:
    """Inflight, deletions, completed. What is gone already counts as deleted."""
    started = context.host.clock.now_ms()
    settle_service(context, timeline, Instant(time, names.CLEAN, InstantState.INFLIGHT), data)
    records.remove(context.storage, [one for path in paths for one in (path, crc_path(path))])
    # Archiving takes a replacecommit away once the files that it replaced are gone: they must not come back.
    sync_folders(context.storage, {path.rpartition("/")[0] for path in paths})
    told = keep_deletion(context, time, _planned(plan))
    deleted = {part: tuple(url.rpartition("/")[2] for url in urls) for part, urls in plan.files.items()}
    done = CleanMetadata(
        start_time=time,
        policy=plan.policy,
        earliest_retained=plan.earliest[0] if plan.earliest is not None else "",
        deleted=deleted,
        last_completed=plan.last_completed,
        savepoints=plan.savepoints,
        millis=max(context.host.clock.now_ms() - started, 0),
    )
    completed = Instant(time, names.CLEAN, InstantState.COMPLETED)
    complete_service(context, timeline, completed, format_clean_metadata(done), told)


def _planned(plan: CleanPlan) -> list[str]:
    return [_joined(part, url.rpartition("/")[2]) for part, urls in plan.files.items() for url in urls]


def _joined(partition: str, name: str) -> str:
    return f"{partition}/{name}" if partition else name


def _is_before(one: str, other: str) -> bool:
    return comparable(one) < comparable(other)
