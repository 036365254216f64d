"""Archiving: completed instants that the table does not need go from the timeline into the archived timeline.

A timeline is listed and partly read by every reader and writer; it must not grow for ever. What is archived goes, as
Hudi's records of it, into a new file of the archive.

Hudi and we take every base file that is older than the timeline for a committed one. That sets the rules:

* Nothing from the oldest pending instant on, nor from the oldest savepoint on.
* Strays are swept first, else they would show. Files about which nothing is proven hold up the
  archiving of their instants.
* A replacecommit stays, and all that is newer, until no file of the groups that it replaced is left:
  without it they would be live again. Cleaning removes them.
* The newest completed clean stays: Hudi plans its next one from it.
* Nothing that the newest compaction of the metadata table does not hold, if there is one.
* A commit stays that names the newest slice of a file group, if that is lost: it is the last to know that an older
  one does not count.
* A write stays that was completed after one that stays, where the timeline says when: readers go by completion, and of
  what is archived they know the instant only.

The timeline of the metadata table is archived in the same way, into its own archive; each timeline layout has an
adapter that writes into one (:class:`LsmArchive`, :class:`LogArchive`). What is archived stands whole in a new file of
the archive before the first instant file is deleted. After a kill in between, the next archiving finds its instants in
the newest file, and only deletes. Requested and inflight files go before the completed file (a pending instant's files
are not part of the table, and a Hudi writer rolls it back), and writes go oldest first, one after the other (a hole in
the timeline would hide a commit); each deletion is durable before the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any, Final, Protocol

from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.clean import finish_cleans
from lakeindex.commit.sweep import Stray, find_unexplained, sweep_all
from lakeindex.commit.written_slices import WrittenSlice, live_slices, missing_slices
from lakeindex.errors import FencedError, ObjectNotFoundError, TableCorruptError, TimelineChangedError
from lakeindex.files.file_system_view import Snapshot, snapshot
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import NO_PREVIOUS, CommitMetadata, WriteStat
from lakeindex.format.file_names import crc_path
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.lock.lock import TableLock
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata_upkeep.keeping import archiving_bound
from lakeindex.model import Instant, InstantState
from lakeindex.options.types import WriteConfig
from lakeindex.storage import in_parallel, list_names, sync_folders
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.table.properties import metadata_table_of
from lakeindex.timeline import lsm_archive as lsm
from lakeindex.timeline import records
from lakeindex.timeline.archived_timeline import format_avro_block, parse_avro_records
from lakeindex.timeline.avro_instants import avro_record
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.lsm_archive import ArchivedInstant, LsmFile, Manifest
from lakeindex.timeline.timeline import Timeline

_LOG: Final = re.compile(r"\.commits_\.archive\.(?P<number>[0-9]+)_[0-9]+-[0-9]+-[0-9]+")

SCHEMA: Final = files("lakeindex.table").joinpath("archived_meta_entry.avsc").read_text().strip()
"""Avro schema of the entries, JSON."""

_UNKNOWN: Final = "UNKNOWN"
_ROLLING_STAT: Final = "ROLLING_STAT"
_MERGED: Final = 10
_MOST_BYTES: Final = 1_000_000_000
_KEPT_MANIFESTS: Final = 3
_UNREADABLE: Final = -1
_NEWEST: Final = 4
"""Files of the lowest level that are looked into for instants that are on the timeline, too."""


class Recorded(Frozen):
    """The newest part of an archive.

    Attributes:
        instants: time and action of completed instants in it. One that is still on the timeline was left there when its
            archiving was killed.
        number: of the newest log file or manifest; what is archived next gets the number behind it.
    """

    instants: frozenset[tuple[str, str]]
    number: int


def overtaken(path: str) -> FencedError:
    """The error of an archiving that another writer's has overtaken."""
    return FencedError(
        f"{path} was written by another writer meanwhile",
        culprit=path,
        hint="run again: what is archived already is left alone",
    )


