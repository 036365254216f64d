"""Before anybody writes: what others left half-done is finished, one way or the other. Always under the lock.

Every instant of ours that is not tidied up has a claim. Its verdict says what to do: what is committed is made visible,
and a rollback is carried to its end. Without a verdict, a living run's instant is left alone, and a dead one's is
decided now.

Writers of other kinds leave pending instants, too; those that show no sign of life for too long are rolled back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from lakeindex.commit.ledger import LedgerEntry, forget_batch, is_announced, record_batch
from lakeindex.commit.restoring import carry_out, finish_restores
from lakeindex.commit.run_records import (
    Claim,
    claim_foreign,
    drop_claim,
    forget_run,
    load_claim,
    load_claims,
    newest_attempt,
    newest_plan,
)
from lakeindex.commit.undo import RolledBack, roll_back
from lakeindex.errors import ObjectNotFoundError, PendingInstantError, TableCorruptError, WriteConflictError
from lakeindex.format import instants as names
from lakeindex.format.file_names import TEMP_FOLDER, parse_base_file
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext, check_zone, holding
from lakeindex.metadata_upkeep.keeping import Upkeep, check_metadata_table, keep_commit, sweep_deltas
from lakeindex.model import Instant, InstantState
from lakeindex.options.types import WriteConfig
from lakeindex.storage import Storage, in_parallel
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import parse_requested_replace
from lakeindex.timeline.pending_files import end_heartbeat, heartbeat_path, remove_markers
from lakeindex.timeline.timeline import CLUSTERING_ACTIONS, Timeline
from lakeindex.timeline.verdicts import (
    ATTEMPT_KEY,
    BATCH_KEY,
    DIGEST_KEY,
    Outcome,
    Verdict,
    decide,
    decisions,
    forget_verdict,
    is_decision,
    load_verdict,
    overrule,
    shrink,
)

_CLUSTER: Final = "CLUSTER"
PLAN_KEY: Final = "lakeindex.plan"
"""Names the plan in an inflight file of ours."""


def is_foreign(context: WriteContext, timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending write is another kind of writer's, and no scheduled clustering."""
    if load_claim(context.storage, instant.time) is not None:
        return False
    if load_verdict(context.storage, instant.time) is not None:
        return False
    return not is_clustering(context.storage, timeline, instant)


def is_dead_foreign(context: WriteContext, timeline: Timeline, instant: Instant) -> bool:
    """Whether another writer's pending instant shows no sign of life for too long, or the user says that it is dead.

    Signs are its files on the timeline, its heartbeat, its markers and its data files: a long write begins once,
    and goes on writing. Data files are looked for last, in the whole table, when everything else says that it is dead.
    """
    if context.force:
        return True
    since = context.host.clock.now_ms() - context.config.pending_foreign_max_age_seconds * 1000
    return not any(modified > since for modified in _signs_of_life(context.storage, timeline, instant))


def _signs_of_life(storage: Storage, timeline: Timeline, instant: Instant) -> Iterator[int]:
    """When each file of a pending write was last written, milliseconds since the epoch; the cheap ones first."""
    states = (InstantState.REQUESTED, InstantState.INFLIGHT)
    paths = [heartbeat_path(instant.time), *(timeline.path(replace(instant, state=state)) for state in states)]
    for path in paths:
        modified = modified_ms(storage, path)
        if modified is not None:
            yield modified
    for marker in storage.list(f"{TEMP_FOLDER}/{instant.time}"):
        yield marker.modified_ms
    for one in storage.list():
        folder, _, name = one.path.rpartition("/")
        file = parse_base_file(folder, name)
        if file is not None and file.instant_time == instant.time:
            yield one.modified_ms


def racing(context: WriteContext, timeline: Timeline, time: str) -> Instant | None:
    """A pending write of another kind of writer beside an instant of ours, if there is one."""
    found = (one for one in timeline.pending_writes if one.time != time and is_foreign(context, timeline, one))
    return next(found, None)


