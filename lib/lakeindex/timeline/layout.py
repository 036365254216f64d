"""Layouts of a timeline: where the files of its instants are, how they are named, and what a commit's file holds.

Layout 1 (table version 6): JSON commits in ``.hoodie/``, an archive of log files. Layout 2 (versions 8 and 9):
Avro commits in ``.hoodie/timeline/``, an archive that is an LSM tree of Parquet files, which is not read here.

Source: Hudi ``TimelineLayout``, ``InstantFileNameGeneratorV1`` and ``V2``; names: :mod:`lakeindex.format.instants`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakeindex.errors import TableUnsupportedError
from lakeindex.format.commit_metadata import CommitMetadata, format_commit_metadata, parse_commit_metadata
from lakeindex.format.instants import instant_file_name
from lakeindex.model import Instant
from lakeindex.timeline.avro_instants import AVRO_MAGIC, parse_avro_commit_metadata

LAYOUT_1: Final = 1
LAYOUT_2: Final = 2
HOODIE_FOLDER: Final = ".hoodie"


@dataclass(frozen=True, slots=True)
class TimelineLayout:
    """Where the files of one table's timeline are.

    Attributes:
        version: ``hoodie.timeline.layout.version``.
        folder: the active timeline, relative to the table's folder.
        archive_folder: the archived timeline, relative to the table's folder.
    """

    version: int = LAYOUT_1
    folder: str = HOODIE_FOLDER
    archive_folder: str = f"{HOODIE_FOLDER}/archived"

    @property
    def has_log_archive(self) -> bool:
        """Whether the archived timeline is made of log files, which are read here."""
        return self.version == LAYOUT_1

    def path(self, instant: Instant) -> str:
        """Path of the file of an instant in its state, relative to the table's folder."""
        return f"{self.folder}/{instant_file_name(instant)}"

    def encode_commit(self, metadata: CommitMetadata) -> bytes:
        """What the file of a completed or inflight write holds.

        Raises:
            TableUnsupportedError: commits of the layout are read only.
        """
        if self.version != LAYOUT_1:
            raise TableUnsupportedError(
                f"commits of timeline layout {self.version} are not written",
                culprit=self.folder,
                hint="another writer upgraded the table: write to it with Hudi",
            )
        return format_commit_metadata(metadata)

    def decode_commit(self, data: bytes, path: str) -> CommitMetadata:
        """What the file of a completed or inflight write says. A table that was upgraded or downgraded may
        hold either kind of file, whatever its layout is now.

        Raises:
            TableCorruptError: it is empty, truncated or not what its name says.
        """
        parse = parse_avro_commit_metadata if data.startswith(AVRO_MAGIC) else parse_commit_metadata
        return parse(data, path)
