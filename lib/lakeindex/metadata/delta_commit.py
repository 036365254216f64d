"""Delta commits of the metadata table: one for each action of the table that adds or removes files.

The order, towards readers of both kinds: the delta commit is completed before the action is, and undone before what
the action wrote disappears. Whoever finishes an action of a writer that died writes the delta commit anew; equal
changes give equal bytes, and a record that is there twice says what it says once.

Files: ``<t>.deltacommit.requested``, ``.inflight`` (empty), a log in each file group that changes (from version 10 on
one of what is put and one of what goes), then the completed file, with the time of the action.

Source: ``HoodieBackedTableMetadataWriter``, ``HoodieLogFormatWriter`` of Hudi 0.15 and 1.2,
``HoodieNativeLogFormatWriter`` of its main branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lakeindex.errors import ObjectNotFoundError, TableCorruptError
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata, Json, WriteStat
from lakeindex.format.file_names import crc_path
from lakeindex.format.hfile import format_hfile
from lakeindex.format.hfile.writing import BLOCK_BYTES as LOG_BLOCK_BYTES
from lakeindex.format.instants import instant_time_to_ms
from lakeindex.format.log_blocks import BlockKind, HeaderKey, LogBlock, format_block, read_blocks
from lakeindex.frozen import Frozen
from lakeindex.metadata.metadata_changes import GroupChange, MetadataChange, by_group
from lakeindex.metadata.metadata_records import format_deletes, format_native_deletes, format_native_puts
from lakeindex.metadata.metadata_table import BLOCK_BYTES, BLOOM_FILTERS, FILES, METADATA_ROOT
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata.slices import FileSlice, LogFile, LogForm, load_slices, log_name, parse_log
from lakeindex.model import Instant, InstantState
from lakeindex.storage import in_parallel, sync_folders
from lakeindex.storage.port import Storage
from lakeindex.timeline import records

OPERATION: Final = "UPSERT_PREPPED"

_TOKEN: Final = "0-0-0"  # noqa: S105 - a write token: task, stage and attempt
_RUNTIME: Final[dict[str, Json]] = {"totalScanTime": 0, "totalUpsertTime": 0, "totalCreateTime": 0}


class DeltaCommit(Frozen):
    """A delta commit that can be written.

    Attributes:
        time: its instant, that of the action it belongs to.
        slices: the newest slices of the partitions that change.
    """

    time: str
    schema: str
    slices: Mapping[str, tuple[FileSlice, ...]]
    change: MetadataChange


def prepare(view: MetadataView, time: str, change: MetadataChange) -> DeltaCommit:
    """Read what a delta commit needs, so that nothing of the metadata table is in the way once it is written.

    Raises:
        TableCorruptError: the metadata table is damaged.
    """
    slices = {partition: view.slices(partition) for partition in change}
    return DeltaCommit(time, view.schema(slices[FILES]), slices, change)


def write(view: MetadataView, delta: DeltaCommit, completion_time: str | None) -> None:
    """Write a delta commit, durably and under the table's lock; what an earlier try left is used.

    Args:
        completion_time: when it is completed; None in timeline layout 1. The same for everybody who writes it.
    """
    storage, layout = view.table.storage, view.table.layout
    pending = [layout.path(Instant(delta.time, names.DELTA_COMMIT, state)) for state in _PENDING]
    for path in pending:
        records.settle(storage, path, b"")
    parts = [
        part
        for partition, change in delta.change.items()
        for part in by_group(delta.slices[partition], change, delta.time)
    ]
    groups = in_parallel(storage.uri, lambda part: _write_group(view, delta, part), parts)
    written = [stat for group in groups for stat in group]
    if view.timeline.find(delta.time):
        _remove(
            storage, [log.path for log in _named(view, delta.time, delta.change) if _is_of_another_version(view, log)]
        )
    stats = {
        partition: tuple(stat for stat in written if stat.partition_path == partition) for partition in delta.change
    }
    logs = [f"{METADATA_ROOT}/{stat.path}" for stat in written]
    storage.sync([*pending, *logs])
    metadata = CommitMetadata(stats, OPERATION, {"schema": delta.schema})
    completed = Instant(delta.time, names.DELTA_COMMIT, InstantState.COMPLETED, completion_time)
    path = layout.path(completed)
    records.settle_bytes(storage, path, layout.encode_commit(metadata, names.DELTA_COMMIT))
    storage.sync([path])


def undo(view: MetadataView, time: str) -> None:
    """Take a delta commit back, or what there is of it; whoever finds it half undone goes on.

    First it is not completed any more, then its records go, then the rest. The action itself is still pending then.
    The table's lock is held.
    """
    storage, timeline = view.table.storage, view.timeline
    files = [one for one in timeline.files if one.time == time and one.action == names.DELTA_COMMIT]
    if not files:
        return
    completed = [one for one in files if one.is_completed]
    logs = _logs_of(view, time, completed)
    _remove(storage, [timeline.path(one) for one in completed])
    if completed:
        sync_folders(storage, [timeline.layout.folder])
    _remove(storage, logs)
    sync_folders(storage, {path.rpartition("/")[0] for path in logs})
    _remove(storage, [timeline.path(one) for one in files if not one.is_completed])


def forget_pending(view: MetadataView, time: str) -> None:
    """Remove the requested and inflight files of a delta commit that was completed and archived, under the lock."""
    files = [one for one in view.timeline.files if one.time == time and one.action == names.DELTA_COMMIT]
    _remove(view.table.storage, [view.timeline.path(one) for one in files if not one.is_completed])


def is_taken_in(view: MetadataView, time: str) -> bool:
    """Whether base files say already what a write changed, so that to undo its delta commit would change nothing there:
    a compaction took it in, or a partition was made when the write was completed.
    """
    delta, write = view.timeline.completed_write(time), view.data.completed_write(time)
    told = delta or write
    if told is None or (delta is not None and delta.action != names.DELTA_COMMIT):
        return False
    moment = told.completion_time or time
    for one in view.timeline.completed_writes:
        if one.action == names.COMMIT and moment < one.time:
            return True
        if write is not None and _is_build(one) and (write.completion_time or time) < (one.completion_time or one.time):
            return True
    return False


def _is_build(instant: Instant) -> bool:
    """Whether partitions are made at instants of its kind: see :func:`free_instant` of build."""
    is_of_none = len(instant.time) > names.TIME_DIGITS or instant.time < _FIRST_YEAR
    return instant.action == names.DELTA_COMMIT and is_of_none


_FIRST_YEAR: Final = "0001"
_PENDING: Final = (InstantState.REQUESTED, InstantState.INFLIGHT)


def _write_group(view: MetadataView, delta: DeltaCommit, change: GroupChange) -> list[WriteStat]:
    one, found = change.group, list[WriteStat]()
    instant = delta.time if view.table.layout.has_completion_times else one.instant
    names = [log.name for log in one.logs]
    for form, data in _logs(view, delta, change):
        path, number = _create_log(view, one, instant, form, data)
        names.append(path.rpartition("/")[2])
        puts = 0 if form is LogForm.DELETES else change.put_count
        extra: dict[str, Json] = {
            "logVersion": number,
            "logOffset": 0,
            "baseFile": one.base_name,
            "logFiles": list(names),
            "runtimeStats": _RUNTIME,
        }
        found.append(
            WriteStat(
                file_id=one.file_id,
                path=f"{one.partition}/{names[-1]}",
                partition_path=one.partition,
                prev_commit=instant,
                num_writes=puts,
                num_update_writes=puts,
                num_deletes=0 if form is LogForm.PUTS else len(change.deletes),
                total_write_bytes=len(data),
                file_size_bytes=len(data),
                extra=extra,
            )
        )
    return found


def _logs(view: MetadataView, delta: DeltaCommit, change: GroupChange) -> Iterator[tuple[LogForm, bytes]]:
    """The logs of a file group, as its version has them."""
    if not view.table.has_native_logs:
        yield LogForm.BLOCKS, b"".join(format_block(block) for block in _blocks(delta, change))
        return
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: delta.time, HeaderKey.SCHEMA: delta.schema}
    if change.puts:
        yield LogForm.PUTS, format_native_puts(change.entries(delta.schema), header, _created_ms(delta.time))
    if change.deletes:
        yield LogForm.DELETES, format_native_deletes(change.deletes, header, _created_ms(delta.time))


def _blocks(delta: DeltaCommit, change: GroupChange) -> Iterator[LogBlock]:
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: delta.time, HeaderKey.SCHEMA: delta.schema}
    if change.puts:
        content = format_hfile(
            change.entries(delta.schema),
            delta.schema,
            block_bytes=BLOCK_BYTES if change.group.partition == BLOOM_FILTERS else LOG_BLOCK_BYTES,
            created_ms=_created_ms(delta.time),
        )
        yield LogBlock(BlockKind.HFILE_DATA, header, content)
    if change.deletes:
        yield LogBlock(BlockKind.DELETE, header, format_deletes(sorted(change.deletes), change.group.partition))


def _created_ms(time: str) -> int:
    """The instant's, not the clock's: whoever writes the log again writes the same bytes."""
    try:
        return instant_time_to_ms(time)
    except ValueError:
        return 0


def _create_log(view: MetadataView, one: FileSlice, instant: str, form: LogForm, data: bytes) -> tuple[str, int]:
    """Put a log where none is. Nobody ever appends to one, and what an earlier try put there is taken."""
    storage = view.table.storage
    last = one.logs[-1] if one.logs else None
    if (
        last is not None
        and (last.instant, last.form) == (instant, form)
        and last.size_bytes == len(data)
        and storage.read(last.path) == data
    ):
        return last.path, last.number
    number = 1 if view.table.layout.has_completion_times else one.next_log_number
    while True:
        path = f"{view.table.folder(one.partition)}/{log_name(one.file_id, instant, number, form, _TOKEN)}"
        if records.settle_bytes(storage, path, data) == data:
            return path, number
        number += 1


def _logs_of(view: MetadataView, time: str, completed: list[Instant]) -> list[str]:
    """Logs of a delta commit: those that it names, and those whose name or header says so."""
    found = {
        f"{METADATA_ROOT}/{stat.path}"
        for one in completed
        for stat in view.timeline.commit_metadata(view.table.storage, one).stats()
        if stat.path is not None
    }
    for partition in view.table.partitions:
        listed = load_slices(view.table, view.timeline, partition).newest
        blocks = [log.path for one in listed for log in one.logs if log.form is LogForm.BLOCKS]
        found |= {path for path in blocks if _is_of(view.table.storage, path, time)}
    if view.table.layout.has_completion_times:
        found |= {log.path for log in _named(view, time, view.table.partitions)}
    return sorted(found)


def _named(view: MetadataView, time: str, partitions: Iterable[str]) -> Iterator[LogFile]:
    """Logs of some partitions whose name has an instant."""
    folders = map(view.table.folder, partitions)
    logs = (parse_log(one) for folder in folders for one in view.table.storage.list_folder(folder).objects)
    return (one[1] for one in logs if one is not None and one[1].instant == time)


def _is_of_another_version(view: MetadataView, log: LogFile) -> bool:
    """Whether an earlier try wrote a log before the table was upgraded: it would say a second time what is written."""
    return (log.form is LogForm.BLOCKS) is view.table.has_native_logs and view.table.layout.has_completion_times


def _is_of(storage: Storage, path: str, time: str) -> bool:
    try:
        first = next(read_blocks(storage.read(path), path), None)
    except (TableCorruptError, ObjectNotFoundError):
        return False
    return first is not None and first.header.get(HeaderKey.INSTANT_TIME) == time


def _remove(storage: Storage, paths: list[str]) -> None:
    records.remove(storage, [one for path in paths for one in (path, crc_path(path))])
