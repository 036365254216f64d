"""Read from a table as it is at one moment, anew if other writers take away what is being read."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from lakeindex.commands.written_slices import open_at
from lakeindex.errors import MOVED_ERRORS, IndexChangedError, WriteConflictError
from lakeindex.table.handle import Table
from lakeindex.timeline.timeline import Timeline

_T = TypeVar("_T")
_LOG: Final = logging.getLogger(__name__)

TRIES: Final = 5
"""How often a reader begins before it gives up."""


def read_consistently(uri: str, read: Callable[[Table, Timeline], _T], *, use_metadata: bool = True) -> _T:
    """Open a table, list its timeline, and read; anew if that fails and the timeline is another one by now.

    A rollback, a clean or an archiving removes files that a reader has listed. Each of them changes the timeline before
    it removes anything, so an error beside an unchanged timeline is damage, and raised as it is; a stored index says
    itself whether it was folded meanwhile.

    Args:
        read: what to do with the table and the timeline that was listed; nothing of an earlier try is left.
        use_metadata: ``hoodie.metadata.enable``.

    Raises:
        TableError: no table, or one that is not read; damage.
        WriteConflictError: other writers changed the table in every try.
    """
    tries = 0
    while True:
        tries += 1
        table = open_at(uri, use_metadata=use_metadata)
        timeline = None
        try:
            timeline = table.load_timeline()
            return read(table, timeline)
        except MOVED_ERRORS as error:
            is_sure = isinstance(error, IndexChangedError)
            if timeline is not None and not is_sure and not has_other_timeline(uri, timeline):
                raise
            if tries == TRIES:
                raise WriteConflictError(
                    f"table {table.name} was changed by other writers in each of {TRIES} tries to read it: "
                    f"{error.message}",
                    culprit=error.culprit or table.uri,
                    hint="run it again when they are done",
                ) from error
            _LOG.info("table %s was changed while it was read, try %d of %d: %s", table.name, tries, TRIES, error)


def has_other_timeline(uri: str, timeline: Timeline) -> bool:
    """Whether the table's timeline is another one than when it was listed: what is gone since is no damage."""
    return open_at(uri).load_timeline() != timeline
