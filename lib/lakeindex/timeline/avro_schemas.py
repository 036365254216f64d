"""Avro schemas of the timeline files that we write, field for field as Hudi 0.15 and 1.2 write them.

``avro.java.string`` tells Hudi's generated classes to decode texts as ``java.lang.String``; without it they would
fail on a cast.

A schema that stands in a file is checked before it is used (:func:`check_bounded`): reading must be no more work than
the file has bytes. A few bytes may claim 2^40 items that take none (an array of nulls), types that hold themselves, or
types that hold the one before twice, forty times over. fastavro does what they say, for days, or until the stack is
full. Hudi's files have none of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Schema: TypeAlias = "str | list[Any] | dict[str, Any]"

_PACKAGE: Final = "org.apache.hudi.avro.model."
_TEXT: Final[Schema] = {"type": "string", "avro.java.string": "String"}


def _array(items: Schema) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _map(values: Schema) -> dict[str, Any]:
    return {"type": "map", "values": values, "avro.java.string": "String"}


def _optional(kind: Schema) -> list[Any]:
    return ["null", kind]


def _field(name: str, kind: Schema) -> dict[str, Any]:
    return {"name": name, "type": kind}


def _nullable(name: str, kind: Schema) -> dict[str, Any]:
    return {"name": name, "type": _optional(kind), "default": None}


def _record(name: str, *fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": _PACKAGE + name, "fields": list(fields)}


_VERSION: Final = {"name": "version", "type": ["int", "null"], "default": 1}
_INSTANT_INFO: Final = _record("HoodieInstantInfo", _field("commitTime", _TEXT), _field("action", _TEXT))

ROLLBACK_PLAN: Final = _record(
    "HoodieRollbackPlan",
    _nullable("instantToRollback", _INSTANT_INFO),
    _nullable(
        "RollbackRequests",
        _array(
            _record(
                "HoodieRollbackRequest",
                _field("partitionPath", _TEXT),
                _nullable("fileId", _TEXT),
                _nullable("latestBaseInstant", _TEXT),
                {"name": "filesToBeDeleted", "type": {**_array(_TEXT), "default": []}, "default": []},
                _nullable("logBlocksToBeDeleted", _map("long")),
            )
        ),
    ),
    _VERSION,
)

ROLLBACK_METADATA: Final = _record(
    "HoodieRollbackMetadata",
    _field("startRollbackTime", _TEXT),
    _field("timeTakenInMillis", "long"),
    _field("totalFilesDeleted", "int"),
    _field("commitsRollback", _array(_TEXT)),
    _field(
        "partitionMetadata",
        _map(
            _record(
                "HoodieRollbackPartitionMetadata",
                _field("partitionPath", _TEXT),
                _field("successDeleteFiles", _array(_TEXT)),
                _field("failedDeleteFiles", _array(_TEXT)),
                _nullable("rollbackLogFiles", _map("long")),
                _nullable("logFilesFromFailedCommit", _map("long")),
            )
        ),
    ),
    _VERSION,
    {"name": "instantsRollback", "type": {**_array(_INSTANT_INFO), "default": []}, "default": []},
)

SAVEPOINT_METADATA: Final = _record(
    "HoodieSavepointMetadata",
    _field("savepointedBy", _TEXT),
    _field("savepointedAt", "long"),
    _field("comments", _TEXT),
    _field(
        "partitionMetadata",
        _map(
            _record(
                "HoodieSavepointPartitionMetadata",
                _field("partitionPath", _TEXT),
                _field("savepointDataFile", _array(_TEXT)),
            )
        ),
    ),
    _VERSION,
)

RESTORE_PLAN: Final = _record(
    "HoodieRestorePlan",
    {"name": "instantsToRollback", "type": {**_array(_INSTANT_INFO), "default": []}, "default": []},
    {**_VERSION, "default": 2},
    _nullable("savepointToRestoreTimestamp", _TEXT),
)

RESTORE_METADATA: Final = _record(
    "HoodieRestoreMetadata",
    _field("startRestoreTime", _TEXT),
    _field("timeTakenInMillis", "long"),
    _field("instantsToRollback", _array(_TEXT)),
    _field("hoodieRestoreMetadata", _map(_array(_optional(ROLLBACK_METADATA)))),
    _VERSION,
    {
        "name": "restoreInstantInfo",
        "type": {**_array(_PACKAGE + "HoodieInstantInfo"), "default": []},
        "default": [],
    },
)

_SLICE_INFO: Final = _record(
    "HoodieSliceInfo",
    _nullable("dataFilePath", _TEXT),
    _nullable("deltaFilePaths", _array(_TEXT)),
    _field("fileId", _optional(_TEXT)),
    _nullable("partitionPath", _TEXT),
    _nullable("bootstrapFilePath", _TEXT),
    _VERSION,
)

_CLUSTERING_PLAN: Final = _record(
    "HoodieClusteringPlan",
    _nullable(
        "inputGroups",
        _array(
            _record(
                "HoodieClusteringGroup",
                _nullable("slices", _array(_SLICE_INFO)),
                _nullable("metrics", _map("double")),
                {"name": "numOutputFileGroups", "type": ["int", "null"], "default": 1},
                _nullable("extraMetadata", _map(_TEXT)),
                _VERSION,
            )
        ),
    ),
    _nullable(
        "strategy",
        _record(
            "HoodieClusteringStrategy",
            _nullable("strategyClassName", _TEXT),
            _nullable("strategyParams", _map(_TEXT)),
            _VERSION,
        ),
    ),
    _nullable("extraMetadata", _map(_TEXT)),
    _VERSION,
    _nullable("preserveHoodieMetadata", "boolean"),
)

REQUESTED_REPLACE: Final = _record(
    "HoodieRequestedReplaceMetadata",
    _nullable("operationType", _TEXT),
    _nullable("clusteringPlan", _CLUSTERING_PLAN),
    _nullable("extraMetadata", _map(_TEXT)),
    _VERSION,
)

_CLEANED_PARTITION: Final = _record(
    "HoodieCleanPartitionMetadata",
    _field("partitionPath", _TEXT),
    _field("policy", _TEXT),
    _field("deletePathPatterns", _array(_TEXT)),
    _field("successDeleteFiles", _array(_TEXT)),
    _field("failedDeleteFiles", _array(_TEXT)),
    _nullable("isPartitionDeleted", "boolean"),
)

CLEAN_METADATA: Final = _record(
    "HoodieCleanMetadata",
    _field("startCleanTime", _TEXT),
    _field("timeTakenInMillis", "long"),
    _field("totalFilesDeleted", "int"),
    _field("earliestCommitToRetain", _TEXT),
    {"name": "lastCompletedCommitTimestamp", "type": _TEXT, "default": ""},
    _field("partitionMetadata", _map(_CLEANED_PARTITION)),
    _VERSION,
    _nullable("bootstrapPartitionMetadata", {**_map(_PACKAGE + "HoodieCleanPartitionMetadata"), "default": None}),
    _nullable("extraMetadata", {**_map(_TEXT), "default": None}),
)

CLEANER_PLAN: Final = _record(
    "HoodieCleanerPlan",
    _nullable(
        "earliestInstantToRetain",
        _record(
            "HoodieActionInstant",
            _field("timestamp", _TEXT),
            _field("action", _TEXT),
            _field("state", _TEXT),
        ),
    ),
    {"name": "lastCompletedCommitTimestamp", "type": _TEXT, "default": ""},
    _field("policy", _TEXT),
    _nullable("filesToBeDeletedPerPartition", _map(_array(_TEXT))),
    _VERSION,
    {
        **_nullable(
            "filePathsToBeDeletedPerPartition",
            _map(
                _array(
                    _record(
                        "HoodieCleanFileInfo", _nullable("filePath", _TEXT), _nullable("isBootstrapBaseFile", "boolean")
                    )
                )
            ),
        ),
        "doc": "This field replaces the field filesToBeDeletedPerPartition",
    },
    {**_nullable("partitionsToBeDeleted", _array(_TEXT)), "doc": "partitions to be deleted"},
    _nullable("extraMetadata", {**_map(_TEXT), "default": None}),
)

_RUNTIME_STATS: Final = _record(
    "HoodieRuntimeStats",
    *(_nullable(name, "long") for name in ("totalScanTime", "totalCreateTime", "totalUpsertTime")),
)

_WRITE_STAT: Final = _record(
    "HoodieWriteStat",
    _nullable("fileId", _TEXT),
    _nullable("path", _TEXT),
    _nullable("prevCommit", _TEXT),
    _nullable("numWrites", "long"),
    _nullable("numDeletes", "long"),
    _nullable("numUpdateWrites", "long"),
    _nullable("totalWriteBytes", "long"),
    _nullable("totalWriteErrors", "long"),
    _nullable("partitionPath", _TEXT),
    _nullable("totalLogRecords", "long"),
    _nullable("totalLogFiles", "long"),
    _nullable("totalUpdatedRecordsCompacted", "long"),
    _nullable("numInserts", "long"),
    _nullable("totalLogBlocks", "long"),
    _nullable("totalCorruptLogBlock", "long"),
    _nullable("totalRollbackBlocks", "long"),
    _nullable("fileSizeInBytes", "long"),
    _nullable("logVersion", "int"),
    _nullable("logOffset", "long"),
    _nullable("baseFile", _TEXT),
    _nullable("logFiles", _array(_TEXT)),
    _nullable("cdcStats", _map("long")),
    _nullable("prevBaseFile", _TEXT),
    _nullable("minEventTime", "long"),
    _nullable("maxEventTime", "long"),
    _nullable("runtimeStats", _RUNTIME_STATS),
    _nullable("totalLogFilesCompacted", "long"),
    _nullable("totalLogReadTimeMs", "long"),
    _nullable("totalLogSizeCompacted", "long"),
    _nullable("tempPath", _TEXT),
    _nullable("numUpdates", "long"),
)

_COMMIT_FIELDS: Final = (
    _nullable("partitionToWriteStats", _map(_array(_WRITE_STAT))),
    _nullable("compacted", "boolean"),
    _nullable("extraMetadata", _map(_TEXT)),
    _VERSION,
    _nullable("operationType", _TEXT),
)

COMMIT_METADATA: Final = _record("HoodieCommitMetadata", *_COMMIT_FIELDS)
REPLACE_COMMIT_METADATA: Final = _record(
    "HoodieReplaceCommitMetadata", *_COMMIT_FIELDS, _nullable("partitionToReplaceFileIds", _map(_array(_TEXT)))
)


_DEEPEST: Final = 64
_MOST_VALUES: Final = 10_000
"""Values that may stand in no byte at all, one after the other; Hudi's largest record has some thirty fields."""

