"""Compacting the metadata table: the logs of every file group go into a new base file.

All partitions are compacted together, as Hudi does: what is older than the newest compaction is in base files, so that
the table's timeline may be archived up to there. Files: ``<t>.compaction.requested`` (an Avro plan that names every
slice), ``.compaction.inflight`` (empty), the base files, then the completed ``commit``. Hudi carries out by itself what
it finds planned, and so do we.

Source: ``HoodieBackedTableMetadataWriter.compactIfNecessary``, ``CompactionUtils`` of Hudi 0.15 and 1.2. The sizes in
the plan are needed: Hudi 1.2 cannot carry out one without them.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from lakeindex.errors import METADATA_ANEW, ObjectNotFoundError, TableCorruptError
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import NO_PREVIOUS, CommitMetadata, WriteStat
from lakeindex.format.file_names import crc_path
from lakeindex.format.hfile import HFile, format_hfile, merge_hfile
from lakeindex.format.hfile.blocks import LoneBlock
from lakeindex.format.hfile.reading import Entry, Part
from lakeindex.format.hfile.writing import MAX_KEY, MIN_KEY
from lakeindex.metadata.metadata_changes import PartitionChange, by_group
from lakeindex.metadata.metadata_records import Record, decode_record, encode_record, merged, without_deleted
from lakeindex.metadata.metadata_table import (
    BLOCK_BYTES,
    BLOOM_FILTERS,
    FILES,
    METADATA_ROOT,
    RECORD_INDEX,
    MetadataTable,
)
from lakeindex.metadata.metadata_view import Layer, MetadataView
from lakeindex.metadata.slices import FileSlice, load_slices, pending_compaction
from lakeindex.model import Instant, InstantState
from lakeindex.storage import in_parallel, sync_folders
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import avro_record, format_avro
from lakeindex.timeline.timeline import Timeline

_NEWEST_COUNTS: Final = frozenset({BLOOM_FILTERS, RECORD_INDEX})
_OLD_SUFFIXES: Final = (1, *range(10, 1000))
_PLAN_VERSION: Final = 2
_TOKEN: Final = "0-0-0"  # noqa: S105 - a write token: task, stage and attempt
_MIB: Final = 1 << 20
_Value = TypeVar("_Value")
_LITTLE_BYTES: Final = 1 * _MIB
"""Up to this size a slice is compacted sooner than a thread is started for it."""
_MOST_BYTES: Final = 64 * _MIB
"""A larger slice is compacted by itself; a file group of Hudi's may have a gigabyte."""
_AT_ONCE: Final = 4


def last_compaction(timeline: Timeline) -> str | None:
    done = [one.time for one in timeline.completed_writes if one.action == names.COMMIT]
    return max(done, default=None)


def delta_commits_since(timeline: Timeline) -> int:
    """Completed delta commits since the newest compaction."""
    last = last_compaction(timeline) or ""
    done = (one for one in timeline.completed_writes if one.action == names.DELTA_COMMIT)
    return sum((one.completion_time or one.time) > last for one in done)


def compact(view: MetadataView, anew: PartitionChange | None = None) -> str | None:
    """Compact the metadata table, or finish what somebody began. Nothing is pending on the table's own timeline.

    In timeline layout 2 its instant is later than every delta commit was completed, those of new partitions too, and
    earlier than any will be; in layout 1 it is that of the newest delta commit, and a suffix. The table's lock is held.

    Args:
        anew: what the base files of its record index get, whatever there was. Who finishes such a compaction that was
            cut short, compacts what there was.

    Returns:
        The compaction's instant; None if there is nothing to compact.
    """
    begun = pending_compaction(view.timeline)
    if begun is not None:
        _carry_out(view, begun)
        return begun
    deltas = [one for one in view.timeline.completed_writes if one.action == names.DELTA_COMMIT]
    if not deltas or not (anew is not None or delta_commits_since(view.timeline)):
        return None
    last = max(one.completion_time or one.time for one in deltas)
    newest = last if anew is None else max(last, view.timeline.max_time or "")
    time = view.table.layout.completion_time(newest, 0) or _old_instant(view, last)
    slices = [one for partition in view.table.partitions for one in view.slices(partition)]
    path = view.timeline.path(Instant(time, names.COMPACTION, InstantState.REQUESTED))
    records.settle_bytes(view.table.storage, path, _format_plan(slices))
    view.table.storage.sync([path])
    _carry_out(MetadataView.load(view.table, view.data), time, anew)
    return time


def _old_instant(view: MetadataView, last: str) -> str:
    """Instant of a compaction in layout 1: with Hudi's suffix, unless nothing was written since one has it."""
    taken = {one.time for one in view.timeline.files}
    return next(time for time in (f"{last}{number:03d}" for number in _OLD_SUFFIXES) if time not in taken)


