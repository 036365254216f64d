"""Which index a table has now: what is bound in ``table.json``, or what a later commit has put in its place.

``table.json`` never changes. A rewrite of the table for another index (a rescaling of buckets, a migration to
them) leaves ``.hoodie/.lakeindex/buckets/<instant>.json``: the index type and its bound options from that instant
on. It is put there before the commit and counts only once its instant is part of the table; the newest that does
is in force. So the change is atomic with the commit of the rewritten files, and a rollback or restore of the
instant takes it back, too.

A change whose instant was undone by somebody else stays behind as a dead file, which counts no more.
Our next write deletes it if a verdict, a rollback or a restore says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from lakeindex.errors import InvariantError, TimelineChangedError
from lakeindex.format.instants import comparable
from lakeindex.model import IndexSpec, IndexType
from lakeindex.storage import list_names
from lakeindex.storage.port import Storage
from lakeindex.timeline import records
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import load_verdict

INDEX_CHANGES_FOLDER: Final = f"{records.OWN_FOLDER}/buckets"

_FORMAT: Final = 1


def index_in_force(
    storage: Storage, timeline: Timeline, bound: IndexSpec, times: Sequence[str] | None = None
) -> IndexSpec:
    """The table's index now.

    Args:
        timeline: the instants that count.
        times: :func:`index_change_times`, if they were just listed.

    Raises:
        TableCorruptError: the change that is in force cannot be read.
        TimelineChangedError: it was rolled back while it was read.
    """
    time = newest_in_force(timeline, index_change_times(storage) if times is None else times)
    return bound if time is None else _load(storage, time)


def changed_index(storage: Storage, load_timeline: Callable[[], Timeline]) -> IndexSpec | None:
    """The index that has taken the bound one's place by now; None if none has. The timeline is listed only if one may
    have. Errors as of :func:`index_in_force`.
    """
    times = index_change_times(storage)
    time = newest_in_force(load_timeline(), times) if times else None
    return None if time is None else _load(storage, time)


def every_index(storage: Storage, bound: IndexSpec, times: Sequence[str] | None = None) -> list[IndexSpec]:
    """The indexes that the table has had: the bound one, and all changes, whether or not they are in force; arguments
    and errors as of :func:`index_in_force`.
    """
    return [bound, *(_load(storage, time) for time in (index_change_times(storage) if times is None else times))]


def _load(storage: Storage, time: str) -> IndexSpec:
    path = index_change_path(time)
    found = records.load(storage, path)
    if found is None:
        raise TimelineChangedError(
            f"{path} is gone: its instant was rolled back meanwhile", culprit=path, hint="run again"
        )
    try:
        options = {str(key): str(text) for key, text in found["options"].items()}
        return IndexSpec(IndexType(found["index_type"]), tuple(sorted(options.items())))
    except (KeyError, ValueError, AttributeError) as error:
        raise records.damaged(path, repr(error)) from None


def index_record(spec: IndexSpec) -> dict[str, Any]:
    return {"format": _FORMAT, "index_type": spec.index_type.value, "options": dict(spec.options)}


def newest_in_force(timeline: Timeline, times: Iterable[str]) -> str | None:
    """The newest of these instants that is part of the table."""
    return max((time for time in times if timeline.is_committed(time)), key=comparable, default=None)


def store_index_change(storage: Storage, time: str, index: Mapping[str, Any]) -> None:
    """Put a change there, before its instant is completed. Repeating it changes nothing.

    Raises:
        InvariantError: another change of the same instant stands there.
    """
    data = records.encode(index)
    if records.settle_record(storage, index_change_path(time), data) != data:
        raise InvariantError(
            f"{index_change_path(time)} is not what the plan of instant {time} says",
            culprit=time,
            hint="nothing was published; report this",
        )


def forget_index_change(storage: Storage, time: str) -> None:
    """Remove the change of an instant that was rolled back."""
    records.remove(storage, [index_change_path(time)])


def forget_dead_changes(storage: Storage, load_timeline: Callable[[], Timeline]) -> None:
    """Remove changes of instants that were taken back, by whomever. The lock is held.

    The timeline is read after them: a living writer's requested file is older than its change.
    """
    times = index_change_times(storage)
    timeline = load_timeline() if times else None
    for time in times:
        if timeline is None or timeline.find(time):
            continue
        verdict = load_verdict(storage, time)
        if (verdict is not None and not verdict.is_committed) or (
            time in timeline.undone.instants and not timeline.is_committed(time)
        ):
            forget_index_change(storage, time)


def index_change_times(storage: Storage) -> list[str]:
    names = list_names(storage, INDEX_CHANGES_FOLDER)
    return [name.removesuffix(".json") for name in names if name.endswith(".json")]


def index_change_path(time: str) -> str:
    return f"{INDEX_CHANGES_FOLDER}/{time}.json"
