"""Arrow schema <-> the Avro schema text of ``extraMetadata.schema``, as Hudi's Spark writers name things.

Namespace ``hoodie.<table>``, record ``<table>_record``; a nested struct is a record named after its field with the
parent's full name as namespace; a decimal is a ``fixed`` of the smallest size that holds its precision; a nullable
field is ``["null", T]`` with default null. Source: commits of Hudi 0.15.0 and 1.2.0 (docs/format.md).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa

from lakeindex.errors import SchemaMismatchError, TableCorruptError
from lakeindex.frozen import Frozen
from lakeindex.write.types.type_fit import is_text

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
DELETE_MARK = "_hoodie_is_deleted"
"""The column of a batch that marks rows to be deleted."""
CHANGE_TYPE = "_change_type"
"""Column of a feed of changes that says what happened to a row, in the words of Delta's change data feed."""
OWN_PREFIX = "_li_"
"""What names of columns begin with that the library puts beside those of a table, in checkpoints for example."""
META_FIELDS = tuple(pa.field(name, pa.string()) for name in META_COLUMNS)

_MOST_DIGITS = 38
"""Of a decimal, in Spark and in Hudi."""

_AVRO_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

AvroType = str | dict[str, Any] | list[Any]


def schema_to_avro(schema: pa.Schema, table_name: str, *, with_meta_columns: bool = False) -> str:
    """Avro JSON of a table's columns (meta columns in ``schema`` are left out, or put first on request).

    Raises:
        SchemaMismatchError: a column whose name or type Avro cannot express, or two of one name but for case.
    """
    check_names(schema)
    name = re.sub(r"[^A-Za-z0-9_]", "_", table_name)
    name = f"_{name}" if name[0].isdigit() else name  # else no reader of Avro takes the schema
    namespace = f"hoodie.{name}"
    record = f"{name}_record"
    fields = [_field(f, f"{namespace}.{record}") for f in schema if f.name not in META_COLUMNS]
    if with_meta_columns:
        meta = [{"name": m, "type": ["null", "string"], "doc": "", "default": None} for m in META_COLUMNS]
        fields = meta + fields
    return json.dumps(
        {"type": "record", "name": record, "namespace": namespace, "fields": fields}, separators=(",", ":")
    )


def check_names(schema: pa.Schema, brought_by: str | None = None) -> None:
    """Refuse columns that differ only in upper and lower case, from each other or from Hudi's own: Spark, Hive and Hudi
    take them for one, and no longer read the table; and columns that are called like the library's own.

    Args:
        brought_by: what has them: ``the batch``, ``the table``; None: they are those of a new table.

    Raises:
        SchemaMismatchError: there are two such columns, or fields of one struct; or a name is the library's own.
    """
    ours = next((field.name for field in schema if field.name.startswith(OWN_PREFIX)), None)
    if ours is not None:
        raise own_name(ours, brought_by)
    own = {name.lower(): name for name in (*META_COLUMNS, DELETE_MARK)}
    _check_siblings([field for field in schema if own.get(field.name.lower()) != field.name], "", own, brought_by)


def _check_siblings(fields: list[pa.Field], parent: str, taken: dict[str, str], brought_by: str | None) -> None:
    seen = dict(taken)
    for field in fields:
        name = f"{parent}{field.name}"
        other = seen.get(field.name.lower())
        if other is not None:
            raise same_name(name, other, brought_by)
        seen[field.name.lower()] = name
        _check_siblings(_inner_fields(field.type), f"{name}.", {}, brought_by)


def own_name(name: str, brought_by: str | None = None) -> SchemaMismatchError:
    """The error of a column that is called like the library's own; arguments as of :func:`check_names`."""
    hint = f"rename it; of a quarantine file leave out all columns that begin with {OWN_PREFIX!r}"
    if brought_by == "the table":
        hint = "write to this table with Hudi, or copy its rows into a new one under another name"
    return SchemaMismatchError(
        f"column {name!r} is called like lakeindex's own beside the table's, which begin with {OWN_PREFIX!r}",
        culprit=name,
        hint=hint,
    )


