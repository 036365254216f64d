"""Writers that are none of ours: which pending instants are theirs, and which of those are dead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lakeindex.commit.claims import load_claim
from lakeindex.errors import ObjectNotFoundError, PendingInstantError, TableCorruptError, WriteConflictError
from lakeindex.format import instants as names
from lakeindex.format.file_names import TEMP_FOLDER, parse_base_file
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import Instant, InstantState
from lakeindex.storage.port import Storage
from lakeindex.timeline.avro_instants import parse_requested_replace
from lakeindex.timeline.pending_files import heartbeat_path
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import load_verdict

_CLUSTER: Final = "CLUSTER"


def is_foreign(context: WriteContext, timeline: Timeline, instant: Instant) -> bool:
    """Whether a pending write is another kind of writer's, and no scheduled clustering."""
    if load_claim(context.storage, instant.time) is not None:
        return False
    if load_verdict(context.storage, instant.time) is not None:
        return False
    return not _is_clustering(context.storage, timeline, instant)


def is_dead_foreign(context: WriteContext, timeline: Timeline, instant: Instant) -> bool:
    """Whether another writer's pending instant shows no sign of life for too long, or the user says that it is dead.

    Signs are its files on the timeline, its heartbeat, its markers and its data files: a long write begins once,
    and goes on writing. Data files are looked for last, in the whole table, when everything else says that it is dead.
    """
    if context.force:
        return True
    since = context.host.clock.now_ms() - context.config.pending_foreign_max_age_seconds * 1000
    return not any(modified > since for modified in _signs_of_life(context.storage, timeline, instant))


def _signs_of_life(storage: Storage, timeline: Timeline, instant: Instant) -> Iterator[int]:
    """When each file of a pending write was last written, milliseconds since the epoch;
    what is asked cheaply comes first.
    """
    states = (InstantState.REQUESTED, InstantState.INFLIGHT)
    paths = [heartbeat_path(instant.time), *(timeline.path(replace(instant, state=state)) for state in states)]
    for path in paths:
        modified = modified_ms(storage, path)
        if modified is not None:
            yield modified
    for marker in storage.list(f"{TEMP_FOLDER}/{instant.time}"):
        yield marker.modified_ms
    for one in storage.list():
        folder, _, name = one.path.rpartition("/")
        file = parse_base_file(folder, name)
        if file is not None and file.instant_time == instant.time:
            yield one.modified_ms


def racing(context: WriteContext, timeline: Timeline, time: str) -> Instant | None:
    """A pending write of another kind of writer beside an instant of ours, if there is one."""
    found = (one for one in timeline.pending_writes if one.time != time and is_foreign(context, timeline, one))
    return next(found, None)


def pending_error(instant: Instant) -> PendingInstantError:
    """The error for a living one."""
    return PendingInstantError(
        f"instant {instant.time} ({instant.action}, {instant.state}) of another writer is in flight",
        culprit=instant.time,
        hint="wait for it; if its writer is dead, roll it back with `lakeindex rollback`, or say force=True (--force)",
    )


def rolled_back_error(time: str, when: str = "") -> WriteConflictError:
    """The error for an instant of ours that another writer took for dead; ``when``: while what."""
    return WriteConflictError(
        f"instant {time} was rolled back by another writer{when and ' '}{when}",
        culprit=time,
        hint="the batch is planned again; a Hudi writer with its default settings must not run at the same time "
        "(docs/compatibility.md)",
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
