"""Locks that a forked process has anew: a thread that held one is not in it, and would never let it go."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType
from typing import Final

_locks: Final[weakref.WeakSet[ProcessLock]] = weakref.WeakSet()


class ProcessLock:
    """A reentrant lock among the threads of a process, for what lives as long as the process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Be a lock that nobody holds."""
        self._lock = threading.RLock()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
