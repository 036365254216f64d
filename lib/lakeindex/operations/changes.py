"""The changes of a table between two points in time (``lakeindex changes``), and a feed of them as a batch of another
table. Which rows these are, :mod:`lakeindex.operations.changed_rows` finds.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field
from msgspec.structs import replace

from lakeindex.commit.ledger import find_batch
from lakeindex.errors import InputError, ObjectNotFoundError, UsageError, first_line
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.instants import RESTORE, ROLLBACK, comparable
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import plain_strings
from lakeindex.model import ARRANGING_OPERATION, BaseFile, Group, Instant
from lakeindex.operations.changed_rows import Change, ChangedRows, GroupPair, changed_groups, compared
from lakeindex.operations.consistent_read import read_consistently, streamed
from lakeindex.operations.rows.aligned_rows import aligned_batches, open_base_file, row_schema
from lakeindex.operations.rows.out_file import check_out, put_file, row_writer
from lakeindex.operations.rows.request import ScanRequest
from lakeindex.operations.rows.time_travel import check_meta_columns
from lakeindex.operations.table_states import end_of, last_point, named_point, newest_point, state_at
from lakeindex.options.parse import parse_options
from lakeindex.pipeline import run_id_of
from lakeindex.run.feeds import Applied, Feed, applied, check_follows, mark_applied
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.showing.json_result import TableResult
from lakeindex.storage import in_parallel
from lakeindex.storage.paths import absolute
from lakeindex.storage.storage_file import StorageFile
from lakeindex.table.handle import Table
from lakeindex.table.table_columns import table_schema
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import load_verdict
from lakeindex.write.base_file import COMMIT_TIME
from lakeindex.write.keys.key_generators import key_properties
from lakeindex.write.types.avro_schema import CHANGE_TYPE, DELETE_MARK
from lakeindex.write.types.moments import MomentsFile

_T = TypeVar("_T")

COMMIT_INSTANT: Final = "_commit_instant"


class ChangesRequest(Frozen):
    """Which changes are asked for.

    Attributes:
        since: an instant or ISO time, exclusive; None: the beginning, when there were no rows.
        until: an instant, inclusive.
        columns: columns to return before those of the change; None: the table's.
        meta: the meta columns come first, where ``columns`` does not say what is wanted.
        options: ``hoodie.metadata.enable`` counts.
    """

    since: str | None = None
    until: str | None = None
    columns: tuple[str, ...] | None = None
    meta: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


class ChangesPlan(Frozen):
    """File groups that differ between two states.

    Attributes:
        timeline: as it was listed.
        kept: groups with rows of keys that went out of others (:attr:`CommitMetadata.kept`).
        across_partitions: a row may have moved to another partition.
        others: files as they were, where they may have rows of keys that went out of the groups that differ: whoever
            takes a whole partition away looks no key up.
    """

    table: Table
    timeline: Timeline
    rows: pa.Schema
    schema: pa.Schema
    pairs: tuple[GroupPair, ...]
    kept: frozenset[Group]
    across_partitions: bool
    others: tuple[BaseFile, ...] = ()


class ChangesSummary(TableResult):
    """What ``lakeindex changes`` wrote.

    Attributes:
        since: the first point, exclusive, as an instant; None: the beginning.
        until: the second point, inclusive, as an instant: the next feed begins there. None on a table without commits.
        inserts: keys that were not there before.
        updates: keys whose row was written again; two rows of the file each.
        deletes: keys that are not there any more.
        file_groups: file groups that were compared.
        out: the file written.
        bytes_written: its size.
    """

    shown_by: ClassVar[str] = "results:show_changes"

    since: str | None
    until: str | None
    inserts: int
    updates: int
    deletes: int
    file_groups: int
    out: str
    bytes_written: int


def resolved(uri: str, request: ChangesRequest) -> tuple[str | None, str | None]:
    """The instants of both points; of ``until`` that of the write that was completed last, if it is not given.

    Raises:
        UsageError: a point that the history does not reach, or the second is before the first.
        TableError: no table, or one that is not read.
    """

    def points(table: Table, timeline: Timeline) -> tuple[str | None, str | None]:
        check_meta_columns(table, "changes")
        since = None if request.since is None else named_point(table, timeline, request.since, "since")
        if since is not None:
            _check_not_taken_back(timeline, request.since or since, since)
        if request.until is None:
            return since, newest_point(timeline)
        until = named_point(table, timeline, request.until, "until")
        if since is not None and comparable(until) < comparable(since):
            raise UsageError(
                f"until ({request.until}) is before since ({request.since})",
                culprit=request.until,
                hint="changes go forward: exchange them",
            )
        return since, until

    return read_consistently(uri, points)


def _check_not_taken_back(timeline: Timeline, text: str, since: str) -> None:
    """Refuse to go on from a state that a restore or a rollback has taken back: who has it has rows that no change
    takes away again.

    Raises:
        UsageError: a commit of then went.
        TableCorruptError: the plan of a restore cannot be read.
    """
    writes = {one.time: end_of(timeline, one.time) for one in timeline.completed_writes}
    then, ended = writes.get(since, since), cache(partial(_ended, timeline))
    for one in timeline.instants:
        if comparable(one.time) <= comparable(then):
            continue  # it was taken back before
        gone = _restored(timeline, one) if one.action == RESTORE else _rolled_back(timeline, one, since, ended)
        ends = {time: ended(time) or time for time in gone}
        for time in sorted(one for one, end in ends.items() if one == since or comparable(end) <= comparable(then)):
            before = [write for write in writes if comparable(writes[write]) < comparable(ends[time])]
            start = max(before, key=lambda write: comparable(writes[write]), default="")
            cure = f"take the copy back to what it was with the changes until {start}, or read the table anew; changes "
            cure += f"since {start} are what was committed after the {one.action}"
            raise UsageError(
                f"since cannot be {text!r}: commit {time}, which the table had then, was taken away by {one.action} "
                f"{one.time}",
                culprit=text,
                hint=cure if start else "read the table anew",
            )


def _ended(timeline: Timeline, time: str) -> str | None:
    """When a write that is gone was completed, by our verdict on it; None if it never was, or nobody knows."""
    verdict = None if timeline.storage is None else load_verdict(timeline.storage, time)
    return None if verdict is None else verdict.completion_time


def _restored(timeline: Timeline, one: Instant) -> frozenset[str]:
    """What a restore takes away; one that is done may have taken away less than was planned, one that has not begun, or
    is over, what is gone by now.
    """
    done = timeline.undone_by(one).instants if one.is_completed else frozenset()
    plan = None if done else timeline.restore_plan(one.time)
    if plan is not None:
        is_whole = one.is_completed or timeline.restore_in_force() == (one.time, plan)
        done = frozenset(time for time, _ in plan.instants if is_whole or not timeline.is_committed(time))
    return done - timeline.completed_write_times


def _rolled_back(timeline: Timeline, one: Instant, since: str, ended: Callable[[str], str | None]) -> frozenset[str]:
    """The commit that a rollback has taken back, unless the table did not have it at ``since``.

    Only the commit that began last is rolled back. Where nobody says that it was completed, and a commit that is still
    there is the newest at that point, or began later, what went is what a writer left behind that died.
    """
    if one.action != ROLLBACK or not one.is_completed:
        return frozenset()
    writes = timeline.completed_writes
    gone = timeline.undone_by(one).instants - timeline.completed_write_times
    known = frozenset(time for time in gone if ended(time) is not None)
    if any(since in (w.time, w.completion_time) for w in writes):
        return known
    had = [comparable(w.time) for w in writes if comparable(w.completion_time or w.time) <= comparable(since)]
    return known | {time for time in gone if comparable(time) > max(had, default="")}


def plan_changes(uri: str, request: ChangesRequest) -> ChangesPlan:
    """Find the file groups that differ; no row is read.

    Args:
        request: with resolved points.

    Raises:
        UsageError: files of a point were cleaned away (the earliest instant is said), a column that is not there, or
            one that is called like those of the change.
        TableError: a commit or committed file that is damaged or gone.
    """
    return of_one_state(uri, request, lambda plan: plan)


def of_one_state(uri: str, request: ChangesRequest, work: Callable[[ChangesPlan], _T]) -> _T:
    """Do work on a plan; on a new one if other writers take away what it reads. Arguments and errors as of
    :func:`plan_changes`.
    """
    return read_consistently(
        uri,
        lambda table, timeline: work(_plan(table, timeline, request, absolute(uri))),
        use_metadata=parse_options(request.options).use_metadata,
    )


def _plan(table: Table, timeline: Timeline, request: ChangesRequest, source: str) -> ChangesPlan:
    until = request.until
    after = state_at(table, timeline, until, "until") if until is not None else table.snapshot(timeline=timeline)
    rows = row_schema(
        table_schema(table, after if after.timeline.completed_writes else table.snapshot(timeline=timeline))
    )
    chosen = ScanRequest(columns=request.columns, meta=request.meta).chosen(rows)
    for name in (CHANGE_TYPE, COMMIT_INSTANT):
        if name in chosen.names:
            raise UsageError(
                f"table {table.name} has a column {name!r}, by which changes say what happened to a row",
                culprit=name,
                hint="leave it out: name the other columns (columns=[...], --columns)",
            )
    pairs: tuple[GroupPair, ...]
    kept, others = frozenset[Group](), tuple[BaseFile, ...]()
    index = table.index(timeline)
    across = index is not None and index.is_global
    if request.since is None:
        pairs = tuple(GroupPair(None, one, one.instant_time) for one in after.base_files_all())
    else:
        before = state_at(table, timeline, request.since, "since")
        said = _said_since(before.timeline, after.timeline)
        kept = frozenset(group for one in said for group in one.kept)
        pairs = changed_groups(before, after, kept)
        if across and any(one.replaced() and one.operation != ARRANGING_OPERATION for one in said):
            touched = {one.new for one in pairs}
            others = tuple(one for one in after.base_files_all() if one not in touched)
    given = pa.schema([*chosen, pa.field(CHANGE_TYPE, pa.string()), pa.field(COMMIT_INSTANT, pa.string())])
    if until is not None:
        since = None if request.since is None else last_point(timeline, end_of(timeline, request.since))
        until = end_of(timeline, until)
        within = () if across else table.properties.partition_fields
        paths_by = key_properties(table.key_properties()) if within and table.properties.key_fields else ()
        feed = Feed(source, since, last_point(timeline, until) or until, within, paths_by)
        given = given.with_metadata(feed.metadata)
    extra = [rows.field(COMMIT_TIME)] if COMMIT_TIME not in chosen.names else []
    return ChangesPlan(
        table,
        timeline,
        pa.schema([*chosen, *extra]),
        given,
        pairs,
        kept,
        across,
        others,
    )


def _said_since(before: Timeline, after: Timeline) -> Sequence[CommitMetadata]:
    """What the commits in between say."""
    storage, known = after.storage, before.completed_write_times
    new = [one for one in after.completed_writes if one.time not in known]
    return [] if storage is None else in_parallel(storage.uri, lambda one: after.commit_metadata(storage, one), new)


def stream_changes(uri: str, request: ChangesRequest) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The changes in batches, and their columns; errors of a plan are raised at once."""
    plan = plan_changes(uri, request)
    return plan.schema, streamed(plan, batches_of, lambda: plan_changes(uri, request))


