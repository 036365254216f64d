"""Timeline files that are Avro containers: rollback, restore, clean, savepoint, requested replace, and commits of
layout 2.

What we write (the files of rollbacks, restores, cleans and savepoints, the requested replace) uses the schemas of
:mod:`lakeindex.timeline.avro_schemas`; what we read is decoded by the writer's own schema, so that newer
releases may add fields.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import fastavro
from fastavro.schema import SchemaParseException
from msgspec import field
from msgspec.structs import replace

from lakeindex.errors import TableCorruptError
from lakeindex.format.commit_metadata import (
    CommitMetadata,
    cure_of_damage,
    metadata_from_json,
    metadata_to_json,
    stat_to_json,
)
from lakeindex.format.instants import REPLACE_COMMIT
from lakeindex.frozen import Frozen
from lakeindex.timeline.avro_schemas import (
    CLEAN_METADATA,
    CLEANER_PLAN,
    COMMIT_METADATA,
    REPLACE_COMMIT_METADATA,
    REQUESTED_REPLACE,
    RESTORE_METADATA,
    RESTORE_PLAN,
    ROLLBACK_METADATA,
    ROLLBACK_PLAN,
    SAVEPOINT_METADATA,
    check_bounded,
)

_CLUSTERING: Final = "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
"""How Hudi carries a plan of ours out."""


class Undone(Frozen):
    """What completed rollbacks, or the rollbacks that a restore is made of, have taken back.

    Attributes:
        files: (partition path, file name) of the data files that were deleted, or were to be.
    """

    instants: frozenset[str] = frozenset()
    files: frozenset[tuple[str, str]] = frozenset()

    @staticmethod
    def joined(parts: Iterable[Undone]) -> Undone:
        every = tuple(parts)
        return Undone(
            frozenset(time for one in every for time in one.instants),
            frozenset(file for one in every for file in one.files),
        )


NOTHING_UNDONE: Final = Undone()


def undone_by_rollback(record: Mapping[str, Any]) -> Undone:
    """What one rollback has taken back, as Hudi's ``HoodieRollbackMetadata`` says."""
    instants = {one["commitTime"] for one in record.get("instantsRollback") or ()} or set(record["commitsRollback"])
    files = {
        (partition, place.rpartition("/")[2])
        for partition, found in record["partitionMetadata"].items()
        for place in (*found["successDeleteFiles"], *found["failedDeleteFiles"])
    }
    return Undone(frozenset(instants), frozenset(files))


def undone_by_restore(record: Mapping[str, Any]) -> Undone:
    """What one restore has taken back, as Hudi's ``HoodieRestoreMetadata`` says."""
    rollbacks = [one for found in record["hoodieRestoreMetadata"].values() for one in found if one is not None]
    return Undone.joined(
        [Undone(frozenset(record.get("instantsToRollback") or ())), *(undone_by_rollback(one) for one in rollbacks)]
    )


AVRO_MAGIC: Final = b"Obj\x01"
OWN_SYNC_MARKER: Final = b"lakeindex-sync-1"
"""Ends the Avro blocks that we write: tells our plans from Hudi's."""

# Everything fastavro lets through on damaged bytes.
DECODE_ERRORS: Final = (
    ValueError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    StopIteration,
    OverflowError,
    RecursionError,
    MemoryError,
    struct.error,
    zlib.error,
    SchemaParseException,
)

_CLEAN_VERSION: Final = 2

# Numbers of log files, which a copy-on-write table has none of; Hudi writes them as 0.
_UNUSED_STAT_FIELDS: Final = {"totalLogReadTimeMs": 0, "numUpdates": 0}

_T = TypeVar("_T")
Record = Mapping[str, Any]


class RollbackPlan(Frozen):
    """Content of ``<instant>.rollback.requested``.

    Attributes:
        files: partition path -> locations (URLs) of the files to delete.
    """

    instant_time: str
    action: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class RollbackMetadata(Frozen):
    """Content of ``<instant>.rollback``.

    Attributes:
        start_time: the rollback's own instant.
        instant_time: the instant rolled back (the first one, where there are several).
        deleted: partition path -> locations of the deleted files.
        failed: partition path -> locations of the files that could not be deleted.
        millis: how long it took.
    """

    start_time: str
    instant_time: str
    action: str
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    failed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    millis: int = 0


