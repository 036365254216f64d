"""Time, as the commit protocol sees it. Nothing but waiting and judging who is alive depends on it.

Instants are another matter: they only have to grow, but they must not run ahead of the other writers' clocks. Hudi
takes them from local time unless the table says UTC, so on such a table we do, too: an instant of ours in UTC would
hide every commit of a Hudi writer west of Greenwich for hours, its data files being older than ours.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from lakeindex.format.instants import instant_time_to_ms
from lakeindex.time_spent import waiting

UTC_TIMELINE: Final = "UTC"

_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 1.0


class Clock(Protocol):
    """Wall clock and sleep; tests inject their own."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class Patience:
    """Waiting for something that others let go of: pauses that grow, until it is over."""

    def __init__(self, clock: Clock, wait_ms: int) -> None:
        self._clock = clock
        self._deadline = clock.now_ms() + wait_ms
        self._pause = _FIRST_PAUSE

    @property
    def is_over(self) -> bool:
        return self._clock.now_ms() >= self._deadline

    def pause(self) -> None:
        with waiting():
            self._clock.sleep(self._pause)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)


def timeline_ms(timezone: str, now_ms: int) -> int:
    """What a table's clock shows: milliseconds that, read as UTC, are the instant time of now.

    Args:
        timezone: ``hoodie.table.timeline.timezone``, ``UTC`` or ``LOCAL`` (Hudi's default).
        now_ms: milliseconds since the epoch, UTC.
    """
    if timezone == UTC_TIMELINE:
        return now_ms
    offset = datetime.fromtimestamp(now_ms // 1000, UTC).astimezone().utcoffset()
    return now_ms + (0 if offset is None else int(offset.total_seconds()) * 1000)


def instant_ms(timezone: str, time: str) -> int:
    """When an instant was: milliseconds since the epoch, UTC.

    A time that local clocks show twice is the first of both, as in Java.

    Raises:
        ValueError: its digits are no date.
    """
    shown = instant_time_to_ms(time)
    if timezone == UTC_TIMELINE:
        return shown
    local = datetime(1970, 1, 1) + timedelta(milliseconds=shown)  # noqa: DTZ001 - what a local clock shows
    return int(local.timestamp()) * 1000 + shown % 1000
