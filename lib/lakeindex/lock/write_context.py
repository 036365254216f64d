"""What every step of a write needs: the table, the machine, the options, its locks, and what keeps their leases alive.

``.hoodie/.lakeindex/writer.json`` says which release last wrote into the table. Its format number goes up when a
release writes something that an older one would get wrong; that one then refuses to write. It is looked at under the
table's lock, which every writer takes before it changes anything.

Before anything is written, this machine's clock and time zone are compared with the table's (:func:`check_clock`,
:func:`check_zone`). Instants only have to grow, so a wrong clock goes unnoticed until another writer comes: one that is
ahead leaves instants behind which all right ones have to queue, one hour or decades; a time zone that does not fit does
the same for some hours, and hides what others commit meanwhile, as their data files are older than ours.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Protocol

from msgspec import field

from lakeindex.errors import ClockError, ObjectNotFoundError, TableUnsupportedError, noted
from lakeindex.format.instants import comparable, instant_time_to_ms
from lakeindex.frozen import ComparedInPart
from lakeindex.lock import hudi_lock, lock
from lakeindex.lock.lock import TableLock
from lakeindex.options.types import WriteConfig
from lakeindex.storage.port import Storage
from lakeindex.table.binding import this_release
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, this_host
from lakeindex.timeline import records
from lakeindex.timeline.clock import timeline_ms
from lakeindex.timeline.pending_files import RENEWAL_SECONDS
from lakeindex.timeline.timeline import Timeline

_HOURS_MS: Final = 2 * 3_600_000
"""More than local time goes back in autumn."""

_OVERRIDE: Final = "-o lakeindex.clock.max.skew=0 lets it pass"


def check_clock(context: WriteContext, lock: TableLock) -> None:
    """Compare this machine's clock with the store's, by the lock's record, which was written just now.

    Raises:
        ClockError: they differ by more than ``lakeindex.clock.max.skew``.
    """
    most = context.config.clock_max_skew_seconds
    if not most:
        return
    try:
        there = context.storage.head(lock.path).modified_ms
    except ObjectNotFoundError:
        return  # taken over: the checks of the lock tell
    here = context.host.clock.now_ms()
    if abs(here - there) > most * 1000:
        raise ClockError(
            f"this machine's clock says {_utc(here)}, the table's store says {_utc(there)} of a file written just now",
            culprit=context.table.uri,
            hint=f"set the clock right; {_OVERRIDE}, and leaves instants that others have to queue behind",
        )


def check_zone(context: WriteContext, timeline: Timeline) -> None:
    """No instant lies hours ahead of now, as the table's time zone has it here.

    Raises:
        ClockError: one does: it was taken in another time zone, or by a wrong clock.
    """
    newest, zone = timeline.max_time, context.table.properties.timezone
    if newest is None or not context.config.clock_max_skew_seconds:
        return
    try:
        ahead = instant_time_to_ms(newest) - context.table_clock_ms
    except ValueError:
        return  # no time of day: an instant of another kind
    if ahead > _HOURS_MS:
        raise ClockError(
            f"instant {newest} is {ahead / 3_600_000:.1f} hours ahead of now, "
            f"in the table's time zone {zone} as it is here",
            culprit=newest,
            hint="run in the time zone of the table's other writers (TZ), or find the writer whose clock is wrong; "
            f"{_OVERRIDE}: instants then follow that one",
        )


def _utc(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


WRITER_PATH: Final = f"{records.OWN_FOLDER}/writer.json"
WRITER_FORMAT: Final = 1


def note_writer(storage: Storage) -> None:
    """Enter this release, if another one or none is entered. The lock is held.

    Raises:
        TableUnsupportedError: a newer release wrote into the table in a format that this one does not know.
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
    """Renews each lease three times before it runs out, and often enough for the heartbeats of pending instants.

    A renewal that fails is tried again at the next beat; a lease that ran out in spite of it is found by the checks
    before the commit.
    """

    def __init__(self, lease_seconds: float) -> None:
        self._pause = min(lease_seconds / 3, RENEWAL_SECONDS)
        self._stop = threading.Event()
        self._mutex = threading.Lock()
        self._renewed: list[Renewable] = []
        self._thread = threading.Thread(target=self._beat, name="lakeindex-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, lease: Renewable) -> None:
        with self._mutex:
            self._renewed.append(lease)

    def drop(self, lease: Renewable) -> None:
        with self._mutex:
            self._renewed = [one for one in self._renewed if one is not lease]

    def stop(self) -> None:
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


class WriteContext(ComparedInPart):
    """One writer at one table.

    Attributes:
        heartbeat: renews leases; ``None`` where the steps of the protocol do.
        force: whether foreign pending instants are rolled back whatever their age.
        notes: what was done to other writers' instants, for the summary; grows.
    """

    aside: ClassVar = frozenset({"notes"})
    table: Table
    host: Host
    config: WriteConfig
    heartbeat: Heartbeat | None = None
    force: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def storage(self) -> Storage:
        return self.table.storage

    @property
    def lease_ms(self) -> int:
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
        """The completion time of what is completed now, by the table's clock; None in timeline layout 1.

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


@contextmanager
def holding(
    table: Table,
    purpose: str,
    config: WriteConfig,
    *,
    force: bool = False,
    host: Host | None = None,
    decision: str | None = None,
) -> Iterator[tuple[WriteContext, TableLock]]:
    """Hold the lock; its lease is renewed meanwhile.

    Args:
        purpose: what for; others that wait for the lock see it.
        force: take other writers' pending instants for dead.
        decision: what is going to be decided under it, if anything: whoever takes over settles that first.

    Raises:
        LockTimeoutError: another writer held the lock for too long.
        ClockError: this machine's clock is far from the store's.
    """
    machine = host or this_host()
    heartbeat = Heartbeat(config.lock_lease_seconds) if machine.heartbeat else None
    context = WriteContext(table, machine, config, heartbeat, force)
    if heartbeat is not None:
        heartbeat.start()
    try:
        with context.locked(purpose, decision) as lock:
            check_clock(context, lock)
            yield context, lock
    finally:
        if heartbeat is not None:
            heartbeat.stop()


@contextmanager
def locked(storage: Storage, config: WriteConfig, purpose: str) -> Iterator[None]:
    """Keep other writers of the table out; the lease is renewed meanwhile. Raises: LockTimeoutError."""
    with holding(Table.open(storage), purpose, config):
        yield
