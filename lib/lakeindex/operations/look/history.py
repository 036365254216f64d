"""What happened to a table: the instants of its active timeline, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from msgspec.structs import replace

from lakeindex.errors import ObjectNotFoundError, TableCorruptError, TimelineChangedError
from lakeindex.format import instants
from lakeindex.format.commit_metadata import NO_PREVIOUS, CommitMetadata
from lakeindex.model import Instant, InstantState
from lakeindex.showing.json_result import JsonResult, TableResult
from lakeindex.showing.notebook import Shown
from lakeindex.storage import in_parallel
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import (
    parse_clean_metadata,
    parse_requested_replace,
    parse_restore,
    parse_rollback_metadata,
    parse_rollback_plan,
    parse_savepoint,
)
from lakeindex.timeline.records import read_filled
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import BATCH_KEY, RUN_KEY

_SHOWN_IN_TEXT: Final = 3
_SHOWN_IN_HTML: Final = 100
_SHOWN: Final = (
    *("instant", "time", "action", "state", "operation", "inserts", "updates", "deletes"),
    *("files_created", "files_rewritten", "bytes_written", "batch_id", "problem"),
)


class HistoryEntry(JsonResult):
    """One instant; counts are None where the instant does not say.

    Attributes:
        instant: its time.
        action: commit, replacecommit, clean, rollback, savepoint, ...
        state: requested, inflight or completed.
        time: ISO text; with ``Z`` if the table's instants are UTC, without a zone if they are local; None if the digits
            are no date.
        completion_time: when it completed (versions 8 and 9 only).
        operation: UPSERT, DELETE, CLUSTER, ... of a write.
        rows: rows in the files it wrote.
        inserts: rows inserted.
        updates: rows updated.
        deletes: rows deleted.
        files_created: new file groups.
        files_rewritten: file groups that got a new slice.
        files_removed: file groups replaced, or files that a clean or rollback deleted.
        bytes_written: bytes of its files.
        batch_id: the batch, if the commit is ours.
        run_id: the run, if the commit is ours.
        target: the instant that a rollback took back, or a restore has taken the table back to.
        undone: the instants that a restore took away, newest first; of one that is not completed, those that go.
        comment: why a savepoint was made.
        problem: what is wrong with its file; None if nothing is.
    """

    instant: str
    action: str
    state: str
    time: str | None
    completion_time: str | None = None
    operation: str | None = None
    rows: int | None = None
    inserts: int | None = None
    updates: int | None = None
    deletes: int | None = None
    files_created: int | None = None
    files_rewritten: int | None = None
    files_removed: int | None = None
    bytes_written: int | None = None
    batch_id: str | None = None
    run_id: str | None = None
    target: str | None = None
    undone: tuple[str, ...] | None = None
    comment: str | None = None
    problem: str | None = None


class TableHistory(TableResult):
    """The history of a table, as the command line prints it.

    Attributes:
        instants: newest first.
    """

    shown_by: ClassVar[str] = "results:show_history"

    instants: tuple[HistoryEntry, ...]


class History(tuple[HistoryEntry, ...], Shown):
    """Instants, newest first: a tuple that shows itself."""

    __slots__ = ()
    shown_by: ClassVar[str] = "results:show_instants"

    def __repr__(self) -> str:
        shown = [f"{e.instant} {e.operation or e.action} {e.state}" for e in self[:_SHOWN_IN_TEXT]]
        more = [f"and {len(self) - len(shown):,} more"] if len(self) > len(shown) else []
        return f"<{len(self):,} instants: {'; '.join(shown + more)}>" if shown else "<no instants>"


def table_history(uri: str) -> History:
    """All instants of the active timeline, newest first. An instant whose file is damaged says so in ``problem``.

    Raises:
        TableError: no table, or one that is not read.
    """
    return History(history_of(Table.at(uri)).instants)


def history_of(table: Table) -> TableHistory:
    timeline = table.load_timeline()
    newest_first = timeline.instants[::-1]
    entries = in_parallel(table.storage.uri, lambda instant: _entry(table, timeline, instant), newest_first)
    return TableHistory(table.name, table.uri, tuple(entries))


def iso_time(table: Table, instant_time: str) -> str | None:
    """ISO text of an instant of this table; without a zone where the table's instants are in local time."""
    text = instants.iso_of_instant_time(instant_time)
    return text if text is None or table.properties.timezone == "UTC" else text.removesuffix("Z")


