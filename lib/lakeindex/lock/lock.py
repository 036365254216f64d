"""The table's lock: epoch-numbered files, create-if-absent, with a lease.

``.hoodie/.lakeindex/lock/<epoch>.json``: the greatest epoch is the lock. Its holder alone rewrites the file, to renew
its lease and to release. Whoever finds it released, its process gone, or its lease out creates the next epoch.

The lock keeps writers out of each other's way; it is *not* what makes a commit safe. A holder may stall past its lease
and wake up. So the record says from its creation which instant it was taken for, and the next holder first settles that
instant (see :mod:`lakeindex.timeline.verdicts`): either its commit happened, and is seen by the checks that follow, or
it can never happen. Clocks and leases decide only how long somebody waits.

A process that was interrupted while it took the lock or let go of it, and lives on, may leave a record behind that it
does not hold. It knows which it holds, and takes over from itself at once.

A torn record does not say which instants are unsettled. Whoever takes over then is *blind*: until everything was
recovered once, no claim without a verdict counts as alive, and the instants that the lost record may have named are
decided with all others.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from lakeindex.errors import FencedError, LakeIndexError, LockTimeoutError, ObjectNotFoundError
from lakeindex.frozen import Frozen
from lakeindex.lock.hudi_lock import HudiLock
from lakeindex.showing.json_values import json_of
from lakeindex.storage import list_names
from lakeindex.storage.port import Storage
from lakeindex.table.host import Host, Process
from lakeindex.timeline import records
from lakeindex.timeline.clock import Patience

LOCK_FOLDER: Final = f"{records.OWN_FOLDER}/lock"

_EPOCH_DIGITS: Final = 12

_ours: Final[set[str]] = set()
"""Tokens of the locks that this process holds, or is about to."""


class LockRecord(Frozen):
    """Content of one epoch's file.

    Attributes:
        epoch: its number, from 1.
        token: unique to this acquisition.
        purpose: what for, for people.
        expires_ms: end of the lease, milliseconds since the epoch.
        released: whether the holder is done.
        unsettled: instants that former holders, or this one, may still be about to commit.
        blind: whether a former holder's record was torn, so that ``unsettled`` may lack some.
    """

    epoch: int
    token: str
    process: Process
    purpose: str
    expires_ms: int
    lease_ms: int
    released: bool = False
    unsettled: tuple[str, ...] = ()
    blind: bool = False


class TableLock:
    """The lock, held. Get one by :func:`acquire`."""

    def __init__(self, storage: Storage, host: Host, record: LockRecord) -> None:
        self._storage = storage
        self._host = host
        self._record = record
        self._mutex = threading.Lock()
        self._partner: HudiLock | None = None

    @property
    def epoch(self) -> int:
        return self._record.epoch

    @property
    def path(self) -> str:
        return _path(self._record.epoch)

    @property
    def unsettled(self) -> tuple[str, ...]:
        """Instants to settle before anything else; the one it was taken for is among them until it is decided."""
        return self._record.unsettled

    @property
    def blind(self) -> bool:
        """Whether ``unsettled`` may lack instants: any claim without a verdict may be one."""
        return self._record.blind

    def join(self, partner: HudiLock) -> None:
        """From now on Hudi's lock is renewed, checked and released with this one."""
        self._partner = partner

    def recovered(self) -> None:
        """Note that everything was recovered: nothing is unsettled that a lost record may have named."""
        with self._mutex:
            self._record = replace(self._record, blind=False)

    def settled(self, instant: str) -> None:
        """Note that an instant is decided, in memory: the next renewal or the release writes it."""
        with self._mutex:
            left = tuple(one for one in self._record.unsettled if one != instant)
            self._record = replace(self._record, unsettled=left)

    def renew(self) -> None:
        try:
            self._extend()
        finally:
            if self._partner is not None:
                self._partner.renew()

    def check(self) -> None:
        """Make sure that nobody took over and that lease is left; renew it. The same for Hudi's lock. Raises:
        FencedError.
        """
        newest = _newest_epoch(self._storage)
        if newest != self.epoch:
            raise FencedError(
                f"lock epoch {self.epoch} was taken over by epoch {newest}",
                culprit=_path(self.epoch),
                hint="this writer stalled for longer than lakeindex.lock.lease; run again, or raise it",
            )
        self._extend()
        if self._partner is not None:
            self._partner.check()

    def forget(self) -> None:
        """Hold it no more, whatever its record says."""
        _ours.discard(self._record.token)

    def release(self) -> None:
        """Let go, of Hudi's lock first; what is not settled is left to the next holder."""
        try:
            if self._partner is not None:
                self._partner.release()
        finally:
            with self._mutex:
                self._write(replace(self._record, released=True))

    def _extend(self) -> None:
        with self._mutex:
            if not self._record.released:
                expires = self._host.clock.now_ms() + self._record.lease_ms
                self._write(replace(self._record, expires_ms=expires))

    def _write(self, record: LockRecord) -> None:
        self._record = record
        records.put(self._storage, _path(record.epoch), _encode(record))


