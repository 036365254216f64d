"""Merge what was built with the deltas in force, shard by shard, and write shards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.errors import REPAIR_KEYS, InvariantError
from lakeindex.index.record.shards import SHARD_SCHEMA, Shards, split
from lakeindex.model import Group
from lakeindex.storage.port import Storage

ROW_GROUP_ROWS: Final = 131_072
_SPILL_BYTES: Final = 256 * 1024 * 1024
_BETWEEN: Final = "\x00"
_SHOWN: Final = 3

ENTRY_SCHEMA: Final = SHARD_SCHEMA.set(2, pa.field("file_id", pa.string()))
"""As a shard's rows; a null file id says that the key is gone."""


def scope_of(table: pa.Table, *, by_partition: bool) -> pa.Array:
    """What must be unique, as one text: the key, or partition and key. Sorts as the columns do."""
    key = _one(table.column("key"))
    if not by_partition:
        return key
    return pc.binary_join_element_wise(_one(table.column("partition")), key, _BETWEEN)


def void_ranks(void: Mapping[Group, int], partition: pa.Array, file_id: pa.Array) -> npt.NDArray[np.int64]:
    """For each location the rank of the last source that made entries of its file group void, else -1: int64 [n]."""
    out = np.full(len(partition), -1, np.int64)
    if not void or not len(partition):
        return out
    names = pa.array([_BETWEEN.join(group) for group in void], pa.string())
    ranks = np.fromiter(void.values(), np.int64, len(void))
    place = pc.index_in(pc.binary_join_element_wise(partition, file_id, _BETWEEN), value_set=names, skip_nulls=True)
    known = place.is_valid().to_numpy(zero_copy_only=False)
    out[known] = ranks[place.drop_null().to_numpy()]
    return out


@dataclass(frozen=True, slots=True)
class Ranking:
    """What the deltas in force say of entries of other deltas; rank 0 is the base, deltas count from 1.

    Attributes:
        void: file group -> rank of the last delta that read it anew or found it gone: older entries of it do not count.
        catch_ups: ranks of deltas that were read from files.
    """

    void: Mapping[Group, int]
    catch_ups: frozenset[int]

    def settled(
        self, partition: pa.Array, file_id: pa.Array, ranks: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.bool_], pa.Array]:
        """Which entries say something, bool [n], and the file id of each, null: the key is not there.

        An entry that a commit made says where the key was before it, too: not there any more. So a void one says that
        the key is gone. One that was read from a file says nothing but that it was in this file.
        """
        is_void = void_ranks(self.void, partition, file_id) > ranks
        says = ~(is_void & np.isin(ranks, list(self.catch_ups)))
        return says, pc.if_else(pa.array(is_void), pa.scalar(None, pa.string()), file_id)


def standing(
    codes: npt.NDArray[np.int64], ranks: npt.NDArray[np.int64], catch_ups: frozenset[int]
) -> npt.NDArray[np.int64]:
    """Places of the entries that count for each key: the newest that a commit made, and what was read from files since,
    which says of no other file that the key is not in it. There are several where another writer has stored a key more
    than once.

    Args:
        codes: a number a key, int64 [n].
        ranks: of the entries, int64 [n].
        catch_ups: ranks of what was read from files.

    Returns:
        int64, by key.
    """
    order = np.argsort(codes, kind="stable")
    codes, ranks = codes[order], ranks[order]
    if not len(codes):
        return order
    starts = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1])))
    of_commits = np.where(np.isin(ranks, list(catch_ups)), -1, ranks)
    last = np.repeat(np.maximum.reduceat(of_commits, starts), np.diff(np.append(starts, len(codes))))
    return order[ranks >= last]


def newest(entries: pa.Table, ranks: npt.NDArray[np.int64], ranking: Ranking, *, by_partition: bool) -> pa.Table:
    """Of each key the entries that count, sorted by key.

    Args:
        entries: of :data:`ENTRY_SCHEMA`.
        ranks: rank of the delta that each comes from, int64 [n].
        ranking: what deltas say of each other.
        by_partition: a key is another one in each partition.
    """
    says, file_id = ranking.settled(_one(entries.column("partition")), _one(entries.column("file_id")), ranks)
    entries = entries.set_column(2, ENTRY_SCHEMA.field(2), file_id).filter(pa.array(says))
    ranks = ranks[says]
    encoded = scope_of(entries, by_partition=by_partition).dictionary_encode()
    places = pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy().astype(np.int64)
    codes = places[encoded.indices.to_numpy()] if len(entries) else np.zeros(0, np.int64)
    return entries.take(pa.array(standing(codes, ranks, ranking.catch_ups)))


def merged(
    base: Iterable[pa.Table], changes: pa.Table, void: Iterable[Group], *, by_partition: bool
) -> Iterator[pa.Table]:
    """A shard with its changes, row group by row group, sorted.

    Args:
        base: row groups of the shard, of ``SHARD_SCHEMA``.
        changes: of :func:`newest`.
        void: file groups whose entries in the shard do not count.
        by_partition: see :func:`newest`.
    """
    of_commits = changes.filter(pc.is_valid(changes.column("instant")))
    overridden = scope_of(of_commits, by_partition=by_partition)
    present = changes.filter(pc.is_valid(changes.column("file_id")))
    waiting = scope_of(present, by_partition=by_partition)
    groups = dict.fromkeys(void, 0)
    for table in base:
        scope = scope_of(table, by_partition=by_partition)
        upto = pc.sum(pc.less_equal(waiting, scope[-1])).as_py() or 0
        kept = pc.invert(pc.is_in(scope, value_set=overridden))
        if groups:
            live = void_ranks(groups, _one(table.column("partition")), _one(table.column("file_id"))) < 0
            kept = pc.and_(kept, pa.array(live))
        arriving, present, waiting = present.slice(0, upto), present.slice(upto), waiting.slice(upto)
        rows = table.filter(kept)
        if upto:
            rows = pa.concat_tables([rows.cast(SHARD_SCHEMA), arriving.cast(SHARD_SCHEMA)])
            rows = rows.take(pc.sort_indices(scope_of(rows, by_partition=by_partition)))
        if rows.num_rows:
            yield rows.cast(SHARD_SCHEMA)
    if present.num_rows:
        yield present.cast(SHARD_SCHEMA)