def write_changes(uri: str, out: str, request: ChangesRequest) -> ChangesSummary:
    """Write the changes into one file, a batch at a time: Parquet, CSV, JSON lines or Arrow, as its name says.
    It appears whole or not at all.

    Args:
        out: a path, or a URL (then the file is spooled to local disk and put in one piece).

    Raises:
        TableError: no table, or one that is not read; a damaged file, by name.
        UsageError: a point in time that the history does not reach, or ``out`` cannot be written.
        WriteConflictError: other writers took away what was read, again and again.
    """
    check_out(out)
    since, until = resolved(uri, request)

    def write(plan: ChangesPlan) -> tuple[ChangesPlan, Counter[str], int]:
        counts = Counter[str]()
        size = put_file(out, lambda spool: _write_all(plan, out, spool, counts))[1]
        return plan, counts, size

    plan, counts, size = of_one_state(uri, replace(request, since=since, until=until), write)
    return ChangesSummary(
        table=plan.table.name,
        uri=plan.table.uri,
        since=since,
        until=until,
        inserts=counts[Change.INSERT],
        updates=counts[Change.AFTER],
        deletes=counts[Change.DELETE],
        file_groups=len(plan.pairs),
        out=out,
        bytes_written=size,
    )


def _write_all(plan: ChangesPlan, out: str, path: Path, counts: Counter[str]) -> int:
    with row_writer(out, path, plan.schema) as writer:
        for batch in batches_of(plan):
            writer.write_table(pa.Table.from_batches([batch]))
            for one in pc.value_counts(batch.column(CHANGE_TYPE)).to_pylist():
                counts[one["values"]] += one["counts"]
    return counts.total()


