"""Putting and deleting rows of the HBASE index until they stand:
what is written is read back, and written again if it is not there.
"""

from __future__ import annotations

from typing import Final

from lakeindex.errors import HBaseTableError
from lakeindex.format.instants import comparable
from lakeindex.index.hbase.marker import MarkerRow
from lakeindex.index.hbase.rows import HBaseRows, Row
from lakeindex.index.stored.log_state import BEFORE_ALL, place_of
from lakeindex.index.stored.store_context import Completed

NEVER: Final = "9" * 17
"""``commit_ts`` of a row whose key may be anywhere: an instant that is never completed,
nor ever before a timeline's start.
"""
_TRIES: Final = 3


class RowWriter:
    """Writes rows and sees that they stand.

    Args:
        rows: the rows.
        marker: says which deltas were given a time stamp.
        completed: which instants count.
        verify: read back what was written.
    """

    def __init__(self, rows: HBaseRows, marker: MarkerRow, completed: Completed, *, verify: bool) -> None:
        self._rows = rows
        self._marker = marker
        self._completed = completed
        self._verify = verify
        self._valid: dict[str, bool] = {BEFORE_ALL: True, NEVER: False}

    def counts(self, row: Row) -> bool:
        """Whether a row's instant is completed, or older than the timeline."""
        known = self._valid.get(row.commit)
        if known is None:
            known = self._valid[row.commit] = bool(row.commit) and self._completed.has(row.commit)
        return known and bool(row.file_id)

    def enter(self, wanted: list[tuple[str, Row]], stamp: int, name: str | None, *, look_first: bool) -> None:
        """Put rows, and read them back until they stand.

        Args:
            wanted: keys and rows.
            stamp: their time stamp.
            name: the delta they are of; None: they are built.
            look_first: many of them may stand already.
        """
        if not look_first or not self._verify:
            self._rows.put(wanted, stamp)
        for again in range(_TRIES + 1 if self._verify else 0):
            found = self._rows.get([key for key, _ in wanted])
            wanted = [(key, row) for key, row in wanted if not self._stands(found.get(key), row)]
            if not wanted or (again and self._is_superseded(name)):
                return
            if again == _TRIES:
                raise self._not_kept([key for key, _ in wanted], "put")
            if again:  # neither lost nor below an older row: somebody who is no delta of ours removed it meanwhile
                stamp = self._rows.server_time()
            self._put_above(wanted, found, stamp)

    def _put_above(self, wanted: list[tuple[str, Row]], found: dict[str, Row], stamp: int) -> None:
        """Put rows above those that hide them, whose server's clock went ahead of ours."""
        by_stamp: dict[int, list[tuple[str, Row]]] = {}
        for key, row in wanted:
            by_stamp.setdefault(max(stamp, found[key].stamp + 1 if key in found else 0), []).append((key, row))
        for one, mine in by_stamp.items():
            self._rows.put(mine, one)

    def remove(self, keys: list[str], instant: str, stamp: int, name: str) -> None:
        """Delete rows, and read back until they are gone, but not those that a newer commit put."""
        self._rows.delete(keys, stamp)
        for again in range(_TRIES + 1 if self._verify else 0):
            rest = {key: row for key, row in self._rows.get(keys).items() if not self._is_newer(row, instant)}
            if not rest or (again and self._is_superseded(name)):
                return
            if again == _TRIES:
                raise self._not_kept(list(rest), "deleted")
            keys = list(rest)
            self._rows.delete(keys, max(stamp, *(row.stamp for row in rest.values())))

    def _stands(self, row: Row | None, wanted: Row) -> bool:
        """Whether what is there says what is wanted, or something newer."""
        if row is None:
            return False
        if row.place == wanted.place and (row.commit == wanted.commit or self.counts(row)):
            return True
        return self._is_newer(row, wanted.commit)

    def _is_newer(self, row: Row, instant: str) -> bool:
        if row.commit == NEVER or comparable(row.commit) <= comparable(instant):
            return False
        return self.counts(row) or row.commit in self._completed.pending

    def _is_superseded(self, name: str | None) -> bool:
        """Whether a later delta is at work, which may have taken away again what an earlier one put."""
        marker = self._marker.read()
        return name is not None and marker is not None and any(place_of(n) > place_of(name) for n in marker.stamps)

    def _not_kept(self, keys: list[str], what: str) -> HBaseTableError:
        return HBaseTableError(
            f"table {self._rows.client.table!r} of HBase does not keep what is written: {len(keys)} rows were {what} "
            f"{_TRIES + 1} times, the first of key {keys[0][:40]!r}",
            culprit=self._rows.client.table,
            hint="look into the logs of its region servers; nothing is lost, the change log has it all",
        )
