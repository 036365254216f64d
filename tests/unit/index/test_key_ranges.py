from __future__ import annotations

import bisect

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.hashing.arrow import string_buffers
from lakeindex.hashing.java_strings import java_order_key
from lakeindex.index.key_ranges import IntervalTree, KeyRange, Pruner, prune, pruner_for, search_sorted
from tests.strategies import key_texts, plain_key_texts


def utf8_sorted(texts: list[str]) -> list[str]:
    return sorted(texts, key=str.encode)


def range_of(stored: list[str]) -> KeyRange:
    """As Hudi writes it: in Java's order."""
    return KeyRange(min(stored, key=java_order_key), max(stored, key=java_order_key))


files_of_keys = st.lists(
    st.one_of(
        st.lists(plain_key_texts, min_size=1, max_size=5).map(range_of),
        st.lists(key_texts, min_size=1, max_size=5).map(range_of),
        st.just(KeyRange(None, None)),
        st.builds(KeyRange, key_texts, key_texts),  # reversed ones among them
        st.builds(KeyRange, st.none(), key_texts),
    ),
    max_size=12,
)


def brute_force(keys: list[str], key_range: KeyRange) -> tuple[int, int]:
    """First and last row inside the range, by Java's comparison of every key."""
    low, high = key_range.min_key, key_range.max_key
    if low is None or high is None or any(char >= "\ue000" for char in low + high) or low.encode() > high.encode():
        return (0, len(keys))
    inside = [row for row, key in enumerate(keys) if java_order_key(low) <= java_order_key(key) <= java_order_key(high)]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)


@given(st.lists(st.one_of(key_texts, plain_key_texts), max_size=30), files_of_keys)
def test_all_pruners_equal_brute_force(texts: list[str], ranges: list[KeyRange]) -> None:
    keys = utf8_sorted(texts)
    expected = [brute_force(keys, key_range) for key_range in ranges]
    for pruner in Pruner:
        found = prune(pa.array(keys, pa.string()), ranges, pruner)
        assert list(zip(found.from_row.tolist(), found.to_row.tolist(), strict=True)) == expected, pruner


@given(st.lists(st.lists(key_texts, min_size=1, max_size=6), min_size=1, max_size=6))
def test_a_stored_key_is_never_pruned_from_its_file(files: list[list[str]]) -> None:
    keys = utf8_sorted([key for stored in files for key in stored])
    for pruner in Pruner:
        found = prune(pa.array(keys), [range_of(stored) for stored in files], pruner)
        for place, stored in enumerate(files):
            kept = set(keys[found.from_row[place] : found.to_row[place]])
            assert kept >= set(stored)


@given(st.lists(key_texts, max_size=40), st.lists(key_texts, max_size=20), st.booleans())
def test_search_equals_bisect(texts: list[str], asked: list[str], right: bool) -> None:
    keys = sorted(text.encode() for text in texts)
    ends = [text.encode() for text in asked]
    find = bisect.bisect_right if right else bisect.bisect_left
    buffers = string_buffers(pa.array([key.decode() for key in keys], pa.string()))
    expected = [find(keys, end) for end in ends]
    assert search_sorted(buffers, ends, right=right).tolist() == expected


@given(st.lists(st.tuples(plain_key_texts, plain_key_texts), max_size=30), plain_key_texts, plain_key_texts)
def test_interval_tree_finds_what_meets(pairs: list[tuple[str, str]], first: str, second: str) -> None:
    intervals = [(*sorted((a.encode(), b.encode())), place) for place, (a, b) in enumerate(pairs)]
    low, high = sorted((first.encode(), second.encode()))
    tree = IntervalTree([(a, b, place) for a, b, place in intervals])
    found = list(tree.meeting(low, high))
    assert sorted(found) == [place for a, b, place in intervals if a <= high and b >= low]


def test_file_without_range_keeps_the_whole_chunk() -> None:
    found = prune(pa.array(["a", "b", "c"]), [KeyRange(None, None), KeyRange("b", "b")])
    assert found.from_row.tolist() == [0, 1]
    assert found.to_row.tolist() == [3, 2]
    assert found.pairs == 4
    assert found.kept().tolist() == [0, 1]


def test_range_in_java_order_is_not_trusted_where_orders_differ() -> None:
    # in Java U+1F600 sorts before U+FF5E, in UTF-8 behind it: the file holds both
    found = prune(pa.array(["\uff5e", "\U0001f600"]), [range_of(["\uff5e", "\U0001f600"])])
    assert found.pairs == 2


def test_no_keys_and_no_files() -> None:
    assert prune(pa.array([], pa.string()), [KeyRange("a", "b")]).pairs == 0
    assert len(prune(pa.array(["a"]), []).kept()) == 0


def test_sliced_and_large_arrays() -> None:
    keys = pa.array(["0", "a", "b", "c", "z"]).slice(1, 3)
    for kind in (pa.string(), pa.large_string()):
        for pruner in Pruner:
            found = prune(keys.cast(kind), [KeyRange("b", "y")], pruner)
            assert (found.from_row[0], found.to_row[0]) == (1, 3)


@pytest.mark.parametrize(("option", "pruner"), [(None, Pruner.SLICES), (True, Pruner.TREE), (False, Pruner.LIST)])
def test_option_names_the_pruner(option: bool | None, pruner: Pruner) -> None:
    assert pruner_for(option) is pruner


def test_many_files_use_the_compiled_search() -> None:
    keys = pa.array([f"{i:05d}" for i in range(1000)])
    ranges = [KeyRange(f"{i:05d}", f"{i + 9:05d}") for i in range(0, 1000, 10)] * 30
    found = prune(keys, ranges)
    assert np.all(found.to_row - found.from_row == 10)
    assert found.pairs == len(ranges) * 10
