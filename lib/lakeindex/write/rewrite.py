"""Make base files: of new rows, or from an old one by decoding only what a batch changes; the rest is copied as bytes.

A row group is *copied* if no row of it changes. If rows of it are only updated it is *patched*: columns whose values
cannot change (:func:`fixed_columns`) or did not change are copied, the others encoded anew. If rows of
it are deleted it is *recoded*, all columns. New rows go to row groups of their own, behind the others. A row group that
has become small is joined with its neighbour, so they stay few. ``_hoodie_file_name`` names the new file in every row:
its chunks are always written anew, without reading the old ones.

A file is made while it is written, some row groups at a time, as many as there is memory for. A file of another writer,
of which nothing can be copied, is merged with its changes in windows of that many rows; each is sorted by key, so all
of it is if it fits into one.
"""

from __future__ import annotations

import heapq
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from math import ceil
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeindex.bloom import marks
from lakeindex.errors import InvariantError
from lakeindex.format.partitions import DEFAULT_PARTITION
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array, plain_strings
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.splice import ChunkOf, GroupOf, ParquetParts, splice
from lakeindex.pipeline import STAGED_KEY
from lakeindex.threads import cores_at_hand, in_cores
from lakeindex.write.base_file import FILE_NAME, EncodedFile, file_schema_of, schema_footer
from lakeindex.write.bounded_groups import groups_within
from lakeindex.write.file_parts import ForeignSlice, OldSlice, encoded_file_names, encoded_parts
from lakeindex.write.keys.key_generators import KeySpec, PartitionKind
from lakeindex.write.merge_rows import Changes, NewSlice
from lakeindex.write.row_groups import DECODED_TIMES, Fresh, Patch, Recode, Rewrite, patched, recoded
from lakeindex.write.single_columns import leaves

_SMALL_PART: Final = 4
_ROWS_AT_ONCE: Final = 200_000
_BYTES_AT_ONCE: Final = 256 * 1024 * 1024
"""Of stored rows, before compression. Arrow's texts have offsets of 32 bits: a column of 2 GiB cannot be joined."""


class NewFile:
    """A base file that is made while its pieces are taken, which can be done once.

    Raises:
        InvariantError: while it is made: the parts do not fit together.
    """

    def __init__(self, old: OldSlice | ForeignSlice | None, changes: Changes, rewrite: Rewrite) -> None:
        self._make(work := _Work(old, changes, rewrite), sum(planned.rows for planned in work.plan))

    def _make(self, work: _Work | _Made, rows: int) -> None:
        self.work, self.rows = work, rows
        self._encoded: EncodedFile | None = None

    @classmethod
    def of_groups(cls, rewrite: Rewrite, groups: Sequence[GroupOf], entries: Mapping[str, str]) -> NewFile:
        """A file of row groups that are made, all rows new; ``entries`` are its footer's about their keys."""
        new = cls.__new__(cls)
        new._make(_Made(rewrite, groups, entries), sum(group.rows for group in groups))
        return new

    @property
    def encoded(self) -> EncodedFile:
        """What was made, when it was. Raises: InvariantError: not all pieces were taken."""
        if self._encoded is None:
            raise InvariantError("a base file was used before it was whole", culprit=self.work.new.file_name)
        return self._encoded

    def __iter__(self) -> Iterator[bytes | memoryview]:
        size = copied = copied_bytes = chunks = 0
        rows: list[int] = []

        def counted(groups: Iterable[GroupOf]) -> Iterator[GroupOf]:
            nonlocal copied, copied_bytes, chunks
            for group in groups:
                sizes = [chunk.text.size for chunk in group.chunks if self.work.is_copied(chunk)]
                copied, copied_bytes = copied + len(sizes), copied_bytes + sum(sizes)
                chunks += len(group.chunks)
                rows.append(group.rows)
                yield group

        shell, entries = self.work.shell(), self.work.key_entries()
        piece: bytes | memoryview = b""
        for piece in splice(shell, counted(self.work.groups(shell)), entries):
            size += len(piece)
            yield piece
        self._encoded = EncodedFile(size, bytes(piece), copied, chunks - copied, copied_bytes, tuple(rows), entries)


