"""Commit metadata: the JSON of ``<instant>.commit``, ``.replacecommit`` and ``.inflight`` of timeline layout 1.

``{"partitionToWriteStats": {partition: [stat, ...]}, "compacted": false, "extraMetadata": {"schema": "<avro>"},
"operationType": "UPSERT"}``, a replacecommit also ``"partitionToReplaceFileIds": {partition: [file id, ...]}``.
Fields of Hudi 0.15 and 1.2 are typed here; any others survive parse and format in ``extra``. Layout 2 holds the same
shape in Avro (:mod:`lakeindex.timeline.avro_instants`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import field

from lakeindex.errors import TableCorruptError
from lakeindex.format.instants import COMMIT, parse_instant
from lakeindex.frozen import Frozen

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

NO_PREVIOUS: Final = "null"
"""``prevCommit`` of a new file group: the text, not JSON's null."""

SCHEMA_KEY: Final = "schema"
"""Key of ``extraMetadata`` that holds the table's Avro schema, without the meta columns."""

INTERNAL_SCHEMA_KEY: Final = "latest_schema"
"""Key of ``extraMetadata`` that holds the schema with column ids of a table that was
altered with ``hoodie.schema.on.read.enable``.
"""

FOOTERS_KEY: Final = "lakeindex.footers"
KEPT_KEY: Final = "lakeindex.kept"
"""Key of ``extraMetadata`` that holds the digest of each new file's footer, as a JSON object: path -> 8 hex digits."""


class WriteStat(Frozen):
    """What one commit wrote into one file group; counts are rows, sizes bytes, times milliseconds.

    Attributes:
        file_id: id of the file group; empty in an inflight plan's line for inserts.
        path: relative path of the new file; ``None`` in an inflight plan.
        prev_commit: instant of the slice it replaces, or ``"null"``.
        prev_base_file: name of the file it replaces (Hudi 1.x).
        extra: every other field, as it came.
    """

    file_id: str
    path: str | None
    partition_path: str | None
    prev_commit: str | None = NO_PREVIOUS
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    num_inserts: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    file_size_bytes: int = 0
    min_event_time: int | None = None
    max_event_time: int | None = None
    prev_base_file: str | None = None
    extra: Mapping[str, Json] = field(default_factory=dict)


class CommitMetadata(Frozen):
    """Content of a completed or inflight write instant.

    Attributes:
        write_stats: partition path -> stats of the files written there.
        operation: Hudi's ``operationType`` (``UPSERT``, ``DELETE``, ``CLUSTER``, ...); ``None`` if it is missing.
        extra_metadata: texts that travel with the commit; ``schema`` is the table's.
        replaced_file_ids: partition path -> file groups that are no longer part of the table.
        extra: every other top-level field, as it came.
    """

    write_stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    operation: str | None = None
    extra_metadata: Mapping[str, str | None] = field(default_factory=dict)
    compacted: bool = False
    replaced_file_ids: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def schema_text(self) -> str | None:
        """The table's Avro schema, if the commit carries one."""
        return self.extra_metadata.get(SCHEMA_KEY) or None

    @property
    def footer_digests(self) -> Mapping[str, str]:
        """Digest of each file's footer, by path; empty if the commit carries none, or none that can be read."""
        try:
            found: Json = json.loads(self.extra_metadata.get(FOOTERS_KEY) or "{}")
        except (ValueError, RecursionError):
            return {}
        return {path: str(text) for path, text in found.items()} if isinstance(found, dict) else {}

    @property
    def kept(self) -> frozenset[tuple[str, str]]:
        """File groups, as (partition path, file id), with keys of which the commit took copies out of others."""
        try:
            found = json.loads(self.extra_metadata.get(KEPT_KEY) or "[]")
            return frozenset((str(partition), str(file_id)) for partition, file_id in found)
        except (ValueError, TypeError, RecursionError):
            return frozenset()

    def stats(self) -> Iterator[WriteStat]:
        for stats in self.write_stats.values():
            yield from stats

    def replaced(self) -> frozenset[tuple[str, str]]:
        """Replaced file groups as (partition path, file id)."""
        return frozenset((part, file_id) for part, ids in self.replaced_file_ids.items() for file_id in ids)


class PlannedUpdate(Frozen, order=True):
    """A file group that a running write will rewrite: for the inflight plan."""

    file_id: str
    prev_commit: str
    num_updates: int


