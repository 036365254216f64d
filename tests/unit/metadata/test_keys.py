"""Keys of the metadata table's records and the file groups they are in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.metadata.metadata_keys import bloom_filter_key, column_stats_key, group_of, partition_stats_key


def java_group(key: str, groups: int) -> int:
    """Java's arithmetic, written out."""
    hashed = 0
    units = key.encode("utf-16-be")
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    signed = hashed - 2**32 if hashed >= 2**31 else hashed
    positive = signed if signed == -(2**31) else abs(signed)
    return abs(int(np.fmod(positive, groups)))


def test_a_key_is_made_of_the_keys_of_its_parts():
    column = partition_stats_key("id", "eu")
    assert len(column) == 24
    key = column_stats_key("id", "eu", "f.parquet")
    assert key == column + bloom_filter_key("eu", "f.parquet")[12:]
    assert bloom_filter_key("eu", "f.parquet")[:12] == column[12:]


def test_a_table_without_partitions_has_the_partition_dot():
    assert column_stats_key("id", "", "f") == column_stats_key("id", ".", "f")
    assert bloom_filter_key("", "f") == bloom_filter_key(".", "f")
    assert partition_stats_key("id", "") == partition_stats_key("id", ".")


@given(st.text(), st.integers(1, 10_000))
def test_the_group_is_javas(key: str, groups: int):
    assert group_of(key, groups) == java_group(key, groups)


@pytest.mark.parametrize("groups", [1, 2, 3, 7, 10, 10_000])
def test_the_least_hash_code_has_a_group(groups: int):
    key = "polygenelubricants"  # its hashCode is Integer.MIN_VALUE, which has no positive counterpart
    assert java_group(key, groups) == 2**31 % groups
    assert group_of(key, groups) == 2**31 % groups
