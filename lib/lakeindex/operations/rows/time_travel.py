"""Points in time that a user names, and the table as of one of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

import pyarrow as pa

from lakeindex.commit.written_slices import Commits, live_slices, missing_slices, not_after, read_commits
from lakeindex.errors import TableUnsupportedError, TimelineChangedError, UsageError
from lakeindex.files.file_system_view import Snapshot, missing_file, missing_then
from lakeindex.format import instants
from lakeindex.frozen import Frozen
from lakeindex.table.handle import Table
from lakeindex.table.properties import ALL_META_FIELDS, NO_META_FIELDS
from lakeindex.table.property_keys import META_FIELDS_MODE, POPULATE_META_FIELDS
from lakeindex.table.table_columns import table_schema
from lakeindex.timeline.clock import timeline_ms
from lakeindex.timeline.timeline import Timeline


class PastTable(Frozen):
    """The table as of a point in time.

    Attributes:
        snapshot: its files then.
        commits: completed writes of the active timeline up to then.
        timeline: the instants up to then.
        as_of: the point in time, as an instant; None for now.
        since: rows must be newer than this instant; None for all.
        later: which writes are newer than it.
    """

    table: Table
    snapshot: Snapshot
    commits: Commits
    timeline: Timeline
    as_of: str | None
    since: str | None
    later: LaterWrites

    def check_partitions(self, paths: Iterable[str]) -> None:
        """Make sure that there are such partitions, with rows or without.

        Raises:
            UsageError: there is none of that path.
        """
        for path in paths:
            if not self.snapshot.has_partition(path):
                raise UsageError(
                    f"table {self.table.name} has no partition {path!r}",
                    culprit=path,
                    hint="`lakeindex partitions TABLE` lists them; a partition is named as its folder is; where= "
                    "(--where) asks for rows of one that may not be there yet",
                )


class LaterWrites(Frozen):
    """The writes after a point in time, exclusive: those that were completed after it, where the timeline says when
    writes were completed (Hudi 1.x counts so on tables of version 8 and later), else those with a greater instant.

    A point that is the instant of a write stands for the completion of that write. Archived writes count so, too: we
    leave a write on the timeline that was completed after one that stays, but Hudi archives by instants alone.

    Attributes:
        point: the point in time, as an instant.
        known: completed writes that are on another side of it than their instant says: whether each is after it.
    """

    point: str
    known: Mapping[str, bool]

    @staticmethod
    def than(timeline: Timeline, point: str) -> LaterWrites:
        """The writes after a point in time."""
        ends = {one.time: one.completion_time or one.time for one in timeline.completed_writes}
        if point and timeline.layout.has_completion_times:
            ends = {**timeline.archived_ends(point), **ends}
        limit = ends.get(point, point)
        after = {time: not not_after(end, limit) for time, end in ends.items()}
        return LaterWrites(
            point, {time: is_after for time, is_after in after.items() if is_after is not_after(time, point)}
        )

    def has(self, time: str) -> bool:
        """Whether a write is among them."""
        return self.known.get(time, not not_after(time, self.point))


def check_meta_columns(table: Table, what: str) -> None:
    """Refuse to read what only the meta columns of the rows say, on a table that does not fill them.

    Raises:
        TableUnsupportedError: the table has virtual keys.
    """
    mode = table.properties.meta_fields_mode
    if mode is not None and mode.upper() not in (ALL_META_FIELDS, NO_META_FIELDS):
        raise TableUnsupportedError(
            f"table {table.name} has some meta columns only ({META_FIELDS_MODE[0]}={mode}): {what} cannot be read",
            culprit=META_FIELDS_MODE[0],
            hint="its rows are read without them: read the table as of two instants, or read it with Hudi",
        )
    if not table.properties.populate_meta_fields:
        raise TableUnsupportedError(
            f"table {table.name} has no meta columns ({POPULATE_META_FIELDS[0]}=false): {what} cannot be read",
            culprit=POPULATE_META_FIELDS[0],
            hint="its rows do not say which commit wrote them, and Hudi refuses incremental queries of it, too; "
            "read the table as of two instants, and leave the meta columns out",
        )


def past_table(table: Table, timeline: Timeline, as_of: str | None = None, since: str | None = None) -> PastTable:
    """Resolve two points in time (an instant or an ISO time each) and look at the table as of the first.

    Args:
        since: rows must be newer; None for all.

    Raises:
        UsageError: a point in time that the table's history does not reach.
        TableCorruptError: a commit cannot be read, or a committed file is gone.
    """
    if since is not None:
        check_meta_columns(table, "rows since an instant")
    until = None if as_of is None else point_of(table, timeline, as_of, "--as-of")
    after = None if since is None else point_of(table, timeline, since, "--since")
    if until is not None:
        check_reaches_back(table, timeline, as_of or until, until)
    then = timeline if until is None else _until(timeline, until)
    found = table.snapshot(until, timeline)
    commits = read_commits(table, then)
    _check_complete(found, commits, timeline, until)
    check_not_cleaned(found)
    if until is not None and (gone := cleaned_since(table, found, timeline, until)) is not None:
        raise _cleaned_away(timeline, until, gone)
    return PastTable(table, found, commits, then, until, after, LaterWrites.than(timeline, after or ""))


def present_table(table: Table, timeline: Timeline) -> PastTable:
    """The table now, of which no commit is read."""
    return PastTable(table, table.snapshot(timeline=timeline), (), timeline, None, None, LaterWrites("", {}))


def columns_of(past: PastTable) -> pa.Schema:
    """The table's columns then; a table without commits then has those it got later.

    Raises:
        TableUnsupportedError: as of :func:`lakeindex.table.table_columns.table_schema`.
    """
    if past.as_of is None or not past.timeline.completed_writes:
        return table_schema(past.table, past.snapshot)
    return table_schema(past.table, past.table.snapshot(timeline=past.timeline))


def history_range(timeline: Timeline) -> str:
    """The instants that can be named, for messages."""
    writes = timeline.completed_writes
    if not writes:
        return "the table has no commits yet"
    return f"the table's commits are {writes[0].time} to {writes[-1].time}"


def point_of(table: Table, timeline: Timeline, text: str, option: str) -> str:
    """The instant time a text stands for.

    Raises:
        OptionError: neither an instant nor an ISO time.
        UsageError: it lies behind everything that has happened.
    """
    point = instants.parse_point_in_time(text, option)
    is_instant = text.strip().isdigit()
    if not is_instant and table.properties.timezone != "UTC":
        point = _local(point)
    ends = (one.completion_time or one.time for one in timeline.completed)
    newest = max(ends, key=instants.comparable, default=None)
    if newest is not None and not_after(point, newest):
        return point
    now = instants.instant_time_of(timeline_ms(table.properties.timezone, time.time_ns() // 1_000_000))
    if is_instant or point > now:
        raise UsageError(
            f"{option} cannot be {text!r}: the table has no instant that new",
            culprit=text,
            hint=f"{history_range(timeline)}; `lakeindex history` lists them",
        )
    return point


def _local(point: str) -> str:
    """The instant time of a moment on a table whose instants are in local time (Hudi's default)."""
    moment = datetime.fromtimestamp(instants.instant_time_to_ms(point) / 1000, UTC).astimezone()
    return f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}"


