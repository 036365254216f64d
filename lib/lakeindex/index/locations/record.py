"""RECORD_INDEX and RECORD_LEVEL_INDEX: key -> partition and file group, in sorted Parquet shards inside the table and
the deltas of the change log beside them, or in Hudi's metadata table where that has them.

Nothing but the log says what counts: a delta is in force once its instant is completed, so the index and the commit
become visible in the same moment, and there is nothing to prepare, to apply or to undo. A look-up reads, of the base
and of each delta, the shards its keys are in; the newest entry counts, but not one of a file group that a later delta
has read anew or dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeindex.errors import ObjectNotFoundError, UsageError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import StringArray, plain_strings
from lakeindex.hashing.java_strings import string_hashes
from lakeindex.index.advice import STORED
from lakeindex.index.locations.change_log import Delta, delta_of, instant_of, missing, new_generation, number_of
from lakeindex.index.locations.record_options import RecordOptions
from lakeindex.index.locations.record_shards import (
    ENTRY_COLUMNS,
    ENTRY_SCHEMA,
    SHARD_SCHEMA,
    Asked,
    Numbers,
    Ranking,
    RowGroups,
    ShardBuilder,
    Shards,
    asked_by_shard,
    entries_that_count,
    load_shards,
    merged,
    newest,
    scope_of,
    shard_count,
    split,
    write_shard,
)
from lakeindex.index.locations.store_context import StoreContext
from lakeindex.index.locations.stored_index import Found, StoredIndex
from lakeindex.model import Group, IndexSpec
from lakeindex.options.types import WriteConfig
from lakeindex.storage.port import read_once


class _Log(Frozen):
    """The deltas of a view, in order.

    Attributes:
        files: their rows; row group = shard.
    """

    deltas: tuple[Delta, ...]
    files: tuple[RowGroups, ...]
    ranking: Ranking


class RecordStore:
    """The store of one table."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._storage = context.storage
        self._view = context.view
        self._by_partition = not context.spec.is_global

    def generation(self) -> str | None:
        """The view's generation, if it is there, whole."""
        return None if self._shards is None else self._view.generation

    def build(self, generation: str, entries: Iterable[pa.Table]) -> int:
        """Make a new set of shards beside those that are there. Raises: InvariantError: a key is there twice."""
        return sum(self._build(generation, (_shard_rows(table) for table in entries), self._context.expected_rows).rows)

    def retire(self, keep: str | None) -> None:
        """Remove generations that cannot come into force any more, but for the one that readers may still be using.

        A build under way has a greater number than what was in force when it began; if that is not greater than the
        number of what is in force now, putting it into force fails. So what is removed here is missed by nobody.
        """
        spared = {keep, self._view.generation}
        for path in self._storage.list_folder(f"{self._view.folder}/base").folders:
            name = path.rstrip("/").rpartition("/")[2]
            if name not in spared and (keep is None or number_of(name) <= number_of(keep)):
                self._remove(name)

    def drop(self) -> None:
        for path in self._storage.list_folder(f"{self._view.folder}/base").folders:
            self._remove(path.rstrip("/").rpartition("/")[2])

    def behind(self, names: Sequence[str]) -> Sequence[str]:
        """None: look-ups read the log."""
        del names
        return ()

    def prepare(self, name: str) -> None:
        """Nothing: the delta is in the log."""

    def apply(self, names: Sequence[str]) -> None:
        """Nothing: the deltas are in the log."""

    def undo(self, name: str) -> None:
        """Nothing was done."""

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        """Locations of keys.

        Raises:
            IndexDamagedError: a file of the index is gone, or cannot be read.
            IndexChangedError: it is gone because others have folded or built anew what the view names.
        """
        with self._explaining_missing_files():
            return self._look_up(keys, partition)

    def _look_up(self, keys: StringArray, partition: str | None) -> Found:
        asked = plain_strings(keys).cast(pa.string())
        hashes = string_hashes(asked)
        hits = _Hits()
        shards = self._required
        for shard, part in asked_by_shard(asked, hashes, len(shards.rows)):
            if shards.rows[shard]:
                self._search(RowGroups(self._storage, shards.path_of(shard)), part, partition, hits, rank=0)
        for rank, file in enumerate(self._log.files, 1):
            for shard, part in asked_by_shard(asked, hashes, max(len(file), 1)):
                if shard < len(file):
                    hits.add(part, file.read(shard), rank)
        return hits.resolve(self._log.ranking, partition, by_partition=self._by_partition)

    def count(self) -> int | None:
        """Keys it holds; None while it has deltas that were read from files,
        which say nothing of what was known before, or that took file groups away, whose keys nobody has counted.
        """
        with self._explaining_missing_files():
            if any(d.is_catch_up or d.gone for d in self._log.deltas):
                return None
            return sum(self._required.rows) + sum(d.inserted - d.removed for d in self._log.deltas)

    def entries(self) -> Iterable[pa.Table]:
        """Everything it holds. Raises: as :meth:`look_up`."""
        with self._explaining_missing_files():
            for shard in range(len(self._required.rows)):
                for table in self._merged(shard):
                    yield table.select(ENTRY_COLUMNS)

    def fold(self) -> str:
        """Make a new set of shards of base and deltas: shard by shard, or,
        where the table has outgrown them, into more. Raises: as :meth:`look_up`.
        """
        with self._explaining_missing_files():
            return self._fold()

    def _fold(self) -> str:
        shards = self._required
        rows = sum(shards.rows) + sum(d.inserted - d.removed for d in self._log.deltas)
        generation = new_generation(number_of(self._view.generation or "") + 1)
        wanted = shard_count(rows, self._context.config)
        if wanted > len(shards.rows):
            everything = (table for n in range(len(shards.rows)) for table in self._merged(n))
            self._build(generation, everything, rows)
            return generation
        new = Shards(self._folder(generation), ())
        counts = tuple(write_shard(self._storage, new.path_of(n), self._merged(n)) for n in range(len(shards.rows)))
        Shards(new.folder, counts).put_list(self._storage)
        return generation

    @property
    def shard_count(self) -> int:
        return len(self._required.rows)

    @read_once
    def _shards(self) -> Shards | None:
        generation = self._view.generation
        return None if generation is None else load_shards(self._storage, self._folder(generation))

    @property
    def _required(self) -> Shards:
        if self._view.generation is None:
            raise UsageError("the index is not built", culprit=self._view.folder, hint="lakeindex index build TABLE")
        if self._shards is None:
            raise missing(self._storage, self._view, Shards(self._folder(self._view.generation), ()).list_path)
        return self._shards

    @contextmanager
    def _explaining_missing_files(self) -> Iterator[None]:
        """A file that the view names and that is not there is explained: by what others did since, or as damage."""
        try:
            yield
        except ObjectNotFoundError as error:
            raise missing(self._storage, self._view, error.culprit or self._view.folder) from error

    @read_once
    def _log(self) -> _Log:
        files = tuple(RowGroups(self._storage, self._view.path_of(name)) for name in self._view.deltas)
        deltas = tuple(
            delta_of(name, self._view.path_of(name), file.metadata)
            for name, file in zip(self._view.deltas, files, strict=True)
        )
        void: dict[Group, int] = {}
        for rank, delta in enumerate(deltas, 1):
            void.update(dict.fromkeys((*delta.resets, *delta.gone), rank))
        catch_ups = frozenset(rank for rank, delta in enumerate(deltas, 1) if delta.is_catch_up)
        return _Log(deltas, files, Ranking(void, catch_ups))

    def _folder(self, generation: str) -> str:
        return f"{self._view.folder}/base/{generation}"

    def _remove(self, generation: str) -> None:
        """Its list first, so that one cut short is not taken for whole."""
        folder = Shards(self._folder(generation), ())
        self._storage.delete(folder.list_path)
        for one in self._storage.list(folder.folder):
            self._storage.delete(one.path)

    def _build(self, generation: str, entries: Iterable[pa.Table], rows: int) -> Shards:
        count = shard_count(rows, self._context.config)
        builder = ShardBuilder(self._storage, self._folder(generation), count, by_partition=self._by_partition)
        for table in entries:
            builder.add(table)
        return builder.finish()

    def _search(self, file: RowGroups, asked: Asked, partition: str | None, hits: _Hits, *, rank: int) -> None:
        scope = partition if self._by_partition else None
        for number in file.that_may_hold(asked, scope):
            hits.add(asked, file.read(number), rank)

    def _merged(self, shard: int) -> Iterator[pa.Table]:
        """A shard as of the completed deltas."""
        shards = self._required
        tables, ranks = [], []
        for rank, (delta, file) in enumerate(zip(self._log.deltas, self._log.files, strict=True), 1):
            for rows in self._changes(file, shard, len(shards.rows)):
                instant = None if delta.is_catch_up else instant_of(delta.name)
                tables.append(_entry_rows(rows, instant))
                ranks.append(np.full(rows.num_rows, rank, np.int64))
        joined = pa.concat_tables(tables) if tables else ENTRY_SCHEMA.empty_table()
        rank_of = np.concatenate(ranks) if ranks else np.zeros(0, np.int64)
        ranking = self._log.ranking
        changes = newest(joined, rank_of, ranking, by_partition=self._by_partition)
        return merged(self._base(shard), changes, ranking.void, by_partition=self._by_partition)

    def _base(self, shard: int) -> Iterator[pa.Table]:
        shards = self._required
        if shards.rows[shard]:
            yield from RowGroups(self._storage, shards.path_of(shard)).read_all()

    @staticmethod
    def _changes(file: RowGroups, shard: int, shards: int) -> Iterator[pa.Table]:
        """A delta's rows of one shard; the delta may have been arranged for another number of shards."""
        if len(file) == shards:
            yield file.read(shard)
            return
        for number in range(len(file)):
            yield split(file.read(number), shards)[shard]


