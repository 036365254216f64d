"""The table as a run finds it: checked, bound, with its state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakeindex.conductor.conflict_retry import retry_on_conflict
from lakeindex.files.file_system_view import Snapshot
from lakeindex.options.types import WriteConfig
from lakeindex.run.spec import BoundTable
from lakeindex.run.table_facts import bind_for_write, facts_of
from lakeindex.table.handle import Table
from lakeindex.tasks.stores import storage_at
from lakeindex.write.types.avro_schema import check_names

_T = TypeVar("_T")


def open_for_write(uri: str, config: WriteConfig) -> BoundTable:
    """Open, check and bind a table for writing. Raises: as :func:`open_and_retry`."""
    return open_and_retry(uri, config, lambda opened: opened)


def open_and_retry(uri: str, config: WriteConfig, work: Callable[[BoundTable], _T]) -> _T:
    """Open, check and bind a table for writing, and do work that does not change it;
    anew if others change it meanwhile.

    Raises:
        TableError: it is not there, or refused.
        OptionError: an option differs from what is bound.
        WriteConflictError: other writers changed the table in every try.
    """
    table = Table.open(storage_at(uri), use_metadata=config.use_metadata)
    table.check_writable(config)

    def on(snapshot: Snapshot) -> _T:
        snapshot.timeline.check_known()
        bound = bind_for_write(table, snapshot, config)
        facts = facts_of(bound, snapshot, config)
        check_names(facts.schema, "the table")  # it is published again with what is written
        return work(BoundTable(bound, snapshot, facts))

    return retry_on_conflict(table, config, on)
