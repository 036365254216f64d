"""Is a data file what its writer says it is? Asked of every file before it is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from lakeindex.commit.guards import ExpectedFile
from lakeindex.errors import InvariantError, ObjectNotFoundError, StorageError, TableCorruptError
from lakeindex.files.footers import read_footer
from lakeindex.model import BaseFile
from lakeindex.storage.port import Storage

VerifyFile: TypeAlias = Callable[[Storage, BaseFile, ExpectedFile], None]


def verify_file(storage: Storage, file: BaseFile, expected: ExpectedFile) -> None:
    """A data file is there, whole, and holds as many rows as it should.

    Raises:
        StorageError: it is missing, or not what was written.
        InvariantError: it holds another number of rows.
    """
    hint = "nothing was published; run again"
    try:
        size = storage.head(file.path).size_bytes
    except ObjectNotFoundError:
        raise StorageError(f"data file {file.path} is missing", culprit=file.path, hint=hint) from None
    if size != expected.size_bytes:
        what = f"data file {file.path} has {size} bytes, {expected.size_bytes} were written"
        raise StorageError(what, culprit=file.path, hint=hint)
    try:
        rows = read_footer(storage, replace(file, size_bytes=size), want_filter=False).rows
    except TableCorruptError as error:
        raise StorageError(f"data file is damaged: {error.message}", culprit=file.path, hint=hint) from error
    if rows != expected.rows:
        what = f"data file {file.path} holds {rows} rows, {expected.rows} were counted"
        raise InvariantError(what, culprit=file.path, hint="nothing was published")