def same_name(name: str, other: str, brought_by: str | None = None) -> SchemaMismatchError:
    """The error of two columns of one name but for case; arguments as of :func:`check_names`."""
    if brought_by is None:
        said, hint = f"column {name!r} is there twice, as {other!r} and as {name!r}", "rename one of them"
    else:
        said = f"{brought_by} has column {name!r}, which differs from {other!r} only in upper and lower case"
        hint = f"call it {other!r}, or give it another name"
        if brought_by == "the table":
            hint = "roll back the commit that brought it, or rename it by Spark with spark.sql.caseSensitive=true"
    return SchemaMismatchError(
        said, culprit=name, hint=f"{hint}: Spark and Hive take no notice of upper and lower case"
    )


def _inner_fields(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return _inner_fields(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _inner_fields(kind.value_type)
    return []


def _avro_name(name: str) -> str:
    """A name that Avro takes, near another one."""
    found = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "column"
    return f"_{found}" if found[0].isdigit() else found


def _field(field: pa.Field, namespace: str) -> dict[str, Any]:
    if not _AVRO_NAME.fullmatch(field.name):
        raise SchemaMismatchError(
            f"column {field.name!r} is not a valid Avro name",
            culprit=field.name,
            hint=f"rename it, to {_avro_name(field.name)!r} for example: letters, digits, underscores; no digit first",
        )
    avro = _to_avro(field.type, field.name, namespace)
    if field.nullable:
        return {"name": field.name, "type": ["null", avro], "default": None}
    return {"name": field.name, "type": avro}


_PRIMITIVES: tuple[tuple[Any, str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int64, "long"),
    (pa.types.is_uint32, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_binary, "bytes"),
    (pa.types.is_large_binary, "bytes"),
)
_SMALL_INTEGERS = (pa.types.is_int8, pa.types.is_int16, pa.types.is_int32, pa.types.is_uint8, pa.types.is_uint16)


def _to_avro(kind: pa.DataType, name: str, namespace: str) -> AvroType:
    for test, avro in _PRIMITIVES:
        if test(kind):
            return avro
    if any(test(kind) for test in _SMALL_INTEGERS):
        return "int"
    if pa.types.is_dictionary(kind):
        return _to_avro(kind.value_type, name, namespace)
    if pa.types.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    if pa.types.is_timestamp(kind):
        unit = "millis" if kind.unit == "ms" else "micros"  # of a table of another writer, whose keys count them
        return {"type": "long", "logicalType": f"{'timestamp' if kind.tz else 'local-timestamp'}-{unit}"}
    if pa.types.is_decimal(kind):
        return _decimal(kind, name, namespace)
    return _nested(kind, name, namespace)


def _decimal(kind: pa.DataType, name: str, namespace: str) -> AvroType:
    if kind.precision > _MOST_DIGITS or not 0 <= kind.scale <= kind.precision:
        raise _cannot_hold(kind, name, f"cast it to a decimal128 of at most {_MOST_DIGITS} digits, scale 0 or more")
    return {
        "type": "fixed",
        "name": "fixed",
        "namespace": f"{namespace}.{name}",
        "size": _decimal_bytes(kind.precision),
        "logicalType": "decimal",
        "precision": kind.precision,
        "scale": kind.scale,
    }


def _decimal_bytes(precision: int) -> int:
    size = 1
    while 2 ** (8 * size - 1) < 10**precision:
        size += 1
    return size


def _nested(kind: pa.DataType, name: str, namespace: str) -> AvroType:
    if pa.types.is_struct(kind) and kind.num_fields:
        inner = f"{namespace}.{name}"
        return {"type": "record", "name": name, "namespace": namespace, "fields": [_field(f, inner) for f in kind]}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = _to_avro(kind.value_type, name, namespace)
        return {"type": "array", "items": ["null", item] if kind.value_field.nullable else item}
    if pa.types.is_map(kind):
        if not is_text(kind.key_type):
            raise _cannot_hold(
                kind, name, "map keys are strings in Avro and Hudi: make it a list of structs, or its keys strings"
            )
        item = _to_avro(kind.item_type, name, namespace)
        return {"type": "map", "values": ["null", item] if kind.item_field.nullable else item}
    raise _cannot_hold(
        kind,
        name,
        "cast it to a boolean, integer, floating point, decimal, date32, timestamp, string, binary, "
        "struct, list or map",
    )


def _cannot_hold(kind: pa.DataType, name: str, hint: str) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"column {name!r} has type {kind}, which a Hudi table cannot hold", culprit=name, hint=hint
    )


def schema_from_avro(text: str) -> pa.Schema:
    """The table's columns from the Avro schema of a commit, without meta columns.

    Raises:
        TableCorruptError: the text is no Avro record schema, or holds a type that is not known here.
    """
    try:
        record = json.loads(text)
        listed, name = record["fields"], record.get("name", "")
        names = _Names({}, _full_name(name, record.get("namespace", "")).rpartition(".")[0])
        fields = [_from_field(f, names) for f in listed]
    except (ValueError, KeyError, TypeError) as error:
        raise TableCorruptError(
            f"the commit's schema cannot be read: {error}",
            culprit=text[:120],
            hint="look at extraMetadata.schema of the newest commit",
        ) from error
    return pa.schema([f for f in fields if f.name not in META_COLUMNS])


class _Names(Frozen):
    """Types that were named before.

    Attributes:
        types: by their full names, and by the names alone.
        space: the namespace of what is read now.
    """

    types: dict[str, pa.DataType]
    space: str

    def type_of(self, name: str) -> pa.DataType:
        full = _full_name(name, self.space)
        return self.types[full if full in self.types else name.rpartition(".")[2]]


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"


def _from_field(field: dict[str, Any], names: _Names) -> pa.Field:
    kind, nullable = _from_avro(field["type"], names)
    return pa.field(field["name"], kind, nullable)


_BY_NAME: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
}
_BY_LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


