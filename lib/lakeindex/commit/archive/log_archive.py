"""Writing the archive of layout 1: each time a new log file, ``.commits_.archive.<N>_1-0-1``.

It has one ``HoodieArchivedMetaEntry`` for each file of an instant, as Hudi writes it. The schema of the entries is the
one that Hudi 0.15 puts into its log files; 1.2 reads them on a table of version 6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final

from lakeindex.commit.archive.recorded import Recorded, overtaken
from lakeindex.errors import ObjectNotFoundError, TableCorruptError, TimelineChangedError
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import NO_PREVIOUS, CommitMetadata, WriteStat
from lakeindex.model import Instant, InstantState
from lakeindex.storage.port import Storage
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import avro_record
from lakeindex.timeline.log_files import format_avro_block, parse_avro_records
from lakeindex.timeline.timeline import Timeline

_LOG: Final = re.compile(r"\.commits_\.archive\.(?P<number>[0-9]+)_[0-9]+-[0-9]+-[0-9]+")

SCHEMA: Final = files("lakeindex.table").joinpath("archived_meta_entry.avsc").read_text().strip()
"""Avro schema of the entries, JSON."""

_UNKNOWN: Final = "UNKNOWN"
_ROLLING_STAT: Final = "ROLLING_STAT"


@dataclass(frozen=True, slots=True)
class LogArchive:
    """An archive of log files.

    Attributes:
        storage: the table's folder.
        folder: the archive, relative to it.
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
        """Nothing: Hudi merges log files where it is told to."""

    def _newest_number(self) -> int:
        """Number of the newest log file; 0 if there is none."""
        listed = self.storage.list_folder(self.folder).objects
        found = (_LOG.fullmatch(one.path.rpartition("/")[2]) for one in listed)
        return max((int(match["number"]) for match in found if match), default=0)

    def _path(self, number: int) -> str:
        """The newest log file may carry another write token: Hudi's are of one writer, and so are always this one."""
        return f"{self.folder}/.commits_.archive.{number}_1-0-1"


def archived_entry(storage: Storage, timeline: Timeline, instant: Instant, modified_ms: int) -> dict[str, Any]:
    """The entry of one instant file. Content that cannot be read is left out: the entry then says when and what only.

    Args:
        storage: the table's folder.
        timeline: the timeline.
        instant: the instant in the state of the file.
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
    """The fields of Hudi's ``HoodieWriteStat`` in Avro; those of log files,
    which the table has none of, are nothing.
    """
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
    """The record of an instant file that is Avro itself, which has the same fields in the archive;
    None if it is empty.
    """
    path = timeline.path(instant)
    data = storage.read(path)
    return avro_record(data, path) if data else None
