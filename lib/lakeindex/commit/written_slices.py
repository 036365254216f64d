"""What the commits of a table say was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footers import read_shape
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.format.file_names import parse_base_path
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.model import BaseFile, Instant
from lakeindex.storage import in_parallel
from lakeindex.table.handle import Table
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import BATCH_KEY


class WrittenSlice(Frozen):
    """A base file as the commit that wrote it describes it.

    Attributes:
        digest: of its footer, if the commit says.
        is_ours: lakeindex wrote it, which says so in its commits.
    """

    file: BaseFile
    stat: WriteStat
    instant: Instant
    digest: str | None = None
    is_ours: bool = False


Commits = Sequence[tuple[Instant, CommitMetadata]]


def read_commits(table: Table, timeline: Timeline, as_of: str | None = None) -> Commits:
    """Completed writes of the active timeline with what they did, oldest first.

    Raises:
        TableCorruptError: one of them cannot be read.
    """
    writes = [one for one in timeline.completed_writes if as_of is None or not_after(one.time, as_of)]
    read = in_parallel(table.storage.uri, lambda one: timeline.commit_metadata(table.storage, one), writes)
    return list(zip(writes, read, strict=True))


def not_after(time: str, limit: str) -> bool:
    return comparable(time) <= comparable(limit)


def written_slices(instant: Instant, metadata: CommitMetadata) -> Iterable[WrittenSlice]:
    """The base files that one commit names."""
    digests, is_ours = metadata.footer_digests, BATCH_KEY in metadata.extra_metadata
    for stat in metadata.stats():
        file = None if stat.path is None else parse_base_path(stat.path, stat.file_size_bytes)
        if file is not None:
            yield WrittenSlice(file, stat, instant, digests.get(file.path), is_ours)


def live_slices(commits: Commits) -> dict[tuple[str, str], WrittenSlice]:
    """The newest slice that these commits wrote of each file group, by (partition path, file id)."""
    newest: dict[tuple[str, str], WrittenSlice] = {}
    replaced: set[tuple[str, str]] = set()
    for instant, metadata in commits:
        replaced |= metadata.replaced()
        for one in written_slices(instant, metadata):
            newest[one.file.partition_path, one.file.file_id] = one
    return {group: one for group, one in newest.items() if group not in replaced}


def rows_of_files(table: Table, commits: Commits, files: Sequence[BaseFile]) -> dict[str, int]:
    """The rows of live files by path: from the commits' stats; from the footer of a file that no commit names.

    Raises:
        TableCorruptError: a footer cannot be read.
    """
    stated = {one.file.path: one.stat.num_writes for one in live_slices(commits).values()}
    unknown = [file for file in files if file.path not in stated]
    storage = table.storage
    footers = in_parallel(storage.uri, lambda file: read_shape(storage, file).rows, unknown)
    known = stated | {file.path: rows for file, rows in zip(unknown, footers, strict=True)}
    return {file.path: known[file.path] for file in files}


def missing_slices(snapshot: Snapshot, live: Mapping[tuple[str, str], WrittenSlice]) -> list[WrittenSlice]:
    """Committed slices that are not there: without them the listing shows an older slice, a stray, or none."""
    listed = {(f.partition_path, f.file_id): f for f in snapshot.base_files_all()}
    return [one for group, one in sorted(live.items()) if not _stands_for(listed.get(group), one)]


def _stands_for(file: BaseFile | None, written: WrittenSlice) -> bool:
    """Whether the listed file is the committed slice, or a newer one."""
    if file is None:
        return False
    return file.path == written.file.path or comparable(file.instant_time) > comparable(written.instant.time)
