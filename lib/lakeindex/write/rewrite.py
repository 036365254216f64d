"""Make base files: of new rows, or from an old one by decoding only what a batch changes; the rest is copied as bytes.

A row group is *copied* if no row of it changes. If rows of it are only updated it is *patched*: columns whose values
cannot change (:mod:`lakeindex.write.fixed_columns`) or did not change are copied, the others encoded anew. If rows of
it are deleted it is *recoded*, all columns. New rows go to row groups of their own, behind the others. A row group that
has become small is joined with its neighbour, so they stay few. ``_hoodie_file_name`` names the new file in every row:
its chunks are always written anew, without reading the old ones.

A file is made while it is written, some row groups at a time, as many as there is memory for. A file of another writer,
of which nothing can be copied, is merged with its changes in windows of that many rows; each is sorted by key, so all
of it is if it fits into one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.bloom import marks
from lakeindex.errors import InvariantError
from lakeindex.hashing.arrow import one_array, plain_strings
from lakeindex.in_groups import groups_within
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.splice import ChunkOf, GroupOf, ParquetParts, splice
from lakeindex.pipeline import STAGED_KEY
from lakeindex.write.base_file import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    EncodedFile,
    constant_column,
    dictionaries_for,
    file_schema_of,
    schema_footer,
    schema_of_arrays,
    sequence_numbers,
)
from lakeindex.write.columns import are_same, leaves, replaced, without_unused
from lakeindex.write.file_parts import ForeignSlice, OldSlice, encoded_parts
from lakeindex.write.merge_rows import Changes, NewSlice, merge_slice
from lakeindex.write.updated_rows import REPLACE, UpdateRule
from lakeindex.write.virtual_keys import VirtualKeys

_SMALL_PART: Final = 4
_ROWS_AT_ONCE: Final = 500_000
_DECODED_TIMES: Final = 3
"""What a file takes that is decoded with all its columns, as a multiple of one that is not.
Measured: docs/architecture.md, "Memory".
"""
ALL_IN_MEMORY: Final = float(_DECODED_TIMES)
"""The ``part`` from which on any file is made at once, so that what is written does not depend on it."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How a file is rewritten.

    Attributes:
        table_name: for the Avro schema in the footer.
        schema: the table's columns.
        config: codec, row group size, filter.
        fixed: the table's columns that an update cannot change.
        new: what the new slice is called.
        rule: what updated rows are made of.
        part: of the rows, how many may be in memory at once, if only what changes is decoded; 1 or more means all.
        virtual: how the keys of stored rows are made; None: they are stored.
    """

    table_name: str
    schema: pa.Schema
    config: WriteConfig
    fixed: frozenset[str]
    new: NewSlice
    part: float = ALL_IN_MEMORY
    rule: UpdateRule = REPLACE
    virtual: VirtualKeys | None = None

    @property
    def stamps_rows(self) -> bool:
        """Whether rows say what wrote them, and where they are."""
        return self.virtual is None

    @property
    def may_change(self) -> list[str]:
        """The table's columns of which an updated row may have another value; a function has to see all."""
        if self.rule.function is not None:
            return self.schema.names
        stay = self.fixed | self.rule.kept
        return [name for name in self.schema.names if name not in stay]


