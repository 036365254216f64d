"""Old run folders are full copies of rows: keep the newest, drop the rest."""

from __future__ import annotations

from typing import Final

from lakeindex.stages.context import RunSpec, storage_at
from lakeindex.stages.upserting import SUMMARY_FILE
from lakeindex.storage.protocol import Storage

_DAY_MS: Final = 86_400_000


def drop_old_runs(spec: RunSpec) -> int:
    """Delete finished run folders beyond ``lakeindex.checkpoint.keep.runs``, oldest first.

    A run without a summary is not finished (it failed, or is running) and stays; so does this run.

    Returns:
        Folders deleted.
    """
    store = storage_at(spec.checkpoints_uri)
    finished: list[tuple[int, str]] = []
    for folder in store.list_folder("").folders:
        name = folder.rstrip("/").rpartition("/")[2]
        if name != spec.run_id:
            marks = (o for o in store.list_folder(name).objects if o.path == f"{name}/{SUMMARY_FILE}")
            finished.extend((mark.modified_ms, name) for mark in marks)
    surplus = len(finished) + 1 - max(spec.config.keep_runs, 1)
    for _, name in sorted(finished)[: max(surplus, 0)]:
        _drop(store, name)
    return max(surplus, 0)


def drop_dead_runs(checkpoints_uri: str, days: float, now_ms: int) -> int:
    """Delete the folders of runs that never finished and that nobody has written to for so long.

    A run that failed leaves its checkpoints, so that a retry goes on from them, and its quarantine files, for whoever mends
    the rows. Some day nobody will.

    Args:
        checkpoints_uri: root of the run folders.
        days: since anything in the folder was written; a run that is at work writes more often.
        now_ms: milliseconds since the epoch.

    Returns:
        Folders deleted.
    """
    store = storage_at(checkpoints_uri)
    dropped = 0
    for folder in store.list_folder("").folders:
        name = folder.rstrip("/").rpartition("/")[2]
        objects = store.list(name)
        if any(one.path == f"{name}/{SUMMARY_FILE}" for one in objects):
            continue
        newest = max((one.modified_ms for one in objects), default=now_ms)
        if now_ms - newest > days * _DAY_MS:
            _drop(store, name)
            dropped += 1
    return dropped


def _drop(store: Storage, name: str) -> None:
    # The summary goes last, so that a sweep cut short is taken up again.
    for one in sorted(store.list(name), key=lambda o: o.path == f"{name}/{SUMMARY_FILE}"):
        store.delete(one.path)
