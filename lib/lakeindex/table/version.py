"""Table versions: which timeline layout each has, and what is done with it here.

Source: Hudi ``HoodieTableVersion``. Versions 7 and below 6 never stood for long; Hudi upgrades them by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakeindex.timeline.layout import LAYOUT_1, LAYOUT_2


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A version that is read.

    Attributes:
        number: ``hoodie.table.version``.
        layout: timeline layout that such a table has.
        is_written: whether it is also written.
    """

    number: int
    layout: int
    is_written: bool = False


VERSION_6: Final = TableVersion(6, LAYOUT_1, is_written=True)
VERSION_8: Final = TableVersion(8, LAYOUT_2)
VERSION_9: Final = TableVersion(9, LAYOUT_2)

VERSIONS: Final[dict[int, TableVersion]] = {one.number: one for one in (VERSION_6, VERSION_8, VERSION_9)}
CREATED_VERSION: Final = VERSION_6
"""What ``create`` makes."""


def layout_of_version(number: int) -> int:
    """Timeline layout of a table whose properties do not say it."""
    known = VERSIONS.get(number)
    if known is not None:
        return known.layout
    return LAYOUT_2 if number > VERSION_6.number else LAYOUT_1


def listed_versions(*, written: bool) -> str:
    """The versions that are read, or written, for a message."""
    numbers = [str(one.number) for one in VERSIONS.values() if one.is_written or not written]
    last = numbers.pop()
    return f"versions {', '.join(numbers)} and {last}" if numbers else f"version {last}"
