"""Check every invariant of a table. Reads everything, changes nothing, in memory bounded by a row group a task."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from lakeindex.commit.import_mark import incomplete
from lakeindex.commit.recovery import is_clustering
from lakeindex.commit.services.archive import archived_lately
from lakeindex.commit.services.metadata_service import committed_files
from lakeindex.commit.sweep import find_unexplained
from lakeindex.commit.written_slices import (
    Commits,
    WrittenSlice,
    live_slices,
    missing_slices,
    written_slices,
)
from lakeindex.errors import (
    LakeIndexError,
    ObjectNotFoundError,
    TableCorruptError,
    TableError,
    TableUnsupportedError,
    TimelineChangedError,
)
from lakeindex.files.file_system_view import FilesByPartition, Snapshot, base_files_in
from lakeindex.format import instants
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.format.file_names import TEMP_FOLDER, parse_base_file, parse_base_path
from lakeindex.format.partitions import (
    PARTITION_METADATA_FILE,
    PARTITION_METADATA_FILES,
    parse_partition_metadata,
    partition_depth,
    partition_metadata_path,
)
from lakeindex.frozen import Frozen
from lakeindex.index.bucket import bucket_of
from lakeindex.index.contract import FileGroups
from lakeindex.index.registry import index_for
from lakeindex.metadata.metadata_table import FILES, GROUP_PREFIXES, METADATA_ROOT
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.model import BaseFile, IndexSpec, Instant, InstantState
from lakeindex.operations.check_base_files import (
    FileTask,
    PagesTask,
    UniqueTask,
    check_commit_columns,
    check_file,
    check_pages,
    check_unique,
    columns_then,
)
from lakeindex.operations.check_violations import Broken, Checked, CheckReport, Findings, Violation, Writer, is_damage
from lakeindex.operations.consistent_read import TRIES, at_rest
from lakeindex.operations.metadata import find_faults, find_index_faults
from lakeindex.options.types import WriteConfig
from lakeindex.storage import Storage, in_parallel, list_names
from lakeindex.storage.paths import absolute
from lakeindex.table.binding import torn_binding
from lakeindex.table.handle import Table
from lakeindex.table.key_spelling import spec_given, spelling_of
from lakeindex.table.properties import metadata_table_of
from lakeindex.table.stored_keys import sample_rows
from lakeindex.table.table_columns import check_written, table_schema
from lakeindex.tasks.runner import Runner, Threads, run_tasks
from lakeindex.timeline.avro_instants import (
    parse_clean_metadata,
    parse_restore,
    parse_rollback_metadata,
    parse_savepoint,
    parse_undone,
)
from lakeindex.timeline.records import read_filled
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import BATCH_KEY
from lakeindex.write.keys.key_generators import KeySpec
from lakeindex.write.types.avro_schema import schema_from_avro
from lakeindex.write.virtual_keys import VirtualKeys

_SWEEP = "delete it: once its instant is older than the timeline, every reader would see it"
_SWEPT = "the next upsert into its partition, or `lakeindex maintain`, deletes it"
_LEAVE = (
    "leave it unless you know that its write failed: it may have been hidden for a while only, "
    "by an archiving or an upgrade. Neither sweeping nor archiving touches its instant"
)
_RESTORE: Final = "restore the file, or roll the instant back"
# written by Hudi before its own first requested file, or without one
_WITHOUT_REQUESTED: Final = frozenset({instants.SAVEPOINT, instants.RESTORE})
_COUNTED: Final = frozenset({"UPSERT", "DELETE", "INSERT"})
"""Operations whose counts say how a file's rows changed."""

_PARSERS: Final[dict[str, Callable[[bytes, str], object]]] = {
    instants.ROLLBACK: parse_rollback_metadata,
    instants.CLEAN: parse_clean_metadata,
    instants.SAVEPOINT: parse_savepoint,
    instants.RESTORE: parse_restore,
}
_UNDOING: Final = {instants.ROLLBACK: parse_undone, instants.RESTORE: parse_restore}


class CheckedTimeline(Frozen):
    """The findings, and the commits that could be read, oldest first."""

    findings: Findings
    commits: Commits


