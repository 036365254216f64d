"""The marker row's content: time stamps in the order of the deltas, generations, and what is damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.errors import HBaseTableError
from lakeindex.index.hbase.hbase_store import IndexMarker
from lakeindex.index.locations.change_log import place_of

INSTANTS = [f"202601010000000{n:02d}" for n in range(12)]
NAMES = [name for i in INSTANTS for name in (i, f"{i}.c-000001-aaaaaaaaaaaa", f"{i}.c-000002-bbbbbbbbbbbb")]


@given(st.permutations(NAMES), st.lists(st.integers(0, 50), min_size=len(NAMES), max_size=len(NAMES)))
def test_stamps_are_in_the_order_of_the_deltas_whatever_the_order_they_are_given_in(
    names: list[str], steps: list[int]
) -> None:
    marker, now = IndexMarker("uri"), 1_000_000
    for name, step in zip(names, steps, strict=True):
        now += step
        stamp = marker.stamp_for(name, now)
        marker = marker.with_stamp(name, stamp)
    in_order = [marker.stamps[name] for name in sorted(names, key=place_of)]
    assert in_order == sorted(in_order)


def test_a_delta_that_comes_late_goes_below_those_after_it() -> None:
    marker = IndexMarker("uri").with_stamp(INSTANTS[0], 100).with_stamp(INSTANTS[2], 200)
    assert marker.stamp_for(INSTANTS[1], 900) == 199
    assert marker.stamp_for(INSTANTS[3], 900) == 900


def test_a_stamp_never_repeats_though_the_clock_stands_still() -> None:
    marker = IndexMarker("uri", last=500)
    first = marker.stamp_for(INSTANTS[0], 10)
    assert first == 501
    assert marker.with_stamp(INSTANTS[0], first).stamp_for(INSTANTS[1], 10) == 502


def test_the_generation_in_force_stays_while_others_are_built_beside_it() -> None:
    marker = IndexMarker("uri").with_generation("g0", None)
    for number in range(1, 20):
        marker = marker.with_generation(f"g{number}", "g0")
        assert "g0" in marker.generations
        assert marker.generations[-1] == f"g{number}"
    assert len(marker.generations) < 8
    assert "lost" not in marker.with_generation("g20", "lost").generations


def test_deltas_that_are_folded_are_forgotten() -> None:
    one, two = INSTANTS[:2]
    marker = IndexMarker("uri", ("g",), {one: 1, two: 2}, (one, two), (one, two), 2)
    assert marker.without(frozenset((one,))) == IndexMarker("uri", ("g",), {two: 2}, (two,), (two,), 2)


def test_it_is_read_back_as_it_was() -> None:
    marker = IndexMarker("file:///t é", ("g1", "g2"), {INSTANTS[0]: 17}, (INSTANTS[0],), (INSTANTS[1],), 17)
    assert IndexMarker.decode(marker.encode(), "t") == marker


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"\xff", b'{"table": 1}', b"7"])
def test_a_damaged_one_is_said_to_be(text: bytes) -> None:
    with pytest.raises(HBaseTableError, match="marker row of table 'ix' of HBase is damaged") as caught:
        IndexMarker.decode(text, "ix")
    assert "lakeindex index build" in str(caught.value)
