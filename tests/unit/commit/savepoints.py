"""Savepoints as Hudi writes them: made here, because we make none."""

import io
from collections.abc import Mapping

import fastavro

_TEXT = {"type": "string", "avro.java.string": "String"}
_PARTITION = {
    "type": "record",
    "name": "HoodieSavepointPartitionMetadata",
    "fields": [
        {"name": "partitionPath", "type": _TEXT},
        {"name": "savepointDataFile", "type": {"type": "array", "items": _TEXT}},
    ],
}
SCHEMA = {
    "type": "record",
    "name": "HoodieSavepointMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "savepointedBy", "type": _TEXT},
        {"name": "savepointedAt", "type": "long"},
        {"name": "comments", "type": _TEXT},
        {"name": "partitionMetadata", "type": {"type": "map", "values": _PARTITION, "avro.java.string": "String"}},
        {"name": "version", "type": ["int", "null"], "default": 1},
    ],
}


def savepoint_bytes(files: Mapping[str, tuple[str, ...]]) -> bytes:
    """Content of ``<instant>.savepoint``."""
    out = io.BytesIO()
    partitions = {part: {"partitionPath": part, "savepointDataFile": list(names)} for part, names in files.items()}
    record = {
        "savepointedBy": "hudi",
        "savepointedAt": 1,
        "comments": "",
        "partitionMetadata": partitions,
        "version": 1,
    }
    fastavro.writer(out, SCHEMA, [record])
    return out.getvalue()