def pending_error(instant: Instant) -> PendingInstantError:
    """The error for a living one."""
    return PendingInstantError(
        f"instant {instant.time} ({instant.action}, {instant.state}) of another writer is in flight",
        culprit=instant.time,
        hint=f"wait for it; if its writer is dead, `lakeindex rollback TABLE {instant.time} --force` rolls it back",
    )


def rolled_back_error(time: str, when: str = "") -> WriteConflictError:
    """The error for an instant of ours that another writer took for dead; ``when``: while what."""
    return WriteConflictError(
        f"instant {time} was rolled back by another writer{when and ' '}{when}",
        culprit=time,
        hint="run it again; a Hudi writer with its default settings must not run at the same time "
        "(docs/compatibility.md)",
    )


def is_clustering(storage: Storage, timeline: Timeline, instant: Instant) -> bool:
    """A scheduled clustering may wait for long; it blocks its file groups, not the table."""
    if any(one.time == instant.time and one.action == names.CLUSTERING for one in timeline.files):
        return True
    if instant.action != names.REPLACE_COMMIT:
        return False
    path = timeline.path(replace(instant, state=InstantState.REQUESTED))
    try:
        return records.read_filled(storage, path, parse_requested_replace).operation == _CLUSTER
    except (ObjectNotFoundError, TableCorruptError):
        return False


def modified_ms(storage: Storage, path: str) -> int | None:
    """When an object was last written, milliseconds since the epoch; ``None`` if it is not there."""
    try:
        return storage.head(path).modified_ms
    except ObjectNotFoundError:
        return None


Note = Callable[[str, Callable[[], object]], None]
"""Does something, and keeps a note in these words if it goes wrong."""


@contextmanager
def maintaining(
    table: Table,
    purpose: str,
    config: WriteConfig | None = None,
    *,
    force: bool = False,
    alone: bool = False,
    host: Host | None = None,
) -> Iterator[tuple[WriteContext, TableLock]]:
    """Hold the lock of a table that may be written to, after what dead writers left was settled.

    Args:
        purpose: what for; others that wait for the lock see it.
        config: lease, waiting times, metadata table policy.
        force: take other writers' pending instants for dead.
        alone: whether no other kind of writer may be in flight, even if it holds Hudi's lock with us.

    Raises:
        TableUnsupportedError, MetadataTableError: the table must not be written to.
        PendingInstantError: a living writer of another kind is in flight.
        LockTimeoutError: another writer holds the lock for too long.
    """
    settings = config or WriteConfig()
    with holding(table, purpose, settings, force=force, host=host) as (context, lock):
        properties = check_metadata_table(table, settings)
        recover(context, lock, alone=alone)
        sweep_deltas(context, properties)
        yield context, lock


def recover(context: WriteContext, lock: TableLock, own: str | None = None, *, alone: bool = False) -> Timeline | None:
    """Settle everything that is not alive.

    Args:
        own: our instant, which is left alone.
        alone: whether no other kind of writer may be in flight, even if it holds Hudi's lock with us.

    Returns:
        The timeline, if there was nothing to settle: it is as it was loaded, but for what others do without our lock.

    Raises:
        PendingInstantError: a living writer that is none of ours has an instant in flight, and does not share
            Hudi's lock with us.
        ClockError: an instant lies hours ahead of now.
    """
    inherited = [time for time in lock.unsettled if time != own]
    if lock.blind:
        inherited += decisions(context.storage)
    for time in inherited:
        standing = _settle(context, time)
        if standing is not None and standing.is_committed and standing.target:
            execute(context, standing)
    timeline, claims = _settle_unclaimed(context, own, alone=alone or not context.shares_lock)
    others = [claim for claim in claims if claim.instant != own]
    for claim in others:
        _resolve(context, replace(claim, torn=True) if lock.blind else claim)
    for time in inherited:
        lock.settled(time)
    lock.recovered()
    return None if others else timeline