class ClusteringSlice(Frozen):
    """A file group that a clustering is going to replace, and the URL of its base file as it was planned."""

    partition_path: str
    file_id: str
    url: str = ""


class ClusteringGroup(Frozen):
    """File groups whose rows are put together, and into how many new ones."""

    slices: tuple[ClusteringSlice, ...]
    outputs: int = 1


class RestorePlan(Frozen):
    """Content of ``<instant>.restore.requested``.

    Attributes:
        to: the instant that is restored to; empty where an old release did not say.
        instants: time and action of the writes that go, in the order in which they go.
    """

    to: str
    instants: tuple[tuple[str, str], ...] = ()


class RequestedReplace(Frozen):
    """Content of ``<instant>.replacecommit.requested`` (and ``.clustering.requested``).

    Attributes:
        operation: ``CLUSTER``, ... or ``None`` (insert overwrite leaves every field empty).
        groups: what a clustering is going to replace.
        params: how it sorts, by Hudi's option names.
    """

    operation: str | None = None
    groups: tuple[ClusteringGroup, ...] = ()
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def input_groups(self) -> tuple[tuple[str, str], ...]:
        """(partition path, file id) of the file groups that a clustering is going to replace."""
        return tuple((one.partition_path, one.file_id) for group in self.groups for one in group.slices)


class CleanMetadata(Frozen):
    """Content of ``<instant>.clean``.

    Attributes:
        start_time: the clean's own instant.
        policy: cleaning policy of the first partition, if any.
        earliest_retained: earliest instant whose files stay, empty if none is named.
        deleted: partition path -> names of the deleted files.
        last_completed: newest completed write when it was planned.
        millis: how long it took.
        savepoints: the commits that were kept when it was planned.
    """

    start_time: str
    policy: str | None
    earliest_retained: str
    deleted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    last_completed: str = ""
    millis: int = 0
    savepoints: tuple[str, ...] = ()


class CleanPlan(Frozen):
    """Content of ``<instant>.clean.requested``.

    Attributes:
        files: partition path -> locations of the files to delete.
        earliest: earliest instant to retain, its time and action; None if the policy names none.
        last_completed: newest completed write when it was planned.
        savepoints: the commits that were kept then. Once one is not kept any more, Hudi looks into all partitions
            again, and archives no replacecommit behind the first of them whose files a savepoint had kept.
    """

    policy: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    earliest: tuple[str, str] | None = None
    last_completed: str = ""
    savepoints: tuple[str, ...] = ()


class Savepoint(Frozen):
    """Content of ``<instant>.savepoint``.

    Attributes:
        made_ms: when, milliseconds since the epoch.
        files: partition path -> names of the data files it keeps.
    """

    user: str
    made_ms: int
    comments: str
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def format_rollback_plan(plan: RollbackPlan) -> bytes:
    """Bytes of ``<instant>.rollback.requested``; one request a file, as Hudi's marker-based rollback writes them."""
    requests = [
        {
            "partitionPath": partition,
            "fileId": "",
            "latestBaseInstant": "",
            "filesToBeDeleted": [location],
            "logBlocksToBeDeleted": {},
        }
        for partition, locations in plan.files.items()
        for location in locations
    ]
    instant = _instant_record(plan.instant_time, plan.action)
    return format_avro(ROLLBACK_PLAN, {"instantToRollback": instant, "RollbackRequests": requests, "version": 1})


def parse_rollback_plan(data: bytes, source: str) -> RollbackPlan:
    """Read ``<instant>.rollback.requested``. Raises: TableCorruptError."""

    def build(record: Record) -> RollbackPlan:
        instant = record["instantToRollback"]
        files: dict[str, tuple[str, ...]] = {}
        for request in record["RollbackRequests"] or ():
            known = files.get(request["partitionPath"], ())
            files[request["partitionPath"]] = (*known, *request["filesToBeDeleted"])
        return RollbackPlan(instant["commitTime"], instant["action"], files)

    return _parse(data, source, build)


def format_rollback_metadata(metadata: RollbackMetadata) -> bytes:
    """Bytes of ``<instant>.rollback``."""
    return format_avro(ROLLBACK_METADATA, _rollback_record(metadata))


