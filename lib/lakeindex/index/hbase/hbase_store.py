"""HBASE: locations in an HBase table, laid out as Hudi 0.15 does it, so that both can share one.

HBase cannot change in the same moment as the table. So a row counts only if its instant does, everything but new keys
is written after the commit, from the change log, and the next writer goes on where a dead one stopped. A row
whose instant does not count says nothing about where its key is: the key is looked for in the files (*unknown*), which
is slower and never wrong. What is written is read back, and written again if it is not there.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field
from msgspec.structs import replace

from lakeindex.errors import HBaseTableError, WriteConflictError
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import StringArray
from lakeindex.index.hbase.hbase_options import TABLE_OPTION, HBaseOptions
from lakeindex.index.hbase.hbase_rows import FAMILY, HBaseAddress, HBaseClient, HBaseRows, Row, shared_rate
from lakeindex.index.locations.change_log import (
    BEFORE_ALL,
    ChangeLog,
    Delta,
    changed,
    instant_of,
    new_generation,
    place_of,
    read_changes,
    read_delta,
)
from lakeindex.index.locations.record_shards import copied
from lakeindex.index.locations.store_context import Completed, StoreContext
from lakeindex.index.locations.stored_index import Change, Found, StoredIndex
from lakeindex.model import Group, IndexSpec, IndexType
from lakeindex.options.types import WriteConfig
from lakeindex.showing.json_values import json_of
from lakeindex.storage.paths import with_one_scheme

NEVER: Final = "9" * 17
"""``commit_ts`` of a row whose key may be anywhere: an instant that is never completed,
nor ever before a timeline's start.
"""
_TRIES: Final = 3

_PIECE: Final = 50_000
COLUMN: Final = FAMILY + b":lakeindex"
_MARKER_TRIES: Final = 50
_KEPT: Final = 4
_NOTED: Final = 100


class IndexMarker(Frozen):
    """One row of the HBase table that says what the others are.

    Its key is no UTF-8, so no record key can be it, and Hudi, which only asks for the keys it has, never sees it. It is
    changed by compare-and-set only, so that two writers never overwrite what the other one said. A table that was
    truncated has no marker, one that was restored from an older copy an older one: either is noticed. What an older
    copy of the same generation lacks is in the change log, and is applied again.

    *Stamps.* All cells of one delta get one time stamp, which is given to the delta once, from HBase's own clock, in
    the order of the deltas. So a delta may be applied again at any time, by anybody, however late, and never wins over
    a newer one; and what Hudi writes later, with the time of its put, wins over all of them.

    Attributes:
        table: URI of the lakeindex table that the rows belong to.
        generations: names of what was built that the rows hold, the newest last.
            Several are true between two steps of a build or a fold.
        stamps: time stamp of each delta that was given one and is not part of what was built.
        prepared: deltas whose inserts are put.
        applied: deltas that are applied.
        last: the greatest time stamp given so far.
        building: time stamp of the rows of a build under way; 0 if there is none.
        folded: deltas that the newest folds took in, and what was built before: who looked at the log then may go on.
    """

    table: str
    generations: tuple[str, ...] = ()
    stamps: dict[str, int] = field(default_factory=dict)
    prepared: tuple[str, ...] = ()
    applied: tuple[str, ...] = ()
    last: int = 0
    building: int = 0
    folded: tuple[str, ...] = ()

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
        """Back from what is stored. Raises: HBaseTableError: it is not what :meth:`encode` makes."""
        try:
            found = json.loads(text)
            lists = {"folded": (), **found}  # which older releases do not write, nor what is being built
            tuples = {name: tuple(map(str, lists[name])) for name in ("generations", "prepared", "applied", "folded")}
            stamps = {str(name): int(stamp) for name, stamp in found["stamps"].items()}
            last, building = int(found["last"]), int(found.get("building", 0))
            return IndexMarker(str(found["table"]), stamps=stamps, last=last, building=building, **tuples)
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
        cell = self._rows.marker(COLUMN)
        return None if cell is None else IndexMarker.decode(cell[0], self._rows.client.table)

    def change(self, do: Callable[[IndexMarker | None], IndexMarker]) -> IndexMarker:
        """Change it; ``do`` is called again if another writer changed it meanwhile.

        Raises:
            WriteConflictError: other writers were first in every try.
        """
        for _ in range(_MARKER_TRIES):
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
        """The time stamp of a delta; given to it now if it has none. Raises: HBaseTableError: the marker is gone."""
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


class RowWriter:
    """Writes rows and sees that they stand."""

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
        is_same = row.place == wanted.place and row.several == wanted.several
        if is_same and (row.commit == wanted.commit or self.counts(row)):
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


class HBaseStore:
    """The store of one table."""

    def __init__(self, context: StoreContext, rows: HBaseRows) -> None:
        self._context = context
        self._rows = rows
        self._marker = MarkerRow(rows)
        verify = context.config.of(HBaseOptions).verify_puts
        self._writer = RowWriter(rows, self._marker, context.completed, verify=verify)

    def generation(self) -> str | None:
        marker, named = self._marker.read(), self._context.view.generation
        if marker is not None and not self._is_ours(marker):
            return f"that of {marker.table}"  # this may be a copy of it
        if marker is None or named is None or named not in marker.generations:
            return None
        strange = self._strange(marker)
        return f"{named} and {instant_of(strange[0])}, which the table does not have" if strange else named

    def _is_ours(self, marker: IndexMarker) -> bool:
        return with_one_scheme(marker.table) == with_one_scheme(self._context.storage.uri)

    def _strange(self, marker: IndexMarker) -> list[str]:
        """Deltas that are applied, and that neither the timeline nor the log has: the table was put back from a backup
        that is older. What they removed and moved is gone from HBase.
        """

        def unknown(known: IndexMarker) -> list[str]:
            apart = (name for name in known.applied if name not in self._context.view.deltas)
            return [name for name in apart if not self._context.completed.has(instant_of(name))]

        if not unknown(marker):
            return []
        listed = frozenset(ChangeLog(self._context.storage, IndexType.HBASE).names())
        now = self._marker.read()  # what was undone or folded meanwhile is not applied any more
        return [name for name in unknown(now or marker) if name not in listed]

    # --- look-up -----------------------------------------------------------------------------------------------

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        """Locations of keys; a row whose instant does not count, or that says that there are several, makes its key
        unknown.

        Raises:
            IndexChangedError: rows may have gone since they were found to be what the log says.
        """
        del partition  # a key is unique in the whole table
        found = self._rows.get(keys.to_pylist())
        self._check_whole()
        rows: list[int] = []
        unknown: list[int] = []
        places: list[Row] = []
        for number, key in enumerate(keys.to_pylist()):
            row = found.get(key)
            if row is None:
                continue
            if self._writer.counts(row) and not row.several:
                rows.append(number)
                places.append(row)
            else:
                unknown.append(number)
        return Found(
            np.array(rows, np.int64),
            pa.array([row.partition for row in places], pa.string()),
            pa.array([row.file_id for row in places], pa.string()),
            np.array(unknown, np.int64),
        )

    def _check_whole(self) -> None:
        """Nobody has dropped the rows, emptied the HBase table or begun a build before they were read."""
        marker, view = self._marker.read(), self._context.view
        if marker is None or not self._is_ours(marker):
            raise changed(view.folder)
        if not {view.generation, *view.deltas} <= {*marker.generations, *marker.applied, *marker.folded}:
            raise changed(view.folder)

    # --- deltas ------------------------------------------------------------------------------------------------

    def behind(self, names: Sequence[str]) -> Sequence[str]:
        marker = self._marker.read()
        return [name for name in names if marker is None or name not in marker.applied]

    def prepare(self, name: str) -> None:
        """Put the keys that a commit is about to add. Until it is completed, they are unknown; should it fail, too."""
        delta = self._delta(name)
        new = delta.filter(pc.equal(delta.column("change"), int(Change.INSERT)))
        stamp = self._marker.stamp_of(name)
        for piece in _pieces(new):
            self._rows.put(_wanted(piece, instant_of(name)), stamp)
        self._marker.change(lambda m: _with_prepared(self._marker.required(m), name, stamp))

    def apply(self, names: Sequence[str]) -> None:
        """Apply deltas in their order. What a later commit overwrites again is left to it."""
        todo = self.behind(names)
        read = [read_changes(self._context.storage, self._context.view, name) for name in todo]
        for is_read, several in groupby(enumerate(read), key=lambda one: one[1][0].is_catch_up):
            run = tuple(several)
            copies = self._copies([changes for _, changes in run]) if is_read else pa.array([], pa.string())
            for place, (delta, rows) in run:
                for other, later in read[place + 1 :]:
                    if not other.is_catch_up:
                        rows = rows.filter(pc.invert(pc.is_in(rows.column("key"), later.column("key"))))  # noqa: PLW2901
                self._apply_one(delta.name, rows, copies)

    def _copies(self, read: Sequence[tuple[Delta, pa.Table]]) -> pa.Array:
        """Keys of what was read from files that are in other file groups, too."""
        found = pa.concat_tables([rows for _, rows in read])
        known: dict[str, Group] = {}  # but for those that are where they were found
        for piece in _pieces(found):
            keys, *places = (piece.column(name).to_pylist() for name in ("key", "partition", "file_id"))
            rows = self._rows.get(keys)
            for key, place in zip(keys, zip(*places, strict=True), strict=True):
                row = rows.get(key)
                if row is not None and self._writer.counts(row) and (row.several or row.place != place):
                    known[key] = row.partition, "" if row.several else row.file_id
        void = {group for delta, _ in read for group in (*delta.resets, *delta.gone)}
        return copied(found, known, void, by_partition=False)

    def _apply_one(self, name: str, delta: pa.Table, copies: pa.Array) -> None:
        stamp, instant = self._marker.stamp_of(name), instant_of(name)
        marker = self._marker.required(self._marker.read())
        prepared = name in marker.prepared
        gone = pc.is_null(delta.column("file_id"))
        for piece in _pieces(delta.filter(gone)):
            self._writer.remove(piece.column("key").to_pylist(), instant, stamp, name)
        there = delta.filter(pc.invert(gone))
        stays = there.filter(pc.equal(there.column("change"), int(Change.MOVE)))
        several = frozenset((*copies.to_pylist(), *copied(stays, {}, by_partition=False).to_pylist()))
        look_first = pc.or_(  # but not while rows that stand may be taken away
            pc.and_(pc.equal(there.column("change"), int(Change.FOUND)), not marker.building),
            pc.and_(pc.equal(there.column("change"), int(Change.INSERT)), prepared),
        )
        for piece in _pieces(there.filter(look_first)):
            self._writer.enter(_wanted(piece, instant, several), stamp, name, look_first=True)
        for piece in _pieces(there.filter(pc.invert(look_first))):
            self._writer.enter(_wanted(piece, instant, several), stamp, name, look_first=False)

        def apply(marker: IndexMarker | None) -> IndexMarker:
            there = self._marker.required(marker)
            if there.stamps.get(name) != stamp:
                raise changed(self._context.view.folder)  # a build has begun: rows of it may hide these
            return _with_applied(there, name)

        self._marker.change(apply)

    def undo(self, name: str) -> None:
        """Take back what a failed commit put, and say of what it overwrote or removed that it may be anywhere."""
        delta, instant = self._delta(name), instant_of(name)
        new = pc.equal(delta.column("change"), int(Change.INSERT))
        if self._context.config.of(HBaseOptions).rollback_sync:
            for piece in _pieces(delta.filter(new)):
                self._rows.delete_if_commit(piece.column("key").to_pylist(), instant)
        for piece in _pieces(delta.filter(pc.invert(new))):
            self._doubt(piece, instant)
        self._marker.change(lambda m: self._marker.required(m).without(frozenset((name,))))

    def _doubt(self, piece: pa.Table, instant: str) -> None:
        """Rows that a commit that does not count any more overwrote or removed:
        what was there before, as far as HBase still has it and it counts; else their keys may be anywhere.
        """
        keys, partitions = piece.column("key").to_pylist(), piece.column("partition").to_pylist()
        found = self._rows.get(keys)
        written = {key: row for key, row in found.items() if row.commit == instant}
        before = self._rows.get_before(written)
        rows = []
        for key, partition in zip(keys, partitions, strict=True):
            if key in found and key not in written:
                continue
            older = before.get(key)
            here = older is not None and self._writer.counts(older)
            rows.append((key, older if older is not None and here else Row(NEVER, "", partition)))
        if rows:
            newest = max((row.stamp for row in found.values()), default=0)
            self._rows.put(rows, max(self._rows.server_time(), newest + 1))

    def fold(self) -> str:
        """Deltas are part of the rows once they are applied; a new name tells these rows from an older copy of them.

        Raises:
            IndexChangedError: one is not: a build has begun since.
        """
        view = self._context.view
        number = int((view.generation or "0").partition("-")[0]) + 1
        name = new_generation(number)

        def fold(marker: IndexMarker | None) -> IndexMarker:
            there = self._marker.required(marker)
            if view.generation not in there.generations or not frozenset(view.deltas) <= {*there.applied}:
                raise changed(view.folder)
            return there.with_generation(name, view.generation)

        self._marker.change(fold)
        return name

    # --- whole -------------------------------------------------------------------------------------------------

    def build(self, generation: str, entries: Iterable[pa.Table]) -> int:
        """Put all entries over what is there. Rows are true for what was built before as well:
        they say where keys are now. Deltas that were applied count no more as applied, and go above them again.

        Rows that no entry overwrote are removed afterwards if the HBase table was ours before.
        """
        before = self._marker.read()
        self._refuse_other_table(before)
        stamp = self._begin_build()
        for table in entries:
            for piece in _pieces(table):
                self._writer.enter(_wanted(piece, BEFORE_ALL), stamp, None, look_first=False)
        count = sum(1 for _, row in self._rows.scan() if row.commit == BEFORE_ALL and row.stamp >= stamp)
        if count == self._context.expected_rows and before is not None:
            self._remove_older(stamp)
        current = self._context.view.generation

        def end(marker: IndexMarker | None) -> IndexMarker:
            there = self._marker.required(marker)
            if there.building != stamp:
                raise changed(self._context.view.folder)  # another build has begun since
            return replace(there.with_generation(generation, current), building=0)

        self._marker.change(end)
        return count

    def _begin_build(self) -> int:
        """The time stamp of all rows of a build. Deltas applied before are applied again after it:
        it may be older than they.
        """
        now, uri = self._rows.server_time(), self._context.storage.uri

        def begin(marker: IndexMarker | None) -> IndexMarker:
            self._refuse_other_table(marker)
            there = marker or IndexMarker(uri)
            kept = tuple(g for g in there.generations if g == self._context.view.generation)
            stamp = max(now, there.last + 1)
            return IndexMarker(uri, kept, last=stamp, building=stamp)

        return self._marker.change(begin).last

    def _refuse_other_table(self, marker: IndexMarker | None) -> None:
        uri = self._context.storage.uri
        if marker is None or self._is_ours(marker) or self._context.view.generation in marker.generations:
            return
        raise HBaseTableError(
            f"table {self._rows.client.table!r} of HBase holds the index of {marker.table}",
            culprit=TABLE_OPTION,
            hint=f"one HBase table serves one table: give {uri} another one, or, if {marker.table} is no more, "
            "empty it (truncate in the HBase shell)",
        )

    def _remove_older(self, stamp: int) -> None:
        """Remove rows whose keys are in no file: written before a build that did not write them again."""
        stamps: dict[int, list[str]] = {}
        for key, row in self._rows.scan():
            if row.stamp < stamp and row.commit not in self._context.completed.pending:
                stamps.setdefault(row.stamp, []).append(key)
        for one, keys in stamps.items():
            self._rows.delete(keys, one)

    def retire(self, keep: str | None) -> None:
        """Generations have no rows of their own: names of old ones go, and those of the deltas that are part of the one
        that stays are noted apart.
        """
        folded = self._context.view.deltas

        def leave(marker: IndexMarker | None) -> IndexMarker:
            there = self._marker.required(marker)
            older = (g for g in there.generations if g != keep)
            noted = tuple(dict.fromkeys((*there.folded, *older, *folded)))[-_NOTED:]
            kept = tuple(g for g in there.generations if g == keep)
            return replace(there.without(frozenset(folded)), generations=kept, folded=noted)

        if self._marker.read() is not None:
            self._marker.change(leave)

    def drop(self) -> None:
        """Remove the marker, then all rows; nothing if the HBase table is not this table's."""
        marker = self._marker.read()
        if marker is None or not self._is_ours(marker):
            return
        newest = max(self._rows.server_time(), marker.last)
        self._rows.delete_marker()
        self._rows.delete((key for key, row in self._rows.scan() if row.stamp <= newest), newest)

    def count(self) -> int | None:
        """Only a scan could say."""
        return None

    def entries(self) -> Iterator[pa.Table]:
        """Rows whose instants count."""
        piece: list[tuple[str, str, str]] = []
        for key, row in self._rows.scan():
            if self._writer.counts(row):
                piece.append((key, row.partition, row.file_id))
            if len(piece) == _PIECE:
                yield _entries(piece)
                piece = []
        yield _entries(piece)

    def _delta(self, name: str) -> pa.Table:
        return read_delta(self._context.storage, self._context.view, name)


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, _PIECE):
        yield table.slice(start, _PIECE)