_LOGICAL: Final = frozenset({*_BY_LOGICAL, "decimal", "uuid"})
"""Logical types whose values are those of their Arrow type; of ``uuid`` the text, or the bytes."""


def unknown_logical_type(text: str) -> str | None:
    """A logical type in an Avro schema that is not known, and would be lost if the schema was written anew."""
    todo: list[Any] = [json.loads(text)]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            logical = one.get("logicalType")
            if isinstance(logical, str) and logical not in _LOGICAL:
                return logical
            todo += [one[name] for name in ("fields", "type", "items", "values") if name in one]
        elif isinstance(one, list):
            todo += one
    return None


def _from_avro(avro: AvroType, names: _Names) -> tuple[pa.DataType, bool]:
    """Arrow type, and whether null is allowed."""
    if isinstance(avro, list):
        rest = [a for a in avro if a != "null"]
        if len(rest) != 1:
            raise TypeError(f"a union of {len(rest)} types is not supported: {avro}")
        return _from_avro(rest[0], names)[0], len(rest) < len(avro)
    if isinstance(avro, str):
        return _BY_NAME[avro] if avro in _BY_NAME else names.type_of(avro), False
    if "name" not in avro:
        return _from_complex(avro, names), False
    full = _full_name(avro["name"], avro.get("namespace", names.space))
    space, _, last = full.rpartition(".")
    found = _from_complex(avro, _Names(names.types, space))
    names.types[full] = names.types[last] = found
    return found, False


def _from_complex(avro: dict[str, Any], names: _Names) -> pa.DataType:
    kind, logical = avro["type"], avro.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(avro["precision"], avro.get("scale", 0))
    if logical in _BY_LOGICAL:
        return _BY_LOGICAL[logical]
    if kind == "record":
        return pa.struct([_from_field(f, names) for f in avro["fields"]])
    if kind == "array":
        item, nullable = _from_avro(avro["items"], names)
        return pa.list_(pa.field("element", item, nullable))
    if kind == "map":
        item, nullable = _from_avro(avro["values"], names)
        return pa.map_(pa.string(), pa.field("value", item, nullable))
    if kind == "fixed":
        return pa.binary(avro["size"])
    if isinstance(kind, (dict, list)):
        return _from_avro(kind, names)[0]
    return _BY_NAME[kind]
