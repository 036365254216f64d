"""Which base files make up the table at one moment.

A base file counts if its instant is visible (see :class:`~lakeindex.timeline.timeline.Timeline`) and its file group was
not replaced, and of each group the newest such file is the live one. The metadata table says which files there are, or
a listing of the folders, where a folder is a partition if it holds a partition metadata file. Checks, sweeps, deletions
and the look under the lock before a commit have to see what is really there, and list folders.

The metadata table is asked after the table's timeline was listed. A delta commit is completed before its commit is, so
the files of every commit that was listed are found. Three things are looked at before an answer is believed
(:func:`files_in_metadata`):

* The properties, read after it, still name the metadata table: whoever takes one away changes them first, and what
  was read of it may be half gone. If they do not, folders are listed.
* Every completed write on the timeline is one that the metadata table was told of. A writer that does not keep it up
  leaves files that it does not name; readers of it would lose rows.
* What is read is whole. A compaction may have taken the place of what was listed: then it is read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Final, TypeAlias

from msgspec import field
from msgspec.structs import replace

from lakeindex.errors import LakeIndexError, MetadataTableError, ObjectNotFoundError, TableCorruptError
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.format.file_names import METADATA_FOLDER, parse_base_file, parse_base_path
from lakeindex.format.instants import comparable
from lakeindex.format.partitions import PARTITION_METADATA_FILES
from lakeindex.frozen import ComparedInPart, Frozen
from lakeindex.metadata.metadata_table import FILES, MetadataTable
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.model import BaseFile
from lakeindex.storage import ObjectMeta, Storage, in_parallel
from lakeindex.timeline.timeline import Timeline

FilesByPartition: TypeAlias = Mapping[str, Mapping[str, int]]
"""Partition path -> file name -> bytes."""

_COMMITS_READ: Final = 30
"""Of the commits that are newer than a file the last ones: as many as Hudi's archiving leaves by default."""

AskMetadata: TypeAlias = Callable[[Timeline], FilesByPartition | None]
"""What the metadata table says, to who has loaded the timeline before; None: there is none any more."""


class PartitionFiles(Frozen):
    """The base files of one partition folder.

    Attributes:
        live: newest visible file of each live group, by file id.
        older: visible, but superseded by a newer slice or part of a replaced group (a clean may remove them).
        unseen: files of instants that are not visible: of running or failed writes, or newer than ``as_of``.
        doubles: files of a visible instant beside another of the same group and instant, written by another task
            attempt; the commit does not know them.
    """

    live: tuple[BaseFile, ...] = ()
    older: tuple[BaseFile, ...] = ()
    unseen: tuple[BaseFile, ...] = ()
    doubles: tuple[BaseFile, ...] = ()


