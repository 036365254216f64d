"""Hold a table's lock for work on what is stored beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakeindex.config import WriteConfig
from lakeindex.storage.protocol import Storage
from lakeindex.table.handle import Table
from lakeindex.table.heartbeat import Heartbeat
from lakeindex.table.host import this_host
from lakeindex.table.write_context import WriteContext


@contextmanager
def locked(storage: Storage, config: WriteConfig, purpose: str) -> Iterator[None]:
    """Keep other writers of the table out; the lease is renewed meanwhile.

    Raises:
        LockTimeoutError: another writer held the lock for too long.
    """
    heartbeat = Heartbeat(config.lock_lease_seconds)
    context = WriteContext(Table.open(storage), this_host(None), config, heartbeat)
    heartbeat.start()
    try:
        with context.locked(purpose):
            yield
    finally:
        heartbeat.stop()
