"""Keep commits (savepoints), and take a table back to one, or take back the newest commits in one step."""

from __future__ import annotations

from typing import ClassVar, Final

from msgspec.structs import replace

from lakeindex.catalogs.syncing import sync_after
from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.clean import by_end, finish_cleans
from lakeindex.commit.services.restore import Going, later_writes, plan_restore, restore_table
from lakeindex.commit.services.savepoints import KeptCommit, create_savepoint, delete_savepoint, list_savepoints
from lakeindex.commit.written_slices import read_commits, rows_of_files
from lakeindex.errors import PendingInstantError, UsageError
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.instants import comparable, instant_time_of, iso_of_instant_time, previous_instant_time
from lakeindex.frozen import Frozen
from lakeindex.model import Instant
from lakeindex.operations.rows.time_travel import history_range
from lakeindex.operations.table_states import named_point
from lakeindex.options.types import WriteConfig
from lakeindex.showing.json_result import TableResult
from lakeindex.table.handle import Table
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import BATCH_KEY

_USER: Final = "lakeindex"


class Savepoint(Frozen):
    """A commit that is kept.

    Attributes:
        instant: the commit.
        made_at: when the savepoint was made, ISO text in UTC; None of one that was cut short before it named any file.
        user: who made it; None likewise.
        comment: why; None likewise.
        files: data files that it keeps.
    """

    instant: str
    made_at: str | None
    user: str | None
    comment: str | None
    files: int


class SavepointSummary(TableResult):
    """What became of a savepoint.

    Attributes:
        action: ``made``, ``there`` (it had been made before) or ``deleted``.
        savepoint: it.
        notes: what was done to other writers' instants.
    """

    shown_by: ClassVar[str] = "results:show_savepoint"

    action: str
    savepoint: Savepoint
    notes: tuple[str, ...]


class Savepoints(TableResult):
    """The savepoints of a table.

    Attributes:
        savepoints: oldest first.
    """

    shown_by: ClassVar[str] = "results:show_savepoints"

    savepoints: tuple[Savepoint, ...]


class LostCommit(Frozen):
    """A commit that a restore takes away.

    Attributes:
        instant: its time.
        operation: UPSERT, DELETE, CLUSTER, ...; None if it does not say.
        batch_id: the batch, if the commit is ours: it can be sent again.
        inserts: rows that it inserted.
        updates: rows that it updated.
        deletes: rows that it deleted.
    """

    instant: str
    operation: str | None
    batch_id: str | None
    inserts: int
    updates: int
    deletes: int


class RestoreSummary(TableResult):
    """What a restore took away, or would take away. ``rows_before - rows_gone + rows_back = rows_after``.

    Attributes:
        dry_run: nothing was changed.
        to: the instant that the table is as of.
        instant: the restore's own instant; None if nothing was changed.
        commits: what goes, newest first; none if nothing was committed after ``to``.
        files_deleted: data files that go, by path.
        bytes_deleted: their size.
        files_back: data files that are live again.
        rows_before: rows of the table.
        rows_gone: rows in the live files that go, or whose file group was not there then.
        rows_back: rows in the files that are live again.
        rows_after: rows of the table then.
        notes: what was done to other writers' instants.
    """

    shown_by: ClassVar[str] = "results:show_restore"

    dry_run: bool
    to: str
    instant: str | None
    commits: tuple[LostCommit, ...]
    files_deleted: tuple[str, ...]
    bytes_deleted: int
    files_back: int
    rows_before: int
    rows_gone: int
    rows_back: int
    rows_after: int
    notes: tuple[str, ...]


def savepoint_create(
    uri: str, instant: str | None = None, comment: str = "", config: WriteConfig | None = None, *, force: bool = False
) -> SavepointSummary:
    """Keep a commit: no clean takes its files, and it is not archived. Repeating it changes nothing.

    Args:
        instant: a completed write; None: the newest.
        force: consider every pending instant of another writer dead.

    Raises:
        UsageError: there is no such write.
        TableError: no table, one that is not written to, or files of then were cleaned away.
        ConflictError: another writer is in flight or holds the lock.
    """
    table = _writable(uri, config)
    done = create_savepoint(table, instant, _USER, comment, config, force=force)
    return SavepointSummary(table.name, table.uri, "made" if done.made else "there", _facts(done), done.notes)


def savepoint_list(uri: str) -> Savepoints:
    """The savepoints of a table, oldest first. Raises: TableError: no table, or one that is damaged."""
    table = Table.at(uri)
    return Savepoints(table.name, table.uri, tuple(_facts(one) for one in list_savepoints(table)))


def savepoint_delete(
    uri: str, instant: str, config: WriteConfig | None = None, *, force: bool = False
) -> SavepointSummary:
    """Let a commit be cleaned and archived as any other.

    Raises:
        UsageError: there is no such savepoint.
        TableError: no table, or one that is not written to.
        ConflictError: another writer is in flight or holds the lock.
    """
    table = _writable(uri, config)
    done = delete_savepoint(table, instant, config, force=force)
    return SavepointSummary(table.name, table.uri, "deleted", _facts(done), done.notes)


