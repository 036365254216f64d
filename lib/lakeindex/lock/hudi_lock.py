"""Hudi's lock of a table, which is taken with ours where an option names its provider.

It is taken after our own lock and held for as long. So of all writers of lakeindex only one is ever at it, and a lock
of Hudi's that carries the mark of a writer of lakeindex of this table belongs to one that has lost ours: it is cleared
at once. A lock of Hudi's own writers is cleared by Hudi's own rules only: when it has expired.

The two locks that need no server are taken part in (:mod:`.storage_lock`, :mod:`.file_system_lock`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from lakeindex.errors import LockTimeoutError, OptionError
from lakeindex.format.file_names import METADATA_FOLDER
from lakeindex.lock.file_system_lock import FileSystemLock
from lakeindex.lock.storage_lock import StorageLock
from lakeindex.options.types import LockProvider, WriteConfig
from lakeindex.storage import open_storage
from lakeindex.storage.port import Storage
from lakeindex.table.host import Host
from lakeindex.timeline import records
from lakeindex.timeline.clock import Patience

_FILE_SYSTEMS: Final = frozenset({"file", "hdfs"})
_MARK_DIGITS: Final = 16


class HudiLock(Protocol):
    """One of Hudi's locks."""

    @property
    def path(self) -> str:
        """Where it is, for messages."""

    @property
    def cure(self) -> str:
        """What to do about a lock whose holder is dead, for messages."""

    def try_acquire(self) -> str | None:
        """Take it, if nobody has it: None, or who has it."""

    def renew(self) -> None:
        """Extend what it is valid for, if that is due."""

    def check(self) -> None:
        """Make sure that it is still held. Raises: FencedError."""

    def release(self) -> None:
        """Let go of it, if it is still held."""


def hudi_lock(storage: Storage, host: Host, config: WriteConfig, purpose: str) -> HudiLock | None:
    """The lock that the options name, not taken yet; None if they name none.

    Args:
        storage: the table's folder.
        host: clock and process.
        config: the provider and its settings.
        purpose: what for; Hudi's writers that wait for it print it.

    Raises:
        OptionError: the provider cannot work on the table's store, in Hudi neither.
    """
    provider = config.lock_provider
    if provider is None:
        return None
    scheme, _, rest = storage.uri.partition("://")
    # the same table under another scheme (s3, s3a) is the same table
    mark = f"lakeindex {records.key_of(rest)[:_MARK_DIGITS]} "
    owner = f"{mark}{host.new_token()}"
    if provider is LockProvider.STORAGE:
        if scheme in _FILE_SYSTEMS:
            raise _misfit(provider, storage, "it needs conditional writes", LockProvider.FILE_SYSTEM)
        validity, renewal = config.lock_validity_seconds * 1000, config.lock_renew_seconds * 1000
        return StorageLock(storage, host.clock, owner, mark, validity_ms=validity, renewal_ms=renewal)
    if scheme not in {*_FILE_SYSTEMS, "memory"}:
        raise _misfit(provider, storage, "it needs a file system that creates files atomically", LockProvider.STORAGE)
    elsewhere = config.lock_path is not None
    folder = open_storage(config.lock_path) if config.lock_path is not None else storage
    path = "lock" if elsewhere else f"{METADATA_FOLDER}/lock"
    return FileSystemLock(
        folder, path, host.clock, owner, mark, expire_ms=config.lock_expire_minutes * 60_000, purpose=purpose
    )


def acquire(lock: HudiLock, host: Host, *, wait_ms: int, waiting: Callable[[], None]) -> None:
    """Take Hudi's lock, waiting for a living holder.

    Args:
        lock: the lock.
        host: clock.
        wait_ms: how long to wait, at most.
        waiting: called again and again meanwhile: keeps ours.

    Raises:
        LockTimeoutError: naming the holder.
    """
    patience = Patience(host.clock, wait_ms)
    while True:
        holder = lock.try_acquire()
        if holder is None:
            return
        if patience.is_over:
            raise LockTimeoutError(
                f"Hudi's lock of the table is held by {holder}",
                culprit=lock.path,
                hint=f"wait for it, or raise lakeindex.lock.wait; {lock.cure}",
            )
        patience.pause()
        waiting()


def _misfit(provider: LockProvider, storage: Storage, why: str, other: LockProvider) -> OptionError:
    return OptionError(
        f"{provider} cannot lock {storage.uri}: {why}, in Hudi, too",
        culprit="hoodie.write.lock.provider",
        hint=f"give {other}, in Hudi's writers, too",
    )
