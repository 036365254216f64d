"""Hold a table's lock, for work on the table and on what is stored beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakeindex.lock.clock_checks import check_clock
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import Heartbeat, WriteContext
from lakeindex.options.types import WriteConfig
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, this_host


@contextmanager
def holding(
    table: Table,
    purpose: str,
    config: WriteConfig,
    *,
    force: bool = False,
    host: Host | None = None,
    decision: str | None = None,
) -> Iterator[tuple[WriteContext, TableLock]]:
    """Hold the lock; its lease is renewed meanwhile.

    Args:
        purpose: what for; others that wait for the lock see it.
        config: lease and waiting times.
        force: take other writers' pending instants for dead.
        decision: what is going to be decided under it, if anything: whoever takes over settles that first.

    Raises:
        LockTimeoutError: another writer held the lock for too long.
        ClockError: this machine's clock is far from the store's.
    """
    machine = host or this_host()
    heartbeat = Heartbeat(config.lock_lease_seconds) if machine.heartbeat else None
    context = WriteContext(table, machine, config, heartbeat, force)
    if heartbeat is not None:
        heartbeat.start()
    try:
        with context.locked(purpose, decision) as lock:
            check_clock(context, lock)
            yield context, lock
    finally:
        if heartbeat is not None:
            heartbeat.stop()


@contextmanager
def locked(storage: Storage, config: WriteConfig, purpose: str) -> Iterator[None]:
    """Keep other writers of the table out; the lease is renewed meanwhile.

    Raises:
        LockTimeoutError: another writer held the lock for too long.
    """
    with holding(Table.open(storage), purpose, config):
        yield
