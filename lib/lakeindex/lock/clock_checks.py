"""Is the clock that instants are taken from right, and the time zone that of the table's other writers?

Instants only have to grow, so a wrong clock goes unnoticed until another writer comes: one that is ahead leaves
instants behind which all right ones have to queue, one hour or decades; a time zone that does not fit does the same for
some hours, and hides what others commit meanwhile, their data files being older than ours.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from lakeindex.errors import ClockError, ObjectNotFoundError
from lakeindex.format.instants import instant_time_to_ms
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext
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
