"""Old run folders are full copies of rows: keep the newest, drop the rest."""

from __future__ import annotations

from lakeindex.stages.context import RunSpec, storage_at
from lakeindex.stages.upserting import SUMMARY_FILE


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
        # The summary goes last, so that a sweep cut short is taken up again.
        objects = sorted(store.list(name), key=lambda o: o.path == f"{name}/{SUMMARY_FILE}")
        for one in objects:
            store.delete(one.path)
    return max(surplus, 0)