def check_timeline(table: Table, timeline: Timeline) -> CheckedTimeline:
    """Check every instant of the active timeline."""
    readable: list[tuple[Instant, CommitMetadata]] = []
    violations: list[Violation] = [
        *_strange_names(table, timeline),
        *_incomplete(table, timeline),
        *_collisions(timeline),
        *_archive(timeline),
    ]
    for instant, content in zip(
        timeline.completed,
        in_parallel(table.storage.uri, lambda one: _content(table, timeline, one), timeline.completed),
        strict=True,
    ):
        if isinstance(content, Violation):
            violations.append(content)
        elif isinstance(content, CommitMetadata):
            readable.append((instant, content))
    for instant, metadata in readable:
        violations += _check_stats(timeline.path(instant), instant, metadata)
    violations += _check_counts(timeline, readable)
    violations += _check_schema(timeline, readable)
    violations += check_commit_columns(timeline, readable)
    violations += _check_rollbacks(table, timeline)
    checked = Checked(instants=len(timeline.instants), commits=len(timeline.completed_writes))
    return CheckedTimeline(Findings(tuple(violations), tuple(_timeline_notes(timeline)), checked), readable)


def _import_left(table: Table, timeline: Timeline) -> Iterator[Violation]:
    """An import that is not complete."""
    try:
        told = incomplete(table.storage, timeline)
    except TableCorruptError as error:
        yield Violation.of(Broken.IMPORT, error, table.uri)
        return
    if told is not None:
        hint = "run the same import again: it goes on where it ended; or delete the table, if it is not wanted"
        yield Violation(Broken.IMPORT, table.uri, told, hint)


def _strange_names(table: Table, timeline: Timeline) -> Iterator[Violation]:
    for one in table.storage.list_folder(timeline.layout.folder).objects:
        name = one.path.rpartition("/")[2]
        if name[:14].isdigit() and instants.parse_instant(name) is None:
            yield Violation(Broken.TIMELINE, one.path, f"{one.path} looks like an instant and is none", "move it away")


def _archive(timeline: Timeline) -> Iterator[Violation]:
    for path in timeline.archived.damaged:
        message = f"{path} cannot be read: which commits were archived there is not known"
        yield Violation(Broken.TIMELINE, path, message, "restore the file from a copy")


def _incomplete(table: Table, timeline: Timeline) -> Iterator[Violation]:
    """Completed instants whose requested file is gone: Hudi's archiver and rollbacks fail on them.

    One that is archived already does not count: its archiving was killed, and the next one deletes the rest.
    """
    requested = {(one.time, one.action) for one in timeline.files if one.state is InstantState.REQUESTED}
    aliases = {done: action for action, done in instants.COMPLETED_ACTION.items()}
    for one in timeline.completed:
        names = {(one.time, one.action), (one.time, aliases.get(one.action, one.action))}
        if one.action not in _WITHOUT_REQUESTED and not names & requested:
            if (one.time, one.action) in archived_lately(table):
                continue
            path = timeline.path(one)
            yield Violation(
                Broken.TIMELINE,
                path,
                f"{one.action} {one.time} is completed, but was never requested",
                f"put an empty {instants.requested_name(one.time, one.action)} beside it, or roll it back",
            )


def _collisions(timeline: Timeline) -> Iterator[Violation]:
    writes = timeline.completed_writes
    for before, after in itertools.pairwise(writes):
        if before.time == after.time:
            yield Violation(
                Broken.TIMELINE,
                after.time,
                f"instant {after.time} is both a {before.action} and a {after.action}",
                "two writers took the same instant; keep the one whose files are there",
            )


def _content(table: Table, timeline: Timeline, instant: Instant) -> object:
    """Parsed content of a completed instant; a Violation if it cannot be read; None if we do not look inside."""
    try:
        if instant.action in instants.WRITE_ACTIONS:
            return timeline.commit_metadata(table.storage, instant)
        parse = _PARSERS.get(instant.action)
        path = timeline.path(instant)
        return None if parse is None else read_filled(table.storage, path, parse)
    except TableCorruptError as error:
        return Violation.of(Broken.COMMIT, error, instant.time)
    except (ObjectNotFoundError, TimelineChangedError):
        return None  # archived since the listing


