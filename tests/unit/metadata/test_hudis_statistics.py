"""Our statistics of the files of Hudi's tables are those in its own metadata table, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lakeindex.metadata.column_ranges import ColumnRange, column_ranges, merged
from lakeindex.metadata.column_stats import FIELD, column_stats_record, merge_column_stats, partition_stats_record
from lakeindex.metadata.indexed_columns import (
    StatsEncoding,
    columns_to_index,
    indexed_columns,
    stats_encoding,
    with_definition,
)
from lakeindex.metadata.metadata_keys import column_stats_key, group_of, partition_stats_key
from lakeindex.metadata.metadata_records import decode_record, encode_record
from lakeindex.metadata.metadata_table import COLUMN_STATS
from tests.stats_vectors import StatsTable, stats_names, stats_table

Pairs = Iterator[tuple[str, dict[str, Any], dict[str, Any], ColumnRange]]

LAST_TEXT = "\U0010ffff" * 64
ZEROS = {"nul_i", "nul_dt"}
"""Columns without a value whose ends Hudi takes to be zero."""
NANS = {"f_nan", "d_nan"}


@pytest.fixture(params=stats_names())
def table(request: pytest.FixtureRequest) -> StatsTable:
    return stats_table(request.param)


def facts(table: StatsTable) -> tuple[tuple[str, ...], StatsEncoding]:
    columns = indexed_columns(table.definitions, table.version, table.schema())
    return columns, stats_encoding(table.definitions, table.version)


def of_files(table: StatsTable) -> Pairs:
    """Key, our record, Hudi's, and the range of each column in each file; as many as Hudi has."""
    columns, encoding = facts(table)
    theirs = {key: found for group in table.records("column_stats").values() for key, found in group.items()}
    ours = 0
    for partition, name in table.data_files:
        for one in column_ranges(table.footer(partition, name), columns):
            key = column_stats_key(one.column, partition, name)
            ours += 1
            yield key, column_stats_record(name, one, encoding), theirs[key][-1][1], one
    assert ours == len(theirs) > 60


def of_partitions(table: StatsTable) -> Pairs:
    columns, encoding = facts(table)
    theirs = {key: found for group in table.records("partition_stats").values() for key, found in group.items()}
    ours = 0
    for partition in sorted({partition for partition, _ in table.data_files}) if theirs else ():
        files = table.live_files(partition)
        for one in merged(one for name in files for one in column_ranges(table.footer(partition, name), columns)):
            key = partition_stats_key(one.column, partition)
            ours += 1
            yield key, partition_stats_record(partition, one, encoding, tight=True), theirs[key][-1][1], one
    assert ours == len(theirs)


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> set[str]:
    """Fields that are not the same to the bit; 0.15 has fewer."""
    assert ours["type"] == theirs["type"]
    return {name for name, value in theirs[FIELD].items() if repr(ours[FIELD][name]) != repr(value)}


def check(pairs: Pairs) -> int:
    """Compare all, and allow for what we do on purpose in another way; how many are the same in every field."""
    same = 0
    for _, ours, theirs, one in pairs:
        found = differences(ours, theirs)
        stats, hudis = ours[FIELD], theirs[FIELD]
        if one.greatest == LAST_TEXT:  # texts that are too long for statistics: Hudi takes all of them for nulls
            assert (one.column, one.least) == ("huge", "")
            assert found <= {"minValue", "maxValue", "nullCount"}
            assert hudis["minValue"] is hudis["maxValue"] is None
            assert hudis["nullCount"] > stats["nullCount"] > 0
        elif one.column in ZEROS:
            assert one.null_count == one.value_count
            assert found == {"minValue", "maxValue"}
            assert stats["minValue"] is stats["maxValue"] is None
            assert hudis["minValue"][1] == hudis["maxValue"][1] == {"value": 0}
        elif one.column in NANS and found:
            assert found == {"minValue", "maxValue"}
            assert hudis["minValue"][1] == hudis["maxValue"][1] == {"value": 0.0}
            assert (repr(one.least), repr(one.greatest)) == ("-inf", "inf")
        else:
            assert found == set(), (one, hudis)
            same += 1
    return same


def test_statistics_of_files_are_hudis(table: StatsTable):
    total = len(list(of_files(table)))
    assert check(of_files(table)) >= 0.8 * total


def test_statistics_of_partitions_are_hudis(table: StatsTable):
    pairs = list(of_partitions(table))
    assert bool(pairs) == (table.version >= 8 and "nonpart" not in table.name)
    assert check(iter(pairs)) >= 0.8 * len(pairs)


def test_each_difference_from_hudi_occurs():
    found = {
        (one.column in ZEROS, one.column in NANS, one.greatest == LAST_TEXT)
        for _, ours, theirs, one in of_files(stats_table("h120_v9"))
        if differences(ours, theirs)
    }
    assert found == {(True, False, False), (False, True, False), (False, False, True)}


@pytest.mark.parametrize("partition", ["column_stats", "partition_stats"])
def test_a_record_is_in_the_group_of_its_key(table: StatsTable, partition: str):
    groups = table.records(partition)
    count = 2 if partition == "column_stats" else 1
    for name, records in groups.items():
        assert {group_of(key, count) for key in records} == {int(name.split("-")[2])}
    assert len(groups) in ({count} if partition == "column_stats" else {0, count})


def test_an_encoded_record_has_hudis_bytes(table: StatsTable):
    schemas = table.schemas("column_stats")
    for _, ours, theirs, _ in of_files(table):
        if differences(ours, theirs):
            continue
        raw = [encode_record(one, schemas[-1]) for one in (ours, theirs)]
        assert raw[0] == raw[1]
        assert decode_record(raw[0], schemas[-1], "f") == theirs


def test_merging_hudis_records_of_a_partition(table: StatsTable):
    """Those that it writes are tight: the newer one stands. As loose ones they unite to the same, but for the counts."""
    for group in table.records("partition_stats").values():
        for (_, older), (_, newer) in group.values():
            assert merge_column_stats(older, newer) == newer
            loose = {**newer, FIELD: {**newer[FIELD], "isTightBound": False}}
            found = merge_column_stats(older, loose)[FIELD]
            assert found["valueCount"] == older[FIELD]["valueCount"] + newer[FIELD]["valueCount"]
            assert found["valueType"] == newer[FIELD]["valueType"]


def test_the_definitions_are_hudis(table: StatsTable):
    columns, encoding = facts(table)
    if table.version == 6 and "h0150" in table.name:
        assert table.definitions is None
        assert columns == tuple(table.schema().names)
        assert encoding is StatsEncoding.V1
        return
    assert with_definition(None, COLUMN_STATS, columns, table.version) == table.definitions
    assert encoding is (StatsEncoding.V2 if table.version == 9 else StatsEncoding.V1)
    if "nested" not in table.name:
        assert columns_to_index(table.schema(), encoding) == columns
