"""The marker: one row of the HBase table that says what the others are.

Its key is no UTF-8, so no record key can be it, and Hudi, which only asks for the keys it has, never sees it.
It is changed by compare-and-set only, so that two writers never overwrite what the other one said.

A table that was truncated has no marker, one that was restored from an older copy an older one: either is noticed.
What an older copy of the same generation lacks is in the change log, and is applied again.

*Stamps.* All cells of one delta get one time stamp, which is given to the delta once, from HBase's own clock, in the
order of the deltas. So a delta may be applied again at any time, by anybody, however late, and never wins over a newer
one; and what Hudi writes later, with the time of its put, wins over all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from lakeindex.errors import HBaseTableError, WriteConflictError
from lakeindex.index.hbase.rows import FAMILY, HBaseRows
from lakeindex.index.stored.log_state import place_of
from lakeindex.json_values import json_of

COLUMN: Final = FAMILY + b":lakeindex"
_TRIES: Final = 50
_KEPT: Final = 4


@dataclass(frozen=True, slots=True)
class IndexMarker:
    """What the marker says.

    Attributes:
        table: URI of the lakeindex table that the rows belong to.
        generations: names of what was built that the rows hold, the newest last.
            Several are true between two steps of a build or a fold.
        stamps: time stamp of each delta that was given one and is not part of what was built.
        prepared: deltas whose inserts are put.
        applied: deltas that are applied.
        last: the greatest time stamp given so far.
    """

    table: str
    generations: tuple[str, ...] = ()
    stamps: dict[str, int] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    applied: tuple[str, ...] = ()
    last: int = 0

    def stamp_for(self, name: str, now: int) -> int:
        """The time stamp of a delta: not earlier than those before it, and earlier than those after it as
        far as that leaves room.
        """
        place = place_of(name)
        later = [stamp for other, stamp in self.stamps.items() if place_of(other) > place]
        if not later:
            return max(now, self.last + 1)
        earlier = [stamp for other, stamp in self.stamps.items() if place_of(other) < place]
        return max(min(later) - 1, *earlier, 0)

    def with_stamp(self, name: str, stamp: int) -> IndexMarker:
        """The marker after a delta was given its time stamp."""
        return replace(self, stamps={**self.stamps, name: stamp}, last=max(self.last, stamp))

    def with_generation(self, name: str, current: str | None) -> IndexMarker:
        """The marker after something was built; what the log may still name stays."""
        others = tuple(g for g in self.generations if g not in (name, current))[-_KEPT:]
        known = (current,) if current is not None and current in self.generations else ()
        return replace(self, generations=(*others, *known, name))

    def without(self, names: frozenset[str]) -> IndexMarker:
        """The marker after deltas became part of what was built, or failed."""
        return replace(
            self,
            stamps={n: s for n, s in self.stamps.items() if n not in names},
            prepared=tuple(n for n in self.prepared if n not in names),
            applied=tuple(n for n in self.applied if n not in names),
        )

    def encode(self) -> bytes:
        """As it is stored."""
        return json.dumps(json_of(self), sort_keys=True).encode()

    @staticmethod
    def decode(text: bytes, table: str) -> IndexMarker:
        """Back from what is stored.

        Raises:
            HBaseTableError: it is not what :meth:`encode` makes.
        """
        try:
            found = json.loads(text)
            tuples = {name: tuple(map(str, found[name])) for name in ("generations", "prepared", "applied")}
            stamps = {str(name): int(stamp) for name, stamp in found["stamps"].items()}
            return IndexMarker(str(found["table"]), stamps=stamps, last=int(found["last"]), **tuples)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise HBaseTableError(
                f"the marker row of table {table!r} of HBase is damaged: {text[:100]!r}",
                culprit=table,
                hint="delete the table's rows (truncate in the HBase shell) and run lakeindex index build TABLE",
            ) from error


class MarkerRow:
    """The marker of one HBase table."""

    def __init__(self, rows: HBaseRows) -> None:
        self._rows = rows

    def read(self) -> IndexMarker | None:
        """What it says; None if there is none."""
        cell = self._rows.marker(COLUMN)
        return None if cell is None else IndexMarker.decode(cell[0], self._rows.client.table)

    def change(self, do: Callable[[IndexMarker | None], IndexMarker]) -> IndexMarker:
        """Change it; ``do`` is asked again if somebody else changed it meanwhile.

        Raises:
            WriteConflictError: somebody else always was first.
        """
        for _ in range(_TRIES):
            cell = self._rows.marker(COLUMN)
            before = None if cell is None else cell[0]
            after = do(None if before is None else IndexMarker.decode(before, self._rows.client.table))
            text = after.encode()
            if text == before or self._rows.swap_marker(COLUMN, before, text):
                return after
        raise WriteConflictError(
            f"the marker row of table {self._rows.client.table!r} of HBase is changed faster than it can be read",
            culprit=self._rows.client.table,
            hint="try again when fewer writers are at work",
        )

    def stamp_of(self, name: str) -> int:
        """The time stamp of a delta; given to it now if it has none.

        Raises:
            HBaseTableError: the marker is gone.
        """
        known = self.read()
        if known is not None and name in known.stamps:
            return known.stamps[name]
        now = self._rows.server_time()

        def give(marker: IndexMarker | None) -> IndexMarker:
            there = self.required(marker)
            return there if name in there.stamps else there.with_stamp(name, there.stamp_for(name, now))

        return self.change(give).stamps[name]

    def required(self, marker: IndexMarker | None) -> IndexMarker:
        """The marker, which must be there. Raises: HBaseTableError: it is gone."""
        if marker is None:
            raise HBaseTableError(
                f"table {self._rows.client.table!r} of HBase was emptied while it was in use: its marker row is gone",
                culprit=self._rows.client.table,
                hint="build the index anew: lakeindex index build TABLE",
            )
        return marker
