"""What a partition path says of the values of its rows, and when it says nothing."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr

from lakeindex.model import KeyGeneratorType
from lakeindex.operations.rows.known_bounds import path_facts
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec, PartitionKind
from lakeindex.write.keys.time_partitions import TimeOptions

KINDS = {
    "s": pa.string(),
    "i": pa.int32(),
    "l": pa.int64(),
    "b": pa.bool_(),
    "d": pa.date32(),
    "f": pa.float64(),
    "t": pa.timestamp("us"),
}
SCHEMA = pa.schema(list(KINDS.items()))


def spec_of(*fields: str, hive: bool = False, encoded: bool = False) -> KeySpec:
    kind = KeyGeneratorType.SIMPLE if len(fields) == 1 else KeyGeneratorType.COMPLEX
    pairs = tuple((name, PartitionKind.SIMPLE) for name in fields)
    return KeySpec(("id", "id2"), pairs, kind, hive_style=hive, url_encode=encoded)


def said(path: str, spec: KeySpec) -> dict[str, Any]:
    """By column the one value that all rows of a partition have."""
    found = path_facts(path, spec, SCHEMA)
    assert all(one.least == one.greatest and not one.may_be_null for one in found.values())
    return {name: one.least for (name,), one in found.items()}


@pytest.mark.parametrize(
    ("path", "fields", "options", "wanted"),
    [
        ("eu", ("s",), {}, {"s": "eu"}),
        ("s=eu", ("s",), {"hive": True}, {"s": "eu"}),
        ("eu", ("s",), {"hive": True}, {}),
        ("a%2Fb", ("s",), {"encoded": True}, {"s": "a/b"}),
        ("a/b", ("s",), {}, {"s": "a/b"}),
        ("a/b", ("s",), {"encoded": True}, {}),
        ("a/7", ("s", "i"), {}, {"s": "a", "i": 7}),
        ("a/b/7", ("s", "i"), {}, {}),
        ("7/true", ("l", "b"), {}, {"l": 7, "b": True}),
        ("07", ("i",), {}, {}),
        ("+7", ("i",), {}, {}),
        ("x", ("i",), {}, {}),
        ("TRUE", ("b",), {}, {}),
        ("1.5", ("f",), {}, {}),
        ("2020-01-02 03:04:05", ("t",), {}, {}),
        ("__HIVE_DEFAULT_PARTITION__", ("s",), {}, {}),
        ("s=__HIVE_DEFAULT_PARTITION__", ("s",), {"hive": True}, {}),
        ("gone", ("gone",), {}, {}),
    ],
)
def test_a_path_says_a_value_only_if_no_other_makes_it(
    path: str, fields: tuple[str, ...], options: dict[str, bool], wanted: dict[str, Any]
):
    assert said(path, spec_of(*fields, **options)) == wanted


def test_times_say_nothing():
    spec = KeySpec(("id",), (("s", PartitionKind.SIMPLE),), KeyGeneratorType.SIMPLE)
    assert path_facts("eu", spec, SCHEMA)
    timed = tuple((name, PartitionKind.TIMESTAMP) for name, _ in spec.partition_fields)
    force_setattr(spec, "partition_fields", timed)
    assert not path_facts("eu", spec, SCHEMA)


def test_times_that_are_texts_in_paths_say_nothing_by_the_unit_of_numbers():
    options = TimeOptions.from_properties(
        {f"hoodie.keygen.timebased.{name}": text for name, text in
         (("timestamp.type", "EPOCHMILLISECONDS"), ("output.dateformat", "yyyy-MM-dd"))}
    )  # fmt: skip
    fields = (("t", PartitionKind.TIMESTAMP),)
    for part, known in (("record_key", {("t",)}), ("partition_path", set())):
        spec = KeySpec(
            ("id",), fields, KeyGeneratorType.CUSTOM, time_options=options, timestamp_texts=frozenset({part})
        )
        assert set(path_facts("2020-01-02", spec, SCHEMA)) == known, part


VALUES = {
    "s": st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=6),
    "i": st.integers(-(2**31), 2**31 - 1),
    "l": st.integers(-(2**63), 2**63 - 1),
    "b": st.booleans(),
    "d": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
}


@given(st.sampled_from(sorted(VALUES)), st.data(), st.booleans(), st.booleans())
def test_what_a_path_says_is_what_its_rows_have(name: str, data: st.DataObject, hive: bool, encoded: bool):
    value = data.draw(VALUES[name])
    spec = spec_of(name, hive=hive, encoded=encoded)
    batch = pa.table({"id": ["a"], "id2": ["b"], name: pa.array([value], KINDS[name])})
    keyed = KeyGenerator(spec).keys_of(batch)
    if keyed.problem[0].as_py() is None:
        found = said(keyed.partition_path[0].as_py(), spec)
        stored = (value - dt.date(1970, 1, 1)).days if name == "d" else value
        assert found in ({}, {name: stored})
        if name in "ilbd":
            assert found, "a path of a plain value leaves no doubt"