_STAT_NAMES: Final[dict[str, str]] = {
    "file_id": "fileId",
    "path": "path",
    "partition_path": "partitionPath",
    "prev_commit": "prevCommit",
    "num_writes": "numWrites",
    "num_deletes": "numDeletes",
    "num_update_writes": "numUpdateWrites",
    "num_inserts": "numInserts",
    "total_write_bytes": "totalWriteBytes",
    "total_write_errors": "totalWriteErrors",
    "file_size_bytes": "fileSizeInBytes",
    "min_event_time": "minEventTime",
    "max_event_time": "maxEventTime",
    "prev_base_file": "prevBaseFile",
}
_NUMBERS: Final = frozenset(name for name, kind in WriteStat.__annotations__.items() if kind == "int")
_NULLABLE_NUMBERS: Final = frozenset({"min_event_time", "max_event_time"})

# Fields that both releases write and we have no use for; a full set keeps Hudi's incremental reads and its archiver
# content.
_CONSTANT_STAT_FIELDS: Final[dict[str, Json]] = {
    "cdcStats": None,
    "tempPath": None,
    "totalLogRecords": 0,
    "totalLogFilesCompacted": 0,
    "totalLogSizeCompacted": 0,
    "totalUpdatedRecordsCompacted": 0,
    "totalLogBlocks": 0,
    "totalCorruptLogBlock": 0,
    "totalRollbackBlocks": 0,
    "runtimeStats": None,
}


def parse_commit_metadata(data: bytes, source: str) -> CommitMetadata:
    """Read commit metadata. Raises: TableCorruptError."""
    if not data.strip():
        raise TableCorruptError(
            f"{source} is empty",
            culprit=source,
            hint=cure_of_damage(source),
        )
    try:
        loaded: Json = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _corrupt(source, f"no JSON ({error})") from None
    return metadata_from_json(loaded, source)


def metadata_from_json(loaded: Json, source: str) -> CommitMetadata:
    """As :func:`parse_commit_metadata`, from decoded JSON (or the same shape out of Avro)."""
    top = _Fields(loaded, source, "commit metadata")
    write_stats = {
        partition: tuple(_parse_stat(stat, source) for stat in _as_list(stats, source, "partitionToWriteStats"))
        for partition, stats in top.mapping("partitionToWriteStats").items()
    }
    replaced = {
        partition: tuple(_as_text(one, source, "partitionToReplaceFileIds") for one in _as_list(ids, source, "ids"))
        for partition, ids in top.mapping("partitionToReplaceFileIds").items()
    }
    extra_metadata = {key: _optional_text(text, source, key) for key, text in top.mapping("extraMetadata").items()}
    compacted = top.take("compacted")
    return CommitMetadata(
        write_stats=write_stats,
        operation=_optional_text(top.take("operationType"), source, "operationType"),
        extra_metadata=extra_metadata,
        compacted=compacted is True,
        replaced_file_ids=replaced,
        extra=top.rest(),
    )


def format_commit_metadata(metadata: CommitMetadata) -> bytes:
    """JSON text of commit metadata, with a full set of stat fields; equal values give equal bytes."""
    return _indented(metadata_to_json(metadata), "\n").encode("utf-8", "surrogatepass")


def _indented(value: Json, line: str) -> str:
    """As ``json.dumps(value, indent=2, ensure_ascii=False)``, whose indenting is not compiled: objects and lists of
    plain values, which are nearly all there is, are written by the compiled encoder.

    Args:
        line: the line break and indentation that it stands behind.
    """
    if not isinstance(value, dict | list) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = f"{line}  "
    if not any(isinstance(one, dict | list) for one in (value.values() if isinstance(value, dict) else value)):
        text = json.dumps(value, ensure_ascii=False, separators=(f",{inner}", ": "))
        return f"{text[0]}{inner}{text[1:-1]}{line}{text[-1]}"
    if isinstance(value, list):
        return f"[{inner}{f',{inner}'.join(_indented(one, inner) for one in value)}{line}]"
    lines = [f"{json.dumps(key, ensure_ascii=False)}: {_indented(one, inner)}" for key, one in value.items()]
    return f"{{{inner}{f',{inner}'.join(lines)}{line}}}"


def metadata_to_json(metadata: CommitMetadata) -> dict[str, Json]:
    out: dict[str, Json] = {
        "partitionToWriteStats": {
            partition: [stat_to_json(stat) for stat in stats] for partition, stats in metadata.write_stats.items()
        },
        "compacted": metadata.compacted,
        "extraMetadata": dict(metadata.extra_metadata),
        "operationType": metadata.operation,
    }
    if metadata.replaced_file_ids:
        out["partitionToReplaceFileIds"] = {part: list(ids) for part, ids in metadata.replaced_file_ids.items()}
    out.update(metadata.extra)
    return out


