"""Rewrite a base file by decoding only what a batch changes; the rest is copied as bytes.

A row group is *copied* if no row of it changes. If rows of it are only updated it is *patched*: columns whose values cannot
change (:mod:`lakeindex.write.fixed_columns`) or did not change are copied, the others encoded anew. If rows of it are
deleted it is *recoded*, all columns. New rows go to row groups of their own, behind the others. A row group that has
become small is joined with its neighbour, so they stay few. ``_hoodie_file_name`` names the new file in every row: its
chunks are always written anew, without reading the old ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from lakeindex.config import WriteConfig
from lakeindex.errors import InvariantError
from lakeindex.grouping import groups_within
from lakeindex.hashing.arrow import one_array, plain_strings
from lakeindex.parquet.splicing import ChunkOf, GroupOf, ParquetParts, splice
from lakeindex.pipeline import STAGED_KEY
from lakeindex.write.base_file import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    RECORD_KEY,
    CarriedFooter,
    EncodedFile,
    constant_column,
    dictionaries_for,
    file_schema_of,
    key_footer,
    schema_footer,
    sequence_numbers,
)
from lakeindex.write.columns import are_same, leaves, replaced, without_unused
from lakeindex.write.file_parts import OldSlice, encoded_parts
from lakeindex.write.merging import Changes, NewSlice, merge_slice

_SMALL_PART: Final = 4
_ROWS_AT_ONCE: Final = 500_000


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How a file is rewritten.

    Attributes:
        table_name: for the Avro schema in the footer.
        schema: the table's columns.
        config: codec, row group size, filter.
        fixed: the table's columns that an update cannot change.
        new: what the new slice is called.
    """

    table_name: str
    schema: pa.Schema
    config: WriteConfig
    fixed: frozenset[str]
    new: NewSlice


