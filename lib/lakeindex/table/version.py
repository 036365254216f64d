"""Table versions that are read and written, and what each of them is.

Source: Hudi ``HoodieTableVersion``. Versions 7 and below 6 never stood for long; Hudi upgrades them by itself. Version
10 is that of its main branch: it is read, and written where ``lakeindex.table.version10=write`` says so, until a
release that has it was run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakeindex.timeline.layout import LAYOUT_1, LAYOUT_2


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version.

    Attributes:
        number: ``hoodie.table.version``.
        layout: timeline layout that such a table has.
        unread_by: readers of other versions that cannot read it, in words; None if all can.
    """

    number: int
    layout: int
    unread_by: str | None = None


VERSION_6: Final = TableVersion(6, LAYOUT_1)
VERSION_8: Final = TableVersion(8, LAYOUT_2, "Hudi 0.x, and what is built on it")
VERSION_9: Final = TableVersion(9, LAYOUT_2, "Hudi 0.x and 1.0, and what is built on them")
VERSION_10: Final = TableVersion(10, LAYOUT_2, "Hudi up to 1.2, hudi-rs up to 0.5, and what is built on them")

SEVERAL_ORDERING_FIELDS: Final = VERSION_9.number
"""From this version on a table may have more than one: Hudi before 1.1, which reads the others, knows one."""

VERSIONS: Final[dict[int, TableVersion]] = {one.number: one for one in (VERSION_6, VERSION_8, VERSION_9, VERSION_10)}


def layout_of_version(number: int) -> int:
    """Timeline layout of a table whose properties do not say it."""
    known = VERSIONS.get(number)
    if known is not None:
        return known.layout
    return LAYOUT_2 if number > VERSION_6.number else LAYOUT_1


def listed_versions() -> str:
    """The versions that are read and written, for a message."""
    *others, last = (str(number) for number in VERSIONS if number != VERSION_10.number)
    return f"versions {', '.join(others)} and {last} are read and written, and {VERSION_10.number} is read"
