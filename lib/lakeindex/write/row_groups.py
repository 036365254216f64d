"""Make row groups of new base files: patched, where rows of an old one are updated, or recoded, all columns anew.

Many are made at once, of one file or of several: a call of Arrow's takes as long for three rows as for thousands. A
row group does not depend on those beside it, so a file has the same bytes in whatever company it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from lakeindex.errors import InvariantError
from lakeindex.hashing.arrow import one_array, without_dictionary
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.splice import GroupOf, ParquetParts
from lakeindex.write.base_file import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    PARTITION_PATH,
    constant_column,
    dictionaries_for,
    file_schema_of,
    schema_of_arrays,
    sequence_numbers,
)
from lakeindex.write.file_parts import OldSlice, decode_together, encoded_parts
from lakeindex.write.merge_rows import REPLACE, Changes, Merge, NewSlice, UpdateRule, merge_slices
from lakeindex.write.single_columns import changed, replaced, without_unused
from lakeindex.write.virtual_keys import VirtualKeys

DECODED_TIMES: Final = 3
"""What a file takes that is decoded with all its columns, as a multiple of one that is not.
Measured: docs/architecture.md, "Memory".
"""
ALL_IN_MEMORY: Final = float(DECODED_TIMES)
"""The ``part`` from which on any file is made at once, so that what is written does not depend on it."""

_PLACE: Final = (PARTITION_PATH, FILE_NAME)
"""Columns that say where a row is: one value for all of a file."""

Fresh: TypeAlias = dict[str, tuple[ParquetParts, int]]
"""Where the columns of a row group are that are not the old file's: the parts, and which of their row groups."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """How a file is rewritten.

    Attributes:
        table_name: for the Avro schema in the footer.
        fixed: the table's columns that an update cannot change.
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


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """A row group of which rows are updated.

    Attributes:
        rewrite: of its file; all that are made at once have one table and one commit.
        group: the row group of the old file.
        first_row: where it begins in the new one.
        places: rows that are updated, ascending, counted from its first: int64 [n], one at least.
        updates: for each its row of the batch.
    """

    rewrite: Rewrite
    old: OldSlice
    group: int
    first_row: int
    places: np.ndarray
    updates: pa.Table


@dataclass(frozen=True, slots=True, eq=False)
class Recode:
    """Row groups that are encoded anew, all columns.

    Attributes:
        new: the new file; its ``first_row`` is where they begin in it.
        old: an old file of ours and its row groups that are decoded, or rows of another; None if all rows are new.
        changes: what to replace, drop and add; positions count from the first old row.
        limit: most rows of a row group.
        count: rows that come out.
    """

    rewrite: Rewrite
    new: NewSlice
    old: tuple[OldSlice, tuple[int, ...]] | pa.Table | None
    changes: Changes
    limit: int
    count: int

    @property
    def thinned(self) -> tuple[OldSlice, int] | None:
        """The old row group of which rows go away, if nothing else happens; None otherwise."""
        if not isinstance(self.old, tuple) or len(self.old[1]) != 1 or not self.rewrite.stamps_rows:
            return None
        is_more = len(self.changes.updates) or len(self.changes.inserts)
        return None if is_more else (self.old[0], self.old[1][0])

    @property
    def stored(self) -> int:
        """Rows of the old file that it begins with."""
        if isinstance(self.old, tuple):
            return sum(self.old[0].parts.rows[group] for group in self.old[1])
        return 0 if self.old is None else int(self.old.num_rows)


def patched(patches: Sequence[Patch]) -> list[Fresh]:
    """Columns that change, for each of these row groups; the file's name is among them."""
    alike: dict[tuple[tuple[str, ...], frozenset[str]], list[int]] = {}
    for number, one in enumerate(patches):
        wanted = (*((COMMIT_TIME, COMMIT_SEQNO) if one.rewrite.stamps_rows else ()), *one.rewrite.may_change)
        coded = frozenset(name for name in wanted if _stays_coded(one, name))
        alike.setdefault((wanted, coded), []).append(number)
    found: list[Fresh] = [{} for _ in patches]
    for (wanted, coded), numbers in alike.items():
        some = [patches[number] for number in numbers]
        for number, fresh in zip(numbers, _patched_alike(some, wanted, coded), strict=True):
            found[number] = fresh
    return found


def _stays_coded(patch: Patch, name: str) -> bool:
    """Whether a text column is patched in its dictionary."""
    schema = patch.rewrite.schema
    place = schema.get_field_index(name)
    is_text = name == COMMIT_TIME or (place >= 0 and schema.field(place).type == pa.string())
    return is_text and patch.old.has_dictionary(patch.group, name)