def batches_of(plan: ChangesPlan) -> Iterator[pa.RecordBatch]:
    """The changes of a plan. Raises: TableCorruptError: a file is missing or cannot be read."""
    for changed in compared(
        plan.table.storage,
        plan.pairs,
        plan.kept,
        across_partitions=plan.across_partitions,
        others=plan.others,
    ):
        yield from _rows_of(plan, changed)


def _rows_of(plan: ChangesPlan, changed: ChangedRows) -> Iterator[pa.RecordBatch]:
    file, first, given = changed.file, 0, 0
    source = open_base_file(plan.table.storage, file)
    for group in range(source.num_row_groups):
        end = first + source.metadata.row_group(group).num_rows
        if changed.rows is not None and not _between(changed.rows, first, end):
            first = end
            continue
        for batch in aligned_batches(source, file, [group], plan.rows):
            rows = batch
            instants = rows.column(COMMIT_TIME)
            if changed.rows is not None:
                start, stop = np.searchsorted(changed.rows, [first, first + batch.num_rows])
                rows = batch.take(pa.array(changed.rows[start:stop] - first))
                instants = rows.column(COMMIT_TIME)
                if changed.instants is not None:
                    instants = pa.chunked_array([changed.instants.slice(given, stop - start)])
                given += int(stop - start)
            first += batch.num_rows
            if rows.num_rows:
                yield from _with_change(rows, changed.change, instants, plan).to_batches()


