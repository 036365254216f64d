"""Markers: empty files that name each data file before it is written, so that a rollback finds them all.

DIRECT markers (``.hoodie/.temp/<instant>/<partition>/<file>.marker.CREATE|MERGE``) are written; Hudi's timeline-server
markers (``MARKERS<n>`` files of such names) are read as well. Hudi rolls back by markers alone: a data file without one
would survive.
"""

from __future__ import annotations

from collections.abc import Iterable

from lakeindex.errors import ObjectNotFoundError
from lakeindex.format.file_names import (
    Marker,
    MarkerKind,
    is_markers_file,
    marker_folder,
    marker_path,
    parse_marker,
    parse_markers_file,
)
from lakeindex.model import BaseFile
from lakeindex.storage import Storage, in_parallel, remove_empty_folders
from lakeindex.timeline import records


def write_markers(storage: Storage, files: Iterable[tuple[BaseFile, bool]]) -> None:
    """Mark data files before they are written.

    Args:
        storage: the table's folder.
        files: each file, and whether it starts a new file group.
    """
    paths = [marker_path(file, MarkerKind.CREATE if is_new else MarkerKind.MERGE) for file, is_new in files]
    in_parallel(storage.uri, lambda path: records.put(storage, path, b""), paths)


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
    """Remove an instant's markers and their folder."""
    folder = marker_folder(instant)
    records.remove(storage, [one.path for one in storage.list(folder)])
    remove_empty_folders(storage, folder)