def _wanted(piece: pa.Table, instant: str, several: frozenset[str] = frozenset()) -> list[tuple[str, Row]]:
    columns = (piece.column(name).to_pylist() for name in ("key", "partition", "file_id"))
    rows = zip(*columns, strict=True)
    return list({key: Row(instant, file_id, at, several=key in several) for key, at, file_id in rows}.items())


def _entries(rows: list[tuple[str, str, str]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    names = ("key", "partition", "file_id")
    return pa.table({name: pa.array(column, pa.string()) for name, column in zip(names, columns, strict=True)})


def _with_prepared(marker: IndexMarker, name: str, stamp: int) -> IndexMarker:
    """The marker after a delta's inserts were put, unless a build has begun since: it may take them away again."""
    if name in marker.prepared or marker.stamps.get(name) != stamp:
        return marker
    return replace(marker, prepared=(*marker.prepared, name))


def _with_applied(marker: IndexMarker, name: str) -> IndexMarker:
    return marker if name in marker.applied else replace(marker, applied=(*marker.applied, name))


_FIRST_ANSWER_SECONDS: Final = 5.0
_answered: Final[set[HBaseAddress]] = set()
"""Servers that this process has had an answer from. One that never answered is given up soon:
its address may be wrong.
"""


@dataclass(frozen=True, slots=True)
class HBaseIndex(StoredIndex):
    """The kind."""

    spec: IndexSpec

    def open(self, context: StoreContext) -> HBaseStore:
        """The store of a table; the driver sees first whether HBase answers and the table is fit,
        before anything is written.

        Raises:
            HBaseUnavailableError: HBase does not answer.
            HBaseTableError: its table is missing or unfit.
        """
        config = context.config
        rows = rows_of(config, self.spec.option(TABLE_OPTION) or context.table_name)
        if context.runner is not None:
            known = rows.client.address in _answered
            create = config.of(HBaseOptions).create_table
            rows.check(create=create, retry_seconds=None if known else _FIRST_ANSWER_SECONDS)
            _answered.add(rows.client.address)
        return HBaseStore(context, rows)

    def moves_rows(self, config: WriteConfig) -> bool:
        return config.of(HBaseOptions).moves_rows


def rows_of(config: WriteConfig, table: str) -> HBaseRows:
    """The rows of an HBase table, by the options of a write.

    The bound of rows a second is Hudi's, for one region server: ``qps.fraction x max.qps.per.region.server``.
    """
    given = config.of(HBaseOptions)
    address = HBaseAddress(
        given.host,
        given.port,
        connect_seconds=given.connect_seconds,
        retry_seconds=given.retry_seconds,
    )
    bound = math.ceil(given.qps_fraction * given.max_qps)
    return HBaseRows(
        HBaseClient(address, table),
        given.get_batch,
        given.put_batch,
        shared_rate(f"{address}/{table}", bound),
    )
