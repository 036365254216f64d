from __future__ import annotations

import hashlib
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeindex.bloom import BloomFilter, build_filter, expected_fpp, extend_filter, parse_filter
from lakeindex.bloom.filter import FilterSize, build_sized, lacks_bits
from lakeindex.errors import InvariantError
from lakeindex.hashing.arrow import string_buffers
from lakeindex.options.types import FilterSizing, FilterType, WriteConfig
from tests.scheduling import some_of
from tests.strategies import key_texts

sizes = st.builds(
    FilterSize,
    st.sampled_from(FilterType),
    st.integers(1, 50),
    st.integers(1, 200),
    st.sampled_from([0.5, 0.1, 1e-2, 1e-6, 1e-9]),
)


def numbered(prefix: str, first: int, last: int) -> pa.Array:
    return pa.array([f"{prefix}{i:08d}" for i in range(first, last)], pa.string())


@given(st.lists(key_texts, max_size=300), sizes)
@settings(deadline=None)
def test_no_false_negative(texts: list[str], size: FilterSize) -> None:
    keys = pa.array(texts, pa.string())
    assert build_sized(keys, size).probe(keys).all()


@given(st.lists(key_texts, max_size=120), sizes)
def test_parse_of_text_is_the_filter(texts: list[str], size: FilterSize) -> None:
    built = build_sized(pa.array(texts, pa.string()), size)
    parsed = parse_filter(built.to_text(), size.filter_type.value)
    assert isinstance(parsed, BloomFilter)
    assert (parsed.m, parsed.k, parsed.entries, parsed.active_keys) == (
        built.m,
        built.k,
        built.entries,
        built.active_keys,
    )
    assert np.array_equal(parsed.bits, built.bits)
    assert parsed.to_text() == built.to_text()


@given(st.lists(key_texts, max_size=60), st.lists(key_texts, max_size=60), st.integers(0, 5), st.integers(0, 5))
def test_probing_a_slice_is_a_slice_of_probing(stored: list[str], asked: list[str], cut: int, more: int) -> None:
    built = build_filter(pa.array(stored, pa.string()), WriteConfig(filter_fpp=0.3))
    keys = pa.array(asked, pa.string())
    first, last = min(cut, len(asked)), max(min(cut, len(asked)), len(asked) - more)
    whole = built.probe(keys)
    assert np.array_equal(built.probe(keys, first, last), whole[first:last])
    assert np.array_equal(built.probe_buffers(string_buffers(keys), first, last), whole[first:last])
    assert np.array_equal(built.probe(keys.cast(pa.large_string())), whole)


@pytest.mark.parametrize("filter_type", FilterType)
@pytest.mark.parametrize("rows", some_of([100, 1_000, 20_000, 60_000], {1_000, 60_000}.__contains__, pytest.mark.slow))
@pytest.mark.parametrize("fpp", [0.05, 1e-2, 1e-3])
def test_false_positives_are_within_twice_the_formula(filter_type: FilterType, rows: int, fpp: float) -> None:
    config = WriteConfig(filter_type=filter_type, filter_fpp=fpp)
    built = build_filter(numbered("key-", 0, rows), config)
    asked = 200_000
    found = int(built.probe(numbered("miss-", 0, asked)).sum())
    expected = (1.0 - math.exp(-built.k * rows / built.m)) ** built.k * asked
    slack = 5.0 * math.sqrt(expected) + 3.0
    assert expected / 2 - slack <= found <= 2 * expected + slack
    assert expected_fpp(built) * asked == pytest.approx(expected, rel=0.25)


@given(st.lists(st.integers(1, 9), max_size=60), sizes)
def test_keys_side_by_side_equal_keys_one_by_one(lengths: list[int], size: FilterSize) -> None:
    texts = [chr(97 + n % 26) * length for n, length in enumerate(sorted(lengths))]
    one_row = FilterSize(FilterType.SIMPLE, size.entries, 1, size.fpp)
    bits = np.zeros_like(build_sized(pa.array([], pa.string()), one_row).bits)
    for text in texts:
        bits |= build_sized(pa.array([text]), one_row).bits
    assert np.array_equal(build_sized(pa.array(texts, pa.string()), one_row).bits, bits)


