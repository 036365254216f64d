"""File slices of the metadata table: a base file, if there is one, and the logs that belong to it.

::

    base file  <file id>_<write token>_<instant>.hfile
    log        .<file id>_<instant>.log.<number>_<write token>

The instant in a log's name is that of its slice in version 6, and its own delta commit's in versions 8 and 9. There a
log belongs to the newest base file whose instant is not later than the log's completion.

Source: ``HoodieFileGroup``, ``FSUtils`` of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeindex.errors import TableCorruptError
from lakeindex.format import instants as names
from lakeindex.metadata.metadata_table import GROUP_PREFIXES, MetadataTable
from lakeindex.storage.port import ObjectMeta
from lakeindex.timeline.timeline import Timeline

_BASE: Final = re.compile(r"(?P<group>[A-Za-z0-9-]+)_(?P<token>[0-9-]+)_(?P<instant>[0-9]+)\.hfile", re.ASCII)
_LOG: Final = re.compile(
    r"\.(?P<group>[A-Za-z0-9-]+)_(?P<instant>[0-9]+)\.log\.(?P<number>[0-9]+)_(?P<token>[0-9-]+)", re.ASCII
)


@dataclass(frozen=True, order=True, slots=True)
class LogFile:
    """A log.

    Attributes:
        instant: the one in its name.
        number: its number among those of that instant.
        token: write token.
        path: relative to the table's folder.
        size_bytes: as listed.
    """

    instant: str
    number: int
    token: str
    path: str
    size_bytes: int = 0

    @property
    def name(self) -> str:
        """File name."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class FileSlice:
    """The newest slice of a file group.

    Attributes:
        partition: partition of the metadata table.
        file_id: the file group.
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
    def next_log_number(self) -> int:
        """Number of a log that is added to the slice in version 6."""
        return max((log.number for log in self.logs if log.instant == self.instant), default=0) + 1


@dataclass(frozen=True, slots=True)
class PartitionSlices:
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

    Args:
        table: the metadata table.
        timeline: its timeline.
        partition: one that it has.

    Raises:
        TableCorruptError: there are none.
    """
    bases: dict[str, dict[str, ObjectMeta]] = defaultdict(dict)
    logs: dict[str, list[LogFile]] = defaultdict(list)
    prefix = GROUP_PREFIXES[partition]
    for one in table.storage.list_folder(table.folder(partition)).objects:
        name = one.path.rpartition("/")[2]
        if match := _LOG.fullmatch(name):
            log = LogFile(match["instant"], int(match["number"]), match["token"], one.path, one.size_bytes)
            logs[match["group"]].append(log)
        elif (match := _BASE.fullmatch(name)) and is_complete(timeline, match["instant"]):
            bases[match["group"]][match["instant"]] = one
    groups = sorted(group for group in {*bases, *logs} if group.startswith(f"{prefix}-"))
    if not groups:
        raise TableCorruptError(
            f"{table.folder(partition)} has no file groups",
            culprit=table.folder(partition),
            hint="build it anew: `lakeindex metadata drop`, then `lakeindex metadata build`",
        )
    ends = _completions(timeline) if table.layout.has_completion_times else None
    newest, expired = [], []
    for group in groups:
        found = _Group(partition, group, bases[group], logs[group], ends)
        newest.append(found.newest(pending_compaction(timeline)))
        expired += found.expired(timeline)
    return PartitionSlices(tuple(newest), tuple(sorted(expired)))


def is_complete(timeline: Timeline, time: str) -> bool:
    """Whether an instant of the metadata table is completed; those before its timeline are.

    Args:
        timeline: the metadata table's.
        time: the instant.
    """
    if time in timeline.completed_write_times:
        return True
    first = timeline.instants[0].time if timeline.instants else None
    return first is not None and time < first


def pending_compaction(timeline: Timeline) -> str | None:
    """The compaction that somebody has planned and not completed, if there is one."""
    return next((one.time for one in timeline.pending if one.action == names.COMPACTION), None)


@dataclass(frozen=True, slots=True)
class _Group:
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
