"""What an action of the table changes in the records about the content of data files: statistics and bloom filters.

Each new file has a record of every indexed column in ``column_stats``, made from its footer. The records in
``partition_stats`` of each partition that an action touches are made anew of all its live files: of the footers of the
new ones, and of what ``column_stats`` says of those that stay. Such a record is tight: it replaces the one before.
Every column of a live file has a record with bounds, the widest of its type where none are known: readers skip a file
or a partition by the bound that is missing, and a partition without a record where others have one. A file with a
record of one column and none of another is skipped by a condition on both, and its rows are missing in the statistics
of partitions that Hudi makes. So if a column has bounds that no record can hold (decimals of more than 15 digits before
the point in V1), the file has no record at all, and is read; except of its record keys: Hudi's index takes a file
without one for a file without keys. Of a type that has such values no partition has a record.

Hudi reads logs in the order of their instants, not of their completion. So while a write with an earlier instant is
pending, whose record could come later and stand before this one, the record is not tight: it widens what there is.
Without ``column_stats``, which Hudi does not allow, new files widen as well.

Source: ``HoodieTableMetadataUtil.convertMetadataToColumnStatsRecords``,
``HoodieMetadataWriteUtils.convertMetadataToPartitionStatRecords``, ``HoodieLogFile.LogFileComparator`` of Hudi 1.2.

A bloom filter is the footer's text, byte for byte: base64, and the type says which kind it is of. A file without a
filter has no record; Hudi then reads the file. Source: ``HoodieMetadataPayload.createBloomFilterMetadataRecord``,
``HoodieTableMetadataUtil.convertMetadataToBloomFilterRecords`` of Hudi 0.15 and 1.2; compared with their records.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.bloom import marks
from lakeindex.errors import TableCorruptError, first_line
from lakeindex.frozen import Frozen
from lakeindex.metadata.column_ranges import ColumnRange, ValueKind, column_kinds, column_ranges, merged
from lakeindex.metadata.column_stats import (
    column_range_of,
    column_stats_record,
    has_form,
    holds_all,
    partition_stats_record,
)
from lakeindex.metadata.indexed_columns import StatsEncoding, indexed_columns, read_definitions, stats_encoding
from lakeindex.metadata.metadata_changes import MetadataChange, PartitionChange
from lakeindex.metadata.metadata_keys import bloom_filter_key, column_stats_key, partition_stats_key
from lakeindex.metadata.metadata_records import FILTER_FIELD, Record
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS, MetadataTable, RecordType
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.model import BaseFile
from lakeindex.storage import in_parallel
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile

_OF_FOOTERS: Final = frozenset({BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS})


class NewFile(Frozen):
    """A data file.

    Attributes:
        name: without a folder.
    """

    partition: str
    name: str
    footer: pq.FileMetaData


def read_new_files(
    table: MetadataTable, files: Mapping[str, Mapping[str, int]], live: Iterable[BaseFile] | None = None
) -> list[NewFile]:
    """Some data files with their footers; none if the metadata table says nothing that is in them.

    Args:
        files: partition path -> file name -> bytes.
        live: those that have to be readable; None: all. Of another one nothing is said then, and readers look into it.

    Raises:
        TableCorruptError: a footer cannot be read.
    """
    if not _OF_FOOTERS & set(table.partitions):
        return []
    listed = [(partition, name, size) for partition, sizes in files.items() for name, size in sizes.items()]

    needed = None if live is None else {file.path for file in live}

    def read(one: tuple[str, str, int]) -> NewFile | None:
        partition, name, size = one
        path = f"{partition}/{name}" if partition else name
        try:
            return NewFile(partition, name, _footer(table.storage, path, size))
        except TableCorruptError:
            if needed is None or path in needed:
                raise
            return None  # of a slice that another one took the place of, as a repair's does

    return [one for one in in_parallel(table.storage.uri, read, listed) if one is not None]


def _footer(storage: Storage, path: str, size: int) -> pq.FileMetaData:
    try:
        return pq.read_metadata(StorageFile(storage, path, size))
    except (pa.ArrowException, OSError) as error:
        raise TableCorruptError(
            f"the footer of {path} cannot be read: {first_line(error)}", culprit=path, hint="restore the file"
        ) from error


SIMPLE: Final = "SIMPLE"


def filters_of_new(table: MetadataTable, files: Iterable[NewFile], time: str) -> MetadataChange:
    """What new files change."""
    if BLOOM_FILTERS not in table.partitions:
        return {}
    found = ((one, filter_record(one, time)) for one in files)
    puts = {bloom_filter_key(one.partition, one.name): record for one, record in found if record is not None}
    return {BLOOM_FILTERS: PartitionChange(puts)} if puts else {}


def filters_of_gone(table: MetadataTable, files: Mapping[str, Iterable[str]]) -> MetadataChange:
    """What the deletion of files changes."""
    if BLOOM_FILTERS not in table.partitions:
        return {}
    keys = frozenset(bloom_filter_key(partition, name) for partition, gone in files.items() for name in gone)
    return {BLOOM_FILTERS: PartitionChange(deletes=keys)} if keys else {}


def filter_record(file: NewFile, time: str) -> Record | None:
    """The record of a file's filter; None if it has none."""
    values = file.footer.metadata or {}
    text = values.get(marks.FILTER.encode()) or values.get(marks.OLD_FILTER.encode())
    if text is None:
        return None
    kind = values.get(marks.FILTER_TYPE.encode(), SIMPLE.encode()).decode("utf-8", "replace")
    info = {"type": kind, "timestamp": time, "bloomFilter": bytes(text), "isDeleted": False}
    return {"type": int(RecordType.BLOOM_FILTER), FILTER_FIELD: info}


