"""What commits and cleans change in the statistics of the metadata table."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.errors import TableCorruptError
from lakeindex.metadata.column_stats import FIELD
from lakeindex.metadata.content_records import (
    read_new_files,
    statistics_of_gone,
    statistics_of_new,
    statistics_of_partitions,
)
from lakeindex.metadata.metadata_changes import MetadataChange, PartitionChange
from lakeindex.metadata.metadata_keys import column_stats_key, partition_stats_key
from lakeindex.metadata.metadata_records import decode_record, encode_record, merged, own_schema
from lakeindex.metadata.metadata_table import COLUMN_STATS, FILES, PARTITION_STATS, MetadataTable, RecordType
from lakeindex.storage.memory import MemoryStorage

DEFINITIONS = ".hoodie/.index_defs/index.json"
SCHEMA = json.dumps(
    {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "long"}]}
)


def table(*partitions: str, version: int = 9) -> MetadataTable:
    found = MetadataTable.of(MemoryStorage(), version, 2 if version > 6 else 1, (FILES, *partitions))
    assert found is not None
    return found


def indexed(one: MetadataTable, *columns: str) -> None:
    text = json.dumps({"indexDefinitions": {COLUMN_STATS: {"sourceFields": list(columns), "version": "V2"}}})
    one.storage.write(DEFINITIONS, text.encode())


def put(one: MetadataTable, path: str, rows: dict[str, list[object]], **how: object) -> dict[str, dict[str, int]]:
    sink = io.BytesIO()
    pq.write_table(pa.table(rows), sink, **how)
    one.storage.write(path, sink.getvalue())
    partition, _, name = path.rpartition("/")
    return {partition: {name: len(sink.getvalue())}}


def new_of(one: MetadataTable, files: dict[str, dict[str, int]]) -> MetadataChange:
    return statistics_of_new(one, read_new_files(one, files))


def of_partitions(one: MetadataTable, files: dict[str, dict[str, int]]) -> PartitionChange:
    return statistics_of_partitions(one, read_new_files(one, files))


def bounds(record: object) -> tuple[object, object]:
    stats = record[FIELD]  # type: ignore[index]
    ends = (stats["minValue"], stats["maxValue"])
    return tuple(None if one is None else one[1]["value"] for one in ends)  # type: ignore[return-value]


def test_a_new_file_has_records_and_so_has_its_partition() -> None:
    one = table(COLUMN_STATS, PARTITION_STATS)
    indexed(one, "id", "n", "not there")
    files = put(one, "p/a.parquet", {"id": ["b", "a"], "n": [3, 9], "other": [1, 2]})
    change = {**new_of(one, files), PARTITION_STATS: of_partitions(one, files)}
    found = {name: dict(part.puts) for name, part in change.items()}
    assert found.keys() == {COLUMN_STATS, PARTITION_STATS}
    assert {key: bounds(record) for key, record in found[COLUMN_STATS].items()} == {
        column_stats_key("id", "p", "a.parquet"): ("a", "b"),
        column_stats_key("n", "p", "a.parquet"): (3, 9),
    }
    assert {key: bounds(record) for key, record in found[PARTITION_STATS].items()} == {
        partition_stats_key("id", "p"): ("a", "b"),
        partition_stats_key("n", "p"): (3, 9),
    }
    assert all(record[FIELD]["isTightBound"] for record in found[PARTITION_STATS].values())
    assert not any(part.deletes for part in change.values())


def test_only_what_the_table_has_is_written() -> None:
    one = table()
    assert new_of(one, put(one, "p/a.parquet", {"id": ["a"]})) == {}
    assert statistics_of_gone(one, {"p": ["a.parquet"]}, SCHEMA) == {}
    one = table(COLUMN_STATS)
    assert new_of(one, put(one, "a.parquet", {"id": ["a"]})).keys() == {COLUMN_STATS}


def test_where_bounds_are_unknown_they_are_the_widest() -> None:
    """Without records the partition would be skipped, by filters on other columns too."""
    one = table(COLUMN_STATS, PARTITION_STATS)
    indexed(one, "id", "n")
    files = put(one, "p/a.parquet", {"id": ["b", "a"], "n": [3, 9]}, write_statistics=["n"])
    files |= put(one, "q/a.parquet", {"id": ["b", "a"], "n": [3, 9]})
    change = {**new_of(one, files), PARTITION_STATS: of_partitions(one, files)}
    places = [(name, partition) for name in ("id", "n") for partition in "pq"]
    assert change[COLUMN_STATS].puts.keys() == {column_stats_key(*place, "a.parquet") for place in places}
    assert change[PARTITION_STATS].puts.keys() == {partition_stats_key(*place) for place in places}
    assert not change[PARTITION_STATS].deletes
    open_one = change[PARTITION_STATS].puts[partition_stats_key("id", "p")]["ColumnStatsMetadata"]
    assert open_one["minValue"][1]["value"] == ""
    assert open_one["maxValue"][1]["value"] > "z"


def test_rows_that_are_older_than_a_column_are_nulls_of_their_partition() -> None:
    one = table(COLUMN_STATS, PARTITION_STATS)
    indexed(one, "id", "n", "list.element")
    older = put(one, "p/old.parquet", {"id": ["a", "b", "c"], "list": [[1, 2], [], [3]]})["p"]
    newer = put(one, "p/new.parquet", {"id": ["d"], "list": [[4]], "n": [7]})["p"]
    for files in ({**older, **newer}, {**newer, **older}):
        record = of_partitions(one, {"p": files}).puts[partition_stats_key("n", "p")]
        assert bounds(record) == (7, 7)
        assert (record[FIELD]["nullCount"], record[FIELD]["valueCount"]) == (3, 4)


def test_a_table_of_hudi_0_15_has_all_columns() -> None:
    one = table(COLUMN_STATS, version=6)
    files = put(one, "p/a.parquet", {"_hoodie_record_key": ["k"], "id": ["a"], "n": [1]})
    keys = new_of(one, files)[COLUMN_STATS].puts.keys()
    assert keys == {column_stats_key(name, "p", "a.parquet") for name in ("_hoodie_record_key", "id", "n")}
    gone = statistics_of_gone(one, {"p": ["a.parquet"]}, SCHEMA)[COLUMN_STATS]
    assert keys < gone.deletes
    assert len(gone.deletes) == 7


def test_records_of_cleaned_files_go() -> None:
    one = table(COLUMN_STATS, PARTITION_STATS)
    indexed(one, "id", "n")
    change = statistics_of_gone(one, {"p": ["a.parquet", "b.parquet"], "": ["c.parquet"]}, None)
    places = (("p", "a.parquet"), ("p", "b.parquet"), ("", "c.parquet"))
    assert change.keys() == {COLUMN_STATS}
    assert change[COLUMN_STATS].deletes == {column_stats_key(name, *place) for name in ("id", "n") for place in places}


def test_ranges_of_a_partition_are_united_when_records_are_merged() -> None:
    one = table(PARTITION_STATS)
    indexed(one, "id", "n")
    records = []
    for path, rows in (("p/a.parquet", {"n": [3, 9]}), ("p/b.parquet", {"n": [-5, 4]})):
        (record,) = of_partitions(one, put(one, path, rows)).puts.values()
        assert record["type"] == RecordType.PARTITION_STATS
        record[FIELD]["isTightBound"] = False
        records.append(decode_record(encode_record(record, own_schema(9)), own_schema(9), "x"))
    found = merged(*records)
    assert found is not None
    assert bounds(found) == (-5, 9)
    assert found[FIELD]["valueCount"] == 4


@pytest.mark.parametrize("what", ["footer", "definitions", "text"])
def test_damage_is_told_before_anything_is_decided(what: str) -> None:
    one = table(COLUMN_STATS)
    indexed(one, "id")
    files = put(one, "p/a.parquet", {"id": ["a"]})
    if what == "footer":
        one.storage.write("p/a.parquet", one.storage.read("p/a.parquet")[:-30])
    else:
        one.storage.write(DEFINITIONS, b"{" if what == "definitions" else b"\xff\xff")
    with pytest.raises(TableCorruptError):
        new_of(one, files)
