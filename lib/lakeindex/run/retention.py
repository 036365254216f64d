"""Old run folders are full copies of rows: keep the newest of each table, drop the rest.

Only folders that are runs of the table are dropped (:mod:`lakeindex.run.run_folders`), whatever else lies beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from lakeindex.errors import noted
from lakeindex.pipeline import SUMMARY_FILE, Stage
from lakeindex.run.run_folders import (
    ROSTER,
    RUN_FILE,
    Finished,
    check_root,
    enrol,
    is_empty_run,
    is_enrolled,
    is_run_of,
    roster_of,
    strike,
)
from lakeindex.run.spec import RunSpec
from lakeindex.storage import in_parallel, remove_empty_folders
from lakeindex.storage.port import ObjectMeta, Storage
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.clock import SystemClock

_DAY_MS: Final = 86_400_000
_MOST_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Swept:
    """What became of the folders below a root.

    Attributes:
        dropped: runs that are gone.
        left: folders that are no runs of the table, as far as can be told.
    """

    dropped: int = 0
    left: tuple[str, ...] = ()

    @property
    def note(self) -> str | None:
        """What was left, in words; None if nothing was."""
        if not self.left:
            return None
        named = ", ".join(self.left[:_MOST_NAMED]) + (", ..." if len(self.left) > _MOST_NAMED else "")
        count = len(self.left)
        return f"{count} {'folder is' if count == 1 else 'folders are'} no run of this table, and left alone: {named}"


def end_run(spec: RunSpec) -> tuple[str, ...]:
    """Enter a finished run into the roster, and delete those of its table beyond
    ``lakeindex.checkpoint.keep.runs``, oldest first.

    A run that is not finished (it failed, or is running) stays; so does this one.

    Returns:
        Notes on what was left or went wrong, if anything did:
        the batch is committed, and its folder no reason to call that a failure.
    """
    left: list[str] = []
    what = f"old run folders in {spec.checkpoints_uri} could not be dropped"
    failed = noted(what, lambda: left.extend(_end_run(spec)))
    return (*left, *failed)


def _end_run(spec: RunSpec) -> tuple[str, ...]:
    store = storage_at(spec.checkpoints_uri)
    known = roster_of(store, spec.table_uri)
    note = None
    if not known:  # the first run of this table here that is entered
        known, note = _found(store, spec.table_uri, spec.run_id)
        for one in known:
            enrol(store, spec.table_uri, one)
    mine = Finished(SystemClock().now_ms(), spec.run_id)
    enrol(store, spec.table_uri, mine)
    strike(store, spec.table_uri, (one for one in known if one.run_id == spec.run_id and one != mine))
    others = [one for one in known if one.run_id != spec.run_id]
    surplus = len(others) + 1 - max(spec.config.keep_runs, 1)
    _drop_finished(store, spec.table_uri, others[: max(surplus, 0)])
    return () if note is None else (note,)


def _found(store: Storage, table_uri: str, but: str) -> tuple[list[Finished], str | None]:
    """Finished runs of a table, as a look into every folder shows; and a note on what is none."""
    finished: list[Finished] = []
    left: list[str] = []
    for name in _folders(store):
        if name == but or is_empty_run(store, name):
            continue
        if not is_run_of(store, name, table_uri):
            left.append(name)
            continue
        ended = _ended(name, store.list_folder(name).objects, ())
        if ended is not None:
            finished.append(Finished(ended, name))
    return sorted(finished), Swept(left=tuple(left)).note


def _drop_finished(store: Storage, table_uri: str, finished: Iterable[Finished]) -> None:
    for one in finished:
        if is_run_of(store, one.run_id, table_uri) and is_enrolled(store, table_uri, one):
            _drop(store, one.run_id)
        strike(store, table_uri, [one])


def sweep_runs(table_uri: str, checkpoints_uri: str, *, keep: int, days: float, now_ms: int) -> Swept:
    """Look into every folder: delete a table's finished runs beyond the newest, its dead ones, and emptied folders.

    A run that failed leaves its checkpoints, so that a retry goes on from them, and its quarantine files,
    for whoever mends the rows. Some day nobody will.

    Args:
        table_uri: the table whose runs are meant; those of others stay.
        checkpoints_uri: root of the run folders.
        keep: finished runs that stay.
        days: since anything in an unfinished run's folder was written; a run that is at work writes more often.
        now_ms: milliseconds since the epoch.

    Raises:
        UsageError: the root is a table, or holds one.
    """
    store = storage_at(checkpoints_uri)
    check_root(store)
    roster = {one.run_id for one in roster_of(store, table_uri)}
    finished: list[Finished] = []
    left: list[str] = []
    dropped = 0
    for name in _folders(store):
        if is_empty_run(store, name):
            remove_empty_folders(store, name)
            continue
        if not is_run_of(store, name, table_uri):
            left.append(name)
            continue
        objects = store.list(name)
        ended = _ended(name, objects, roster)
        newest = max((one.modified_ms for one in objects), default=now_ms)
        if ended is not None:
            finished.append(Finished(ended, name))
        elif now_ms - newest > days * _DAY_MS:
            _drop(store, name)
            dropped += 1
    gone = sorted(finished)[: max(len(finished) - max(keep, 1), 0)]
    for one in gone:
        _drop(store, one.run_id)
    names = {one.run_id for one in gone}
    strike(store, table_uri, (one for one in roster_of(store, table_uri) if one.run_id in names))
    return Swept(dropped + len(gone), tuple(left))


def _ended(name: str, objects: Iterable[ObjectMeta], roster: Collection[str]) -> int | None:
    """When a run has finished, milliseconds since the epoch; None if it has not, or has begun again since."""
    times = {one.path: one.modified_ms for one in objects}
    ended = times.get(f"{name}/{SUMMARY_FILE}")
    if ended is None or name in roster or times.get(f"{name}/{RUN_FILE}", 0) < ended:
        return ended
    return None


def _folders(store: Storage) -> list[str]:
    names = (folder.rstrip("/").rpartition("/")[2] for folder in store.list_folder("").folders)
    return [name for name in names if name != ROSTER]


def _drop(store: Storage, name: str) -> None:
    paths = [one.path for one in store.list(name)]
    # What makes it a finished run goes last, so that a sweep cut short is taken up again.
    last = [f"{name}/{file}" for file in (SUMMARY_FILE, f"{Stage.STAGE_INPUT}.json", RUN_FILE)]
    in_parallel(store.uri, store.delete, [path for path in paths if path not in last])
    for path in last:
        store.delete(path)
    remove_empty_folders(store, name)