def rewrite_slice(old: OldSlice, changes: Changes, rewrite: Rewrite) -> EncodedFile:
    """The new file.

    Args:
        old: the file that is replaced.
        changes: what to replace, drop and add.
        rewrite: how.

    Raises:
        InvariantError: the parts do not fit together.
    """
    work = _Work(old, changes, rewrite)
    plan = work.plan()
    carried = CarriedFooter(old.key_value, plain_strings(changes.inserts.column(STAGED_KEY)))
    entries = key_footer(work.keys, rewrite.config, carried)
    entries |= schema_footer(rewrite.schema, rewrite.table_name)
    shell = encoded_parts([], file_schema_of(rewrite.schema), rewrite.config, entries)
    groups = work.groups(plan, shell)
    copied = sum(c.source is old.parts for g in groups for c in g.chunks)
    encoded = sum(len(g.chunks) for g in groups) - copied
    return EncodedFile(splice(shell, groups), sum(g.rows for g in groups), copied, encoded)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A row group of the new file, or, if new rows are in it, a few.

    Attributes:
        sources: row groups of the old file that it is made of.
        rows: rows it will have.
        inserts: of them new ones: all of the batch, or none.
        updated: rows are updated.
        shrunk: rows go away.
    """

    sources: tuple[int, ...]
    rows: int
    inserts: int
    updated: bool
    shrunk: bool

    @property
    def is_recoded(self) -> bool:
        """Every column is encoded anew."""
        return self.shrunk or self.inserts > 0 or len(self.sources) > 1

    def joined(self, other: _Planned) -> _Planned:
        """Both as one."""
        return _Planned(
            self.sources + other.sources,
            self.rows + other.rows,
            self.inserts + other.inserts,
            self.updated or other.updated,
            self.shrunk or other.shrunk,
        )


class _Work:
    """One file's rewrite."""

    def __init__(self, old: OldSlice, changes: Changes, rewrite: Rewrite) -> None:
        self._old = old
        self._rewrite = rewrite
        order = np.argsort(changes.update_positions, kind="stable")
        self._changes = replace(
            changes,
            updates=changes.updates.take(pa.array(order)),
            update_positions=changes.update_positions[order],
            delete_positions=np.sort(changes.delete_positions),
        )
        starts = old.row_group_starts
        self._starts = starts
        self._updates_to = np.searchsorted(self._changes.update_positions, starts)
        self._deletes_to = np.searchsorted(self._changes.delete_positions, starts)

    def keys(self) -> pa.Array:
        """Record keys of the new file, in no certain order."""
        groups = range(len(self._old.parts.rows))
        stored = plain_strings(one_array(self._old.decode(groups, [RECORD_KEY]).column(0)))
        keep = np.ones(len(stored), np.bool_)
        keep[self._changes.delete_positions] = False
        added = plain_strings(self._changes.inserts.column(STAGED_KEY))
        return pa.concat_arrays([stored.filter(pa.array(keep)), added.cast(stored.type)])

    def plan(self) -> list[_Planned]:
        """The new file's row groups, in its order."""
        limit = self._rewrite.config.row_group_rows
        singles = [self._single(group, rows) for group, rows in enumerate(self._old.parts.rows)]
        added = len(self._changes.inserts)
        if added:
            singles.append(_Planned((), added, added, updated=False, shrunk=False))
        plan: list[_Planned] = []
        for one in singles:
            if not one.rows:
                continue
            is_small = bool(plan) and min(plan[-1].rows, one.rows) < limit / _SMALL_PART
            if is_small and plan[-1].rows + one.rows <= limit:
                plan[-1] = plan[-1].joined(one)
            else:
                plan.append(one)
        return plan

    def _single(self, group: int, rows: int) -> _Planned:
        updated = self._updates_to[group + 1] > self._updates_to[group]
        gone = int(self._deletes_to[group + 1] - self._deletes_to[group])
        return _Planned((group,), rows - gone, 0, bool(updated), gone > 0)

    def groups(self, plan: Sequence[_Planned], shell: ParquetParts) -> list[GroupOf]:
        """The new file's row groups, with their chunks."""
        first_rows = np.concatenate([[0], np.cumsum([p.rows for p in plan])]).astype(np.int64)
        patched = [n for n, p in enumerate(plan) if p.updated and not p.is_recoded]
        fresh: dict[int, dict[str, tuple[ParquetParts, int]]] = {}
        for some in groups_within(patched, lambda n: plan[n].rows, _ROWS_AT_ONCE):
            fresh |= self._patched([(n, plan[n].sources[0], int(first_rows[n])) for n in some])
        names = self._file_names([p.rows for n, p in enumerate(plan) if not p.is_recoded and n not in fresh])
        result: list[GroupOf] = []
        for number, planned in enumerate(plan):
            if planned.is_recoded:
                result += self._recoded(planned, int(first_rows[number]))
            else:
                columns = fresh.get(number) or {FILE_NAME: (names[planned.rows], 0)}
                result.append(self._mixed(planned.sources[0], columns, shell))
        return result

    def _mixed(self, group: int, fresh: Mapping[str, tuple[ParquetParts, int]], shell: ParquetParts) -> GroupOf:
        """An old row group in which some top-level columns are replaced."""
        chunks = []
        leaf = 0
        for field in file_schema_of(self._rewrite.schema):
            width = leaves(field.type)
            source, row_group = fresh.get(field.name, (self._old.parts, group))
            first = leaf if source is self._old.parts else source.columns.index(shell.columns[leaf])
            chunks += [ChunkOf(source, row_group, first + n) for n in range(width)]
            leaf += width
        return GroupOf(self._old.parts.rows[group], tuple(chunks))

    def _file_names(self, rows: Sequence[int]) -> dict[int, ParquetParts]:
        """Chunks of the file name, by the rows they are for."""
        schema = pa.schema([file_schema_of(self._rewrite.schema).field(FILE_NAME)])
        result = {}
        for count in set(rows):
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
        new, schema = self._rewrite.new, self._rewrite.schema
        sources = [group for _, group, _ in groups]
        sizes = [self._old.parts.rows[group] for group in sources]
        ends = np.cumsum([0, *sizes])
        spans = [(int(self._updates_to[g]), int(self._updates_to[g + 1])) for g in sources]
        inside = [
            self._changes.update_positions[a:b] - self._starts[g] for (a, b), g in zip(spans, sources, strict=True)
        ]
        places = np.concatenate([i + e for i, e in zip(inside, ends, strict=False)])
        numbers = np.concatenate([i + first for i, (_, _, first) in zip(inside, groups, strict=True)])
        updates = pa.concat_tables([self._changes.updates.slice(a, b - a) for a, b in spans])
        stamps = {
            COMMIT_TIME: pa.repeat(new.instant, len(places)),
            COMMIT_SEQNO: sequence_numbers(new.instant, new.task, numbers),
        }
        wanted = [COMMIT_TIME, COMMIT_SEQNO, *(n for n in schema.names if n not in self._rewrite.fixed)]
        texts = {COMMIT_TIME, *(f.name for f in schema if f.type == pa.string())}
        stored = self._old.decode(
            sources, wanted, [n for n in wanted if n in texts and self._old.has_dictionary(sources[0], n)]
        )
        columns = {FILE_NAME: constant_column(new.file_name, int(ends[-1]))}
        for name in wanted:
            column = one_array(stored.column(name))
            values = stamps[name] if name in stamps else one_array(updates.column(name))
            if not pa.types.is_dictionary(column.type):
                values = values.cast(column.type)
            if not are_same(column.take(pa.array(places)), values):
                columns[name] = replaced(column, places, values)
        file_schema = file_schema_of(schema)
        table = pa.table(columns)
        slices = [_lean(table.slice(int(start), size)) for start, size in zip(ends, sizes, strict=False)]
        fresh = pa.schema([file_schema.field(n) for n in columns])
        dictionaries = [n for n in columns if n == FILE_NAME or self._old.has_dictionary(sources[0], n)]
        parts = encoded_parts(slices, fresh, self._rewrite.config, dictionaries=dictionaries)
        return {number: dict.fromkeys(columns, (parts, n)) for n, (number, _, _) in enumerate(groups)}

    def _recoded(self, planned: _Planned, first_row: int) -> Iterator[GroupOf]:
        """Row groups that are encoded anew, all columns."""
        changes = self._changes_of(planned)
        stored = self._old.decode(planned.sources) if planned.sources else None
        new = replace(self._rewrite.new, first_row=first_row)
        rows = merge_slice(stored, changes, self._rewrite.schema, new)
        if rows.num_rows != planned.rows:
            raise InvariantError(
                f"row groups {planned.sources} came out with {rows.num_rows} rows instead of {planned.rows}",
                culprit=self._rewrite.new.file_name,
            )
        limit = max(self._rewrite.config.row_group_rows, planned.rows if not planned.inserts else 0)
        slices = [rows.slice(at, limit) for at in range(0, rows.num_rows, limit)]
        file_schema = file_schema_of(self._rewrite.schema)
        parts = encoded_parts(slices, file_schema, self._rewrite.config, dictionaries=dictionaries_for(slices[0]))
        for number, count in enumerate(parts.rows):
            yield GroupOf(count, tuple(ChunkOf(parts, number, c) for c in range(len(parts.columns))))

    def _changes_of(self, planned: _Planned) -> Changes:
        """What happens to the rows of a planned row group; positions count from its first old row."""
        at = 0
        updates, places, gone = [self._changes.updates.slice(0, 0)], [], []
        for group in planned.sources:
            a, b = self._updates_to[group], self._updates_to[group + 1]
            shift = at - self._starts[group]
            updates.append(self._changes.updates.slice(int(a), int(b - a)))
            places.append(self._changes.update_positions[a:b] + shift)
            gone.append(self._changes.delete_positions[self._deletes_to[group] : self._deletes_to[group + 1]] + shift)
            at += self._old.parts.rows[group]
        nothing = np.zeros(0, np.int64)
        inserts = self._changes.inserts
        return Changes(
            pa.concat_tables(updates),
            np.concatenate([nothing, *places]),
            np.concatenate([nothing, *gone]),
            inserts if planned.inserts else inserts.slice(0, 0),
        )


def _lean(rows: pa.Table) -> pa.Table:
    """The same rows; dictionaries hold only what they use, or they would grow from rewrite to rewrite."""
    columns = [one_array(column) for column in rows.columns]
    columns = [without_unused(c) if pa.types.is_dictionary(c.type) else c for c in columns]
    return pa.table(columns, names=rows.column_names)