def _check_stats(path: str, instant: Instant, metadata: CommitMetadata) -> Iterator[Violation]:
    for partition, stats in metadata.write_stats.items():
        for stat in stats:
            wrong = _wrong_stat(instant, partition, stat)
            if wrong is not None:
                yield Violation(Broken.COMMIT, path, f"{path}: {wrong}", _RESTORE)


def _wrong_stat(instant: Instant, partition: str, stat: WriteStat) -> str | None:
    file = None if stat.path is None else parse_base_path(stat.path)
    if stat.path is None:
        return f"the stat of file group {stat.file_id} names no file"
    if file is None:
        return None  # a log file of Hudi's; a copy-on-write table has none that counts
    if (file.file_id, file.instant_time) != (stat.file_id, instant.time):
        return f"{stat.path} is not of file group {stat.file_id} and instant {instant.time}"
    if partition not in (file.partition_path, stat.partition_path):
        return f"{stat.path} is listed under partition {partition!r}"
    return None


def _check_counts(timeline: Timeline, commits: Commits) -> Iterator[Violation]:
    """Rows after = rows before + inserts - deletes, for every file group with both slices on the timeline.

    In buckets that another writer wrote the deletes are a bound:
    Hudi 1.2 finds a key's bucket, not the key, and counts deletes of keys that were never there.
    """
    rows: dict[tuple[str, str, str], int] = {}
    for instant, metadata in commits:
        for one in written_slices(instant, metadata):
            stat = one.stat
            before = rows.get((one.file.partition_path, one.file.file_id, stat.prev_commit or ""))
            rows[one.file.partition_path, one.file.file_id, instant.time] = stat.num_writes
            if before is None or metadata.operation not in _COUNTED:
                continue
            most = before + stat.num_inserts
            least = most - stat.num_deletes
            if BATCH_KEY in metadata.extra_metadata or bucket_of(one.file.file_id) is None:
                most = least
            if not least <= stat.num_writes <= most:
                yield Violation(
                    Broken.ROWS,
                    one.file.path,
                    f"{timeline.path(instant)}: {one.file.path} has {stat.num_writes} rows after {before} rows, "
                    f"{stat.num_inserts} inserts and {stat.num_deletes} deletes",
                    "rows were lost or doubled by that commit; roll it back",
                )


def _check_schema(timeline: Timeline, commits: Commits) -> Iterator[Violation]:
    texts = [(instant, text) for instant, metadata in commits if (text := metadata.schema_text)]
    if commits and not texts:
        path = timeline.path(commits[-1][0])
        yield Violation(
            Broken.COMMIT,
            path,
            "no commit carries the table's schema",
            "Hudi's next upsert fails; write with lakeindex",
        )
    for instant, text in texts[-1:]:
        try:
            schema_from_avro(text)
        except TableCorruptError as error:
            yield Violation.of(Broken.COMMIT, error, timeline.path(instant))


def _check_rollbacks(table: Table, timeline: Timeline) -> Iterator[Violation]:
    for one in timeline.completed:
        if one.action not in _UNDOING:
            continue
        path = timeline.path(one)
        try:
            undone = read_filled(table.storage, path, _UNDOING[one.action])
        except (TableCorruptError, ObjectNotFoundError):
            continue  # reported with the instants
        for gone in sorted(undone.instants):
            left = [
                found
                for found in timeline.find(gone)
                if found.action != instants.SAVEPOINT and not is_clustering(table.storage, timeline, found)
            ]  # Hudi rolls back what was done of a clustering, and goes on under the same instant
            if left:
                yield Violation(
                    Broken.ROLLBACK,
                    gone,
                    f"{left[0].action} {gone} was rolled back by {one.time} and is still on the timeline",
                    f"delete its files in {timeline.layout.folder}",
                )


