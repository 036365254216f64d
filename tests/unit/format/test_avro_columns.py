"""Avro schemas of different writers: whether they hold the same values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakeindex.format.avro_columns import columns_of

DECIMAL = {"type": "fixed", "name": "d", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}
POINT = {"type": "record", "name": "P", "namespace": "a.b", "fields": [{"name": "x", "type": "long"}]}


def of(kind: Any, *more: tuple[str, Any]) -> dict[str, object]:
    fields = [{"name": name, "type": one} for name, one in (("v", kind), *more)]
    return columns_of(json.dumps({"type": "record", "name": "r", "fields": fields}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("long", {"type": "long"}),
        (DECIMAL, {**DECIMAL, "name": "other", "namespace": "n", "doc": "said"}),
        (POINT, {**POINT, "name": "Q", "namespace": "c"}),
        (POINT, {**POINT, "type": "error"}),
        ({"type": {"type": "array", "items": "int"}}, {"type": "array", "items": "int"}),
    ],
)
def test_names_and_forms_are_no_difference(one: Any, other: Any) -> None:
    assert of(one) == of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("long", "int"),
        ("long", ["null", "long"]),
        ("long", {"type": "long", "logicalType": "timestamp-micros"}),
        (DECIMAL, {**DECIMAL, "precision": 11}),
        (DECIMAL, {**DECIMAL, "scale": 3}),
        ({"type": "fixed", "name": "f", "size": 5}, {"type": "fixed", "name": "f", "size": 6}),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, {"type": "enum", "name": "e", "symbols": ["A", "B"]}),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}),
        ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}),
        (POINT, {**POINT, "fields": [{"name": "y", "type": "long"}]}),
        (POINT, {**POINT, "fields": [{"name": "x", "type": "int"}]}),
    ],
)
def test_what_holds_other_values_is_another_type(one: Any, other: Any) -> None:
    assert of(one) != of(other)


def test_a_type_that_was_named_before_is_that_type() -> None:
    """With its namespace or without."""
    for name in ("P", "a.b.P"):
        assert of(POINT, ("w", name)) == of(POINT, ("w", POINT))


def test_meta_columns_are_none_and_what_is_no_schema_is_the_same_as_itself_alone() -> None:
    assert of("long", ("_hoodie_commit_time", "string"), ("_hoodie_file_name", "string")) == of("long")
    for text in ("", "{}", "[1]", '{"fields": [3]}', '{"fields": [{"name": "v", "type": 3}]}', "[" * 100_000):
        assert columns_of(text) == {"": text}
