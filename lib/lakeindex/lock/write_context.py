"""What every step of a write needs: the table, the machine, the options, and what keeps its leases alive.

``.hoodie/.lakeindex/writer.json`` says which release last wrote into the table. Its format number goes up when a
release writes something that an older one would get wrong; that one then refuses to write. It is looked at under the
table's lock, which every writer takes before it changes anything.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from lakeindex.errors import ObjectNotFoundError, TableUnsupportedError, noted
from lakeindex.format.instants import comparable
from lakeindex.lock import hudi_lock, lock
from lakeindex.options.types import WriteConfig
from lakeindex.storage.port import Storage
from lakeindex.table.binding import this_release
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.timeline import records
from lakeindex.timeline.clock import timeline_ms
from lakeindex.timeline.pending_files import RENEWAL_SECONDS
from lakeindex.timeline.timeline import Timeline

WRITER_PATH: Final = f"{records.OWN_FOLDER}/writer.json"
WRITER_FORMAT: Final = 1


def note_writer(storage: Storage) -> None:
    """Enter this release, if another one or none is entered. The lock is held.

    Raises:
        TableUnsupportedError: a release wrote into the table that does what this one does not know.
    """
    found = _load(storage)
    written_as = found.get("format")
    if isinstance(written_as, int) and written_as > WRITER_FORMAT:
        raise TableUnsupportedError(
            f"{found.get('release', 'a newer release')} wrote into the table in format {written_as}, "
            f"this release knows {WRITER_FORMAT}",
            culprit=WRITER_PATH,
            hint="use the release that wrote it, or a newer one, for every writer of the table",
        )
    mine: dict[str, object] = {"format": WRITER_FORMAT, "release": this_release()}
    if found != mine:
        records.put(storage, WRITER_PATH, records.encode(mine))


def _load(storage: Storage) -> dict[str, Any]:
    """The record; empty if there is none, or what a power loss left of one."""
    try:
        found = json.loads(storage.read(WRITER_PATH))
    except (ObjectNotFoundError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


class Renewable(Protocol):
    """Something with a lease."""

    def renew(self) -> None:
        """Extend the lease."""


class Heartbeat:
    """Renews every lease it was given three times a lease, and often enough for the heartbeats of pending instants.

    A renewal that fails is tried again at the next beat; that the lease ran out in spite of it is found out by the
    checks before the commit.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._pause = min(lease_seconds / 3, RENEWAL_SECONDS)
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


_RELEASE_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class WriteContext:
    """One writer at one table.

    Attributes:
        heartbeat: renews leases; ``None`` where the steps of the protocol do.
        force: whether foreign pending instants are rolled back whatever their age.
        notes: what was done to other writers' instants, for the summary; grows.
    """

    table: Table
    host: Host
    config: WriteConfig
    heartbeat: Heartbeat | None = None
    force: bool = False
    notes: list[str] = field(default_factory=list, compare=False)

    @property
    def storage(self) -> Storage:
        """The table's folder."""
        return self.table.storage

    @property
    def lease_ms(self) -> int:
        """Lease of lock and attempts, milliseconds."""
        return self.config.lock_lease_seconds * 1000

    @property
    def shares_lock(self) -> bool:
        """Whether Hudi's writers hold the same lock: they may be in flight at any time, and look for conflicts."""
        return self.config.lock_provider is not None

    @property
    def table_clock_ms(self) -> int:
        """What the table's clock shows now: milliseconds that, read as UTC, are the instant time of now."""
        return timeline_ms(self.table.properties.timezone, self.host.clock.now_ms())

    def completion_time(self, timeline: Timeline, after: str | None = None) -> str | None:
        """When what is completed now is completed, by the table's clock; None where the timeline does not say.

        Args:
            timeline: as it is now; the lock is held.
            after: another time that it must be later than.
        """
        times = (one for one in (timeline.max_time, after) if one is not None)
        return timeline.layout.completion_time(max(times, key=comparable, default=None), self.table_clock_ms)

    @contextmanager
    def locked(self, purpose: str, instant: str | None = None) -> Iterator[lock.TableLock]:
        """Hold the table's lock and, if the options name its provider, Hudi's.

        Raises:
            LockTimeoutError: one of them could not be had in time.
            OptionError: Hudi's cannot be had on the table's store.
            TableUnsupportedError: a newer release wrote into the table what this one does not know.
        """
        partner = hudi_lock.hudi_lock(self.storage, self.host, self.config, purpose)
        wait_ms = self.config.lock_wait_seconds * 1000
        held = lock.acquire(
            self.storage, self.host, lease_ms=self.lease_ms, wait_ms=wait_ms, purpose=purpose, instant=instant
        )
        try:
            if self.heartbeat is not None:
                self.heartbeat.add(held)
            if partner is not None:
                hudi_lock.acquire(partner, self.host, wait_ms=wait_ms, waiting=held.renew)
                held.join(partner)
            note_writer(self.storage)
            yield held
        finally:
            try:
                if self.heartbeat is not None:
                    self.heartbeat.drop(held)
                _release(held)
            finally:
                held.forget()


def _release(held: lock.TableLock) -> None:
    """Let go. What was done under the lock stands whether or not this is answered: its lease runs out anyway."""
    for _ in range(_RELEASE_TRIES):
        if not noted("the lock was not released", held.release):
            return
