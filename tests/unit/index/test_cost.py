"""Laws of the cost model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeindex.index.cost import LookupLoad, cost_of, hit_chance, requests_of, touched
from lakeindex.index.cost_constants import CONSTANTS

COUNTS = st.floats(0, 1e9)
LOADS = st.builds(LookupLoad, **dict.fromkeys(LookupLoad.__struct_fields__, COUNTS))


@given(LOADS, st.sampled_from(LookupLoad.__struct_fields__), st.floats(0, 1e6), st.booleans())
def test_more_work_never_costs_less(load: LookupLoad, name: str, more: float, has_filters: bool):
    bigger = replace(load, **{name: getattr(load, name) + more})
    before, after = (cost_of(one, CONSTANTS, has_filters=has_filters) for one in (load, bigger))
    assert after.seconds >= before.seconds
    assert requests_of(bigger, CONSTANTS) >= requests_of(load, CONSTANTS)
    assert bigger.bytes_read >= load.bytes_read


@given(st.floats(0, 1e6), st.floats(0, 1))
def test_chance_is_one(pairs: float, share: float):
    assert 0.0 <= hit_chance(pairs, share) <= 1.0


@given(st.floats(1, 1e6), st.floats(0, 1e6))
def test_no_more_groups_are_touched_than_there_are_groups_or_keys(groups: float, keys: float):
    assert touched(groups, keys) <= min(groups, max(keys, 1.0)) * (1 + 1e-9)


def test_known_values():
    assert hit_chance(1, 0.25) == 0.25
    assert hit_chance(0, 1.0) == 0.0
    assert touched(2, 2) == pytest.approx(1.5)
    assert touched(0, 5) == 0.0
    one_of_each = LookupLoad(1, files=1, filters=1, pairs_probed=1)
    assert cost_of(one_of_each, CONSTANTS, has_filters=False).bloom_check == 0.0
    assert cost_of(one_of_each, CONSTANTS, has_filters=True).bloom_check == pytest.approx(
        CONSTANTS.stage + CONSTANTS.filter + CONSTANTS.pair_probed
    )


def test_a_slower_store_makes_requests_dearer_and_nothing_cheaper():
    slow = CONSTANTS.slower_store(0.02)
    load = LookupLoad(10, files=5, files_opened=5)
    assert slow.request == 0.02
    gain = cost_of(load, slow, has_filters=False).seconds - cost_of(load, CONSTANTS, has_filters=False).seconds
    assert gain == pytest.approx((0.02 - CONSTANTS.request) * requests_of(load, CONSTANTS))
    assert CONSTANTS.slower_store(0.0) == CONSTANTS
