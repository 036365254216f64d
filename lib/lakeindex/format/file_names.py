"""Names of base files, marker files and Hadoop's checksum side files.

Base files::

    base-file   = file-id "_" write-token "_" instant ".parquet"
    file-id     = 1*( ALPHA / DIGIT / "-" )        ; <uuid>-<counter>, bucket number in front on a bucket index
    write-token = 1*( ALPHA / DIGIT / "-" )        ; <task>-<stage>-<attempt>
    instant     = 1*DIGIT

Markers, one empty file for each data file a running write may create (DIRECT)::

    .hoodie/.temp/<instant>/<partition>/<base-file>.marker.<CREATE|MERGE|APPEND>

or, with Hudi's timeline server, text files ``.hoodie/.temp/<instant>/MARKERS<n>`` of such relative names, one a
line, beside a ``MARKERS.type``.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from lakeindex.frozen import Frozen
from lakeindex.model import BaseFile

METADATA_FOLDER: Final = ".hoodie"
TEMP_FOLDER: Final = ".hoodie/.temp"

_BASE_FILE: Final = re.compile(
    r"(?P<file_id>[A-Za-z0-9-]+)_(?P<token>[A-Za-z0-9-]+)_(?P<instant>[0-9]+)\.parquet", re.ASCII
)
_MARKER: Final = re.compile(r"(?P<name>[^/]+)\.marker\.(?P<kind>CREATE|MERGE|APPEND)")
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_MARKERS_FILE: Final = re.compile(r"MARKERS[0-9]+")


class MarkerKind(StrEnum):
    """What a marked file is: the first slice of a group, a further slice, or a log file (never ours)."""

    CREATE = "CREATE"
    MERGE = "MERGE"
    APPEND = "APPEND"


class Marker(Frozen, order=True):
    """One marked data file."""

    partition_path: str
    file_name: str
    kind: MarkerKind

    @property
    def data_path(self) -> str:
        """Path of the marked file, relative to the table's folder."""
        return f"{self.partition_path}/{self.file_name}" if self.partition_path else self.file_name

    @property
    def relative_path(self) -> str:
        """Path below ``.hoodie/.temp/<instant>/``."""
        return f"{self.data_path}.marker.{self.kind}"


def parse_base_file(partition_path: str, name: str, size_bytes: int = 0) -> BaseFile | None:
    """The base file a name stands for, or ``None`` for any other file."""
    match = _BASE_FILE.fullmatch(name)
    if match is None:
        return None
    return BaseFile(partition_path, match["file_id"], match["instant"], match["token"], size_bytes)


def parse_base_path(path: str, size_bytes: int = 0) -> BaseFile | None:
    """As :func:`parse_base_file`, from a path relative to the table's folder."""
    partition_path, _, name = path.rpartition("/")
    return parse_base_file(partition_path, name, size_bytes)


def names_by_partition(paths: Iterable[str]) -> dict[str, list[str]]:
    """Partition path -> names of files, both in path order, of paths relative to the table's folder."""
    found: dict[str, list[str]] = {}
    for path in sorted(paths):
        partition_path, _, name = path.rpartition("/")
        found.setdefault(partition_path, []).append(name)
    return found


def new_file_id(entropy: bytes | None = None) -> str:
    """A new file group's id, ``<uuid4>-0``; 16 bytes of ``entropy`` make it a function of them."""
    value = uuid.uuid4() if entropy is None else uuid.UUID(bytes=entropy[:16], version=4)
    return f"{value}-0"


def write_token(task: int, stage: int, attempt: int) -> str:
    """Write token of a base file; Hudi puts Spark's task, stage and attempt numbers here."""
    return f"{task}-{stage}-{attempt}"


def marker_folder(instant_time: str) -> str:
    """Folder of an instant's markers, relative to the table's folder."""
    return f"{TEMP_FOLDER}/{instant_time}"


def marker_path(file: BaseFile, kind: MarkerKind) -> str:
    """Path of the DIRECT marker of a base file, relative to the table's folder."""
    marker = Marker(file.partition_path, file.name, kind)
    return f"{marker_folder(file.instant_time)}/{marker.relative_path}"


def parse_marker(relative_path: str) -> Marker | None:
    """A marker from its path below ``.hoodie/.temp/<instant>/``, or ``None`` if it is none."""
    partition_path, _, name = relative_path.rpartition("/")
    match = _MARKER.fullmatch(name)
    return None if match is None else Marker(partition_path, match["name"], MarkerKind(match["kind"]))


def is_markers_file(name: str) -> bool:
    """Whether a file of the marker folder holds the timeline server's marker lines (``MARKERS0``, ...)."""
    return _MARKERS_FILE.fullmatch(name) is not None


def parse_markers_file(data: bytes) -> tuple[Marker, ...]:
    """Markers named in one ``MARKERS<n>`` file; lines that are none are skipped (a torn last line names no file)."""
    lines = _LINE_END.split(data.decode("utf-8", "replace"))
    return tuple(marker for line in lines if (marker := parse_marker(line)) is not None)


def markers_files(kinds: Mapping[BaseFile, MarkerKind]) -> dict[str, bytes] | None:
    """The files of the timeline server's form that mark the base files of an instant, one or more, by their paths
    relative to the table's folder; None if a partition path is of several lines.
    """
    names = [Marker(file.partition_path, file.name, kind).relative_path for file, kind in kinds.items()]
    if any(_LINE_END.search(name) for name in names):
        return None
    folder = marker_folder(next(iter(kinds)).instant_time)
    lines = "".join(f"{name}\n" for name in names)
    return {f"{folder}/MARKERS.type": b"TIMELINE_SERVER_BASED", f"{folder}/MARKERS0": lines.encode()}


def crc_path(path: str) -> str:
    """Path of the side file that Hadoop's local file system keeps beside ``path``; stale once we replace the file."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"
