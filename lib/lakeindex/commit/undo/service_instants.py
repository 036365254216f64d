"""Instants of table services (rollback, clean) on the timeline: taken, put there, resumed;
and where files are for Hudi.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lakeindex.errors import ObjectNotFoundError
from lakeindex.format import instants as names
from lakeindex.format.file_names import names_by_partition
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import Instant, InstantState
from lakeindex.storage.paths import plain
from lakeindex.storage.port import Storage
from lakeindex.timeline import records
from lakeindex.timeline.timeline import Timeline


def request_service(context: WriteContext, timeline: Timeline, action: str, plan: bytes) -> str:
    """Put a plan on the timeline under an instant that nothing else has; returns that instant.

    It is durable then: an inflight file whose plan a power loss took away would be pending for good.
    """
    floor = timeline.max_time
    while True:
        own = names.next_instant_time(floor, context.table_clock_ms)
        path = timeline.path(Instant(own, action, InstantState.REQUESTED))
        if records.settle(context.storage, path, plan) == plan:
            if all(one.action == action for one in context.table.load_timeline().find(own)):
                context.storage.sync([path])
                return own
            records.remove(context.storage, [path])
        floor = own


def settle_service(context: WriteContext, timeline: Timeline, instant: Instant, data: bytes) -> None:
    """Create a later file of a service's instant, unless an earlier try has.
    It is durable then, and so are those before it, and what was deleted beside them.
    """
    path = timeline.path(instant)
    records.settle(context.storage, path, data)
    context.storage.sync([path])


def complete_service(
    context: WriteContext, timeline: Timeline, instant: Instant, data: bytes, after: str | None = None
) -> None:
    """Create the completed file of a service's instant, unless an earlier try has;
    durable as in :func:`settle_service`.

    Where its name says when it was completed, two who finish one service at once leave two files that say the same.

    Args:
        instant: completed.
        data: content of the file.
        after: a time that it is completed later than.
    """
    settle_service(context, timeline, _completed_now(context, instant, after), data)


def _completed_now(context: WriteContext, instant: Instant, after: str | None) -> Instant:
    """A completed instant with its completion time, where the timeline's layout has one. The lock is held."""
    if not context.table.properties.timeline_layout.has_completion_times:
        return instant
    timeline = context.table.load_timeline()
    done = next((one for one in timeline.find(instant.time) if one.is_completed and one.action == instant.action), None)
    return done or replace(instant, completion_time=context.completion_time(timeline, after))


def is_fresh_service(context: WriteContext, timeline: Timeline, action: str, time: str) -> bool:
    """Whether another writer's pending service may still be running."""
    if context.force:
        return False
    path = timeline.path(Instant(time, action, InstantState.REQUESTED))
    try:
        modified = context.storage.head(path).modified_ms
    except ObjectNotFoundError:
        return False
    return context.host.clock.now_ms() - modified < context.config.pending_foreign_max_age_seconds * 1000


def located(storage: Storage, files: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Partition path -> URLs of files, as Hudi writes them (``file:/`` with one slash)."""
    place = plain(storage.uri)
    root = place if "://" in place else f"file:{place}"
    return {
        partition: tuple(f"{root}/{partition}/{name}" if partition else f"{root}/{name}" for name in found)
        for partition, found in names_by_partition(files).items()
    }