def roll_forward(
    context: WriteContext,
    verdict: Verdict,
    run_key: str = "",
    *,
    note: Note | None = None,
    upkeep: Upkeep | None = None,
) -> bool:
    """Make a committed instant visible and note its batch; whoever finds the verdict may do it, again and again.

    Args:
        verdict: a committed one.
        run_key: folder of the run, which is over then.
        note: what its own publisher is told instead of an error of what is done once the commit stands;
            the checks before the verdict were made just now, then.
        upkeep: what was prepared for the metadata table under this lock.

    Returns:
        Whether the commit stands. False if another writer rolled the instant back, or committed,
        before anybody was told: then it is withdrawn.

    Raises:
        PendingInstantError: not publishing, and a living writer of another kind is in flight.
    """
    storage, time, publishing = context.storage, verdict.instant, note is not None
    timeline = context.table.load_timeline()
    stands, put = is_announced(storage, verdict.batch_id, time), False
    if not stands and _is_archived(timeline, time):
        stands = _any_exists(storage, verdict.paths) and _tell(context, verdict)
    elif not stands:
        other = None if publishing or context.shares_lock else racing(context, timeline, time)
        if other is not None:
            raise pending_error(other)
        put = _stands(context, timeline, verdict) or _put_commit(
            context, timeline, verdict, upkeep, publishing=publishing
        )
        if not (put and _is_undisturbed(context, verdict) and _tell(context, verdict)):
            return _withdraw(context, verdict)

    def tidy() -> None:
        remove_markers(storage, time)
        if verdict.commit is not None and (put or _stands(context, timeline, verdict)):
            shrink(storage, verdict)
        if run_key:
            forget_run(storage, run_key)
        end_heartbeat(storage, time)
        drop_claim(storage, time)

    if note is None:
        tidy()
    else:
        note(f"what {time} needed until it was committed is left to the next write", tidy)
    return stands or put or is_announced(storage, verdict.batch_id, time)


def abandon_instant(context: WriteContext, time: str) -> None:
    """Roll back an instant of ours that is not committed. The lock is held."""
    if decide(context.storage, _rolled_back(context, time)).is_committed:
        return
    roll_back(context, time, everywhere=False)


def execute(context: WriteContext, decision: Verdict) -> None:
    """Carry out what was decided about completed commits: a restore, or a rollback of the newest one."""
    if decision.action == names.RESTORE and decision.commit is not None:
        carry_out(context, decision.commit, decision.paths, earlier=decision.base_writes)
    else:
        take_back(context, decision)


def take_back(context: WriteContext, decision: Verdict) -> RolledBack:
    """Carry out the decision to roll a completed commit back; whoever finds it may do so, again and again.
    The lock is held.

    The claim on the target comes first: from then on recovery finds what is left to do.
    """
    storage, target = context.storage, decision.target
    claim_foreign(storage, context.host, target)
    before = load_verdict(storage, target)
    overrule(storage, _rolled_back(context, target, None if before is None else before.completion_time))
    if decision.batch_id:
        forget_batch(storage, decision.batch_id, target)
    done = roll_back(context, target, everywhere=True)
    if done.finished:
        forget_verdict(storage, decision.instant)
    return done


def is_rolled_back(context: WriteContext, timeline: Timeline, time: str) -> bool:
    """Whether somebody had rolled a pending instant of ours back, or had begun to, when the timeline was loaded."""
    return not _is_intact(context, timeline, time)


def is_requested(context: WriteContext, time: str) -> bool:
    """Whether a pending instant of ours is still on the timeline, and nobody has begun to roll it back."""
    timeline = context.table.load_timeline()
    states = _write_states(timeline, time)
    if InstantState.REQUESTED not in states or InstantState.COMPLETED in states:
        return False
    return not _is_named(context, timeline, time)


