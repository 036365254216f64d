"""Rolling an instant back because somebody asks for it: the newest completed write, or a dead pending one."""

from __future__ import annotations

from msgspec.structs import replace

from lakeindex.commit.recovery import is_alive, is_clustering, is_dead_foreign, recover, roll_back_unclaimed, take_back
from lakeindex.commit.run_records import Claim, load_claims
from lakeindex.commit.services.archive import archived_lately
from lakeindex.commit.services.clean import by_end, finish_cleans
from lakeindex.commit.services.restore import missing_files, state_before
from lakeindex.commit.undo import RolledBack, roll_back
from lakeindex.errors import (
    FencedError,
    LakeIndexError,
    PendingInstantError,
    TableCorruptError,
    TableUnsupportedError,
    UsageError,
)
from lakeindex.files.file_system_view import all_base_files
from lakeindex.format import instants as names
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext, holding
from lakeindex.metadata_upkeep.keeping import check_metadata_table
from lakeindex.model import Instant, InstantState
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, this_host
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import BATCH_KEY, Outcome, Verdict, decide, decision_name, load_verdict

__all__ = ["RolledBack", "rollback_instant"]

_HISTORY = "`lakeindex history` lists the instants"


def rollback_instant(
    table: Table,
    instant_time: str,
    config: WriteConfig | None = None,
    *,
    force: bool = False,
    host: Host | None = None,
) -> RolledBack:
    """Roll back the newest completed write, or a pending write whose writer is dead.

    The batch that it committed may be committed again afterwards.

    Args:
        force: consider every pending instant of another writer dead.

    Raises:
        UsageError: there is no such write, or it is completed and not the newest.
        TableUnsupportedError: a savepoint keeps it, or the table must not be written to.
        PendingInstantError: it is in flight, and its writer may be alive.
        FencedError: this process stalled for longer than its lease; nothing was rolled back.
    """
    settings = config or WriteConfig()
    machine = host or this_host()
    decision = decision_name(instant_time, machine.new_token())
    purpose = f"rollback of {instant_time}"
    with holding(table, purpose, settings, force=force, host=machine, decision=decision) as (context, lock):
        try:
            wanted = _prepare(context, lock, instant_time, decision)
        except LakeIndexError:
            lock.settled(decision)  # nothing was decided, and this call is not going to
            raise
        done = wanted if isinstance(wanted, RolledBack) else _roll_back_completed(context, wanted)
        lock.settled(decision)
        return replace(done, notes=tuple(context.notes))


def _prepare(context: WriteContext, lock: TableLock, instant_time: str, decision: str) -> Verdict | RolledBack:
    """What is to be decided about a completed commit, after all checks; a pending instant is rolled back here."""
    check_metadata_table(context.table, context.config)
    timeline = context.table.load_timeline()
    target = _target(timeline, instant_time)
    if not target.is_completed:
        return _roll_back_pending(context, lock, timeline, target, decision)
    _check_removable(context.table, timeline, target)
    recover(context, lock, own=decision, alone=True)
    finish_cleans(context, lock)
    timeline = context.table.load_timeline()
    _check_removable(context.table, timeline, _target(timeline, target.time))
    _check_predecessors(context.table, timeline, target)
    before = load_verdict(context.storage, target.time)
    batch_id = before.batch_id if before is not None else _batch_of(context, timeline, target)
    token = context.host.new_token()
    return Verdict(decision, Outcome.COMMITTED, token, batch_id=batch_id or "", target=target.time)


def _batch_of(context: WriteContext, timeline: Timeline, target: Instant) -> str | None:
    try:
        return timeline.commit_metadata(context.storage, target).extra_metadata.get(BATCH_KEY)
    except TableCorruptError:
        return None  # its ledger entry stays, and counts for nothing once the instant is no part of the table


def _target(timeline: Timeline, time: str) -> Instant:
    writes = [one for one in timeline.instants if names.completed_action(one.action) in names.WRITE_ACTIONS]
    found = next((one for one in writes if one.time == time), None)
    if found is None:
        raise UsageError(f"the timeline has no write {time!r}", culprit=time, hint=_HISTORY)
    return found


