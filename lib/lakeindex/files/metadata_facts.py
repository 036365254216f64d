"""What the metadata table says of base files: the range of their record keys, and their bloom filters.

A base file never changes, and its name is in the key of a record, so what is said of it stays right. What is not said,
or not for sure, is left out: the footer tells. Of ``column_stats`` a range counts if both ends are there and are texts,
and no key is said to be null: in a row group without statistics (keys can be too long for them) Hudi counts the keys as
nulls, and leaves them out of the range. Ends may be wider than the keys of the file (a writer may have cut
them off), and then prune less; they are never narrower. They are in the order of UTF-8 bytes:
:mod:`lakeindex.index.key_ranges` says what that means.

Source: ``HoodieBloomIndex.loadColumnRangesFromMetaIndex``, ``HoodieMetadataBloomFilterProbingFunction`` of Hudi 0.15
and 1.2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from lakeindex.errors import ObjectNotFoundError
from lakeindex.frozen import Frozen
from lakeindex.metadata.column_stats import FIELD as STATS
from lakeindex.metadata.column_stats import TEXT_WRAPPER
from lakeindex.metadata.metadata_keys import bloom_filter_key, column_stats_key
from lakeindex.metadata.metadata_records import FILTER_FIELD as FILTER
from lakeindex.metadata.metadata_records import Record
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, COLUMN_STATS
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.model import BaseFile
from lakeindex.write.base_file import RECORD_KEY

_T = TypeVar("_T")


class StoredRange(Frozen):
    """The record keys of a file.

    Attributes:
        min_key: no key is less, in the order of UTF-8 bytes.
    """

    min_key: str
    max_key: str
    rows: int


class StoredFilter(Frozen):
    """A file's bloom filter: the same text that its footer has."""

    text: bytes
    type: str


def stored_ranges(view: MetadataView, files: Sequence[BaseFile]) -> dict[str, StoredRange]:
    """Ranges by the files' paths; files of which none is known are left out. Raises: TableCorruptError."""
    keys = {column_stats_key(RECORD_KEY, file.partition_path, file.name): file for file in files}
    return _said(view, COLUMN_STATS, keys, _range)


def stored_filters(view: MetadataView, files: Sequence[BaseFile]) -> dict[str, StoredFilter]:
    """Filters by the files' paths; files of which none is there are left out. Raises: TableCorruptError."""
    keys = {bloom_filter_key(file.partition_path, file.name): file for file in files}
    return _said(view, BLOOM_FILTERS, keys, _filter)


def _said(
    view: MetadataView, partition: str, keys: dict[str, BaseFile], read: Callable[[Record, str], _T | None]
) -> dict[str, _T]:
    if partition not in view.table.partitions or not keys:
        return {}
    try:
        records = view.lookup(partition, keys)
    except ObjectNotFoundError:
        return {}  # compacted or taken away meanwhile: nothing is said
    found = {keys[key].path: read(record, keys[key].name) for key, record in records.items()}
    return {path: one for path, one in found.items() if one is not None}


def _range(record: Record, name: str) -> StoredRange | None:
    stats = record[STATS]
    if not stats or stats["isDeleted"] or stats["fileName"] != name or stats["columnName"] != RECORD_KEY:
        return None
    low, high, rows = _text(stats["minValue"]), _text(stats["maxValue"]), stats["valueCount"]
    if (
        low is None
        or high is None
        or low.encode() > high.encode()
        or not isinstance(rows, int)
        or stats["nullCount"] != 0
    ):
        return None
    return StoredRange(low, high, rows)


def _text(end: Any) -> str | None:
    return end[1]["value"] if isinstance(end, tuple) and end[0] == TEXT_WRAPPER else None


def _filter(record: Record, _name: str) -> StoredFilter | None:
    found = record[FILTER]
    return None if not found or found["isDeleted"] else StoredFilter(bytes(found["bloomFilter"]), found["type"])