def is_alive(context: WriteContext, claim: Claim) -> bool:
    """Whether the run that claimed an instant may still be working on it."""
    attempt = newest_attempt(context.storage, claim.run_key) if claim.run_key else None
    if attempt is None or not attempt.is_alive(context.host):
        return False
    plan = newest_plan(context.storage, claim.run_key)
    return claim.attempt == attempt.number or (plan is not None and plan.instant == claim.instant)


def _resolve(context: WriteContext, claim: Claim) -> None:
    verdict = load_verdict(context.storage, claim.instant)
    if verdict is None and not claim.torn and is_alive(context, claim):
        return
    if verdict is None and _is_taken_over(context.storage, context.table.load_timeline(), claim.instant):
        drop_claim(context.storage, claim.instant)  # a clustering of ours that Hudi carries out
        return
    if verdict is None and (claim.torn or claim.run_key or _is_visible(context, claim.instant)):
        verdict = _settle(context, claim.instant)
    if verdict is None:
        # A rollback that never began, or a claim that came back after its instant was archived:
        # there is nothing to finish.
        drop_claim(context.storage, claim.instant)
        return
    if verdict.is_committed:
        # who claimed an instant that another run had committed, and died, has not ended its own run by that
        roll_forward(context, verdict, claim.run_key if claim.batch_id == verdict.batch_id else "")
    else:
        roll_back(context, claim.instant, everywhere=not claim.run_key)


def _is_visible(context: WriteContext, time: str) -> bool:
    return context.table.load_timeline().is_visible(time)


def _settle(context: WriteContext, time: str) -> Verdict | None:
    """The verdict on an instant that nobody may commit from now on.

    The torn one of a commit that stands is made again. None for one that was archived, whose verdict is not kept:
    a power loss may bring an old lock or claim back that names it.
    """
    if not is_decision(time) and load_verdict(context.storage, time) is None:
        timeline = context.table.load_timeline()
        if timeline.is_visible(time):
            return _verdict_of(context, timeline, time)
    return decide(context.storage, _rolled_back(context, time))


def _verdict_of(context: WriteContext, timeline: Timeline, time: str) -> Verdict | None:
    """The verdict on a commit of ours that stands, made again from the commit itself; None for others, and archived
    ones.
    """
    found = timeline.completed_write(time)
    if found is None:
        return None
    marks = timeline.commit_metadata(context.storage, found).extra_metadata
    if BATCH_KEY not in marks:
        return None
    token, batch, digest = (marks.get(key) or "" for key in (ATTEMPT_KEY, BATCH_KEY, DIGEST_KEY))
    completed = found.completion_time
    verdict = Verdict(time, Outcome.COMMITTED, token, batch, digest, action=found.action, completion_time=completed)
    return decide(context.storage, verdict)


def _settle_unclaimed(context: WriteContext, own: str | None, *, alone: bool) -> tuple[Timeline | None, list[Claim]]:
    """Pending writes without a claim: zombies' leftovers of ours, and other writers'.

    The timeline is read before the claims: a requested file of ours is never without one.

    Returns:
        The timeline, None if something was rolled back here; and the claims, those of such rollbacks among them.
    """
    timeline = context.table.load_timeline()
    timeline.check_known()
    check_zone(context, timeline)
    restored = finish_restores(context, timeline)
    if restored:
        timeline = context.table.load_timeline()
    claims = load_claims(context.storage)
    claimed, begun = {claim.instant for claim in claims}, restored
    for instant in reversed(timeline.pending_writes):
        if instant.time == own or instant.time in claimed:
            continue
        if is_foreign(context, timeline, instant):
            if not is_dead_foreign(context, timeline, instant):
                if alone:
                    raise pending_error(instant)
                continue
            done, begun = roll_back_unclaimed(context, instant.time), True
            context.notes.append(
                f"instant {instant.time} ({instant.action}) of another writer was rolled back, "
                f"with {len(done.files)} data files: {_why_dead(context)}"
            )
        elif is_tombstoned(context.storage, instant.time):
            roll_back_unclaimed(context, instant.time)
            begun = True
    for rollback in timeline.pending_rollbacks(context.storage):
        time = rollback.plan.instant_time
        if rollback.is_ours and time != own and time not in claimed and is_tombstoned(context.storage, time):
            roll_back_unclaimed(context, time)  # begun by a zombie, for an instant whose claim was dropped before
            begun = True
    return (None, load_claims(context.storage)) if begun else (timeline, claims)