def make_together(files: Iterable[NewFile]) -> None:
    """Encode at once what changes in several new files that are small; each has the bytes that it has alone.

    What cannot be read is left to the making of each file, which says whose it is.
    """
    works = [file.work for file in files if isinstance(file.work, _Work) and file.work.joins_others]
    patches = [(work, number, patch) for work in works for number, patch in work.patches()]
    recodes = [(work, number, recode) for work in works for number, recode in work.recodes()]
    try:
        fresh, groups = patched([patch for *_, patch in patches]), recoded([recode for *_, recode in recodes])
    except (pa.ArrowException, OSError):
        return
    for (work, number, _), made in zip(patches, fresh, strict=True):
        work.fresh[number] = made
    for (work, number, _), some in zip(recodes, groups, strict=True):
        work.encoded[number] = some


class _Made(Frozen):
    """One file whose row groups are made."""

    rewrite: Rewrite
    made: Sequence[GroupOf]
    entries: Mapping[str, str]

    @property
    def new(self) -> NewSlice:
        return self.rewrite.new

    def is_copied(self, chunk: ChunkOf) -> bool:  # noqa: ARG002 - as of the others
        return False

    def shell(self) -> ParquetParts:
        return _shell(self.rewrite.schema, self.rewrite.table_name, self.rewrite.config)

    def key_entries(self) -> Mapping[str, str]:
        return self.entries

    def groups(self, shell: ParquetParts) -> Iterator[GroupOf]:  # noqa: ARG002 - as of the others
        yield from self.made


class _Planned(Frozen):
    """A row group of the new file, or a few that are made together.

    Attributes:
        sources: row groups (windows, if it cannot be copied) of the old file that it is made of.
        rows: rows it will have.
        inserts: of them new ones.
        changed: rows are updated or go away.
        foreign: the old file cannot be copied.
    """

    sources: tuple[int, ...]
    rows: int
    inserts: int
    changed: bool
    foreign: bool

    @property
    def is_recoded(self) -> bool:
        return self.foreign or self.inserts > 0 or len(self.sources) > 1

    def joined(self, other: _Planned) -> _Planned:
        return _Planned(
            self.sources + other.sources,
            self.rows + other.rows,
            self.inserts + other.inserts,
            self.changed or other.changed,
            self.foreign or other.foreign,
        )


