"""Before anybody writes: what others left half-done is finished, one way or the other. Always under the lock.

Every instant of ours that is not tidied up has a claim. Its verdict says what to do: committed is rolled forward, rolled
back is rolled back to the end. Without a verdict, a living run's instant is left alone, and a dead one's is decided now.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakeindex.errors import ObjectNotFoundError, PendingInstantError, TableCorruptError
from lakeindex.format import instants as names
from lakeindex.model import Instant, InstantState
from lakeindex.storage.protocol import Storage
from lakeindex.table import records
from lakeindex.table.attempts import newest_attempt
from lakeindex.table.avro_instants import parse_requested_replace
from lakeindex.table.claims import Claim, claim_foreign, claim_path, drop_claim, load_claims
from lakeindex.table.ledger import LedgerEntry, record_batch
from lakeindex.table.lock import TableLock
from lakeindex.table.markers import remove_markers
from lakeindex.table.run_plan import forget_run, newest_plan
from lakeindex.table.timeline import Timeline
from lakeindex.table.undo import RolledBack, pending_rollbacks, roll_back
from lakeindex.table.verdicts import Outcome, Verdict, decide, load_verdict, overrule, shrink
from lakeindex.table.write_context import WriteContext

_HEARTBEATS: Final = ".hoodie/.heartbeat"
_ZONES_MS: Final = 12 * 3_600_000
"""An instant in local time is at most twelve hours behind UTC."""

_CLUSTER: Final = "CLUSTER"


def recover(context: WriteContext, lock: TableLock, own: str | None = None) -> None:
    """Settle everything that is not alive.

    Args:
        context: the writer.
        lock: the lock, held.
        own: our instant, which is left alone.

    Raises:
        PendingInstantError: a living writer that is none of ours has an instant in flight.
    """
    inherited = [time for time in lock.unsettled if time != own]
    for time in inherited:
        decide(context.storage, _rolled_back(context, time))
    for claim in load_claims(context.storage):
        if claim.instant != own:
            _resolve(context, claim)
    for time in inherited:
        lock.settled(time)
    _settle_unclaimed(context, own)


def roll_forward(context: WriteContext, verdict: Verdict, run_key: str = "", *, files_checked: bool = False) -> bool:
    """Make a committed instant visible and note its batch; whoever finds the verdict may do it, again and again.

    Args:
        context: the writer; the lock is held.
        verdict: a committed one.
        run_key: folder of the run, which is over then.
        files_checked: whether its data files are known to be there.

    Returns:
        Whether the commit stands. False if another writer rolled the instant back before its commit could be seen: then
        that rollback is finished.
    """
    storage, time = context.storage, verdict.instant
    timeline = context.table.load_timeline()
    if _is_archived(timeline, time):
        stands = _any_exists(storage, verdict.paths)
    else:
        stands = _is_completed(timeline, time)
        if not stands:
            stands = _put_commit(context, timeline, verdict, files_checked=files_checked) and not _is_raced(
                context, time
            )
        if not (stands and _is_intact(context, context.table.load_timeline(), time)):
            _withdraw(context, verdict)
            return False
    if stands and verdict.batch_id:
        record_batch(storage, LedgerEntry(verdict.batch_id, verdict.input_digest, time, verdict.summary))
    remove_markers(storage, time)
    if verdict.commit is not None:
        shrink(storage, verdict)
    if run_key:
        forget_run(storage, run_key)
    drop_claim(storage, time)
    return stands


def abandon_instant(context: WriteContext, time: str) -> None:
    """Roll back an instant of ours that is not committed. The lock is held."""
    if decide(context.storage, _rolled_back(context, time)).is_committed:
        return
    roll_back(context, time, everywhere=False)


def is_rolled_back(context: WriteContext, time: str) -> bool:
    """Whether somebody rolled a pending instant of ours back, or has begun to."""
    return not _is_intact(context, context.table.load_timeline(), time)


def is_requested(context: WriteContext, time: str) -> bool:
    """Whether a pending instant of ours is still on the timeline, and nobody has begun to roll it back."""
    timeline = context.table.load_timeline()
    states = {one.state for one in timeline.find(time) if one.action == names.COMMIT}
    return bool(states) and InstantState.COMPLETED not in states and not _is_named(context, timeline, time)


def is_alive(context: WriteContext, claim: Claim) -> bool:
    """Whether the run that claimed an instant may still be working on it."""
    attempt = newest_attempt(context.storage, claim.run_key) if claim.run_key else None
    if attempt is None or not attempt.is_alive(context.host):
        return False
    plan = newest_plan(context.storage, claim.run_key)
    return claim.attempt == attempt.number or (plan is not None and plan.instant == claim.instant)


def is_dead_foreign(context: WriteContext, timeline: Timeline, instant: Instant) -> bool:
    """Whether another writer's pending instant is older than it may be, or the user says that it is dead."""
    if context.force:
        return True
    limit = context.config.pending_foreign_max_age_seconds * 1000
    now = context.host.clock.now_ms()
    beat = _modified_ms(context.storage, f"{_HEARTBEATS}/{instant.time}")
    if beat is not None and now - beat < limit:
        return False
    paths = [timeline.path(replace(instant, state=s)) for s in (InstantState.REQUESTED, InstantState.INFLIGHT)]
    touched = [ms for path in paths if (ms := _modified_ms(context.storage, path)) is not None]
    if not touched or now - max(touched) >= limit:
        return True
    # A copied table has new modification times; the instant itself tells the start, in an unknown zone.
    try:
        return now - names.instant_time_to_ms(instant.time) - _ZONES_MS >= limit
    except ValueError:
        return False


