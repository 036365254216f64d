"""The walks over footers and page headers do the same plain and compiled, whatever the bytes are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.parquet.thrift_walk import (
    HEADER_END,
    NUMBERS,
    PAGE_NUMBERS,
    PLACES,
    SENSELESS,
    page_header,
    walk,
)
from tests.unit.parquet.test_footer_text import footer_bytes, written

FOOTER = footer_bytes(written(group=50))
HEADERS = written(group=50)[4:400]


def exactly(form: object, raw: bytes) -> object:
    """For a compiled form a buffer that ends with the bytes; those of an object have a zero behind them."""
    return np.frombuffer(raw, np.uint8).copy() if hasattr(form, "__wrapped__") else raw


def walked(form: object, raw: bytes, columns: int = 8) -> list[object]:
    found = np.full((2, columns, NUMBERS), -1, np.int64)
    places, seen = np.full(PLACES, -1, np.int64), np.zeros(1, np.int64)
    form(exactly(form, raw), 0, found, places, seen)  # type: ignore[operator]
    return [seen.tolist(), places.tolist(), found.tolist()]


def header_of(form: object, raw: bytes, start: int) -> list[int]:
    found = np.zeros(PAGE_NUMBERS, np.int64)
    form(exactly(form, raw), start, found)  # type: ignore[operator]
    return list(found.tolist())


def test_the_whole_footer_is_walked() -> None:
    assert walked(walk, FOOTER)[0] == [2]


@given(st.data())
def test_both_walk_a_damaged_footer_alike(data: st.DataObject) -> None:
    raw = bytearray(FOOTER)
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    for content in (bytes(raw), cut):
        assert walked(walk, content) == walked(walk.__wrapped__, content)


@given(st.binary(max_size=60))
def test_both_read_any_bytes_as_a_header_alike(raw: bytes) -> None:
    for start in {0, len(raw) // 2}:
        assert header_of(page_header, raw, start) == header_of(page_header.__wrapped__, raw, start)


@given(st.integers(0, len(HEADERS) - 60), st.integers(0, 59), st.integers(0, 255))
def test_both_read_a_damaged_header_alike(start: int, place: int, byte: int) -> None:
    raw = bytearray(HEADERS)
    raw[start + place] = byte
    assert header_of(page_header, bytes(raw), start) == header_of(page_header.__wrapped__, bytes(raw), start)


@pytest.mark.parametrize("coded", [b"\x06" + b"\x80" * 9 + b"\x02", b"\x06" + b"\xff" * 9 + b"\x7f"])
def test_a_number_of_more_than_64_bits_is_none(coded: bytes) -> None:
    for form in (page_header, page_header.__wrapped__):
        assert header_of(form, coded + b"\x00", 0)[HEADER_END] < 0


def test_a_field_number_of_more_than_16_bits_is_senseless() -> None:
    raw = b"\x05\x80\x80\x08\x02\x00"  # an int32 of field 65,536
    for form in (page_header, page_header.__wrapped__):
        assert header_of(form, raw, 0)[HEADER_END] == SENSELESS
