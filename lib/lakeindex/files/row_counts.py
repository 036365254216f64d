"""How many rows base files have, by their footers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakeindex.errors import ObjectNotFoundError, TableCorruptError
from lakeindex.files.footer_cache import FooterCache
from lakeindex.files.footers import Footer, read_shape
from lakeindex.model import BaseFile
from lakeindex.storage import in_parallel
from lakeindex.storage.port import Storage

_WORTH_KEEPING: Final = 32
"""Files; to list, read and write what is kept takes a handful of requests."""


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
    counts = rows_by_footer(storage, files)
    unread = tuple(file.path for file, count in zip(files, counts, strict=True) if count is None)
    return RowCount(sum(count or 0 for count in counts), unread)


def rows_by_footer(storage: Storage, files: Sequence[BaseFile], *, keeps: bool = False) -> list[int | None]:
    """The same of each file; None of a damaged one.

    Args:
        keeps: what is read is kept for the next time, as soon as it saves more requests than it costs.
    """
    known = FooterCache(storage).load(files, tidy=False)
    cache = FooterCache(storage, only_rows=True)
    if len(files) - len(known) > _WORTH_KEEPING:
        known |= cache.load([file for file in files if file.path not in known], tidy=keeps)

    def shape_of(file: BaseFile) -> Footer | None:
        try:
            shape = read_shape(storage, file)
        except (TableCorruptError, ObjectNotFoundError):
            return None
        return Footer(shape.rows, shape.row_group_rows)

    unknown = [file for file in files if file.path not in known]
    found = dict(zip(unknown, in_parallel(storage.uri, shape_of, unknown), strict=True))
    if keeps and len(unknown) > _WORTH_KEEPING:
        cache.add([(file, footer) for file, footer in found.items() if footer is not None])
    footers = (known[file.path][0] if file.path in known else found[file] for file in files)
    return [None if footer is None else footer.rows for footer in footers]