class LsmArchive(Frozen):
    """The archive of layout 2: a Parquet file for each batch of instants, then the manifest that names it.

    In Hudi's order: the Parquet file, ``manifest_<N+1>``, ``_version_``. The manifest is created where none is: of two
    writers of the same number, one gets an error. A Parquet file that no manifest names is what a killed writer left,
    and gives way; so does a manifest that is not whole. When a level has ten files, they are merged into one of the
    next; the files of the newest manifests stay for their readers. Source: Hudi 1.2 ``LSMTimelineWriter``.
    """

    storage: Storage
    folder: str

    def recorded(self) -> Recorded:
        """The completed instants in the newest files; none of an archive whose manifest cannot be read."""
        try:
            manifest = lsm.load_manifest(self.storage, self.folder)
        except TableCorruptError:
            return Recorded(frozenset(), _UNREADABLE)
        newest = sorted(manifest.files, key=lambda one: (comparable(one.last), -one.level))[-_NEWEST:]
        rows = (row for one in newest for row in self._rows_or_none(one))
        return Recorded(frozenset((row.time, row.action) for row in rows), manifest.number)

    def record(self, timeline: Timeline, files: Sequence[Instant], seen: Recorded) -> str:
        """Write a Parquet file, and the manifest behind the one that was seen.

        Raises:
            FencedError: another writer has written one there.
            TableCorruptError: the manifest that counts cannot be read.
        """
        rows = list(self._rows_of(timeline, files))
        manifest = lsm.load_manifest(self.storage, self.folder)
        if manifest.number != seen.number:
            raise overtaken(self._path(lsm.manifest_name(seen.number + 1)))
        name = lsm.file_name(rows[0].time, rows[-1].time, 0)
        if all(one.name != name for one in manifest.files):
            self._add(manifest, (), name, rows)
        return self._path(name)

    def tidy(self) -> None:
        """Merge the files of each level that has ten, then remove what no kept manifest names."""
        level, merged = 0, True
        while merged:
            merged = self._merge(level)
            level += 1
        if level > 1:
            self._clean(_KEPT_MANIFESTS + level - 1)

    def _rows_of(self, timeline: Timeline, files: Sequence[Instant]) -> Iterator[ArchivedInstant]:
        """A row for each completed instant, in time order."""
        in_order = sorted(files, key=_key)
        for key, group in groupby(in_order, key=_key):
            states = {one.state: one for one in group}
            done = states.get(InstantState.COMPLETED)
            if done is not None:
                content = self._content(timeline, done)
                yield ArchivedInstant(key[1], done.completion_time, done.action, content, self._plan(timeline, states))

    def _plan(self, timeline: Timeline, states: dict[InstantState, Instant]) -> bytes | None:
        """What Hudi keeps of the files before the completed one: a clean's or compaction's plan, and of what replaces
        file groups the inflight file, or the requested one if that is empty. The files before it tell whether a commit
        is a compaction.
        """
        action = states[InstantState.COMPLETED].action
        began = {one.action for one in states.values()}
        wanted = {
            names.CLEAN: (InstantState.REQUESTED,),
            names.REPLACE_COMMIT: (InstantState.INFLIGHT, InstantState.REQUESTED),
            names.COMPACTION: (InstantState.REQUESTED,),
        }
        for state in wanted.get(names.COMPACTION if names.COMPACTION in began else action, ()):
            content = self._content(timeline, states[state]) if state in states else None
            if content:
                return content
        return None

    def _content(self, timeline: Timeline, instant: Instant) -> bytes | None:
        try:
            return self.storage.read(timeline.path(instant)) or None
        except ObjectNotFoundError:
            raise TimelineChangedError(
                f"{timeline.path(instant)} is gone: another writer archives the timeline",
                culprit=timeline.path(instant),
                hint="run again",
            ) from None

    def _add(self, manifest: Manifest, gone: Sequence[LsmFile], name: str, rows: Sequence[ArchivedInstant]) -> None:
        data = lsm.format_rows(rows)
        self._settle(self._path(name), data, manifest.number)
        kept = tuple(one for one in manifest.files if one not in gone)
        following = Manifest(manifest.number + 1, (*kept, lsm.named_file(name, len(data))))
        self._settle(self._path(lsm.manifest_name(following.number)), lsm.format_manifest(following), manifest.number)
        path = self._path(lsm.VERSION_FILE)
        records.remove(self.storage, [crc_path(path)])
        records.put(self.storage, path, str(following.number).encode())
        self.storage.sync([path])

    def _settle(self, path: str, data: bytes, counted: int) -> None:
        """Create a file durably, in place of what a killed writer may have left there."""
        if records.settle(self.storage, path, data) != data:
            if lsm.load_manifest(self.storage, self.folder).number != counted:
                raise overtaken(path)
            records.remove(self.storage, [crc_path(path)])  # Hadoop's checksum of what was there would not fit
            records.put(self.storage, path, data)
        self.storage.sync([path])

    def _merge(self, level: int) -> bool:
        manifest = lsm.load_manifest(self.storage, self.folder)
        there = lsm.in_order(one for one in manifest.files if one.level == level)
        if len(there) < _MERGED:
            return False
        chosen = _candidates(there)
        if len(chosen) < 2:
            return False
        rows = [row for one in chosen for row in self._rows(one)]
        first = min((one.first for one in chosen), key=comparable)
        last = max((one.last for one in chosen), key=comparable)
        self._add(manifest, chosen, lsm.file_name(first, last, level + 1), rows)
        return True

    def _clean(self, kept: int) -> None:
        listed = list_names(self.storage, self.folder)
        manifests = lsm.listed_manifests(listed)
        keep = sorted(manifests)[-kept:]
        if len(keep) == len(manifests):
            return
        needed = {one.name for number in keep for one in lsm.read_manifest(self.storage, self.folder, number).files}
        old = [manifests[number] for number in sorted(manifests) if number not in keep]
        files = [name for name in listed if lsm.parse_file(name, 0) is not None and name not in needed]
        for gone in (old, files):  # manifests first: none that is left names a file that is gone
            paths = [self._path(name) for name in gone]
            records.remove(self.storage, [one for path in paths for one in (path, crc_path(path))])

    def _rows_or_none(self, file: LsmFile) -> tuple[ArchivedInstant, ...]:
        try:
            return self._rows(file)
        except (TableCorruptError, ObjectNotFoundError):
            return ()

    def _rows(self, file: LsmFile) -> tuple[ArchivedInstant, ...]:
        path = self._path(file.name)
        return lsm.parse_rows(self.storage.read(path), path)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"


