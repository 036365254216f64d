"""The batch's files: find them, split them, read a split. Parquet, CSV, JSON lines, Arrow IPC."""

from __future__ import annotations

import fnmatch
import gzip
import io
import posixpath
from dataclasses import dataclass

import mmh3
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from lakeindex.config import InputFormat
from lakeindex.errors import InputError, LakeIndexError
from lakeindex.stages.context import storage_at
from lakeindex.storage.reading import StorageFile

ARROW_SUFFIX = ".arrow"
SPLIT_BYTES = 64 * 1024 * 1024
_HASH_STEP_BYTES = 16 * 1024 * 1024
_SUFFIXES = {
    ".parquet": InputFormat.PARQUET,
    ".csv": InputFormat.CSV,
    ".csv.gz": InputFormat.CSV,
    ".json": InputFormat.JSON,
    ".jsonl": InputFormat.JSON,
    ".ndjson": InputFormat.JSON,
    ".json.gz": InputFormat.JSON,
}


@dataclass(frozen=True, order=True, slots=True)
class InputFile:
    """One file of the batch: the store's root, the path below it, its size and version mark."""

    root: str
    path: str
    size_bytes: int
    etag: str | None = None

    @property
    def display(self) -> str:
        """The file as a person would name it."""
        return f"{self.root.rstrip('/')}/{self.path}"


@dataclass(frozen=True, slots=True)
class Split:
    """A piece of the batch that one task reads: row groups ``[first, last)`` of a Parquet file, or a whole file."""

    file: InputFile
    first_row_group: int = 0
    last_row_group: int | None = None
    bytes: int = 0


def find_inputs(inputs: tuple[str, ...], wanted: InputFormat, own_root: str | None = None) -> list[InputFile]:
    """The files behind paths, folders and ``*`` patterns, in the order given, sorted within a folder.

    Args:
        inputs: what the caller named.
        wanted: the format, or ``auto``.
        own_root: root of the run folders: a path below it names one file that this library wrote for data in memory.

    Raises:
        InputError: nothing there, or a suffix that does not tell the format.
    """
    files: list[InputFile] = []
    for entry in inputs:
        is_own = own_root is not None and entry.startswith(f"{own_root.rstrip('/')}/") and entry.endswith(ARROW_SUFFIX)
        found = [_own(entry, str(own_root))] if is_own else _find(entry)
        if not found:
            raise InputError(
                f"no input at {entry!r}", culprit=entry, hint="give files, folders of files, or a * pattern"
            )
        files += found
    for file in files:
        format_of(file, wanted)
    return files


def _own(entry: str, root: str) -> InputFile:
    path = entry.removeprefix(f"{root.rstrip('/')}/")
    return InputFile(root, path, storage_at(root).head(path).size_bytes)


def _find(entry: str) -> list[InputFile]:
    root, name = posixpath.split(entry.rstrip("/"))
    store = storage_at(root or ("/" if entry.startswith("/") else "."))
    here = [o for o in store.list_folder("").objects if fnmatch.fnmatchcase(o.path, name) or o.path == name]
    if here:
        return [InputFile(store.uri, o.path, o.size_bytes, o.etag) for o in sorted(here)]
    below = storage_at(entry)
    return [
        InputFile(below.uri, o.path, o.size_bytes, o.etag)
        for o in below.list("")
        if not any(level.startswith(("_", ".")) for level in o.path.split("/"))
    ]


def format_of(file: InputFile, wanted: InputFormat) -> InputFormat | None:
    """The file's format; None for Arrow IPC, which only the library itself writes."""
    if file.path.endswith(ARROW_SUFFIX):
        return None
    if wanted is not InputFormat.AUTO:
        return wanted
    for suffix, kind in _SUFFIXES.items():
        if file.path.lower().endswith(suffix):
            return kind
    raise InputError(
        f"the name of {file.display!r} does not tell its format",
        culprit=file.display,
        hint="name it .parquet, .csv, .json or .jsonl, or set lakeindex.input.format",
    )


