"""Make row groups of new base files: patched, where rows of an old one are updated, or recoded, all columns anew.

Many are made at once, of one file or of several: a call of Arrow's takes as long for three rows as for thousands. A
row group does not depend on those beside it, so a file has the same bytes in whatever company it is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from lakeindex.errors import InvariantError
from lakeindex.frozen import Frozen
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


class Rewrite(Frozen):
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


class Patch(Frozen, eq=False):
    """A row group of which rows are updated, or go away.

    Attributes:
        rewrite: of its file; all that are made at once have one table and one commit.
        group: the row group of the old file.
        first_row: where it begins in the new one.
        places: rows that are updated, ascending, counted from its first: int64 [n].
        updates: for each its row of the batch.
        gone: rows that go away, ascending: int64 [n]; none of them is updated.
    """

    rewrite: Rewrite
    old: OldSlice
    group: int
    first_row: int
    places: np.ndarray
    updates: pa.Table
    gone: np.ndarray

    @property
    def stored(self) -> int:
        """Its rows in the old file."""
        return self.old.parts.rows[self.group]

    @property
    def decoded(self) -> tuple[str, ...]:
        """Columns that may come out as others: those that an update changes; all, if rows go away."""
        stamps_rows = self.rewrite.stamps_rows
        if not len(self.gone):
            return (*((COMMIT_TIME, COMMIT_SEQNO) if stamps_rows else ()), *self.rewrite.may_change)
        names = file_schema_of(self.rewrite.schema).names
        return tuple(name for name in names if not (stamps_rows and name in _PLACE))

    @property
    def coded(self) -> frozenset[str]:
        """Of these columns those that stand in dictionaries."""
        return frozenset(name for name in self.decoded if self.old.has_dictionary(self.group, name))


class Recode(Frozen, eq=False):
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
    def stored(self) -> int:
        """Rows of the old file that it begins with."""
        if isinstance(self.old, tuple):
            return sum(self.old[0].parts.rows[group] for group in self.old[1])
        return 0 if self.old is None else int(self.old.num_rows)


def patched(patches: Sequence[Patch]) -> list[Fresh]:
    """Columns that change, for each of these row groups, and all if rows go away; the file's name is among them. A
    column stands in a dictionary if it did.
    """
    if not patches:
        return []
    schema = file_schema_of(patches[0].rewrite.schema)
    strings = frozenset(field.name for field in schema if field.type == pa.string())
    coded = [one.coded for one in patches]
    alike: dict[tuple[tuple[str, ...], frozenset[str]], list[int]] = {}
    for number, one in enumerate(patches):
        alike.setdefault((one.decoded, coded[number] & strings), []).append(number)
    found: list[Fresh] = [{} for _ in patches]
    for (decoded, texts), numbers in alike.items():
        made = _patched_alike([patches[n] for n in numbers], decoded, texts, [coded[n] for n in numbers])
        for number, fresh in zip(numbers, made, strict=True):
            found[number] = fresh
    return found


def _patched_alike(
    patches: Sequence[Patch], decoded: Sequence[str], texts: frozenset[str], coded: Sequence[frozenset[str]]
) -> list[Fresh]:
    """The same, of row groups of which the same columns are decoded, and the same texts stand in dictionaries."""
    rewrite = patches[0].rewrite
    sizes = [one.stored for one in patches]
    counts = [len(one.places) for one in patches]
    ends, firsts = np.cumsum([0, *sizes]), np.cumsum([0, *counts])
    places = np.concatenate([one.places + end for one, end in zip(patches, ends, strict=False)])
    gone = np.concatenate([one.gone + end for one, end in zip(patches, ends, strict=False)])
    updates = pa.concat_tables([one.updates for one in patches], promote_options="default")
    stored = decode_together([(one.old, (one.group,)) for one in patches], decoded, sorted(texts))
    if rewrite.rule.function is not None and len(places):
        before = stored.take(pa.array(places))
        updates = rewrite.rule.updated(before, updates, rewrite.schema, rewrite.new.file_name)
    stamps = _stamps(patches, counts) if rewrite.stamps_rows else {}
    changing = frozenset((*stamps, *rewrite.may_change)) if len(places) else frozenset()
    keep = np.ones(stored.num_rows, np.bool_)
    keep[gone] = False
    kept = np.concatenate([[0], np.cumsum(keep)])[ends]
    spans = list(zip(kept.tolist(), np.diff(kept).tolist(), strict=False))
    columns = [_placed(one, rows) for one, (_, rows) in zip(patches, spans, strict=True)]
    owners = np.repeat(np.arange(len(patches)), counts)
    for name in decoded:
        column, is_new = stored.column(name), np.zeros(len(places), np.bool_)
        if name in changing:
            values = stamps[name] if name in stamps else one_array(updates.column(name))
            if name in texts:  # the entries of a dictionary are those of its row group
                parts = zip(ends, sizes, firsts, counts, patches, strict=False)
                made = [
                    _replaced(rewrite, name, one_array(column.slice(end, size)), one.places, values.slice(at, count))
                    for end, size, at, count, one in parts
                ]
                column = pa.chunked_array([new for new, _ in made])
                is_new = np.concatenate([some for _, some in made])
            else:
                column, is_new = _replaced(rewrite, name, one_array(column), places, values)
        if len(gone):
            column = column.filter(pa.array(keep))
        for number in range(len(patches)) if len(gone) else np.unique(owners[is_new]).tolist():
            mine = column.slice(*spans[number])
            columns[number][name] = without_unused(one_array(mine)) if name in texts else mine
    return _encoded_alike(rewrite, columns, [frozenset((*_PLACE, *some)) for some in coded])


def _placed(patch: Patch, rows: int) -> dict[str, pa.Array]:
    """Columns that say where its rows are; the partition is what it was if no row goes away."""
    if not patch.rewrite.stamps_rows:
        return {}
    named = {FILE_NAME: constant_column(patch.rewrite.new.file_name, rows)}
    place = {PARTITION_PATH: constant_column(patch.rewrite.new.partition_path, rows)} if len(patch.gone) else {}
    return {**place, **named}


def _stamps(patches: Sequence[Patch], counts: Sequence[int]) -> dict[str, pa.Array]:
    rows = np.concatenate([one.first_row + one.places - np.searchsorted(one.gone, one.places) for one in patches])
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
    rewrite: Rewrite, columns: Sequence[Mapping[str, pa.Array]], coded: Sequence[frozenset[str]]
) -> list[Fresh]:
    """Encode these columns, a row group each; row groups with the same columns, and the same of them in dictionaries,
    go into one file.
    """
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for number, (mine, some) in enumerate(zip(columns, coded, strict=True)):
        alike.setdefault((tuple(mine), tuple(name for name in mine if name in some)), []).append(number)
    found: list[Fresh] = [{} for _ in columns]
    for (names, dictionaries), numbers in alike.items():
        if not names:  # every value is what is stored
            continue
        tables = [pa.table(dict(columns[number])) for number in numbers]
        schema = pa.schema([file_schema_of(rewrite.schema).field(name) for name in names])
        parts = encoded_parts(tables, schema, rewrite.config, dictionaries=dictionaries)
        for place, number in enumerate(numbers):
            found[number] = dict.fromkeys(names, (parts, place))
    return found


def recoded(recodes: Sequence[Recode]) -> list[list[GroupOf]]:
    """The row groups of each of these. Raises: InvariantError: other rows came out than were planned."""
    found: list[list[GroupOf]] = [[] for _ in recodes]
    ours = [number for number, one in enumerate(recodes) if isinstance(one.old, tuple)]
    new = [number for number, one in enumerate(recodes) if one.old is None]
    others = [[number] for number, one in enumerate(recodes) if isinstance(one.old, pa.Table)]
    for numbers in filter(None, (ours, new, *others)):
        some = [recodes[number] for number in numbers]
        for number, groups in zip(numbers, _recoded_alike(some), strict=True):
            found[number] = groups
    return found


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