class Snapshot(ComparedInPart):
    """The table as of one instant. Partitions are looked at when they are first asked for, and then remembered.

    Attributes:
        as_of: the newest instant that counts; ``None`` for all.
        replaced: when file groups were replaced: (partition path, file id) -> time.
        pending_clustering: (partition path, file id) of groups that a pending clustering will replace -> its instant.
        ask_metadata: asks the metadata table for the files, once; None: folders are listed.
    """

    aside: ClassVar = frozenset({"ask_metadata", "_answer", "_partitions", "_walked", "_stats", "_hidden"})
    storage: Storage
    timeline: Timeline
    as_of: str | None
    replaced: Mapping[tuple[str, str], str]
    pending_clustering: Mapping[tuple[str, str], str]
    ask_metadata: AskMetadata | None = None
    _answer: list[FilesByPartition | None] = field(default_factory=list)
    _partitions: dict[str, PartitionFiles] = field(default_factory=dict)
    _walked: list[tuple[str, ...]] = field(default_factory=list)
    _stats: dict[str, CommitMetadata | None] = field(default_factory=dict)
    _hidden: dict[str, BaseFile] = field(default_factory=dict)

    @property
    def instant_time(self) -> str | None:
        """The newest completed write that this snapshot holds; ``None`` on an empty table."""
        times = [one.time for one in self.timeline.completed_writes if self._counts(one.time)]
        return times[-1] if times else None

    def partitions(self, storage: Storage | None = None) -> tuple[str, ...]:
        """Paths of all partitions, sorted; ``("",)`` on a non-partitioned table that has data.

        Args:
            storage: another handle on the same folder, if the snapshot's own is not to be used.
        """
        if not self._walked:
            named = self._named
            found = self._walk(self.storage if storage is None else storage) if named is None else sorted(named)
            self._walked.append(tuple(found))
        return self._walked[0]

    @property
    def partitions_named(self) -> int:
        """How many partitions were asked for that the metadata table answered: each saved at least one listing."""
        return len(self._partitions) if self._answer and self._answer[0] is not None else 0

    @property
    def _named(self) -> FilesByPartition | None:
        """What the metadata table says; None: folders are to be listed."""
        if not self._answer:
            self._answer.append(None if self.ask_metadata is None else self.ask_metadata(self.timeline))
        return self._answer[0]

    def files_of(self, partition_path: str) -> PartitionFiles:
        """All base files of a partition, sorted out by what they are. Empty if there is no such partition."""
        known = self._partitions.get(partition_path)
        if known is None:
            named = self._named
            if named is None:
                objects = self.storage.list_folder(partition_path).objects
                known = self._sort_out(partition_path, _sizes(objects))
                if not _is_partition(objects):
                    self._hidden.update((partition_path, file) for file in known.live[:1])
                    known = PartitionFiles()
            else:
                known = self._sort_out(partition_path, named.get(partition_path, {}).items())
            self._partitions[partition_path] = known
        return known

    @property
    def is_behind(self) -> bool:
        """Whether files were found of writes that the timeline does not have as completed."""
        known = self.timeline.completed_write_times
        return any(file.instant_time not in known for one in self._partitions.values() for file in one.unseen)

    def hidden_file(self, partition_path: str) -> BaseFile | None:
        """A file that would be live if its folder had partition metadata; None if there is none, or it has."""
        self.files_of(partition_path)
        return self._hidden.get(partition_path)

    def has_partition(self, partition_path: str) -> bool:
        """Whether there is such a partition, with files or without."""
        if partition_path != partition_path.strip("/"):
            return False
        if self.base_files(partition_path) or partition_path in (self._named or ()):
            return True
        return _is_partition(self.storage.list_folder(partition_path).objects)

    def base_files(self, partition_path: str) -> tuple[BaseFile, ...]:
        return self.files_of(partition_path).live

    def base_files_all(self) -> tuple[BaseFile, ...]:
        """The live base files of all partitions, by partition, then file id."""
        return tuple(file for partition in self.partitions() for file in self.base_files(partition))

    def check_newest(self, files: Iterable[BaseFile], *, every: bool = False) -> None:
        """Make sure that live files are the newest of their groups by the commits, too: where a newer one is lost, an
        older slice stands in, and what is built on it never has the rows of the lost one.

        Nothing is read where no commit is newer than the files, nor where the metadata table names the files: it names
        lost ones, too. Of a long timeline the newest commits are read.

        Args:
            every: read all commits of the timeline that are newer: for work that takes much longer anyway.

        Raises:
            TableCorruptError: a commit names a newer one.
        """
        live = {(file.partition_path, file.file_id): comparable(file.instant_time) for file in files}
        if not live or self._named is not None:
            return
        oldest = min(live.values())
        newer = [one.time for one in self.timeline.completed_writes if comparable(one.time) > oldest]
        for time, partition, stat in self._last_stats(newer, {partition for partition, _ in live}, every=every):
            if live.get((partition, stat.file_id), "~") < comparable(time):
                _check_is_none(stat, time)

    def check_whole(self, partitions: Collection[str] | None, *, every: bool = False) -> None:
        """Make sure that no file group of some partitions (None: of all) has lost its newest slice, or its only one:
        who looks for a key would find an older row of it, or none.

        Nothing is read where the metadata table names the files, and of a long timeline the newest commits.

        Args:
            every: as of :meth:`check_newest`.

        Raises:
            TableCorruptError: a commit names a slice that is not there.
        """
        if self._named is not None:
            return
        found = self.base_files_all() if partitions is None else (f for one in partitions for f in self.base_files(one))
        live = {(file.partition_path, file.file_id): file for file in found}
        times = [one.time for one in self.timeline.completed_writes]
        for time, partition, stat in self._last_stats(times, partitions, every=every):
            file = live.get((partition, stat.file_id))
            is_older = file is None or comparable(file.instant_time) <= comparable(time)
            if is_older and (file is None or file.path != stat.path) and (partition, stat.file_id) not in self.replaced:
                _check_is_none(stat, time)

    def _last_stats(
        self, times: Sequence[str], partitions: Collection[str] | None, *, every: bool
    ) -> Iterator[tuple[str, str, WriteStat]]:
        """What the last of these commits say of files, in some partitions (None: in all), the newest commit first."""
        newest = times[::-1] if every else times[: -_COMMITS_READ - 1 : -1]
        for time, metadata in zip(newest, in_parallel(self.storage.uri, self._metadata, newest), strict=True):
            for partition, stats in () if metadata is None else metadata.write_stats.items():
                if partitions is None or partition in partitions:
                    yield from ((time, partition, stat) for stat in stats)

    def without(self, files: Iterable[BaseFile]) -> Snapshot:
        """The same without the file groups of these files: as after a write that replaces them."""
        gone = {(file.partition_path, file.file_id): file.instant_time for file in files}
        return replace(self, replaced={**self.replaced, **gone}, _partitions={}) if gone else self

    def with_partitions(self, partition_paths: Iterable[str]) -> Snapshot:
        """The same with folders that have no partition metadata: as it is once they have one. Folders are listed."""
        known = {path: self._sort_out(path, _sizes(self.storage.list_folder(path).objects)) for path in partition_paths}
        walked = tuple(sorted({*self.partitions(), *known}))
        return replace(self, _walked=[walked], _partitions={**self._partitions, **known})

    def preload(self, partition_paths: Iterable[str]) -> None:
        """Look at several partitions, listing them in parallel where it pays."""
        if self._named is not None:
            return
        missing = sorted({path for path in partition_paths if path not in self._partitions})
        in_parallel(self.storage.uri, self.files_of, missing)

    def _walk(self, storage: Storage) -> tuple[str, ...]:
        top = storage.list_folder("")
        folders = [path for path in top.folders if path.strip("/") != METADATA_FOLDER]
        deep = in_parallel(storage.uri, storage.list, folders)
        by_folder: dict[str, list[ObjectMeta]] = defaultdict(list, {"": list(top.objects)})
        for listed in deep:
            for one in _outside_nested_tables(listed):
                by_folder[one.path.rpartition("/")[0]].append(one)
        found = {path: objects for path, objects in by_folder.items() if _is_partition(objects)}
        for path, objects in found.items():
            self._partitions[path] = self._sort_out(path, _sizes(objects))
        return tuple(sorted(found))

    def _sort_out(self, partition_path: str, files_there: Iterable[tuple[str, int]]) -> PartitionFiles:
        groups: dict[str, list[BaseFile]] = defaultdict(list)
        unseen: list[BaseFile] = []
        for name, size in files_there:
            file = parse_base_file(partition_path, name, size)
            if file is not None:
                seen = self._counts(file.instant_time) and self.timeline.is_visible(file.instant_time)
                (groups[file.file_id] if seen else unseen).append(file)
        live: list[BaseFile] = []
        older: list[BaseFile] = []
        doubles: list[BaseFile] = []
        for file_id, files in groups.items():
            slices, spare = self._one_per_instant(files)
            doubles += spare
            if (partition_path, file_id) in self.replaced:
                older += slices
            else:
                live.append(slices[-1])
                older += slices[:-1]
        return PartitionFiles(*(tuple(sorted(files)) for files in (live, older, unseen, doubles)))

    def _one_per_instant(self, files: list[BaseFile]) -> tuple[list[BaseFile], list[BaseFile]]:
        """Slices in time order, one an instant, and the files that are in the way of another's place."""
        if len(files) == 1:
            return files, []
        by_instant: dict[str, list[BaseFile]] = defaultdict(list)
        for file in files:
            by_instant[file.instant_time].append(file)
        slices: list[BaseFile] = []
        spare: list[BaseFile] = []
        for time in sorted(by_instant, key=comparable):
            chosen = self._committed(by_instant[time])
            slices.append(chosen)
            spare += [file for file in by_instant[time] if file is not chosen]
        return slices, spare

    def _committed(self, rivals: list[BaseFile]) -> BaseFile:
        """The one of several files of a group and instant that the commit names; else the last by name."""
        if len(rivals) == 1:
            return rivals[0]
        metadata = self._metadata(rivals[0].instant_time)
        named = set() if metadata is None else {stat.path for stat in metadata.stats()}
        return max(rivals, key=lambda file: (file.path in named, file.name))

    def _metadata(self, time: str) -> CommitMetadata | None:
        if time not in self._stats:
            writes = [one for one in self.timeline.completed_writes if one.time == time]
            self._stats[time] = self.timeline.commit_metadata(self.storage, writes[0]) if writes else None
        return self._stats[time]

    def _counts(self, time: str) -> bool:
        return self.as_of is None or comparable(time) <= comparable(self.as_of)


