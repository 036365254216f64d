"""Layouts of a timeline: where the files of its instants are, how they are named, and what a commit's file holds.

Layout 1 (table version 6): JSON commits in ``.hoodie/``, an archive of log files. Layout 2 (versions 8 and 9):
Avro commits in ``.hoodie/timeline/``, whose names say when they were completed, an archive that is an LSM tree of
Parquet files.

Source: Hudi ``TimelineLayout``, ``InstantFileNameGeneratorV1`` and ``V2``; names: :mod:`lakeindex.format.instants`.

A table's version decides its layout. Versions 7 and below 6 never stood for long; Hudi upgrades them by itself. Version
10 is that of its main branch: it is read, and written where ``lakeindex.table.version10=write`` says so, until a
release that has it was run. Source: Hudi ``HoodieTableVersion``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from lakeindex.format.commit_metadata import CommitMetadata, format_commit_metadata, parse_commit_metadata
from lakeindex.format.instants import CLUSTERING, COMMIT, REPLACE_COMMIT, instant_file_name, next_instant_time
from lakeindex.frozen import Frozen
from lakeindex.model import Instant
from lakeindex.timeline.avro_instants import (
    AVRO_MAGIC,
    RequestedReplace,
    format_avro_commit_metadata,
    format_requested_replace,
    parse_avro_commit_metadata,
)

LAYOUT_1: Final = 1
LAYOUT_2: Final = 2
HOODIE_FOLDER: Final = ".hoodie"


class TimelineLayout(Frozen):
    """Where the files of one table's timeline are.

    Attributes:
        folder: the active timeline, relative to the table's folder.
        archive_folder: the archived timeline, relative to the table's folder.
    """

    version: int = LAYOUT_1
    folder: str = HOODIE_FOLDER
    archive_folder: str = f"{HOODIE_FOLDER}/archived"

    @property
    def has_completion_times(self) -> bool:
        """Whether the name of a completed instant says when it was completed."""
        return self.version != LAYOUT_1

    def completion_time(self, after: str | None, now_ms: int) -> str | None:
        """The completion time of an instant that is completed now: unique, and greater than all before; None in layout
        1.

        Args:
            after: the greatest time on the timeline, of any instant or completion. The table's lock is held.
            now_ms: what the table's clock shows (:func:`lakeindex.timeline.clock.timeline_ms`).
        """
        return next_instant_time(after, now_ms) if self.has_completion_times else None

    def path(self, instant: Instant) -> str:
        """Path of the file of an instant in its state, relative to the table's folder."""
        return f"{self.folder}/{instant_file_name(instant)}"

    def encode_commit(self, metadata: CommitMetadata, action: str = COMMIT) -> bytes:
        """What the file of a completed or inflight write holds.

        Args:
            action: of a completed write, what it is; an inflight file of any action holds what a commit's does.
        """
        if self.version == LAYOUT_1:
            return format_commit_metadata(metadata)
        return format_avro_commit_metadata(metadata, action)

    @property
    def clustering(self) -> str:
        """The action of a clustering that is not completed."""
        return CLUSTERING if self.has_completion_times else REPLACE_COMMIT

    def encode_requested(self, action: str) -> bytes:
        """What the requested file of a write holds: of a replacecommit Hudi's record with every field empty,
        as its insert overwrite has it.

        Not a clustering's: Hudi carries a clustering plan out by itself, and does not roll one back.
        """
        return b"" if action == COMMIT else format_requested_replace(RequestedReplace())

    def decode_commit(self, data: bytes, path: str) -> CommitMetadata:
        """What the file of a completed or inflight write says. A table that was upgraded or downgraded may
        hold either kind of file, whatever its layout is now.

        Raises:
            TableCorruptError: it is empty, truncated or not what its name says.
        """
        return (_parsed if len(data) > _KEPT_BYTES else _parsed_once)(data, path)


def _parsed(data: bytes, path: str) -> CommitMetadata:
    parse = parse_avro_commit_metadata if data.startswith(AVRO_MAGIC) else parse_commit_metadata
    return parse(data, path)


_KEPT_BYTES: Final = 2 * 1024 * 1024
_parsed_once = lru_cache(maxsize=2)(_parsed)
"""A run reads the newest commits several times: they may have changed, and mostly have not."""


class TableVersion(Frozen):
    """A version.

    Attributes:
        unread_by: readers of other versions that cannot read it, in words; None if all can.
    """

    number: int
    layout: int
    unread_by: str | None = None


VERSION_6: Final = TableVersion(6, LAYOUT_1)
VERSION_8: Final = TableVersion(8, LAYOUT_2, "Hudi 0.x, and what is built on it")
VERSION_9: Final = TableVersion(9, LAYOUT_2, "Hudi 0.x and 1.0, and what is built on them")
VERSION_10: Final = TableVersion(10, LAYOUT_2, "Hudi up to 1.2, hudi-rs up to 0.5, and what is built on them")

SEVERAL_ORDERING_FIELDS: Final = VERSION_9.number
"""From this version on a table may have more than one: Hudi before 1.1, which reads the others, knows one."""

VERSIONS: Final[dict[int, TableVersion]] = {one.number: one for one in (VERSION_6, VERSION_8, VERSION_9, VERSION_10)}


def layout_of_version(number: int) -> int:
    """Timeline layout of a table whose properties do not say it."""
    known = VERSIONS.get(number)
    if known is not None:
        return known.layout
    return LAYOUT_2 if number > VERSION_6.number else LAYOUT_1


def listed_versions() -> str:
    """The versions that are read and written, for a message."""
    *others, last = (str(number) for number in VERSIONS if number != VERSION_10.number)
    return f"versions {', '.join(others)} and {last} are read and written, and {VERSION_10.number} is read"
