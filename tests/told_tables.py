"""Tables whose metadata table says what a test wants it to say of the record keys of their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.api.table import LakeTable
from lakeindex.bloom import marks
from lakeindex.commit.services.metadata_service import build_metadata_table
from lakeindex.files.key_columns import read_record_keys
from lakeindex.format.hfile import HFile
from lakeindex.metadata.build import Building, NewPartition, add_partition, free_instant
from lakeindex.metadata.column_ranges import column_ranges
from lakeindex.metadata.column_stats import column_stats_record
from lakeindex.metadata.compaction import format_base
from lakeindex.metadata.indexed_columns import StatsEncoding
from lakeindex.metadata.metadata_changes import KeyRun, PartitionChange
from lakeindex.metadata.metadata_keys import bloom_filter_key, column_stats_key
from lakeindex.metadata.metadata_records import Record, own_schema
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, COLUMN_STATS, FILES, RECORD_INDEX, RecordType, file_id
from lakeindex.metadata.record_index import RecordLocation, location_record
from lakeindex.metadata_upkeep.switch import switch_on
from lakeindex.model import BaseFile
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.table.properties import metadata_table_of

RECORD_KEY = "_hoodie_record_key"
Told = Callable[[BaseFile, dict[str, Any]], Record | None]
"""Given a file and the record that is right, the one that the metadata table is to have; None: none."""


def as_it_is(_: BaseFile, record: dict[str, Any]) -> Record:
    """The right record."""
    return record


def tell(table: LakeTable, stats: Told | None = as_it_is, filters: Told | None = None) -> None:
    """Give a table a metadata table with statistics of its live files, and with filters if these are asked for.

    Args:
        table: a table without a metadata table.
        stats: what ``column_stats`` says of each file; None: there is no such partition.
        filters: what ``bloom_filters`` says of each file; None: there is no such partition.
    """
    storage = open_storage(table.uri)
    build_metadata_table(Table.open(storage), partitions=["files"])
    opened = Table.open(storage)
    files, metadata = opened.snapshot().base_files_all(), metadata_table_of(storage, opened.properties)
    assert metadata is not None
    encoding = StatsEncoding.V2 if metadata.version > 8 else StatsEncoding.V1
    parts: dict[str, Mapping[str, Record]] = {}
    if stats is not None:
        parts[COLUMN_STATS] = {
            column_stats_key(RECORD_KEY, one.partition_path, one.name): record
            for one in files
            if (record := stats(one, stats_of(table, one, encoding))) is not None
        }
    if filters is not None:
        parts[BLOOM_FILTERS] = {
            bloom_filter_key(one.partition_path, one.name): record
            for one in files
            if (record := filters(one, filter_of(table, one))) is not None
        }
    timeline = opened.load_timeline()
    last = timeline.last_completed_write_time
    for name, puts in parts.items():
        what = Building(last, timeline.layout.completion_time(last, 0), own_schema(metadata.version))
        groups = tuple(file_id(name, number) for number in range(2))
        add_partition(metadata, what, NewPartition(name, groups, PartitionChange(puts)), free_instant(metadata, what))
    switch_on(storage, (FILES, *parts))


def stats_of(table: LakeTable, file: BaseFile, encoding: StatsEncoding) -> dict[str, Any]:
    """The record of a file's record keys."""
    (found,) = column_ranges(pq.read_metadata(Path(table.uri) / file.path), [RECORD_KEY])
    return column_stats_record(file.name, found, encoding)


def filter_of(table: LakeTable, file: BaseFile) -> dict[str, Any]:
    """The record of a file's bloom filter."""
    entries = pq.read_metadata(Path(table.uri) / file.path).metadata or {}
    text = entries.get(marks.FILTER.encode()) or entries[marks.OLD_FILTER.encode()]
    kind = entries.get(marks.FILTER_TYPE.encode(), b"SIMPLE").decode()
    info = {"type": kind, "timestamp": file.instant_time, "bloomFilter": text, "isDeleted": False}
    return {"type": int(RecordType.BLOOM_FILTER), "BloomFilterMetadata": info}


def add_record_index(table: LakeTable, *, partitioned: bool, without: frozenset[str] = frozenset()) -> None:
    """Give the metadata table of a table a record index of its live files.

    Args:
        table: a table with a metadata table.
        partitioned: whether it has a record for a key in each partition.
        without: partitions of the table that it knows nothing of.
    """
    storage = open_storage(table.uri)
    opened = Table.open(storage)
    metadata, timeline = metadata_table_of(storage, opened.properties), opened.load_timeline()
    assert metadata is not None
    files = [one for one in opened.snapshot().base_files_all() if one.partition_path not in without]
    runs = tuple(
        KeyRun(one.partition_path, keys.cast(pa.string()), location_record(RecordLocation(*place, 1)))
        for one in files
        for keys, place in [(read_record_keys(storage, one), (one.partition_path, one.file_id))]
    )
    partitions = sorted({one.partition_path for one in files}) if partitioned else [None]
    groups = tuple(file_id(RECORD_INDEX, number, one) for one in partitions for number in range(2))
    last = timeline.last_completed_write_time
    what = Building(last, timeline.layout.completion_time(last, 0), own_schema(metadata.version))
    new = NewPartition(RECORD_INDEX, groups, PartitionChange(runs=runs))
    add_partition(metadata, what, new, free_instant(metadata, what))
    switch_on(storage, (*metadata.partitions, RECORD_INDEX))


Shards = dict[str, dict[bytes, bytes]]
"""What each file group of a record index has in its base file: keys and encoded records."""


def edit_record_index(table: LakeTable, edit: Callable[[Shards, str], None]) -> None:
    """Change what the base files of a record index say; they have the same names afterwards.

    Args:
        table: a table whose record index was just built, or compacted.
        edit: is given the file groups, and the Avro schema of their records; one that is taken out loses all files.
    """
    folder = Path(table.uri) / ".hoodie/metadata/record_index"
    bases: dict[str, Path] = {}
    for path in sorted(folder.glob("*.hfile"), key=lambda one: one.name.rpartition("_")[2]):
        bases[path.name.partition("_")[0]] = path
    files = {group: HFile.of(path.read_bytes(), path.name) for group, path in bases.items()}
    schema = next(one.schema for one in files.values() if one.schema)
    shards = {group: dict(file.entries()) for group, file in files.items()}
    edit(shards, schema)
    for group, path in bases.items():
        if group in shards:
            path.write_bytes(format_base(sorted(shards[group].items()), schema))
        else:
            for one in [*folder.glob(f"{group}_*"), *folder.glob(f".{group}_*")]:
                one.unlink()
