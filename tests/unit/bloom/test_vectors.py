"""Filters that real Hudi 0.15.0 and 1.2.0 wrote (both the same bytes): built and read byte for byte."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakeindex.bloom import BloomFilter, parse_filter
from lakeindex.bloom.filter import FilterSize, build_sized
from lakeindex.options.types import FilterType

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "bloom.json").read_text(encoding="utf-8")
)


def java_strings(texts: list[str]) -> pa.Array:
    """As Java encodes them: a lone surrogate becomes a question mark."""
    return pa.array([text.encode("utf-8", "replace") for text in texts], pa.binary()).cast(pa.string())


def keys_of(case: dict[str, Any]) -> pa.Array:
    if "keys" in case:
        return java_strings(case["keys"])
    if case["keys_spec"] == "empty":
        return pa.array([], pa.string())
    _, prefix, first, last = case["keys_spec"].split(":")
    return pa.array([f"{prefix}{i:08d}" for i in range(int(first), int(last))])


def name_of(case: dict[str, Any]) -> str:
    return f"{case['type']}-{case['num_entries']}-{case['fpp']}-{case['max_entries']}-{case['keys_spec']}"


def built(case: dict[str, Any]) -> BloomFilter:
    size = FilterSize(FilterType(case["type"]), case["num_entries"], case["max_entries"], float(case["fpp"]))
    return build_sized(keys_of(case), size)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_built_text_is_hudis(case: dict[str, Any]) -> None:
    text = built(case).to_text()
    assert len(text) == case["b64_len"]
    assert hashlib.sha256(text).hexdigest() == case["b64_sha256"]


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_hudis_text_is_read(case: dict[str, Any]) -> None:
    text = case["b64"].encode() if "b64" in case else built(case).to_text()
    assert hashlib.sha256(text).hexdigest() == case["b64_sha256"]
    parsed = parse_filter(text, case["type"])
    assert isinstance(parsed, BloomFilter)
    assert "".join("01"[int(hit)] for hit in parsed.probe(java_strings(case["probe"]))) == case["member"]
    assert parsed.to_text() == text
    if len(keys_of(case)):
        assert np.all(parsed.probe(keys_of(case)))


def test_no_vector_got_lost() -> None:
    assert len(CASES) == 46
