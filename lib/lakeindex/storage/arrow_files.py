"""A store as a file system of pyarrow, for readers of Arrow's own: read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow import fs

from lakeindex.errors import ObjectNotFoundError, UsageError
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile


class _ReadOnly(fs.FileSystemHandler):
    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ReadOnly) and other._storage.uri == self._storage.uri

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._storage.uri)

    def get_type_name(self) -> str:
        return "lakeindex"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[fs.FileInfo]:
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        try:
            size = self._storage.head(path).size_bytes
        except ObjectNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)
        return fs.FileInfo(path, fs.FileType.File, size=size)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(StorageFile(self._storage, path), mode="r")

    def _refuse(self, *_: Any) -> NoReturn:
        raise UsageError("this file system only reads files", culprit=self._storage.uri, hint="name files of the table")

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse


def file_system(storage: Storage) -> fs.PyFileSystem:
    """The store as a file system; paths are relative to its root."""
    return fs.PyFileSystem(_ReadOnly(storage))


def reader_of(scanner: ds.Scanner) -> pa.RecordBatchReader:
    """The batches of a scanner, read while they are asked for, whatever its files are read by.

    ``Scanner.to_reader`` of pyarrow (26.0) begins to read with the interpreter's lock held. A thread of Arrow's that
    opens a file by Python waits for that lock, while the scan waits for the thread, and both wait for ever.
    """
    return pa.RecordBatchReader.from_batches(scanner.projected_schema, scanner.to_batches())
