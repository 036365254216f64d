"""Hudi's lock on object stores, without a server: one object that is replaced only if it is unchanged.

``.hoodie/.locks/table_lock.json`` is ``{"expired": bool, "validUntil": milliseconds since the epoch, "owner": text}``.
It is never deleted. It is free if there is none, if it is expired, or if ``validUntil`` has passed by more than half a
second, which is what Hudi allows clocks to differ by; then it is taken with a conditional put. Its holder puts it again
and again, and puts it as expired to let go of it. Facts: ``StorageBasedLockProvider``, ``StorageLockData`` and
``S3StorageLockClient`` of Hudi 1.2.0.

A put is the check: it succeeds only if nobody else has put since. After it the lock is ours for its whole validity.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import Final

from lakeindex.errors import (
    FencedError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    UnknownOutcomeError,
)
from lakeindex.storage.port import Storage
from lakeindex.timeline import records
from lakeindex.timeline.clock import Clock

LOCK_PATH: Final = ".hoodie/.locks/table_lock.json"

DRIFT_MS: Final = 500
"""How far apart Hudi allows the clocks of two writers to be."""

_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class LockData:
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
    """The lock.

    Args:
        storage: the table's folder.
        clock: time.
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
        """Where it is."""
        return LOCK_PATH

    @property
    def cure(self) -> str:
        """What to do about a dead holder."""
        return "the lock of a dead holder is taken over when it is no longer valid"

    def try_acquire(self) -> str | None:
        """Take it, if it is free: None, or who has it.

        Raises:
            TableCorruptError: the object is no lock of Hudi.
        """
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
        """Put it again, if that is due."""
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
        """Put it as expired, if it is still ours."""
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
