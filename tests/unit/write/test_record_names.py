"""The names in the Avro schema of a table are ones that Avro takes, whatever the table is called."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pytest

from lakeindex.errors import TableCorruptError
from lakeindex.write.types.avro_schema import schema_from_avro, schema_to_avro

SCHEMA = pa.schema([("id", pa.string()), ("s", pa.struct([("m", pa.decimal128(5, 2))]))])
VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)


def named(avro: Any) -> list[str]:
    if isinstance(avro, list):
        return [name for one in avro for name in named(one)]
    if not isinstance(avro, dict):
        return []
    mine = [avro[key] for key in ("name", "namespace") if key in avro]
    return mine + [name for key in ("fields", "type", "items", "values") for name in named(avro.get(key))]


def test_names() -> None:
    for name in ("orders", "2026_orders", "9", "7.1-b", "a b", "ünï", "日本", "१२", "_", "-", "a/b", "x" * 300):
        text = schema_to_avro(SCHEMA, name, with_meta_columns=True)
        found = named(json.loads(text))
        assert len(found) > 8
        assert [one for one in found if not VALID.fullmatch(one)] == [], name
        assert schema_from_avro(text) == SCHEMA
    assert json.loads(schema_to_avro(SCHEMA, "orders"))["name"] == "orders_record"


def test_a_type_that_was_named_before_is_that_one() -> None:
    """A fixed, an enum or a record of a source's schema, which HoodieStreamer keeps, by its name or with its namespace."""
    money = {"type": "fixed", "name": "Money", "size": 8, "logicalType": "decimal", "precision": 9, "scale": 2}
    hue = {"type": "enum", "name": "Hue", "symbols": ["R", "G"]}
    raw = {"type": "fixed", "name": "n.Raw", "size": 4}

    def value(space: str | None, kind: str) -> dict[str, Any]:
        size = {"type": "fixed", "name": "Size", "size": 1 if kind == "long" else 2}
        fields = [("x", kind), ("y", size), ("z", ["null", "Size"])]
        named = {"type": "record", "name": "Value", "fields": [{"name": name, "type": one} for name, one in fields]}
        return named if space is None else {**named, "namespace": space}

    types = [
        money,
        ["null", "Money"],
        hue,
        "n.Hue",
        raw,
        "Raw",
        value("a", "long"),
        value("b", "int"),
        "a.Value",
        "b.Value",
    ]
    types += [
        value(None, "string"),
        "Value",
        "n.Value",
        {"type": "array", "items": "a.Size"},
        {"type": "map", "values": "b.Size"},
    ]
    fields = [{"name": f"c{number}", "type": one} for number, one in enumerate(types)]
    found = schema_from_avro(json.dumps({"type": "record", "name": "n.t", "fields": fields}))

    def struct(kind: pa.DataType, size: int) -> pa.DataType:
        inner = pa.binary(size)
        return pa.struct([pa.field("x", kind, False), pa.field("y", inner, False), pa.field("z", inner)])

    one, other, mine = struct(pa.int64(), 1), struct(pa.int32(), 2), struct(pa.string(), 2)
    lists = [
        pa.list_(pa.field("element", pa.binary(1), False)),
        pa.map_(pa.string(), pa.field("value", pa.binary(2), False)),
    ]
    wanted = (
        [pa.decimal128(9, 2)] * 2
        + [pa.string()] * 2
        + [pa.binary(4)] * 2
        + [one, other, one, other, mine, mine, mine, *lists]
    )
    assert found.types == wanted
    assert [field.name for field in found if field.nullable] == ["c1"]


@pytest.mark.parametrize("text", ["[]", '"string"', "7", "null", '{"fields": [{"name": "v", "type": "Gone"}]}'])
def test_what_is_no_schema_is_damage(text: str) -> None:
    with pytest.raises(TableCorruptError, match="schema cannot be read"):
        schema_from_avro(text)