def _timeline_notes(timeline: Timeline) -> Iterator[str]:
    for action in sorted({one.action for one in timeline.instants} - instants.ACTIONS):
        yield f"instants of the unknown action {action!r} are on the timeline; they were not looked into"
    for one in timeline.pending:
        if one.action == instants.RESTORE:
            yield f"restore {one.time} is {one.state}, not completed: the next write carries it to its end"
        elif one.action == instants.SAVEPOINT:
            yield (
                f"savepoint {one.time} is not completed: it keeps no file, and cleaning and archiving stop before it; "
                f"`lakeindex savepoint create TABLE --instant {one.time}` completes it, "
                f"`lakeindex savepoint delete TABLE {one.time}` takes it away"
            )
    last = timeline.last_completed_write_time
    for one in timeline.pending_writes:
        note = f"{one.action} {one.time} is {one.state}, not completed: a writer is at work, or was killed"
        if last is not None and instants.comparable(one.time) < instants.comparable(last):
            note += f"; it is older than {last}, so Hudi's writers stop at it until it is rolled back"
        yield note


class Committed(Frozen):
    """What the active commits say was written.

    Attributes:
        live: the newest slice of each group, by (partition path, file id).
    """

    by_path: dict[str, WrittenSlice]
    live: dict[tuple[str, str], WrittenSlice]

    @staticmethod
    def of(commits: Commits) -> Committed:
        """Collect it."""
        slices = (one for instant, metadata in commits for one in written_slices(instant, metadata))
        return Committed({one.file.path: one for one in slices}, live_slices(commits))


def check_listing(table: Table, snapshot: Snapshot, committed: Committed, *, contents: bool = True) -> Findings:
    """Check the folders of all partitions, and what the metadata table says of them; of the files' contents, too."""
    violations: list[Violation] = list(_missing(table, snapshot, committed))
    told = {(one.kind, one.culprit) for one in violations}
    misled = _misled(table, snapshot, contents=contents)
    violations += (one for one in misled if (one.kind, one.culprit) not in told)
    older = 0
    unexplained = frozenset(find_unexplained(snapshot))
    for partition in snapshot.partitions():
        violations += _check_partition_metadata(table, partition)
        violations += _check_folder(table, snapshot, committed, partition, unexplained)
        older += len(snapshot.files_of(partition).older)
    checked = Checked(partitions=len(snapshot.partitions()), older_files=older)
    return Findings(tuple(violations), tuple(_notes(table, snapshot, contents=contents)), checked)


def _missing(table: Table, snapshot: Snapshot, committed: Committed) -> Iterator[Violation]:
    partitions, hidden = set(snapshot.partitions()), dict[str, list[str]]()
    for one in missing_slices(snapshot, committed.live):
        path, partition = one.file.path, one.file.partition_path
        if partition not in partitions and partition not in hidden:
            hidden[partition] = [file.path for file in base_files_in(table.storage, [partition])]
        there = hidden.get(partition, [])
        if there:
            yield no_partition(partition, path if path in there else there[0])
        if path in there:
            continue
        yield Violation(
            Broken.MISSING_FILE,
            path,
            f"{path} of the commit {one.instant.time} is missing",
            "restore the file, or roll back the commit that wrote it",
        )


def no_partition(partition: str, path: str) -> Violation:
    """A folder that has a file of the table, and no partition metadata."""
    meta = partition_metadata_path(partition)
    what = f"{path} is there, but {meta} is not: no reader finds the partition"
    return Violation(Broken.PARTITION, meta, what, "write it")


def hidden_partitions(storage: Storage, snapshot: Snapshot, said: FilesByPartition) -> dict[str, BaseFile]:
    """Folders that have no partition metadata, but files that the metadata table names; with the oldest of them.

    Args:
        snapshot: of the folders.
    """
    found = {}
    for partition in sorted(said.keys() - set(snapshot.partitions())):
        there = [one for one in base_files_in(storage, [partition]) if one.name in said[partition]]
        if there:
            found[partition] = min(there, key=lambda one: instants.comparable(one.instant_time))
    return found


