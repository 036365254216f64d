"""File slices of the metadata table: a base file, if there is one, and the logs that belong to it.

::

    base file        <file id>_<write token>_<instant>.hfile
    log              .<file id>_<instant>.log.<number>_<write token>
    from version 10  <file id>_<write token>_<instant>_<number>.log.hfile, and .deletes.hfile for keys that go

The instant in a log's name is that of its slice in version 6, and its own delta commit's in later versions. There a
log belongs to the newest base file whose instant is not later than the log's completion. An upgrade to version 10
leaves the logs that are there as they are: a slice may have both kinds.

Source: ``HoodieFileGroup``, ``FSUtils`` of Hudi 0.15 and 1.2; ``FileNameParser`` of its main branch.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import Final

from lakeindex.errors import METADATA_ANEW, TableCorruptError, TableUnsupportedError
from lakeindex.format import instants as names
from lakeindex.frozen import Frozen
from lakeindex.metadata.indexed_columns import is_partitioned_index, read_definitions
from lakeindex.metadata.metadata_table import GROUP_PREFIXES, RECORD_INDEX, MetadataTable, is_of_data_partition
from lakeindex.storage import list_names
from lakeindex.storage.port import ObjectMeta
from lakeindex.timeline.timeline import Timeline

_BASE: Final = re.compile(r"(?P<group>.+)_(?P<token>[0-9-]+)_(?P<instant>[0-9]+)\.hfile", re.ASCII)
_LOG: Final = re.compile(r"\.(?P<group>.+)_(?P<instant>[0-9]+)\.log\.(?P<number>[0-9]+)_(?P<token>[0-9-]+)", re.ASCII)
_NATIVE: Final = re.compile(
    r"(?P<group>.+)_(?P<token>[0-9]+-[0-9]+-[0-9]+)_(?P<instant>[0-9]+)_(?P<number>[0-9]+)"
    r"\.(?P<form>[^.]+\.[^.]+)",
    re.ASCII,
)


class LogForm(IntEnum):
    """What a log is; of one instant and number what is put counts before what goes."""

    BLOCKS = 0
    PUTS = 1
    DELETES = 2


_FORMS: Final = {"log.hfile": LogForm.PUTS, "deletes.hfile": LogForm.DELETES}


class LogFile(Frozen, order=True):
    """A log.

    Attributes:
        path: relative to the table's folder.
    """

    instant: str
    number: int
    form: LogForm
    token: str
    path: str
    size_bytes: int = 0

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def parse_log(one: ObjectMeta) -> tuple[str, LogFile] | None:
    """A log and the file group that it is of; None of any other file.

    Raises:
        TableUnsupportedError: its form is none that a metadata table has.
    """
    name = one.path.rpartition("/")[2]
    match = _LOG.fullmatch(name)
    if match is not None:
        form = LogForm.BLOCKS
    else:
        match = _NATIVE.fullmatch(name)
        if match is None:
            return None
        if match["form"] not in _FORMS:
            raise TableUnsupportedError(
                f"{one.path} is a log of the form {match['form']}, which no metadata table is known to have",
                culprit=one.path,
                hint="read the table with the release of Hudi that wrote it, or without its metadata table: "
                "-o hoodie.metadata.enable=false",
            )
        form = _FORMS[match["form"]]
    log = LogFile(match["instant"], int(match["number"]), form, match["token"], one.path, one.size_bytes)
    return match["group"], log


def log_name(file_id: str, instant: str, number: int, form: LogForm, token: str) -> str:
    if form is LogForm.BLOCKS:
        return f".{file_id}_{instant}.log.{number}_{token}"
    kind = next(kind for kind, one in _FORMS.items() if one is form)
    return f"{file_id}_{token}_{instant}_{number}.{kind}"


class FileSlice(Frozen):
    """The newest slice of a file group.

    Attributes:
        partition: partition of the metadata table.
        instant: the slice's; a log of version 6 that is added to it has it in its name.
        base: its base file; None where nothing was compacted yet.
        logs: in the order in which they count.
    """

    partition: str
    file_id: str
    instant: str
    base: ObjectMeta | None
    logs: tuple[LogFile, ...]

    @property
    def base_name(self) -> str:
        """Name of the base file; empty if there is none."""
        return "" if self.base is None else self.base.path.rpartition("/")[2]

    @property
    def base_instant(self) -> str:
        match = _BASE.fullmatch(self.base_name)
        return "" if match is None else match["instant"]

    def is_of(self, data_partition: str | None) -> bool:
        """Whether it has keys of a partition of the table; None: whether it has keys of all of them."""
        return is_of_data_partition(self.file_id, self.partition, data_partition)

    @property
    def next_log_number(self) -> int:
        """Number of a log that is added to the slice in version 6."""
        return max((log.number for log in self.logs if log.instant == self.instant), default=0) + 1


class PartitionSlices(Frozen):
    """A partition of the metadata table.

    Attributes:
        newest: the newest slice of each file group, by the groups' numbers.
        expired: paths of base files and logs of slices that are older than those that the newest took the place of.
            Who began to read before the newest was there still needs the latter.
    """

    newest: tuple[FileSlice, ...]
    expired: tuple[str, ...]


def load_slices(table: MetadataTable, timeline: Timeline, partition: str) -> PartitionSlices:
    """List the slices of a partition.

    A base file of which the timeline says nothing may be newer than it: then those before may be gone already, and the
    timeline is listed again. Base files that are older than the timeline need no such care.

    Raises:
        TableCorruptError: there are none.
    """
    bases: dict[str, dict[str, ObjectMeta]] = defaultdict(dict)
    logs: dict[str, list[LogFile]] = defaultdict(list)
    prefix = GROUP_PREFIXES[partition]
    objects = table.storage.list_folder(table.folder(partition)).objects
    if any(map(partial(_is_unknown, timeline), objects)):
        timeline = table.load_timeline()
    for one in objects:
        if found := parse_log(one):
            logs[found[0]].append(found[1])
        elif (match := _BASE.fullmatch(one.path.rpartition("/")[2])) and is_complete(timeline, match["instant"]):
            bases[match["group"]][match["instant"]] = one
    groups = sorted(group for group in {*bases, *logs} if group.startswith(f"{prefix}-"))
    if not groups and not is_without_groups(table, partition):
        raise TableCorruptError(
            f"{table.folder(partition)} has no file groups",
            culprit=table.folder(partition),
            hint=METADATA_ANEW,
        )
    ends = _completions(timeline) if table.layout.has_completion_times else None
    newest, expired = [], []
    for group in groups:
        files = _Group(partition, group, bases[group], logs[group], ends)
        newest.append(files.newest(pending_compaction(timeline)))
        expired += files.expired(timeline)
    return PartitionSlices(tuple(newest), tuple(sorted(expired)))


def instants_of_files(table: MetadataTable) -> frozenset[str]:
    """Instants in the names of all base files and logs of the metadata table."""
    folders = [table.folder(partition) for partition in table.partitions]
    listed = [name for folder in folders for name in list_names(table.storage, folder)]
    found = (_LOG.fullmatch(name) or _NATIVE.fullmatch(name) or _BASE.fullmatch(name) for name in listed)
    return frozenset(match["instant"] for match in found if match)


def is_without_groups(table: MetadataTable, partition: str) -> bool:
    """Whether a partition of the metadata table may have no file groups: a partitioned record index of an empty table.

    Raises:
        TableCorruptError: the definitions of the indexes cannot be read.
    """
    return partition == RECORD_INDEX and is_partitioned_index(read_definitions(table.storage))


def is_complete(timeline: Timeline, time: str) -> bool:
    """Whether a write of the metadata table is completed; those before its timeline are, unless they are pending.

    Its timeline begins with its first completed write: Hudi 0.15 archives cleans and rollbacks apart from writes, so
    older ones of those may be there still. Source: ``BaseHoodieLogRecordReader``, ``HoodieFileGroup`` of Hudi 1.2,
    which ask the timeline of completed writes ``containsOrBeforeTimelineStarts``.
    """
    if time in timeline.completed_write_times:
        return True
    first = timeline.first_write_time
    return first is not None and time < first and time not in timeline.pending_times


def _is_unknown(timeline: Timeline, one: ObjectMeta) -> bool:
    match = _BASE.fullmatch(one.path.rpartition("/")[2])
    return match is not None and not (is_complete(timeline, match["instant"]) or timeline.find(match["instant"]))


def pending_compaction(timeline: Timeline) -> str | None:
    """The compaction that somebody has planned and not completed, if there is one."""
    return next((one.time for one in timeline.pending if one.action == names.COMPACTION), None)


class _Group(Frozen):
    """All files of a file group.

    Attributes:
        bases: completed base files by their instants.
        ends: when each instant of the timeline was completed; None in timeline layout 1.
    """

    partition: str
    file_id: str
    bases: Mapping[str, ObjectMeta]
    logs: Sequence[LogFile]
    ends: Mapping[str, str] | None

    def newest(self, planned: str | None) -> FileSlice:
        """The newest slice. In layout 1 logs of a compaction that is not completed come behind those it compacts."""
        base = max(self.bases, default="")
        if self.ends is None:
            counted = sorted(log for log in self.logs if log.instant >= base)
            instant = max([base, planned or "", *(log.instant for log in counted)])
        else:
            ends = self.ends
            known = (log for log in self.logs if ends.get(log.instant, "") >= (base or "0"))
            counted = sorted(known, key=lambda log: (ends[log.instant], log))
            instant = base or min((log.instant for log in counted), default="")
        return FileSlice(self.partition, self.file_id, instant, self.bases.get(base), tuple(counted))

    def expired(self, timeline: Timeline) -> list[str]:
        """What belongs to slices before the last but one; logs of instants that are pending never do."""
        if len(self.bases) < _KEPT:
            return []
        bound = sorted(self.bases)[-_KEPT]
        old = [one.path for time, one in self.bases.items() if time < bound]
        for log in self.logs:
            end = log.instant if self.ends is None else self.ends.get(log.instant, log.instant)
            if end < bound and is_complete(timeline, log.instant):
                old.append(log.path)
        return old


_KEPT: Final = 2


def _completions(timeline: Timeline) -> dict[str, str]:
    return {one.time: one.completion_time or one.time for one in timeline.completed_writes}
