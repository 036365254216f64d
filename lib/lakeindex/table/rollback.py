"""Rolling an instant back because somebody asks for it: the newest completed write, or a dead pending one."""

from __future__ import annotations

from collections.abc import Iterator

from lakeindex.config import WriteConfig
from lakeindex.errors import PendingInstantError, TableUnsupportedError, UsageError
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import NO_PREVIOUS
from lakeindex.model import Instant
from lakeindex.table.claims import Claim, claim_foreign, load_claims
from lakeindex.table.cleaning import finish_cleans
from lakeindex.table.foreign import is_dead_foreign
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, this_host
from lakeindex.table.ledger import forget_batch
from lakeindex.table.lock import TableLock
from lakeindex.table.metadata_table import check_or_drop_metadata_table
from lakeindex.table.recovery import is_alive, recover, roll_back_unclaimed
from lakeindex.table.timeline import Timeline
from lakeindex.table.undo import RolledBack, roll_back
from lakeindex.table.verdicts import Outcome, Verdict, decide, load_verdict, overrule
from lakeindex.table.write_context import WriteContext

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
        table: the table.
        instant_time: the instant.
        config: lease, waiting times, metadata table policy.
        force: take any pending instant of another writer for dead.
        host: clock and process, for tests.

    Raises:
        UsageError: there is no such write, or it is completed and not the newest.
        TableUnsupportedError: a savepoint keeps it, or the table must not be written to.
        PendingInstantError: it is in flight, and its writer may be alive.
        LockTimeoutError: another writer holds the lock for too long.
    """
    settings = config or WriteConfig()
    context = WriteContext(table, host or this_host(), settings, None, force)
    with context.locked(f"rollback of {instant_time}") as lock:
        check_or_drop_metadata_table(table, settings.metadata_table)
        timeline = table.load_timeline()
        target = _target(timeline, instant_time)
        if target.is_completed:
            _check_removable(timeline, target)
            recover(context, lock)
            finish_cleans(context, lock)
            return _roll_back_completed(context, target)
        return _roll_back_pending(context, lock, timeline, target)


def _target(timeline: Timeline, time: str) -> Instant:
    writes = [one for one in timeline.instants if names.completed_action(one.action) in names.WRITE_ACTIONS]
    found = next((one for one in writes if one.time == time), None)
    if found is None:
        raise UsageError(f"the timeline has no write {time!r}", culprit=time, hint=_HISTORY)
    return found


def _check_removable(timeline: Timeline, target: Instant) -> None:
    if target.time in timeline.savepoints:
        raise TableUnsupportedError(
            f"instant {target.time} is savepointed", culprit=target.time, hint="delete the savepoint with Hudi first"
        )
    newest = timeline.completed_writes[-1]
    if newest.time != target.time:
        raise UsageError(
            f"instant {target.time} is not the newest: {newest.time} was built on it",
            culprit=target.time,
            hint=f"roll back {newest.time} first",
        )


def _check_predecessors(table: Table, timeline: Timeline, target: Instant) -> None:
    gone = next(iter(missing_predecessors(table, timeline, target)), None)
    if gone is not None:
        raise TableUnsupportedError(
            f"instant {target.time} cannot be rolled back: what file group {gone} was before it was cleaned away",
            culprit=target.time,
            hint="restore that file, or write the rows as you want them with a new upsert; clean with more --keep-commits",
        )


def missing_predecessors(table: Table, timeline: Timeline, commit: Instant) -> Iterator[str]:
    """File groups, as ``partition/file id``, which a completed commit changed and whose files before it are gone.

    Without them the commit cannot be taken back: its file groups would be older than the table was, or empty.
    """
    metadata = timeline.commit_metadata(table.storage, commit)
    before = table.snapshot()
    for stat in metadata.stats():
        if stat.prev_commit not in (None, NO_PREVIOUS) and stat.path:
            partition = stat.path.rpartition("/")[0]
            files = before.files_of(partition)
            slices = {file.instant_time for file in (*files.older, *files.live) if file.file_id == stat.file_id}
            if stat.prev_commit not in slices:
                yield _named(partition, stat.file_id)
    for partition, file_id in sorted(metadata.replaced()):
        if all(file.file_id != file_id for file in before.files_of(partition).older):
            yield _named(partition, file_id)


def _named(partition: str, file_id: str) -> str:
    return f"{partition}/{file_id}" if partition else file_id


def _roll_back_completed(context: WriteContext, target: Instant) -> RolledBack:
    """Undo a commit: claim, verdict, ledger, then Hudi's order."""
    storage = context.storage
    timeline = context.table.load_timeline()
    _check_removable(timeline, _target(timeline, target.time))
    _check_predecessors(context.table, timeline, target)
    before = load_verdict(storage, target.time)
    metadata = timeline.commit_metadata(storage, target)
    claim_foreign(storage, context.host, target.time)
    overrule(storage, Verdict(target.time, Outcome.ROLLED_BACK, context.host.new_token()))
    batch_id = before.batch_id if before is not None else metadata.extra_metadata.get("lakeindex.batch_id")
    if batch_id:
        forget_batch(storage, batch_id, target.time)
    return roll_back(context, target.time, everywhere=True)


def _roll_back_pending(context: WriteContext, lock: TableLock, timeline: Timeline, target: Instant) -> RolledBack:
    claim = next((one for one in load_claims(context.storage) if one.instant == target.time), None)
    verdict = load_verdict(context.storage, target.time)
    if verdict is None and not _is_dead(context, timeline, target, claim):
        raise PendingInstantError(
            f"instant {target.time} is in flight, and its writer may be alive",
            culprit=target.time,
            hint="wait for it, or use --force if you know that its writer is dead",
        )
    if verdict is None:
        verdict = decide(context.storage, Verdict(target.time, Outcome.ROLLED_BACK, context.host.new_token()))
    if verdict.is_committed:
        recover(context, lock)  # its commit was decided, and is made visible
        raise UsageError(
            f"instant {target.time} was committed: its writer was killed before it could say so",
            culprit=target.time,
            hint="roll it back again, now that it is completed",
        )
    lock.settled(target.time)
    if claim is None:
        return roll_back_unclaimed(context, target.time)
    return roll_back(context, target.time, everywhere=True)


def _is_dead(context: WriteContext, timeline: Timeline, target: Instant, claim: Claim | None) -> bool:
    if context.force:
        return True
    if claim is not None and claim.run_key:
        return not is_alive(context, claim)
    return is_dead_foreign(context, timeline, target)
