"""The table after the writes that were completed up to a point in time, whatever their instants.

Who reads a feed up to a point has seen what was completed by then. Where the timeline says when writes were completed
(tables of version 8 and later), a write with a smaller instant that was completed later belongs to the next feed;
elsewhere instants decide.
"""

from __future__ import annotations

from msgspec.structs import replace

from lakeindex.commit.written_slices import live_slices, missing_slices, read_commits
from lakeindex.errors import UsageError
from lakeindex.files.file_system_view import Snapshot, missing_then
from lakeindex.format import instants
from lakeindex.frozen import Frozen
from lakeindex.model import Instant, InstantState
from lakeindex.operations.consistent_read import read_consistently
from lakeindex.operations.rows.time_travel import (
    LaterWrites,
    check_not_cleaned,
    check_reaches_back,
    cleaned_since,
    history_range,
    point_of,
    was_archived_late,
)
from lakeindex.table.handle import Table
from lakeindex.timeline.timeline import Timeline


class CommitPoints(Frozen):
    """Where a commit is among the points in time that a feed counts by.

    Attributes:
        completion_time: when it was completed, as an instant; None on a table that does not record it (version 6).
        previous: the point before it: the completion of the write before, on a table of version 6 its instant. None of
            the first write.
    """

    completion_time: str | None
    previous: str | None


def commit_points(uri: str, instant: str) -> CommitPoints | None:
    """The points of a commit; None if it is not on the table's timeline any more: rolled back, or archived.

    The changes of the commit alone are those since ``previous`` until ``completion_time`` (``instant``, if that is
    None). Both are points in time, not names of instants, and mean the same after a rollback of either write.

    Raises:
        TableError: no table, or one that is not read.
    """
    return read_consistently(uri, lambda _, timeline: _points(timeline, instant))


def _points(timeline: Timeline, instant: str) -> CommitPoints | None:
    writes = timeline.completed_writes
    found = next((one for one in writes if one.time == instant), None)
    if found is None:
        return None
    before = [_end(one) for one in writes if instants.comparable(_end(one)) < instants.comparable(_end(found))]
    return CommitPoints(found.completion_time, max(before, key=instants.comparable, default=None))


def _end(one: Instant) -> str:
    return one.completion_time or one.time


def end_of(timeline: Timeline, point: str) -> str:
    """The point in time that an instant stands for: the completion of the write of this name, if it is one."""
    return next((_end(one) for one in timeline.completed_writes if one.time == point), point)


def newest_completed(timeline: Timeline) -> str | None:
    """The instant of the write that was completed last; None on a table without any."""
    last = max(timeline.completed_writes, key=lambda one: instants.comparable(_end(one)), default=None)
    return None if last is None else last.time


def newest_point(timeline: Timeline) -> str | None:
    """That write, or a rollback or restore since: what is left then is not what the write left, which may have been
    read. One that a write in flight began before is no point: on version 6 the write would not be after it.
    """
    newest = newest_completed(timeline)
    last = instants.comparable(end_of(timeline, newest or ""))
    before = min((instants.comparable(one.time) for one in timeline.pending_writes), default="~")
    points = [time for time in _undone(timeline) if last < instants.comparable(time) < before]
    return max(points, key=instants.comparable, default=newest)


def _undone(timeline: Timeline) -> list[str]:
    return [one.time for one in timeline.completed if one.action in (instants.ROLLBACK, instants.RESTORE)]


def last_point(timeline: Timeline, point: str) -> str | None:
    """The last point of the table itself up to a time, by which a feed says what the table was: the end of a write, or
    what was taken back. None: there is none. A table that was put back from a copy, or made anew, has others.
    """
    points = [*map(_end, timeline.completed_writes), *_undone(timeline)]
    known = (one for one in points if instants.comparable(one) <= instants.comparable(point))
    return max(known, key=instants.comparable, default=None)


def named_point(table: Table, timeline: Timeline, text: str, name: str) -> str:
    """The instant time that a text stands for.

    Args:
        text: an instant or ISO time.

    Raises:
        UsageError: neither, or one that the history does not reach; which instant is the earliest is said.
    """
    point = point_of(table, timeline, text, name)
    try:
        check_reaches_back(table, timeline, text, point, name, completed_by=end_of(timeline, point))
    except UsageError as error:
        raise _too_early(table, timeline, name, text, error.message) from None
    return point


def state_at(table: Table, timeline: Timeline, point: str, name: str) -> Snapshot:
    """The table after all writes that were completed up to a point.

    Args:
        point: an instant time; that of a write stands for its completion.

    Raises:
        UsageError: files of then were cleaned away; which instant is the earliest is said.
        TableCorruptError: a committed file is missing.
    """
    found = _state(table, timeline, point)
    missing = _missing(table, timeline, found, point)
    check_not_cleaned(found)
    if missing is None:
        return found
    if any(one.action == instants.CLEAN for one in timeline.instants):
        raise _too_early(
            table, timeline, name, point, f"{name} cannot be {point}: {missing} of that time was cleaned away"
        )
    raise missing_then(missing)


def _state(table: Table, timeline: Timeline, point: str) -> Snapshot:
    later = LaterWrites.than(timeline, point)
    completed = set(timeline.completed_writes)
    files = (_pending(one) if one in completed and later.has(one.time) else one for one in timeline.files)
    then = Timeline.of(timeline.layout, files, timeline.storage)
    now = table.snapshot(timeline=timeline)
    told = now.ask_metadata
    return Snapshot(
        table.storage,
        then,
        None,
        then.replaced_at(table.storage),
        {},
        None if told is None else lambda _: told(timeline),
    )


def _pending(one: Instant) -> Instant:
    """A write that is not completed yet."""
    return replace(one, state=InstantState.INFLIGHT, completion_time=None)


def _missing(table: Table, timeline: Timeline, found: Snapshot, point: str) -> str | None:
    """What of a state is not there any more; None if nothing is missing."""
    missing = missing_slices(found, live_slices(read_commits(table, found.timeline)))
    return missing[0].file.path if missing else cleaned_since(table, found, timeline, point)


def _too_early(table: Table, timeline: Timeline, name: str, text: str, message: str) -> UsageError:
    times = (one.time for one in timeline.completed_writes)
    reached = (one for one in times if not was_archived_late(timeline, end_of(timeline, one)))
    earliest = next(
        (one for one in reached if _missing(table, timeline, _state(table, timeline, one), one) is None), None
    )
    hint = history_range(timeline) if earliest is None else f"the earliest instant that {name} can be is {earliest}"
    return UsageError(message, culprit=text, hint=hint)