def _patched_alike(patches: Sequence[Patch], wanted: Sequence[str], coded: frozenset[str]) -> list[Fresh]:
    """The same, of row groups in which the same columns may change and stand in dictionaries."""
    rewrite = patches[0].rewrite
    sizes = [one.old.parts.rows[one.group] for one in patches]
    counts = [len(one.places) for one in patches]
    ends, firsts = np.cumsum([0, *sizes]), np.cumsum([0, *counts])
    places = np.concatenate([one.places + end for one, end in zip(patches, ends, strict=False)])
    updates = pa.concat_tables([one.updates for one in patches], promote_options="default")
    stored = decode_together([(one.old, (one.group,)) for one in patches], wanted, sorted(coded))
    if rewrite.rule.function is not None:
        before = stored.take(pa.array(places))
        updates = rewrite.rule.updated(before, updates, rewrite.schema, rewrite.new.file_name)
    stamps = _stamps(patches, counts) if rewrite.stamps_rows else {}
    columns: list[dict[str, pa.Array]] = [
        {FILE_NAME: constant_column(one.rewrite.new.file_name, size)} if one.rewrite.stamps_rows else {}
        for one, size in zip(patches, sizes, strict=True)
    ]
    for name in wanted:
        values = stamps[name] if name in stamps else one_array(updates.column(name))
        if name in coded:  # the entries of a dictionary are those of its row group
            for number, one in enumerate(patches):
                column = one_array(stored.column(name).slice(ends[number], sizes[number]))
                mine = values.slice(firsts[number], counts[number])
                new, is_new = _replaced(rewrite, name, column, one.places, mine)
                if is_new.any():
                    columns[number][name] = without_unused(new)
            continue
        new, is_new = _replaced(rewrite, name, one_array(stored.column(name)), places, values)
        for number in np.flatnonzero(np.logical_or.reduceat(is_new, firsts[:-1])).tolist():
            columns[number][name] = new.slice(ends[number], sizes[number])
    return _encoded_alike(rewrite, columns, {FILE_NAME, *coded})


def _stamps(patches: Sequence[Patch], counts: Sequence[int]) -> dict[str, pa.Array]:
    rows = np.concatenate([one.places + one.first_row for one in patches])
    tasks = np.repeat([one.rewrite.new.task for one in patches], counts)
    instant = patches[0].rewrite.new.instant
    return {COMMIT_TIME: pa.repeat(instant, len(rows)), COMMIT_SEQNO: sequence_numbers(instant, tasks, rows)}


def _replaced(
    rewrite: Rewrite, name: str, column: pa.Array, places: np.ndarray, values: pa.Array
) -> tuple[pa.Array, np.ndarray]:
    """A column with the values of updated rows; and which of these are others than before."""
    is_whole, rule = len(places) == len(column), rewrite.rule
    before = column if is_whole else column.take(pa.array(places))
    if name in rule.filled and rule.function is None:
        kind = rewrite.schema.field(name).type
        values = rule.value(name, without_dictionary(before).cast(kind), values.cast(kind))
    if not pa.types.is_dictionary(column.type):
        values = values.cast(column.type)
    is_new = changed(before, values)
    if not is_new.any():
        return column, is_new
    is_plain = is_whole and not pa.types.is_dictionary(column.type)
    return (values if is_plain else replaced(column, places, values)), is_new


def _encoded_alike(
    rewrite: Rewrite, columns: Sequence[Mapping[str, pa.Array]], dictionaries: Iterable[str]
) -> list[Fresh]:
    """Encode these columns, a row group each; row groups with the same columns go into one file."""
    alike: dict[tuple[str, ...], list[int]] = {}
    for number, mine in enumerate(columns):
        alike.setdefault(tuple(mine), []).append(number)
    found: list[Fresh] = [{} for _ in columns]
    for names, numbers in alike.items():
        if not names:  # every value is what is stored
            continue
        tables = [pa.table(dict(columns[number])) for number in numbers]
        schema = pa.schema([file_schema_of(rewrite.schema).field(name) for name in names])
        parts = encoded_parts(tables, schema, rewrite.config, dictionaries=[n for n in names if n in dictionaries])
        for place, number in enumerate(numbers):
            found[number] = dict.fromkeys(names, (parts, place))
    return found


