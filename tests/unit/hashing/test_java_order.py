from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.hashing.java_strings import java_min_max, java_order_key, orders_may_differ
from tests.strategies import any_texts


def utf16(text: str) -> list[int]:
    """UTF-16 units, which is what ``String.compareTo`` compares."""
    raw = text.encode("utf-16-be")
    return [int.from_bytes(raw[i : i + 2], "big") for i in range(0, len(raw), 2)]


@given(any_texts, any_texts)
def test_key_orders_as_java(first: str, second: str) -> None:
    assert (java_order_key(first) < java_order_key(second)) == (utf16(first) < utf16(second))
    assert java_order_key(first.encode()) == java_order_key(first)


@given(any_texts, any_texts)
def test_orders_agree_unless_both_hold_a_high_character(first: str, second: str) -> None:
    if not (orders_may_differ(first) and orders_may_differ(second)):
        assert (first.encode() < second.encode()) == (utf16(first) < utf16(second))


@pytest.mark.parametrize(
    ("text", "may_differ"),
    [("", False), ("z", False), ("\ud7ff", False), ("\ue000", True), ("a\uffff", True), ("\U00010000", True)],
)
def test_first_character_that_matters(text: str, may_differ: bool) -> None:
    assert orders_may_differ(text) is may_differ
    assert orders_may_differ(text.encode()) is may_differ


@given(st.lists(st.one_of(st.none(), any_texts), max_size=20))
def test_min_max_is_javas(texts: list[str | None]) -> None:
    present = [text for text in texts if text is not None]
    expected = (min(present, key=utf16), max(present, key=utf16)) if present else None
    assert java_min_max(pa.array(texts, pa.string())) == expected


def test_min_max_of_slices() -> None:
    keys = pa.array(["\U0001f600", "b", "\uff5e", "c", "\U0001f600"])
    assert java_min_max(keys) == ("b", "\uff5e")
    assert java_min_max(keys.slice(3)) == ("c", "\U0001f600")
    assert java_min_max(keys.slice(1, 1)) == ("b", "b")
    assert java_min_max(keys.slice(4)) == ("\U0001f600", "\U0001f600")