def inflight_plan(
    operation: str, inserts: Mapping[str, int], updates: Mapping[str, Iterable[PlannedUpdate]]
) -> CommitMetadata:
    """The plan that ``<instant>.inflight`` holds: a line for the inserts of each partition, then its file groups.

    Args:
        inserts: partition path -> rows to insert.
        updates: partition path -> file groups to rewrite.
    """
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for partition in sorted({*inserts, *updates}):
        first = WriteStat("", None, None, num_inserts=inserts.get(partition, 0))
        rest = tuple(
            WriteStat(group.file_id, None, None, group.prev_commit, num_update_writes=group.num_updates)
            for group in sorted(updates.get(partition, ()))
        )
        stats[partition] = (first, *rest)
    return CommitMetadata(stats, operation)


def footer_entry(digests: Mapping[str, str]) -> dict[str, str]:
    """What ``extraMetadata`` says of the footers: path -> digest; nothing if there are none."""
    if not digests:
        return {}
    return {FOOTERS_KEY: json.dumps(dict(sorted(digests.items())), separators=(",", ":"))}


def kept_entry(groups: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What ``extraMetadata`` says of :attr:`CommitMetadata.kept`; nothing if there are none."""
    listed = sorted(groups)
    return {KEPT_KEY: json.dumps(listed, separators=(",", ":"))} if listed else {}


class _Fields:
    """The fields of one JSON object, taken one by one; what is left over is kept."""

    def __init__(self, value: Json, source: str, what: str) -> None:
        if not isinstance(value, dict):
            raise _corrupt(source, f"{what} must be an object")
        self._left: dict[str, Json] = dict(value)
        self._source = source

    def take(self, name: str) -> Json:
        return self._left.pop(name, None)

    def mapping(self, name: str) -> dict[str, Json]:
        value = self.take(name)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise _corrupt(self._source, f"{name} must be an object")
        return value

    def rest(self) -> dict[str, Json]:
        return self._left


def _parse_stat(value: Json, source: str) -> WriteStat:
    left = _Fields(value, source, "a write stat")
    taken: dict[str, Json] = {name: left.take(json_name) for name, json_name in _STAT_NAMES.items()}
    numbers = {name: _number(taken.pop(name), source, name) or 0 for name in _NUMBERS}
    event_times = {name: _number(taken.pop(name), source, name) for name in _NULLABLE_NUMBERS}
    texts = {name: _optional_text(text, source, name) for name, text in taken.items()}
    path = texts.pop("path")
    if path is not None and (path.startswith("/") or ".." in path.split("/")):
        raise _corrupt(source, f"the path {path!r} leaves the table's folder")
    rest = {name: one for name, one in left.rest().items() if _CONSTANT_STAT_FIELDS.get(name, ...) != one}
    return WriteStat(
        file_id=texts.pop("file_id") or "",
        path=path,
        partition_path=texts.pop("partition_path"),
        prev_commit=texts.pop("prev_commit"),
        prev_base_file=texts.pop("prev_base_file"),
        min_event_time=event_times["min_event_time"],
        max_event_time=event_times["max_event_time"],
        extra=rest,
        **numbers,
    )


def stat_to_json(stat: WriteStat) -> dict[str, Json]:
    """One stat, with a full set of fields."""
    out: dict[str, Json] = {json_name: getattr(stat, name) for name, json_name in _STAT_NAMES.items()}
    if stat.prev_base_file is None:
        del out["prevBaseFile"]  # unknown to 0.15, which does not write it
    return {**out, **_CONSTANT_STAT_FIELDS, **stat.extra}


def _number(value: Json, source: str, name: str) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _corrupt(source, f"{name} must be a whole number, not {value!r}")


def _optional_text(value: Json, source: str, name: str) -> str | None:
    return None if value is None else _as_text(value, source, name)


def _as_text(value: Json, source: str, name: str) -> str:
    if not isinstance(value, str):
        raise _corrupt(source, f"{name} must be a text, not {value!r}")
    return value


def _as_list(value: Json, source: str, name: str) -> list[Json]:
    if not isinstance(value, list):
        raise _corrupt(source, f"{name} must hold lists")
    return value


def _corrupt(source: str, why: str) -> TableCorruptError:
    return TableCorruptError(
        f"{source} is damaged: {why}",
        culprit=source,
        hint=cure_of_damage(source),
    )


def cure_of_damage(path: str) -> str:
    """What to do about a file of the timeline that cannot be read."""
    said = "if a writer is at work, run again; else restore the file from a copy"
    found = parse_instant(path.rpartition("/")[2])
    if found is None or not found.is_completed or found.action != COMMIT:
        return said
    return f"{said}, or roll the commit back: `lakeindex rollback TABLE {found.time}`"
