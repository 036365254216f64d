"""Instants: their times, and the names of their files on the timeline.

Timeline layout 1 (table version 6), files in ``.hoodie/``::

    <time>.<action>.requested      <time>.<action>.inflight      <time>.<action>
    <time>.inflight                                              (inflight of a commit: no action in the name)

Timeline layout 2 (table versions 8 and 9), files in ``.hoodie/timeline/``: the first two are the same, and::

    <time>_<completion time>.<action>

Times are ``yyyyMMddHHmmssSSS``; old releases wrote 14 digits, which compare after appending ``999``. Actions that
are not known are kept as they are: a reader has to count them, not to understand them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from lakeindex.errors import OptionError, TableCorruptError
from lakeindex.model import Instant, InstantState

COMMIT: Final = "commit"
DELTA_COMMIT: Final = "deltacommit"
REPLACE_COMMIT: Final = "replacecommit"
CLUSTERING: Final = "clustering"
COMPACTION: Final = "compaction"
LOG_COMPACTION: Final = "logcompaction"
CLEAN: Final = "clean"
ROLLBACK: Final = "rollback"
SAVEPOINT: Final = "savepoint"
RESTORE: Final = "restore"
INDEXING: Final = "indexing"
SCHEMA_COMMIT: Final = "schemacommit"

WRITE_ACTIONS: Final = frozenset({COMMIT, DELTA_COMMIT, REPLACE_COMMIT})
"""Actions whose completion makes data files visible."""

COMPLETED_ACTION: Final = {CLUSTERING: REPLACE_COMMIT, COMPACTION: COMMIT, LOG_COMPACTION: DELTA_COMMIT}
"""Actions that change their name on completion."""

ACTIONS: Final = frozenset(
    {*WRITE_ACTIONS, *COMPLETED_ACTION, CLEAN, ROLLBACK, SAVEPOINT, RESTORE, INDEXING, SCHEMA_COMMIT}
)
"""Actions that are known."""

TIME_DIGITS: Final = 17
_OLD_TIME_DIGITS: Final = 14

_NAME: Final = re.compile(
    r"(?P<time>[0-9]{14,})(?:_(?P<completion>[0-9]{14,}))?"
    r"\.(?P<first>[A-Za-z][A-Za-z0-9-]*)(?:\.(?P<second>[A-Za-z]+))?",
    re.ASCII,
)

_LIKE_INSTANT: Final = re.compile(r"[0-9]{14,}[._].+", re.DOTALL)
_LEFTOVER: Final = re.compile(r"(?P<name>.+)\.(tmp|crc|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.ASCII)
"""Files that a writer which was killed leaves beside an instant's."""


def is_unknown_instant(name: str) -> bool:
    """Whether a timeline file's name begins as an instant does, and has an action or a state that is not known."""
    if _LIKE_INSTANT.fullmatch(name) is None:
        return False
    left = _LEFTOVER.fullmatch(name)
    instant = parse_instant(name if left is None else left.group("name"))
    return instant is None or instant.action not in ACTIONS


