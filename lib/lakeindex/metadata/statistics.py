"""What an action of the table changes in the statistics of the metadata table.

Each new file has a record of every indexed column in ``column_stats``, made from its footer, and widens those of its
partition in ``partition_stats``: Hudi makes them narrow again when it writes there next. Where a column of a file has
no bounds that are known to hold, the file has no records, and its partition none any more: readers keep what they know
nothing of, and would skip what they know in part.

Source: ``HoodieTableMetadataUtil.convertMetadataToColumnStatsRecords``, ``convertMetadataToPartitionStatRecords`` of
Hudi 1.2.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.errors import ObjectNotFoundError, TableCorruptError, first_line
from lakeindex.metadata.changes import MetadataChange, PartitionChange
from lakeindex.metadata.column_ranges import ColumnRange, column_ranges, merged
from lakeindex.metadata.column_stats import column_stats_record, partition_stats_record
from lakeindex.metadata.indexed_columns import DEFINITIONS_PATH, StatsEncoding, indexed_columns, stats_encoding
from lakeindex.metadata.keys import column_stats_key, partition_stats_key
from lakeindex.metadata.metadata_table import COLUMN_STATS, PARTITION_STATS, MetadataTable
from lakeindex.metadata.records import Record
from lakeindex.storage import in_parallel
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile

_META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)


@dataclass(frozen=True, slots=True)
class _File:
    """A data file and what its footer says; ``known``: whether bounds of all its indexed columns are."""

    partition: str
    name: str
    ranges: tuple[ColumnRange, ...]

    @property
    def known(self) -> bool:
        return not any(one.is_open for one in self.ranges)


def has_statistics(table: MetadataTable) -> bool:
    """Whether a metadata table has any."""
    return bool({COLUMN_STATS, PARTITION_STATS} & set(table.partitions))


def statistics_of_new(table: MetadataTable, files: Mapping[str, Mapping[str, int]]) -> MetadataChange:
    """What new files change.

    Args:
        table: the metadata table.
        files: partition path -> file name -> bytes. Their footers are read.

    Raises:
        TableCorruptError: a footer, or the definitions of the indexes, cannot be read.
    """
    if not has_statistics(table):
        return {}
    definitions = _definitions(table.storage)
    encoding = stats_encoding(definitions, table.version)
    listed = [(partition, name, size) for partition, sizes in files.items() for name, size in sizes.items()]

    def read(one: tuple[str, str, int]) -> _File:
        partition, name, size = one
        footer = _footer(table.storage, f"{partition}/{name}" if partition else name, size)
        columns = indexed_columns(definitions, table.version, footer.schema.to_arrow_schema())
        return _File(partition, name, column_ranges(footer, columns))

    found = in_parallel(table.storage.uri, read, listed)
    change = {
        COLUMN_STATS: PartitionChange(_of_files(found, encoding)),
        PARTITION_STATS: _of_partitions(found, encoding),
    }
    return {name: one for name, one in change.items() if name in table.partitions and (one.puts or one.deletes)}


def statistics_of_gone(
    table: MetadataTable, files: Mapping[str, Iterable[str]], schema_text: str | None
) -> MetadataChange:
    """What the deletion of files changes: their records go. Those of partitions stay: they are wide enough.

    Args:
        table: the metadata table.
        files: partition path -> file names.
        schema_text: the table's Avro schema, without meta columns.

    Raises:
        TableCorruptError: the definitions of the indexes cannot be read.
    """
    if COLUMN_STATS not in table.partitions:
        return {}
    fields = json.loads(schema_text)["fields"] if schema_text else []
    every = pa.schema([pa.field(name, pa.null()) for name in (*_META_COLUMNS, *(one["name"] for one in fields))])
    columns = indexed_columns(_definitions(table.storage), table.version, every)
    keys = frozenset(
        column_stats_key(column, partition, name)
        for partition, gone in files.items()
        for name in gone
        for column in columns
    )
    return {COLUMN_STATS: PartitionChange(deletes=keys)} if keys else {}


def _of_files(files: Iterable[_File], encoding: StatsEncoding) -> dict[str, Record]:
    return {
        column_stats_key(one.column, file.partition, file.name): column_stats_record(
            file.partition, file.name, one, encoding
        )
        for file in files
        if file.known
        for one in file.ranges
    }


def _of_partitions(files: Iterable[_File], encoding: StatsEncoding) -> PartitionChange:
    by_partition: dict[str, list[ColumnRange]] = {}
    for file in files:
        by_partition.setdefault(file.partition, []).extend(file.ranges)
    puts: dict[str, Record] = {}
    deletes: set[str] = set()
    for partition, several in by_partition.items():
        ranges = merged(several)
        if any(one.is_open for one in ranges):
            deletes |= {partition_stats_key(one.column, partition) for one in ranges}
            continue
        for one in ranges:
            record = partition_stats_record(partition, one, encoding, tight=False)
            puts[partition_stats_key(one.column, partition)] = record
    return PartitionChange(puts, frozenset(deletes))


def _footer(storage: Storage, path: str, size: int) -> pq.FileMetaData:
    try:
        return pq.read_metadata(StorageFile(storage, path, size))
    except (pa.ArrowException, OSError) as error:
        raise TableCorruptError(
            f"the footer of {path} cannot be read: {first_line(error)}", culprit=path, hint="restore the file"
        ) from error


def _definitions(storage: Storage) -> str | None:
    try:
        return storage.read(DEFINITIONS_PATH).decode()
    except ObjectNotFoundError:
        return None
    except UnicodeDecodeError:
        return "damaged"