def _check_removable(table: Table, timeline: Timeline, target: Instant) -> None:
    kept = (one for one in timeline.completed_writes if one.time in timeline.savepoints)
    saved = next((one.time for one in kept if by_end(one) >= by_end(target)), None)
    if saved is not None:
        what = "savepointed" if saved == target.time else f"part of savepoint {saved}, which was completed after it"
        raise TableUnsupportedError(
            f"instant {target.time} is {what}",
            culprit=saved,
            hint=f"delete the savepoint first: `lakeindex savepoint delete TABLE {saved}`",
        )
    newest = timeline.completed_writes[-1]
    if newest.time != target.time:
        raise UsageError(
            f"instant {target.time} is not the newest: {newest.time} was built on it",
            culprit=target.time,
            hint=f"roll back {newest.time} first, or all of them in one step: "
            f"`lakeindex restore TABLE --before {target.time}`",
        )
    _check_not_last(table, timeline, target)


def _check_not_last(table: Table, timeline: Timeline, target: Instant) -> None:
    """Refuse to empty the timeline of a table whose older commits were archived: no reader would see a file of theirs.

    An instant that the newest log of the archive names counts as archived: whoever archives it was killed, or is at it.
    """
    left = [one for one in timeline.completed_writes if one.time != target.time]
    if left and not {(one.time, one.action) for one in left} <= archived_lately(table):
        return
    older = left or timeline.archived.writes
    if not older and not any(
        names.comparable(one.instant_time) < names.comparable(target.time) for one in all_base_files(table.storage)
    ):
        return
    raise TableUnsupportedError(
        f"instant {target.time} is the last commit on the timeline, all older ones were archived: without it no reader "
        "sees any file",
        culprit=target.time,
        hint="write another batch first (then it is not the newest any more), "
        "or write the rows as you want them with a new upsert; archive with a larger hoodie.keep.min.commits",
    )


def _check_predecessors(table: Table, timeline: Timeline, target: Instant) -> None:
    before = state_before(table, timeline, {target.time})
    gone = next(iter(missing_files(table, timeline, (target,), before)), None)
    if gone is not None:
        raise TableUnsupportedError(
            f"instant {target.time} cannot be rolled back: what file group {gone} was before it was cleaned away",
            culprit=target.time,
            hint="restore that file, or write the rows as you want them with a new upsert; "
            "clean with more --keep-commits",
        )


def _roll_back_completed(context: WriteContext, wanted: Verdict) -> RolledBack:
    """Decide to undo a commit, unless somebody took the lock over and decided against it; then carry it out.

    Raises:
        FencedError: this process stalled for longer than its lease, and another writer went on; nothing was changed.
    """
    standing = decide(context.storage, wanted)
    if not standing.is_committed:
        raise FencedError(
            f"the rollback of {wanted.target} lost the table's lock before it began",
            culprit=wanted.target,
            hint="this process stalled for longer than lakeindex.lock.lease, and another writer went on; nothing was "
            "rolled back: look at `lakeindex history`, then run again",
        )
    return take_back(context, standing)


def _roll_back_pending(
    context: WriteContext, lock: TableLock, timeline: Timeline, target: Instant, decision: str
) -> RolledBack:
    claim = next((one for one in load_claims(context.storage) if one.instant == target.time), None)
    verdict = load_verdict(context.storage, target.time)
    if verdict is None and not _is_dead(context, timeline, target, claim):
        raise PendingInstantError(
            f"instant {target.time} is in flight, and its writer may be alive",
            culprit=target.time,
            hint="wait for it, or use force=True (--force) if you know that its writer is dead",
        )
    if verdict is None:
        verdict = decide(context.storage, Verdict(target.time, Outcome.ROLLED_BACK, context.host.new_token()))
    if verdict.is_committed:
        recover(context, lock, own=decision)  # its commit was decided: it is made visible, or withdrawn
        if context.table.load_timeline().find(target.time):
            raise UsageError(
                f"instant {target.time} was committed: its writer was killed before it could say so",
                culprit=target.time,
                hint="roll it back again, now that it is completed",
            )
        claim = None
    lock.settled(target.time)
    if claim is None:
        return roll_back_unclaimed(context, target.time)
    return roll_back(context, target.time, everywhere=True)


def _is_dead(context: WriteContext, timeline: Timeline, target: Instant, claim: Claim | None) -> bool:
    if context.force:
        return True
    if claim is not None and claim.run_key:
        return not is_alive(context, claim)
    if target.state is InstantState.REQUESTED and is_clustering(context.storage, timeline, target):
        return True  # a plan that nobody carries out
    return is_dead_foreign(context, timeline, target)