def _between(rows: np.ndarray, first: int, end: int) -> bool:
    start, stop = np.searchsorted(rows, [first, end])
    return bool(stop > start)


def _with_change(rows: pa.Table, change: Change, instants: pa.ChunkedArray, plan: ChangesPlan) -> pa.Table:
    columns = [rows.column(name) for name in plan.schema.names[:-2]]
    kinds = pa.array([change.value] * rows.num_rows, pa.string())
    return pa.table([*columns, kinds, instants], schema=plan.schema)


_GONE: Final = (str(Change.DELETE), str(Change.BEFORE))
_STAYS: Final = (str(Change.INSERT), str(Change.AFTER))
_BATCH_ROWS: Final = 65_536
_FORMATS: Final = "give what `lakeindex changes --out` writes, or another Parquet or Arrow file"


def applied_to(uri: str, source: str) -> Applied | None:
    """How far the changes of a source are applied to a table."""
    table = Table.at(uri)
    return applied(table.storage, table.load_timeline(), source)


def done_before(spec: RunSpec) -> RunSummary | None:
    """What is said of a feed whose changes are all applied; None if they are not. Raises: UsageError."""
    feed, table = spec.feed, Table.at(spec.table_uri)
    assert feed is not None  # this is what is applied
    timeline = table.load_timeline()
    done = check_follows(table.storage, timeline, feed)
    if done is None:
        return None
    note = f"nothing to do: the changes of {feed.source} are applied until {done.until}"
    entry = find_batch(table.storage, timeline, spec.batch_id)
    if entry is not None and entry.summary is not None:
        earlier = RunSummary.from_json(entry.summary)
        return replace(earlier, noop=True, notes=(*earlier.notes, note))
    run_id = spec.run_id or run_id_of(spec.batch_id)
    return RunSummary(done.instant or None, spec.batch_id, run_id, spec.operation, noop=True, notes=(note,))


def mark_empty(spec: RunSpec) -> None:
    """Of a feed with nothing to commit: it goes with the last one."""
    if spec.feed is not None and spec.feed.source:
        before = applied_to(spec.table_uri, spec.feed.source)
        mark_applied(storage_at(spec.table_uri), spec.feed, "" if before is None else before.instant)


