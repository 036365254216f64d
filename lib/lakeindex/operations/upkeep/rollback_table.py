"""Take back the newest commit, or a dead pending instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import PendingInstantError
from lakeindex.format.instants import parse_point_in_time
from lakeindex.options.types import WriteConfig
from lakeindex.showing.json_result import TableResult
from lakeindex.table.handle import Table


@dataclass(frozen=True, slots=True)
class RollbackSummary(TableResult):
    """A rollback that is done.

    Attributes:
        instant: what was rolled back.
        rollback_instant: the rollback's own instant; None if nothing was on the timeline any more.
        files_deleted: data files that went, by path.
        last_commit: newest commit that is left; None if there is none.
        notes: what was done to other writers' instants beside this one.
    """

    shown_by: ClassVar[str] = "results:show_rollback"

    instant: str
    rollback_instant: str | None
    files_deleted: tuple[str, ...]
    last_commit: str | None
    notes: tuple[str, ...]


def rollback_table(
    uri: str, instant: str, config: WriteConfig | None = None, *, force: bool = False
) -> RollbackSummary:
    """Roll an instant back, the way Hudi does.

    Args:
        instant: the newest completed write, or a pending one whose writer is dead.
        config: lease, waiting times, metadata table policy.
        force: consider every pending instant of another writer dead.

    Raises:
        UsageError: there is no such write, or it is completed and not the newest.
        TableError: no table, one that is not written to, or a savepoint keeps the instant.
        ConflictError: its writer may be alive, or another writer holds the lock or rolls it back just now.
    """
    parse_point_in_time(instant, "INSTANT")
    table = Table.at(uri)
    table.check_writable(config)
    done = rollback_instant(table, instant, config, force=force)
    if not done.finished:
        raise PendingInstantError(
            f"another writer is rolling {instant} back", culprit=instant, hint="wait for it, then look at the history"
        )
    last = table.reload().load_timeline().last_completed_write_time
    return RollbackSummary(table.name, table.uri, done.instant, done.rollback_instant, done.files, last, done.notes)