def test_expected_fpp_shows_that_hudis_default_stops_filtering() -> None:
    config = WriteConfig(filter_sizing=FilterSizing.FIXED, filter_entries=600, filter_max_entries=1_000)
    good = build_filter(numbered("key-", 0, 1_200), config)
    overfull = build_filter(numbered("key-", 0, 10_000), config)
    assert expected_fpp(good) < 1e-8
    assert expected_fpp(overfull) > 0.9
    assert overfull.probe(numbered("miss-", 0, 1_000)).mean() > 0.9
    assert overfull.rows == 2


def test_extended_filter_equals_one_built_at_once() -> None:
    size = FilterSize(FilterType.DYNAMIC_V0, 1_000, 1_000, 1e-6)
    first = build_sized(numbered("key-", 0, 300), size)
    before = first.to_text()
    grown = extend_filter(first, numbered("key-", 300, 700))
    assert grown.to_text() == build_sized(numbered("key-", 0, 700), size).to_text()
    assert first.to_text() == before
    simple = FilterSize(FilterType.SIMPLE, 1_000, 1_000, 1e-6)
    grown = extend_filter(build_sized(numbered("key-", 0, 300), simple), numbered("key-", 300, 700))
    assert grown.to_text() == build_sized(numbered("key-", 0, 700), simple).to_text()
    assert extend_filter(first, numbered("", 0, 0)).to_text() == before


def test_filter_of_several_rows_is_not_extended() -> None:
    grown = build_sized(numbered("key-", 0, 30), FilterSize(FilterType.DYNAMIC_V0, 10, 100, 0.1))
    with pytest.raises(InvariantError, match="3 rows"):
        extend_filter(grown, numbered("key-", 30, 31))


def test_bits_are_read_only() -> None:
    built = build_filter(numbered("key-", 0, 10), WriteConfig())
    with pytest.raises(ValueError, match="read-only"):
        built.bits[0, 0] = 1


def test_null_and_empty_keys() -> None:
    config = WriteConfig()
    for bad in (pa.array(["a", None]), pa.array(["a", ""])):
        with pytest.raises(InvariantError, match=r"null|empty"):
            build_filter(bad, config)
    built = build_filter(pa.array(["a"]), config)
    assert built.probe(pa.array(["", "zz"])).tolist() == [True, False]
    with pytest.raises(InvariantError, match="null"):
        built.probe(pa.array(["a", None]))


def test_empty_filter_holds_nothing() -> None:
    built = build_filter(pa.array([], pa.string()), WriteConfig())
    assert not built.probe(numbered("key-", 0, 100)).any()
    assert len(built.probe(pa.array([], pa.string()))) == 0
    assert built.fill() == (0.0,)


def test_frozen_bytes() -> None:
    """The format cannot drift: these texts were checked against Hudi's once, by the vectors."""
    exact = build_filter(numbered("key-", 0, 1_000), WriteConfig())
    assert hashlib.sha256(exact.to_text()).hexdigest() == FROZEN_EXACT
    fixed = WriteConfig(filter_sizing=FilterSizing.FIXED, filter_type=FilterType.SIMPLE, filter_entries=100)
    assert hashlib.sha256(build_filter(numbered("key-", 0, 100), fixed).to_text()).hexdigest() == FROZEN_FIXED


FROZEN_EXACT = "e6d1b086e2416f76c46ca6eadb7c75010b63e02edbb6fe66fd95e9d11d54c2cc"
FROZEN_FIXED = "d6bc0ea1b068be5397c45e6fe9bfb432b18e8cb2f68d02d4d9c905ce7bf3cceb"


def test_lost_bits_are_noticed() -> None:
    built = build_filter(numbered("key-", 0, 10_000), WriteConfig())
    assert not lacks_bits(built, 10_000)
    assert not lacks_bits(built, 9_000)
    bits = built.bits.copy()
    bits[0, : bits.shape[1] // 10] = 0
    damaged = BloomFilter(built.filter_type, built.m, built.k, built.entries, built.active_keys, bits)
    assert lacks_bits(damaged, 10_000)


@given(st.integers(0, 400), sizes)
def test_a_whole_filter_lacks_no_bits(rows: int, size: FilterSize) -> None:
    assert not lacks_bits(build_sized(numbered("key-", 0, rows), size), rows)