def _candidates(files: Sequence[LsmFile]) -> list[LsmFile]:
    """The oldest files of a level that are merged: ten, or fewer if they are large."""
    chosen: list[LsmFile] = []
    size = 0
    for one in files:
        size += one.size_bytes
        chosen.append(one)
        if len(chosen) >= _MERGED:
            break
        if size > _MOST_BYTES:
            if len(chosen) > 1:
                break
            chosen, size = [], 0
    return chosen


def _key(instant: Instant) -> tuple[str, str, str]:
    return comparable(instant.time), instant.time, names.completed_action(instant.action)


class LogArchive(Frozen):
    """The archive of layout 1: each time a new log file, ``.commits_.archive.<N>_1-0-1``.

    It has one ``HoodieArchivedMetaEntry`` for each file of an instant, as Hudi writes it. The schema of the entries is
    the one that Hudi 0.15 puts into its log files; 1.2 reads them on a table of version 6.
    """

    storage: Storage
    folder: str

    def recorded(self) -> Recorded:
        """The completed instants in the newest log file."""
        number = self._newest_number()
        path = self._path(number)
        try:
            found = parse_avro_records(self.storage.read(path), path, entry_key) if number else []
        except (TableCorruptError, ObjectNotFoundError):
            found = []
        return Recorded(frozenset(key for key in found if key is not None), number)

    def record(self, timeline: Timeline, files: Sequence[Instant], seen: Recorded) -> str:
        """Write the log file behind the one that was seen. Raises: FencedError: somebody has written one there."""
        listed = self.storage.list_folder(timeline.layout.folder).objects
        modified = {one.path: one.modified_ms for one in listed}
        entries = [archived_entry(self.storage, timeline, one, modified.get(timeline.path(one), 0)) for one in files]
        path = self._path(seen.number + 1)
        data = format_avro_block(SCHEMA, entries)
        if records.settle(self.storage, path, data) != data:
            raise overtaken(path)
        self.storage.sync([path])
        return path

    def tidy(self) -> None:
        """Nothing is done: Hudi itself merges log files if its options say so."""

    def _newest_number(self) -> int:
        listed = self.storage.list_folder(self.folder).objects
        found = (_LOG.fullmatch(one.path.rpartition("/")[2]) for one in listed)
        return max((int(match["number"]) for match in found if match), default=0)

    def _path(self, number: int) -> str:
        """Path of a new log file. Its write token is the one that Hudi, with a single writer, always uses."""
        return f"{self.folder}/.commits_.archive.{number}_1-0-1"


