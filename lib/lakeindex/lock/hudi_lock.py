"""Hudi's lock of a table, which is taken with ours where an option names its provider.

It is taken after our own lock and held for as long. So of all writers of lakeindex only one is ever at it, and a lock
of Hudi's that carries the mark of a writer of lakeindex of this table belongs to one that has lost ours: it is cleared
at once. A lock of Hudi's own writers is cleared by Hudi's own rules only: when it has expired.

The two of Hudi's locks that need no server can be taken: :class:`StorageLock` and :class:`FileSystemLock`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Protocol

from lakeindex.errors import (
    FencedError,
    LockTimeoutError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OptionError,
    StorageError,
    UnknownOutcomeError,
)
from lakeindex.format.file_names import METADATA_FOLDER, crc_path
from lakeindex.frozen import Frozen
from lakeindex.options.types import LockProvider, WriteConfig
from lakeindex.storage import open_storage, sync_folders
from lakeindex.storage.port import Storage
from lakeindex.table.host import Host
from lakeindex.timeline import records
from lakeindex.timeline.clock import Clock, Patience

_FILE_SYSTEMS: Final = frozenset({"file", "hdfs"})
_MARK_DIGITS: Final = 16
MARGIN_MS: Final = 10_000
"""How long before it expires the lock is not relied on any more: clocks differ, and a commit takes its time."""

_THREAD: Final = "lockThreadName"
_CREATED: Final = "lockCreateTime"
LOCK_PATH: Final = ".hoodie/.locks/table_lock.json"

DRIFT_MS: Final = 500
"""How far apart Hudi allows the clocks of two writers to be."""

_TRIES: Final = 4


class LockData(Frozen):
    """Content of the lock's object.

    Attributes:
        expired: whether its owner has let go of it.
        valid_until_ms: until when it is held otherwise, milliseconds since the epoch.
        owner: unique to its owner.
    """

    expired: bool
    valid_until_ms: int
    owner: str

    def encode(self) -> bytes:
        """As Hudi writes it."""
        record = {"expired": self.expired, "validUntil": self.valid_until_ms, "owner": self.owner}
        return json.dumps(record, separators=(",", ":")).encode()


def decode_lock(data: bytes) -> LockData:
    """Parse the object; unknown fields are passed over, as Hudi does. Raises: TableCorruptError."""
    try:
        found = json.loads(data)
        return LockData(bool(found["expired"]), int(found["validUntil"]), str(found["owner"]))
    except (ValueError, KeyError, TypeError) as error:
        raise records.damaged(LOCK_PATH, repr(error)) from None


class StorageLock:
    """Hudi's lock on object stores, without a server: one object that is replaced only if it is unchanged.

    ``.hoodie/.locks/table_lock.json`` is ``{"expired": bool, "validUntil": milliseconds since the epoch, "owner":
    text}``. It is never deleted. It is free if there is none, if it is expired, or if ``validUntil`` has passed by more
    than half a second, which is what Hudi allows clocks to differ by; then it is taken with a conditional put. Its
    holder puts it again and again, and puts it as expired to let go of it. Facts: ``StorageBasedLockProvider``,
    ``StorageLockData`` and ``S3StorageLockClient`` of Hudi 1.2.0.

    A put is the check: it succeeds only if nobody else has put since. After it the lock is ours for its whole validity.

    Args:
        owner: unique to this acquisition.
        mark: how the owners of all writers of lakeindex of this table begin.
        validity_ms: for how long a put holds it.
        renewal_ms: pause between two renewals.
    """

    def __init__(
        self, storage: Storage, clock: Clock, owner: str, mark: str, *, validity_ms: int, renewal_ms: int
    ) -> None:
        self._storage = storage
        self._clock = clock
        self._owner = owner
        self._mark = mark
        self._validity_ms = validity_ms
        self._renewal_ms = renewal_ms
        self._mutex = threading.Lock()
        self._etag: str | None = None
        self._held = LockData(expired=True, valid_until_ms=0, owner=owner)

    @property
    def path(self) -> str:
        return LOCK_PATH

    @property
    def cure(self) -> str:
        return "the lock of a dead holder is taken over when it is no longer valid"

    def try_acquire(self) -> str | None:
        """None, or who has it. Raises: TableCorruptError: the object is no lock of Hudi."""
        with self._mutex:
            found = self._load()
            if found is not None and not self._is_free(found[0]):
                return found[0].owner
            etag = None if found is None else found[1]
            if self._put(self._valid(), etag):
                return None
            found = self._load()
            return "a writer that was quicker" if found is None else found[0].owner

    def renew(self) -> None:
        with self._mutex:
            until = self._held.valid_until_ms - self._validity_ms + self._renewal_ms
            if not self._held.expired and self._clock.now_ms() >= until:
                self._put(self._valid(), self._etag)

    def check(self) -> None:
        """Put it again: it is ours for its whole validity. Raises: FencedError."""
        with self._mutex:
            if self._held.expired or not self._put(self._valid(), self._etag):
                raise FencedError(
                    "Hudi's lock of the table was taken over",
                    culprit=LOCK_PATH,
                    hint="this writer stalled for longer than hoodie.write.lock.storage.validity.timeout.secs; "
                    "run again, or raise it",
                )

    def release(self) -> None:
        with self._mutex:
            if not self._held.expired:
                self._put(
                    LockData(expired=True, valid_until_ms=self._held.valid_until_ms, owner=self._owner), self._etag
                )

    def _valid(self) -> LockData:
        return LockData(expired=False, valid_until_ms=self._clock.now_ms() + self._validity_ms, owner=self._owner)

    def _is_free(self, found: LockData) -> bool:
        if found.expired or found.owner.startswith(self._mark):
            return True  # ours: its writer has lost our own lock, which is held now
        return self._clock.now_ms() > found.valid_until_ms + DRIFT_MS

    def _load(self) -> tuple[LockData, str] | None:
        """The lock and its version mark. The mark is asked for first: if the object is newer, a put by it fails."""
        try:
            etag = self._storage.head(LOCK_PATH).etag
            data = self._storage.read(LOCK_PATH)
        except ObjectNotFoundError:
            return None
        return decode_lock(data), etag or ""

    def _put(self, wanted: LockData, etag: str | None) -> bool:
        """Put it in the place of one version, or of none; whether it stands there now.

        No answer is trusted but a plain yes: a client may send a request again, and then be told that its own object
        is in the way.
        """
        for left in reversed(range(_TRIES)):
            try:
                if etag is not None:
                    self._stands(wanted, self._storage.replace(LOCK_PATH, wanted.encode(), etag))
                    return True
                self._storage.create(LOCK_PATH, wanted.encode())
            except (ObjectChangedError, ObjectExistsError, UnknownOutcomeError) as error:
                failure: StorageError | None = error
            else:
                failure = None
            found = self._load()
            if found is not None and found[0] == wanted:
                self._stands(*found)
                return True
            unchanged = (None if found is None else found[1]) == etag
            if not unchanged:
                self._held = LockData(expired=True, valid_until_ms=0, owner=self._owner)
                return False
            if failure is not None and not left:
                raise failure
        raise UnknownOutcomeError(f"cannot tell whether {LOCK_PATH} was written", culprit=LOCK_PATH, hint="run again")

    def _stands(self, held: LockData, etag: str) -> None:
        self._held, self._etag = held, etag


class FileSystemLock:
    """Hudi's lock on file systems: a file that is there or not.

    ``.hoodie/lock``, or ``lock`` in the folder of ``hoodie.write.lock.filesystem.path``. Who creates it holds the lock,
    and deletes it to let go of it. Hudi leaves it empty (it means to write by whom it was created, as JSON, but only if
    the file is not there); we write that into it, for people, and to know our own. Nobody renews it: if
    ``hoodie.write.lock.filesystem.expire`` is given, in minutes, a file that was last written before that is deleted by
    the next writer that wants it. Facts: ``FileSystemBasedLockProvider`` and ``LockInfo`` of Hudi 0.15.0 and 1.2.0.

    Hudi looks whether the file is there and then creates it, which on a local disk are two steps; and a writer of 0.15
    that gives up waiting deletes the file, whoever has it. So the check reads the file: it must be the one that was
    created here, and not about to expire.

    Args:
        storage: the folder that it is in.
        owner: unique to this acquisition.
        mark: how the owners of all writers of lakeindex of this table begin.
        expire_ms: age at which anybody may delete the file; 0: never.
    """

    def __init__(
        self, storage: Storage, path: str, clock: Clock, owner: str, mark: str, *, expire_ms: int, purpose: str
    ) -> None:
        self._storage = storage
        self._path = path
        self._clock = clock
        self._mark = mark
        self._expire_ms = expire_ms
        self._acquired_ms = clock.now_ms()
        self._data = _encode(owner, purpose, self._acquired_ms)

    @property
    def path(self) -> str:
        return f"{self._storage.uri}/{self._path}"

    @property
    def cure(self) -> str:
        if self._expire_ms:
            return "the lock of a dead holder is taken over when hoodie.write.lock.filesystem.expire has passed"
        return (
            "if its holder is dead, delete this file: without hoodie.write.lock.filesystem.expire it never expires, "
            "in Hudi neither"
        )

    def try_acquire(self) -> str | None:
        self._acquired_ms = self._clock.now_ms()
        if self._create():
            return None
        standing = self._read()
        if standing == self._data:
            return None  # the answer was lost
        if standing is None:
            return "a writer that has just let go of it"
        if not self._is_dead(standing):
            return self._described(standing)
        if self._read() == standing and self._is_dead(standing):  # Hudi's files are alike: their age tells them apart
            self._delete()
        return "a dead writer"  # cleared: it is free at the next try

    def renew(self) -> None:
        """Nobody renews it: see the head of the module."""

    def check(self) -> None:
        """The file is the one created here, and not about to expire. Raises: FencedError."""
        if self._read() != self._data:
            raise FencedError(
                "Hudi's lock of the table was lost",
                culprit=self.path,
                hint="another writer deleted its file: Hudi does so when one of its writers is closed, and when "
                "hoodie.write.lock.filesystem.expire has passed; run again",
            )
        if self._expire_ms and self._clock.now_ms() > self._acquired_ms + self._expire_ms - MARGIN_MS:
            raise FencedError(
                "Hudi's lock of the table is about to expire",
                culprit=self.path,
                hint="it is held for longer than hoodie.write.lock.filesystem.expire allows; "
                "raise that for all writers of the table",
            )

    def release(self) -> None:
        if self._read() == self._data:
            self._delete()
            sync_folders(self._storage, [self._path.rpartition("/")[0]])  # it must not come back

    def _create(self) -> bool:
        with suppress(ObjectExistsError, UnknownOutcomeError):
            self._storage.create(self._path, self._data)
            self._storage.sync([self._path])  # after a power loss it must still say whose it is
            return True
        return False

    def _read(self) -> bytes | None:
        try:
            return self._storage.read(self._path)
        except ObjectNotFoundError:
            return None

    def _is_dead(self, standing: bytes) -> bool:
        if str(_decode(standing).get(_THREAD, "")).startswith(self._mark):
            return True  # ours: its writer has lost our own lock, which is held now
        if not self._expire_ms:
            return False
        try:
            modified = self._storage.head(self._path).modified_ms
        except ObjectNotFoundError:
            return False
        return self._clock.now_ms() - modified > self._expire_ms

    def _described(self, standing: bytes) -> str:
        found = _decode(standing)
        if _THREAD in found:
            return f"{found[_THREAD]!r} since {found.get(_CREATED, 'an unknown time')}"
        try:
            modified = self._storage.head(self._path).modified_ms
        except ObjectNotFoundError:
            return "a writer of Hudi that has just let go of it"
        return f"a writer of Hudi since {_time_of(modified)}"

    def _delete(self) -> None:
        records.remove(self._storage, [self._path, crc_path(self._path)])


def _encode(owner: str, purpose: str, now_ms: int) -> bytes:
    """As Hudi's ``LockInfo`` would be: its writers print it while they wait."""
    return json.dumps({_CREATED: _time_of(now_ms), _THREAD: owner, "lockStacksInfo": [purpose]}, indent=2).encode()


def _time_of(milliseconds: int) -> str:
    """In this machine's time zone, as Hudi writes it."""
    return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _decode(standing: bytes) -> dict[str, Any]:
    """What the file says; one of Hudi says nothing."""
    try:
        found = json.loads(standing)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


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
        purpose: what for; Hudi's writers that wait for it print it.

    Raises:
        OptionError: the provider cannot work on the table's store, nor does it in Hudi.
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
