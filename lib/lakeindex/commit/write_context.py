"""What every step of a write needs: the table, the machine, the options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from lakeindex.aftermath import noted
from lakeindex.commit.lock import lock
from lakeindex.commit.lock.heartbeat import Heartbeat
from lakeindex.format.instants import comparable
from lakeindex.options.types import WriteConfig
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.table.writer_record import note_writer
from lakeindex.timeline.clock import timeline_ms
from lakeindex.timeline.timeline import Timeline

_RELEASE_TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class WriteContext:
    """One writer at one table.

    Attributes:
        table: the table.
        host: clock and process.
        config: options.
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

    def completion_time(self, timeline: Timeline, after: str | None = None) -> str | None:
        """When what is completed now is completed, by the table's clock; None where the timeline does not say.

        Args:
            timeline: as it is now; the lock is held.
            after: another time that it must be later than.
        """
        now_ms = timeline_ms(self.table.properties.timezone, self.host.clock.now_ms())
        times = (one for one in (timeline.max_time, after) if one is not None)
        return timeline.layout.completion_time(max(times, key=comparable, default=None), now_ms)

    @contextmanager
    def locked(self, purpose: str, instant: str | None = None) -> Iterator[lock.TableLock]:
        """Hold the table's lock.

        Raises:
            LockTimeoutError: it could not be had in time.
            TableUnsupportedError: a newer release wrote into the table what this one does not know.
        """
        held = lock.acquire(
            self.storage,
            self.host,
            lease_ms=self.lease_ms,
            wait_ms=self.config.lock_wait_seconds * 1000,
            purpose=purpose,
            instant=instant,
        )
        if self.heartbeat is not None:
            self.heartbeat.add(held)
        try:
            note_writer(self.storage)
            yield held
        finally:
            if self.heartbeat is not None:
                self.heartbeat.drop(held)
            _release(held)


def _release(held: lock.TableLock) -> None:
    """Let go. What was done under the lock stands whether or not this is answered: its lease runs out anyway."""
    for _ in range(_RELEASE_TRIES):
        if not noted("the lock was not released", held.release):
            return
