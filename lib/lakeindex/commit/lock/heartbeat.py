"""Keeps leases alive from a thread, while the work that they protect takes its time."""

from __future__ import annotations

import threading
from typing import Protocol

from lakeindex.aftermath import noted


class Renewable(Protocol):
    """Something with a lease."""

    def renew(self) -> None:
        """Extend the lease."""


class Heartbeat:
    """Renews every lease it was given three times a lease.

    A renewal that fails is tried again at the next beat; that the lease ran out in spite of it is found out by the
    checks before the commit.

    Args:
        lease_seconds: length of the leases.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._pause = lease_seconds / 3
        self._stop = threading.Event()
        self._mutex = threading.Lock()
        self._renewed: list[Renewable] = []
        self._thread = threading.Thread(target=self._beat, name="lakeindex-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def add(self, lease: Renewable) -> None:
        """Renew this lease, too."""
        with self._mutex:
            self._renewed.append(lease)

    def drop(self, lease: Renewable) -> None:
        """Do not renew it any more."""
        with self._mutex:
            self._renewed = [one for one in self._renewed if one is not lease]

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _beat(self) -> None:
        while not self._stop.wait(self._pause):
            with self._mutex:
                todo = list(self._renewed)
            for lease in todo:
                noted("the lease was not renewed", lease.renew)  # a thread that ended would renew nothing any more
