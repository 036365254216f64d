"""The files of a table as its metadata table names them, for who has listed the table's timeline before.

A delta commit is completed before its commit is. So whoever lists the table's timeline first and then the metadata
table's finds the files of every commit that he knows. Three things are looked at before an answer is believed:

* The properties still name the metadata table, read after it: who takes one away changes them first, and what was
  read of it may be half gone. If they do not, folders are listed.
* Every completed write on the timeline is one that the metadata table was told of. A writer that does not keep it up
  leaves files that it does not name; readers of it would lose rows.
* What is read is whole. A compaction may have taken the place of what was listed: then it is read again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakeindex.errors import MetadataTableError, ObjectNotFoundError, TableCorruptError
from lakeindex.files.file_system_view import FilesByPartition
from lakeindex.metadata.metadata_table import FILES, MetadataTable
from lakeindex.metadata.reading import MetadataView
from lakeindex.timeline.timeline import Timeline

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
            found = _listing(table, timeline)
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


def _listing(table: MetadataTable, timeline: Timeline) -> FilesByPartition:
    view = MetadataView.load(table, timeline)
    view.check_told()
    said = view.listing()
    return {**{key: {} for key in said.partitions}, **said.files}
