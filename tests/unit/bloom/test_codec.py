from __future__ import annotations

import base64
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.bloom import BloomFilter, FilterProblem, build_filter, parse_filter
from lakeindex.bloom.filter import FilterSize, build_sized
from lakeindex.options.types import FilterType, WriteConfig
from tests.peak_memory import with_peak_memory

KEYS = pa.array([f"key-{i}" for i in range(500)])
SIMPLE = base64.b64decode(build_filter(KEYS, WriteConfig(filter_type=FilterType.SIMPLE)).to_text())
ONE_ROW = base64.b64decode(build_filter(KEYS, WriteConfig()).to_text())
ROWS = base64.b64decode(build_sized(KEYS, FilterSize(FilterType.DYNAMIC_V0, 100, 1_000, 1e-3)).to_text())
RAW = {"SIMPLE": SIMPLE, "ONE_ROW": ONE_ROW, "ROWS": ROWS}


def code_of(name: str) -> str | None:
    return None if name == "SIMPLE" else "DYNAMIC_V0"


def header(version: int = -1, hashes: int = 20, kind: int = 1, bits: int = 64) -> bytes:
    return struct.pack(">iibi", version, hashes, kind, bits)


def growth(entries: int, active: int, rows: int) -> bytes:
    return struct.pack(">iii", entries, active, rows)