class _Work:
    """One file's making."""

    def __init__(self, old: OldSlice | ForeignSlice | None, changes: Changes, rewrite: Rewrite) -> None:
        self._old = old
        self._rewrite = rewrite
        self.new = rewrite.new
        self._changes = changes.in_file_order()
        stored = 0 if old is None else old.rows
        limit = rewrite.config.row_group_rows
        rows = stored + len(changes.inserts)
        decodes_all = isinstance(old, ForeignSlice) or rewrite.rule.function is not None
        part = rewrite.part / DECODED_TIMES if decodes_all else rewrite.part
        self._at_once = max(rows, 1) if old is None else max(_BYTES_AT_ONCE // old.row_bytes // limit, 1) * limit
        self._is_whole = part >= 1 and (not isinstance(old, ForeignSlice) or old.rows <= self._at_once)
        self._most = max(rows, 1) if part >= 1 else max(int(rows * part) // limit, 1) * limit
        if isinstance(old, ForeignSlice):
            self._most = min(self._most, self._at_once)
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
        self.plan = self._planned()
        self._first_rows = np.cumsum([0, *(one.rows for one in self.plan)], dtype=np.int64).tolist()
        self._first_inserts = np.cumsum([0, *(one.inserts for one in self.plan)], dtype=np.int64).tolist()
        self.fresh: dict[int, Fresh] = {}
        self.encoded: dict[int, list[GroupOf]] = {}

    @property
    def joins_others(self) -> bool:
        """Whether it may be made with other files: it is of ours, and read and made as a whole."""
        return self._is_whole and not isinstance(self._old, ForeignSlice) and self._rewrite.rule.function is None

    def is_copied(self, chunk: ChunkOf) -> bool:
        """Whether a chunk is the old file's."""
        return isinstance(self._old, OldSlice) and chunk.source is self._old.parts

    def shell(self) -> ParquetParts:
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

    def _planned(self) -> list[_Planned]:
        """The new file's row groups, in its order."""
        limit = self._rewrite.config.row_group_rows
        singles = [self._single(unit, rows) for unit, rows in enumerate(self._units)]
        added = len(self._changes.inserts)
        for at in range(0, added, self._most):
            rows = min(self._most, added - at)
            singles.append(_Planned((), rows, rows, changed=False, foreign=False))
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
        updated = int(self._updates_to[unit + 1] - self._updates_to[unit])
        gone = int(self._deletes_to[unit + 1] - self._deletes_to[unit])
        return _Planned((unit,), rows - gone, 0, updated + gone > 0, isinstance(self._old, ForeignSlice))

    def groups(self, shell: ParquetParts) -> Iterator[GroupOf]:
        """The new file's row groups, with their chunks; each is made when it is asked for, or with one before it."""
        copied = {one.rows for one in self.plan if not (one.changed or one.is_recoded)}
        rewrite, sizes = self._rewrite, copied if self._rewrite.stamps_rows else ()
        names = encoded_file_names(rewrite.new.file_name, sizes, rewrite.schema, rewrite.config)
        making = in_cores(operator.call, self._makings())
        for number, planned in enumerate(self.plan):
            made = self.encoded if planned.is_recoded else self.fresh
            while (planned.is_recoded or planned.changed) and number not in made:
                next(making)
            if planned.is_recoded:
                yield from self.encoded.pop(number)
                continue
            named = {FILE_NAME: (names[planned.rows], 0)} if planned.rows in names else {}
            columns = self.fresh.pop(number) if planned.changed else named
            yield self._mixed(planned, columns, shell)

    def _makings(self) -> Iterator[Callable[[], None]]:
        """What makes the row groups that are neither copied nor made by :func:`make_together`, in their order."""
        waiting = [number for number in self._patched if number not in self.fresh]
        rows = sum(self.plan[number].rows for number in waiting)
        most = min(_ROWS_AT_ONCE, self._most, self._at_once, max(ceil(rows / cores_at_hand()), 1))
        together = groups_within(waiting, lambda number: self.plan[number].rows, most)
        alone = ([n] for n, one in enumerate(self.plan) if one.is_recoded and n not in self.encoded)
        for numbers in heapq.merge(together, alone):
            if self.plan[numbers[0]].is_recoded:
                yield partial(self._make_recoded, numbers[0], self._recode(numbers[0]))
            else:
                yield partial(self._make_patched, numbers, [self._patch(number) for number in numbers])

    @property
    def _patched(self) -> list[int]:
        return [number for number, one in enumerate(self.plan) if one.changed and not one.is_recoded]

    def _make_patched(self, numbers: Sequence[int], patches: Sequence[Patch]) -> None:
        self.fresh |= zip(numbers, patched(patches), strict=True)

    def _make_recoded(self, number: int, recode: Recode) -> None:
        (self.encoded[number],) = recoded([recode])

    def patches(self) -> list[tuple[int, Patch]]:
        return [(number, self._patch(number)) for number in self._patched]

    def recodes(self) -> list[tuple[int, Recode]]:
        return [(number, self._recode(number)) for number, one in enumerate(self.plan) if one.is_recoded]

    def _patch(self, number: int) -> Patch:
        (group,) = self.plan[number].sources
        a, b = self._updates_to[group], self._updates_to[group + 1]
        places = self._changes.update_positions[a:b] - self._starts[group]
        updates = self._changes.updates.slice(int(a), int(b - a))
        c, d = self._deletes_to[group], self._deletes_to[group + 1]
        gone = self._changes.delete_positions[c:d] - self._starts[group]
        return Patch(self._rewrite, self._ours, group, self._first_rows[number], places, updates, gone)

    def _recode(self, number: int) -> Recode:
        planned, config = self.plan[number], self._rewrite.config
        is_ours = isinstance(self._old, OldSlice)
        limit = planned.rows if is_ours and not planned.inserts else config.row_group_rows
        new = replace(self.new, first_row=self._first_rows[number])
        old = None
        if planned.sources:
            old = (self._ours, planned.sources) if is_ours else self._window(planned.sources)
        return Recode(self._rewrite, new, old, self._changes_of(number), limit, planned.rows)

    @property
    def _ours(self) -> OldSlice:
        if not isinstance(self._old, OldSlice):
            raise InvariantError("chunks of a file that cannot be copied", culprit=self.new.file_name)
        return self._old

    def _window(self, sources: Sequence[int]) -> pa.Table:
        """Rows of these windows of a foreign file; they come in their order."""
        found = []
        for number, rows in self._windows:
            if number in sources:
                found.append(rows)
            if number == sources[-1]:
                break
        return pa.concat_tables(found)

    def _mixed(self, planned: _Planned, fresh: Fresh, shell: ParquetParts) -> GroupOf:
        """An old row group in which some top-level columns are replaced."""
        old, (group,) = self._ours.parts, planned.sources
        chunks = []
        leaf = 0
        for field in file_schema_of(self._rewrite.schema):
            width = leaves(field.type)
            source, row_group = fresh.get(field.name, (old, group))
            first = leaf if source is old else source.columns.index(shell.columns[leaf])
            take = self._ours.chunk if source is old else source.chunk
            chunks += [take(row_group, first + n) for n in range(width)]
            leaf += width
        return GroupOf(planned.rows, tuple(chunks))

    def _changes_of(self, number: int) -> Changes:
        """What happens to the rows of a planned row group; positions count from its first old row."""
        at = 0
        planned = self.plan[number]
        spans, places, gone = [(0, 0)], [], []
        for unit in planned.sources:
            a, b = self._updates_to[unit], self._updates_to[unit + 1]
            shift = at - self._starts[unit]
            spans[-1:] = [(spans[-1][0], int(b))] if spans[-1][1] == a else [spans[-1], (int(a), int(b))]
            places.append(self._changes.update_positions[a:b] + shift)
            gone.append(self._changes.delete_positions[self._deletes_to[unit] : self._deletes_to[unit + 1]] + shift)
            at += self._units[unit]
        nothing = np.zeros(0, np.int64)
        return Changes(
            pa.concat_tables([self._changes.updates.slice(start, stop - start) for start, stop in spans]),
            np.concatenate([nothing, *places]),
            np.concatenate([nothing, *gone]),
            self._changes.inserts.slice(self._first_inserts[number], planned.inserts),
        )


@lru_cache(maxsize=64)
def _shell(schema: pa.Schema, table_name: str, config: WriteConfig) -> ParquetParts:
    """A base file without rows, of which no key is said."""
    return encoded_parts([], file_schema_of(schema), config, schema_footer(schema, table_name))


def fixed_columns(spec: KeySpec, schema: pa.Schema, partition_path: str | None) -> frozenset[str]:
    """Columns of which an updated row has the stored row's value, whatever the batch.

    The stored row has the same record key and, where paths are believed, the same partition path. A field's
    value follows from that where its text is its value (texts and whole numbers) and where it can be told from
    the texts beside it: several texts joined with commas can be cut in more than one way, a null and the text
    that stands for it are one.

    Args:
        partition_path: the file's; None if it does not say the columns of its rows: a global index that moves no rows
            keeps them where they are, with the partition columns of the incoming row.

    Returns:
        Names of top-level columns.
    """
    of_partition = () if partition_path is None else _of_partition(spec, schema, partition_path)
    return frozenset(_of_record_key(spec, schema)) | frozenset(of_partition)


def _of_record_key(spec: KeySpec, schema: pa.Schema) -> tuple[str, ...]:
    fields = spec.record_key_fields
    if not all(name in schema.names for name in fields):
        return ()
    kinds = [schema.field(name).type for name in fields]
    if len(fields) == 1:  # null and empty are refused: there is no text that stands for them
        return fields if pa.types.is_integer(kinds[0]) or _is_text(kinds[0]) else ()
    return fields if all(map(pa.types.is_integer, kinds)) else ()


def _of_partition(spec: KeySpec, schema: pa.Schema, partition_path: str) -> tuple[str, ...]:
    fields = [name for name, _ in spec.partition_fields]
    if any(kind is not PartitionKind.SIMPLE for _, kind in spec.partition_fields):
        return ()
    if DEFAULT_PARTITION in partition_path or partition_path.count("/") != len(fields) - 1:
        return ()
    kinds = [schema.field(name).type if name in schema.names else None for name in fields]
    fits = all(kind is not None and (pa.types.is_integer(kind) or _is_text(kind)) for kind in kinds)
    return tuple(fields) if fits else ()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