def clean(view: MetadataView) -> tuple[str, ...]:
    """Delete what no reader needs any more, under the table's lock; paths of what went."""
    expired = [
        path
        for partition in view.table.partitions
        for path in load_slices(view.table, view.timeline, partition).expired
    ]
    records.remove(view.table.storage, [one for path in expired for one in (path, crc_path(path))])
    sync_folders(view.table.storage, {path.rpartition("/")[0] for path in expired})
    return tuple(expired)


def _carry_out(view: MetadataView, time: str, anew: PartitionChange | None = None) -> None:
    table, storage = view.table, view.table.storage
    inflight = view.timeline.path(Instant(time, names.COMPACTION, InstantState.INFLIGHT))
    records.settle(storage, inflight, b"")
    schema, planned = view.schema(view.slices(FILES)), _plan(view, time)
    todo = []
    for partition in table.partitions:
        for one in view.slices(partition):
            instant, logs = planned.get((partition, one.file_id), ("", frozenset()))
            if logs and (anew is None or partition != RECORD_INDEX):
                todo.append(replace(one, instant=instant, logs=tuple(log for log in one.logs if log.name in logs)))
    written = _compact_slices(view, todo, time, schema)
    if anew is not None:
        written += _made_anew(view, anew, time, schema)
    storage.sync([inflight, *(f"{METADATA_ROOT}/{stat.path}" for stat in written)])
    done = {name: tuple(stat for stat in written if stat.partition_path == name) for name in table.partitions}
    done = {name: stats for name, stats in done.items() if stats}
    metadata = CommitMetadata(done, "COMPACT", {"schema": schema}, compacted=True)
    completion = _completion_time(view, time)
    path = view.timeline.path(Instant(time, names.COMMIT, InstantState.COMPLETED, completion))
    records.settle_bytes(storage, path, table.layout.encode_commit(metadata))
    storage.sync([path])


def _compact_slices(view: MetadataView, slices: Sequence[FileSlice], time: str, schema: str) -> list[WriteStat]:
    """Write the slices' base files, several at once where libraries have most of the work."""

    def compact_one(one: FileSlice) -> WriteStat | None:
        return _compact_slice(view, one, time, schema)

    together, apart = list[FileSlice](), list[FileSlice]()
    for one in slices:
        (together if _LITTLE_BYTES < _size_of(one) <= _MOST_BYTES else apart).append(one)
    found = [*in_parallel(view.table.storage.uri, compact_one, together, _AT_ONCE), *map(compact_one, apart)]
    return sorted((stat for stat in found if stat is not None), key=lambda stat: stat.file_id)


def _size_of(one: FileSlice) -> int:
    return sum(log.size_bytes for log in one.logs) + (0 if one.base is None else one.base.size_bytes)


def _compact_slice(view: MetadataView, one: FileSlice, time: str, schema: str) -> WriteStat | None:
    """Write a slice's base file; None if no record was ever left, and the logs stay.

    A base file of which nothing is left is followed by an empty one: Hudi 0.15 forgets logs that are archived.
    """
    data, count = (_merged if one.partition == FILES else _changed)(view, one, schema)
    if not count and one.base is None:
        return None
    return _put_base(view, one, time, data, count)


def _made_anew(view: MetadataView, change: PartitionChange, time: str, schema: str) -> list[WriteStat]:
    """Write base files of the record index with what is put, and nothing else."""
    groups = view.slices(RECORD_INDEX)
    parts = {part.group: part.entries(schema) for part in by_group(groups, change, time)}
    entries = {**dict.fromkeys(groups, ()), **parts}
    return [
        _put_base(view, group, time, format_base(entries[group], schema), len(entries[group]))
        for group in sorted(entries, key=lambda one: one.file_id)
    ]


def _put_base(view: MetadataView, one: FileSlice, time: str, data: bytes, count: int) -> WriteStat:
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


def format_base(entries: Sequence[Part], schema: str) -> bytes:
    """A base file of the metadata table.

    Args:
        entries: keys and encoded records, in the order of the keys' bytes.
    """
    info = {MIN_KEY: entries[0][0], MAX_KEY: entries[-1][0]} if entries else None
    return format_hfile(entries, schema, info=info, block_bytes=BLOCK_BYTES)


def _merged(view: MetadataView, one: FileSlice, schema: str) -> tuple[bytes, int]:
    """A base file of a slice, and how many records are in it."""
    found = view.records(one)
    entries = sorted((key.encode(), encode_record(without_deleted(it), schema)) for key, it in found.items())
    return format_base(entries, schema), len(entries)


