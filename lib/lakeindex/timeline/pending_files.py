"""What stands beside a pending instant, as Hudi has it: markers, which name its data files, and a heartbeat.

Markers are DIRECT ones (``.hoodie/.temp/<instant>/<partition>/<file>.marker.CREATE|MERGE``) or, of more than two files,
the lines of ``MARKERS0``, as Hudi's timeline server writes them; its Spark writers do by default. ``MARKERS.type`` says
which. Both forms are read, whoever wrote them. Hudi rolls back by markers alone: a data file without one would survive.
Facts: ``MarkerUtils`` and ``MarkerBasedRollbackUtils`` of Hudi 0.15 to 1.2.

The heartbeat, ``.hoodie/.heartbeat/<instant>``, is an empty file that is written again and again; only its modification
time counts. Hudi rolls failed writes back lazily where several writers share a table
(``hoodie.clean.failed.writes.policy=LAZY``): a pending instant whose heartbeat was not renewed for twice the interval
(``hoodie.client.heartbeat.interval_in_ms``, 60 s) is dead, and so is one that has none. It begins before the requested
file of its instant and ends after the instant is completed or undone, so that at no time a living instant is without
one. Facts: ``HoodieHeartbeatClient`` and ``HoodieHeartbeatUtils`` of Hudi 0.15 and 1.2.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Final

from lakeindex.errors import ObjectNotFoundError
from lakeindex.format.file_names import (
    Marker,
    MarkerKind,
    is_markers_file,
    marker_folder,
    marker_path,
    markers_files,
    parse_marker,
    parse_markers_file,
)
from lakeindex.model import BaseFile
from lakeindex.storage import Storage, in_parallel, list_names, remove_empty_folders
from lakeindex.timeline import records

HEARTBEATS_FOLDER: Final = ".hoodie/.heartbeat"
_DIRECT_MOST: Final = 2
"""Files that have a marker each: no more objects than the other form has."""
RENEWAL_SECONDS: Final = 20.0
"""Longest pause between two beats: a third of what Hudi's writers allow themselves."""


def write_markers(storage: Storage, files: Iterable[tuple[BaseFile, bool]]) -> list[str]:
    """Mark the data files of an instant, all of them, before they are written.

    Args:
        files: each file, and whether it starts a new file group.

    Returns:
        The objects to sync: of empty ones in one folder, one is enough for all of their names to stay.
    """
    kinds = {file: MarkerKind.CREATE if is_new else MarkerKind.MERGE for file, is_new in files}
    listed = markers_files(kinds) if len(kinds) > _DIRECT_MOST else None
    contents = listed or {marker_path(file, kind): b"" for file, kind in kinds.items()}
    in_parallel(storage.uri, lambda one: records.put(storage, *one), contents.items())
    return list(listed) if listed else list({path.rpartition("/")[0]: path for path in contents}.values())


def marked_files(storage: Storage, instant: str) -> frozenset[str]:
    """Paths of the data files that an instant's markers name."""
    folder = marker_folder(instant)
    found: set[Marker] = set()
    for one in storage.list(folder):
        relative = one.path[len(folder) + 1 :]
        marker = parse_marker(relative)
        if marker is not None:
            found.add(marker)
        elif is_markers_file(relative):
            try:
                found.update(parse_markers_file(storage.read(one.path)))
            except ObjectNotFoundError:
                continue  # its writer replaced or removed it
    return frozenset(marker.data_path for marker in found if marker.kind is not MarkerKind.APPEND)


def remove_markers(storage: Storage, instant: str) -> None:
    folder = marker_folder(instant)
    records.remove(storage, [one.path for one in storage.list(folder)])
    remove_empty_folders(storage, folder)


def heartbeat_path(time: str) -> str:
    return f"{HEARTBEATS_FOLDER}/{time}"


def begin_heartbeat(storage: Storage, time: str) -> bool:
    """Begin the heartbeat of an instant that is about to be requested; False if somebody else has begun one.

    If the answer is lost, the exclusive creation of the requested file decides.
    """
    return records.create_alike(storage, heartbeat_path(time), b"")


def end_heartbeat(storage: Storage, time: str) -> None:
    """Remove the heartbeat of an instant that is completed or undone."""
    records.remove(storage, [heartbeat_path(time)])


def list_heartbeats(storage: Storage) -> list[str]:
    """The instants that have a heartbeat, sorted."""
    return [name for name in list_names(storage, HEARTBEATS_FOLDER) if name.isdecimal()]


class InstantHeartbeat:
    """The heartbeat of a pending instant of this process."""

    def __init__(self, storage: Storage, time: str) -> None:
        self._storage = storage
        self._path = heartbeat_path(time)
        self._ended = False
        self._mutex = threading.Lock()

    def renew(self) -> None:
        with self._mutex:
            if not self._ended:
                records.put(self._storage, self._path, b"")

    def end(self) -> None:
        """Beat no more: the file may be removed from now on."""
        with self._mutex:
            self._ended = True