def _why_dead(context: WriteContext) -> str:
    if context.force:
        return "force=True (--force) takes every pending instant for dead"
    return (
        f"nothing of it was written for {context.config.pending_foreign_max_age_seconds} s "
        "(lakeindex.pending.foreign.max.age)"
    )


def is_tombstoned(storage: Storage, time: str) -> bool:
    """Whether an instant was rolled back for good: what appears of it later is a zombie's."""
    verdict = load_verdict(storage, time)
    return verdict is not None and not verdict.is_committed


def roll_back_unclaimed(context: WriteContext, time: str) -> RolledBack:
    """Roll back an instant that has no claim: the claim makes the rollback resumable. The lock is held.

    Raises:
        WriteConflictError: a run of ours has committed it since it was looked at; the claim leads recovery to that.
    """
    claim_foreign(context.storage, context.host, time)
    if decide(context.storage, _rolled_back(context, time)).is_committed:
        raise WriteConflictError(
            f"instant {time} was committed by another writer, and is not rolled back",
            culprit=time,
            hint="run again; raise lakeindex.lock.lease if this happens often",
        )
    return roll_back(context, time, everywhere=True)


def _put_commit(
    context: WriteContext, timeline: Timeline, verdict: Verdict, upkeep: Upkeep | None, *, publishing: bool
) -> bool:
    """Write ``<instant>.commit`` as the verdict has it, if the instant is still whole; returns whether it is there."""
    time = verdict.instant
    if verdict.commit is None or not _is_intact(context, timeline, time):
        return False  # it stood once and was rolled back by another writer, or was so before it stood
    if not publishing and not _all_exist(context.storage, verdict.paths):
        return False
    path = timeline.path(verdict.completed)
    data = verdict.commit
    keep_commit(context, verdict, upkeep)
    if records.settle_bytes(context.storage, path, data) != data:
        raise TableCorruptError(
            f"{path} is not the commit that was decided",
            culprit=path,
            hint="another writer used the same instant: run `lakeindex check`",
        )
    context.storage.sync([path])
    return True


def _stands(context: WriteContext, timeline: Timeline, verdict: Verdict) -> bool:
    """Whether the commit is on the timeline, whole and durable; one that was torn is made whole from the verdict."""
    found = timeline.completed_write(verdict.instant)
    if found is None:
        return False
    path = timeline.path(found)
    try:
        if verdict.commit is not None:
            records.mend_bytes(context.storage, path, verdict.commit)
        context.storage.sync([path])
    except ObjectNotFoundError:
        return False  # another writer rolled it back, or archived it
    return True


def _tell(context: WriteContext, verdict: Verdict) -> bool:
    """Write the ledger's entry: from now on the commit stands. False if it was withdrawn first."""
    entry = LedgerEntry(verdict.batch_id, verdict.input_digest, verdict.instant, verdict.summary)
    return not record_batch(context.storage, entry).withdrawn


def _withdraw(context: WriteContext, verdict: Verdict) -> bool:
    """Another writer rolled our instant back, or committed beside it: take the commit away, unless it was told already.

    Returns:
        Whether the commit stands after all.
    """
    gone = LedgerEntry(verdict.batch_id, verdict.input_digest, verdict.instant, None, withdrawn=True)
    if not record_batch(context.storage, gone).withdrawn:
        return True
    overrule(context.storage, _rolled_back(context, verdict.instant, verdict.completion_time))
    roll_back(context, verdict.instant, everywhere=False)
    return False