_CODECS: Final = frozenset({"null", "deflate"})
"""Others grow without bound; Hudi writes the first."""

_BYTES_OF: Final[Mapping[str, int]] = {
    "null": 0,
    **dict.fromkeys(("boolean", "int", "long", "bytes", "string", "enum"), 1),
    "float": 4,
    "double": 8,
}


def check_bounded(schema: Any, codec: str = "null") -> None:
    """Refuse a schema by which a reader's work is not bounded by the bytes it reads.

    Args:
        schema: an Avro schema as JSON values; of names, the first use defines them.
        codec: how the blocks are compressed.

    Raises:
        ValueError: it is one; the message says why.
    """
    if codec not in _CODECS:
        raise ValueError(f"codec {codec!r} is not read")
    _Bounds().of(schema, 0)


class _Bounds:
    """Least bytes of each named type, and how many values it has at most in no byte."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}
        self._open: set[str] = set()

    def of(self, schema: Any, depth: int) -> tuple[int, int]:
        """Least bytes, and most values without a byte, of a type."""
        if depth > _DEEPEST:
            raise ValueError(f"types are nested more than {_DEEPEST} deep")
        if isinstance(schema, list):
            for branch in schema:
                self.of(branch, depth + 1)
            return 1, 1
        if isinstance(schema, str):
            return self._named(schema)
        kind = schema["type"]
        return self._defined(kind, schema, depth) if isinstance(kind, str) else self.of(kind, depth + 1)

    def _defined(self, kind: str, schema: Mapping[str, Any], depth: int) -> tuple[int, int]:
        """As :meth:`of`, of an object that names its kind."""
        if kind in {"record", "error"}:
            return self._record(schema, depth)
        if kind in {"array", "map"}:
            least, _ = self.of(schema["items" if kind == "array" else "values"], depth + 1)
            if kind == "array" and not least:
                raise ValueError("items of an array take no bytes")
            return 1, 1
        if kind == "fixed":
            return self._keep(schema, (max(int(schema["size"]), 0), 1))
        if kind == "enum":
            return self._keep(schema, (1, 1))
        return self._named(kind)

    def _named(self, name: str) -> tuple[int, int]:
        if name in _BYTES_OF:
            return _BYTES_OF[name], 1
        short = name.rpartition(".")[2]
        if short in self._open:
            raise ValueError(f"type {name!r} holds itself")
        found = self._known.get(short)
        if found is None:
            raise ValueError(f"type {name!r} is not defined")
        return found

    def _record(self, schema: Mapping[str, Any], depth: int) -> tuple[int, int]:
        short = _short_name(schema)
        if short in self._open:
            raise ValueError(f"type {short!r} holds itself")
        self._open.add(short)
        least, values = 0, 1
        for field in schema["fields"]:
            more_bytes, more_values = self.of(field["type"], depth + 1)
            least, values = min(least + more_bytes, 1 << 62), values + more_values
            if values > _MOST_VALUES:
                raise ValueError(f"a record has more than {_MOST_VALUES:,} values")
        self._open.discard(short)
        return self._keep(schema, (least, values))

    def _keep(self, schema: Mapping[str, Any], found: tuple[int, int]) -> tuple[int, int]:
        """Keep a type by its name without the namespace; of two of one name the worse."""
        short = _short_name(schema)
        known = self._known.get(short, found)
        self._known[short] = (min(known[0], found[0]), max(known[1], found[1]))
        return found


def _short_name(schema: Mapping[str, Any]) -> str:
    return str(schema["name"]).rpartition(".")[2]
