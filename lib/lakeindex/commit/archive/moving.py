"""Taking instants from a timeline into its archive, that of a table or that of its metadata table.

What is archived stands whole in a new file of the archive before the first instant file is deleted. Who is killed
between finds its instants in the newest file the next time, and only deletes.

Requested and inflight files go before the completed file (a pending instant's files are not part of the table, and a
Hudi writer rolls it back), and writes go oldest first, one after the other (a hole in the timeline would hide a
commit); each deletion is durable before the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lakeindex.commit.archive.archive import archive_of
from lakeindex.format import instants as names
from lakeindex.format.file_names import crc_path
from lakeindex.format.instants import comparable
from lakeindex.lock.lock import TableLock
from lakeindex.model import Instant
from lakeindex.storage import sync_folders
from lakeindex.storage.port import Storage
from lakeindex.timeline import records
from lakeindex.timeline.timeline import Timeline

ARCHIVED_ACTIONS: Final = frozenset({*names.WRITE_ACTIONS, names.CLEAN, names.ROLLBACK})
"""Actions of completed instants that are archived; savepoints and restores stay."""

_BATCH: Final = 100
"""Instants that go into one file of the archive."""


def archive_instants(
    storage: Storage, load: Callable[[], Timeline], lock: TableLock, instants: Sequence[Instant]
) -> list[str]:
    """Archive instants, unless they are archived already, take them off the timeline, and merge what is in many files.

    Args:
        load: lists the timeline.
        lock: the table's, held.
        instants: completed ones of it.

    Returns:
        Paths of the files that were written to the archive.

    Raises:
        FencedError: another writer archives, or holds the lock.
    """
    written: list[str] = []
    for at in range(0, len(instants), _BATCH):
        lock.check()
        timeline = load()
        written += _archive(storage, timeline, lock, instants[at : at + _BATCH])
    if written:
        lock.check()
        archive_of(storage, timeline.layout).tidy()
    return written


def _archive(storage: Storage, timeline: Timeline, lock: TableLock, instants: Sequence[Instant]) -> list[str]:
    archive = archive_of(storage, timeline.layout)
    wanted = {_key(one) for one in instants}
    files = [one for one in timeline.files if _key(one) in wanted]
    seen = archive.recorded()
    written: list[str] = []
    new = [one for one in files if _key(one) not in seen.instants]
    if new:
        written.append(archive.record(timeline, new, seen))
        lock.check()  # who holds the lock later sees the archive, and takes what it names for archived
    for one in sorted(files, key=lambda one: (one.is_completed, comparable(one.time))):
        path = timeline.path(one)
        if one.is_completed:
            sync_folders(storage, [timeline.layout.folder])  # none of those before it comes back after a power loss
        records.remove(storage, [path, crc_path(path)])
    sync_folders(storage, [timeline.layout.folder])
    return written


def _key(instant: Instant) -> tuple[str, str]:
    return instant.time, names.completed_action(instant.action)
