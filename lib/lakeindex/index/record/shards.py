"""Shards of a RECORD index: how keys are spread over them, how their files are read.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.errors import ObjectNotFoundError
from lakeindex.hashing.arrow import StringArray
from lakeindex.hashing.java_hash import string_hashes
from lakeindex.index.record.options import RecordOptions
from lakeindex.index.stored.decoded_cache import BoundedCache
from lakeindex.index.stored.log_state import damaged
from lakeindex.options.types import WriteConfig
from lakeindex.storage import current_options
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile

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


@dataclass(frozen=True, slots=True)
class Shards:
    """What was built.

    Attributes:
        rows: rows of each shard; one without rows has no file.
    """

    folder: str
    rows: tuple[int, ...]

    def path_of(self, shard: int) -> str:
        """Path of a shard's file."""
        return f"{self.folder}/record-index-{shard:04d}-0.parquet"

    @property
    def list_path(self) -> str:
        """Path of the list of shards."""
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
        """The file's own key-value pairs."""
        return self._file.metadata.metadata or {}

    def read(self, row_group: int) -> pa.Table:
        """Key, partition and file id of a row group; kept for who asks next."""
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
    """Keys that are asked for: some of a chunk's, all of one shard.

    Args:
        keys: all keys of the chunk.
        rows: which of them.
    """

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
    """The asked keys of each shard that has any."""
    numbers = shard_numbers(hashes, shards)
    order = np.argsort(numbers, kind="stable")
    present, starts = np.unique(numbers[order], return_index=True)
    for shard, rows in zip(present, np.split(order, starts[1:]), strict=True):
        yield int(shard), Asked(keys, rows.astype(np.int64))