def _resolve(context: WriteContext, claim: Claim) -> None:
    verdict = load_verdict(context.storage, claim.instant)
    if verdict is None:
        if not claim.run_key or _is_completed(context.table.load_timeline(), claim.instant):
            # A rollback that never began, or the verdict was removed by hand: there is nothing to finish.
            drop_claim(context.storage, claim.instant)
            return
        if is_alive(context, claim):
            return
        verdict = decide(context.storage, _rolled_back(context, claim.instant))
    if verdict.is_committed:
        roll_forward(context, verdict, claim.run_key)
    else:
        roll_back(context, claim.instant, everywhere=not claim.run_key)


def _settle_unclaimed(context: WriteContext, own: str | None) -> None:
    """Pending writes without a claim: zombies' leftovers of ours, and other writers'.

    The timeline is read before the claims: a requested file of ours is never without one.
    """
    timeline = context.table.load_timeline()
    claimed = {claim.instant for claim in load_claims(context.storage)}
    for instant in reversed(timeline.pending_writes):
        if instant.time == own or instant.time in claimed:
            continue
        if _is_foreign(context, timeline, instant):
            if not is_dead_foreign(context, timeline, instant):
                raise PendingInstantError(
                    f"instant {instant.time} ({instant.action}, {instant.state}) of another writer is in flight",
                    culprit=instant.time,
                    hint="wait for it; if its writer is dead, roll it back with `lakeindex rollback` or run with --force",
                )
            roll_back_unclaimed(context, instant.time)
        elif is_tombstoned(context.storage, instant.time):
            roll_back_unclaimed(context, instant.time)


