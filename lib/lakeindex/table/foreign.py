"""Writers that are none of ours: which pending instants are theirs, and which of those are dead."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakeindex.errors import ObjectNotFoundError, PendingInstantError, TableCorruptError
from lakeindex.format import instants as names
from lakeindex.model import Instant, InstantState
from lakeindex.storage.protocol import Storage
from lakeindex.table.avro_instants import parse_requested_replace
from lakeindex.table.claims import load_claim
from lakeindex.table.timeline import Timeline
from lakeindex.table.verdicts import load_verdict
from lakeindex.table.write_context import WriteContext

_HEARTBEATS: Final = ".hoodie/.heartbeat"
_ZONES_MS: Final = 12 * 3_600_000
"""An instant in local time is at most twelve hours behind UTC."""

_CLUSTER: Final = "CLUSTER"


def is_foreign(context: WriteContext, timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending write is another kind of writer's, and no scheduled clustering."""
    if load_claim(context.storage, instant.time) is not None:
        return False
    if load_verdict(context.storage, instant.time) is not None:
        return False
    return not _is_clustering(context.storage, timeline, instant)


def is_dead_foreign(context: WriteContext, timeline: Timeline, instant: Instant) -> bool:
    """Whether another writer's pending instant is older than it may be, or the user says that it is dead."""
    if context.force:
        return True
    limit = context.config.pending_foreign_max_age_seconds * 1000
    now = context.host.clock.now_ms()
    beat = modified_ms(context.storage, f"{_HEARTBEATS}/{instant.time}")
    if beat is not None and now - beat < limit:
        return False
    paths = [timeline.path(replace(instant, state=s)) for s in (InstantState.REQUESTED, InstantState.INFLIGHT)]
    touched = [ms for path in paths if (ms := modified_ms(context.storage, path)) is not None]
    if not touched or now - max(touched) >= limit:
        return True
    # A copied table has new modification times; the instant itself tells the start, in an unknown zone.
    try:
        return now - names.instant_time_to_ms(instant.time) - _ZONES_MS >= limit
    except ValueError:
        return False


def racing(context: WriteContext, timeline: Timeline, time: str) -> Instant | None:
    """A pending write of another kind of writer beside an instant of ours, if there is one."""
    found = (one for one in timeline.pending_writes if one.time != time and is_foreign(context, timeline, one))
    return next(found, None)


def pending_error(instant: Instant) -> PendingInstantError:
    """The error for a living one."""
    return PendingInstantError(
        f"instant {instant.time} ({instant.action}, {instant.state}) of another writer is in flight",
        culprit=instant.time,
        hint="wait for it; if its writer is dead, roll it back with `lakeindex rollback` or run with --force",
    )


def _is_clustering(storage: Storage, timeline: Timeline, instant: Instant) -> bool:
    """A scheduled clustering may wait for long; it blocks its file groups, not the table."""
    if instant.action == names.CLUSTERING:
        return True
    if instant.action != names.REPLACE_COMMIT:
        return False
    path = timeline.path(replace(instant, state=InstantState.REQUESTED))
    try:
        return parse_requested_replace(storage.read(path), path).operation == _CLUSTER
    except (ObjectNotFoundError, TableCorruptError):
        return False


def modified_ms(storage: Storage, path: str) -> int | None:
    """When an object was last written, milliseconds since the epoch; ``None`` if it is not there."""
    try:
        return storage.head(path).modified_ms
    except ObjectNotFoundError:
        return None
