"""Which folders below a checkpoints' root are runs, and of which table; and the end of old ones.

::

    <root>/<run id>/run.json                        the run's marker: names the table;
                                                    put before anything else of the run
    <root>/_runs/<table key>/<end>~<run id>.json    the roster: runs of a table that have finished, by time
    <root>/_runs/root.json                          the root was looked at: it is no table, and holds none

Nothing is deleted because of its place or name. A folder is a run of a table if its marker says so. The roster only
saves listing: what it names is looked at before it goes. Run folders are full copies of rows, so only the newest of
each table are kept.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from typing import Any, Final

from lakeindex.errors import ObjectNotFoundError, OptionError, UsageError, noted
from lakeindex.frozen import Frozen
from lakeindex.pipeline import SUMMARY_FILE, Stage
from lakeindex.run.spec import CHOSEN_FOLDER, RunSpec
from lakeindex.storage import in_parallel, remove_empty_folders
from lakeindex.storage.paths import absolute, with_one_scheme
from lakeindex.storage.port import Listing, ObjectMeta, Storage
from lakeindex.table.properties import load_table_properties
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline import records
from lakeindex.timeline.clock import SystemClock

RUN_FILE: Final = "run.json"
ROSTER: Final = "_runs"
_ROOT_FILE: Final = f"{ROSTER}/root.json"
_FORMAT: Final = 1
_HOODIE: Final = ".hoodie"
_DEPTH: Final = 3
_LISTINGS: Final = 500
_PARTS: Final = frozenset({*(str(stage) for stage in Stage), "input", "index", CHOSEN_FOLDER})
"""Folders that a run's folder has in it."""


class Finished(Frozen, order=True):
    """A finished run, as the roster has it: ``ended`` in milliseconds since the epoch."""

    ended: int
    run_id: str

    @property
    def name(self) -> str:
        """Its file in the roster."""
        return f"{self.ended:015d}~{self.run_id}.json"


def table_name_for_runs(uri: str) -> str:
    """One text for the ways to write a table's URL."""
    return with_one_scheme(absolute(uri))


def _is_same(said: object, table_uri: str) -> bool:
    try:
        return isinstance(said, str) and table_name_for_runs(said) == table_name_for_runs(table_uri)
    except OptionError:  # no place at all, or one of a later release
        return False


def begin_run(spec: RunSpec) -> None:
    """Make the run's folder one: refuse a root that is or holds a table, and put the marker.

    A run that had finished and begins again is no finished one any more: it is taken out of the roster.

    Raises:
        UsageError: the root is a table, or holds one; or the folder is a run of another table.
        TableNotFoundError: the root is new, and there is no table.
    """
    store = storage_at(spec.checkpoints_uri)
    try:
        store.head(_ROOT_FILE)
    except ObjectNotFoundError:
        load_table_properties(storage_at(spec.table_uri))  # a mistyped table leaves no root behind
        check_root(store)
        store.write(_ROOT_FILE, json.dumps({"format": _FORMAT, "what": "run folders of lakeindex"}).encode())
    found = _json(store, f"{spec.run_id}/{RUN_FILE}").get("table")
    if isinstance(found, str) and not _is_same(found, spec.table_uri):
        raise UsageError(
            f"run {spec.run_id!r} in {spec.checkpoints_uri} is one of table {found}",
            culprit=spec.run_id,
            hint="give each table a checkpoints' root of its own, or the batch another id",
        )
    if found is not None:
        known = roster_of(store, spec.table_uri)
        strike(store, spec.table_uri, (one for one in known if one.run_id == spec.run_id))
    marker = {
        "format": _FORMAT,
        "table": table_name_for_runs(spec.table_uri),
        "run_id": spec.run_id,
        "batch_id": spec.batch_id,
    }
    store.write(f"{spec.run_id}/{RUN_FILE}", records.encode(marker))


def check_root(store: Storage) -> None:
    """Refuse a checkpoints' root that is a table or holds one:
    run folders are deleted in time, and rows must not be near.

    Raises:
        UsageError: naming the table.
    """
    left = _LISTINGS
    level = [("", store.list_folder(""))]
    for depth in range(_DEPTH + 1):
        below: list[tuple[str, Listing]] = []
        for folder, listing in level:
            if any(_last(one) == _HOODIE for one in listing.folders):
                raise _is_table(store, folder)
            if depth == _DEPTH or (folder and _is_marked(listing)):
                continue
            for name in listing.folders:
                if name.rstrip("/") != ROSTER and left > 0:
                    left -= 1
                    below.append((name.rstrip("/"), store.list_folder(name.rstrip("/"))))
        level = below