def _entry(table: Table, timeline: Timeline, instant: Instant) -> HistoryEntry:
    entry = HistoryEntry(
        instant=instant.time,
        action=instant.action,
        state=instant.state.value,
        time=iso_time(table, instant.time),
        completion_time=instant.completion_time,
    )
    try:
        if not instant.is_completed:
            return _of_pending(entry, table, timeline, instant)
        if instant.action in instants.WRITE_ACTIONS:
            return _of_write(entry, timeline.commit_metadata(table.storage, instant))
        if instant.action == instants.RESTORE:
            return _of_restore(entry, table, timeline, instant)
        return _of_service(entry, table, timeline.path(instant), instant.action)
    except TableCorruptError as error:
        return replace(entry, problem=error.message)
    except (ObjectNotFoundError, TimelineChangedError):
        return replace(entry, problem="its file is gone: archived or rolled back meanwhile")


def _of_service(entry: HistoryEntry, table: Table, path: str, action: str) -> HistoryEntry:
    if action == instants.ROLLBACK:
        rollback = read_filled(table.storage, path, parse_rollback_metadata)
        return replace(entry, target=rollback.instant_time, files_removed=_count(rollback.deleted))
    if action == instants.CLEAN:
        return replace(entry, files_removed=_count(read_filled(table.storage, path, parse_clean_metadata).deleted))
    if action == instants.SAVEPOINT:
        savepoint = read_filled(table.storage, path, parse_savepoint)
        return replace(entry, comment=savepoint.comments or None)
    return entry


def _of_restore(entry: HistoryEntry, table: Table, timeline: Timeline, instant: Instant) -> HistoryEntry:
    plan = timeline.restore_plan(instant.time)
    if plan is not None:
        entry = replace(entry, target=plan.to or None, undone=tuple(time for time, _ in plan.instants))
    if not instant.is_completed:
        return entry
    done = read_filled(table.storage, timeline.path(instant), parse_restore)
    gone = tuple(sorted(done.instants, key=instants.comparable, reverse=True))
    return replace(entry, undone=gone, files_removed=len(done.files))


def _of_pending(entry: HistoryEntry, table: Table, timeline: Timeline, instant: Instant) -> HistoryEntry:
    path = timeline.path(replace(instant, state=InstantState.REQUESTED))
    if instant.action == instants.ROLLBACK:
        return replace(entry, target=read_filled(table.storage, path, parse_rollback_plan).instant_time)
    if instant.action == instants.RESTORE:
        return _of_restore(entry, table, timeline, instant)
    if instant.action in (instants.REPLACE_COMMIT, instants.CLUSTERING):
        return replace(entry, operation=read_filled(table.storage, path, parse_requested_replace).operation)
    return entry


def _of_write(entry: HistoryEntry, metadata: CommitMetadata) -> HistoryEntry:
    stats = list(metadata.stats())
    created = sum(stat.prev_commit in (None, NO_PREVIOUS) for stat in stats)
    return replace(
        entry,
        operation=metadata.operation,
        rows=sum(stat.num_writes for stat in stats),
        inserts=sum(stat.num_inserts for stat in stats),
        updates=sum(stat.num_update_writes for stat in stats),
        deletes=sum(stat.num_deletes for stat in stats),
        files_created=created,
        files_rewritten=len(stats) - created,
        files_removed=len(metadata.replaced()),
        bytes_written=sum(stat.total_write_bytes for stat in stats),
        batch_id=metadata.extra_metadata.get(BATCH_KEY),
        run_id=metadata.extra_metadata.get(RUN_KEY),
    )


def _count(files: Mapping[str, tuple[str, ...]]) -> int:
    return sum(len(found) for found in files.values())