def _rollback_record(metadata: RollbackMetadata) -> dict[str, object]:
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": list(metadata.deleted.get(partition, ())),
            "failedDeleteFiles": list(metadata.failed.get(partition, ())),
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {},
        }
        for partition in sorted({*metadata.deleted, *metadata.failed})
    }
    return {
        "startRollbackTime": metadata.start_time,
        "timeTakenInMillis": metadata.millis,
        "totalFilesDeleted": sum(len(files) for files in metadata.deleted.values()),
        "commitsRollback": [metadata.instant_time],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [_instant_record(metadata.instant_time, metadata.action)],
    }


def _instant_record(time: str, action: str) -> dict[str, str]:
    return {"commitTime": time, "action": action}


def parse_rollback_metadata(data: bytes, source: str) -> RollbackMetadata:
    """Read ``<instant>.rollback``. Raises: TableCorruptError."""

    def build(record: Record) -> RollbackMetadata:
        instants = record.get("instantsRollback") or [{"commitTime": record["commitsRollback"][0], "action": "commit"}]
        partitions = record["partitionMetadata"].items()
        return RollbackMetadata(
            start_time=record["startRollbackTime"],
            instant_time=instants[0]["commitTime"],
            action=instants[0]["action"],
            deleted={part: tuple(one["successDeleteFiles"]) for part, one in partitions if one["successDeleteFiles"]},
            failed={part: tuple(one["failedDeleteFiles"]) for part, one in partitions if one["failedDeleteFiles"]},
            millis=record["timeTakenInMillis"],
        )

    return _parse(data, source, build)


def parse_undone(data: bytes, source: str) -> Undone:
    """What a completed ``<instant>.rollback`` has taken back. Raises: TableCorruptError."""
    return _parse(data, source, undone_by_rollback)


def format_restore_plan(plan: RestorePlan) -> bytes:
    """Bytes of ``<instant>.restore.requested``, as version 2 of Hudi's plan; equal values give equal bytes."""
    instants = [_instant_record(*one) for one in plan.instants]
    return format_avro(
        RESTORE_PLAN, {"instantsToRollback": instants, "version": 2, "savepointToRestoreTimestamp": plan.to}
    )


def parse_restore_plan(data: bytes, source: str) -> RestorePlan:
    """Read ``<instant>.restore.requested``. Raises: TableCorruptError."""

    def build(record: Record) -> RestorePlan:
        instants = tuple((one["commitTime"], one["action"]) for one in record["instantsToRollback"])
        return RestorePlan(record.get("savepointToRestoreTimestamp") or "", instants)

    return _parse(data, source, build)


def format_restore_metadata(start_time: str, rollbacks: Sequence[RollbackMetadata], millis: int) -> bytes:
    """Bytes of ``<instant>.restore``.

    Args:
        start_time: the restore's own instant.
        rollbacks: what was taken back, in that order.
        millis: how long it took.
    """
    return format_avro(
        RESTORE_METADATA,
        {
            "startRestoreTime": start_time,
            "timeTakenInMillis": millis,
            "instantsToRollback": [one.instant_time for one in rollbacks],
            "hoodieRestoreMetadata": {one.instant_time: [_rollback_record(one)] for one in rollbacks},
            "version": 1,
            "restoreInstantInfo": [_instant_record(one.instant_time, one.action) for one in rollbacks],
        },
    )


def parse_restore(data: bytes, source: str) -> Undone:
    """What a completed ``<instant>.restore`` has taken back. Raises: TableCorruptError."""
    return _parse(data, source, undone_by_restore)


def format_requested_replace(requested: RequestedReplace) -> bytes:
    """Bytes of ``<instant>.replacecommit.requested``: a clustering plan, or all fields empty."""
    if not requested.groups:
        return format_avro(REQUESTED_REPLACE, {"operationType": requested.operation, "version": 1})
    groups = [
        {
            "slices": [_clustering_slice(one) for one in group.slices],
            "metrics": {},
            "numOutputFileGroups": group.outputs,
            "version": 1,
        }
        for group in requested.groups
    ]
    strategy = {"strategyClassName": _CLUSTERING, "strategyParams": dict(requested.params), "version": 1}
    plan = {"inputGroups": groups, "strategy": strategy, "extraMetadata": {}, "version": 1}
    plan["preserveHoodieMetadata"] = True
    return format_avro(
        REQUESTED_REPLACE,
        {"operationType": requested.operation, "clusteringPlan": plan, "extraMetadata": {}, "version": 1},
    )


