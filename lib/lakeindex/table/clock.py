"""Time, as the commit protocol sees it. Nothing but waiting and judging who is alive depends on it."""

from __future__ import annotations

import time
from typing import Protocol


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
