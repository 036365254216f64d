"""What every maintenance of a table begins with: the lock, kept alive, and nothing of dead writers left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakeindex.commit.recovery import recover
from lakeindex.lock.held_lock import holding
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata_upkeep.upkeep import check_metadata_table, sweep_deltas
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from lakeindex.table.host import Host


@contextmanager
def maintaining(
    table: Table,
    purpose: str,
    config: WriteConfig | None = None,
    *,
    force: bool = False,
    alone: bool = False,
    host: Host | None = None,
) -> Iterator[tuple[WriteContext, TableLock]]:
    """Hold the lock of a table that may be written to, after what dead writers left was settled.

    Args:
        purpose: what for; others that wait for the lock see it.
        config: lease, waiting times, metadata table policy.
        force: take other writers' pending instants for dead.
        alone: whether no other kind of writer may be in flight, even if it holds Hudi's lock with us.

    Raises:
        TableUnsupportedError, MetadataTableError: the table must not be written to.
        PendingInstantError: a living writer of another kind is in flight.
        LockTimeoutError: another writer holds the lock for too long.
    """
    settings = config or WriteConfig()
    with holding(table, purpose, settings, force=force, host=host) as (context, lock):
        properties = check_metadata_table(table, settings)
        recover(context, lock, alone=alone)
        sweep_deltas(context, properties)
        yield context, lock
