"""Rolling an instant back, the way Hudi does, resumable after a kill at any call.

The order, which is Hudi's: ``<t>.rollback.requested`` (an Avro plan), ``<t>.rollback.inflight``; then, if a compaction
of the metadata table has taken the instant in, or a partition of it was made after it, what is true without it; the
instant's completed file, if it has one (readers stop seeing it), its delta commit, its data files,
its inflight and requested files; then ``<t>.rollback``. Data files are found by markers *and* by listing. Two things
of ours come before: the claim (so that recovery finds what was left half-done) and the verdict (so that the instant can
never be committed any more); see :mod:`lakeindex.timeline.verdicts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from lakeindex.commit.run_records import drop_claim
from lakeindex.errors import ObjectNotFoundError, TableCorruptError, TimelineChangedError
from lakeindex.files.file_system_view import all_base_files, base_files_in
from lakeindex.format import instants as names
from lakeindex.format.file_names import crc_path, names_by_partition
from lakeindex.frozen import Frozen
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata_upkeep.keeping import announce_rollback
from lakeindex.metadata_upkeep.keeping import undo as undo_metadata
from lakeindex.model import Instant, InstantState
from lakeindex.storage import sync_folders
from lakeindex.storage.paths import plain
from lakeindex.storage.port import Storage
from lakeindex.table.index_changes import forget_index_change
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import (
    RollbackMetadata,
    RollbackPlan,
    format_rollback_metadata,
    format_rollback_plan,
)
from lakeindex.timeline.pending_files import end_heartbeat, marked_files, remove_markers
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import load_verdict


def request_service(context: WriteContext, timeline: Timeline, action: str, plan: bytes) -> str:
    """Put a plan on the timeline under an instant that nothing else has; returns that instant.

    It is durable then: an inflight file whose plan a power loss took away would be pending for good.
    """
    floor = timeline.max_time
    while True:
        own = names.next_instant_time(floor, context.table_clock_ms)
        path = timeline.path(Instant(own, action, InstantState.REQUESTED))
        if records.settle(context.storage, path, plan) == plan:
            if all(one.action == action for one in context.table.load_timeline().find(own)):
                context.storage.sync([path])
                return own
            records.remove(context.storage, [path])
        floor = own


def settle_service(context: WriteContext, timeline: Timeline, instant: Instant, data: bytes) -> None:
    """Create a later file of a service's instant, unless an earlier try has. It is durable then, and so are those
    before it, and what was deleted beside them.
    """
    path = timeline.path(instant)
    records.settle(context.storage, path, data)
    context.storage.sync([path])


def complete_service(
    context: WriteContext, timeline: Timeline, instant: Instant, data: bytes, after: str | None = None
) -> None:
    """Create the completed file of a service's instant, unless an earlier try has;
    durable as in :func:`settle_service`.

    Where its name says when it was completed, two who finish one service at once leave two files that say the same.

    Args:
        after: a time that it is completed later than.
    """
    settle_service(context, timeline, _completed_now(context, instant, after), data)


def _completed_now(context: WriteContext, instant: Instant, after: str | None) -> Instant:
    """A completed instant with its completion time, where the timeline's layout has one. The lock is held."""
    if not context.table.properties.timeline_layout.has_completion_times:
        return instant
    timeline = context.table.load_timeline()
    done = next((one for one in timeline.find(instant.time) if one.is_completed and one.action == instant.action), None)
    return done or replace(instant, completion_time=context.completion_time(timeline, after))


def is_fresh_service(context: WriteContext, timeline: Timeline, action: str, time: str) -> bool:
    """Whether another writer's pending service may still be running."""
    if context.force:
        return False
    path = timeline.path(Instant(time, action, InstantState.REQUESTED))
    try:
        modified = context.storage.head(path).modified_ms
    except ObjectNotFoundError:
        return False
    return context.host.clock.now_ms() - modified < context.config.pending_foreign_max_age_seconds * 1000


