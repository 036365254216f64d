"""Time, as the commit protocol sees it. Nothing but waiting and judging who is alive depends on it.

Instants are another matter: they only have to grow, but they must not run ahead of the other writers' clocks. Hudi
takes them from local time unless the table says UTC, so on such a table we do, too: an instant of ours in UTC would
hide every commit of a Hudi writer west of Greenwich for hours, its data files being older than ours.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final, Protocol

UTC_TIMELINE: Final = "UTC"


class Clock(Protocol):
    """Wall clock and sleep; tests inject their own."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch, UTC."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


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