def _changed(view: MetadataView, one: FileSlice, schema: str) -> tuple[bytes, int]:
    """The same where what the logs say nothing of stays as it is: most of the base file is copied."""
    base = view.base(one, whole=True) if one.base is not None else None
    kept = base if base is not None and base.schema == schema else None
    layers = view.layers(replace(one, base=None))
    if base is not None and kept is None:
        layers = itertools.chain([Layer(base.source, base, base.schema or "")], layers)
    changes: dict[bytes, bytes | LoneBlock | None]
    if one.partition in _NEWEST_COUNTS:
        parts = (_said(layer, schema, lambda file: file.parts(BLOCK_BYTES)) for layer in layers)
        changes = dict(itertools.chain.from_iterable(parts))
    else:
        said: dict[bytes, list[bytes | None]] = defaultdict(list)
        for layer in layers:
            for key, value in _said(layer, schema, HFile.entries):
                said[key].append(value)
        for key, value in () if kept is None else kept.lookup(sorted(said)):
            said[key].insert(0, value)
        source = f"{view.table.folder(one.partition)}/{one.file_id}"
        changes = {key: _folded(values, schema, source) for key, values in said.items()}
    newest = sorted(changes.items())
    if kept is not None:
        done = merge_hfile(kept, newest, schema, block_bytes=BLOCK_BYTES)
        return done.data, done.entry_count
    entries = [(key, value) for key, value in newest if value is not None]
    return format_base(entries, schema), len(entries)


def _said(
    layer: Layer, schema: str, read: Callable[[HFile], Iterable[tuple[bytes, _Value]]]
) -> Iterable[tuple[bytes, _Value | bytes | None]]:
    """What a layer says of each key, encoded with a schema; None of one that goes."""
    if layer.file is None:
        return [(key.encode(), None) for key in layer.gone]
    return read(layer.file) if layer.schema == schema else _encoded_anew(layer.file, layer, schema)


def _encoded_anew(file: HFile, layer: Layer, schema: str) -> Iterator[Entry]:
    """Entries of another schema; a thousand keys have one record."""
    known: dict[bytes, bytes] = {}
    for key, value in file.entries():
        if value not in known:
            known[value] = encode_record(decode_record(value, layer.schema, layer.source), schema)
        yield key, known[value]


def _folded(values: Sequence[bytes | None], schema: str, source: str) -> bytes | None:
    """What records of one key say together, older ones first; None if it goes. One alone is not decoded."""
    if len(values) == 1 or values[-1] is None:
        return values[-1]
    found: Record | None = None
    for value in values:
        found = merged(found, None if value is None else decode_record(value, schema, source))
    return None if found is None else encode_record(found, schema)


def _completion_time(view: MetadataView, time: str) -> str | None:
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
    logs, total = sum(log.size_bytes for log in one.logs), _size_of(one)
    reads, writes = total // _MIB, (total - logs) // _MIB
    return {
        "TOTAL_LOG_FILES": float(len(one.logs)),
        "TOTAL_LOG_FILES_SIZE": float(logs),
        "TOTAL_IO_READ_MB": float(reads),
        "TOTAL_IO_WRITE_MB": float(writes),
        "TOTAL_IO_MB": float(reads + writes),
    }


def _plan(view: MetadataView, time: str) -> dict[tuple[str, str], tuple[str, frozenset[str]]]:
    """(partition, file id) -> instant of the slice that a planned compaction takes, and names of its logs."""
    path = view.timeline.path(Instant(time, names.COMPACTION, InstantState.REQUESTED))
    try:
        operations = records.read_filled(view.table.storage, path, avro_record)["operations"] or []
        return {
            (one["partitionPath"], one["fileId"]): (one["baseInstantTime"], _log_names(one["deltaFilePaths"]))
            for one in operations
        }
    except (ObjectNotFoundError, KeyError, TypeError) as error:
        raise TableCorruptError(
            f"{path} is no plan of a compaction: {type(error).__name__}: {error}",
            culprit=path,
            hint=METADATA_ANEW,
        ) from None


def _log_names(paths: list[str]) -> frozenset[str]:
    return frozenset(path.rpartition("/")[2] for path in paths)


@cache
def _plan_schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(files("lakeindex.metadata").joinpath("schemas/compaction_plan.avsc").read_text())
    return found


def unfinished(table: MetadataTable, timeline: Timeline) -> Iterator[str]:
    """What of the metadata table's own timeline keeps us from writing, in words."""
    for one in timeline.pending:
        if one.action in (names.LOG_COMPACTION, names.INDEXING, names.RESTORE):
            yield f"{one.action} {one.time} of {table.folder('')} is unfinished"