def parse_instant(name: str) -> Instant | None:
    """The instant a timeline file's name stands for; ``None`` for any other file (``.crc``, properties, ...)."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    time, completion, first, second = match.group("time", "completion", "first", "second")
    pending = {InstantState.REQUESTED.value, InstantState.INFLIGHT.value}
    if second is not None:
        if second not in pending or completion is not None:
            return None
        return Instant(time, first, InstantState(second))
    if first == InstantState.INFLIGHT.value and completion is None:
        return Instant(time, COMMIT, InstantState.INFLIGHT)
    if first in pending:
        return None
    return Instant(time, first, InstantState.COMPLETED, completion)


def instant_file_name(instant: Instant) -> str:
    """Name of the timeline file of an instant in its state; the inverse of :func:`parse_instant`."""
    if instant.state is InstantState.COMPLETED:
        completion = f"_{instant.completion_time}" if instant.completion_time else ""
        return f"{instant.time}{completion}.{instant.action}"
    if instant.state is InstantState.INFLIGHT and instant.action == COMMIT:
        return f"{instant.time}.{InstantState.INFLIGHT}"
    return f"{instant.time}.{instant.action}.{instant.state}"


def requested_name(time: str, action: str = COMMIT) -> str:
    return instant_file_name(Instant(time, action, InstantState.REQUESTED))


def inflight_name(time: str, action: str = COMMIT) -> str:
    return instant_file_name(Instant(time, action, InstantState.INFLIGHT))


def completed_name(time: str, action: str = COMMIT) -> str:
    return instant_file_name(Instant(time, action, InstantState.COMPLETED))


def completed_action(action: str) -> str:
    """The action of the completed file: a ``clustering`` ends as a ``replacecommit``, the others keep their name."""
    return COMPLETED_ACTION.get(action, action)


def comparable(time: str) -> str:
    """A text that orders instant times: 14-digit times of old releases count as the last millisecond."""
    return time + "999" if len(time) == _OLD_TIME_DIGITS else time


def instant_time_of(now_ms: int) -> str:
    """Instant time of a clock reading, milliseconds since the epoch, in UTC."""
    moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=now_ms)
    return _format(moment)


def instant_time_to_ms(time: str) -> int:
    """Milliseconds since the epoch of an instant time read as UTC.

    Raises:
        ValueError: the digits are no date.
    """
    return (_moment(time) - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)


def next_instant_time(after: str | None, now_ms: int) -> str:
    """The clock's instant time, or the first one after ``after`` if the clock is not past it; always 17 digits.

    Args:
        after: the greatest instant time on the timeline, in any state; ``None`` on an empty one.

    Raises:
        TableCorruptError: ``after`` is the greatest there can be.
    """
    now = instant_time_of(now_ms)
    if after is None or now > comparable(after):
        return now
    head = comparable(after)[:TIME_DIGITS].ljust(TIME_DIGITS, "0")
    try:
        return instant_time_of(instant_time_to_ms(head) + 1)
    except (ValueError, OverflowError):
        # Not a date (a foreign writer's counter): the next number still orders right.
        following = f"{int(head) + 1:0{TIME_DIGITS}d}"
    if len(following) > TIME_DIGITS:
        raise TableCorruptError(f"no instant can follow {after}", culprit=after, hint="its digits are no time")
    return following


def previous_instant_time(time: str) -> str:
    """The time one millisecond before an instant time of 17 digits."""
    try:
        return instant_time_of(instant_time_to_ms(time) - 1)
    except (ValueError, OverflowError):
        return f"{int(time) - 1:0{TIME_DIGITS}d}"  # not a date (a foreign writer's counter)


def parse_point_in_time(text: str, option: str = "--as-of") -> str:
    """An instant time from what a user writes: an instant (14 or 17 digits) or an ISO time.

    An ISO time without a zone is UTC; digits below the millisecond are cut off; a bare date is its midnight.

    Raises:
        OptionError: neither of the two.
    """
    stripped = text.strip()
    if re.fullmatch(r"[0-9]{14}|[0-9]{17}", stripped):
        return comparable(stripped)
    hint = "give an instant such as 20260131235959000 or an ISO time such as 2026-01-31T23:59:59Z"
    if re.fullmatch(r"[0-9]+", stripped):
        raise OptionError(f"{option} cannot be {text!r}", culprit=text, hint=hint)
    try:
        moment = datetime.fromisoformat(stripped)
        utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise OptionError(f"{option} cannot be {text!r}", culprit=text, hint=hint) from None
    return _format(utc)


def iso_of_instant_time(time: str) -> str | None:
    """ISO text (UTC, milliseconds) of an instant time; ``None`` if its digits are no date."""
    try:
        moment = _moment(time)
    except ValueError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _format(moment: datetime) -> str:
    return f"{moment.year:04d}{moment:%m%d%H%M%S}{moment.microsecond // 1000:03d}"


def _moment(time: str) -> datetime:
    digits = comparable(time)
    if len(digits) != TIME_DIGITS:
        raise ValueError(f"an instant time has {TIME_DIGITS} digits: {time}")
    year, month, day = int(digits[:4]), int(digits[4:6]), int(digits[6:8])
    hour, minute, second = int(digits[8:10]), int(digits[10:12]), int(digits[12:14])
    return datetime(year, month, day, hour, minute, second, int(digits[14:]) * 1000, tzinfo=UTC)