def _clustering_slice(one: ClusteringSlice) -> Record:
    return {
        "dataFilePath": one.url,
        "deltaFilePaths": [],
        "fileId": one.file_id,
        "partitionPath": one.partition_path,
        "bootstrapFilePath": "",
        "version": 1,
    }


def parse_requested_replace(data: bytes, source: str) -> RequestedReplace:
    """Read ``<instant>.replacecommit.requested``; old releases leave it empty for an insert overwrite.

    Raises:
        TableCorruptError: neither empty nor the expected Avro.
    """
    if not data:
        return RequestedReplace()

    def build(record: Record) -> RequestedReplace:
        plan = record["clusteringPlan"] or {}
        groups = tuple(
            ClusteringGroup(
                tuple(
                    ClusteringSlice(one["partitionPath"] or "", one["fileId"], one["dataFilePath"] or "")
                    for one in group["slices"] or ()
                ),
                group["numOutputFileGroups"] or 1,
            )
            for group in plan.get("inputGroups") or ()
        )
        params = (plan.get("strategy") or {}).get("strategyParams") or {}
        return RequestedReplace(record["operationType"], groups, params)

    return _parse(data, source, build)


def format_clean_plan(plan: CleanPlan) -> bytes:
    """Bytes of ``<instant>.clean.requested`` (and of its inflight file), as Hudi's version 2 of the plan."""
    earliest = None
    if plan.earliest is not None:
        earliest = {"timestamp": plan.earliest[0], "action": plan.earliest[1], "state": "COMPLETED"}
    files = {
        partition: [{"filePath": location, "isBootstrapBaseFile": False} for location in locations]
        for partition, locations in plan.files.items()
    }
    return format_avro(
        CLEANER_PLAN,
        {
            "earliestInstantToRetain": earliest,
            "lastCompletedCommitTimestamp": plan.last_completed,
            "policy": plan.policy,
            "filesToBeDeletedPerPartition": {},
            "version": _CLEAN_VERSION,
            "filePathsToBeDeletedPerPartition": files,
            "partitionsToBeDeleted": [],
            "extraMetadata": _saved(plan.savepoints),
        },
    )


def format_clean_metadata(metadata: CleanMetadata) -> bytes:
    """Bytes of ``<instant>.clean``."""
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": metadata.policy,
            "deletePathPatterns": list(names),
            "successDeleteFiles": list(names),
            "failedDeleteFiles": [],
            "isPartitionDeleted": False,
        }
        for partition, names in metadata.deleted.items()
    }
    return format_avro(
        CLEAN_METADATA,
        {
            "startCleanTime": metadata.start_time,
            "timeTakenInMillis": metadata.millis,
            "totalFilesDeleted": sum(len(names) for names in metadata.deleted.values()),
            "earliestCommitToRetain": metadata.earliest_retained,
            "lastCompletedCommitTimestamp": metadata.last_completed,
            "partitionMetadata": partitions,
            "version": _CLEAN_VERSION,
            "bootstrapPartitionMetadata": {},
            "extraMetadata": _saved(metadata.savepoints),
        },
    )


_SAVEPOINTS: Final = "savepointed_timestamps"


def _saved(savepoints: tuple[str, ...]) -> dict[str, str]:
    return {_SAVEPOINTS: ",".join(savepoints)} if savepoints else {}


def _savepoints_of(record: Record) -> tuple[str, ...]:
    return tuple(filter(None, ((record.get("extraMetadata") or {}).get(_SAVEPOINTS) or "").split(",")))


def parse_clean_plan(data: bytes, source: str) -> CleanPlan:
    """Read ``<instant>.clean.requested``. Raises: TableCorruptError."""

    def build(record: Record) -> CleanPlan:
        new = record.get("filePathsToBeDeletedPerPartition") or {}
        old = record.get("filesToBeDeletedPerPartition") or {}
        files = {part: tuple(one["filePath"] for one in found) for part, found in new.items()}
        earliest = record["earliestInstantToRetain"]
        return CleanPlan(
            record["policy"],
            files or {part: tuple(found) for part, found in old.items()},
            None if earliest is None else (earliest["timestamp"], earliest["action"]),
            record.get("lastCompletedCommitTimestamp") or "",
            _savepoints_of(record),
        )

    return _parse(data, source, build)


