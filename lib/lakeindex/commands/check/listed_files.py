"""Check what lies in the table's folders against what the commits say:
nothing missing, nothing that no instant explains.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakeindex.commands.check.report import Broken, Checked, Findings, Violation
from lakeindex.commands.metadata.index_faults import find_index_faults
from lakeindex.commands.metadata.verify import find_faults
from lakeindex.commands.written_slices import Commits, WrittenSlice, live_slices, missing_slices, written_slices
from lakeindex.commit.services.metadata_build import committed_files
from lakeindex.commit.undo.sweep import find_unexplained
from lakeindex.errors import ObjectNotFoundError, TableCorruptError, TableError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.file_names import TEMP_FOLDER, parse_base_file
from lakeindex.format.partition_metadata import (
    PARTITION_METADATA_FILE,
    PARTITION_METADATA_FILES,
    parse_partition_metadata,
    partition_depth,
    partition_metadata_path,
)
from lakeindex.metadata.metadata_table import FILES, METADATA_ROOT
from lakeindex.metadata.reading import MetadataView
from lakeindex.model import BaseFile
from lakeindex.storage import list_names
from lakeindex.table.handle import Table
from lakeindex.table.metadata_kept import metadata_table_of

_SWEEP = "delete it: once its instant is older than the timeline, every reader would see it"
_SWEPT = "the next upsert into its partition, or `lakeindex maintain`, deletes it"
_LEAVE = (
    "leave it unless you know that its write failed: it may have been hidden for a while only, "
    "by an archiving or an upgrade. Neither sweeping nor archiving touches its instant"
)


@dataclass(frozen=True)
class Committed:
    """What the active commits say was written.

    Attributes:
        by_path: every base file, by path.
        live: the newest slice of each group, by (partition path, file id).
    """

    by_path: dict[str, WrittenSlice]
    live: dict[tuple[str, str], WrittenSlice]

    @staticmethod
    def of(commits: Commits) -> Committed:
        """Collect it."""
        slices = (one for instant, metadata in commits for one in written_slices(instant, metadata))
        return Committed({one.file.path: one for one in slices}, live_slices(commits))


def check_listing(table: Table, snapshot: Snapshot, committed: Committed) -> Findings:
    """Check the folders of all partitions."""
    violations: list[Violation] = [*_missing(table, snapshot, committed), *_misled(table, snapshot)]
    older = 0
    unexplained = frozenset(find_unexplained(snapshot))
    for partition in snapshot.partitions():
        violations += _check_partition_metadata(table, partition)
        violations += _check_folder(table, snapshot, committed, partition, unexplained)
        older += len(snapshot.files_of(partition).older)
    checked = Checked(partitions=len(snapshot.partitions()), older_files=older)
    return Findings(tuple(violations), tuple(_notes(table, snapshot)), checked)


def _missing(table: Table, snapshot: Snapshot, committed: Committed) -> Iterator[Violation]:
    partitions = set(snapshot.partitions())
    for one in missing_slices(snapshot, committed.live):
        path, partition = one.file.path, one.file.partition_path
        if partition not in partitions and _is_there(table, path):
            meta = partition_metadata_path(partition)
            yield Violation(
                Broken.PARTITION, meta, f"{path} is there, but {meta} is not: no reader finds the partition", "write it"
            )
            continue
        yield Violation(
            Broken.MISSING_FILE,
            path,
            f"{path} of the commit {one.instant.time} is missing",
            "restore the file, or roll back the commit that wrote it",
        )


def _misled(table: Table, snapshot: Snapshot) -> Iterator[Violation]:
    """What readers that list files from the metadata table would not find, or in vain."""
    metadata = metadata_table_of(table.storage, table.properties)
    if metadata is None:
        return
    view, there = MetadataView.load(metadata, snapshot.timeline), committed_files(snapshot)
    try:
        faults = list(find_faults(view, there))
    except (TableCorruptError, ObjectNotFoundError) as error:
        yield Violation.of(Broken.METADATA_TABLE, error, metadata.folder(""))
        return
    try:
        faults += find_index_faults(view, snapshot, there)
    except (TableCorruptError, ObjectNotFoundError) as error:
        if error.culprit is None or error.culprit.startswith(METADATA_ROOT):  # a file that is damaged is told of itself
            yield Violation.of(Broken.METADATA_TABLE, error, metadata.folder(""))
    for fault in faults:
        message = f"the metadata table says {fault.said} of {fault.path or 'the table'}, and there is {fault.is_so}"
        yield Violation(Broken.METADATA_TABLE, fault.path, message, fault.mend)


def _is_there(table: Table, path: str) -> bool:
    try:
        table.storage.head(path)
    except ObjectNotFoundError:
        return False
    return True


def _check_partition_metadata(table: Table, partition: str) -> Iterator[Violation]:
    if PARTITION_METADATA_FILE not in list_names(table.storage, partition):
        return  # the Parquet or ORC form; being there is all that is asked of it
    path = partition_metadata_path(partition)
    try:
        found = parse_partition_metadata(table.storage.read(path), path)
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


def _notes(table: Table, snapshot: Snapshot) -> Iterator[str]:
    pending = snapshot.timeline.pending_times
    left = [path.rstrip("/").rpartition("/")[2] for path in table.storage.list_folder(TEMP_FOLDER).folders]
    done = sorted(time for time in left if time not in pending)
    if done:
        yield f"markers of finished instants were left behind: {', '.join(done)}"
    others = [name for name in table.properties.metadata_partitions if name != FILES]
    if others:
        yield f"these partitions of the metadata table were not compared with the files: {', '.join(others)}"
