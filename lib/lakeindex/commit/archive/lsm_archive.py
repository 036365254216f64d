"""Writing the archive of layout 2: a Parquet file for each batch of instants, then the manifest that names it.

In Hudi's order: the Parquet file, ``manifest_<N+1>``, ``_version_``. The manifest is created where none is: of two who
write one of the same number, one is told. A Parquet file that no manifest names is what a killed writer left, and gives
way; so does a manifest that is not whole. When a level has ten files, they are merged into one of the next; the files
of the newest manifests stay for their readers.

Source: Hudi 1.2 ``LSMTimelineWriter``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from lakeindex.commit.archive.recorded import Recorded, overtaken
from lakeindex.errors import ObjectNotFoundError, TableCorruptError, TimelineChangedError
from lakeindex.format import instants as names
from lakeindex.format.file_names import crc_path
from lakeindex.format.instants import comparable
from lakeindex.model import Instant, InstantState
from lakeindex.storage import list_names
from lakeindex.storage.port import Storage
from lakeindex.timeline import records
from lakeindex.timeline.archive import lsm_files as lsm
from lakeindex.timeline.archive.lsm_files import ArchivedInstant, LsmFile, Manifest
from lakeindex.timeline.timeline import Timeline

_MERGED: Final = 10
_MOST_BYTES: Final = 1_000_000_000
_KEPT_MANIFESTS: Final = 3
_UNREADABLE: Final = -1
_NEWEST: Final = 4
"""Files of the lowest level that are looked into for instants that are on the timeline, too."""


@dataclass(frozen=True, slots=True)
class LsmArchive:
    """An archive that is an LSM tree.

    Attributes:
        storage: the table's folder.
        folder: the archive, relative to it.
    """

    storage: Storage
    folder: str

    def recorded(self) -> Recorded:
        """The completed instants in the newest files; none of an archive whose manifest cannot be read."""
        try:
            manifest = lsm.load_manifest(self.storage, self.folder)
        except TableCorruptError:
            return Recorded(frozenset(), _UNREADABLE)
        newest = sorted(manifest.files, key=lambda one: (comparable(one.last), -one.level))[-_NEWEST:]
        rows = (row for one in newest for row in self._rows_or_none(one))
        return Recorded(frozenset((row.time, row.action) for row in rows), manifest.number)

    def record(self, timeline: Timeline, files: Sequence[Instant], seen: Recorded) -> str:
        """Write a Parquet file, and the manifest behind the one that was seen.

        Raises:
            FencedError: another writer has written one there.
            TableCorruptError: the manifest that counts cannot be read.
        """
        rows = list(self._rows_of(timeline, files))
        manifest = lsm.load_manifest(self.storage, self.folder)
        if manifest.number != seen.number:
            raise overtaken(self._path(lsm.manifest_name(seen.number + 1)))
        name = lsm.file_name(rows[0].time, rows[-1].time, 0)
        if all(one.name != name for one in manifest.files):
            self._add(manifest, (), name, rows)
        return self._path(name)

    def tidy(self) -> None:
        """Merge the files of each level that has ten, then remove what no kept manifest names."""
        level, merged = 0, True
        while merged:
            merged = self._merge(level)
            level += 1
        if level > 1:
            self._clean(_KEPT_MANIFESTS + level - 1)

    def _rows_of(self, timeline: Timeline, files: Sequence[Instant]) -> Iterator[ArchivedInstant]:
        """A row for each completed instant, in time order."""
        in_order = sorted(files, key=_key)
        for key, group in groupby(in_order, key=_key):
            states = {one.state: one for one in group}
            done = states.get(InstantState.COMPLETED)
            if done is not None:
                content = self._content(timeline, done)
                yield ArchivedInstant(key[1], done.completion_time, done.action, content, self._plan(timeline, states))

    def _plan(self, timeline: Timeline, states: dict[InstantState, Instant]) -> bytes | None:
        """What Hudi keeps of the files before the completed one: a clean's or compaction's plan, and of what replaces
        file groups the inflight file, or the requested one if that is empty. Whether a commit is a compaction the
        files before it tell.
        """
        action = states[InstantState.COMPLETED].action
        began = {one.action for one in states.values()}
        wanted = {
            names.CLEAN: (InstantState.REQUESTED,),
            names.REPLACE_COMMIT: (InstantState.INFLIGHT, InstantState.REQUESTED),
            names.COMPACTION: (InstantState.REQUESTED,),
        }
        for state in wanted.get(names.COMPACTION if names.COMPACTION in began else action, ()):
            content = self._content(timeline, states[state]) if state in states else None
            if content:
                return content
        return None

    def _content(self, timeline: Timeline, instant: Instant) -> bytes | None:
        try:
            return self.storage.read(timeline.path(instant)) or None
        except ObjectNotFoundError:
            raise TimelineChangedError(
                f"{timeline.path(instant)} is gone: another writer archives the timeline",
                culprit=timeline.path(instant),
                hint="run again",
            ) from None

    def _add(self, manifest: Manifest, gone: Sequence[LsmFile], name: str, rows: Sequence[ArchivedInstant]) -> None:
        data = lsm.format_rows(rows)
        self._settle(self._path(name), data, manifest.number)
        kept = tuple(one for one in manifest.files if one not in gone)
        following = Manifest(manifest.number + 1, (*kept, lsm.named_file(name, len(data))))
        self._settle(self._path(lsm.manifest_name(following.number)), lsm.format_manifest(following), manifest.number)
        path = self._path(lsm.VERSION_FILE)
        records.remove(self.storage, [crc_path(path)])
        records.put(self.storage, path, str(following.number).encode())
        self.storage.sync([path])

    def _settle(self, path: str, data: bytes, counted: int) -> None:
        """Create a file, durably; what a killed writer left of one in its place gives way.

        Raises:
            FencedError: another writer has gone on since the manifest ``counted``.
        """
        if records.settle(self.storage, path, data) != data:
            if lsm.load_manifest(self.storage, self.folder).number != counted:
                raise overtaken(path)
            records.remove(self.storage, [crc_path(path)])  # Hadoop's checksum of what was there would not fit
            records.put(self.storage, path, data)
        self.storage.sync([path])

    def _merge(self, level: int) -> bool:
        manifest = lsm.load_manifest(self.storage, self.folder)
        there = lsm.in_order(one for one in manifest.files if one.level == level)
        if len(there) < _MERGED:
            return False
        chosen = _candidates(there)
        if len(chosen) < 2:
            return False
        rows = [row for one in chosen for row in self._rows(one)]
        first = min((one.first for one in chosen), key=comparable)
        last = max((one.last for one in chosen), key=comparable)
        self._add(manifest, chosen, lsm.file_name(first, last, level + 1), rows)
        return True

    def _clean(self, kept: int) -> None:
        listed = list_names(self.storage, self.folder)
        manifests = lsm.listed_manifests(listed)
        keep = sorted(manifests)[-kept:]
        if len(keep) == len(manifests):
            return
        needed = {one.name for number in keep for one in lsm.read_manifest(self.storage, self.folder, number).files}
        old = [manifests[number] for number in sorted(manifests) if number not in keep]
        files = [name for name in listed if lsm.parse_file(name, 0) is not None and name not in needed]
        for gone in (old, files):  # manifests first: none that is left names a file that is gone
            paths = [self._path(name) for name in gone]
            records.remove(self.storage, [one for path in paths for one in (path, crc_path(path))])

    def _rows_or_none(self, file: LsmFile) -> tuple[ArchivedInstant, ...]:
        try:
            return self._rows(file)
        except (TableCorruptError, ObjectNotFoundError):
            return ()

    def _rows(self, file: LsmFile) -> tuple[ArchivedInstant, ...]:
        path = self._path(file.name)
        return lsm.parse_rows(self.storage.read(path), path)

    def _path(self, name: str) -> str:
        return f"{self.folder}/{name}"


def _candidates(files: Sequence[LsmFile]) -> list[LsmFile]:
    """The oldest files of a level that are merged: ten, or fewer if they are large."""
    chosen: list[LsmFile] = []
    size = 0
    for one in files:
        size += one.size_bytes
        chosen.append(one)
        if len(chosen) >= _MERGED:
            break
        if size > _MOST_BYTES:
            if len(chosen) > 1:
                break
            chosen, size = [], 0
    return chosen


def _key(instant: Instant) -> tuple[str, str, str]:
    return comparable(instant.time), instant.time, names.completed_action(instant.action)
