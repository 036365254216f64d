"""Compacting the metadata table: the logs of every file group go into a new base file.

All partitions are compacted together, as Hudi does: what is older than the newest compaction is in base files, so that
the table's timeline may be archived up to there. Files: ``<t>.compaction.requested`` (an Avro plan that names every
slice), ``.compaction.inflight`` (empty), the base files, then the completed ``commit``. Hudi carries out by itself what
it finds planned, and so do we.

Source: ``HoodieBackedTableMetadataWriter.compactIfNecessary``, ``CompactionUtils`` of Hudi 0.15 and 1.2. The sizes in
the plan are needed: Hudi 1.2 cannot carry out one without them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, Final

from lakeindex.errors import ObjectNotFoundError, TableCorruptError
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import NO_PREVIOUS, CommitMetadata, WriteStat
from lakeindex.format.file_names import crc_path
from lakeindex.format.hfile import format_hfile, merge_hfile
from lakeindex.format.hfile.reading import Entry
from lakeindex.format.hfile.writing import MAX_KEY, MIN_KEY
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, FILES, METADATA_ROOT, RECORD_INDEX, MetadataTable
from lakeindex.metadata.reading import MetadataView
from lakeindex.metadata.records import encode_record, without_deleted
from lakeindex.metadata.slices import FileSlice, load_slices, pending_compaction
from lakeindex.model import Instant, InstantState
from lakeindex.storage import sync_folders
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import avro_record, format_avro
from lakeindex.timeline.timeline import Timeline

_BLOCK_BYTES: Final = 65_536

_NEWEST_COUNTS: Final = frozenset({BLOOM_FILTERS, RECORD_INDEX})
_OLD_SUFFIX: Final = "001"
_PLAN_VERSION: Final = 2
_TOKEN: Final = "0-0-0"  # noqa: S105 - a write token: task, stage and attempt
_MIB: Final = 1 << 20


def last_compaction(timeline: Timeline) -> str | None:
    """Instant of the newest completed compaction.

    Args:
        timeline: the metadata table's.
    """
    done = [one.time for one in timeline.completed_writes if one.action == names.COMMIT]
    return max(done, default=None)


def delta_commits_since(timeline: Timeline) -> int:
    """Completed delta commits since the newest compaction.

    Args:
        timeline: the metadata table's.
    """
    last = last_compaction(timeline) or ""
    done = (one for one in timeline.completed_writes if one.action == names.DELTA_COMMIT)
    return sum((one.completion_time or one.time) > last for one in done)


def compact(view: MetadataView) -> str | None:
    """Compact the metadata table, or finish what somebody began. Nothing is pending on the table's own timeline.

    In timeline layout 2 its instant is later than every delta commit was completed, those of new partitions too, and
    earlier than any will be; in layout 1 it is that of the newest delta commit, and a suffix.

    Args:
        view: the metadata table. Who compacts holds the table's lock.

    Returns:
        The compaction's instant; None if there is nothing to compact.

    Raises:
        TableCorruptError: the metadata table is damaged.
    """
    begun = pending_compaction(view.timeline)
    if begun is not None:
        _carry_out(view, begun)
        return begun
    deltas = [one for one in view.timeline.completed_writes if one.action == names.DELTA_COMMIT]
    if not deltas or not delta_commits_since(view.timeline):
        return None
    last = max(one.completion_time or one.time for one in deltas)
    time = view.table.layout.completion_time(last, 0) or last + _OLD_SUFFIX
    slices = [one for partition in view.table.partitions for one in view.slices(partition)]
    path = view.timeline.path(Instant(time, names.COMPACTION, InstantState.REQUESTED))
    records.settle_bytes(view.table.storage, path, _format_plan(slices))
    view.table.storage.sync([path])
    _carry_out(MetadataView.load(view.table, view.data), time)
    return time


def clean(view: MetadataView) -> tuple[str, ...]:
    """Delete what no reader needs any more; paths of what went.

    Args:
        view: the metadata table. Who cleans holds the table's lock.
    """
    expired = [
        path
        for partition in view.table.partitions
        for path in load_slices(view.table, view.timeline, partition).expired
    ]
    records.remove(view.table.storage, [one for path in expired for one in (path, crc_path(path))])
    sync_folders(view.table.storage, {path.rpartition("/")[0] for path in expired})
    return tuple(expired)


def _carry_out(view: MetadataView, time: str) -> None:
    table, storage = view.table, view.table.storage
    inflight = view.timeline.path(Instant(time, names.COMPACTION, InstantState.INFLIGHT))
    records.settle(storage, inflight, b"")
    schema, planned = view.schema(view.slices(FILES)), _plan(view, time)
    stats: dict[str, list[WriteStat]] = defaultdict(list)
    for partition in table.partitions:
        for one in view.slices(partition):
            instant, logs = planned.get((partition, one.file_id), ("", frozenset()))
            part = replace(one, instant=instant, logs=tuple(log for log in one.logs if log.name in logs))
            stat = _compact_slice(view, part, time, schema) if logs else None
            if stat is not None:
                stats[partition].append(stat)
    paths = [f"{METADATA_ROOT}/{stat.path}" for written in stats.values() for stat in written]
    storage.sync([inflight, *paths])
    done = {partition: tuple(written) for partition, written in stats.items()}
    metadata = CommitMetadata(done, "COMPACT", {"schema": schema}, compacted=True)
    completion = _completion_time(view, time)
    path = view.timeline.path(Instant(time, names.COMMIT, InstantState.COMPLETED, completion))
    records.settle_bytes(storage, path, table.layout.encode_commit(metadata))
    storage.sync([path])


def _compact_slice(view: MetadataView, one: FileSlice, time: str, schema: str) -> WriteStat | None:
    """Write a slice's base file; None if no record was ever left, and the logs stay.

    A base file of which nothing is left is followed by an empty one: Hudi 0.15 forgets logs that are archived.
    """
    data, count = (_replaced if one.partition in _NEWEST_COUNTS else _merged)(view, one, schema)
    if not count and one.base is None:
        return None
    name = f"{one.file_id}_{_TOKEN}_{time}.hfile"
    path = f"{view.table.folder(one.partition)}/{name}"
    records.remove(view.table.storage, [crc_path(path)])
    records.put(view.table.storage, path, data)
    return WriteStat(
        file_id=one.file_id,
        path=f"{one.partition}/{name}",
        partition_path=one.partition,
        prev_commit=one.instant if one.base is not None else NO_PREVIOUS,
        prev_base_file=one.base_name or None,
        num_writes=count,
        num_inserts=count,
        total_write_bytes=len(data),
        file_size_bytes=len(data),
        extra={"totalLogFilesCompacted": len(one.logs)},
    )


def format_base(entries: Sequence[Entry], schema: str) -> bytes:
    """A base file of the metadata table.

    Args:
        entries: keys and encoded records, in the order of the keys' bytes.
        schema: the Avro schema of the records, JSON.
    """
    info = {MIN_KEY: entries[0][0], MAX_KEY: entries[-1][0]} if entries else None
    return format_hfile(entries, schema, info=info, block_bytes=_BLOCK_BYTES)


def _merged(view: MetadataView, one: FileSlice, schema: str) -> tuple[bytes, int]:
    """A base file of a slice, and how many records are in it."""
    found = view.records(one)
    entries = sorted((key.encode(), encode_record(without_deleted(it), schema)) for key, it in found.items())
    return format_base(entries, schema), len(entries)


def _replaced(view: MetadataView, one: FileSlice, schema: str) -> tuple[bytes, int]:
    """The same where the newest record of a key is all that counts: most of the base file stays as it is."""
    base = view.base(one, whole=True) if one.base is not None else None
    is_kept = base is not None and base.schema == schema
    changes: dict[bytes, bytes | None] = {}
    encoded: dict[tuple[bytes, str], bytes] = {}
    for change in view.changes(replace(one, base=None) if is_kept else one):
        value = change.value
        if value is not None and change.schema != schema:
            known = encoded.get((value, change.schema))
            value = known or encode_record(change.record() or {}, schema)
            encoded[change.value or b"", change.schema] = value
        changes[change.key] = value
    newest = sorted(changes.items())
    if base is not None and is_kept:
        done = merge_hfile(base, newest, schema, block_bytes=_BLOCK_BYTES)
        return done.data, done.entry_count
    entries = [(key, value) for key, value in newest if value is not None]
    return format_base(entries, schema), len(entries)


def _completion_time(view: MetadataView, time: str) -> str | None:
    """The first that is free behind the instant itself: whoever finishes the compaction takes the same."""
    return view.table.layout.completion_time(time, 0)


def _format_plan(slices: list[FileSlice]) -> bytes:
    operations = [
        {
            "baseInstantTime": one.instant,
            "deltaFilePaths": [log.name for log in one.logs],
            "dataFilePath": one.base_name or None,
            "fileId": one.file_id,
            "partitionPath": one.partition,
            "metrics": _metrics(one),
            "bootstrapFilePath": None,
        }
        for one in slices
    ]
    record = {
        "operations": operations,
        "extraMetadata": {},
        "version": _PLAN_VERSION,
        "strategy": None,
        "preserveHoodieMetadata": False,
        "missingSchedulePartitions": [],
    }
    return format_avro(_plan_schema(), record)


def _metrics(one: FileSlice) -> dict[str, float]:
    logs = sum(log.size_bytes for log in one.logs)
    base = 0 if one.base is None else one.base.size_bytes
    reads, writes = (logs + base) // _MIB, base // _MIB
    return {
        "TOTAL_LOG_FILES": float(len(one.logs)),
        "TOTAL_LOG_FILES_SIZE": float(logs),
        "TOTAL_IO_READ_MB": float(reads),
        "TOTAL_IO_WRITE_MB": float(writes),
        "TOTAL_IO_MB": float(reads + writes),
    }


def _plan(view: MetadataView, time: str) -> dict[tuple[str, str], tuple[str, frozenset[str]]]:
    """(partition, file id) -> instant of the slice that a planned compaction takes, and names of its logs.

    Raises:
        TableCorruptError: there is no such plan.
    """
    path = view.timeline.path(Instant(time, names.COMPACTION, InstantState.REQUESTED))
    try:
        operations = avro_record(view.table.storage.read(path), path)["operations"] or []
        return {
            (one["partitionPath"], one["fileId"]): (one["baseInstantTime"], _log_names(one["deltaFilePaths"]))
            for one in operations
        }
    except (ObjectNotFoundError, KeyError, TypeError) as error:
        raise TableCorruptError(
            f"{path} is no plan of a compaction: {type(error).__name__}: {error}",
            culprit=path,
            hint="build it anew: `lakeindex metadata drop`, then `lakeindex metadata build`",
        ) from None


def _log_names(paths: list[str]) -> frozenset[str]:
    return frozenset(path.rpartition("/")[2] for path in paths)


@cache
def _plan_schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files("lakeindex.metadata").joinpath("schemas/compaction_plan.avsc").read_text())
    return found


def unfinished(table: MetadataTable, timeline: Timeline) -> Iterator[str]:
    """What of the metadata table's own timeline keeps us from writing, in words.

    Args:
        table: the metadata table.
        timeline: its timeline.
    """
    for one in timeline.pending:
        if one.action in (names.LOG_COMPACTION, names.INDEXING, names.RESTORE):
            yield f"{one.action} {one.time} of {table.folder('')} is unfinished"
