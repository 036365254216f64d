"""Shards of a RECORD index: how keys are spread over them, how their files are read, merged with the deltas in force,
and written.

``.hoodie/.lakeindex/index/<type>/base/<generation>/`` holds what was built::

    record-index-0003-0.parquet   a shard: key, partition, file_id, instant; sorted
    shards.json                   rows of each shard; written last

Hudi's shard function: ``Math.abs(Math.abs(key.hashCode()) % shards)``. Java's ``abs`` of the least integer is
itself, and its remainder keeps the sign; both together are the remainder of the absolute value in 64 bits. Also
Hudi's: how many shards there are.

One set of shards serves the whole table, under the index of single partitions, too: there a shard is sorted by
partition, then key, so that a partition is a run of row groups, found by their statistics. Hudi makes shards
for each partition, which is a file or more a partition and commit; here the number of files does not grow with
the number of partitions.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.errors import REPAIR_KEYS, InvariantError, ObjectNotFoundError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import StringArray, without_dictionary
from lakeindex.hashing.java_strings import string_hashes
from lakeindex.index.locations.change_log import damaged
from lakeindex.index.locations.record_options import RecordOptions
from lakeindex.model import Group
from lakeindex.options.types import WriteConfig
from lakeindex.storage import current_options
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile
from lakeindex.tasks.memory_bound import BoundedCache

Numbers = npt.NDArray[np.int64]

SHARD_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("instant", pa.string()),
    ]
)
"""A shard's rows; ``instant``: the commit that entered the key, null if it was read from a file."""

_AVERAGE_BYTES: Final = 48
"""Hudi's estimate of an entry's size."""
_BISECT_BELOW: Final = 4_096
_CACHE_BYTES: Final = 512 * 1024 * 1024
_DICTIONARIES: Final = ("partition", "file_id")
ENTRY_COLUMNS: Final = ("key", "partition", "file_id")

_decoded: BoundedCache[pa.Table] = BoundedCache(_CACHE_BYTES)


