"""What index kinds say to the adviser."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lakeindex.index.advice import Workload
from lakeindex.index.bloom_options import BloomOptions
from lakeindex.index.registry import advice_of
from lakeindex.model import IndexType
from lakeindex.options.types import WriteConfig

WORK = Workload(
    keys=1_000,
    keys_by_partition=(600.0, 400.0),
    possible=20_000,
    kept=4_000,
    true_pairs=800,
    mean_fpp=1e-6,
    updates=0.8,
    files=20,
    rows=2_000_000,
    bytes=20 * 2**20,
    partitions=2,
    key_share=0.2,
    uncached=3,
    files_in_range=8,
    rows_in_range=800_000,
    files_updated=5,
    rows_updated=500_000,
    files_filtered=6,
    rows_filtered=600_000,
    now=None,
)


def test_footers_that_are_not_cached_are_told_of() -> None:
    warnings = advice_of(IndexType.BLOOM).warnings
    assert warnings(WORK, WriteConfig()) == [
        "footers of 3 files are not cached: the first look-up reads and keeps them"
    ]
    assert warnings(replace(WORK, uncached=0), WriteConfig()) == []


def test_ranges_count_only_where_they_are_used() -> None:
    expected = advice_of(IndexType.GLOBAL_BLOOM).expected
    assert expected(WORK, WriteConfig()).after_ranges == 4_000
    assert expected(WORK, WriteConfig(areas=(BloomOptions(prune_by_ranges=False),))).after_ranges == 20_000


def test_buckets_are_those_of_the_table_or_what_suits_it() -> None:
    advice = advice_of(IndexType.BUCKET)
    small = WriteConfig(max_file_bytes=2**20)
    assert "10 buckets a partition" in str(advice.expected(WORK, small).note)
    assert "10 buckets" in str(advice.expected(replace(WORK, now=IndexType.BUCKET), WriteConfig()).note)
    assert advice.warnings(replace(WORK, files=0, bytes=0.0), small) == []
    assert "too many" in advice.warnings(WORK, WriteConfig())[0]
    assert "too few" in advice.warnings(WORK, WriteConfig(max_file_bytes=2**18))[0]


@pytest.mark.parametrize("kind", IndexType)
def test_every_kind_says_what_it_would_do(kind: IndexType) -> None:
    expected = advice_of(kind).expected(WORK, WriteConfig())
    assert expected.load.keys == WORK.keys
    assert 0 < expected.load.files_opened <= 20
    assert expected.files_rewritten > 0
    assert (expected.note is None) is (kind.has_filters or kind in (IndexType.SIMPLE, IndexType.GLOBAL_SIMPLE))