def recoded(recodes: Sequence[Recode]) -> list[list[GroupOf]]:
    """The row groups of each of these. Raises: InvariantError: other rows came out than were planned."""
    found: list[list[GroupOf]] = [[] for _ in recodes]
    thinned = {number: (*old, one) for number, one in enumerate(recodes) if (old := one.thinned) is not None}
    for number, group in zip(thinned, _thinned(list(thinned.values())), strict=True):
        found[number] = [group]
    ours = [number for number, one in enumerate(recodes) if isinstance(one.old, tuple) and number not in thinned]
    new = [number for number, one in enumerate(recodes) if one.old is None]
    others = [[number] for number, one in enumerate(recodes) if isinstance(one.old, pa.Table)]
    for numbers in filter(None, (ours, new, *others)):
        some = [recodes[number] for number in numbers]
        for number, groups in zip(numbers, _recoded_alike(some), strict=True):
            found[number] = groups
    return found


def _thinned(thinned: Sequence[tuple[OldSlice, int, Recode]]) -> list[GroupOf]:
    """Row groups of ours without the rows that go away. A column stands in a dictionary if it did."""
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for number, (old, group, one) in enumerate(thinned):
        schema = file_schema_of(one.rewrite.schema)
        coded = tuple(name for name in schema.names if name not in _PLACE and old.has_dictionary(group, name))
        texts = tuple(name for name in coded if schema.field(name).type == pa.string())
        alike.setdefault((coded, texts), []).append(number)
    found: dict[int, GroupOf] = {}
    for (coded, texts), numbers in alike.items():
        parts = _thinned_alike([thinned[number] for number in numbers], coded, texts)
        found |= zip(numbers, parts.groups(), strict=True)
    return [found[number] for number in range(len(thinned))]


def _thinned_alike(
    thinned: Sequence[tuple[OldSlice, int, Recode]], coded: Sequence[str], texts: Sequence[str]
) -> ParquetParts:
    """The same, of those that have the same columns in dictionaries, and the same texts among them."""
    rewrite = thinned[0][2].rewrite
    schema = file_schema_of(rewrite.schema)
    stored = decode_together(
        [(old, (group,)) for old, group, _ in thinned], [name for name in schema.names if name not in _PLACE], texts
    )
    firsts = np.cumsum([0, *(one.stored for *_, one in thinned)], dtype=np.int64)
    keep = np.ones(stored.num_rows, np.bool_)
    keep[
        np.concatenate([one.changes.delete_positions + at for at, (*_, one) in zip(firsts, thinned, strict=False)])
    ] = False
    rows = stored.filter(pa.array(keep))
    ends = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])[firsts].tolist()
    tables = []
    for (*_, one), at, end in zip(thinned, ends, ends[1:], strict=False):
        _check_count(one, end - at)
        columns = {name: rows.column(name).slice(at, end - at) for name in rows.column_names}
        columns |= {name: without_unused(one_array(columns[name])) for name in texts}
        columns[PARTITION_PATH] = constant_column(one.new.partition_path, end - at)
        columns[FILE_NAME] = constant_column(one.new.file_name, end - at)
        made = pa.table([columns[name] for name in schema.names], names=schema.names)
        tables.append(made.cast(schema_of_arrays(made, schema)))
    return encoded_parts(tables, tables[0].schema, rewrite.config, dictionaries=[*coded, *_PLACE])


def _check_count(one: Recode, rows: int) -> None:
    if rows != one.count:
        raise InvariantError(
            f"row groups of {one.new.file_name} came out with {rows} rows instead of {one.count}",
            culprit=one.new.file_name,
        )


def _recoded_alike(recodes: Sequence[Recode]) -> list[list[GroupOf]]:
    """The same, of files that all are ours, or all new; or of one."""
    rewrite = recodes[0].rewrite
    ours = [one.old for one in recodes if isinstance(one.old, tuple)]
    others = [one.old for one in recodes if isinstance(one.old, pa.Table)]
    old = decode_together(ours) if ours else next(iter(others), None)
    merges = [Merge(one.stored, one.changes, one.new) for one in recodes]
    tables = merge_slices(old, merges, rewrite.schema, rewrite.rule, rewrite.virtual)
    alike: dict[tuple[pa.Schema, tuple[str, ...]], list[tuple[int, pa.Table]]] = {}
    for number, (one, rows) in enumerate(zip(recodes, tables, strict=True)):
        _check_count(one, rows.num_rows)
        fitted = rows.cast(schema_of_arrays(rows, file_schema_of(rewrite.schema)))
        alike.setdefault((fitted.schema, tuple(dictionaries_for(rows))), []).extend(
            (number, fitted.slice(at, one.limit)) for at in range(0, rows.num_rows, one.limit)
        )
    found: list[list[GroupOf]] = [[] for _ in recodes]
    for (schema, dictionaries), slices in alike.items():
        parts = encoded_parts([rows for _, rows in slices], schema, rewrite.config, dictionaries=dictionaries)
        for (number, _), group in zip(slices, parts.groups(), strict=True):
            found[number].append(group)
    return found