def parse_clean_metadata(data: bytes, source: str) -> CleanMetadata:
    """Read ``<instant>.clean``. Raises: TableCorruptError."""

    def build(record: Record) -> CleanMetadata:
        partitions = record["partitionMetadata"]
        return CleanMetadata(
            start_time=record["startCleanTime"],
            policy=next((one["policy"] for one in partitions.values()), None),
            earliest_retained=record["earliestCommitToRetain"],
            deleted={part: tuple(one["successDeleteFiles"]) for part, one in partitions.items()},
            last_completed=record.get("lastCompletedCommitTimestamp") or "",
            millis=record["timeTakenInMillis"],
            savepoints=_savepoints_of(record),
        )

    return _parse(data, source, build)


def format_savepoint(savepoint: Savepoint) -> bytes:
    """Bytes of ``<instant>.savepoint``."""
    partitions = {
        partition: {"partitionPath": partition, "savepointDataFile": list(names)}
        for partition, names in savepoint.files.items()
    }
    return format_avro(
        SAVEPOINT_METADATA,
        {
            "savepointedBy": savepoint.user,
            "savepointedAt": savepoint.made_ms,
            "comments": savepoint.comments,
            "partitionMetadata": partitions,
            "version": 1,
        },
    )


def parse_savepoint(data: bytes, source: str) -> Savepoint:
    """Read ``<instant>.savepoint``. Raises: TableCorruptError."""

    def build(record: Record) -> Savepoint:
        partitions = record["partitionMetadata"]
        files = {part: tuple(one["savepointDataFile"]) for part, one in partitions.items()}
        return Savepoint(record["savepointedBy"], record["savepointedAt"], record["comments"], files)

    return _parse(data, source, build)


def parse_avro_commit_metadata(data: bytes, source: str) -> CommitMetadata:
    """Read a commit or replacecommit of table version 8 or 9. Raises: TableCorruptError."""
    return metadata_from_json(avro_record(data, source), source)


def format_avro_commit_metadata(metadata: CommitMetadata, action: str) -> bytes:
    """Bytes of a commit, of a replacecommit, or of the inflight file of either; equal values give equal bytes.

    Args:
        action: ``replacecommit`` for the completed file of one, ``commit`` for every other.
    """
    texts = {key: text for key, text in metadata.extra_metadata.items() if text is not None}
    stats = {
        partition: [{**_UNUSED_STAT_FIELDS, **stat_to_json(one)} for one in written]
        for partition, written in metadata.write_stats.items()
    }
    rest = metadata_to_json(replace(metadata, write_stats={}, extra_metadata=texts))
    record = {**rest, "partitionToWriteStats": stats}
    if action != REPLACE_COMMIT:
        return format_avro(COMMIT_METADATA, record)
    return format_avro(REPLACE_COMMIT_METADATA, {"partitionToReplaceFileIds": {}, **record})


def format_avro(schema: dict[str, Any], record: Mapping[str, object]) -> bytes:
    out = io.BytesIO()
    # A fixed sync marker makes equal values equal bytes, so that two attempts of one plan write the same file.
    fastavro.writer(out, fastavro.parse_schema(schema), [record], sync_marker=OWN_SYNC_MARKER)
    return out.getvalue()


def avro_record(data: bytes, source: str) -> dict[str, Any]:
    """The one record of a timeline file that is Avro, as it is. Raises: TableCorruptError."""
    return _parse(data, source, _as_dict)


def _as_dict(record: Record) -> dict[str, Any]:
    return dict(record)


def _parse(data: bytes, source: str, build: Callable[[Record], _T]) -> _T:
    try:
        reader = fastavro.reader(io.BytesIO(data))
        check_bounded(reader.writer_schema, reader.codec)
        first = next(iter(reader))
        if not isinstance(first, dict):
            raise TypeError("not a record")
        return build(first)
    except DECODE_ERRORS as error:
        reason = "it is empty" if not data else f"{type(error).__name__}: {error}"
        raise TableCorruptError(
            f"{source} is damaged: no readable Avro ({reason})",
            culprit=source,
            hint=cure_of_damage(source),
        ) from None