_RECORD_KEY: Final = "_hoodie_record_key"
_META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    _RECORD_KEY,
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


class _File(Frozen):
    """A data file and what its footer says."""

    partition: str
    name: str
    ranges: tuple[ColumnRange, ...]


class _Indexes(Frozen):
    """The statistics of a table as they are defined, which is read once for an action.

    Attributes:
        definitions: text of the definitions of its indexes; None if it has none.
    """

    table: MetadataTable
    definitions: str | None

    @staticmethod
    def of(table: MetadataTable) -> _Indexes:
        return _Indexes(table, read_definitions(table.storage))

    @property
    def encoding(self) -> StatsEncoding:
        return stats_encoding(self.definitions, self.table.version)

    def ranges(self, files: Iterable[NewFile]) -> list[_File]:
        return [_File(one.partition, one.name, column_ranges(one.footer, self._columns(one))) for one in files]

    def kinds(self, files: Iterable[NewFile]) -> dict[str, ValueKind]:
        """The indexed columns that files have, with their types."""
        found: dict[str, ValueKind] = {}
        for one in files:
            found |= column_kinds(one.footer, self._columns(one))
        return found

    def _columns(self, one: NewFile) -> Collection[str]:
        return indexed_columns(self.definitions, self.table.version, one.footer.schema.to_arrow_schema())


def has_statistics(table: MetadataTable) -> bool:
    return bool({COLUMN_STATS, PARTITION_STATS} & set(table.partitions))


def statistics_of_new(table: MetadataTable, files: Iterable[NewFile]) -> MetadataChange:
    """What the statistics of files are, made of their footers. Raises: TableCorruptError."""
    if COLUMN_STATS not in table.partitions:
        return {}
    indexes = _Indexes.of(table)
    change = _of_files(indexes.ranges(files), indexes.encoding)
    return {COLUMN_STATS: change} if change else {}


def statistics_of_touched(
    view: MetadataView, new: Sequence[NewFile], staying: Mapping[str, Mapping[str, int]], *, tight: bool
) -> MetadataChange:
    """What an action changes in the statistics of files, and in those of the partitions that it touches.

    Args:
        view: the metadata table, before the action.
        staying: partition path -> file name -> bytes, of the live files that it leaves where they are; of every
            partition that it touches. Nothing where there are no statistics of partitions.
        tight: no write with an earlier instant is pending.

    Raises:
        TableCorruptError: the metadata table, or the footer of a file that it knows nothing of, cannot be read.
    """
    table = view.table
    if not has_statistics(table):
        return {}
    indexes = _Indexes.of(table)
    found = indexes.ranges(new)
    change = {COLUMN_STATS: _of_files(found, indexes.encoding)}
    if PARTITION_STATS in table.partitions:
        if COLUMN_STATS in table.partitions:
            found += _staying(view, indexes, new, staying)
        else:
            tight, found = False, [*found, *_staying_unknown(view, indexes, found, staying)]
        change[PARTITION_STATS] = _of_partitions(found, indexes.encoding, tight=tight)
    return {name: one for name, one in change.items() if name in table.partitions and one}


def statistics_of_partitions(table: MetadataTable, files: Iterable[NewFile]) -> PartitionChange:
    """What the statistics of partitions are, made of all their live files: they replace what there is.

    Raises:
        TableCorruptError: the definitions of the indexes cannot be read.
    """
    indexes = _Indexes.of(table)
    return _of_partitions(indexes.ranges(files), indexes.encoding, tight=True)


