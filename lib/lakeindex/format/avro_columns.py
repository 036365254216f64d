"""The columns of an Avro schema as plain values, so that two schemas can be compared that different writers wrote.

Records, enums and fixed types carry names, namespaces and documentation that say nothing of the data,
and each writer makes up its own; fields count by name, type and order within their record.

Source: Avro 1.11, "Parsing Canonical Form"; unlike there, names of types are left out and logical types stay.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

Shape: TypeAlias = "str | tuple[Shape, ...]"

_KEPT: Final = ("size", "symbols", "logicalType", "precision", "scale")
_META: Final = frozenset(
    {
        "_hoodie_commit_time",
        "_hoodie_commit_seqno",
        "_hoodie_record_key",
        "_hoodie_partition_path",
        "_hoodie_file_name",
    }
)
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})


def columns_of(schema_text: str) -> dict[str, object]:
    """Name -> type of each field of a record schema, Hudi's meta columns apart;
    types are equal if they hold the same values.

    Args:
        schema_text: JSON of a record schema. What is none gives one column without a name, equal only to the same text.
    """
    try:
        schema = json.loads(schema_text)
        seen: dict[str, Shape] = {}
        shapes = {field["name"]: _shape(field["type"], seen) for field in schema["fields"]}
        return {name: shape for name, shape in shapes.items() if name not in _META}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {"": schema_text}


def _shape(schema: Any, seen: dict[str, Shape]) -> Shape:
    match schema:
        case str():
            return seen.get(schema.rpartition(".")[2], schema)
        case list():
            return ("union", *(_shape(branch, seen) for branch in schema))
        case dict():
            return _typed(schema, seen)
    raise TypeError(f"no Avro schema: {schema!r}")


def _typed(schema: dict[str, Any], seen: dict[str, Shape]) -> Shape:
    kind = schema["type"]
    if not isinstance(kind, str):
        return _shape(kind, seen)
    extras = tuple(f"{key}={schema[key]}" for key in _KEPT if key in schema)
    if kind in ("record", "error"):
        inner = tuple((field["name"], _shape(field["type"], seen)) for field in schema["fields"])
        found: Shape = ("record", *inner)
    elif kind == "array":
        found = ("array", _shape(schema["items"], seen))
    elif kind == "map":
        found = ("map", _shape(schema["values"], seen))
    else:
        found = (kind, *extras) if extras else kind
    if kind in _NAMED and "name" in schema:
        seen[schema["name"].rpartition(".")[2]] = found
    return found
