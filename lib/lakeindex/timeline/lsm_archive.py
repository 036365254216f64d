"""The archive of layout 2: an LSM tree of Parquet files, and the manifests that say which of them count.

``<first instant>_<last instant>_<level>.parquet`` holds a row for each archived instant, its completed file and its
plan as they were. ``manifest_<N>`` is JSON, ``{"files": [{"fileName": ..., "fileLen": ...}]}``; ``_version_`` is the
number of the newest one.

Hudi goes by ``_version_``. Here a manifest behind it counts, too, if it is whole: its writer was killed, or a stalled
one has put an older number there since. One that is not whole was never in force.

Source: Hudi 1.2 ``LSMTimeline``, ``HoodieLSMTimelineManifest`` and ``HoodieLSMTimelineInstant``; compared with archives
that it wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.errors import ObjectNotFoundError, TableCorruptError, first_line
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.storage import list_names
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile

VERSION_FILE: Final = "_version_"

SUFFIX: Final = ".parquet"

_MANIFEST: Final = re.compile(r"manifest_(?P<number>[0-9]{1,9})", re.ASCII)
_FILE: Final = re.compile(r"(?P<first>[0-9]+)_(?P<last>[0-9]+)_(?P<level>[0-9])\.parquet", re.ASCII)
_ROW_VERSION: Final = 1

_SCHEMA: Final = pa.schema(
    [
        ("instantTime", pa.string()),
        ("completionTime", pa.string()),
        ("action", pa.string()),
        ("metadata", pa.binary()),
        ("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ]
)


class ArchivedInstant(Frozen):
    """A row of the archive.

    Attributes:
        action: what it was completed as.
        metadata: content of its completed file.
        plan: content of its requested or inflight file, of actions that have a plan.
    """

    time: str
    completion_time: str | None
    action: str
    metadata: bytes | None = None
    plan: bytes | None = None


class LsmFile(Frozen):
    """A Parquet file of the tree.

    Attributes:
        first: smallest instant time in it.
        last: greatest one.
        level: 0 for a file of instants that came from the timeline, one more for each merge.
    """

    name: str
    size_bytes: int
    first: str
    last: str
    level: int


class Manifest(Frozen):
    """The files that count, as one manifest says.

    Attributes:
        number: the manifest's; 0 if there is none yet.
    """

    number: int = 0
    files: tuple[LsmFile, ...] = ()


def file_name(first: str, last: str, level: int) -> str:
    return f"{first}_{last}_{level}.parquet"


def manifest_name(number: int) -> str:
    return f"manifest_{number}"


def named_file(name: str, size_bytes: int) -> LsmFile:
    """As :func:`parse_file`, of a name that is one. Raises: TableCorruptError."""
    found = parse_file(name, size_bytes)
    if found is None:
        raise _damaged(name, "that is no name of a file of an archive")
    return found


def parse_file(name: str, size_bytes: int) -> LsmFile | None:
    """The file that a name stands for; None for any other."""
    match = _FILE.fullmatch(name)
    if match is None:
        return None
    return LsmFile(name, size_bytes, match["first"], match["last"], int(match["level"]))


def listed_manifests(names: Iterable[str]) -> dict[int, str]:
    """The manifests among some file names, by number."""
    found = (_MANIFEST.fullmatch(name) for name in names)
    return {int(match["number"]): match[0] for match in found if match is not None}


def format_manifest(manifest: Manifest) -> bytes:
    files = [{"fileName": one.name, "fileLen": one.size_bytes} for one in manifest.files]
    return json.dumps({"files": files}, indent=2).encode()


def load_manifest(storage: Storage, folder: str, names: Iterable[str] | None = None) -> Manifest:
    """The manifest that counts now; ``names``: of the files there, if they were listed.

    Raises:
        TableCorruptError: it is damaged or missing, or names a file that is gone.
    """
    there = set(list_names(storage, folder) if names is None else names)
    numbers = listed_manifests(there)
    if not numbers and VERSION_FILE not in there:
        return Manifest()
    said = _said_version(storage, folder)
    for number in sorted(numbers, reverse=True):
        if said is not None and number < said:
            break
        try:
            return _whole(read_manifest(storage, folder, number), folder, there)
        except TableCorruptError:
            if said is None or number <= said:
                raise
    missing = manifest_name(said or 0)
    raise _damaged(f"{folder}/{missing}", "it is missing")


def _whole(manifest: Manifest, folder: str, there: Container[str]) -> Manifest:
    gone = next((one.name for one in manifest.files if one.name not in there), None)
    if gone is not None:
        raise _damaged(f"{folder}/{gone}", f"it is missing, and {manifest_name(manifest.number)} names it")
    return manifest


def read_manifest(storage: Storage, folder: str, number: int) -> Manifest:
    """One manifest. Raises: TableCorruptError."""
    path = f"{folder}/{manifest_name(number)}"
    try:
        loaded = json.loads(storage.read(path))
        entries = [(str(one["fileName"]), int(one["fileLen"])) for one in loaded["files"]]
    except (ObjectNotFoundError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path, first_line(error)) from None
    return Manifest(number, tuple(named_file(*entry) for entry in entries))


def _said_version(storage: Storage, folder: str) -> int | None:
    """The number in ``_version_``; None if there is no readable one."""
    try:
        return int(storage.read(f"{folder}/{VERSION_FILE}"))
    except (ObjectNotFoundError, ValueError):
        return None


def format_rows(rows: Sequence[ArchivedInstant]) -> bytes:
    """A Parquet file of the tree. One row group, as Hudi reads whole files; equal rows give equal bytes."""
    columns = {
        "instantTime": [one.time for one in rows],
        "completionTime": [one.completion_time for one in rows],
        "action": [one.action for one in rows],
        "metadata": [one.metadata for one in rows],
        "plan": [one.plan for one in rows],
        "version": [_ROW_VERSION] * len(rows),
    }
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(out, _SCHEMA, compression="gzip", use_dictionary=False, write_page_checksum=True) as writer:
        writer.write_table(pa.table(columns, schema=_SCHEMA))
    return bytes(out.getvalue())


def parse_rows(data: bytes, source: str) -> tuple[ArchivedInstant, ...]:
    """The rows of a Parquet file of the tree. Raises: TableCorruptError."""
    try:
        read = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True).read(_SCHEMA.names[:-1])
        rows = read.to_pylist()
        return tuple(
            ArchivedInstant(row["instantTime"], row["completionTime"], row["action"], row["metadata"], row["plan"])
            for row in rows
        )
    except (pa.ArrowException, OSError, KeyError, TypeError, UnicodeDecodeError) as error:
        raise _damaged(source, first_line(error)) from None


def last_end(storage: Storage, path: str, size: int) -> str | None:
    """The greatest completion time in a Parquet file of the tree, as its footer says; None if that does not say it.
    All have milliseconds, so that the greatest text is the last one.
    """
    try:
        footer = pq.ParquetFile(StorageFile(storage, path, size)).metadata
        place = footer.schema.names.index("completionTime")
        said = [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
        ends = [one.max if one is not None and one.has_min_max else None for one in said]
    except (ObjectNotFoundError, pa.ArrowException, OSError, ValueError):
        return None
    texts = [end for end in ends if isinstance(end, str)]
    return max(texts) if texts and len(texts) == len(ends) else None


def in_order(files: Iterable[LsmFile]) -> list[LsmFile]:
    """Files by their first instant, as Hudi merges them."""
    return sorted(files, key=lambda one: (comparable(one.first), one.name))


def _damaged(path: str, why: str) -> TableCorruptError:
    return TableCorruptError(
        f"{path} is damaged: {why}", culprit=path, hint="restore the file: it says which instants were committed"
    )
