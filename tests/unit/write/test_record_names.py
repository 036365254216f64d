"""The names in the Avro schema of a table are ones that Avro takes, whatever the table is called."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa

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