DAMAGED: dict[str, tuple[bytes, str | None]] = {
    "empty": (b"", None),
    "one byte": (b"\xff", None),
    "header only": (header(), None),
    "header cut": (header()[:-1], None),
    "dynamic header only": (header(), "DYNAMIC_V0"),
    "dynamic cut in growth": (header() + growth(10, 1, 1)[:-1], "DYNAMIC_V0"),
    "old unversioned form": (header(version=5) + bytes(8), None),
    "version 0": (header(version=0) + bytes(8), None),
    "version -2": (header(version=-2) + bytes(8), None),
    "hash type 0 (Jenkins)": (header(kind=0) + bytes(8), None),
    "hash type 2": (header(kind=2) + bytes(8), None),
    "hash type -1": (header(kind=-1) + bytes(8), None),
    "no hashes": (header(hashes=0) + bytes(8), None),
    "negative hashes": (header(hashes=-1) + bytes(8), None),
    "two billion hashes": (header(hashes=2**31 - 1) + bytes(8), None),
    "no bits": (header(bits=0), None),
    "negative bits": (header(bits=-64) + bytes(8), None),
    "two billion bits": (header(bits=2**31 - 1) + bytes(8), None),
    "one byte short": (header() + bytes(7), None),
    "one byte long": (header() + bytes(9), None),
    "bits beyond the size": (header(bits=60) + b"\x00" * 7 + b"\xf0", None),
    "no rows": (header() + growth(10, 1, 0), "DYNAMIC_V0"),
    "negative rows": (header() + growth(10, 1, -1), "DYNAMIC_V0"),
    "two billion rows": (header() + growth(10, 1, 2**31 - 1) + header() + bytes(8), "DYNAMIC_V0"),
    "rows and bits that multiply past any memory": (
        header(bits=2**31 - 1) + growth(10, 1, 2**31 - 1) + header() + bytes(8),
        "DYNAMIC_V0",
    ),
    "no entries": (header() + growth(0, 1, 1) + header() + bytes(8), "DYNAMIC_V0"),
    "negative entries": (header() + growth(-5, 1, 1) + header() + bytes(8), "DYNAMIC_V0"),
    "negative active keys": (header() + growth(5, -1, 1) + header() + bytes(8), "DYNAMIC_V0"),
    "row of other bits": (header() + growth(5, 1, 1) + header(bits=63) + bytes(8), "DYNAMIC_V0"),
    "row of other hashes": (header() + growth(5, 1, 1) + header(hashes=3) + bytes(8), "DYNAMIC_V0"),
    "row of another version": (header() + growth(5, 1, 1) + header(version=1) + bytes(8), "DYNAMIC_V0"),
    "simple read as dynamic": (SIMPLE, "DYNAMIC_V0"),
    "dynamic read as simple": (ONE_ROW, None),
    "rows read as simple": (ROWS, "SIMPLE"),
    "row missing": (ROWS[: -(len(ROWS) - 25) // 5], "DYNAMIC_V0"),
    "unknown type": (SIMPLE, "DYNAMIC_V1"),
    "empty type": (SIMPLE, ""),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_filter_is_refused_without_allocating(name: str) -> None:
    raw, type_code = DAMAGED[name]
    text = base64.b64encode(raw)
    parsed, peak = with_peak_memory(lambda: parse_filter(text, type_code))
    assert isinstance(parsed, FilterProblem)
    assert parsed.reason
    assert peak < 1_000_000


@pytest.mark.parametrize(
    "text",
    [b"*", b"AAA", b"A===", "Ä", b"\xff\xfe", b"AAAA\nAAAA", b" AAAA", b"AAAA=AAAA", "not base64 at all", "\x00"],
    ids=repr,
)
def test_text_that_is_not_base64_is_refused(text: bytes | str) -> None:
    assert isinstance(parse_filter(text, None), FilterProblem)


@pytest.mark.parametrize("name", RAW)
@pytest.mark.parametrize("sixteenth", range(16))
def test_cut_filter_is_refused(name: str, sixteenth: int) -> None:
    raw = RAW[name]
    assert isinstance(parse_filter(base64.b64encode(raw[: len(raw) * sixteenth // 16]), code_of(name)), FilterProblem)


@pytest.mark.parametrize("name", RAW)
def test_flipped_bit_in_the_header_never_loses_a_key(name: str) -> None:
    header_bytes = 13 if name == "SIMPLE" else 25
    for bit in range(header_bytes * 8):
        raw = bytearray(RAW[name])
        raw[bit // 8] ^= 1 << bit % 8
        parsed = parse_filter(base64.b64encode(raw), code_of(name), len(KEYS), ["key-0", "key-499"])
        if isinstance(parsed, BloomFilter):
            assert parsed.probe(KEYS).all()


def test_filter_of_another_file_is_refused() -> None:
    parsed = parse_filter(base64.b64encode(ONE_ROW), "DYNAMIC_V0", known_keys=["key-0", "other"])
    assert parsed == FilterProblem("bloom filter does not hold key 'other', which is in its file")


@given(st.binary(max_size=200), st.sampled_from([None, "SIMPLE", "DYNAMIC_V0"]))
def test_any_bytes_give_a_filter_or_a_reason(raw: bytes, type_code: str | None) -> None:
    parsed = parse_filter(base64.b64encode(raw), type_code)
    if isinstance(parsed, BloomFilter):
        assert parsed.to_text() == base64.b64encode(raw)
        parsed.probe(KEYS)


@given(st.text(max_size=100))
def test_any_text_gives_a_filter_or_a_reason(text: str) -> None:
    assert isinstance(parse_filter(text, None), BloomFilter | FilterProblem)


def test_type_code_may_be_missing_or_of_any_case() -> None:
    text = base64.b64encode(SIMPLE)
    for code in (None, "SIMPLE", "simple"):
        assert isinstance(parse_filter(text, code), BloomFilter)
    assert isinstance(parse_filter(base64.b64encode(ONE_ROW), "dynamic_v0"), BloomFilter)
    assert isinstance(parse_filter(base64.b64encode(ONE_ROW).decode(), "DYNAMIC_V0"), BloomFilter)


def test_filter_that_lost_many_bits_is_refused_if_the_rows_are_known() -> None:
    raw = bytearray(ONE_ROW)
    raw[100:400] = bytes(300)
    text = base64.b64encode(raw)
    assert isinstance(parse_filter(text, "DYNAMIC_V0"), BloomFilter)
    refused = parse_filter(text, "DYNAMIC_V0", rows=len(KEYS))
    assert isinstance(refused, FilterProblem)
    assert "500 rows" in refused.reason


def test_parsed_bits_are_a_view_of_the_text() -> None:
    parsed = parse_filter(base64.b64encode(SIMPLE), None)
    assert isinstance(parsed, BloomFilter)
    assert not parsed.bits.flags.owndata
    assert not parsed.bits.flags.writeable
    assert np.array_equal(parsed.probe(KEYS), np.ones(len(KEYS), dtype=bool))
