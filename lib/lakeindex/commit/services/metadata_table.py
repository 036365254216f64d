"""Taking a metadata table away, and compacting one, because somebody asks for it."""

from __future__ import annotations

from collections.abc import Collection

from lakeindex.commit.services.begin_maintenance import maintaining
from lakeindex.errors import MetadataTableError
from lakeindex.lock.held_lock import holding
from lakeindex.metadata_upkeep.switch import drop_metadata
from lakeindex.metadata_upkeep.upkeep import compact_metadata
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from lakeindex.table.host import Host


def drop_metadata_table(
    table: Table, partitions: Collection[str] = (), config: WriteConfig | None = None, *, host: Host | None = None
) -> tuple[str, ...]:
    """Take the metadata table of a table away, or some of its partitions; those that went.

    Nothing of dead writers is settled before: what is damaged can be taken away.

    Args:
        partitions: those that go; all, if none are named or ``files`` is among them.
        config: lease and waiting times.

    Raises:
        MetadataTableError: it has no such partition.
        LockTimeoutError: another writer holds the lock for too long.
    """
    with holding(table, "dropping the metadata table", config or WriteConfig(), host=host) as (_, lock):
        properties = table.current_properties()
        there = (*properties.metadata_partitions, *properties.metadata_partitions_inflight)
        unknown = next((name for name in partitions if name not in there), None)
        if unknown is not None:
            raise MetadataTableError(
                f"the metadata table of {table.name} has no partition {unknown!r}",
                culprit=unknown,
                hint=f"it has: {', '.join(there) or 'none'}",
            )
        lock.check()
        return drop_metadata(table, partitions)


def compact_metadata_table(
    table: Table, config: WriteConfig | None = None, *, force: bool = False, host: Host | None = None
) -> str | None:
    """Compact the metadata table, and delete what nobody reads of it any more; the compaction's instant.

    None if there is no metadata table, nothing to compact, or a write is pending.

    Args:
        config: lease and waiting times.
        force: take other writers' pending instants for dead.

    Raises:
        PendingInstantError: a living writer of another kind is in flight.
        LockTimeoutError: another writer holds the lock for too long.
    """
    with maintaining(table, "compacting the metadata table", config, force=force, host=host) as (context, _):
        return compact_metadata(context)
