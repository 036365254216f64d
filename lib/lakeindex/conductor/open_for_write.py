"""Open a table for a run: checked, bound, with its state; and begin the work anew if others change it meanwhile.

A rollback, a clean or a rewrite for another index deletes files that a snapshot names. A reader then misses such a file
or its commit. That is no damage if the timeline has changed since the snapshot.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from lakeindex.errors import MOVED_ERRORS, MOVED_FOR_SURE, LakeIndexError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot, loss_of
from lakeindex.options.types import WriteConfig
from lakeindex.run.checkpoints import OutOfDateError
from lakeindex.run.spec import BoundTable
from lakeindex.run.table_facts import bind_for_write, facts_of
from lakeindex.stages.index_lookup import snapshot_mark
from lakeindex.table.handle import Table
from lakeindex.write.combine import check_ordering
from lakeindex.write.types.avro_schema import check_names

_T = TypeVar("_T")
_LOG: Final = logging.getLogger(__name__)


def open_for_write(uri: str, config: WriteConfig) -> BoundTable:
    """Open, check and bind a table for writing. Raises: as :func:`open_and_retry`."""
    return open_and_retry(uri, config, lambda opened: opened)


def open_and_retry(uri: str, config: WriteConfig, work: Callable[[BoundTable], _T], *, as_noted: bool = True) -> _T:
    """Open, check and bind a table for writing, and do work that does not change it;
    anew if others change it meanwhile.

    Args:
        as_noted: see :func:`~lakeindex.run.table_facts.facts_of`.

    Raises:
        TableError: it is not there, or refused.
        OptionError: an option differs from what is bound.
        WriteConflictError: other writers changed the table in every try.
    """
    table = Table.at(uri, use_metadata=config.use_metadata)
    table.check_writable(config)

    def on(snapshot: Snapshot) -> _T:
        snapshot.timeline.check_known()
        bound = bind_for_write(table, snapshot, config)
        facts = facts_of(bound, snapshot, config, as_noted=as_noted)
        check_names(facts.schema, "the table")  # it is published again with what is written
        check_ordering(facts.event_time_fields, facts.schema)
        return work(BoundTable(bound, snapshot, facts))

    return retry_on_conflict(table, config, on)


def has_moved(table: Table, snapshot: Snapshot | None, error: LakeIndexError) -> bool:
    """Whether an error is explained by the table's having changed since the snapshot, and not by damage.

    Args:
        snapshot: what was worked on; None if the error came from taking it.
    """
    if isinstance(error, MOVED_FOR_SURE):
        return True
    return snapshot is not None and snapshot_mark(table.snapshot()) != snapshot_mark(snapshot)


def moved_error(table: Table, error: LakeIndexError) -> LakeIndexError:
    """What is said of it when there are no tries left; nothing was published."""
    cure = "run it again when they are done, or raise lakeindex.conflict.retries"
    if isinstance(error, WriteConflictError):
        return WriteConflictError(error.message, culprit=error.culprit, hint=error.hint or cure)
    return WriteConflictError(
        f"table {table.name} was changed by other writers in every try: {error.message}",
        culprit=error.culprit or table.uri,
        hint=cure,
    )


def _nothing() -> None:
    """What is to be taken back of work that only reads."""


def retry_on_conflict(
    table: Table,
    config: WriteConfig,
    work: Callable[[Snapshot], _T],
    abandon: Callable[[], None] = _nothing,
    who: str = "",
) -> _T:
    """Do work on a snapshot of the table, anew if the table moved meanwhile.

    It may be done again as often as ``lakeindex.conflict.retries`` says. Work that finds out by itself that its
    snapshot is out of date, before it plans anything (:class:`OutOfDateError`), costs no try; it may do so as long as a
    writer waits for the lock.

    Args:
        abandon: takes back what was planned on a snapshot that is out of date.
        who: name of the work in the log.

    Raises:
        WriteConflictError: other writers changed the table in every try.
    """
    who = who or f"table {table.name} was changed by another writer meanwhile"
    deadline = time.monotonic() + config.lock_wait_seconds
    lost = 0
    while True:
        snapshot = None
        try:
            snapshot = table.snapshot()
            return work(snapshot)
        except OutOfDateError as error:
            if time.monotonic() > deadline:
                raise moved_error(table, error.conflict) from None
            _LOG.info("%s: another writer was first, the work begins anew: %s", who, error)
        except MOVED_ERRORS as error:
            if not has_moved(table, snapshot, error):
                if (loss := loss_of(error)) is not None:
                    raise loss from error
                raise
            abandon()
            lost += 1
            if lost > config.conflict_retries:
                raise moved_error(table, error) from error
            _LOG.info("%s: attempt %d was lost to another writer: %s", who, lost, error)
