"""The batch's files: find them, split them. Parquet, CSV, JSON lines, Arrow IPC."""

from __future__ import annotations

import fnmatch
import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import mmh3
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from lakeindex.errors import InputError, first_line
from lakeindex.frozen import Frozen
from lakeindex.options.types import InputFormat, WriteConfig
from lakeindex.pipeline import TABLE_PREFIX
from lakeindex.run.input_rows import Constants, KeyedFile, hash_content
from lakeindex.storage import in_parallel, is_on_this_machine
from lakeindex.storage.paths import plain
from lakeindex.storage.port import ObjectMeta
from lakeindex.storage.storage_file import StorageFile
from lakeindex.tasks.runner import Runner, for_work, run_tasks
from lakeindex.tasks.stores import storage_at

ARROW_SUFFIX = ".arrow"
CONTENT_DIGEST = "content-1"
"""Name of the algorithm that digests of batches are made by; it stands before them. The first one had none."""
SPLIT_BYTES = 64 * 1024 * 1024
_PATHS_HINT = (
    "give files, folders of files, or a * pattern; a list of texts names files: "
    "rows, and keys to delete, are given as columns, for example pyarrow.table({'id': ['a', 'b']})"
)
_SETTLED_MS = 2000
"""A file that was written less long ago may be written again at the same time, as its file system tells time."""
_PACKED_FACTOR = 5
"""Compressed rows grow about so much when they are unpacked."""
_PLAIN_FACTOR = 2
"""Plain text and Parquet's encoded values grow about so much, offsets and staged keys included."""
PACKINGS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
"""What names of packed files of text end with, and what Arrow calls it."""
_TEXTS = {".csv": InputFormat.CSV, **dict.fromkeys((".json", ".jsonl", ".ndjson"), InputFormat.JSON)}
_SUFFIXES = {
    ".parquet": InputFormat.PARQUET,
    **{f"{suffix}{packed}": kind for packed in ("", *PACKINGS) for suffix, kind in _TEXTS.items()},
}
_NO_CONSTANTS: Mapping[str, Constants] = {}
TEXT_SUFFIXES = tuple(suffix for suffix, kind in _SUFFIXES.items() if kind is not InputFormat.PARQUET)
"""What names of CSV and JSON files end with."""


class InputFile(Frozen, order=True):
    """One file of the batch: the store's root, the path below it, its size, version mark and last modification
    (milliseconds since the epoch), and columns that it does not hold.
    """

    root: str
    path: str
    size_bytes: int
    etag: str | None = None
    modified_ms: int = 0
    constants: Constants = ()

    @property
    def display(self) -> str:
        return f"{self.root.rstrip('/')}/{self.path}"

    @property
    def place(self) -> str:
        """By which it is named as an input."""
        return f"{plain(self.root).rstrip('/')}/{self.path}"


class Split(Frozen):
    """A part of the batch that one task reads: row groups ``[first, last)`` of a Parquet file, or a whole file.

    Attributes:
        first_row: row of the file that it begins with.
        bytes: its bytes in the file.
        decoded_bytes: about what its rows take in memory.
        columns: of a Parquet file, the columns that are read; None: all.
    """

    file: InputFile
    first_row_group: int = 0
    last_row_group: int | None = None
    first_row: int = 0
    bytes: int = 0
    decoded_bytes: int = 0
    columns: list[str] | None = None


class FoundInputs(Frozen):
    """The files of a batch, as they were when they were looked for.

    Attributes:
        own_root: root of the run folders, as of :func:`find_inputs`.
        marks: of each file a mark that changes with its content: a digest of its bytes on this machine, else the
            store's own mark.
        at_ms: when that was, milliseconds since the epoch.
    """

    asked: tuple[str, ...]
    own_root: str | None
    files: tuple[InputFile, ...]
    marks: tuple[str, ...]
    at_ms: float

    def check_unchanged(self, batch_id: str) -> None:
        """Look whether the files, which were read meanwhile, are still the same. Others may have come beside them;
        those that this library wrote for data in memory are its own.

        Raises:
            InputError: one was changed, or is gone.
        """
        named = tuple(entry for entry in self.asked if not _is_own(entry, self.own_root))
        try:
            now = {(file.root, file.path): file for file in _files(named, None)}
        except InputError:  # all are gone that one path stands for
            raise changed_input(batch_id, ", ".join(named)) from None
        for file, mark in zip(self.files, self.marks, strict=True):
            if file.root == self.own_root and file.path.endswith(ARROW_SUFFIX):
                continue
            if now.get((file.root, file.path)) != replace(file, constants=()) or (
                self._may_hide(file) and hash_file(file) != mark
            ):
                raise changed_input(batch_id, file.display)

    def _may_hide(self, file: InputFile) -> bool:
        """Whether the file's content may have changed though nothing else did."""
        return is_on_this_machine(file.root) and file.modified_ms > self.at_ms - _SETTLED_MS


