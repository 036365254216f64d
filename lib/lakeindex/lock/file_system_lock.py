"""Hudi's lock on file systems: a file that is there or not.

``.hoodie/lock``, or ``lock`` in the folder of ``hoodie.write.lock.filesystem.path``. Who creates it holds the lock, and
deletes it to let go of it. Hudi leaves it empty (it means to write by whom it was created, as JSON, but only if the
file is not there); we write that into it, for people, and to know our own. Nobody renews it: if
``hoodie.write.lock.filesystem.expire`` is given, in minutes, a file that was last written before that is deleted by the
next writer that wants it. Facts: ``FileSystemBasedLockProvider`` and ``LockInfo`` of Hudi 0.15.0 and 1.2.0.

Hudi looks whether the file is there and then creates it, which on a local disk are two steps; and a writer of 0.15 that
gives up waiting deletes the file, whoever has it. So the check reads the file: it must be the one that was created
here, and not about to expire.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from lakeindex.errors import FencedError, ObjectExistsError, ObjectNotFoundError, UnknownOutcomeError
from lakeindex.format.file_names import crc_path
from lakeindex.storage import sync_folders
from lakeindex.storage.port import Storage
from lakeindex.timeline import records
from lakeindex.timeline.clock import Clock

MARGIN_MS: Final = 10_000
"""How long before it expires the lock is not relied on any more: clocks differ, and a commit takes its time."""

_THREAD: Final = "lockThreadName"
_CREATED: Final = "lockCreateTime"


class FileSystemLock:
    """The lock.

    Args:
        storage: the folder that it is in.
        path: its file.
        clock: time.
        owner: unique to this acquisition.
        mark: how the owners of all writers of lakeindex of this table begin.
        expire_ms: age at which anybody may delete the file; 0: never.
        purpose: what for, for people.
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
        """Where it is."""
        return f"{self._storage.uri}/{self._path}"

    @property
    def cure(self) -> str:
        """What to do about a dead holder."""
        if self._expire_ms:
            return "the lock of a dead holder is taken over when hoodie.write.lock.filesystem.expire has passed"
        return (
            "if its holder is dead, delete this file: without hoodie.write.lock.filesystem.expire it never expires, "
            "in Hudi neither"
        )

    def try_acquire(self) -> str | None:
        """Take it, if it is free: None, or who has it."""
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
        """Delete the file, if it is the one created here."""
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