class _Hits:
    """Entries of the asked keys, from all sources."""

    def __init__(self) -> None:
        self._rows: list[Numbers] = []
        self._ranks: list[Numbers] = []
        self._tables: list[pa.Table] = []

    def add(self, asked: Asked, table: pa.Table, rank: int) -> None:
        rows, found = asked.hits(table)
        if len(rows):
            self._rows.append(rows)
            self._ranks.append(np.full(len(rows), rank, np.int64))
            self._tables.append(_entry_rows(found, None))

    def resolve(self, ranking: Ranking, partition: str | None, *, by_partition: bool) -> Found:
        """The location of each key that has one. Of a key with several the index says that it is unknown."""
        nothing = pa.array([], pa.string())
        if not self._rows:
            return Found(np.zeros(0, np.int64), nothing, nothing)
        table = pa.concat_tables(self._tables).combine_chunks()
        rows, ranks = np.concatenate(self._rows), np.concatenate(self._ranks)
        where = table.column("partition").combine_chunks()
        counts, file_id = ranking.valid_entries(where, table.column("file_id").combine_chunks(), ranks)
        if by_partition and partition is not None:
            counts &= pc.equal(where, partition).to_numpy(zero_copy_only=False)
        picked = np.flatnonzero(counts)
        if by_partition and partition is None:
            codes = scope_of(table, by_partition=True).dictionary_encode().indices.to_numpy()
        else:
            codes = rows
        chosen = picked[entries_that_count(codes[picked], ranks[picked], ranking.catch_ups)]
        chosen = chosen[file_id.take(pa.array(chosen)).is_valid().to_numpy(zero_copy_only=False)]
        chosen = chosen[np.argsort(rows[chosen], kind="stable")]
        distinct, first, times = np.unique(rows[chosen], return_index=True, return_counts=True)
        single = chosen[first[times == 1]]
        take = pa.array(single)
        return Found(rows[single], where.take(take), file_id.take(take), unknown=distinct[times > 1])