def _is_table(store: Storage, folder: str) -> UsageError:
    where = f"{store.uri.rstrip('/')}/{folder}" if folder else store.uri
    said = f"holds the table {where}" if folder else "is a table"
    return UsageError(
        f"the checkpoints' root {store.uri} {said}",
        culprit=where,
        hint="finished run folders are deleted: give them a folder of their own, as TABLE.lakeindex is by default",
    )


def _is_marked(listing: Listing) -> bool:
    own = {RUN_FILE, *(f"{stage}.json" for stage in Stage)}
    return any(_last(one.path) in own for one in listing.objects)


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def is_run_of(store: Storage, name: str, table_uri: str) -> bool:
    """Whether a folder below the root is a run of this table, as its marker says."""
    if any(_last(one) == _HOODIE for one in store.list_folder(name).folders):
        return False
    marker = _json(store, f"{name}/{RUN_FILE}")
    return marker.get("run_id") == name and _is_same(marker.get("table"), table_uri)


def _json(store: Storage, path: str) -> dict[str, Any]:
    try:
        found = json.loads(store.read(path))
    except (ObjectNotFoundError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_empty_run(store: Storage, name: str) -> bool:
    """Whether a folder is what is left of a run whose files were deleted: folders of stages, and nothing in them."""
    listing = store.list_folder(name)
    parts = {_last(one) for one in listing.folders}
    return not listing.objects and bool(parts) and parts <= _PARTS and not store.list(name)


def roster_of(store: Storage, table_uri: str) -> list[Finished]:
    """Finished runs of a table, oldest first."""
    found = []
    for one in store.list_folder(_roster(table_uri)).objects:
        ended, sign, run_id = _last(one.path).removesuffix(".json").partition("~")
        if sign and ended.isdecimal():
            found.append(Finished(int(ended), run_id))
    return sorted(found)


def is_enrolled(store: Storage, table_uri: str, finished: Finished) -> bool:
    """Whether a run is still in the roster: one that begins again is not."""
    try:
        store.head(f"{_roster(table_uri)}/{finished.name}")
    except ObjectNotFoundError:
        return False
    return True


def enrol(store: Storage, table_uri: str, finished: Finished) -> None:
    store.write(f"{_roster(table_uri)}/{finished.name}", b"{}")


def strike(store: Storage, table_uri: str, finished: Iterable[Finished]) -> None:
    for one in finished:
        store.delete(f"{_roster(table_uri)}/{one.name}")


def _roster(table_uri: str) -> str:
    return f"{ROSTER}/{records.key_of(table_name_for_runs(table_uri))}"


_DAY_MS: Final = 86_400_000
_MOST_NAMED: Final = 5


class Swept(Frozen):
    """What became of the folders below a root; ``left`` are no runs of the table, as far as can be told."""

    dropped: int = 0
    left: tuple[str, ...] = ()

    @property
    def note(self) -> str | None:
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
    surplus = len(others) + 1 - spec.config.keep_runs
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

    A run that failed leaves its checkpoints, so that a retry goes on from them, and its quarantine files, so that the
    rows can be mended. After ``days`` neither is expected any more.

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
    names: set[str] = set()
    for one in sorted(finished)[: max(len(finished) - max(keep, 1), 0)]:
        if _is_still_over(store, table_uri, one, roster):
            _drop(store, one.run_id)
            names.add(one.run_id)
    strike(store, table_uri, (one for one in roster_of(store, table_uri) if one.run_id in names))
    return Swept(dropped + len(names), tuple(left))


def _is_still_over(store: Storage, table_uri: str, finished: Finished, roster: Collection[str]) -> bool:
    """Whether a run has not begun again since its folder and the roster were looked at, which was before those of all
    others were.
    """
    now = {one.run_id for one in roster_of(store, table_uri)}
    if finished.run_id in roster and finished.run_id not in now:
        return False
    return _ended(finished.run_id, store.list_folder(finished.run_id).objects, now) == finished.ended


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