def archived_entry(storage: Storage, timeline: Timeline, instant: Instant, modified_ms: int) -> dict[str, Any]:
    """The entry of one instant file. Content that cannot be read is left out: the entry then says when and what only.

    Args:
        modified_ms: when the file was written, milliseconds since the epoch.
    """
    entry: dict[str, Any] = {
        "commitTime": instant.time,
        "actionType": names.completed_action(instant.action),
        "actionState": instant.state.value.upper(),
        "version": None,
        "stateTransitionTime": names.instant_time_of(modified_ms),
    }
    try:
        return entry | _content(storage, timeline, instant)
    except (TableCorruptError, TimelineChangedError, ObjectNotFoundError):
        return entry


def entry_key(entry: Mapping[str, Any]) -> tuple[str, str] | None:
    """Time and action of a completed instant's entry; None for one of an earlier state."""
    if entry["actionState"] != InstantState.COMPLETED.value.upper():
        return None
    return entry["commitTime"], entry["actionType"]


def _content(storage: Storage, timeline: Timeline, instant: Instant) -> dict[str, Any]:
    match instant.action:
        case names.CLEAN if instant.is_completed:
            return {"hoodieCleanMetadata": _avro(storage, timeline, instant)}
        case names.CLEAN:
            return {"hoodieCleanerPlan": _avro(storage, timeline, instant)}
        case names.ROLLBACK:
            return {"hoodieRollbackMetadata": _avro(storage, timeline, instant)} if instant.is_completed else {}
        case names.COMPACTION if instant.state is InstantState.REQUESTED:
            return {"hoodieCompactionPlan": _avro(storage, timeline, instant)}
        case names.REPLACE_COMMIT | names.CLUSTERING:
            return _replace(storage, timeline, instant)
    return {"hoodieCommitMetadata": _commit(_metadata(storage, timeline, instant))}


def _replace(storage: Storage, timeline: Timeline, instant: Instant) -> dict[str, Any]:
    match instant.state:
        case InstantState.REQUESTED:
            return {"hoodieRequestedReplaceMetadata": _avro(storage, timeline, instant)}
        case InstantState.INFLIGHT:
            return {"HoodieInflightReplaceMetadata": _commit(_metadata(storage, timeline, instant))}
    metadata = timeline.commit_metadata(storage, instant)
    replaced = {partition: list(ids) for partition, ids in metadata.replaced_file_ids.items()}
    return {"hoodieReplaceCommitMetadata": {**_commit(metadata), "partitionToReplaceFileIds": replaced}}


def _metadata(storage: Storage, timeline: Timeline, instant: Instant) -> CommitMetadata:
    """What a commit's file says; of a requested or an empty inflight file what Hudi takes an empty one for."""
    if instant.state is InstantState.REQUESTED or not storage.head(timeline.path(instant)).size_bytes:
        return CommitMetadata({}, _UNKNOWN, {_ROLLING_STAT: ""})
    return timeline.commit_metadata(storage, instant)


def _commit(metadata: CommitMetadata) -> dict[str, Any]:
    return {
        "partitionToWriteStats": {part: [_stat(one) for one in stats] for part, stats in metadata.write_stats.items()},
        "extraMetadata": {key: text for key, text in metadata.extra_metadata.items() if text is not None},
        "version": None,
        "operationType": metadata.operation or _UNKNOWN,
    }


def _stat(stat: WriteStat) -> dict[str, Any]:
    """The fields of Hudi's ``HoodieWriteStat`` in Avro; the table has no log files, whose fields are empty."""
    return {
        "fileId": stat.file_id,
        "path": stat.path,
        "prevCommit": stat.prev_commit if stat.prev_commit is not None else NO_PREVIOUS,
        "numWrites": stat.num_writes,
        "numDeletes": stat.num_deletes,
        "numUpdateWrites": stat.num_update_writes,
        "totalWriteBytes": stat.total_write_bytes,
        "totalWriteErrors": stat.total_write_errors,
        "partitionPath": stat.partition_path,
        "totalLogRecords": 0,
        "totalLogFiles": None,
        "totalUpdatedRecordsCompacted": 0,
        "numInserts": stat.num_inserts,
        "totalLogBlocks": 0,
        "totalCorruptLogBlock": 0,
        "totalRollbackBlocks": 0,
        "fileSizeInBytes": stat.file_size_bytes,
    }


