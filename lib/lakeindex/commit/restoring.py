"""Carrying a restore out: writes go in one step, newest first. Resumable after a kill at any call.

The order is Hudi's: ``<t>.restore.requested`` (an Avro plan that names the writes), ``<t>.restore.inflight``; then,
write after write, what a rollback does (:func:`lakeindex.commit.undo.take_away`), and ``<t>.restore``. Hudi gives each
write a rollback of its own besides and deletes these in the end; here there are none.

Two things come before, which are ours: the decision (:mod:`lakeindex.timeline.verdicts`), which holds the plan, so that
whoever takes the lock over goes on with it or has called it off; and, before the inflight file, what is true of the
metadata table without the writes. Readers take the writes for gone as soon as the inflight file is there
(:meth:`lakeindex.timeline.timeline.Timeline.restored`).

A restore that was left, and after which another kind of writer has written, is over: what is still there stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from lakeindex.commit.ledger import forget_batch
from lakeindex.commit.undo import (
    complete_service,
    is_fresh_service,
    located,
    request_service,
    settle_service,
    take_away,
    tidy,
)
from lakeindex.errors import ObjectNotFoundError, PendingInstantError, TableCorruptError, TimelineChangedError
from lakeindex.files.file_system_view import all_base_files
from lakeindex.format import instants as names
from lakeindex.format.file_names import parse_base_path
from lakeindex.frozen import Frozen
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata_upkeep.keeping import announce_rollback, is_taken_in, metadata_view
from lakeindex.metadata_upkeep.switch import drop_metadata
from lakeindex.model import Instant, InstantState
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import (
    OWN_SYNC_MARKER,
    RestorePlan,
    RollbackMetadata,
    format_restore_metadata,
    parse_restore_plan,
)
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import (
    BATCH_KEY,
    Outcome,
    Verdict,
    decisions,
    forget_verdict,
    load_verdict,
    overrule,
)


class Restored(Frozen):
    """A restore that is done.

    Attributes:
        instant: its own instant; None if there was nothing to take away.
        gone: the writes that went, newest first.
        files: data files that went, by path.
        notes: what was done to other writers' instants beside it.
    """

    instant: str | None
    gone: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def finish_restores(context: WriteContext, timeline: Timeline) -> bool:
    """Carry out the restores that somebody left; whether there was one. The lock is held.

    Raises:
        PendingInstantError: one of another writer, who may be at it.
    """
    found = [one.time for one in timeline.pending if one.action == names.RESTORE]
    for time in found:
        _finish(context, timeline, time)
    return bool(found)


def carry_out(
    context: WriteContext,
    data: bytes,
    paths: Iterable[str] = (),
    own: str | None = None,
    earlier: Collection[str] = (),
) -> Restored:
    """Take the writes of a plan away, or what is left of them. The lock is held, and the restore is decided.

    Args:
        data: the plan, as it is on the timeline.
        paths: the data files of the writes, as they were when it was decided.
        own: the instant of the restore, if it is known to be on the timeline.
        earlier: restores that were on the timeline when this one was decided. One that was over has left writes, so
            that the next one may have the same plan.
    """
    storage, started = context.storage, context.host.clock.now_ms()
    plan = parse_restore_plan(data, "the plan of a restore")
    timeline = Timeline.listing(storage, context.table.properties.timeline_layout)
    own = own or _standing(context, timeline, data, earlier) or request_service(context, timeline, names.RESTORE, data)
    files = _files_by_instant(context, plan, paths)
    if not any(one.is_completed and one.action == names.RESTORE for one in timeline.find(own)):
        is_over = timeline.written_since(own, plan)
        told = None if is_over else _begin(context, timeline, own, plan, files)
        gone = [one for one in plan.instants if not (is_over and timeline.completed_write(one[0]))]
        for time, action in gone:
            _forget(context, timeline, time)
            take_away(context, timeline, time, action, files[time])
            tidy(context, time)
        if is_over:
            _call_off(context, own, plan)
        took = max(context.host.clock.now_ms() - started, 0)
        done = [RollbackMetadata(own, *one, located(storage, files[one[0]]), {}, took) for one in gone]
        completed = Instant(own, names.RESTORE, InstantState.COMPLETED)
        complete_service(context, timeline, completed, format_restore_metadata(own, done, took), told)
    for decision in _decisions_on(context, data):
        forget_verdict(storage, decision.instant)
    every = sorted(path for time, _ in plan.instants for path in files[time])
    return Restored(own, tuple(time for time, _ in plan.instants), tuple(every))


def _finish(context: WriteContext, timeline: Timeline, time: str) -> None:
    path = timeline.path(Instant(time, names.RESTORE, InstantState.REQUESTED))
    has_begun = any(one.state is InstantState.INFLIGHT for one in timeline.files if one.time == time)
    if has_begun and timeline.restore_plan(time) is None:
        return  # it names no write that could be taken for gone
    try:
        data = context.storage.read(path)
    except ObjectNotFoundError:
        return
    if OWN_SYNC_MARKER in data:
        paths = (path for decision in _decisions_on(context, data) for path in decision.paths)
        carry_out(context, data, tuple(paths), time)
        return
    if is_fresh_service(context, timeline, names.RESTORE, time):
        raise PendingInstantError(
            f"restore {time} of another writer is in flight",
            culprit=time,
            hint="wait for it; if its writer is dead, say force=True (--force), and it is carried to its end",
        )
    if not has_begun:
        records.remove(context.storage, [path])
        context.notes.append(f"restore {time} of another writer, which had not begun, was called off")
        return
    carry_out(context, data, (), time)
    context.notes.append(f"restore {time} of another writer was carried to its end")


def _standing(context: WriteContext, timeline: Timeline, data: bytes, earlier: Collection[str]) -> str | None:
    """The restore of this plan that an earlier try has put on the timeline."""
    for one in reversed(timeline.files):
        if one.action == names.RESTORE and one.state is InstantState.REQUESTED and one.time not in earlier:
            try:
                if context.storage.read(timeline.path(one)) == data:
                    return one.time
            except ObjectNotFoundError:
                continue
    return None


def _decisions_on(context: WriteContext, data: bytes) -> list[Verdict]:
    found = (load_verdict(context.storage, name) for name in decisions(context.storage))
    return [one for one in found if one is not None and one.is_committed and one.commit == data]


def _files_by_instant(context: WriteContext, plan: RestorePlan, paths: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    known = (parse_base_path(path) for path in paths)
    for file in (*all_base_files(context.storage), *known):
        if file is not None:
            found[file.instant_time].add(file.path)
    return defaultdict(set, {time: found[time] for time, _ in plan.instants})


def _begin(
    context: WriteContext, timeline: Timeline, own: str, plan: RestorePlan, files: dict[str, set[str]]
) -> str | None:
    """Tell the metadata table, then let readers take the writes for gone; when the metadata table was told."""
    times = [time for time, _ in plan.instants]
    inflight = Instant(own, names.RESTORE, InstantState.INFLIGHT)
    view = metadata_view(context)
    if inflight not in timeline.files:
        told = announce_rollback(context, times, own, (path for time in times for path in files[time]))
        settle_service(context, timeline, inflight, b"")
        return told
    delta = None if view is None else view.timeline.completed_write(own)
    if view is not None and delta is None and is_taken_in(view, times):
        _drop_metadata(context, own)  # another writer began, and files by which it could be told are gone
    return None if delta is None else delta.completion_time


def _call_off(context: WriteContext, own: str, plan: RestorePlan) -> None:
    """Somebody has written since it was left: what was told of all its writes is not true of those that stay."""
    view = metadata_view(context)
    if view is not None and view.timeline.find(own):
        _drop_metadata(context, own)
    context.notes.append(
        f"restore {own} to {plan.to} was cut short, and another writer has written since: what it had not taken away "
        "stays"
    )


def _drop_metadata(context: WriteContext, own: str) -> None:
    drop_metadata(context.table, ())
    context.notes.append(f"the metadata table was taken away: restore {own} was cut short before it could be kept up")


def _forget(context: WriteContext, timeline: Timeline, time: str) -> None:
    """Say that a write is not committed any more, and let its batch be sent again."""
    storage = context.storage
    before, commit = load_verdict(storage, time), timeline.completed_write(time)
    batch = "" if before is None else before.batch_id
    ended = None if before is None else before.completion_time
    if before is None and commit is not None:
        try:
            batch = timeline.commit_metadata(storage, commit).extra_metadata.get(BATCH_KEY) or ""
        except (TableCorruptError, TimelineChangedError):
            batch = ""
    token = context.host.new_token()
    overrule(storage, Verdict(time, Outcome.ROLLED_BACK, token, batch_id=batch, completion_time=ended))
    if batch:
        forget_batch(storage, batch, time)
