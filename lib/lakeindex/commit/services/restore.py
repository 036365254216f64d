"""Taking the table back to an instant: all writes that were completed after it go, in one step.

What goes is decided before anything is changed, as the rollback of one commit is (``docs/commit-protocol.md``), and
carried out by :mod:`lakeindex.commit.restoring`. A restore is refused if what the table was at the instant is not all
there, or is not for us to take away: see :func:`plan_restore`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from lakeindex.commit.recovery import recover
from lakeindex.commit.restoring import Restored, carry_out
from lakeindex.commit.services.archive import archived_lately
from lakeindex.commit.services.clean import by_end, finish_cleans, saved_names
from lakeindex.errors import (
    FencedError,
    LakeIndexError,
    PendingInstantError,
    TableCorruptError,
    TableUnsupportedError,
    TimelineChangedError,
    UsageError,
    WriteConflictError,
)
from lakeindex.files.file_system_view import Snapshot, snapshot
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import NO_PREVIOUS, CommitMetadata
from lakeindex.format.file_names import parse_base_path
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext, holding
from lakeindex.metadata_upkeep.keeping import check_metadata_table
from lakeindex.model import BaseFile, Group, Instant, InstantState
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, this_host
from lakeindex.timeline.archived_timeline import load_archived_timeline
from lakeindex.timeline.avro_instants import RestorePlan, format_restore_plan
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import Outcome, Verdict, decide, decision_name

_HISTORY = "`lakeindex history` lists the instants"


class Going(Frozen):
    """What a restore would change.

    Attributes:
        to: the instant that is restored to.
        writes: the completed writes that go, newest first.
        files: their data files.
        live: the files of the table before.
        lost: those of them that are live no longer.
        back: files that are live again.
    """

    to: str
    writes: tuple[Instant, ...] = ()
    files: tuple[BaseFile, ...] = ()
    live: tuple[BaseFile, ...] = ()
    lost: tuple[BaseFile, ...] = ()
    back: tuple[BaseFile, ...] = ()


def restore_table(
    table: Table,
    to: str,
    config: WriteConfig | None = None,
    *,
    expected: Going | None = None,
    force: bool = False,
    host: Host | None = None,
) -> tuple[Going, Restored]:
    """Take the table back. Repeating it, after a kill too, does what is left to do.

    Args:
        to: a completed write.
        expected: what was said that it would change: no other write may go.
        force: consider every pending instant of another writer dead.

    Raises:
        WriteConflictError: somebody has written since that was said; nothing was changed.
        UsageError: there is no such completed write on the timeline.
        TableUnsupportedError: what the table was then is not all there any more, or a savepoint keeps a later write.
        PendingInstantError: another writer is in flight.
        FencedError: this process stalled for longer than its lease; nothing was changed.
    """
    settings, machine = config or WriteConfig(), host or this_host()
    decision = decision_name(to, machine.new_token())
    purpose = f"restore to {to}"
    with holding(table, purpose, settings, force=force, host=machine, decision=decision) as (context, lock):
        try:
            going = _prepare(context, lock, to, decision)
            _check_expected(going, expected)
        except LakeIndexError:
            lock.settled(decision)  # nothing was decided, and this call is not going to
            raise
        done = _decided(context, going, decision) if going.writes else Restored(None)
        lock.settled(decision)
        return going, replace(done, notes=tuple(context.notes))


def plan_restore(table: Table, to: str, *, force: bool = False) -> Going:
    """What a restore would change now; nothing is changed.

    Args:
        force: as if writers of pending instants were dead, and what they left was settled.

    Raises:
        UsageError: there is no such completed write on the timeline.
        TableUnsupportedError: a savepoint keeps a later write; later writes were archived; or files of then are gone.
        PendingInstantError: another writer's write or clean that is later is in flight.
    """
    timeline = table.load_timeline()
    target = timeline.completed_write(to)
    if target is None:
        archived = "was archived" if to in timeline.archived.writes else "is not a completed write of the timeline"
        raise UsageError(f"the table cannot be restored to {to}: it {archived}", culprit=to, hint=_HISTORY)
    writes = later_writes(timeline, target)
    _check_kept(table, timeline, target, writes, force=force)
    times = {one.time for one in writes}
    now, then = snapshot(table.storage, timeline), state_before(table, timeline, times)
    _check_files(table, timeline, target, writes, then)
    live, again = now.base_files_all(), then.base_files_all()
    every = (one for path in now.partitions() for part in (now.files_of(path),) for one in (*part.live, *part.older))
    files = tuple(sorted(one for one in every if one.instant_time in times))
    lost, back = sorted(set(live) - set(again)), sorted(set(again) - set(live))
    return Going(to, writes, files, live, tuple(lost), tuple(back))


def later_writes(timeline: Timeline, target: Instant) -> tuple[Instant, ...]:
    """The writes that were completed after one, the last one first: where the timeline does not say when, by time."""
    ends = sorted(timeline.completed_writes, key=by_end, reverse=True)
    return tuple(one for one in ends if by_end(one) > by_end(target))


def state_before(table: Table, timeline: Timeline, times: set[str]) -> Snapshot:
    """The table as it is without some writes, by listing folders."""
    return snapshot(table.storage, timeline.without_completed(times))


def missing_files(
    table: Table, timeline: Timeline, writes: tuple[Instant, ...], then: Snapshot, *, whole: bool = False
) -> Iterator[str]:
    """File groups, as ``partition/file id``, of which the slice that was live before some writes is gone.

    Args:
        writes: the newest ones, newest first.
        then: the table without them.
        whole: look at all file groups that commits on the timeline wrote, not only at those that the writes changed.
    """
    wanted: dict[Group, str | None] = {}
    for one in reversed(writes):
        commit = _done_by(table, timeline, one)
        for partition, stat in ((path, one) for path, stats in commit.write_stats.items() for one in stats):
            previous = None if stat.prev_commit in (None, NO_PREVIOUS) else stat.prev_commit
            wanted.setdefault((partition, stat.file_id), previous or "")
        for group in sorted(commit.replaced()):
            wanted.setdefault(group, None)  # it was live before: the newest slice that a commit names
    again = frozenset(group for group, previous in wanted.items() if previous is None)
    for one in (one for one in timeline.completed_writes if (whole or again) and one not in writes):
        commit = _before(table, timeline, one, None if whole else (then, again))
        written = _groups_of(commit)
        wanted |= dict.fromkeys(written if whole else written & again, one.time)
        for group in commit.replaced() if whole else ():
            wanted.pop(group, None)
    for (partition, file_id), previous in wanted.items():
        if previous == "":
            continue  # it was made by one of the writes
        found = {file.instant_time for file in then.base_files(partition) if file.file_id == file_id}
        if not found or (previous is not None and previous not in found):
            yield f"{partition}/{file_id}" if partition else file_id


def _before(
    table: Table, timeline: Timeline, write: Instant, about: tuple[Snapshot, Collection[Group]] | None
) -> CommitMetadata:
    """What an earlier write did; nothing if that cannot be read, and nobody needs to know.

    Args:
        about: a state, and the file groups of which it is asked; None: all.
    """
    try:
        return timeline.commit_metadata(table.storage, write)
    except TableCorruptError:
        if about is None or not _have_later_slices(*about, write.time):
            raise
        return CommitMetadata()


def _have_later_slices(then: Snapshot, groups: Collection[Group], time: str) -> bool:
    """Whether all file groups have a slice that is newer than a write: whatever that did to them, this was after it."""
    live = {(f.partition_path, f.file_id): f for part in {path for path, _ in groups} for f in then.base_files(part)}
    return all(group in live and comparable(live[group].instant_time) > comparable(time) for group in groups)


def _done_by(table: Table, timeline: Timeline, write: Instant) -> CommitMetadata:
    """What a write did; of one whose completed file is damaged, what its inflight file says that it was going to do."""
    try:
        return timeline.commit_metadata(table.storage, write)
    except TableCorruptError as error:
        if write.action != names.COMMIT:
            raise
        try:
            begun = replace(write, state=InstantState.INFLIGHT, completion_time=None)
            return timeline.commit_metadata(table.storage, begun)
        except (TableCorruptError, TimelineChangedError):
            raise error from None


def _groups_of(commit: CommitMetadata) -> set[Group]:
    """The file groups that a commit wrote slices of."""
    files = (parse_base_path(stat.path or "") for stat in commit.stats())
    return {(one.partition_path, one.file_id) for one in files if one is not None}


def _check_kept(table: Table, timeline: Timeline, target: Instant, writes: tuple[Instant, ...], *, force: bool) -> None:
    """Refuse what is not for us to take away, or would not be all that is later."""
    saved = next((one.time for one in writes if one.time in timeline.savepoints), None)
    if saved is not None:
        raise TableUnsupportedError(
            f"the table cannot be restored to {target.time}: the later instant {saved} is savepointed",
            culprit=saved,
            hint=f"restore to {saved}, or delete it first: `lakeindex savepoint delete TABLE {saved}`",
        )
    archived = load_archived_timeline(table.storage, timeline.layout.archive_folder)
    began = (one for one in archived.writes if comparable(one) > comparable(target.time))
    ended = (one for one, end in archived.ends.items() if (comparable(end), one) > by_end(target))
    gone = max((*began, *ended), key=comparable, default=None)
    if gone is not None or (target.time, target.action) in archived_lately(table):
        raise TableUnsupportedError(
            f"the table cannot be restored to {target.time}: {gone or target.time}, which is not older, was archived: "
            "nothing says what it changed",
            culprit=gone or target.time,
            hint="restore to a later instant, or write the rows as you want them",
        )
    in_the_way = {names.INDEXING} if force else {names.CLEAN, names.CLUSTERING, names.REPLACE_COMMIT, names.INDEXING}
    for one in timeline.pending:
        if one.action in in_the_way and comparable(one.time) > comparable(target.time):
            raise PendingInstantError(
                f"the table cannot be restored to {target.time} while {one.action} {one.time} is {one.state}",
                culprit=one.time,
                hint=_cure_of_pending(one),
            )


def _cure_of_pending(one: Instant) -> str:
    """What to do about an instant that a restore would leave without what it rests on."""
    if one.action == names.INDEXING:
        return "let its writer finish it"
    if one.action == names.CLEAN:
        return "let its writer finish it; with force=True (--force) it is taken for dead, and the restore finishes it"
    return f"let its writer finish it; if it is dead, `lakeindex rollback TABLE {one.time} --force` rolls it back"


def _check_files(
    table: Table, timeline: Timeline, target: Instant, writes: tuple[Instant, ...], then: Snapshot
) -> None:
    gone = next(missing_files(table, timeline, writes, then), None)
    if gone is None and target.time in timeline.savepoints:
        kept = saved_names(table, timeline, target.time)
        gone = next(iter(sorted(kept - {file.path for file in then.base_files_all()})), None)
    if gone is not None:
        raise TableUnsupportedError(
            f"the table cannot be restored to {target.time}: what {gone} was then is gone, it was cleaned away",
            culprit=gone,
            hint="restore to a later instant, or bring the file back from a copy; a savepoint, or cleaning with more "
            "--keep-commits, keeps such files",
        )


def _check_expected(going: Going, expected: Going | None) -> None:
    new = () if expected is None else tuple(one for one in going.writes if one not in expected.writes)
    for one in new[-1:]:
        raise WriteConflictError(
            f"the table was not restored to {going.to}: {one.action} {one.time} was completed "
            "meanwhile, and would go, too",
            culprit=one.time,
            hint="nothing was changed; look at the dry run, then run again",
        )


def _prepare(context: WriteContext, lock: TableLock, to: str, decision: str) -> Going:
    table = context.table
    check_metadata_table(table, context.config)
    recover(context, lock, own=decision, alone=True)
    finish_cleans(context, lock)
    return plan_restore(table, to)


def _decided(context: WriteContext, going: Going, decision: str) -> Restored:
    """Decide to restore, unless somebody took the lock over and decided against it; then carry it out."""
    data = format_restore_plan(RestorePlan(going.to, tuple((one.time, one.action) for one in going.writes)))
    paths = tuple(file.path for file in going.files)
    newest = going.writes[0].time
    token = context.host.new_token()
    done = tuple(one.time for one in context.table.load_timeline().instants if one.action == names.RESTORE)
    wanted = Verdict(decision, Outcome.COMMITTED, token, "", "", data, paths, done, action=names.RESTORE, target=newest)
    standing = decide(context.storage, wanted)
    if not standing.is_committed:
        raise FencedError(
            f"the restore to {going.to} lost the table's lock before it began",
            culprit=going.to,
            hint="this process stalled for longer than lakeindex.lock.lease, and another writer went on; nothing was "
            "changed: look at `lakeindex history`, then run again",
        )
    return carry_out(context, data, paths, earlier=done)