def located(storage: Storage, files: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Partition path -> URLs of files, as Hudi writes them (``file:/`` with one slash)."""
    place = plain(storage.uri)
    root = place if "://" in place else f"file:{place}"
    return {
        partition: tuple(f"{root}/{partition}/{name}" if partition else f"{root}/{name}" for name in found)
        for partition, found in names_by_partition(files).items()
    }


class RolledBack(Frozen):
    """A rollback that is done.

    Attributes:
        rollback_instant: the rollback's own instant; ``None`` if nothing was on the timeline.
        finished: False if another writer's rollback of the same instant is still running, and was left to it.
        notes: what was done to other writers' instants beside this one.
    """

    instant: str
    rollback_instant: str | None
    files: tuple[str, ...]
    finished: bool = True
    notes: tuple[str, ...] = ()


def roll_back(context: WriteContext, time: str, *, everywhere: bool) -> RolledBack:
    """Roll an instant back, or finish its rollback. The caller holds the lock, and the verdict says rolled back.

    Args:
        everywhere: whether to look for its files in every partition, not only where markers and metadata point.
    """
    timeline = context.table.load_timeline()
    target = _write_at(timeline, time)
    pending = next((one for one in timeline.pending_rollbacks(context.storage) if one.plan.instant_time == time), None)
    if (
        pending is not None
        and not pending.is_ours
        and is_fresh_service(context, timeline, names.ROLLBACK, pending.time)
    ):
        if target is not None and target.is_completed:
            # Ours, put while the other one read the table: it takes away what it saw, and this it did not see.
            _delete_completed(context, timeline, time, target.action)
        return RolledBack(time, pending.time, (), finished=False)
    files = _files_of(context, timeline, time, target, everywhere=everywhere)
    if target is None and pending is None:
        undo_metadata(context, time)
        _delete_data(context, files)
        tidy(context, time)
        return RolledBack(time, None, tuple(sorted(files)))
    action = pending.plan.action if pending is not None else target.action if target is not None else names.COMMIT
    started = context.host.clock.now_ms()
    own = pending.time if pending is not None else _request(context, timeline, time, action, files)
    settle_service(context, timeline, Instant(own, names.ROLLBACK, InstantState.INFLIGHT), b"")
    told = announce_rollback(context, {time}, own, files)
    take_away(context, timeline, time, action, files)
    deleted = (
        located(context.storage, files)
        if pending is None
        else _merged(located(context.storage, files), pending.plan.files)
    )
    took = context.host.clock.now_ms() - started
    done = RollbackMetadata(own, time, action, deleted, {}, max(took, 0))
    completed = Instant(own, names.ROLLBACK, InstantState.COMPLETED)
    complete_service(context, timeline, completed, format_rollback_metadata(done), told)
    tidy(context, time)
    return RolledBack(time, own, tuple(sorted(files)))


def take_away(context: WriteContext, timeline: Timeline, time: str, action: str, files: Iterable[str]) -> None:
    """Take a write and its files off the table, or what is left of it; tidying up comes after that."""
    _delete_completed(context, timeline, time, action)
    sync_folders(context.storage, [timeline.layout.folder])  # a commit must not come back without its files
    undo_metadata(context, time)
    _delete_data(context, files)
    _delete_pending(context, timeline, time, action)


def _write_at(timeline: Timeline, time: str) -> Instant | None:
    writes = (one for one in timeline.find(time) if names.completed_action(one.action) in names.WRITE_ACTIONS)
    return next(writes, None)


def _files_of(
    context: WriteContext, timeline: Timeline, time: str, target: Instant | None, *, everywhere: bool
) -> set[str]:
    """Paths of the instant's data files that are there or marked."""
    marked = set(marked_files(context.storage, time))
    partitions = {path.rpartition("/")[0] for path in marked}
    if target is not None and target.state is not InstantState.REQUESTED:
        partitions |= _partitions_in_metadata(context, timeline, target)
    listed = all_base_files(context.storage) if everywhere else base_files_in(context.storage, partitions)
    return marked | {file.path for file in listed if file.instant_time == time}


def _partitions_in_metadata(context: WriteContext, timeline: Timeline, target: Instant) -> set[str]:
    try:
        return set(timeline.commit_metadata(context.storage, target).write_stats)
    except (TableCorruptError, TimelineChangedError):
        return set()  # an empty inflight file is legal, and a damaged commit is no reason to keep it


def _request(context: WriteContext, timeline: Timeline, time: str, action: str, files: Iterable[str]) -> str:
    data = format_rollback_plan(RollbackPlan(time, action, located(context.storage, files)))
    return request_service(context, timeline, names.ROLLBACK, data)


def _delete_completed(context: WriteContext, timeline: Timeline, time: str, action: str) -> None:
    """Delete the completed file, whether it was there when the timeline was listed or came later: where its name says
    when it was completed, the verdict tells under which one of ours was put.
    """
    final = Instant(time, names.completed_action(action), InstantState.COMPLETED)
    named = {one for one in timeline.files if (one.time, one.action, one.state) == (time, final.action, final.state)}
    if timeline.layout.has_completion_times:
        verdict = load_verdict(context.storage, time)
        named |= set() if verdict is None or verdict.completion_time is None else {verdict.completed}
    else:
        named.add(final)
    for one in sorted(named, key=timeline.path):
        _delete(context, timeline, one)


def _delete_pending(context: WriteContext, timeline: Timeline, time: str, action: str) -> None:
    """Delete the inflight, then the requested file, by whatever name they have: in timeline layout 2 a completed
    ``replacecommit`` of Hudi may have begun as a ``clustering``.
    """
    final = names.completed_action(action)
    began = {one.action for one in timeline.files if one.time == time and names.completed_action(one.action) == final}
    for state in (InstantState.INFLIGHT, InstantState.REQUESTED):
        for name in sorted({action, *began}):
            _delete(context, timeline, Instant(time, name, state))


def _delete(context: WriteContext, timeline: Timeline, instant: Instant) -> None:
    path = timeline.path(instant)
    records.remove(context.storage, [path, crc_path(path)])


def _delete_data(context: WriteContext, files: Iterable[str]) -> None:
    records.remove(context.storage, [one for path in sorted(files) for one in (path, crc_path(path))])


def tidy(context: WriteContext, time: str) -> None:
    """The claim goes last: as long as it is there, recovery comes back here."""
    remove_markers(context.storage, time)
    forget_index_change(context.storage, time)
    end_heartbeat(context.storage, time)
    drop_claim(context.storage, time)


def _merged(one: Mapping[str, tuple[str, ...]], other: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {part: tuple(sorted({*one.get(part, ()), *other.get(part, ())})) for part in sorted({*one, *other})}
