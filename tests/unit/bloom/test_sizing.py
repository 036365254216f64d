from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.bloom.filter import MAX_BITS, FilterSize, bits_for, hashes_for, size_for
from lakeindex.errors import OptionError
from lakeindex.options.types import FilterSizing, FilterType, WriteConfig


@pytest.mark.parametrize(
    ("entries", "fpp", "bits", "hashes"),
    [(60_000, 1e-9, 2_587_966, 30), (500_000, 1e-9, 21_566_382, 30), (10, 0.01, 96, 7), (1, 0.5, 2, 2)],
)
def test_hudis_sizes(entries: int, fpp: float, bits: int, hashes: int) -> None:
    assert bits_for(entries, fpp) == bits
    assert hashes_for(bits, entries) == hashes


@pytest.mark.parametrize(("fpp", "bits_a_key"), [(1e-2, 9.6), (1e-4, 19.2), (1e-6, 28.8), (1e-9, 43.1)])
def test_table_of_the_docstring(fpp: float, bits_a_key: float) -> None:
    assert bits_for(100_000, fpp) / 100_000 == pytest.approx(bits_a_key, abs=0.05)


def test_bits_stop_at_a_java_int() -> None:
    assert bits_for(2**31 - 1, 1e-9) == MAX_BITS


def test_exact_sizing_leaves_room_and_one_row() -> None:
    size = size_for(1_000, WriteConfig())
    assert size == FilterSize(FilterType.DYNAMIC_V0, 1_250, 1_250, 1e-6)
    assert size.max_rows == 1
    assert size_for(0, WriteConfig()).entries == 1
    assert size_for(1_000, WriteConfig(filter_fpp=1e-3)).fpp == 1e-3


def test_fixed_sizing_is_hudis() -> None:
    size = size_for(10**6, WriteConfig(filter_sizing=FilterSizing.FIXED))
    assert size == FilterSize(FilterType.DYNAMIC_V0, 60_000, 100_000, 1e-9)
    assert size.max_rows == 2
    simple = WriteConfig(filter_sizing=FilterSizing.FIXED, filter_type=FilterType.SIMPLE, filter_fpp=0.1)
    assert size_for(1, simple).max_rows == 1


def test_no_bits_is_refused() -> None:
    with pytest.raises(OptionError, match="no bits"):
        size_for(1, WriteConfig(filter_sizing=FilterSizing.FIXED, filter_entries=1, filter_fpp=1 - 1e-18))


@given(st.integers(1, 10**7), st.floats(1e-12, 0.5))
def test_a_filter_at_its_capacity_has_the_probability_asked_for(entries: int, fpp: float) -> None:
    bits = bits_for(entries, fpp)
    hashes = hashes_for(bits, entries)
    assert (1.0 - math.exp(-hashes * entries / bits)) ** hashes <= 1.6 * fpp  # Bloom's formula


def test_rows_and_bits_have_a_least_and_a_most() -> None:
    for entries, most, rows in ((100, 0, 1), (100, 1, 1), (100, 100, 1), (100, 101, 2), (100, 250, 3)):
        assert FilterSize(FilterType.DYNAMIC_V0, entries, most, 0.1).max_rows == rows
        assert FilterSize(FilterType.SIMPLE, entries, most, 0.1).max_rows == 1
    assert MAX_BITS == 2**31 - 1