def columns_without_partitions(table: MetadataTable, files: Iterable[NewFile]) -> set[str]:
    """Columns of files of which no partition may have a record: some values of their type fit into none.

    Raises:
        TableCorruptError: the definitions of the indexes cannot be read.
    """
    indexes = _Indexes.of(table)
    return {name for name, kind in indexes.kinds(files).items() if not holds_all(kind, indexes.encoding)}


def statistics_of_gone(
    table: MetadataTable, files: Mapping[str, Iterable[str]], schema_text: str | None
) -> MetadataChange:
    """What the deletion of files that are not live changes: their records go.

    Args:
        schema_text: the table's Avro schema, without meta columns.
    """
    if COLUMN_STATS not in table.partitions:
        return {}
    fields = json.loads(schema_text)["fields"] if schema_text else []
    every = pa.schema([pa.field(name, pa.null()) for name in (*_META_COLUMNS, *(one["name"] for one in fields))])
    columns = indexed_columns(read_definitions(table.storage), table.version, every)
    keys = frozenset(
        column_stats_key(column, partition, name)
        for partition, gone in files.items()
        for name in gone
        for column in columns
    )
    return {COLUMN_STATS: PartitionChange(deletes=keys)} if keys else {}


def _staying(
    view: MetadataView, indexes: _Indexes, new: Sequence[NewFile], files: Mapping[str, Mapping[str, int]]
) -> list[_File]:
    """What ``column_stats`` says of files; of those that it does not know in full, what their footers say."""
    kinds = indexes.kinds(new)
    places = [(partition, name) for partition, names in files.items() for name in names]
    keys = {(place, column): column_stats_key(column, *place) for place in places for column in kinds}
    records = view.lookup(COLUMN_STATS, keys.values())
    known, unknown = [], dict[str, dict[str, int]]()
    for partition, name in places:
        said = [(records.get(keys[(partition, name), column]), kind) for column, kind in kinds.items()]
        ranges = [None if record is None else column_range_of(record, kind) for record, kind in said]
        told = tuple(one for one in ranges if one is not None)
        if ranges and len(told) == len(ranges):
            known.append(_File(partition, name, told))
        else:
            unknown.setdefault(partition, {})[name] = files[partition][name]
    return [*known, *indexes.ranges(read_new_files(view.table, unknown))]


def _staying_unknown(
    view: MetadataView, indexes: _Indexes, new: Sequence[_File], staying: Mapping[str, Mapping[str, int]]
) -> list[_File]:
    """What footers say of the files that stay in partitions which have no record of a column of the new ones, such as
    one that this commit adds: the record would else be the new files' alone.
    """
    keys = {
        (file.partition, one.column): partition_stats_key(one.column, file.partition)
        for file in new
        if staying.get(file.partition)
        for one in file.ranges
        if holds_all(one.kind, indexes.encoding)
    }
    there = view.lookup(PARTITION_STATS, keys.values())
    unknown = {partition for (partition, _), key in keys.items() if key not in there}
    return indexes.ranges(read_new_files(view.table, {partition: staying[partition] for partition in unknown}))


def _of_files(files: Iterable[_File], encoding: StatsEncoding) -> PartitionChange:
    puts: dict[str, Record] = {}
    for file in files:
        is_whole = all(has_form(one, encoding) for one in file.ranges)
        for one in file.ranges if is_whole else (one for one in file.ranges if one.column == _RECORD_KEY):
            key = column_stats_key(one.column, file.partition, file.name)
            puts[key] = column_stats_record(file.name, one, encoding)
    return PartitionChange(puts)


def _of_partitions(files: Iterable[_File], encoding: StatsEncoding, *, tight: bool) -> PartitionChange:
    by_partition: dict[str, list[_File]] = {}
    for file in files:
        by_partition.setdefault(file.partition, []).append(file)
    puts: dict[str, Record] = {}
    for partition, several in by_partition.items():
        every = merged([*(one for file in several for one in file.ranges), *_nulls_of_older(several)])
        for one in (one for one in every if holds_all(one.kind, encoding)):
            record = partition_stats_record(partition, one, encoding, tight=tight)
            puts[partition_stats_key(one.column, partition)] = record
    return PartitionChange(puts)


def _nulls_of_older(files: Sequence[_File]) -> Iterator[ColumnRange]:
    """Nulls of the files of a partition that were written before a column was added: all of their rows.

    Without them the partition would have no null in that column, and who looks for nulls would skip it.
    """
    columns = {one.column: one for file in files for one in file.ranges}
    for file in files:
        rows = min((one.value_count for one in file.ranges), default=0)  # a column in a list has more values than rows
        for name in sorted(columns.keys() - {one.column for one in file.ranges}) if rows else ():
            yield ColumnRange(name, columns[name].kind, None, None, rows, rows, 0, 0)