def shard_count(rows: int, config: WriteConfig) -> int:
    """Shards for this many keys, as Hudi's ``estimateFileGroupCount``."""
    given = config.of(RecordOptions)
    low, high = given.min_shards, given.max_shards
    if low >= high:
        return low
    expected = math.ceil(rows * given.growth)
    return max(low, min(high, expected // max(given.shard_bytes // _AVERAGE_BYTES, 1)))


def shard_numbers(hashes: npt.NDArray[np.int32], shards: int) -> Numbers:
    """The shard of each key, from its ``String.hashCode``: int64 [n]."""
    return np.abs(hashes.astype(np.int64)) % shards


def split(table: pa.Table, shards: int) -> list[pa.Table]:
    """Rows by shard, each in the order they had; one table a shard."""
    numbers = shard_numbers(string_hashes(table.column("key")), shards)
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(shards + 1))
    sorted_rows = table.take(pa.array(order)) if len(order) else table
    return [sorted_rows.slice(int(a), int(b - a)) for a, b in pairwise(bounds)]


class Shards(Frozen):
    """What was built: the rows of each shard; one without rows has no file."""

    folder: str
    rows: tuple[int, ...]

    def path_of(self, shard: int) -> str:
        return f"{self.folder}/record-index-{shard:04d}-0.parquet"

    @property
    def list_path(self) -> str:
        return f"{self.folder}/shards.json"

    def put_list(self, storage: Storage) -> None:
        """Write the list: from here on the generation is whole."""
        storage.sync([self.path_of(shard) for shard, rows in enumerate(self.rows) if rows])
        storage.write(self.list_path, json.dumps({"rows": self.rows}).encode())
        storage.sync([self.list_path])


def load_shards(storage: Storage, folder: str) -> Shards | None:
    """What was built in a folder; None if it is not there, or not whole.

    Raises:
        IndexDamagedError: its list cannot be read.
    """
    shards = Shards(folder, ())
    try:
        rows = json.loads(storage.read(shards.list_path))["rows"]
        return Shards(folder, tuple(int(n) for n in rows))
    except ObjectNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise damaged(shards.list_path, error) from error


class RowGroups:
    """A Parquet file of the index, read by row group; what was decoded is kept for other tasks of the process.

    Raises:
        IndexDamagedError: it cannot be read.
        ObjectNotFoundError: it is gone.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self._path = path
        self._mark = (storage.uri, current_options(), path)
        try:
            self._file = pq.ParquetFile(
                StorageFile(storage, path), read_dictionary=list(_DICTIONARIES), pre_buffer=True
            )
        except (pa.ArrowException, OSError) as error:
            raise damaged(path, error) from error

    def __len__(self) -> int:
        return int(self._file.num_row_groups)

    @property
    def metadata(self) -> dict[bytes, bytes]:
        return self._file.metadata.metadata or {}

    def read(self, row_group: int) -> pa.Table:
        """Key, partition and file id of a row group; kept for the next that asks."""
        mark = (*self._mark, row_group)
        table = _decoded.get(mark)
        if table is None:
            table = self._read(row_group, ENTRY_COLUMNS).combine_chunks()
            _decoded.put(mark, table)
        return table

    def read_all(self) -> Iterator[pa.Table]:
        """All columns, row group by row group; nothing is kept."""
        for number in range(len(self)):
            if self._rows(number):
                yield self._read(number, None)

    def _read(self, row_group: int, columns: Sequence[str] | None) -> pa.Table:
        try:
            return self._file.read_row_group(row_group, columns=columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise damaged(self._path, error) from error

    def that_may_hold(self, asked: Asked, partition: str | None) -> Iterator[int]:
        """Row groups whose statistics allow one of these keys, and this partition."""
        for number in range(len(self)):
            if not self._rows(number):
                continue
            if partition is not None and not _within(self._range(number, 1), [partition]):
                continue
            if asked.may_be_within(self._range(number, 0)):
                yield number

    def _rows(self, row_group: int) -> int:
        return int(self._file.metadata.row_group(row_group).num_rows)

    def _range(self, row_group: int, column: int) -> tuple[str, str] | None:
        found = self._file.metadata.row_group(row_group).column(column).statistics
        return (str(found.min), str(found.max)) if found is not None and found.has_min_max else None


def _within(bounds: tuple[str, str] | None, values: Sequence[str]) -> bool:
    """Whether one of these sorted values is within the bounds, inclusive."""
    if bounds is None:
        return True
    at = bisect_left(values, bounds[0])
    return at < len(values) and values[at] <= bounds[1]


class Asked:
    """Keys that are asked for: those ``rows`` of the chunk's ``keys`` that are of one shard."""

    def __init__(self, keys: StringArray, rows: Numbers) -> None:
        self.rows = rows
        self.keys = keys.take(pa.array(rows))
        if len(rows) <= _BISECT_BELOW:
            self._sorted = sorted(self.keys.to_pylist())
        else:
            ends = pc.min_max(self.keys)
            self._sorted = [ends["min"].as_py(), ends["max"].as_py()]
        self._is_range = len(rows) > _BISECT_BELOW

    def may_be_within(self, bounds: tuple[str, str] | None) -> bool:
        """Whether one of the keys may lie within the bounds, inclusive."""
        if bounds is None or not self._is_range:
            return _within(bounds, self._sorted)
        return self._sorted[0] <= bounds[1] and bounds[0] <= self._sorted[1]

    def hits(self, table: pa.Table) -> tuple[Numbers, pa.Table]:
        """Rows of a table with one of the keys, and which row of the chunk each is about.

        The asked keys are hashed, not the table's: that is the smaller side.
        """
        mask = pc.is_in(table.column("key"), value_set=self.keys)
        if not pc.any(mask).as_py():
            return np.zeros(0, np.int64), table.slice(0, 0)
        found = table.filter(mask)
        place = pc.index_in(found.column("key"), value_set=self.keys).to_numpy()
        return self.rows[place], found


def asked_by_shard(keys: StringArray, hashes: npt.NDArray[np.int32], shards: int) -> Iterator[tuple[int, Asked]]:
    numbers = shard_numbers(hashes, shards)
    order = np.argsort(numbers, kind="stable")
    present, starts = np.unique(numbers[order], return_index=True)
    for shard, rows in zip(present, np.split(order, starts[1:]), strict=True):
        yield int(shard), Asked(keys, rows.astype(np.int64))


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


def copied(
    found: pa.Table, known: Mapping[str, Group], void: Collection[Group] = (), *, by_partition: bool
) -> pa.Array:
    """Keys (:func:`scope_of`) that are in more than one file group.

    Args:
        found: where keys are, of ``DELTA_SCHEMA``.
        known: where keys were until now.
        void: file groups in which they are no more, but for what ``found`` says.
    """
    scope = scope_of(found, by_partition=by_partition)
    first = {one: group for one, group in known.items() if group not in void}
    codes = scope.dictionary_encode().indices.to_numpy()
    asked = pa.array((np.bincount(codes) > 1)[codes]) if len(codes) else pa.array([], pa.bool_())
    asked = pc.or_(asked, pc.is_in(scope, value_set=pa.array(list(first), scope.type)))
    rows = found.filter(asked)
    places = zip(rows.column("partition").to_pylist(), rows.column("file_id").to_pylist(), strict=True)
    several = {
        one
        for one, place in zip(scope.filter(asked).to_pylist(), places, strict=True)
        if first.setdefault(one, place) != place
    }
    return pa.array(sorted(several), scope.type)


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


class Ranking(Frozen):
    """What the deltas in force say of entries of other deltas; rank 0 is the base, deltas count from 1.

    Attributes:
        void: file group -> rank of the last delta that read it anew or found it gone: older entries of it do not count.
        catch_ups: ranks of deltas that were read from files.
    """

    void: Mapping[Group, int]
    catch_ups: frozenset[int]

    def valid_entries(
        self, partition: pa.Array, file_id: pa.Array, ranks: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.bool_], pa.Array]:
        """Which entries say something, bool [n], and the file id of each, null: the key is not there.

        An entry that a commit made says where the key was before it, too: not there any more. So a void one says that
        the key is gone. One that was read from a file says nothing but that it was in this file.
        """
        is_void = void_ranks(self.void, partition, file_id) > ranks
        says = ~(is_void & np.isin(ranks, list(self.catch_ups)))
        return says, pc.if_else(pa.array(is_void), pa.scalar(None, pa.string()), file_id)


def entries_that_count(
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
        by_partition: a key is another one in each partition.
    """
    says, file_id = ranking.valid_entries(_one(entries.column("partition")), _one(entries.column("file_id")), ranks)
    entries = entries.set_column(2, ENTRY_SCHEMA.field(2), file_id).filter(pa.array(says))
    ranks = ranks[says]
    encoded = scope_of(entries, by_partition=by_partition).dictionary_encode()
    places = pc.rank(encoded.dictionary, tiebreaker="dense").to_numpy().astype(np.int64)
    codes = places[encoded.indices.to_numpy()] if len(entries) else np.zeros(0, np.int64)
    return entries.take(pa.array(entries_that_count(codes, ranks, ranking.catch_ups)))


def merged(
    base: Iterable[pa.Table], changes: pa.Table, void: Iterable[Group], *, by_partition: bool
) -> Iterator[pa.Table]:
    """A shard with its changes, row group by row group, sorted.

    Args:
        changes: of :func:`newest`.
        void: file groups whose entries in the shard do not count.
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
    """Makes all shards of a generation from entries in any order, holding one shard and a bounded rest in memory."""

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
        """Write the shards and their list. Raises: InvariantError: a key is there twice."""
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
    return without_dictionary(array)