def content_digest(files: list[InputFile]) -> str:
    """Digest of the batch's content, whatever its files are called: hashed from local bytes, else the store's marks."""
    marks = []
    for file in files:
        is_remote = "://" in file.root and not file.root.startswith(("file://", "memory://"))
        marks.append(f"{file.size_bytes}:{file.etag if is_remote and file.etag else _hash(file)}")
    return mmh3.hash_bytes("\n".join(marks).encode()).hex()


def _hash(file: InputFile) -> str:
    store = storage_at(file.root)
    hasher = mmh3.mmh3_x64_128()
    for start in range(0, max(file.size_bytes, 1), _HASH_STEP_BYTES):
        hasher.update(store.read_range(file.path, start, min(_HASH_STEP_BYTES, file.size_bytes - start)))
    return str(hasher.digest().hex())


def split_inputs(files: list[InputFile], wanted: InputFormat) -> list[Split]:
    """Cut the batch into splits of about 64 MiB; only Parquet files are cut, at row groups."""
    return [split for file in files for split in _split(file, wanted)]


def _split(file: InputFile, wanted: InputFormat) -> list[Split]:
    if format_of(file, wanted) is not InputFormat.PARQUET or file.size_bytes <= SPLIT_BYTES:
        return [Split(file, bytes=file.size_bytes)]
    try:
        metadata = pq.ParquetFile(StorageFile(storage_at(file.root), file.path)).metadata
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error
    splits: list[Split] = []
    first, size = 0, 0
    for group in range(metadata.num_row_groups):
        size += file.size_bytes * metadata.row_group(group).num_rows // max(metadata.num_rows, 1)
        if size >= SPLIT_BYTES or group == metadata.num_row_groups - 1:
            splits.append(Split(file, first, group + 1, size))
            first, size = group + 1, 0
    return splits or [Split(file, bytes=file.size_bytes)]


def read_split(split: Split, schema: pa.Schema, wanted: InputFormat) -> pa.Table:
    """The split's rows with the columns the file has.

    Args:
        split: what to read.
        schema: the table's columns, which type CSV and JSON values.
        wanted: the format, or ``auto``.

    Raises:
        InputError: the file is missing, truncated or not what its name says; names the file.
    """
    file = split.file
    try:
        match format_of(file, wanted):
            case None:
                return pa.ipc.open_file(pa.BufferReader(storage_at(file.root).read(file.path))).read_all()
            case InputFormat.CSV:
                return _read_csv(_plain_bytes(file), schema)
            case InputFormat.JSON:
                return _read_json(_plain_bytes(file), schema)
            case _:
                return _read_parquet(split)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from error


def _read_parquet(split: Split) -> pa.Table:
    store = storage_at(split.file.root)
    if split.last_row_group is None:
        return pq.ParquetFile(pa.BufferReader(store.read(split.file.path))).read()
    file = pq.ParquetFile(StorageFile(store, split.file.path, split.file.size_bytes), pre_buffer=True)
    return file.read_row_groups(list(range(split.first_row_group, split.last_row_group)))


def _plain_bytes(file: InputFile) -> bytes:
    data = storage_at(file.root).read(file.path)
    return gzip.decompress(data) if file.path.lower().endswith(".gz") else data


def _read_csv(data: bytes, schema: pa.Schema) -> pa.Table:
    types = {f.name: f.type for f in schema if not pa.types.is_nested(f.type)}
    options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False)
    return pa.csv.read_csv(io.BytesIO(data), convert_options=options)


def _read_json(data: bytes, schema: pa.Schema) -> pa.Table:
    if not data.strip():
        return schema.empty_table()
    options = pa.json.ParseOptions(explicit_schema=pa.schema([f.with_nullable(True) for f in schema]))
    return pa.json.read_json(io.BytesIO(data), parse_options=options)


def _unreadable(file: InputFile, error: Exception) -> LakeIndexError:
    return InputError(
        f"input {file.display!r} cannot be read: {str(error).splitlines()[0]}",
        culprit=file.display,
        hint="write the file again; nothing was published",
    )