def _misled(table: Table, snapshot: Snapshot, *, contents: bool) -> Iterator[Violation]:
    """Files that readers who list them from the metadata table would miss, or look for in vain."""
    metadata = metadata_table_of(table.storage, table.properties)
    if metadata is None:
        return
    there = committed_files(snapshot)
    try:
        view = MetadataView.load(metadata, snapshot.timeline)
        faults = list(find_faults(view, there))
        hidden = hidden_partitions(table.storage, snapshot, view.listing().files)
    except (TableCorruptError, ObjectNotFoundError) as error:
        yield Violation.of(Broken.METADATA_TABLE, error, metadata.folder(""))
        return
    try:
        faults += find_index_faults(view, snapshot, there) if contents else ()
    except (TableCorruptError, ObjectNotFoundError) as error:
        if error.culprit is None or error.culprit.startswith(METADATA_ROOT):  # a file that is damaged is told of itself
            yield Violation.of(Broken.METADATA_TABLE, error, metadata.folder(""))
    yield from (no_partition(partition, file.path) for partition, file in hidden.items())
    for fault in faults:
        if not hidden.keys().isdisjoint((fault.path, fault.path.rpartition("/")[0])):
            continue  # it is right
        message = f"the metadata table says {fault.said} of {fault.path or 'the table'}, and there is {fault.is_so}"
        yield Violation(Broken.METADATA_TABLE, fault.path, message, fault.mend)


def _check_partition_metadata(table: Table, partition: str) -> Iterator[Violation]:
    if PARTITION_METADATA_FILE not in list_names(table.storage, partition):
        return  # the Parquet or ORC form; being there is all that is asked of it
    path = partition_metadata_path(partition)
    try:
        found = read_filled(table.storage, path, parse_partition_metadata)
    except TableError as error:
        yield Violation.of(Broken.PARTITION, error, path)
        return
    if found.depth != partition_depth(partition):
        yield Violation(
            Broken.PARTITION,
            path,
            f"{path} says the partition has {found.depth} levels, it has {partition_depth(partition)}",
            "write it again with the right partitionDepth",
        )


def _check_folder(
    table: Table, snapshot: Snapshot, committed: Committed, partition: str, unexplained: frozenset[BaseFile]
) -> Iterator[Violation]:
    files = snapshot.files_of(partition)
    active = snapshot.timeline.completed_write_times
    for file in files.doubles:
        yield Violation(
            Broken.DOUBLE,
            file.path,
            f"{file.path} is a second file of group {file.file_id} and instant {file.instant_time}",
            "delete the one that the commit does not name",
        )
    for file in (*files.live, *files.older):
        if file.instant_time in active and file.path not in committed.by_path:
            yield _stray(file, f"is not in the commit {file.instant_time} whose instant it bears, yet readers see it")
    for file in files.unseen:
        if file in unexplained:
            what = f"is not seen by any reader, and nothing says what became of its instant {file.instant_time}"
            yield _stray(file, what, _LEAVE)
        elif file.instant_time not in snapshot.timeline.pending_times:
            yield _stray(file, f"was left behind by {file.instant_time}, which was rolled back", _SWEPT)
    for one in table.storage.list_folder(partition).objects:
        name = one.path.rpartition("/")[2]
        is_odd = name.endswith(".parquet") and not name.startswith(".") and name not in PARTITION_METADATA_FILES
        if is_odd and parse_base_file(partition, name) is None:
            yield Violation(Broken.STRAY, one.path, f"{one.path} is no base file of this table", "move it elsewhere")


def _stray(file: BaseFile, what: str, hint: str = _SWEEP) -> Violation:
    return Violation(Broken.STRAY, file.path, f"{file.path} {what}", hint)


def _notes(table: Table, snapshot: Snapshot, *, contents: bool) -> Iterator[str]:
    pending = snapshot.timeline.pending_times
    left = [path.rstrip("/").rpartition("/")[2] for path in table.storage.list_folder(TEMP_FOLDER).folders]
    done = sorted(time for time in left if time not in pending)
    if done:
        yield f"markers of finished instants were left behind: {', '.join(done)}"
    compared = GROUP_PREFIXES if contents else (FILES,)
    others = [name for name in table.properties.metadata_partitions if name not in compared]
    if others:
        yield f"these partitions of the metadata table were not compared with the files: {', '.join(others)}"


