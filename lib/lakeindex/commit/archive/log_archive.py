"""Writing the archive of layout 1: each time a new log file, ``.commits_.archive.<N>_1-0-1``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakeindex.commit.archive.log_entries import SCHEMA, archived_entry, entry_key
from lakeindex.commit.archive.recorded import Recorded, overtaken
from lakeindex.errors import ObjectNotFoundError, TableCorruptError
from lakeindex.model import Instant
from lakeindex.storage.port import Storage
from lakeindex.timeline import records
from lakeindex.timeline.log_files import format_avro_block, parse_avro_records
from lakeindex.timeline.timeline import Timeline

_LOG: Final = re.compile(r"\.commits_\.archive\.(?P<number>[0-9]+)_[0-9]+-[0-9]+-[0-9]+")


@dataclass(frozen=True, slots=True)
class LogArchive:
    """An archive of log files.

    Attributes:
        storage: the table's folder.
        folder: the archive, relative to it.
    """

    storage: Storage
    folder: str

    def recorded(self) -> Recorded:
        """The completed instants in the newest log file."""
        number = self._newest_number()
        path = self._path(number)
        try:
            found = parse_avro_records(self.storage.read(path), path, entry_key) if number else []
        except (TableCorruptError, ObjectNotFoundError):
            found = []
        return Recorded(frozenset(key for key in found if key is not None), number)

    def record(self, timeline: Timeline, files: Sequence[Instant], seen: Recorded) -> str:
        """Write the log file behind the one that was seen. Raises: FencedError: somebody has written one there."""
        listed = self.storage.list_folder(timeline.layout.folder).objects
        modified = {one.path: one.modified_ms for one in listed}
        entries = [archived_entry(self.storage, timeline, one, modified.get(timeline.path(one), 0)) for one in files]
        path = self._path(seen.number + 1)
        data = format_avro_block(SCHEMA, entries)
        if records.settle(self.storage, path, data) != data:
            raise overtaken(path)
        self.storage.sync([path])
        return path

    def tidy(self) -> None:
        """Nothing: Hudi merges log files where it is told to."""

    def _newest_number(self) -> int:
        """Number of the newest log file; 0 if there is none."""
        listed = self.storage.list_folder(self.folder).objects
        found = (_LOG.fullmatch(one.path.rpartition("/")[2]) for one in listed)
        return max((int(match["number"]) for match in found if match), default=0)

    def _path(self, number: int) -> str:
        """The newest log file may carry another write token: Hudi's are of one writer, and so are always this one."""
        return f"{self.folder}/.commits_.archive.{number}_1-0-1"