def restore(
    uri: str,
    to: str | None = None,
    config: WriteConfig | None = None,
    *,
    before: str | None = None,
    dry_run: bool = False,
    force: bool = False,
    shown: RestoreSummary | None = None,
) -> RestoreSummary:
    """Take a table back to a commit: all that was committed after it goes, in one step.

    Args:
        to: a completed write, savepointed or not, or an ISO time: what was committed by then stays.
        before: or the oldest one that goes, too: a rollback of several; or a time from which on all goes.
        force: consider every pending instant of another writer dead; a dry run shows what would go then.
        shown: what somebody was told before, and has agreed to: no other commit may go.

    Raises:
        UsageError: there is no such write on the timeline, or none before it; or both or neither are given.
        TableError: no table, one that is not written to, files of then were cleaned away, later commits were archived,
            or a savepoint keeps one.
        ConflictError: another writer is in flight, holds the lock, or has written since the table was looked at.
    """
    if (to is None) is (before is None):
        raise UsageError(
            "a restore is to one commit, or before one",
            culprit="--to",
            hint="give --to INSTANT (it stays), or --before INSTANT (it goes, too); or a time for either",
        )
    table = _writable(uri, config)
    target = _newest_at(table, to) if to is not None else _before(table, before or "")
    done = _restore(table, target, config, dry_run=dry_run, force=force, shown=shown)
    return done if dry_run else replace(done, notes=done.notes + sync_after(table.uri, config or WriteConfig()))


def _newest_at(table: Table, text: str) -> str:
    """The commit that a text names; of an ISO time the one that was completed last by then."""
    if text.strip().isdigit():
        return text.strip()
    timeline = table.load_timeline()
    point = named_point(table, timeline, text, "--to")
    return max(_by(timeline, point), key=by_end).time


def _by(timeline: Timeline, point: str) -> list[Instant]:
    """The writes that were completed by a point in time. Raises: UsageError: none were."""
    found = [one for one in timeline.completed_writes if by_end(one)[0] <= comparable(point)]
    if not found:
        raise UsageError(
            f"the table cannot be restored to what it was at {point}: nothing of the timeline was committed by then",
            culprit=point,
            hint=history_range(timeline),
        )
    return found


def _before(table: Table, instant: str) -> str:
    """The commit before one, or before a time."""
    timeline = table.load_timeline()
    if not instant.strip().isdigit():
        point = named_point(table, timeline, instant, "--before")
        return max(_by(timeline, previous_instant_time(point)), key=by_end).time
    target = timeline.completed_write(instant)
    later = () if target is None else (*later_writes(timeline, target), target)
    earlier = [one for one in timeline.completed_writes if one not in later]
    if target is None or not earlier:
        what = "is not a completed write of the timeline" if target is None else "is the first commit of the timeline"
        raise UsageError(
            f"the table cannot be restored to what it was before {instant}: it {what}",
            culprit=instant,
            hint="`lakeindex history` lists the instants; the first commit is rolled back alone, when it is the newest",
        )
    return max(earlier, key=by_end).time


def _writable(uri: str, config: WriteConfig | None) -> Table:
    table = Table.at(uri)
    table.check_writable(config)
    return table


def _restore(
    table: Table, to: str, config: WriteConfig | None, *, dry_run: bool, force: bool, shown: RestoreSummary | None
) -> RestoreSummary:
    settled: tuple[str, ...] = ()
    try:
        going = plan_restore(table, to, force=force and dry_run)
    except PendingInstantError:
        if dry_run:
            raise
        with maintaining(table, f"restore to {to}", config, force=force, alone=True) as (context, lock):
            finish_cleans(context, lock)  # what dead writers left is in nobody's way
            settled = tuple(context.notes)
        going = plan_restore(table, to)
    planned = _planned(table, going)
    if dry_run:
        return planned
    agreed = {one.instant for one in (planned if shown is None else shown).commits}
    expected = replace(going, writes=tuple(one for one in going.writes if one.time in agreed))
    _, done = restore_table(table, to, config, expected=expected, force=force)
    return replace(planned, dry_run=False, instant=done.instant, notes=settled + done.notes)


def _planned(table: Table, going: Going) -> RestoreSummary:
    """What is going to be changed: afterwards nobody can count it."""
    timeline = table.load_timeline()
    commits = read_commits(table, timeline)
    counted = rows_of_files(table, commits, (*going.live, *going.back))
    rows = sum(counted[one.path] for one in going.live)
    gone, back = (sum(counted[one.path] for one in files) for files in (going.lost, going.back))
    said = {instant.time: metadata for instant, metadata in commits}
    return RestoreSummary(
        table.name,
        table.uri,
        True,
        going.to,
        None,
        tuple(_lost(one.time, said[one.time]) for one in going.writes if one.time in said),
        tuple(one.path for one in going.files),
        sum(one.size_bytes for one in going.files),
        len(going.back),
        rows,
        gone,
        back,
        rows - gone + back,
        (),
    )


def _lost(time: str, metadata: CommitMetadata) -> LostCommit:
    stats = list(metadata.stats())
    return LostCommit(
        time,
        metadata.operation,
        metadata.extra_metadata.get(BATCH_KEY),
        sum(one.num_inserts for one in stats),
        sum(one.num_update_writes for one in stats),
        sum(one.num_deletes for one in stats),
    )


def _facts(kept: KeptCommit) -> Savepoint:
    said = kept.savepoint
    if said is None:
        return Savepoint(kept.time, None, None, None, 0)
    made_at = iso_of_instant_time(instant_time_of(said.made_ms))
    return Savepoint(kept.time, made_at, said.user, said.comments, sum(len(names) for names in said.files.values()))