def snapshot(
    storage: Storage, timeline: Timeline, as_of: str | None = None, *, ask_metadata: AskMetadata | None = None
) -> Snapshot:
    """The table as of an instant (inclusive), or as it is now.

    Args:
        ask_metadata: asks the metadata table for the files; None: folders are listed.

    Raises:
        TableCorruptError: a replacecommit or a pending clustering plan cannot be read.
    """
    return Snapshot(
        storage,
        timeline,
        as_of,
        timeline.replaced_at(storage, as_of),
        timeline.pending_clustering(storage),
        ask_metadata,
    )


def named_snapshot(storage: Storage, timeline: Timeline, named: FilesByPartition) -> Snapshot:
    """The table as it is now, of all files that there are, which somebody has named; no folder is listed."""
    return replace(snapshot(storage, timeline), _answer=[named])


def _check_is_none(stat: WriteStat, time: str) -> None:
    """Raises: TableCorruptError: what a commit says of a file that is not there is said of a base file."""
    lost = parse_base_path(stat.path or "")
    if lost is not None:
        raise missing_file(lost.path, time)


def missing_file(path: str, time: str) -> TableCorruptError:
    """What is said of a base file that is not there, though the commit of a time names it."""
    return TableCorruptError(
        f"base file {path} of the commit {time} is missing",
        culprit=path,
        hint="restore the file, or run `lakeindex repair TABLE`, and with --apply: it says what is lost, and makes a "
        f"new slice of what is left; or roll back the commit that wrote it: `lakeindex rollback TABLE {time}`; "
        "`lakeindex check TABLE` lists all that is wrong",
    )


