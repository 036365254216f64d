from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.errors import TableCorruptError
from lakeindex.format.partitions import (
    PARTITION_METADATA_FILES,
    PartitionMetadata,
    format_partition_metadata,
    parse_partition_metadata,
    partition_depth,
    partition_metadata_path,
)

HUDI = b"#partition metadata\n#Sat Nov 21 02:00:00 UTC 2026\ncommitTime=20261121015945073\npartitionDepth=1\n"


@given(st.from_regex("[0-9]{14,17}", fullmatch=True), st.integers(0, 30))
def test_parse_undoes_format(time: str, depth: int) -> None:
    metadata = PartitionMetadata(time, depth)
    assert parse_partition_metadata(format_partition_metadata(metadata)) == metadata


def test_as_hudi_writes_it() -> None:
    assert parse_partition_metadata(HUDI) == PartitionMetadata("20261121015945073", 1)


def test_equal_values_are_equal_bytes() -> None:
    metadata = PartitionMetadata("20261121015945073", 2)
    assert format_partition_metadata(metadata) == format_partition_metadata(metadata)
    assert b"#2026-11-21T01:59:45.073Z" in format_partition_metadata(metadata)


@pytest.mark.parametrize("data", [b"", b"commitTime=1\n", b"partitionDepth=1\n", b"commitTime=1\npartitionDepth=x\n"])
def test_damage_is_named(data: bytes) -> None:
    with pytest.raises(TableCorruptError) as caught:
        parse_partition_metadata(data, "us/.hoodie_partition_metadata")
    assert caught.value.culprit == "us/.hoodie_partition_metadata"


def test_places_and_depths() -> None:
    assert [partition_depth(path) for path in ("", "us", "region=us/k2=1")] == [0, 1, 2]
    assert partition_metadata_path("") == ".hoodie_partition_metadata"
    assert partition_metadata_path("a/b") == "a/b/.hoodie_partition_metadata"
    assert ".hoodie_partition_metadata.parquet" in PARTITION_METADATA_FILES