def changed_input(batch_id: str, culprit: str) -> InputError:
    """The error that the batch is another one than the run began with."""
    return InputError(
        f"input {culprit!r} of batch {batch_id!r} is not what it was when the run began",
        culprit=culprit,
        hint="leave the input alone until the run has ended; run the batch again, nothing was published",
    )


def find_inputs(inputs: tuple[str, ...], wanted: InputFormat, own_root: str | None = None) -> list[InputFile]:
    """The files behind paths, folders and ``*`` patterns, in the order given, sorted within a folder.

    Args:
        own_root: root of the run folders: a path below it names one file that this library wrote for data in memory.

    Raises:
        InputError: nothing there, or a suffix that does not tell the format.
    """
    files = _files(inputs, own_root)
    for file in files:
        format_of(file, wanted)
    return files


def has_input(entry: str) -> bool:
    """Whether :func:`find_inputs` finds a file behind a path, a folder or a ``*`` pattern.

    Raises:
        ObjectNotFoundError: there is no such bucket.
    """
    return bool(_find(entry, _listed))


def find_batch(
    inputs: tuple[str, ...],
    wanted: InputFormat,
    own_root: str | None,
    constants: Mapping[str, Constants] = _NO_CONSTANTS,
) -> FoundInputs:
    """The same, and what their content is; arguments and errors as of :func:`find_inputs`.

    Args:
        constants: columns that files do not hold, by input.
    """
    at = time.time() * 1000
    files = find_inputs(inputs, wanted, own_root)
    if constants:  # each input is one file
        files = [replace(file, constants=constants.get(entry, ())) for entry, file in zip(inputs, files, strict=True)]
    return FoundInputs(inputs, own_root, tuple(files), tuple(_mark(file) for file in files), at)


def _files(inputs: tuple[str, ...], own_root: str | None) -> list[InputFile]:
    files: list[InputFile] = []
    listed = cache(_listed)
    for entry in inputs:
        if entry.startswith(TABLE_PREFIX):  # a job of a later stage has it as it was given
            raise InputError(
                f"{entry!r} is a table of Spark's, which the first stage reads, and the batch has to be staged anew",
                culprit=entry,
                hint="run it again from its first stage",
            )
        found = [_own(entry, str(own_root))] if _is_own(entry, own_root) else _find(entry, listed)
        if not found:
            raise InputError(f"no input at {entry!r}", culprit=entry, hint=_PATHS_HINT)
        files += found
    return files


def _mark(file: InputFile) -> str:
    return (None if is_on_this_machine(file.root) else file.etag) or hash_file(file)


def _is_own(entry: str, root: str | None) -> bool:
    return root is not None and entry.startswith(f"{root.rstrip('/')}/") and entry.endswith(ARROW_SUFFIX)


def _own(entry: str, root: str) -> InputFile:
    path = entry.removeprefix(f"{root.rstrip('/')}/")
    return InputFile(root, path, storage_at(root).head(path).size_bytes)


def _input_file(root: str, found: ObjectMeta) -> InputFile:
    return InputFile(root, found.path, found.size_bytes, found.etag, found.modified_ms)


def _listed(root: str) -> dict[str, InputFile]:
    store = storage_at(root)
    return {o.path: _input_file(store.uri, o) for o in store.list_folder("").objects}


