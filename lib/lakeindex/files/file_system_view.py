"""Which base files make up the table at one moment.

Files are found by listing folders, never by the metadata table: a folder is a partition if it holds a partition
metadata file, a base file counts if its instant is visible (see :class:`~lakeindex.timeline.timeline.Timeline`) and its
file group was not replaced, and of each group the newest such file is the live one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakeindex.errors import PendingInstantError
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.file_names import METADATA_FOLDER, parse_base_file
from lakeindex.format.instants import comparable
from lakeindex.format.partition_metadata import PARTITION_METADATA_FILES
from lakeindex.model import BaseFile
from lakeindex.storage import ObjectMeta, Storage, in_parallel
from lakeindex.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class PartitionFiles:
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


@dataclass(frozen=True)
class Snapshot:
    """The table as of one instant. Partitions are listed when they are first asked for, and then remembered.

    Attributes:
        storage: the table's folder.
        timeline: the instants it is made from.
        as_of: the newest instant that counts; ``None`` for all.
        replaced: when file groups were replaced: (partition path, file id) -> time.
        pending_clustering: (partition path, file id) of groups that a pending clustering will replace.
    """

    storage: Storage = field(repr=False)
    timeline: Timeline
    as_of: str | None
    replaced: Mapping[tuple[str, str], str]
    pending_clustering: frozenset[tuple[str, str]]
    _partitions: dict[str, PartitionFiles] = field(default_factory=dict, repr=False, compare=False)
    _walked: list[tuple[str, ...]] = field(default_factory=list, repr=False, compare=False)
    _stats: dict[str, CommitMetadata | None] = field(default_factory=dict, repr=False, compare=False)

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
            self._walked.append(self._walk(self.storage if storage is None else storage))
        return self._walked[0]

    def files_of(self, partition_path: str) -> PartitionFiles:
        """All base files of a partition, sorted out by what they are. Empty if there is no such partition."""
        known = self._partitions.get(partition_path)
        if known is None:
            objects = self.storage.list_folder(partition_path).objects
            known = self._sort_out(partition_path, objects) if _is_partition(objects) else PartitionFiles()
            self._partitions[partition_path] = known
        return known

    def base_files(self, partition_path: str) -> tuple[BaseFile, ...]:
        """The live base file of each file group of a partition, sorted by file id."""
        return self.files_of(partition_path).live

    def base_files_all(self) -> tuple[BaseFile, ...]:
        """The live base files of all partitions, by partition, then file id."""
        return tuple(file for partition in self.partitions() for file in self.base_files(partition))

    def refuse_clustered(self, files: Iterable[BaseFile]) -> None:
        """Let nobody change a file group that a pending clustering is going to replace.

        Raises:
            PendingInstantError: one of these files is of such a group.
        """
        for file in files:
            if (file.partition_path, file.file_id) in self.pending_clustering:
                raise PendingInstantError(
                    f"file group {file.file_id} in {file.partition_path!r} is part of a pending clustering",
                    culprit=file.path,
                    hint="let the clustering finish, or roll it back with Hudi, then run the command again",
                )

    def preload(self, partition_paths: Iterable[str]) -> None:
        """List several partitions, in parallel where it pays."""
        missing = sorted({path for path in partition_paths if path not in self._partitions})
        in_parallel(self.storage.uri, self.files_of, missing)

    def _walk(self, storage: Storage) -> tuple[str, ...]:
        top = storage.list_folder("")
        folders = [path for path in top.folders if path.strip("/") != METADATA_FOLDER]
        deep = in_parallel(storage.uri, storage.list, folders)
        by_folder: dict[str, list[ObjectMeta]] = defaultdict(list, {"": list(top.objects)})
        for listed in deep:
            for path, objects in _without_nested_tables(listed).items():
                by_folder[path] += objects
        found = {path: objects for path, objects in by_folder.items() if _is_partition(objects)}
        for path, objects in found.items():
            self._partitions[path] = self._sort_out(path, objects)
        return tuple(sorted(found))

    def _sort_out(self, partition_path: str, objects: Iterable[ObjectMeta]) -> PartitionFiles:
        groups: dict[str, list[BaseFile]] = defaultdict(list)
        unseen: list[BaseFile] = []
        for one in objects:
            file = parse_base_file(partition_path, one.path.rpartition("/")[2], one.size_bytes)
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


def snapshot(storage: Storage, timeline: Timeline, as_of: str | None = None) -> Snapshot:
    """The table as of an instant (inclusive), or as it is now.

    Raises:
        TableCorruptError: a replacecommit or a pending clustering plan cannot be read.
    """
    return Snapshot(
        storage,
        timeline,
        as_of,
        timeline.replaced_at(storage, as_of),
        timeline.pending_clustering(storage),
    )


def _is_partition(objects: Iterable[ObjectMeta]) -> bool:
    return any(one.path.rpartition("/")[2] in PARTITION_METADATA_FILES for one in objects)


def _without_nested_tables(objects: Iterable[ObjectMeta]) -> dict[str, list[ObjectMeta]]:
    """Objects by folder, without anything that belongs to another table inside this one's folder."""
    by_folder: dict[str, list[ObjectMeta]] = defaultdict(list)
    nested: set[str] = set()
    for one in objects:
        folder = one.path.rpartition("/")[0]
        inner, found, _ = f"{folder}/".partition(f"/{METADATA_FOLDER}/")
        if found:
            nested.add(f"{inner}/")
        else:
            by_folder[folder].append(one)
    roots = tuple(nested)
    return (
        {path: found for path, found in by_folder.items() if not f"{path}/".startswith(roots)} if roots else by_folder
    )
