from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.errors import InvariantError
from lakeindex.hashing.arrow import plain_strings, string_buffers
from lakeindex.hashing.murmur import hash_all, murmur
from tests.strategies import any_texts

MASK = 0xFFFFFFFF


def plain_murmur(key: bytes, seed: int) -> int:
    """The hash spelled out in plain integers, block by block and byte by byte."""
    h = (seed ^ len(key)) & MASK
    whole = len(key) // 4 * 4
    for start in range(0, whole, 4):
        word = int.from_bytes(key[start : start + 4], "little") * 0x5BD1E995 & MASK
        word = (word ^ word >> 24) * 0x5BD1E995 & MASK
        h = h * 0x5BD1E995 & MASK ^ word
    signed = [byte - 256 if byte > 127 else byte for byte in key[whole:]]
    if signed:
        for place, byte in enumerate(reversed(signed)):
            h ^= byte << 8 * place & MASK
        h = h * 0x5BD1E995 & MASK
    h ^= h >> 13
    h = h * 0x5BD1E995 & MASK
    h ^= h >> 15
    return h - 2**32 if h > 2**31 - 1 else h


@given(st.lists(any_texts, max_size=20), st.integers(-(2**31), 2**31 - 1))
def test_equals_the_plain_hash(texts: list[str], seed: int) -> None:
    expected = [plain_murmur(text.encode(), seed & MASK) for text in texts]
    assert murmur(pa.array(texts, pa.string()), seed).tolist() == expected


def test_frozen_hashes() -> None:
    keys = pa.array(["", "a", "ab", "abc", "abcd", "key-00000001", "kéy", "中文键"])
    assert murmur(keys).tolist() == FROZEN


FROZEN = [0, -1838653602, 1525573013, 1775488903, 646393889, 1186427664, -237784196, -1019388307]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_every_string_type_and_slices(kind: pa.DataType) -> None:
    texts = ["x", "a", "", "key-00000001", "y"]
    keys = pa.array(texts).cast(kind).slice(1, 3)
    assert murmur(keys).tolist() == [FROZEN[1], 0, FROZEN[5]]
    chunked = pa.chunked_array([keys, keys.slice(0, 1)])
    assert murmur(chunked).tolist() == [FROZEN[1], 0, FROZEN[5], FROZEN[1]]


def test_nothing_to_hash() -> None:
    assert len(murmur(pa.array([], pa.string()))) == 0
    assert len(murmur(pa.chunked_array([], pa.string()))) == 0


def test_null_is_named() -> None:
    with pytest.raises(InvariantError, match="row 1 of 2"):
        murmur(pa.array(["a", None]))


def test_buffers_are_not_copied() -> None:
    keys = pa.array(["ab", "", "cde"])
    buffers = string_buffers(keys)
    assert buffers.data.ctypes.data == keys.buffers()[2].address
    assert [buffers.value(row) for row in range(len(buffers))] == [b"ab", b"", b"cde"]
    assert buffers.has_empty()
    assert not buffers.slice(2, 3).has_empty()
    assert np.array_equal(buffers.slice(1, 3).offsets, [2, 2, 5])


def test_plain_strings_keeps_string_types() -> None:
    assert plain_strings(pa.array(["a"])).type == pa.string()
    assert plain_strings(pa.array(["a"], pa.large_string())).type == pa.large_string()
    assert plain_strings(pa.array(["a"]).dictionary_encode()).type == pa.string()


def test_both_forms_give_the_hash_spelled_out_whatever_byte_is_last() -> None:
    """Bytes are signed; of the words of four, up to three are left."""
    texts = ["x" * count + tail for count in range(5) for tail in ("", "é", "中", "\U0001f600", "é\x7f", "\x7f")]
    buffers = string_buffers(pa.array(texts, pa.string()))
    for seed in (0, 7, MASK):
        expected = [plain_murmur(text.encode(), seed) for text in texts]
        for form in (hash_all, hash_all.__wrapped__):
            out = np.zeros(len(texts), np.uint32)
            form(buffers.data, buffers.offsets, seed, out)
            assert out.view(np.int32).tolist() == expected
