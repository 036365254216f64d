"""Keys of the statistics and bloom filters in the metadata table, and the file group of one.

A key is made of hashes, each in base64 with padding::

    column_stats     column (xxh64) + partition (xxh64) + file name (md5)
    partition_stats  column (xxh64) + partition (xxh64)
    bloom_filters    partition (xxh64) + file name (md5)

xxh64 is the XXH64 digest of the UTF-8 text, big-endian, with Java's int ``0xdabadaba`` as seed, which as a long is
``0xffffffffdabadaba``. The partition of a table without partitions is ``.``. As the column comes first, all records of
a column, and of a column in a partition, are beside each other.

Source: ``HashID``, ``HoodieMetadataPayload.getColumnStatsIndexKey``, ``getBloomFilterIndexKey``,
``HoodieTableMetadataUtil.getPartitionStatsIndexKey`` of Hudi 0.15 and 1.2; compared with keys that they made.
Which file group has a key: ``HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex``.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from lakeindex.hashing.java_strings import string_hashes


def groups_of(keys: Sequence[str], count: int) -> list[int]:
    """The number of each key's file group.

    Args:
        count: how many groups there are: those on the table, whatever an option says.
    """
    if count == 1:
        return [0] * len(keys)
    return [int(one) for one in group_numbers(pa.array(keys, pa.string()), count)]


def group_numbers(keys: pa.Array, count: int) -> npt.NDArray[np.int32]:
    """As :func:`groups_of`, of an array of texts."""
    # Java's abs of the smallest int is itself, and its remainder has the sign of what is divided.
    hashes = np.abs(string_hashes(keys))
    found: npt.NDArray[np.int32] = np.abs(np.fmod(hashes, np.int32(count)))
    return found


_SEED: Final = 0xFFFF_FFFF_DABA_DABA
_UNPARTITIONED: Final = "."


def column_stats_key(column: str, partition: str, file_name: str) -> str:
    """Key of the statistics of a column in a file.

    Args:
        column: its name; of a leaf in a struct the path to it, with dots.
        partition: the partition's path; empty in a table without partitions.
        file_name: without a folder.
    """
    return partition_stats_key(column, partition) + _file_hash(file_name)


def partition_stats_key(column: str, partition: str) -> str:
    return _text_hash(column) + _text_hash(partition or _UNPARTITIONED)


def bloom_filter_key(partition: str, file_name: str) -> str:
    return _text_hash(partition or _UNPARTITIONED) + _file_hash(file_name)


def group_of(key: str, groups: int) -> int:
    return groups_of([key], groups)[0]


@lru_cache(maxsize=65_536)
def _text_hash(text: str) -> str:
    return b64encode(xxhash.xxh64_digest(text.encode(), _SEED)).decode()


def _file_hash(name: str) -> str:
    return b64encode(hashlib.md5(name.encode(), usedforsecurity=False).digest()).decode()