def _is_undisturbed(context: WriteContext, verdict: Verdict) -> bool:
    """The look back, after the commit was put: nobody has rolled it back, nor begun or completed a write beside it.

    Another kind of writer may have read the table before our commit was there, and looks for no conflicts:
    its commit would undo ours, or double a key. One that shares Hudi's lock with us looks for conflicts while it holds
    it, and may be in flight; that it has completed a write meanwhile means that the lock was lost.
    """
    timeline = context.table.load_timeline()
    if not _is_intact(context, timeline, verdict.instant):
        return False
    if not context.shares_lock and racing(context, timeline, verdict.instant) is not None:
        return False
    if verdict.commit is None:
        return True
    new = timeline.completed_write_times - {*verdict.base_writes, verdict.instant}
    return all(load_verdict(context.storage, time) is not None for time in new)


def _is_intact(context: WriteContext, timeline: Timeline, time: str) -> bool:
    """Whether our requested and inflight files are there, and no rollback names the instant."""
    states = _write_states(timeline, time)
    if not {InstantState.REQUESTED, InstantState.INFLIGHT} <= states:
        return False
    return not _is_named(context, timeline, time) and not _is_taken_over(context.storage, timeline, time)


def _is_taken_over(storage: Storage, timeline: Timeline, time: str) -> bool:
    """Whether another writer carries out a clustering that we have begun: its inflight file is none of ours."""
    for one in timeline.files:
        if one.time == time and one.state is InstantState.INFLIGHT and one.action in CLUSTERING_ACTIONS:
            if not is_clustering(storage, timeline, one):
                return False
            try:
                return PLAN_KEY.encode() not in storage.read(timeline.path(one))
            except ObjectNotFoundError:
                return False  # nobody's: what is left of it says the rest
    return False


def give_way(context: WriteContext, timeline: Timeline, clustered: Iterable[str]) -> None:
    """Roll back clusterings that would replace file groups which a commit is about to change. The lock is held.

    One of a living run of ours looks at its file groups by itself, under the lock.

    Raises:
        PendingInstantError: another writer carries one out.
    """
    for time in sorted(clustered):
        if load_claim(context.storage, time) is not None:
            continue
        instant = next(one for one in timeline.find(time) if not one.is_completed)
        if instant.state is InstantState.INFLIGHT and not is_dead_foreign(context, timeline, instant):
            raise pending_error(instant)
        roll_back_unclaimed(context, time)
        context.notes.append(f"clustering {time} was rolled back: file groups of it were changed")


def _write_states(timeline: Timeline, time: str) -> set[InstantState]:
    """States of a write of ours: a commit, a replacecommit or a clustering."""
    actions = {*names.WRITE_ACTIONS, names.CLUSTERING}
    return {one.state for one in timeline.files if one.time == time and one.action in actions}


def _is_named(context: WriteContext, timeline: Timeline, time: str) -> bool:
    return any(one.plan.instant_time == time for one in timeline.pending_rollbacks(context.storage))


def _is_archived(timeline: Timeline, time: str) -> bool:
    """Whether the timeline begins after an instant that has no file on it any more."""
    return not timeline.find(time) and timeline.is_visible(time)


def _rolled_back(context: WriteContext, time: str, completion_time: str | None = None) -> Verdict:
    """The verdict on an instant that is rolled back; ``completion_time``: under which its commit was put, if it was."""
    return Verdict(time, Outcome.ROLLED_BACK, context.host.new_token(), completion_time=completion_time)


def _any_exists(storage: Storage, paths: tuple[str, ...]) -> bool:
    return any(modified_ms(storage, path) is not None for path in paths)


def _all_exist(storage: Storage, paths: tuple[str, ...]) -> bool:
    return None not in in_parallel(storage.uri, lambda path: modified_ms(storage, path), paths)
