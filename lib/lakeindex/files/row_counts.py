"""How many rows base files have, by their footers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeindex.errors import ObjectNotFoundError, TableCorruptError
from lakeindex.files.footer_cache import FooterCache
from lakeindex.files.footers import read_shape
from lakeindex.model import BaseFile
from lakeindex.storage import in_parallel
from lakeindex.storage.port import Storage


@dataclass(frozen=True, slots=True)
class RowCount:
    """Rows of some base files.

    Attributes:
        rows: of those whose footers can be read.
        unread: paths of the others.
    """

    rows: int
    unread: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever reads the count should know."""
        if not self.unread:
            return ()
        return (f"rows of {len(self.unread)} replaced files are not counted, they cannot be read: {self.unread[0]}",)


def count_rows(storage: Storage, files: Sequence[BaseFile]) -> RowCount:
    """Rows of base files; footers that the footer cache has are not read. A damaged file is no error:
    whoever takes it out of the table may do so because it is damaged.
    """
    counts = rows_of_files(storage, files)
    unread = tuple(file.path for file, count in zip(files, counts, strict=True) if count is None)
    return RowCount(sum(count or 0 for count in counts), unread)


def rows_of_files(storage: Storage, files: Sequence[BaseFile]) -> list[int | None]:
    """The same of each file; None of a damaged one."""
    known = FooterCache(storage).load(files, tidy=False)

    def rows_of(file: BaseFile) -> int | None:
        if file.path in known:
            return known[file.path][0].rows
        try:
            return read_shape(storage, file).rows
        except (TableCorruptError, ObjectNotFoundError):
            return None

    return in_parallel(storage.uri, rows_of, files)