def _entry_rows(table: pa.Table, instant: str | None) -> pa.Table:
    columns = [
        *(table.column(name) for name in ENTRY_COLUMNS),
        pa.repeat(pa.scalar(instant, pa.string()), table.num_rows),
    ]
    return pa.table(columns, names=ENTRY_SCHEMA.names).cast(ENTRY_SCHEMA)


def _shard_rows(table: pa.Table) -> pa.Table:
    if "instant" in table.column_names:
        return table.cast(SHARD_SCHEMA)
    return _entry_rows(table, None).cast(SHARD_SCHEMA)


@dataclass(frozen=True, slots=True)
class RecordIndex(StoredIndex):
    """The record index; "global" is part of the spec."""

    metadata_partition: ClassVar[str | None] = "record_index"

    spec: IndexSpec

    def open(self, context: StoreContext) -> RecordStore:
        return RecordStore(context)

    def arrange(self, delta: pa.Table, context: StoreContext) -> Sequence[pa.Table]:
        """A row group a shard, of as many shards as what was built has."""
        return split(delta, RecordStore(context).shard_count)

    def moves_rows(self, config: WriteConfig) -> bool:
        return config.of(RecordOptions).moves_rows


def make_index(spec: IndexSpec) -> RecordIndex:
    return RecordIndex(spec)


ADVICE: Final = replace(STORED, is_plain=True)