def check_table(uri: str, runner: Runner | None = None, *, deep: bool = False, contents: bool = True) -> CheckReport:
    """Check every invariant.

    Args:
        runner: schedules the files on threads of this process; by default one a core.
        deep: compare every page of every file, superseded ones too, with its checksums.
        contents: read the files; else only the timeline, the folders, and what the metadata table says of them.

    Returns:
        What is broken; nothing, if ``ok``. Damage does not raise, it is reported.

    Raises:
        TableNotFoundError: no table.
        TableUnsupportedError: a kind of table that is not read.
    """
    started = time.perf_counter()
    try:
        table = Table.at(uri)
    except TableCorruptError as error:
        broken = Findings((Violation.of(Broken.PROPERTIES, error, uri),))
        return _report("", absolute(uri), broken, started)
    torn = None if table.binding is not None else torn_binding(table.storage)
    if torn is not None:
        return _report(table.name, table.uri, Findings((Violation.of(Broken.PROPERTIES, torn, uri),)), started)
    look = partial(_check, runner=runner or Threads(), deep=deep, contents=contents)
    found, is_sure = at_rest(table, look, lambda one: not one.violations)
    if not is_sure:
        found = replace(found, notes=(_BUSY, *found.notes))
    if table.binding is None:  # nothing there is ours
        found = replace(found, violations=tuple(replace(one, writer=Writer.OTHER) for one in found.violations))
    return _report(table.name, table.uri, found, started)


_BUSY: Final = (
    f"other writers changed the table in each of {TRIES} looks: what is told of it may be what they were about to do, "
    "so mend nothing before a check beside no writer tells the same"
)


def _report(name: str, uri: str, found: Findings, started: float) -> CheckReport:
    seconds = round(time.perf_counter() - started, 4)
    return CheckReport(name, uri, not found.violations, found.violations, found.notes, found.checked, seconds)


def _check(table: Table, timeline: Timeline, runner: Runner, *, deep: bool, contents: bool) -> Findings:
    checked_timeline = check_timeline(table, timeline)
    index = table.index(timeline)
    scope = "table" if index is not None and index.is_global else "partition"
    try:
        snapshot = table.listed_snapshot(timeline)
        committed = Committed.of(checked_timeline.commits)
        listing = check_listing(table, snapshot, committed, contents=contents)
        listing = Findings.joined([listing, Findings((), tuple(_unwritten(table, snapshot)))], scope)
        then = columns_then(checked_timeline.commits)
        named = {one.culprit.rpartition("/")[0] for one in listing.violations if one.kind is Broken.PARTITION}
        hidden = named - set(snapshot.partitions())
        seen = snapshot.with_partitions(hidden) if hidden else snapshot  # their rows are of the table
        rows = _check_rows(table, seen, committed, runner, scope, then) if contents else ()
        pages = _check_pages(table, seen, committed, runner) if deep else ()
    except TableUnsupportedError:
        raise
    except LakeIndexError as error:
        if not is_damage(error):
            raise
        # the timeline is so damaged that the live files are not known
        broken = Violation.of(Broken.TIMELINE, error, table.uri)
        known = {(one.kind, one.culprit) for one in checked_timeline.findings.violations}
        stopped = Findings(
            () if (Broken.COMMIT, broken.culprit) in known else (broken,),
            ("files were not checked: the timeline is damaged",),
        )
        return Findings.joined([checked_timeline.findings, stopped], scope)
    begun = Findings(tuple(_import_left(table, timeline)))
    found = Findings.joined([checked_timeline.findings, begun, listing, *rows, *pages], scope)
    return replace(found, violations=tuple(_with_writer(one, committed) for one in found.violations))


_OF_FILE: Final = frozenset({Broken.ROWS, Broken.STATISTICS, Broken.KEY_RANGE, Broken.FILTER})
"""What the writer of a file made of it, whatever its rows are, and no damage of later makes."""


def _with_writer(violation: Violation, committed: Committed) -> Violation:
    """A violation about a file with the file's writer, which its commit names."""
    written = committed.by_path.get(violation.culprit)
    if written is None or violation.kind not in _OF_FILE:
        return violation
    return replace(violation, writer=Writer.LAKEINDEX if written.is_ours else Writer.OTHER)


def _unwritten(table: Table, snapshot: Snapshot) -> Iterator[str]:
    """Why lakeindex does not write to the table, which may be sound all the same."""
    try:
        check_written(table, snapshot)
    except LakeIndexError as error:
        yield f"lakeindex does not write to the table: {error.message} ({error.hint})"


