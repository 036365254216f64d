from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.bloom import BloomFilter, marks, parse_filter
from lakeindex.options.types import FilterSizing, FilterType, WriteConfig
from tests.strategies import key_texts

CONFIG = WriteConfig()


def numbered(first: int, last: int) -> pa.Array:
    return pa.array([f"key-{i:05d}" for i in range(first, last)], pa.string())


def filter_of(entries: dict[str, str]) -> BloomFilter:
    parsed = parse_filter(entries[marks.FILTER], entries.get(marks.FILTER_TYPE))
    assert isinstance(parsed, BloomFilter)
    return parsed


def test_entries_of_a_new_file() -> None:
    entries = marks.footer_of_keys(pa.array(["b", "\U0001f600", "\uff5e", "a"]), CONFIG)
    assert (entries[marks.MIN_KEY], entries[marks.MAX_KEY]) == ("a", "\uff5e")  # Java's order
    assert entries[marks.FILTER_TYPE] == "DYNAMIC_V0"
    assert json.loads(entries[marks.MARK])["capacity"] == 5
    simple = marks.footer_of_keys(pa.array(["a"]), WriteConfig(filter_type=FilterType.SIMPLE))
    assert marks.FILTER_TYPE not in simple  # as Hudi: only dynamic filters are named


def test_file_without_rows_has_a_filter_and_no_range() -> None:
    assert set(marks.footer_of_keys(pa.array([], pa.string()), CONFIG)) == {marks.FILTER, marks.FILTER_TYPE}


@pytest.mark.parametrize("filter_type", FilterType)
def test_old_filter_plus_added_keys_is_carried_over(filter_type: FilterType) -> None:
    config = WriteConfig(filter_type=filter_type)
    old = marks.footer_of_keys(numbered(100, 200), config)
    new = marks.footer_with_added(old, numbered(90, 95), config)
    assert new is not None
    assert filter_of(new).probe(pa.concat_arrays([numbered(100, 200), numbered(90, 95)])).all()
    assert (new[marks.MIN_KEY], new[marks.MAX_KEY]) == ("key-00090", "key-00199")
    again = marks.footer_with_added(new, numbered(200, 220), config)  # 125 in all: just full
    assert again is not None
    assert again[marks.MAX_KEY] == "key-00219"
    assert marks.footer_with_added(again, numbered(220, 221), config) is None


def test_the_range_grows_in_javas_order() -> None:
    ends = ("\U0001f600", "\uff5e")
    for stored, added in (ends, ends[::-1]):
        new = marks.footer_with_added(marks.footer_of_keys(pa.array([stored] * 8), CONFIG), pa.array([added]), CONFIG)
        assert new is not None
        assert (new[marks.MIN_KEY], new[marks.MAX_KEY]) == ends


def test_nothing_added_keeps_the_footer() -> None:
    old = marks.footer_of_keys(numbered(0, 10), CONFIG)
    assert marks.footer_with_added(old, numbered(0, 0), CONFIG) == old


@pytest.mark.parametrize(
    "config",
    [
        WriteConfig(filter_type=FilterType.SIMPLE),
        WriteConfig(filter_fpp=1e-3),
        WriteConfig(filter_sizing=FilterSizing.FIXED),
        WriteConfig(filter_sizing=FilterSizing.FIXED, filter_fpp=1e-6),
    ],
)
def test_other_options_build_anew(config: WriteConfig) -> None:
    assert marks.footer_with_added(marks.footer_of_keys(numbered(0, 100), CONFIG), numbered(100, 101), config) is None


def test_fixed_sizing_carries_over_while_its_one_row_has_room() -> None:
    config = WriteConfig(filter_sizing=FilterSizing.FIXED, filter_entries=100, filter_max_entries=1_000)
    old = marks.footer_of_keys(numbered(0, 90), config)
    assert marks.footer_with_added(old, numbered(90, 100), config) is not None
    assert marks.footer_with_added(old, numbered(90, 101), config) is None
    grown = marks.footer_of_keys(numbered(0, 150), config)
    assert marks.footer_with_added(grown, numbered(150, 151), config) is None


@pytest.mark.parametrize("missing", [marks.MARK, marks.FILTER, marks.MIN_KEY, marks.MAX_KEY])
def test_footer_that_is_not_ours_builds_anew(missing: str) -> None:
    old = marks.footer_of_keys(numbered(0, 100), CONFIG)
    del old[missing]
    assert marks.footer_with_added(old, numbered(100, 101), CONFIG) is None


@pytest.mark.parametrize("key", [marks.FILTER, marks.MIN_KEY, marks.MAX_KEY])
def test_damaged_footer_builds_anew(key: str) -> None:
    old = marks.footer_of_keys(numbered(0, 100), CONFIG)
    place = len(old[key]) // 2
    old[key] = old[key][:place] + ("A" if old[key][place] != "A" else "B") + old[key][place + 1 :]
    assert marks.footer_with_added(old, numbered(100, 101), CONFIG) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "7",
        '{"capacity": 1}',
        '{"capacity":"x","keys":1,"fpp":1,"crc32":1}',
        "[" * 100000,
        '{"capacity":1e400,"keys":1,"fpp":1,"crc32":1}',
    ],
)
def test_text_that_is_no_mark(text: str) -> None:
    assert marks.parse_mark(text) is None
    assert marks.parse_mark(None) is None


@given(st.integers(0, 2**31), st.integers(0, 2**31), st.floats(1e-12, 0.5), st.integers(0, 2**32 - 1))
def test_parse_of_text_is_the_mark(capacity: int, keys: int, fpp: float, crc32: int) -> None:
    mark = marks.KeysMark(capacity, keys, fpp, crc32)
    assert marks.parse_mark(mark.to_text()) == mark


@given(st.lists(key_texts, min_size=1, max_size=40), st.lists(key_texts, max_size=10))
def test_carried_footer_covers_every_key(stored: list[str], added: list[str]) -> None:
    new = marks.footer_with_added(marks.footer_of_keys(pa.array(stored), CONFIG), pa.array(added, pa.string()), CONFIG)
    whole = marks.footer_of_keys(pa.array(stored + added), CONFIG)
    if new is not None:
        assert filter_of(new).probe(pa.array(stored + added)).all()
        assert (new[marks.MIN_KEY], new[marks.MAX_KEY]) == (whole[marks.MIN_KEY], whole[marks.MAX_KEY])