def feed_in_files(paths: Sequence[str]) -> pa.RecordBatchReader:
    """The feed that some files hold. Raises: InputError: they hold none, or several."""
    opened = [_of_file(absolute(path)) for path in paths]
    first = opened[0][0]
    for path, (schema, _) in zip(paths, opened, strict=True):
        if schema.metadata != first.metadata or not schema.equals(first):
            raise InputError(
                f"{path!r} is of another feed than {paths[0]!r}", culprit=path, hint="apply one feed after the other"
            )
    return pa.RecordBatchReader.from_batches(first, (batch for _, batches in opened for batch in batches))


def _of_file(path: str) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Columns and batches of a file. Raises: InputError: it is not there, or no Parquet or Arrow file."""
    folder, name = posixpath.split(path)
    try:
        store = storage_at(folder)
        source = StorageFile(store, name, store.head(name).size_bytes)
        if name.lower().endswith((".arrow", ".feather", ".ipc")):
            arrow = pa.ipc.open_file(source)
            return arrow.schema, (arrow.get_batch(number) for number in range(arrow.num_record_batches))
        parquet = MomentsFile(source)
        return parquet.schema_arrow, parquet.iter_batches(_BATCH_ROWS)
    except ObjectNotFoundError:
        raise InputError(f"no feed at {path!r}", culprit=path, hint="check the path") from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path!r} is no feed: {first_line(error)}", culprit=path, hint=_FORMATS) from error


def marked(rows: Any) -> Iterator[pa.RecordBatch]:
    """The feed as a batch: what is gone is marked as deleted. There is one record batch at least.

    Raises:
        InputError: it has no ``_change_type``.
    """
    if CHANGE_TYPE not in rows.schema.names:
        raise InputError(
            f"the feed has no column {CHANGE_TYPE!r}; it has: {', '.join(rows.schema.names)}",
            culprit=CHANGE_TYPE,
            hint="give what table.changes() or `lakeindex changes` gives; a batch without it is upserted",
        )
    kept = [field for field in rows.schema if field.name not in (CHANGE_TYPE, COMMIT_INSTANT, DELETE_MARK)]
    schema = pa.schema([*kept, pa.field(DELETE_MARK, pa.bool_())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([], schema)
        first = 0
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else rows:
            gone = _gone(batch.column(CHANGE_TYPE), first)
            if DELETE_MARK in batch.schema.names:
                gone = _or_marked(gone, batch.column(DELETE_MARK))
            columns = [batch.column(batch.schema.get_field_index(field.name)) for field in kept]
            yield pa.RecordBatch.from_arrays([*columns, gone], schema=schema)
            first += batch.num_rows

    return batches()


def _gone(kinds: pa.Array, first: int) -> pa.Array:
    """Whether each row is gone by the change. Raises: InputError: a word that is none."""
    kinds = plain_strings(kinds).cast(pa.string())
    gone = pc.is_in(kinds, value_set=pa.array(_GONE))
    known = pc.or_(gone, pc.is_in(kinds, value_set=pa.array(_STAYS)))
    if not pc.all(known, min_count=0).as_py():
        row = int(np.flatnonzero(~known.to_numpy(zero_copy_only=False))[0])
        raise InputError(
            f"row {first + row} of the feed has the change type {kinds[row].as_py()!r}",
            culprit=str(first + row),
            hint=f"valid: {', '.join((*_STAYS, *_GONE))}",
        )
    return gone


def _or_marked(gone: pa.Array, mark: pa.Array) -> pa.Array:
    """The source has a column that marks rows as deleted, too."""
    return pc.or_(gone, pc.fill_null(mark.cast(pa.bool_()), fill_value=False))


def mark_expression() -> str:
    """The mark of a deleted row as Spark's SQL computes it; a word that is no change fails."""
    stays, gone = (", ".join(f"'{word}'" for word in words) for words in (_STAYS, _GONE))
    return (
        f"CASE WHEN {CHANGE_TYPE} IN ({stays}) THEN false WHEN {CHANGE_TYPE} IN ({gone}) THEN true "
        f"ELSE raise_error(concat('no change type: ', {CHANGE_TYPE})) END AS {DELETE_MARK}"
    )