def _find(entry: str, listed: Callable[[str], dict[str, InputFile]]) -> list[InputFile]:
    root, name = posixpath.split(entry.rstrip("/"))
    folder = listed(root or ("/" if entry.startswith("/") else "."))
    if name in folder:
        return [folder[name]]
    here = [folder[path] for path in sorted(folder) if fnmatch.fnmatchcase(path, name)]
    if here:
        return here
    below = storage_at(entry)
    return [
        _input_file(below.uri, o)
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
        f"the name of {file.display!r} does not show its format",
        culprit=file.display,
        hint="name it .parquet, .csv, .json or .jsonl, or set lakeindex.input.format",
    )


def marks_digest(found: FoundInputs) -> str:
    """Digest of the batch by its marks: says whether a checkpoint still fits.
    The same bytes uploaded again may have another one.
    """
    marked = zip(found.files, found.marks, strict=True)
    lines = (f"{file.size_bytes}:{mark}{file.constants or ''}" for file, mark in marked)
    return mmh3.hash_bytes("\n".join(lines).encode()).hex()


def content_digest(found: FoundInputs, runner: Runner, config: WriteConfig) -> str:
    """Digest of the batch's content, whatever its files are called and wherever they are: what a batch id stands for.

    Args:
        runner: hashes the files that are not on this machine.
        config: what is small enough for the driver.
    """
    far = [file for file in found.files if not is_on_this_machine(file.root)]
    runner = for_work(runner, sum(file.size_bytes for file in far), config)
    hashed = dict(zip(far, run_tasks(runner, hash_file, far, "stage input: digest of the input"), strict=True))
    marks = tuple(hashed.get(file, mark) for file, mark in zip(found.files, found.marks, strict=True))
    return f"{CONTENT_DIGEST}:{marks_digest(replace(found, marks=marks))}"


def hash_file(file: InputFile) -> str:
    return hash_content(file.root, file.path, file.size_bytes)


def split_inputs(files: Sequence[InputFile], wanted: InputFormat) -> list[Split]:
    """Cut the batch into splits of about 64 MiB; only Parquet files are cut, at row groups."""
    return [split for file in files for split in _split(file, wanted)]


def _split(file: InputFile, wanted: InputFormat) -> list[Split]:
    kind = format_of(file, wanted)
    if kind is not InputFormat.PARQUET or file.size_bytes <= SPLIT_BYTES:
        return [Split(file, bytes=file.size_bytes, decoded_bytes=_decoded_bytes(file, kind))]
    metadata = parquet_footer(file)
    splits: list[Split] = []
    first = first_row = size = rows = decoded = 0
    for group in range(metadata.num_row_groups):
        facts = metadata.row_group(group)
        size += file.size_bytes * facts.num_rows // max(metadata.num_rows, 1)
        rows += facts.num_rows
        decoded += _PLAIN_FACTOR * facts.total_byte_size
        if size >= SPLIT_BYTES or group == metadata.num_row_groups - 1:
            splits.append(Split(file, first, group + 1, first_row, size, decoded))
            first, first_row, size, rows, decoded = group + 1, first_row + rows, 0, 0, 0
    return splits or [Split(file, bytes=file.size_bytes)]


def parquet_footer(file: InputFile) -> pq.FileMetaData:
    """The footer of a Parquet file of the batch. Raises: InputError: it cannot be read."""
    try:
        return pq.ParquetFile(StorageFile(storage_at(file.root), file.path, file.size_bytes)).metadata
    except (pa.ArrowException, OSError) as error:
        raise unreadable(file, error) from error


def parquet_footers(files: Sequence[InputFile]) -> dict[InputFile, pq.FileMetaData]:
    """The footers of Parquet files of one batch. Raises: InputError: one cannot be read."""
    return dict(zip(files, in_parallel(files[0].root, parquet_footer, files), strict=True))


def _decoded_bytes(file: InputFile, kind: InputFormat | None) -> int:
    """About what the file's rows take in memory; a guess that decides only how finely a batch is scattered."""
    if kind is None:
        return file.size_bytes
    packed = _PACKED_FACTOR if kind is InputFormat.PARQUET or file.path.lower().endswith((*PACKINGS,)) else 1
    return file.size_bytes * packed * (1 if kind is InputFormat.PARQUET else _PLAIN_FACTOR)


def unreadable(file: InputFile | KeyedFile, error: Exception) -> InputError:
    return InputError(
        f"input {file.display!r} cannot be read: {first_line(error)}",
        culprit=file.display,
        hint="write the file again; nothing was published",
    )