def check_reaches_back(
    table: Table, timeline: Timeline, text: str, point: str, option: str = "--as-of", *, completed_by: str | None = None
) -> None:
    """Refuse a time whose last commit was archived: nobody knows the files of then.

    Those of a savepointed commit are known: it stays on the timeline, and cleaning leaves its files alone.

    Args:
        completed_by: what was completed by this time counts, and not what has an instant up to the point.

    Raises:
        UsageError: it was.
    """
    writes = timeline.completed_writes
    if completed_by is None:
        before = [one.time for one in writes if not_after(one.time, point)]
    else:
        before = [one.time for one in writes if not_after(one.completion_time or one.time, completed_by)]
    is_late = completed_by is not None and was_archived_late(timeline, completed_by)
    if not writes or (before and not is_late and not _was_archived_after(timeline, before[-1], point)):
        return
    if not before and not _is_archived(table):
        return
    raise UsageError(
        f"{option} cannot be {text!r}: the commits of that time were archived",
        culprit=text,
        hint=history_range(timeline),
    )


def _was_archived_after(timeline: Timeline, last: str, point: str) -> bool:
    """Whether commits between the last one of a point in time and that point were archived:
    only savepoints let that happen.
    """
    if last == point or not timeline.savepoints:
        return False
    return any(not not_after(time, last) and not_after(time, point) for time in timeline.archived.writes)


