"""Savepoints: a commit whose files no clean takes, and which stays on the timeline, until somebody says otherwise.

``<t>.savepoint.inflight``, empty, then ``<t>.savepoint`` with the names of all files that the table had at instant t.
To delete one, the completed file goes, then the inflight one. There is no requested file; it is Hudi's order.
"""

from __future__ import annotations

from msgspec.structs import replace

from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.clean import by_end, finish_cleans
from lakeindex.commit.services.restore import later_writes, missing_files, state_before
from lakeindex.commit.undo import complete_service, settle_service
from lakeindex.errors import TableUnsupportedError, UsageError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format import instants as names
from lakeindex.format.file_names import crc_path
from lakeindex.frozen import Frozen
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import Instant, InstantState
from lakeindex.options.types import WriteConfig
from lakeindex.storage import sync_folders
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import Savepoint, format_savepoint, parse_savepoint
from lakeindex.timeline.timeline import Timeline


class KeptCommit(Frozen):
    """A savepoint.

    Attributes:
        time: the instant of its commit.
        savepoint: what it says; None of one that was cut short before it said anything.
        made: False if it was there.
        bytes: size of its files, where that was looked at.
        notes: what was done to other writers' instants.
    """

    time: str
    savepoint: Savepoint | None
    made: bool = False
    bytes: int | None = None
    notes: tuple[str, ...] = ()


def create_savepoint(
    table: Table,
    time: str | None,
    user: str,
    comment: str,
    config: WriteConfig | None = None,
    *,
    force: bool = False,
    host: Host | None = None,
) -> KeptCommit:
    """Keep a commit.

    Args:
        time: a completed write; None: the one that was completed last.

    Raises:
        UsageError: there is no such write.
        TableUnsupportedError: files that the table had then were cleaned away.
    """
    with maintaining(table, "savepoint", config, force=force, host=host) as (context, lock):
        finish_cleans(context, lock)
        timeline = table.load_timeline()
        target = _target(timeline, time)
        standing = _find(timeline, target.time)
        if standing is not None:
            return KeptCommit(target.time, _read(table, timeline, standing), notes=tuple(context.notes))
        then = _state(table, timeline, target)
        files = {path: tuple(one.name for one in then.base_files(path)) for path in then.partitions()}
        kept = {path: found for path, found in files.items() if found}
        size = sum(one.size_bytes for one in then.base_files_all())
        made = Savepoint(user, context.host.clock.now_ms(), comment, kept)
        _put(context, lock, timeline, target.time, made)
        return KeptCommit(target.time, made, True, size, tuple(context.notes))


def list_savepoints(table: Table) -> tuple[KeptCommit, ...]:
    """The savepoints of a table, oldest first; one that was cut short names no files. Raises: TableCorruptError."""
    timeline = table.load_timeline()
    found = [one for one in timeline.instants if one.action == names.SAVEPOINT]
    return tuple(KeptCommit(one.time, _read(table, timeline, one)) for one in found)


def delete_savepoint(
    table: Table, time: str, config: WriteConfig | None = None, *, force: bool = False, host: Host | None = None
) -> KeptCommit:
    """Let a commit be cleaned and archived as any other; also what is left of a savepoint that was cut short.

    Raises:
        UsageError: there is no such savepoint.
    """
    with maintaining(table, "savepoint", config, force=force, host=host) as (context, _):
        timeline = table.load_timeline()
        standing = next((one for one in timeline.find(time) if one.action == names.SAVEPOINT), None)
        if standing is None:
            known = ", ".join(sorted(timeline.savepoints)) or "none"
            raise UsageError(f"there is no savepoint {time}", culprit=time, hint=f"savepoints: {known}")
        found = _read(table, timeline, standing)
        for one in (standing, replace(standing, state=InstantState.INFLIGHT, completion_time=None)):
            path = timeline.path(one)
            records.remove(table.storage, [path, crc_path(path)])
            sync_folders(table.storage, [timeline.layout.folder])
        return KeptCommit(time, found, notes=tuple(context.notes))


def _target(timeline: Timeline, time: str | None) -> Instant:
    newest = max(timeline.completed_writes, key=by_end, default=None)  # with all that was committed by now
    found = newest if time is None else timeline.completed_write(time)
    if found is None:
        raise UsageError(
            "the table has no commit to keep" if time is None else f"{time} is not a completed write of the timeline",
            culprit=time or "",
            hint="`lakeindex history` lists the instants",
        )
    return found


def _state(table: Table, timeline: Timeline, target: Instant) -> Snapshot:
    writes = later_writes(timeline, target)
    then = state_before(table, timeline, {one.time for one in writes})
    gone = next(missing_files(table, timeline, writes, then, whole=True), None)
    if gone is not None:
        raise TableUnsupportedError(
            f"commit {target.time} cannot be kept: what {gone} was then is gone, it was cleaned away",
            culprit=target.time,
            hint="keep a later commit; `lakeindex check TABLE` says what is lost of the newest, `repair` mends it",
        )
    return then


def _put(context: WriteContext, lock: TableLock, timeline: Timeline, time: str, made: Savepoint) -> None:
    settle_service(context, timeline, Instant(time, names.SAVEPOINT, InstantState.INFLIGHT), b"")
    lock.check()  # who holds the lock now may be deleting what is named here
    complete_service(context, timeline, Instant(time, names.SAVEPOINT, InstantState.COMPLETED), format_savepoint(made))


def _find(timeline: Timeline, time: str) -> Instant | None:
    found = (one for one in timeline.find(time) if one.is_completed and one.action == names.SAVEPOINT)
    return next(found, None)


def _read(table: Table, timeline: Timeline, instant: Instant) -> Savepoint | None:
    if not instant.is_completed:
        return None
    return records.read_filled(table.storage, timeline.path(instant), parse_savepoint)