def _avro(storage: Storage, timeline: Timeline, instant: Instant) -> dict[str, Any] | None:
    """The record of an instant file that is Avro itself, with the same fields in the archive; None if it is empty."""
    path = timeline.path(instant)
    return records.read_filled(storage, path, lambda data, path: avro_record(data, path) if data else None)


class TimelineArchive(Protocol):
    """The archive of one table. Whoever writes to it holds the table's lock."""

    def recorded(self) -> Recorded:
        """What was archived last. Nothing of a file that cannot be read."""

    def record(self, timeline: Timeline, files: Sequence[Instant], seen: Recorded) -> str:
        """Put instants into the archive, durably; the path of what was written.

        Args:
            files: the instants in every state that has a file.
            seen: what was archived when they were chosen.

        Raises:
            FencedError: another writer has archived since then, and may have archived the same.
        """

    def tidy(self) -> None:
        """Merge what is in many files."""


def archive_of(storage: Storage, layout: TimelineLayout) -> TimelineArchive:
    kind = LsmArchive if layout.has_completion_times else LogArchive
    return kind(storage, layout.archive_folder)


ARCHIVED_ACTIONS: Final = frozenset({*names.WRITE_ACTIONS, names.CLEAN, names.ROLLBACK})
"""Actions of completed instants that are archived; savepoints and restores stay."""

_BATCH: Final = 100
"""Instants that go into one file of the archive."""


