"""What the archived timeline says of an instant: one ``HoodieArchivedMetaEntry`` for each of its files,
as Hudi writes it.

The schema beside this module is the one that Hudi 0.15 puts into its log files; 1.2 reads them on a table of version 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

from lakeindex.errors import ObjectNotFoundError, TableCorruptError, TimelineChangedError
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import NO_PREVIOUS, CommitMetadata, WriteStat
from lakeindex.model import Instant, InstantState
from lakeindex.storage.port import Storage
from lakeindex.timeline.avro_instants import avro_record
from lakeindex.timeline.timeline import Timeline

SCHEMA: Final = files("lakeindex.table").joinpath("archived_meta_entry.avsc").read_text().strip()
"""Avro schema of the entries, JSON."""

_UNKNOWN: Final = "UNKNOWN"
_ROLLING_STAT: Final = "ROLLING_STAT"


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