class NewFile:
    """A base file that is made while its pieces are taken, which can be done once.

    Args:
        old: the file that it replaces; None: it is new.
        changes: what to replace, drop and add.
        rewrite: how.

    Raises:
        InvariantError: while it is made: the parts do not fit together.
    """

    def __init__(self, old: OldSlice | ForeignSlice | None, changes: Changes, rewrite: Rewrite) -> None:
        self._work = _Work(old, changes, rewrite)
        self._plan = self._work.plan()
        self.rows = sum(planned.rows for planned in self._plan)
        self._encoded: EncodedFile | None = None

    @property
    def encoded(self) -> EncodedFile:
        """What was made, when it was.

        Raises:
            InvariantError: not all pieces were taken.
        """
        if self._encoded is None:
            raise InvariantError("a base file was used before it was whole", culprit=self._work.new.file_name)
        return self._encoded

    def __iter__(self) -> Iterator[bytes | memoryview]:
        size = copied = chunks = 0
        rows: list[int] = []

        def counted(groups: Iterable[GroupOf]) -> Iterator[GroupOf]:
            nonlocal copied, chunks
            for group in groups:
                copied += sum(self._work.is_copied(chunk) for chunk in group.chunks)
                chunks += len(group.chunks)
                rows.append(group.rows)
                yield group

        shell, entries = self._work.shell(), self._work.key_entries()
        piece: bytes | memoryview = b""
        for piece in splice(shell, counted(self._work.groups(self._plan, shell)), entries):
            size += len(piece)
            yield piece
        self._encoded = EncodedFile(size, bytes(piece), copied, chunks - copied, tuple(rows), entries)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A row group of the new file, or a few that are made together.

    Attributes:
        sources: row groups (windows, if it cannot be copied) of the old file that it is made of.
        rows: rows it will have.
        inserts: of them new ones.
        updated: rows are updated.
        recoded: rows go away, or the old file cannot be copied.
    """

    sources: tuple[int, ...]
    rows: int
    inserts: int
    updated: bool
    recoded: bool

    @property
    def is_recoded(self) -> bool:
        """Every column is encoded anew."""
        return self.recoded or self.inserts > 0 or len(self.sources) > 1

    def joined(self, other: _Planned) -> _Planned:
        """Both as one."""
        return _Planned(
            self.sources + other.sources,
            self.rows + other.rows,
            self.inserts + other.inserts,
            self.updated or other.updated,
            self.recoded or other.recoded,
        )


class _Work:
    """One file's making."""

    def __init__(self, old: OldSlice | ForeignSlice | None, changes: Changes, rewrite: Rewrite) -> None:
        self._old = old
        self._rewrite = rewrite
        self.new = rewrite.new
        order = np.argsort(changes.update_positions, kind="stable")
        self._changes = replace(
            changes,
            updates=changes.updates.take(pa.array(order)),
            update_positions=changes.update_positions[order],
            delete_positions=np.sort(changes.delete_positions),
        )
        stored = 0 if old is None else old.rows
        limit = rewrite.config.row_group_rows
        rows = stored + len(changes.inserts)
        decodes_all = isinstance(old, ForeignSlice) or rewrite.rule.function is not None
        part = rewrite.part / _DECODED_TIMES if decodes_all else rewrite.part
        self._is_whole = part >= 1
        self._most = max(rows, 1) if self._is_whole else max(int(rows * part) // limit, 1) * limit
        if not self._is_whole and len(changes.inserts) > self._most:
            ordered = pc.sort_indices(plain_strings(one_array(changes.inserts.column(STAGED_KEY))))
            self._changes = replace(self._changes, inserts=changes.inserts.take(ordered))
        self._units: tuple[int, ...] = ()
        self._windows: Iterator[tuple[int, pa.Table]] = iter(())
        if isinstance(old, ForeignSlice):
            self._units = old.units(self._most)
            self._windows = enumerate(old.windows(self._most))
        elif old is not None:
            self._units = old.parts.rows
        starts = np.cumsum([0, *self._units], dtype=np.int64)
        self._starts = starts
        self._updates_to = np.searchsorted(self._changes.update_positions, starts)
        self._deletes_to = np.searchsorted(self._changes.delete_positions, starts)

    def is_copied(self, chunk: ChunkOf) -> bool:
        """Whether a chunk is the old file's."""
        return isinstance(self._old, OldSlice) and chunk.source is self._old.parts

    def shell(self) -> ParquetParts:
        """The new file without rows and without what its footer says of the keys."""
        return _shell(self._rewrite.schema, self._rewrite.table_name, self._rewrite.config)

    def key_entries(self) -> dict[str, str]:
        """The footer's entries about the keys, taken over from the old file if they can be, else made from all keys."""
        rewrite = self._rewrite
        if not rewrite.stamps_rows:
            return {}
        added = plain_strings(self._changes.inserts.column(STAGED_KEY))
        entries = None
        if self._old is not None:
            entries = marks.footer_with_added(self._old.key_value, added, rewrite.config)
        return entries or marks.footer_of_keys(self._keys(one_array(added)), rewrite.config)

    def _keys(self, added: pa.Array) -> pa.Array:
        """Record keys of the new file, in no certain order."""
        if self._old is None:
            return added
        stored = self._old.keys()
        keep = np.ones(len(stored), np.bool_)
        keep[self._changes.delete_positions] = False
        return pa.concat_arrays([stored.filter(pa.array(keep)), added.cast(stored.type)])

    def plan(self) -> list[_Planned]:
        """The new file's row groups, in its order."""
        limit = self._rewrite.config.row_group_rows
        singles = [self._single(unit, rows) for unit, rows in enumerate(self._units)]
        added = len(self._changes.inserts)
        for at in range(0, added, self._most):
            rows = min(self._most, added - at)
            singles.append(_Planned((), rows, rows, updated=False, recoded=False))
        plan: list[_Planned] = []
        for one in singles:
            if not one.rows:
                continue
            if plan and self._is_joined(plan[-1], one, limit):
                plan[-1] = plan[-1].joined(one)
            else:
                plan.append(one)
        return plan

    def _is_joined(self, one: _Planned, other: _Planned, limit: int) -> bool:
        if self._is_whole and isinstance(self._old, ForeignSlice):
            return True  # and so sorted
        return min(one.rows, other.rows) < limit / _SMALL_PART and one.rows + other.rows <= limit

    def _single(self, unit: int, rows: int) -> _Planned:
        updated = self._updates_to[unit + 1] > self._updates_to[unit]
        gone = int(self._deletes_to[unit + 1] - self._deletes_to[unit])
        recoded = gone > 0 or isinstance(self._old, ForeignSlice)
        return _Planned((unit,), rows - gone, 0, bool(updated), recoded)

    def groups(self, plan: Sequence[_Planned], shell: ParquetParts) -> Iterator[GroupOf]:
        """The new file's row groups, with their chunks; each is made when it is asked for."""
        first_rows = np.cumsum([0, *(p.rows for p in plan)], dtype=np.int64).tolist()
        patched = [n for n, p in enumerate(plan) if p.updated and not p.is_recoded]
        together = groups_within(patched, lambda n: plan[n].rows, min(_ROWS_AT_ONCE, self._most))
        fresh: dict[int, dict[str, tuple[ParquetParts, int]]] = {}
        kept = {p.rows for p in plan if not (p.updated or p.is_recoded)} if self._rewrite.stamps_rows else set()
        names = self._file_names(kept)
        inserted = 0
        for number, planned in enumerate(plan):
            if planned.is_recoded:
                yield from self._recoded(planned, first_rows[number], inserted)
                inserted += planned.inserts
                continue
            if planned.updated and number not in fresh:
                fresh = self._patched([(n, plan[n].sources[0], first_rows[n]) for n in next(together)])
            named = {FILE_NAME: (names[planned.rows], 0)} if planned.rows in names else {}
            columns = fresh.pop(number) if planned.updated else named
            yield self._mixed(planned.sources[0], columns, shell)

    @property
    def _ours(self) -> OldSlice:
        if not isinstance(self._old, OldSlice):
            raise InvariantError("chunks of a file that cannot be copied", culprit=self.new.file_name)
        return self._old

    def _decoded(self, sources: Sequence[int]) -> pa.Table | None:
        """Rows of these units of the old file; those of a foreign one come in their order."""
        if not sources:
            return None
        if isinstance(self._old, OldSlice):
            return self._old.decode(sources)
        found = []
        for number, rows in self._windows:
            if number in sources:
                found.append(rows)
            if number == sources[-1]:
                break
        return pa.concat_tables(found)

    def _mixed(self, group: int, fresh: Mapping[str, tuple[ParquetParts, int]], shell: ParquetParts) -> GroupOf:
        """An old row group in which some top-level columns are replaced."""
        old = self._ours.parts
        chunks = []
        leaf = 0
        for field in file_schema_of(self._rewrite.schema):
            width = leaves(field.type)
            source, row_group = fresh.get(field.name, (old, group))
            first = leaf if source is old else source.columns.index(shell.columns[leaf])
            take = self._ours.chunk if source is old else source.chunk
            chunks += [take(row_group, first + n) for n in range(width)]
            leaf += width
        return GroupOf(old.rows[group], tuple(chunks))

    def _file_names(self, rows: Iterable[int]) -> dict[int, ParquetParts]:
        """Chunks of the file name, by the rows they are for."""
        schema = pa.schema([file_schema_of(self._rewrite.schema).field(FILE_NAME)])
        result = {}
        for count in rows:
            column = constant_column(self._rewrite.new.file_name, count)
            rows_of_name = pa.table([column], names=[FILE_NAME])
            result[count] = encoded_parts([rows_of_name], schema, self._rewrite.config, dictionaries=[FILE_NAME])
        return result

    def _patched(self, groups: Sequence[tuple[int, int, int]]) -> dict[int, dict[str, tuple[ParquetParts, int]]]:
        """Columns that change in row groups of which rows are updated, the file's name among them.

        Args:
            groups: number in the plan, row group of the old file, first row in the new one.

        Returns:
            By number in the plan: where to find each of these columns.
        """
        new, schema, old = self._rewrite.new, self._rewrite.schema, self._ours
        sources = [group for _, group, _ in groups]
        sizes = [old.parts.rows[group] for group in sources]
        ends = np.cumsum([0, *sizes])
        spans = [(int(self._updates_to[g]), int(self._updates_to[g + 1])) for g in sources]
        inside = [
            self._changes.update_positions[a:b] - self._starts[g] for (a, b), g in zip(spans, sources, strict=True)
        ]
        places = np.concatenate([i + e for i, e in zip(inside, ends, strict=False)])
        numbers = np.concatenate([i + first for i, (_, _, first) in zip(inside, groups, strict=True)])
        updates = self._updates(spans)
        stamps = {
            COMMIT_TIME: pa.repeat(new.instant, len(places)),
            COMMIT_SEQNO: sequence_numbers(new.instant, new.task, numbers),
        }
        if not self._rewrite.stamps_rows:
            stamps = {}
        wanted = [*stamps, *self._rewrite.may_change]
        texts = {COMMIT_TIME, *(f.name for f in schema if f.type == pa.string())}
        stored = old.decode(sources, wanted, [n for n in wanted if n in texts and old.has_dictionary(sources[0], n)])
        if self._rewrite.rule.function is not None:
            updates = self._rewrite.rule.updated(stored.take(pa.array(places)), updates, schema, new.file_name)
        columns = {FILE_NAME: constant_column(new.file_name, int(ends[-1]))} if self._rewrite.stamps_rows else {}
        for name in wanted:
            column = one_array(stored.column(name))
            before = column.take(pa.array(places))
            values = stamps[name] if name in stamps else self._updated(name, before, one_array(updates.column(name)))
            if not pa.types.is_dictionary(column.type):
                values = values.cast(column.type)
            if not are_same(before, values):
                columns[name] = replaced(column, places, values)
        if not columns:  # every value is what is stored
            return {number: {} for number, _, _ in groups}
        table = pa.table(columns)
        slices = [_lean(table.slice(int(start), size)) for start, size in zip(ends, sizes, strict=False)]
        fresh = pa.schema([file_schema_of(schema).field(n) for n in columns])
        dictionaries = [n for n in columns if n == FILE_NAME or old.has_dictionary(sources[0], n)]
        parts = encoded_parts(slices, fresh, self._rewrite.config, dictionaries=dictionaries)
        return {number: dict.fromkeys(columns, (parts, n)) for n, (number, _, _) in enumerate(groups)}

    def _updated(self, name: str, stored: pa.Array, incoming: pa.Array) -> pa.Array:
        """A column of updated rows; stored values may stand in a dictionary."""
        if name not in self._rewrite.rule.filled or self._rewrite.rule.function is not None:
            return incoming
        kind = self._rewrite.schema.field(name).type
        plain = stored.dictionary_decode() if pa.types.is_dictionary(stored.type) else stored
        return self._rewrite.rule.value(name, plain.cast(kind), incoming.cast(kind))

    def _updates(self, spans: Sequence[tuple[int, int]]) -> pa.Table:
        """Updates at these places, ascending ``[start, stop)``; neighbours are fetched together."""
        joined = [(0, 0)]
        for start, stop in spans:
            joined[-1:] = [(joined[-1][0], stop)] if joined[-1][1] == start else [joined[-1], (start, stop)]
        return pa.concat_tables([self._changes.updates.slice(start, stop - start) for start, stop in joined])

    def _recoded(self, planned: _Planned, first_row: int, first_insert: int) -> Iterator[GroupOf]:
        """Row groups that are encoded anew, all columns."""
        changes = self._changes_of(planned, first_insert)
        new = replace(self._rewrite.new, first_row=first_row)
        rewrite, old = self._rewrite, self._decoded(planned.sources)
        rows = merge_slice(old, changes, rewrite.schema, new, rewrite.rule, rewrite.virtual)
        if rows.num_rows != planned.rows:
            raise InvariantError(
                f"row groups {planned.sources} came out with {rows.num_rows} rows instead of {planned.rows}",
                culprit=self._rewrite.new.file_name,
            )
        is_one_group = isinstance(self._old, OldSlice) and not planned.inserts
        limit = planned.rows if is_one_group else self._rewrite.config.row_group_rows
        rows = rows.cast(schema_of_arrays(rows, file_schema_of(self._rewrite.schema)))
        slices = [rows.slice(at, limit) for at in range(0, rows.num_rows, limit)]
        parts = encoded_parts(slices, rows.schema, self._rewrite.config, dictionaries=dictionaries_for(rows))
        yield from parts.groups()

    def _changes_of(self, planned: _Planned, first_insert: int) -> Changes:
        """What happens to the rows of a planned row group; positions count from its first old row."""
        at = 0
        spans, places, gone = [], [], []
        for unit in planned.sources:
            a, b = self._updates_to[unit], self._updates_to[unit + 1]
            shift = at - self._starts[unit]
            spans.append((int(a), int(b)))
            places.append(self._changes.update_positions[a:b] + shift)
            gone.append(self._changes.delete_positions[self._deletes_to[unit] : self._deletes_to[unit + 1]] + shift)
            at += self._units[unit]
        nothing = np.zeros(0, np.int64)
        return Changes(
            self._updates(spans),
            np.concatenate([nothing, *places]),
            np.concatenate([nothing, *gone]),
            self._changes.inserts.slice(first_insert, planned.inserts),
        )


@lru_cache(maxsize=64)
def _shell(schema: pa.Schema, table_name: str, config: WriteConfig) -> ParquetParts:
    """A base file without rows, of which no key is said."""
    return encoded_parts([], file_schema_of(schema), config, schema_footer(schema, table_name))


def _lean(rows: pa.Table) -> pa.Table:
    """The same rows; dictionaries hold only what they use, or they would grow from rewrite to rewrite."""
    columns = [one_array(column) for column in rows.columns]
    columns = [without_unused(c) if pa.types.is_dictionary(c.type) else c for c in columns]
    return pa.table(columns, names=rows.column_names)