def acquire(
    storage: Storage, host: Host, *, lease_ms: int, wait_ms: int, purpose: str, instant: str | None = None
) -> TableLock:
    """Take the lock, waiting for a living holder.

    Args:
        purpose: what for; others see it in their time-out's message.
        instant: the instant that is going to be committed under it, if any.

    Raises:
        LockTimeoutError: naming the holder.
    """
    token = host.new_token()
    try:
        _ours.add(token)
        return _acquired(storage, host, token, lease_ms=lease_ms, wait_ms=wait_ms, purpose=purpose, instant=instant)
    except BaseException:
        _ours.discard(token)
        raise


def _acquired(
    storage: Storage, host: Host, token: str, *, lease_ms: int, wait_ms: int, purpose: str, instant: str | None
) -> TableLock:
    patience = Patience(host.clock, wait_ms)
    while True:
        holder = _newest(storage)
        if holder is None or _is_free(holder, host):
            record = _next(holder, host, lease_ms, purpose, instant, token)
            if _won(storage, record):
                return TableLock(storage, host, record)
            continue
        if patience.is_over:
            raise LockTimeoutError(
                f"the table's lock is held by {holder.process} for {holder.purpose!r}",
                culprit=_path(holder.epoch),
                hint="wait for it, or raise lakeindex.lock.wait; "
                "the lock of a dead holder is taken over when its lease has expired",
            )
        patience.pause()


def _next(
    holder: LockRecord | None, host: Host, lease_ms: int, purpose: str, instant: str | None, token: str
) -> LockRecord:
    inherited = () if holder is None else holder.unsettled
    own = () if instant is None else (instant,)
    return LockRecord(
        epoch=1 if holder is None else holder.epoch + 1,
        token=token,
        process=host.process,
        purpose=purpose,
        expires_ms=host.clock.now_ms() + lease_ms,
        lease_ms=lease_ms,
        unsettled=tuple(dict.fromkeys((*inherited, *own))),
        blind=holder is not None and holder.blind,
    )


def _won(storage: Storage, record: LockRecord) -> bool:
    """Create the epoch. Ours counts only if it is the greatest: older files are deleted, so their names are free."""
    data = _encode(record)
    path = _path(record.epoch)
    if records.settle(storage, path, data) != data:
        return False
    try:
        epochs = _epochs(storage)
        if epochs[-1:] != [record.epoch]:
            records.tidy(storage, [path])
            return False
        records.tidy(storage, [_path(epoch) for epoch in epochs[:-1]])
    except BaseException:  # the record is ours, and nobody is going to hold it
        with suppress(LakeIndexError):
            records.put(storage, path, _encode(replace(record, released=True)))
        raise
    return True


def _is_free(holder: LockRecord, host: Host) -> bool:
    """Whether the holder is done or dead, or is this process, which does not know of it; half a lease of grace allows
    for clocks that differ.
    """
    if holder.released or host.is_gone(holder.process):
        return True
    if holder.process == host.process and holder.token not in _ours:
        return True
    return host.clock.now_ms() > holder.expires_ms + holder.lease_ms // 2


def _newest(storage: Storage) -> LockRecord | None:
    while True:
        epoch = _newest_epoch(storage)
        if epoch is None:
            return None
        try:
            return _decode(storage.read(_path(epoch)), _path(epoch))
        except ObjectNotFoundError:
            continue  # a later epoch's holder tidied it away


def _newest_epoch(storage: Storage) -> int | None:
    return next(reversed(_epochs(storage)), None)


def _epochs(storage: Storage) -> list[int]:
    names = (name.removesuffix(".json") for name in list_names(storage, LOCK_FOLDER))
    return sorted(int(name) for name in names if name.isdecimal())


def _path(epoch: int) -> str:
    return f"{LOCK_FOLDER}/{epoch:0{_EPOCH_DIGITS}d}.json"


def _encode(record: LockRecord) -> bytes:
    fields = json_of(record)
    if not record.blind:
        del fields["blind"]  # earlier releases do not know it
    return records.encode(fields)


def _decode(data: bytes, path: str) -> LockRecord:
    found: dict[str, Any] = records.decode(data, path)
    if not found:
        epoch = int(path.rpartition("/")[2].removesuffix(".json"))
        return LockRecord(epoch, "", Process("", 0), "", 0, 0, released=True, blind=True)
    try:
        process = Process(**found.pop("process"))
        unsettled = tuple(found.pop("unsettled"))
        return LockRecord(process=process, unsettled=unsettled, **found)
    except (KeyError, TypeError) as error:
        raise records.damaged(path, repr(error)) from None
