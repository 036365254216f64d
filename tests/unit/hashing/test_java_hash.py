"""Bucket hashes against vectors that Hudi's own classes made, and against plain Python."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeindex.errors import InvariantError
from lakeindex.hashing.java_strings import bucket_hashes, string_hashes
from tests.vectors_support import VECTORS

PIECES = st.sampled_from(
    [",", ":", "id", "k2", "x", "a:b", "__null__", "__empty__", "é", "中", "\U0001f600", "\ud7ff", ""]
)
KEYS = st.lists(PIECES, max_size=12).map("".join)


def string_hash(text: str) -> int:
    units = np.frombuffer(text.encode("utf-16-le", "surrogatepass"), np.uint16)
    h = 0
    for unit in units:
        h = (31 * h + int(unit)) & 0xFFFFFFFF
    return h


def list_hash(strings: list[str | None]) -> int:
    h = 1
    for one in strings:
        h = (31 * h + (0 if one is None else string_hash(one))) & 0xFFFFFFFF
    return h


def value_of(text: str) -> str | None:
    return {"__null__": None, "__empty__": ""}.get(text, text)


def strings_of_new(key: str, fields: list[str]) -> list[str | None]:
    """Straight from the description: a value ends at the last comma before the next colon that has one before it."""
    if "," not in key or ":" not in key:
        return [key]
    taken: list[str | None] = []
    rest: str | None = key
    while rest is not None and ":" in rest:
        name, _, value = rest.partition(":")
        rest = None
        for place, character in enumerate(value):
            if character == ":" and "," in value[:place]:
                cut = value.rindex(",", 0, place)
                value, rest = value[:cut], value[cut + 1 :]
                break
        if name in fields:
            taken.append(value_of(value))
    return taken or [key]


def strings_of_old(key: str, fields: list[str]) -> list[str | None]:
    if ":" not in key:
        return [key]
    parts = key.split(",")
    while parts and not parts[-1]:
        parts.pop()
    pairs = [part.partition(":") for part in parts]
    return [value_of(v) if colon else name for name, colon, v in pairs if not colon or name in fields]


def hash_of(key: str, fields: list[str], *, old: bool) -> int:
    return int(bucket_hashes(pa.array([key]), fields, old_rule=old)[0]) & 0xFFFFFFFF


@pytest.mark.parametrize(("file", "old"), [("keys_12.json", False), ("keys_15.json", True)])
def test_every_vector_of_hudi(file: str, old: bool) -> None:
    loaded = json.loads((VECTORS / file).read_text(encoding="utf-8"))
    checked = 0
    for case in loaded["bucket"]:
        fields = case["fields"].split(",")
        found = hash_of(case["key"], fields, old=old)
        assert found == list_hash(case["hash_keys"]), case
        assert [(found & 0x7FFFFFFF) % n for n in loaded["num_buckets"]] == case["buckets"], case
        checked += 1
    assert checked == 242


ODD = ["id:__empty__,k2:__null__", "id:,k2:x", "id:a,b,k2:", "id:__empty__", "__null__", "", "k2:__empty__,,id:é"]


@example(ODD, ["id", "k2"])
@given(st.lists(KEYS), st.lists(st.sampled_from(["id", "k2", "x", "a", ""]), min_size=1, max_size=3))
def test_equals_plain_python(keys: list[str], fields: list[str]) -> None:
    array = pa.array(keys, pa.string())
    assert string_hashes(array).view(np.uint32).tolist() == [string_hash(key) for key in keys]
    new = bucket_hashes(array, fields).view(np.uint32).tolist()
    old = bucket_hashes(array, fields, old_rule=True).view(np.uint32).tolist()
    assert new == [list_hash(strings_of_new(key, fields)) for key in keys]
    assert old == [list_hash(strings_of_old(key, fields)) for key in keys]


@given(st.lists(KEYS, min_size=1), st.data())
def test_slices_and_string_types_give_the_same(keys: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(keys)))
    whole = pa.array(keys, pa.string())
    expected = bucket_hashes(whole, ["id"])[start:].tolist()
    for array in (
        whole,
        whole.cast(pa.large_string()),
        whole.dictionary_encode(),
        pa.chunked_array([whole[:1], whole[1:]]),
    ):
        assert bucket_hashes(array.slice(start), ["id"]).tolist() == expected


def test_releases_differ_on_keys_with_a_colon() -> None:
    assert hash_of("a:b", ["id"], old=False) == list_hash(["a:b"])
    assert hash_of("a:b", ["id"], old=True) == 1
    assert hash_of("id:a,b,k2:3", ["id", "k2"], old=False) == list_hash(["a,b", "3"])
    assert hash_of("id:a,b,k2:3", ["id", "k2"], old=True) == list_hash(["a", "b", "3"])


def test_a_null_key_is_refused() -> None:
    with pytest.raises(InvariantError, match="row 1"):
        bucket_hashes(pa.array(["a", None]), ["id"])


def test_no_keys() -> None:
    assert bucket_hashes(pa.array([], pa.string()), ["id"]).shape == (0,)