def write_shard(storage: Storage, path: str, pieces: Iterable[pa.Table]) -> int:
    """Write a shard, whole; the rows in it. Without rows there is no file."""
    sink = pa.BufferOutputStream()
    rows = 0
    with pq.ParquetWriter(
        sink, SHARD_SCHEMA, compression="zstd", use_dictionary=["partition", "file_id", "instant"]
    ) as writer:
        for table in _in_row_groups(pieces):
            writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
            rows += table.num_rows
    if rows:
        storage.write(path, sink.getvalue().to_pybytes())
    return rows


def _in_row_groups(pieces: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    rows = 0
    for piece in pieces:
        held.append(piece)
        rows += piece.num_rows
        while rows >= ROW_GROUP_ROWS:
            joined = pa.concat_tables(held)
            yield joined.slice(0, ROW_GROUP_ROWS)
            held, rows = [joined.slice(ROW_GROUP_ROWS)], rows - ROW_GROUP_ROWS
    if rows:
        yield pa.concat_tables(held)


class ShardBuilder:
    """Makes all shards of a generation from entries in any order, holding one shard and a bounded rest in memory.

    Args:
        folder: of the generation.
        by_partition: a key is another one in each partition.
    """

    def __init__(self, storage: Storage, folder: str, shards: int, *, by_partition: bool) -> None:
        self._storage = storage
        self._by_partition = by_partition
        self._shards = Shards(folder, (0,) * shards)
        self._held: list[list[pa.Table]] = [[] for _ in range(shards)]
        self._bytes = 0
        self._spilled: list[list[str]] = [[] for _ in range(shards)]

    def add(self, entries: pa.Table) -> None:
        """Take entries over, of ``SHARD_SCHEMA``."""
        for shard, rows in enumerate(split(entries, len(self._held))):
            if rows.num_rows:
                self._held[shard].append(rows)
        self._bytes += entries.nbytes
        if self._bytes >= _SPILL_BYTES:
            for shard, tables in enumerate(self._held):
                if tables:
                    self._spill(shard, tables)
            self._held = [[] for _ in self._held]
            self._bytes = 0

    def finish(self) -> Shards:
        """Write the shards and their list.

        Raises:
            InvariantError: a key is there twice.
        """
        counts = []
        for shard, held in enumerate(self._held):
            tables = [*(self._read(path) for path in self._spilled[shard]), *held]
            self._held[shard] = []
            counts.append(write_shard(self._storage, self._shards.path_of(shard), self._sorted(tables)))
            for path in self._spilled[shard]:
                self._storage.delete(path)
        done = Shards(self._shards.folder, tuple(counts))
        done.put_list(self._storage)
        return done

    def _sorted(self, tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
        if not tables:
            return
        table = pa.concat_tables(tables)
        scope = scope_of(table, by_partition=self._by_partition)
        order = pc.sort_indices(scope)
        self._check_unique(table, scope.take(order), order)
        for start in range(0, len(order), ROW_GROUP_ROWS):
            yield table.take(order.slice(start, ROW_GROUP_ROWS))

    def _check_unique(self, table: pa.Table, scope: pa.Array, order: pa.Array) -> None:
        n = len(scope)
        twice = np.flatnonzero(pc.equal(scope.slice(0, max(n - 1, 0)), scope.slice(1)).to_numpy(zero_copy_only=False))
        if not len(twice):
            return
        pairs = twice[:_SHOWN, None] + np.arange(2)
        rows = table.take(order.take(pa.array(pairs.ravel()))).to_pylist()
        shown = "; ".join(
            f"{a['key']!r} in {a['partition']!r} ({a['file_id']}) and {b['partition']!r} ({b['file_id']})"
            for a, b in zip(rows[::2], rows[1::2], strict=True)
        )
        raise InvariantError(
            f"keys that must be unique {'in their partition' if self._by_partition else 'in the whole table'} "
            f"are stored twice: {shown}",
            culprit=str(rows[0]["key"]),
            hint=f"{REPAIR_KEYS}"
            + (
                ""
                if self._by_partition
                else ", of a table with a global index; with another one, choose one that is not"
            )
            + "; the index that was there before stays in force",
        )

    def _spill(self, shard: int, tables: Sequence[pa.Table]) -> None:
        path = f"{self._shards.folder}/spill-{shard:04d}-{len(self._spilled[shard]):04d}.parquet"
        write_shard(self._storage, path, tables)
        self._spilled[shard].append(path)

    def _read(self, path: str) -> pa.Table:
        return pq.read_table(pa.BufferReader(self._storage.read(path)))


def _one(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # more than an array's offsets can hold
        array = pa.concat_arrays([c.cast(pa.large_string()) for c in array.chunks])
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
