"""The port by which instants are put into the archive; each timeline layout has its adapter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lakeindex.commit.archive.log_archive import LogArchive
from lakeindex.commit.archive.lsm_archive import LsmArchive
from lakeindex.commit.archive.recorded import Recorded
from lakeindex.model import Instant
from lakeindex.storage.port import Storage
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.timeline import Timeline


class TimelineArchive(Protocol):
    """The archive of one table. Whoever writes to it holds the table's lock."""

    def recorded(self) -> Recorded:
        """What was archived last. Nothing of a file that cannot be read."""

    def record(self, timeline: Timeline, files: Sequence[Instant], seen: Recorded) -> str:
        """Put instants into the archive, durably; the path of what was written.

        Args:
            timeline: the timeline, with their files.
            files: the instants in every state that has a file.
            seen: what was archived when they were chosen.

        Raises:
            FencedError: another writer has archived since then, and may have archived the same.
        """

    def tidy(self) -> None:
        """Merge what is in many files."""


def archive_of(storage: Storage, layout: TimelineLayout) -> TimelineArchive:
    """The archive of a table.

    Args:
        storage: the table's folder.
        layout: of its timeline.
    """
    kind = LsmArchive if layout.has_completion_times else LogArchive
    return kind(storage, layout.archive_folder)
