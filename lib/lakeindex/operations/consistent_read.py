"""Read from a table as it is at one moment, anew if other writers take away what is being read.

Rows of two moments must not be mixed: a reader that has given some out ends with an error that says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from lakeindex.errors import MOVED_ERRORS, IndexChangedError, LakeIndexError, WriteConflictError
from lakeindex.files.file_system_view import loss_of
from lakeindex.table.handle import Table
from lakeindex.timeline.timeline import Timeline

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")
_LOG: Final = logging.getLogger(__name__)


class Planned(Protocol):
    """What is read of one snapshot."""

    @property
    def timeline(self) -> Timeline:
        """The timeline as it was listed."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""

    @property
    def table(self) -> Table:
        """The table."""


_P = TypeVar("_P", bound=Planned)

TRIES: Final = 5
"""How often a reader begins before it gives up."""


def read_consistently(uri: str, read: Callable[[Table, Timeline], _T], *, use_metadata: bool = True) -> _T:
    """Open a table, list its timeline, and read; again if that fails and the timeline has changed meanwhile.

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
        table = Table.at(uri, use_metadata=use_metadata)
        timeline = None
        try:
            timeline = table.load_timeline()
            return read(table, timeline)
        except MOVED_ERRORS as error:
            is_sure = isinstance(error, IndexChangedError)
            if timeline is not None and not is_sure and not has_moved(table, timeline):
                if (loss := loss_of(error)) is not None:
                    raise loss from error
                raise
            if tries == TRIES:
                raise WriteConflictError(
                    f"table {table.name} was changed by other writers in each of {TRIES} tries to read it: "
                    f"{error.message}",
                    culprit=error.culprit or table.uri,
                    hint="run it again when they are done",
                ) from error
            _LOG.info("table %s was changed while it was read, try %d of %d: %s", table.name, tries, TRIES, error)


def has_moved(table: Table, timeline: Timeline) -> bool:
    """Whether the table's timeline or properties are others by now: then a file that is missing is no damage."""
    now = table.reload()
    return now.properties != table.properties or now.load_timeline() != timeline


def at_rest(table: Table, look: Callable[[Table, Timeline], _T], is_fine: Callable[[_T], bool]) -> tuple[_T, bool]:
    """What looks for faults finds others where writers come between what it compares: it looks again then.

    Returns:
        What was found, and whether the table stood still meanwhile, or all is fine.
    """
    tries = 0
    while True:
        tries += 1
        timeline = table.load_timeline()
        try:
            found = look(table, timeline)
        except MOVED_ERRORS:
            if tries == TRIES or not has_moved(table, timeline):
                raise
        else:
            is_sure = is_fine(found) or not has_moved(table, timeline)
            if is_sure or tries == TRIES:
                return found, is_sure
        table = table.reload()


def streamed(
    plan: _P, batches: Callable[[_P], Iterator[pa.RecordBatch]], again: Callable[[], _P] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a plan; of a new one, if other writers take away what is read and nothing was given out yet.

    Args:
        again: makes a new plan; None: readers come back to this one.

    Raises:
        WriteConflictError: something was given out, or it was taken away in every try.
    """
    schema, given, tries = plan.schema, 0, 1
    while True:
        try:
            for batch in batches(plan):
                given += batch.num_rows
                yield batch
            return
        except MOVED_ERRORS as error:
            if not has_moved(plan.table, plan.timeline):
                if (loss := loss_of(error)) is not None:
                    raise loss from error
                raise
            if given or again is None or tries == TRIES:
                raise _taken_away(plan, given, error) from error
        tries += 1
        plan = again()
        if not plan.schema.equals(schema):
            raise _taken_away(plan, given, LakeIndexError("its columns were changed"))


def _taken_away(plan: Planned, given: int, error: LakeIndexError) -> WriteConflictError:
    """The error of a scan that cannot go on, nor begin anew."""
    told = f"after {given:,} rows were given out" if given else f"in each of {TRIES} tries to read it"
    return WriteConflictError(
        f"table {plan.table.name} was changed by other writers {told}: {error.message}",
        culprit=error.culprit or plan.table.uri,
        hint="scan it again; hoodie.cleaner.commits.retained says for how many commits files are kept for readers",
    )