def _is_foreign(context: WriteContext, timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending write is another kind of writer's, and no scheduled clustering."""
    if records.load(context.storage, claim_path(instant.time)) is not None:
        return False
    if load_verdict(context.storage, instant.time) is not None:
        return False
    return not _is_clustering(context.storage, timeline, instant)


def is_tombstoned(storage: Storage, time: str) -> bool:
    """Whether an instant was rolled back for good: what appears of it later is a zombie's."""
    verdict = load_verdict(storage, time)
    return verdict is not None and not verdict.is_committed


def roll_back_unclaimed(context: WriteContext, time: str) -> RolledBack:
    """Roll back an instant that has no claim: the claim makes the rollback resumable. The lock is held."""
    claim_foreign(context.storage, context.host, time)
    decide(context.storage, _rolled_back(context, time))
    return roll_back(context, time, everywhere=True)


def _put_commit(context: WriteContext, timeline: Timeline, verdict: Verdict, *, files_checked: bool) -> bool:
    """Write ``<instant>.commit`` as the verdict has it, if the instant is still whole; returns whether it is there."""
    time = verdict.instant
    if verdict.commit is None or not _is_intact(context, timeline, time):
        return False  # it stood once and was rolled back by another writer, or was so before it stood
    if not files_checked and not _all_exist(context.storage, verdict.paths):
        return False
    path = timeline.path(Instant(time, names.COMMIT, InstantState.COMPLETED))
    data = verdict.commit.encode("utf-8", "surrogatepass")
    if records.settle(context.storage, path, data) != data:
        raise TableCorruptError(
            f"{path} is not the commit that was decided",
            culprit=path,
            hint="another writer used the same instant: run `lakeindex check`",
        )
    context.storage.sync([path])
    return True


def _is_raced(context: WriteContext, time: str) -> bool:
    """Whether another kind of writer began between our checks and our commit.

    It may have read the table before our commit was there, and will not look for conflicts: its commit would undo ours.
    """
    timeline = context.table.load_timeline()
    return any(one.time != time and _is_foreign(context, timeline, one) for one in timeline.pending_writes)


def _withdraw(context: WriteContext, verdict: Verdict) -> None:
    """Another writer rolled our instant back before it was done: take the commit away, and what is left of it."""
    overrule(context.storage, _rolled_back(context, verdict.instant))
    roll_back(context, verdict.instant, everywhere=False)


def _is_intact(context: WriteContext, timeline: Timeline, time: str) -> bool:
    """Whether our requested and inflight files are there, and no rollback names the instant."""
    states = {one.state for one in timeline.files if one.time == time and one.action == names.COMMIT}
    if not {InstantState.REQUESTED, InstantState.INFLIGHT} <= states:
        return False
    return not _is_named(context, timeline, time)


def _is_named(context: WriteContext, timeline: Timeline, time: str) -> bool:
    return any(one.plan.instant_time == time for one in pending_rollbacks(context, timeline))


def _is_completed(timeline: Timeline, time: str) -> bool:
    return time in timeline.completed_write_times


def _is_archived(timeline: Timeline, time: str) -> bool:
    """Whether the timeline begins after an instant that has no file on it any more."""
    return not timeline.find(time) and timeline.is_visible(time)


def _is_clustering(storage: Storage, timeline: Timeline, instant: Instant) -> bool:
    """A scheduled clustering may wait for long; it blocks its file groups, not the table."""
    if instant.action == names.CLUSTERING:
        return True
    if instant.action != names.REPLACE_COMMIT:
        return False
    path = timeline.path(replace(instant, state=InstantState.REQUESTED))
    try:
        return parse_requested_replace(storage.read(path), path).operation == _CLUSTER
    except (ObjectNotFoundError, TableCorruptError):
        return False


def _rolled_back(context: WriteContext, time: str) -> Verdict:
    return Verdict(time, Outcome.ROLLED_BACK, context.host.new_token())


def _any_exists(storage: Storage, paths: tuple[str, ...]) -> bool:
    return any(_modified_ms(storage, path) is not None for path in paths)


def _all_exist(storage: Storage, paths: tuple[str, ...]) -> bool:
    missing: list[str] = []

    def look(path: str) -> None:
        if _modified_ms(storage, path) is None:
            missing.append(path)

    records.each(look, paths)
    return not missing


def _modified_ms(storage: Storage, path: str) -> int | None:
    try:
        return storage.head(path).modified_ms
    except ObjectNotFoundError:
        return None