def _check_pages(table: Table, snapshot: Snapshot, committed: Committed, runner: Runner) -> Sequence[Findings]:
    """Every page of every file that somebody may read: now, or as of an earlier instant."""
    folders = [snapshot.files_of(partition) for partition in snapshot.partitions()]
    written = committed.by_path
    tasks = [
        PagesTask(table.uri, file, written[file.path].digest if file.path in written else None)
        for files in folders
        for file in (*files.live, *files.older)
    ]
    return run_tasks(runner, check_pages, tasks, "check: pages")


class _Keys(Frozen):
    """How keys are made anew, or why they are not."""

    spec: KeySpec | None
    findings: Findings


def _check_rows(
    table: Table,
    snapshot: Snapshot,
    committed: Committed,
    runner: Runner,
    scope: str,
    then: Mapping[str, frozenset[str]],
) -> Sequence[Findings]:
    files = snapshot.base_files_all()
    if not files:
        return ()
    schema = table_schema(table, snapshot)
    keys = _key_spec(table, files, schema)
    stores_keys = table.properties.populate_meta_fields
    virtual = None if stores_keys or keys.spec is None else VirtualKeys(keys.spec, schema)
    index = table.index(snapshot.timeline)
    homes = tuple(_homes(index, snapshot)) if index is not None else ()
    with tempfile.TemporaryDirectory(prefix="lakeindex-check-") as folder:
        hashes = {file.path: Path(folder) / f"{number}.npy" for number, file in enumerate(files)}
        written = committed.by_path
        tasks = [
            FileTask(
                uri=table.uri,
                file=file,
                written=written.get(file.path),
                timeline=snapshot.timeline,
                schema=schema,
                keys=keys.spec,
                may_lie_elsewhere=scope == "table" or table.binding is None,
                hashes=hashes[file.path],
                index=index,
                columns=then.get(file.instant_time, frozenset()),
                virtual=virtual,
                stores_keys=stores_keys,
            )
            for file in files
        ]
        found = run_tasks(runner, check_file, tasks, "check: base files")
        unique = [_unique_task(table, scope, group, hashes, virtual) for group in _groups(files, scope)]
        doubled = run_tasks(runner, check_unique, unique, "check: one live row a key")
    return (keys.findings, Findings(homes), *found, *doubled)


def _homes(spec: IndexSpec, snapshot: Snapshot) -> Iterator[Violation]:
    """Partitions whose file groups are not as the index makes them: one a home."""
    homes = index_for(spec).homes
    if homes is None:
        return
    for partition in snapshot.partitions():
        files = snapshot.base_files(partition)
        groups = FileGroups({(partition, file.file_id): number for number, file in enumerate(files)})
        try:
            homes.group_of(partition, 0, groups)
        except TableCorruptError as error:
            yield Violation.of(Broken.BUCKET, error, partition)


def _groups(files: Sequence[BaseFile], scope: str) -> list[list[BaseFile]]:
    if scope == "table":
        return [list(files)]
    by_partition: dict[str, list[BaseFile]] = defaultdict(list)
    for file in files:
        by_partition[file.partition_path].append(file)
    return list(by_partition.values())


def _unique_task(
    table: Table, scope: str, files: Sequence[BaseFile], hashes: dict[str, Path], virtual: VirtualKeys | None
) -> UniqueTask:
    what = "the table" if scope == "table" else f"partition {files[0].partition_path!r}"
    there = tuple((file, hashes[file.path]) for file in files if hashes[file.path].exists())
    return UniqueTask(table.uri, what, there, virtual)


def _key_spec(table: Table, files: Sequence[BaseFile], schema: pa.Schema) -> _Keys:
    """How the table's keys are made; None if another writer's table does it in a way that is not ours."""
    options = WriteConfig()
    try:
        if table.binding is not None:
            return _Keys(KeySpec.from_properties(table.key_properties()), Findings(()))
        spec = spec_given(table, options)
    except LakeIndexError as error:
        return _Keys(None, Findings((), (f"keys were not made anew: {error.message}",)))
    try:
        samples = sample_rows(table, files, spec, schema)
        return _Keys(spelling_of(table, spec, samples, options, may_lie_elsewhere=True).spec, Findings(()))
    except TableCorruptError as error:
        return _Keys(None, Findings((Violation.of(Broken.RECORD_KEY, error, files[0].path),)))
    except LakeIndexError:
        return _Keys(spec, Findings(()))  # every file is asked, and says what differs
