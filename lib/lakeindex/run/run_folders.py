"""Which folders below a checkpoints' root are runs, and of which table.

::

    <root>/<run id>/run.json                        the run's marker: names the table;
                                                    put before anything else of the run
    <root>/_runs/<table key>/<end>~<run id>.json    the roster: runs of a table that have finished, by time
    <root>/_runs/root.json                          the root was looked at: it is no table, and holds none

Nothing is deleted because of its place or name. A folder is a run of a table if its marker says so. The roster only
saves listing: what it names is looked at before it goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from lakeindex.errors import ObjectNotFoundError, OptionError, UsageError
from lakeindex.pipeline import Stage
from lakeindex.run.spec import RunSpec
from lakeindex.storage.paths import absolute
from lakeindex.storage.port import Listing, Storage
from lakeindex.table.properties import load_table_properties
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline import records

RUN_FILE: Final = "run.json"
ROSTER: Final = "_runs"
_ROOT_FILE: Final = f"{ROSTER}/root.json"
_FORMAT: Final = 1
_REPORT: Final = "report.json"
_HOODIE: Final = ".hoodie"
_DEPTH: Final = 3
_LISTINGS: Final = 500
_PARTS: Final = frozenset({*(str(stage) for stage in Stage), "input", "index"})
"""Folders that a run's folder has in it."""


@dataclass(frozen=True, order=True, slots=True)
class Finished:
    """A finished run, as the roster has it: ``ended`` in milliseconds since the epoch."""

    ended: int
    run_id: str

    @property
    def name(self) -> str:
        """Its file in the roster."""
        return f"{self.ended:015d}~{self.run_id}.json"


def table_name_for_runs(uri: str) -> str:
    """One text for the ways to write a table's URL."""
    place = absolute(uri)
    return f"s3://{place.removeprefix('s3a://')}" if place.startswith("s3a://") else place


def _is_same(said: object, table_uri: str) -> bool:
    """Whether a file that names a table names this one."""
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
    """The object in a file; empty if there is none."""
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
    """Enter a finished run."""
    store.write(f"{_roster(table_uri)}/{finished.name}", b"{}")


def strike(store: Storage, table_uri: str, finished: Iterable[Finished]) -> None:
    """Take runs out of the roster."""
    for one in finished:
        store.delete(f"{_roster(table_uri)}/{one.name}")


def _roster(table_uri: str) -> str:
    return f"{ROSTER}/{records.key_of(table_name_for_runs(table_uri))}"
