"""A table's columns in the words of Hive and of Spark, as Hudi's sync writes them; which changes a catalog can hold.

Hive's are lower case, nested ones without blanks. Spark's schema is JSON, in which Hudi leaves a blank behind
``"array",`` and ``"map",``: an equal text saves either writer a change after the other's sync.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakeindex.errors import SchemaMismatchError

_HIVE: Final[tuple[tuple[Any, str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_date32, "date"),
    (pa.types.is_time32, "int"),
    (pa.types.is_time64, "bigint"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_fixed_size_binary, "binary"),
)
_SPARK: Final = {"int": "integer", "bigint": "long"}
_RANKS: Final = {"int": 0, "bigint": 1, "float": 2, "double": 3}
"""Numbers from the narrow to the wide: a column may only become wider."""
_DECIMAL: Final = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


def hive_type(kind: pa.DataType, *, timestamps: bool) -> str:
    """The type of a column in Hive's words.

    Args:
        timestamps: as ``timestamp``; otherwise as the ``bigint`` that they are stored as, as Hudi's default has them.
    """
    for test, name in _HIVE:
        if test(kind):
            return name
    if pa.types.is_timestamp(kind):
        return "timestamp" if timestamps else "bigint"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        fields = (f"{one.name.lower()}:{hive_type(one.type, timestamps=timestamps)}" for one in kind)
        return f"struct<{','.join(fields)}>"
    if pa.types.is_map(kind):
        return f"map<string,{hive_type(kind.item_type, timestamps=timestamps)}>"
    if pa.types.is_list(kind):
        return f"array<{hive_type(kind.value_type, timestamps=timestamps)}>"
    raise SchemaMismatchError(f"no catalog has a type for {kind}", culprit=str(kind), hint="cast the column")


def spark_schema(fields: Sequence[pa.Field]) -> str:
    """Spark's JSON of a schema."""
    inner = ",".join(
        f'{{"name":{json.dumps(one.name)},"type":{_spark_type(one.type)},'
        f'"nullable":{json.dumps(one.nullable)},"metadata":{{}}}}'
        for one in fields
    )
    return f'{{"type":"struct","fields":[{inner}]}}'


def _spark_type(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return spark_schema(list(kind))
    if pa.types.is_list(kind):
        item = kind.value_field
        return f'{{"type":"array", "elementType":{_spark_type(item.type)},"containsNull":{json.dumps(item.nullable)}}}'
    if pa.types.is_map(kind):
        item = kind.item_field
        return (
            f'{{"type":"map", "keyType":"string","valueType":{_spark_type(item.type)},'
            f'"valueContainsNull":{json.dumps(item.nullable)}}}'
        )
    if pa.types.is_timestamp(kind):
        return '"timestamp"' if kind.tz else '"timestamp_ntz"'
    name = hive_type(kind, timestamps=True)
    return json.dumps(_SPARK.get(name, name))


def can_become(before: str, after: str) -> bool:
    """Whether a column of a catalog may be changed from a type to another: to itself, a wider number, more fields."""
    before, after = (re.sub(r"\s", "", one).lower() for one in (before, after))
    if before == after:
        return True
    if before in _RANKS and after in _RANKS:
        return _RANKS[before] < _RANKS[after]
    narrow, wide = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    if narrow and wide:
        scale = int(wide[2]) - int(narrow[2])
        return scale >= 0 and int(wide[1]) - int(narrow[1]) >= scale
    return _inside_can_become(before, after)


def _inside_can_become(before: str, after: str) -> bool:
    for outer in ("array", "map"):
        start = f"{outer}<"
        if before.startswith(start) and after.startswith(start):
            old, new = (_parts(one[len(start) : -1]) for one in (before, after))
            return len(old) == len(new) and all(map(can_become, old, new))
    if before.startswith("struct<") and after.startswith("struct<"):
        old_fields, new_fields = (_fields(one) for one in (before, after))
        return all(name in new_fields and can_become(kind, new_fields[name]) for name, kind in old_fields.items())
    return False


def _fields(struct: str) -> Mapping[str, str]:
    named = (part.partition(":") for part in _parts(struct[len("struct<") : -1]))
    return {name: kind for name, _, kind in named}


def _parts(text: str) -> list[str]:
    """What commas divide, those inside of ``<>`` and ``()`` apart."""
    parts, depth, begun = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and not depth:
            parts.append(text[begun:at])
            begun = at + 1
    return [*parts, text[begun:]]
