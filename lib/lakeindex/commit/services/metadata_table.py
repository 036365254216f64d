"""Building a metadata table for a table, and taking one away, because somebody asks for it."""

from __future__ import annotations

from collections.abc import Collection

from lakeindex.commit.held_lock import holding
from lakeindex.commit.lock.lock import TableLock
from lakeindex.commit.metadata_upkeep import compact_metadata
from lakeindex.commit.services.begin_maintenance import maintaining
from lakeindex.commit.write_context import WriteContext
from lakeindex.errors import MetadataTableError
from lakeindex.files.file_system_view import Snapshot, snapshot
from lakeindex.metadata.build import Building, build
from lakeindex.metadata.metadata_table import FILES, MetadataTable
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.table.metadata_kept import described
from lakeindex.table.metadata_switch import begin_building, drop_metadata, switch_on


def build_metadata_table(
    table: Table, config: WriteConfig | None = None, *, force: bool = False, host: Host | None = None
) -> int:
    """Build the metadata table of a table that has none: the partition ``files``.

    Instants of ours that are pending add their files when they are committed.

    Args:
        table: the table.
        config: lease and waiting times.
        force: take other writers' pending instants for dead.
        host: clock and process, for tests.

    Returns:
        How many files it names.

    Raises:
        MetadataTableError: there is one, or something in its place.
        PendingInstantError: a living writer of another kind is in flight.
        LockTimeoutError: another writer holds the lock for too long.
        FencedError: this process stalled for longer than its lease.
    """
    with maintaining(table, "building the metadata table", config, force=force, host=host) as (context, lock):
        properties = table.current_properties()
        if properties.metadata_partitions:
            raise MetadataTableError(
                f"table {table.name} has a metadata table: {described(properties.metadata_partitions)}",
                culprit=table.uri,
                hint="`lakeindex metadata verify` compares it with the table, `lakeindex metadata drop` takes it away",
            )
        found = snapshot(context.storage, table.load_timeline())
        files = committed_files(found)
        begin_building(context.storage)
        _build(context, found, files)
        lock.check()  # who holds the lock now would commit without a word to what we switch on
        switch_on(context.storage, (FILES,))
        _check_switched(table, lock)
        return sum(len(names) for names in files.values())


def drop_metadata_table(
    table: Table, partitions: Collection[str] = (), config: WriteConfig | None = None, *, host: Host | None = None
) -> tuple[str, ...]:
    """Take the metadata table of a table away, or some of its partitions; those that went.

    Nothing of dead writers is settled before: what is damaged can be taken away.

    Args:
        table: the table.
        partitions: those that go; all, if none are named or ``files`` is among them.
        config: lease and waiting times.
        host: clock and process, for tests.

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
        table: the table.
        config: lease and waiting times.
        force: take other writers' pending instants for dead.
        host: clock and process, for tests.

    Raises:
        PendingInstantError: a living writer of another kind is in flight.
        LockTimeoutError: another writer holds the lock for too long.
    """
    with maintaining(table, "compacting the metadata table", config, force=force, host=host) as (context, _):
        return compact_metadata(context)


def committed_files(found: Snapshot) -> dict[str, dict[str, int]]:
    """Partition path -> file name -> bytes, of every file of a completed commit: what a metadata table names."""
    files: dict[str, dict[str, int]] = {}
    for partition in found.partitions():
        listed = found.files_of(partition)
        files[partition] = {one.name: one.size_bytes for one in (*listed.live, *listed.older)}
    return files


def _build(context: WriteContext, found: Snapshot, files: dict[str, dict[str, int]]) -> None:
    properties = context.table.current_properties()
    version, layout = properties.version, properties.timeline_layout
    table = MetadataTable.of(context.storage, version, layout.version, (FILES,))
    if table is None:
        return
    completed = [one.time for one in found.timeline.completed]
    completion = context.completion_time(found.timeline)
    build(table, Building(properties.name, max(completed, default=None), completion, files))


def _check_switched(table: Table, lock: TableLock) -> None:
    """Who took the lock over may have committed before we switched the metadata table on: it goes again."""
    try:
        lock.check()
    except BaseException:
        drop_metadata(table)
        raise
