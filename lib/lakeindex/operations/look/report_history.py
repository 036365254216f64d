"""A table over its runs: its size and files after every commit of the active timeline, and what each run took.

Size and files follow from the live files of today: every commit is taken back in turn, by what it says that it wrote.
So they are exact, whoever committed and whatever was archived since; only the size of a file that was superseded, and
cleaned, and whose commit was archived, is known to nobody. What a run took stands in its folder, which is kept for
some runs, and, as it was just before the commit, in the ledger, which is kept for good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from lakeindex.commit.ledger import announced_summary
from lakeindex.commit.written_slices import Commits, read_commits, written_slices
from lakeindex.errors import ObjectNotFoundError, TableCorruptError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.commit_metadata import NO_PREVIOUS, CommitMetadata
from lakeindex.format.instants import comparable
from lakeindex.model import Instant
from lakeindex.operations.consistent_read import read_consistently
from lakeindex.operations.look.history import iso_time
from lakeindex.pipeline import SUMMARY_FILE, default_checkpoints
from lakeindex.report.contents import SMALL_FILE_BYTES, CommitLine, TableReport
from lakeindex.report.make_report import false_positives_of
from lakeindex.run.summary import RunSummary
from lakeindex.storage import in_parallel
from lakeindex.storage.paths import absolute
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import BATCH_KEY, RUN_KEY

RUN_FOLDER: Final = "run folder"
LEDGER: Final = "ledger"


def table_report(uri: str, checkpoints: str | None = None) -> TableReport:
    """The history of a table.

    Args:
        checkpoints: root of the run folders; by default ``<table>.lakeindex`` beside the table.

    Raises:
        TableError: no table, or one that is not read; a damaged commit.
        WriteConflictError: other writers took away what was read, again and again.
    """

    def look(table: Table, timeline: Timeline) -> TableReport:
        root = checkpoints or default_checkpoints(absolute(uri))
        commits = read_commits(table, timeline)
        runs = storage_at(root)
        told = in_parallel(table.storage.uri, lambda one: _told(table.storage, runs, *one), commits)
        sizes = list(_Sizes(table.snapshot(timeline=timeline), commits))[::-1]
        lines = [
            _line(table, instant, metadata, size, found)
            for (instant, metadata), size, found in zip(commits, sizes, told, strict=True)
        ]
        return TableReport(table.name, table.uri, root, tuple(lines[::-1]), tuple(_notes(lines, root)))

    return read_consistently(uri, look)


class _Size:
    """What live files there are, while commits are taken back one by one."""

    def __init__(self) -> None:
        self.groups: dict[tuple[str, str], int | None] = {}
        self.bytes = self.small = self.unknown = 0

    def put(self, group: tuple[str, str], size: int | None) -> None:
        """Add a live file, or replace it; None: its size is not known."""
        self.take(group)
        self.groups[group] = size
        self._count(size, 1)

    def take(self, group: tuple[str, str]) -> None:
        """Remove a file, if it is there."""
        if group in self.groups:
            self._count(self.groups.pop(group), -1)

    def _count(self, size: int | None, by: int) -> None:
        if size is None:
            self.unknown += by
        else:
            self.bytes += by * size
            self.small += by * (size < SMALL_FILE_BYTES)


class _Sizes:
    """Files, bytes and small files after each commit, the newest first."""

    def __init__(self, snapshot: Snapshot, commits: Commits) -> None:
        self._commits = commits
        self._known: dict[tuple[str, str], dict[str, int]] = {}
        for instant, metadata in commits:
            for one in written_slices(instant, metadata):
                self._learn((one.file.partition_path, one.file.file_id), instant.time, one.file.size_bytes)
        self._size = _Size()
        for partition in snapshot.partitions():
            found = snapshot.files_of(partition)
            for file in (*found.older, *found.live):
                self._learn((partition, file.file_id), file.instant_time, file.size_bytes)
            for file in found.live:
                self._size.put((partition, file.file_id), file.size_bytes)

    def _learn(self, group: tuple[str, str], time: str, size: int) -> None:
        self._known.setdefault(group, {})[time] = size

    def __iter__(self) -> Iterator[tuple[int, int | None, int | None]]:
        for instant, metadata in reversed(self._commits):
            size = self._size
            known = not size.unknown
            yield len(size.groups), size.bytes if known else None, size.small if known else None
            self._take_back(instant, metadata)

    def _take_back(self, instant: Instant, metadata: CommitMetadata) -> None:
        for one in written_slices(instant, metadata):
            group = one.file.partition_path, one.file.file_id
            before = one.stat.prev_commit
            if before in (None, NO_PREVIOUS):
                self._size.take(group)
            else:
                self._size.put(group, self._known[group].get(str(before)))
        for group in metadata.replaced():
            self._size.put(group, self._newest(group, instant.time))

    def _newest(self, group: tuple[str, str], before: str) -> int | None:
        """Size of the newest slice of a file group before a commit replaced it."""
        times = self._known.get(group, {})
        older = (time for time in times if comparable(time) < comparable(before))
        newest = max(older, key=comparable, default=None)
        return None if newest is None else times[newest]


def _told(storage: Storage, runs: Storage, instant: Instant, metadata: CommitMetadata) -> tuple[str, RunSummary] | None:
    """What the run of a commit took, and where that is recorded; None if it is recorded nowhere."""
    run_id, batch_id = metadata.extra_metadata.get(RUN_KEY), metadata.extra_metadata.get(BATCH_KEY)
    if run_id and (left := _left(runs, run_id, instant.time)) is not None:
        return RUN_FOLDER, left
    noted = _parsed(lambda: announced_summary(storage, batch_id, instant.time)) if batch_id else None
    return None if noted is None else (LEDGER, noted)


def _left(runs: Storage, run_id: str, instant: str) -> RunSummary | None:
    found = _parsed(lambda: runs.read(f"{run_id}/{SUMMARY_FILE}"))
    return found if found is not None and found.instant == instant else None


def _parsed(read: Callable[[], str | bytes | None]) -> RunSummary | None:
    """A summary; None if it is not there, or damaged: the page has a line without seconds then."""
    try:
        text = read()
        return None if text is None else RunSummary.from_json(text)
    except (ObjectNotFoundError, TableCorruptError, ValueError, TypeError, KeyError):
        return None


def _line(
    table: Table,
    instant: Instant,
    metadata: CommitMetadata,
    size: tuple[int, int | None, int | None],
    told: tuple[str, RunSummary] | None,
) -> CommitLine:
    stats = list(metadata.stats())
    source, run = told or (None, None)
    files, total, small = size
    return CommitLine(
        instant=instant.time,
        time=iso_time(table, instant.time),
        operation=metadata.operation,
        batch_id=metadata.extra_metadata.get(BATCH_KEY),
        run_id=metadata.extra_metadata.get(RUN_KEY),
        files=files,
        bytes=total,
        small_files=small,
        inserts=sum(stat.num_inserts for stat in stats),
        updates=sum(stat.num_update_writes for stat in stats),
        deletes=sum(stat.num_deletes for stat in stats),
        files_written=len(stats),
        bytes_written=sum(stat.total_write_bytes for stat in stats),
        source=source,
        rows_in=None if run is None else run.rows_in,
        seconds=None if run is None else run.seconds,
        stage_seconds={} if run is None else {stage.name: stage.seconds for stage in run.stages},
        false_positives=None if run is None else false_positives_of(run),
        startup_seconds=None if run is None else run.startup_seconds,
        waiting_seconds=None if run is None else run.waiting_seconds,
    )


def _notes(lines: list[CommitLine], root: str) -> Iterator[str]:
    """What the lines lack, and why."""
    yield (
        "A line is a commit of the active timeline. Commits that were archived or rolled back, and runs that committed "
        "nothing, have none."
    )
    by_ledger = sum(one.source == LEDGER for one in lines)
    if by_ledger:
        yield (
            f"{by_ledger:,} of {len(lines):,} commits have no run folder in {root} any more "
            "(lakeindex.checkpoint.keep.runs says how many are kept): their seconds are those that the run wrote down "
            "just before it published, without the publication."
        )
    foreign = sum(one.run_id is None for one in lines)
    if foreign:
        yield f"{foreign:,} commits are other writers': rows and files are known, seconds and false positives are not."
    lost = sum(one.run_id is not None and one.source is None for one in lines)
    if lost:
        yield f"{lost:,} commits are lakeindex's, but neither a run folder nor the ledger tells what their runs took."
    unknown = sum(one.bytes is None for one in lines)
    if unknown:
        yield (
            f"The size after the oldest {unknown:,} commits is not known: files that were live then were cleaned, and "
            "the commits that wrote them archived. Their number is known."
        )