def was_archived_late(timeline: Timeline, point: str) -> bool:
    """Whether a write was archived that was completed after a point in time: nobody can tell what was there then.
    Whoever archives by instants alone, as Hudi does, leaves writes on the timeline that were completed before it.
    """
    if not timeline.layout.has_completion_times:
        return False
    there = timeline.completed_write_times
    return any(not not_after(end, point) for time, end in timeline.archived_ends(point).items() if time not in there)


def _is_archived(table: Table) -> bool:
    return any(one.size_bytes for one in table.storage.list(table.properties.timeline_layout.archive_folder))


def _until(timeline: Timeline, point: str) -> Timeline:
    files = (one for one in timeline.files if not_after(one.time, point))
    return Timeline.of(timeline.layout, files, timeline.storage)


def check_not_cleaned(found: Snapshot) -> None:
    """Make sure that no clean came between the listing of the timeline and that of the files. Of a file group that was
    written meanwhile it leaves nothing that counts, and where the commit of what did was archived, nobody misses it.

    Raises:
        TimelineChangedError: one did; only who finds files of writes that are not completed looks.
    """
    if not found.is_behind:
        return
    known = {one.time for one in found.timeline.instants}
    for one in Timeline.listing(found.storage, found.timeline.layout).instants:
        if one.action == instants.CLEAN and one.time not in known:
            raise TimelineChangedError(
                f"clean {one.time} began before the files were listed", culprit=one.time, hint="run again"
            )


def cleaned_since(table: Table, then: Snapshot, now: Timeline, point: str) -> str | None:
    """What a clean has taken out of a state of the past, or was lost before a repair, by what later commits found
    there: the commit that wrote it may be archived. None if nothing is missing.

    Args:
        now: the timeline, with all that came later.
        point: the time of the state.
    """
    is_cleaned = any(one.action == instants.CLEAN and not not_after(one.time, point) for one in now.instants)
    if not is_cleaned and not _is_archived(table):
        return None
    from lakeindex.commit.services.restore import missing_files  # not for reads of what no clean has touched

    as_of, known = then.as_of, then.timeline.completed_write_times
    later = [one for one in now.completed_writes if one.time not in known or not not_after(one.time, as_of or one.time)]
    return next(missing_files(table, now, tuple(reversed(later)), then), None)


def _check_complete(found: Snapshot, commits: Commits, timeline: Timeline, until: str | None) -> None:
    """A committed file that is gone must not let an older slice come back to life."""
    missing = missing_slices(found, live_slices(commits))
    if not missing:
        return
    path, at = missing[0].file.path, missing[0].instant.time
    cleans = (one.time for one in timeline.completed if one.action == instants.CLEAN)
    if until is not None and any(not not_after(time, until) for time in cleans):
        raise _cleaned_away(timeline, until, path)
    raise missing_file(path, at) if until is None else missing_then(path)


def _cleaned_away(timeline: Timeline, until: str, what: str) -> UsageError:
    return UsageError(
        f"--as-of cannot be {until}: {what} of that time was cleaned away",
        culprit=what,
        hint=f"name a later time; {history_range(timeline)}",
    )