def archive_instants(
    storage: Storage, load: Callable[[], Timeline], lock: TableLock, instants: Sequence[Instant]
) -> list[str]:
    """Archive instants, unless they are archived already, take them off the timeline, and merge what is in many files.

    Args:
        instants: completed ones of it.

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
    wanted = {_instant_key(one) for one in instants}
    files = [one for one in timeline.files if _instant_key(one) in wanted]
    seen = archive.recorded()
    written: list[str] = []
    new = [one for one in files if _instant_key(one) not in seen.instants]
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


def _instant_key(instant: Instant) -> tuple[str, str]:
    return instant.time, names.completed_action(instant.action)


class ArchivingPlan(Frozen):
    """What archiving would take from the timeline.

    Attributes:
        instants: completed instants, in time order.
        held_by: what keeps newer ones on the timeline though they are more than are to be kept: a savepoint, a pending
            instant or a replacecommit, in words; None if nothing does.
    """

    instants: tuple[Instant, ...] = ()
    held_by: str | None = None


class Archived(Frozen):
    """Archiving that is done.

    Attributes:
        logs: the log files that were written.
        strays: strays that were swept before.
        notes: what was done to other writers' instants.
    """

    plan: ArchivingPlan
    logs: tuple[str, ...] = ()
    strays: tuple[Stray, ...] = ()
    notes: tuple[str, ...] = ()


def archive_table(
    table: Table, keep_commits: int, config: WriteConfig | None = None, *, force: bool = False, host: Host | None = None
) -> Archived:
    """Archive all but the newest writes. Repeating it, after a kill too, does what is left to do.

    Args:
        keep_commits: completed writes that stay on the timeline, 1 or more;
            not fewer than cleaning keeps, so that what can be read as of then can be named.

    Raises:
        FencedError: this process stalled for longer than its lease.
    """
    with maintaining(table, "archiving", config, force=force, host=host) as (context, lock):
        finish_cleans(context, lock)
        strays = sweep_all(context)
        plan = plan_archiving(table, keep_commits)
        logs = archive_instants(table.storage, table.load_timeline, lock, plan.instants)
        return Archived(plan, tuple(logs), strays, tuple(context.notes))


def plan_archiving(table: Table, keep_commits: int) -> ArchivingPlan:
    """What archiving would take now; nothing is changed. Raises: TableCorruptError."""
    timeline = table.load_timeline()
    writes = timeline.completed_writes
    if len(writes) <= keep_commits:
        return ArchivingPlan()
    limit, held_by = writes[-keep_commits].time, None
    for time, what in (*_holds(snapshot(table.storage, timeline)), *_held_by_metadata(table, timeline)):
        if comparable(time) < comparable(limit):
            limit, held_by = time, what
    while (late := _completed_late(timeline, limit)) is not None:
        limit, held_by = late, held_by or f"{late}, which was completed after a newer write that stays"
    cleans = [one for one in timeline.completed if one.action == names.CLEAN]
    going = (
        one
        for one in timeline.completed
        if one.action in ARCHIVED_ACTIONS and comparable(one.time) < comparable(limit) and one not in cleans[-1:]
    )
    return ArchivingPlan(tuple(going), held_by)


def _holds(found: Snapshot) -> Iterator[tuple[str, str]]:
    """Instants that must stay with all that is newer, and why."""
    timeline = found.timeline
    for one in timeline.pending[:1]:
        yield one.time, f"pending {one.action} {one.time}"
    for time in sorted(timeline.savepoints, key=comparable)[:1]:
        yield time, f"savepoint {time}"
    for file in sorted(find_unexplained(found), key=lambda one: comparable(one.instant_time))[:1]:
        # as long as a write before it is on the timeline, no reader takes it for an archived one's
        before = [one.time for one in timeline.completed_writes if comparable(one.time) < comparable(file.instant_time)]
        if before:
            yield before[-1], f"{file.path}, which no instant explains: see `lakeindex check`"
    lost = min(_lost(found), key=lambda one: comparable(one.instant.time), default=None)
    if lost is not None:  # nobody but the commit knows that an older slice is none that counts
        time = lost.instant.time
        yield time, f"commit {time}, whose file {lost.file.path} no reader finds: see `lakeindex check`"
    left = [time for group, time in found.replaced.items() if _has_files(found, *group)]
    if left:
        first = min(left, key=comparable)
        yield first, f"files that replacecommit {first} replaced: clean first"


def _lost(found: Snapshot) -> list[WrittenSlice]:
    """The newest slices of live file groups that commits name, and that are not there; in folders that are no
    partitions any more, too. What cannot be read names none.
    """
    writes = found.timeline.completed_writes
    said = in_parallel(found.storage.uri, lambda one: _said(found, one), writes)
    live = live_slices([(one, told) for one, told in zip(writes, said, strict=True) if told is not None])
    hidden = {partition for partition, _ in live} - set(found.partitions())
    return missing_slices(found.with_partitions(hidden) if hidden else found, live)


def _said(found: Snapshot, write: Instant) -> CommitMetadata | None:
    try:
        return found.timeline.commit_metadata(found.storage, write)
    except TableCorruptError:
        return None


def _completed_late(timeline: Timeline, limit: str) -> str | None:
    """The oldest write before a limit that was completed after one that stays; None if there is none.

    What is archived counts by its instant: who has read up to the completion of the one that stays would miss it.
    """
    writes = [(one.time, one.completion_time) for one in timeline.completed_writes if one.completion_time is not None]
    staying = (end for time, end in writes if comparable(time) >= comparable(limit))
    first = min(staying, key=comparable, default=None)
    if first is None:
        return None
    late = (one for one, end in writes if comparable(one) < comparable(limit) and comparable(end) > comparable(first))
    return next(late, None)


def _held_by_metadata(table: Table, timeline: Timeline) -> Iterator[tuple[str, str]]:
    """What is newer than the newest compaction of the metadata table: Hudi 0.15 believes no log of an instant that is
    archived.
    """
    metadata = metadata_table_of(table.storage, table.current_properties())
    if metadata is not None:
        bound = archiving_bound(MetadataView.load(metadata, timeline))
        kept = (one.time for one in timeline.completed if comparable(one.time) >= bound)
        yield from ((time, "the metadata table, which is not compacted so far") for time in list(kept)[:1])


def _has_files(found: Snapshot, partition: str, file_id: str) -> bool:
    """Whether files of a replaced group are left."""
    return any(file.file_id == file_id for file in found.files_of(partition).older)


def archived_lately(table: Table) -> frozenset[tuple[str, str]]:
    """Time and action of completed instants that were archived last. One that is still on the timeline was left there
    by a kill.
    """
    return archive_of(table.storage, table.properties.timeline_layout).recorded().instants
