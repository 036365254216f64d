"""A Hudi writer at its defaults, as a script of its storage calls: one writer, no lock, no conflict check.

What counts here, measured on 0.15 and 1.2 (docs/format.md): it rolls back every pending commit that it sees when it starts
(EAGER), by markers; then requests its instant, reads the table, writes, and completes if its inflight file is still there.
"""

from __future__ import annotations

import itertools
import uuid

from lakeindex.errors import ObjectNotFoundError
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.model import BaseFile, Instant, InstantState
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import (
    RollbackMetadata,
    RollbackPlan,
    format_rollback_metadata,
    format_rollback_plan,
)
from lakeindex.timeline.pending_files import marked_files
from lakeindex.timeline.timeline import Timeline
from tests.model.world import LAYOUT, PARTITION, Rows, encode_rows, merge, stat_of, timeline_path

REQUESTED, INFLIGHT, COMPLETED = InstantState


class HudiError(Exception):
    """Hudi gives up."""


def hudi_upsert(storage: Storage, rows: Rows, now_ms: int) -> str:
    """Commit rows as Hudi does. Returns the instant.

    Its instants are whole seconds of its own: that two programs take the same millisecond by chance is not modelled.
    """
    clock = itertools.count(now_ms + 60_000, 1_000)
    table = Table.open(storage)
    timeline = table.load_timeline()
    newest = timeline.max_time
    for one in reversed(timeline.pending_writes):
        newest = roll_back(storage, timeline, one, names.next_instant_time(newest, next(clock)))
    time = names.next_instant_time(newest, next(clock))
    stats = write_files(storage, table, rows, time)
    try:
        storage.head(timeline_path(time, INFLIGHT))
    except ObjectNotFoundError:
        raise HudiError(f"inflight file of {time} is gone") from None
    metadata = CommitMetadata({PARTITION: tuple(stats)}, "UPSERT", {"schema": "{}"})
    storage.create(timeline_path(time, COMPLETED), LAYOUT.encode_commit(metadata))
    for path in [one.path for one in storage.list(f".hoodie/.temp/{time}")]:
        storage.delete(path)
    return time


def write_files(storage: Storage, table: Table, rows: Rows, time: str) -> list[WriteStat]:
    """Request an instant, read the table, and write the files that rows change, each behind its marker."""
    storage.create(timeline_path(time, REQUESTED), b"")
    snapshot = table.snapshot()
    new_group = f"{uuid.UUID(int=int(time))}-0"  # as Hudi's, another one in each write: it may be replaced by the next
    merged = merge(storage, snapshot, rows, new_group)
    storage.create(timeline_path(time, INFLIGHT), b"{}")
    stats = []
    for planned, content in zip(merged.planned, merged.contents, strict=True):
        file = BaseFile(PARTITION, planned.file_id, time, "7-7-7")
        kind = "CREATE" if planned.previous is None else "MERGE"
        storage.write(f".hoodie/.temp/{time}/{file.path}.marker.{kind}", b"")
        storage.write(file.path, encode_rows(content))
        stats.append(stat_of(file, content, planned.previous))
    return stats


def roll_back(storage: Storage, timeline: Timeline, instant: Instant, time: str, *, lazily: bool = False) -> str:
    """Roll a pending instant back; if there is a later commit only lazily, where its heartbeat says that it is dead."""
    target, action = instant.time, instant.action
    if not lazily and timeline.completed_writes and timeline.completed_writes[-1].time > target:
        raise HudiError(f"found commits after time {target}, please roll back greater commits first")
    files = sorted(marked_files(storage, target))
    located = {PARTITION: tuple(f"file:/t/{path}" for path in files)} if files else {}
    plan = RollbackPlan(target, action, located)
    # Hudi's containers have sync markers of their own.
    storage.create(timeline_path(time, REQUESTED, names.ROLLBACK), _foreign(format_rollback_plan(plan)))
    storage.create(timeline_path(time, INFLIGHT, names.ROLLBACK), b"")
    for path in files:
        storage.delete(path)
    storage.delete(timeline_path(target, INFLIGHT, action))
    storage.delete(timeline_path(target, REQUESTED, action))
    done = RollbackMetadata(time, target, action, located)
    storage.create(timeline_path(time, COMPLETED, names.ROLLBACK), _foreign(format_rollback_metadata(done)))
    for path in [one.path for one in storage.list(f".hoodie/.temp/{target}")]:
        storage.delete(path)
    return time


def _foreign(data: bytes) -> bytes:
    return data.replace(b"lakeindex-sync-1", b"somebody-elses-1")