def missing_then(path: str) -> TableCorruptError:
    """The same where the table is read as it was: a repair makes no past."""
    return TableCorruptError(
        f"base file {path} is missing",
        culprit=path,
        hint="restore the file from a copy, or read a later point in time; where it is live still, `lakeindex repair "
        "TABLE`, and with --apply, says what is lost, and makes a new slice of what is left, which is read from its "
        "own instant on",
    )


def loss_of(error: LakeIndexError) -> TableCorruptError | None:
    """What is said of a base file that went away after its footer was read; None if the error is another one."""
    lost = parse_base_path(error.culprit or "") if isinstance(error, ObjectNotFoundError) else None
    return None if lost is None else missing_file(lost.path, lost.instant_time)


def _sizes(objects: Iterable[ObjectMeta]) -> Iterable[tuple[str, int]]:
    return ((one.path.rpartition("/")[2], one.size_bytes) for one in objects)


def _is_partition(objects: Iterable[ObjectMeta]) -> bool:
    return any(one.path.rpartition("/")[2] in PARTITION_METADATA_FILES for one in objects)


def _outside_nested_tables(objects: list[ObjectMeta]) -> list[ObjectMeta]:
    """All but what belongs to other tables inside this one's folder."""
    inner = f"/{METADATA_FOLDER}/"
    roots = tuple({one.path.partition(inner)[0] + "/" for one in objects if inner in one.path})
    return [one for one in objects if not one.path.startswith(roots)] if roots else objects


def all_base_files(storage: Storage) -> list[BaseFile]:
    """Every base file below the table's folder, tables nested in it left out."""
    top = storage.list_folder("")
    objects = list(top.objects)
    for folder in top.folders:
        if folder != METADATA_FOLDER:
            objects += _outside_nested_tables(storage.list(folder))
    return _base_files(objects)


def base_files_in(storage: Storage, partitions: Iterable[str]) -> list[BaseFile]:
    """Every base file of some partitions."""
    return [file for path in sorted(set(partitions)) for file in _base_files(storage.list_folder(path).objects)]


def _base_files(objects: Iterable[ObjectMeta]) -> list[BaseFile]:
    parsed = (parse_base_path(one.path, one.size_bytes) for one in objects)
    return [file for file in parsed if file is not None]


_TRIES: Final = 3


def files_in_metadata(
    table: MetadataTable, timeline: Timeline, again: Callable[[], MetadataTable | None]
) -> FilesByPartition | None:
    """What the metadata table says: of every partition all files that were committed and not cleaned.

    Args:
        timeline: the one of the table that it is about, listed before.
        again: the metadata table, as the properties say now.

    Returns:
        Partition path -> file name -> bytes; None if readers use it no more.

    Raises:
        MetadataTableError: it does not know of a commit.
        TableCorruptError: it is damaged.
    """
    tries = 0
    while True:
        tries += 1
        found, failure = None, None
        try:
            found = _named_files(table, timeline)
        except (ObjectNotFoundError, TableCorruptError, MetadataTableError) as error:
            failure = error
        now = again()
        if now is None or FILES not in now.partitions:
            return None
        if failure is None:
            return found
        if tries == _TRIES:
            raise failure
        table = now


def _named_files(table: MetadataTable, timeline: Timeline) -> FilesByPartition:
    view = MetadataView.load(table, timeline)
    view.check_told()
    said = view.listing()
    return {**{key: {} for key in said.partitions}, **said.files}
