"""Strays: data files that no commit knows, and the sweeping of them.

A stray is invisible as long as the timeline still knows its time, but Hudi takes every file that is older than the
timeline for a committed one: after archiving it would show. So strays are deleted after publishing and before
archiving. Only what is proven to be one is:

* our verdict on its instant says ``rolled_back`` (a zombie wrote it after the rollback), however old the instant is;
* a completed rollback or restore names it, on the timeline or in the archive;
* its commit is one of ours and does not name it.

That an instant is not on the timeline proves nothing: it may have been archived beyond a savepoint, or the timeline may
have been moved by an upgrade. Neither does a marker. Files that nothing explains (:func:`find_unexplained`) are left
alone; ``check`` lists them, and archiving stops before their instants.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

from lakeindex.commit.ledger import forget_batch
from lakeindex.commit.run_records import RUNS_FOLDER, forget_run, load_claims, newest_attempt
from lakeindex.errors import TableCorruptError, TimelineChangedError
from lakeindex.files.file_system_view import Snapshot, all_base_files, base_files_in
from lakeindex.format.file_names import TEMP_FOLDER, crc_path
from lakeindex.format.instants import WRITE_ACTIONS, comparable
from lakeindex.frozen import Frozen
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import BaseFile, Instant
from lakeindex.storage import in_parallel, remove_temporary, sync_folders
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.timeline import records
from lakeindex.timeline.pending_files import end_heartbeat, list_heartbeats, remove_markers
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import (
    ATTEMPT_KEY,
    VERDICTS_FOLDER,
    Outcome,
    Verdict,
    is_decision,
    load_verdict,
    overrule,
    upholds,
)

_TEMPORARY_SECONDS: Final = 3_600.0
_RUN_MS: Final = 7 * 86_400_000


class StrayKind(StrEnum):
    """Why a file is a stray."""

    ROLLED_BACK = "its instant was rolled back"
    NAMED_BY_ROLLBACK = "a rollback names it"
    NOT_IN_COMMIT = "its commit does not name it"


class Stray(Frozen, order=True):
    """A stray and why it is one."""

    file: BaseFile
    kind: StrayKind


def find_strays(table: Table, partitions: Iterable[str] | None = None) -> tuple[Stray, ...]:
    """Strays of some partitions, or of the whole table; nothing is deleted.

    Args:
        partitions: partition paths; ``None`` for everything below the table's folder.
    """
    storage = table.storage
    files = all_base_files(storage) if partitions is None else base_files_in(storage, partitions)
    timeline = table.load_timeline()
    by_instant: dict[str, list[BaseFile]] = {}
    for file in files:
        by_instant.setdefault(file.instant_time, []).append(file)
    found = in_parallel(storage.uri, lambda one: _strays_of(storage, timeline, *one), by_instant.items())
    return tuple(sorted(stray for strays in found for stray in strays))


def sweep_all(context: WriteContext) -> tuple[Stray, ...]:
    """Delete the strays of the whole table, and old records of ours that nobody needs. The lock is held."""
    strays = find_strays(context.table)
    _delete(context.storage, strays)
    _tidy_records(context)
    for folder in ("", *sorted({stray.file.partition_path for stray in strays})):
        remove_temporary(context.storage, folder, _TEMPORARY_SECONDS)
    return strays


def sweep_partitions(context: WriteContext, partitions: Sequence[str]) -> tuple[Stray, ...]:
    """Delete the strays of some partitions. Needs no lock: a stray is one for good."""
    strays = find_strays(context.table, partitions)
    _delete(context.storage, strays)
    for partition in partitions:
        remove_temporary(context.storage, partition, _TEMPORARY_SECONDS)
    return strays


def find_unexplained(found: Snapshot) -> tuple[BaseFile, ...]:
    """Files that no reader sees, of no pending instant, about which nothing is proven:
    neither sweeping nor Hudi explains them.

    Args:
        found: the table now; strays that are still there are among the files.
    """
    timeline = found.timeline
    return tuple(
        file
        for partition in found.partitions()
        for file in found.files_of(partition).unseen
        if file.instant_time not in timeline.pending_times
        and not _strays_of(found.storage, timeline, file.instant_time, [file])
    )


def _strays_of(storage: Storage, timeline: Timeline, time: str, files: list[BaseFile]) -> list[Stray]:
    commit = next((one for one in timeline.find(time) if one.is_completed and one.action in WRITE_ACTIONS), None)
    if commit is not None:
        return _not_in_commit(storage, timeline, commit, files)
    if time in timeline.pending_times:
        return []
    verdict = load_verdict(storage, time)
    if verdict is not None:
        return [] if verdict.is_committed else [Stray(file, StrayKind.ROLLED_BACK) for file in files]
    if timeline.first_write_time is None or timeline.is_visible(time):
        return []
    named = timeline.undone.files | timeline.archived.undone.files
    return [Stray(file, StrayKind.NAMED_BY_ROLLBACK) for file in files if (file.partition_path, file.name) in named]


def _not_in_commit(storage: Storage, timeline: Timeline, commit: Instant, files: list[BaseFile]) -> list[Stray]:
    try:
        metadata = timeline.commit_metadata(storage, commit)
    except TimelineChangedError:
        return []  # archived meanwhile: nothing can be proven of its files, and the next sweep leaves them alone
    except TableCorruptError:
        if upholds(storage, commit.time):
            raise
        return []
    if ATTEMPT_KEY not in metadata.extra_metadata:
        return []
    named = {stat.path for stat in metadata.stats()}
    left = [file for file in files if file.path not in named]
    return [Stray(file, StrayKind.NOT_IN_COMMIT) for file in left] if left and upholds(storage, commit.time) else []


def _delete(storage: Storage, strays: Iterable[Stray]) -> None:
    found = tuple(strays)
    if not found:
        return
    records.remove(storage, [one for s in found for one in (s.file.path, crc_path(s.file.path))])
    sync_folders(
        storage, {s.file.partition_path for s in found}
    )  # archiving relies on it: one that came back would show


def _tidy_records(context: WriteContext) -> None:
    """Remove records of runs that ended long ago, and verdicts of archived commits; rolled-back ones stay."""
    storage = context.storage
    claimed = {claim.run_key for claim in load_claims(storage)}
    now = context.host.clock.now_ms()
    for folder in storage.list_folder(RUNS_FOLDER).folders:
        key = folder.rpartition("/")[2]
        attempt = newest_attempt(storage, key)
        if key not in claimed and (attempt is None or attempt.expires_ms + _RUN_MS < now):
            forget_run(storage, key)
    timeline = context.table.load_timeline()
    _tidy_after_zombies(storage, timeline)
    first = timeline.first_write_time
    undone = timeline.undone.instants
    for one in storage.list_folder(VERDICTS_FOLDER).objects:
        time = one.path.rpartition("/")[2].removesuffix(".json")
        if is_decision(time) or first is None or comparable(time) >= comparable(first):
            continue  # a rollback that was called off must stay called off, whoever wakes up
        verdict = load_verdict(storage, time)
        if verdict is None or not verdict.is_committed:
            continue
        if time in undone:
            # Hudi's rollback of a commit of ours: once it is archived, nothing else tells that the
            # batch is not in the table.
            overrule(storage, Verdict(time, Outcome.ROLLED_BACK, context.host.new_token()))
            forget_batch(storage, verdict.batch_id, time)
        else:
            records.tidy(storage, [one.path])


def _tidy_after_zombies(storage: Storage, timeline: Timeline) -> None:
    """A zombie of ours may mark files of an instant that is decided, and beat for it, and a power loss may bring back
    what it had removed of them; what others leave is theirs.
    """
    completed = {one.time for one in timeline.completed}

    def is_decided(time: str) -> bool:
        if time in timeline.pending_times:
            return False
        return load_verdict(storage, time) is not None or (time in completed and upholds(storage, time))

    marked = (folder.rpartition("/")[2] for folder in storage.list_folder(TEMP_FOLDER).folders)
    for time in filter(is_decided, marked):
        remove_markers(storage, time)
    for time in filter(is_decided, list_heartbeats(storage)):
        end_heartbeat(storage, time)
