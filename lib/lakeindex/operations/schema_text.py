"""Columns that are written as text: DDL of Spark (``id STRING NOT NULL, at TIMESTAMP``), also a whole ``CREATE TABLE``;
a pyarrow schema as it prints itself (``id: string not null``, a line each) or as Python has it (``pa.schema([...])``).
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final

import pyarrow as pa

from lakeindex.errors import InputError

_DETAILS: Final = re.compile(
    r"^ +child \d+, .*\n?|^ *-- (?:schema|field) metadata --\n(?: *\S+: '.*\n?)*", re.MULTILINE
)
_LINES: Final = re.compile(r"\s*(?:[\w`\"]+\s*:\s*\S.*\n?\s*)+")
_PYTHON: Final = re.compile(r"\s*(?:pa|pyarrow)\.schema\(")
_ARROWS: Final = (  # types as Arrow prints them, and as Spark has them
    (r"\s*\('[^']*'\)", ""),
    (r"\bdictionary<values=([^<>]+?), indices=\w+, ordered=\d>", r"\1"),
    (r"\btimestamp\[\w+, tz=[^\]]+\]", "timestamp_ltz"),
    (r"\btimestamp\[\w+\]", "timestamp_ntz"),
    (r"\b(?:date32|date64)\[\w+\]", "date"),
    (r"\bfixed_size_binary\[\d+\]", "binary"),
    (r"\bdecimal(?:32|64|128|256)\(", "decimal("),
    (r"\b((?:list|large_list|map)<[^<>]*?)\s+not null>", r"\1>"),
    (r"\b(?:list|large_list|list_view|fixed_size_list)<\s*\w+\s*:", "array<"),
)
_WORDS: Final = {
    **dict.fromkeys(("large_string", "string_view", "utf8"), "string"),
    **dict.fromkeys(("large_binary", "binary_view", "bytes"), "binary"),
    "bool": "boolean",
    "halffloat": "float",
    "float32": "float",
    "float64": "double",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "bigint",
}
_WORD: Final = re.compile(rf"(?<=[:<,\s])({'|'.join(_WORDS)})(?=\s*(?:[,>\n]|$|not\b|comment\b))", re.IGNORECASE)
_TYPES: Final[dict[str, pa.DataType]] = {
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR", "NVARCHAR", "NCHAR"), pa.string()),
    **dict.fromkeys(("BINARY", "VARBINARY", "BLOB"), pa.binary()),
    **dict.fromkeys(("TIMESTAMPTZ", "TIMESTAMPLTZ"), pa.timestamp("us", "UTC")),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPNTZ", "DATETIME"), pa.timestamp("us")),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TINYINT": pa.int32(),
    "SMALLINT": pa.int32(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
}
_FACTORIES: Final = re.compile(
    r"schema|field|(large_)?(string|utf8|binary)|bool_|u?int\d+|float\d\d|date\d\d|timestamp|decimal\d+|"
    r"(large_)?list_|map_|"
    r"struct|dictionary|duration"
)
_SCHEMA: Final = re.compile(r"\s*(?:create\s|(?:pa|pyarrow)\.schema\(|[\w`\"]+(?:\s*:\s*|\s+)[a-z])", re.IGNORECASE)


def is_schema_text(text: str) -> bool:
    """Whether a text names columns with their types, and not a file."""
    return _SCHEMA.match(text) is not None


def schema_from_text(text: str) -> pa.Schema:
    """The columns that a text names.

    Raises:
        InputError: it is neither DDL nor a schema, or has a type that a table has not.
    """
    try:
        if _PYTHON.match(text) is not None:
            found: pa.Schema = _made(ast.parse(text.strip(), mode="eval").body)
            return found
        return _of_ddl(text)
    except (SyntaxError, ValueError, TypeError, pa.ArrowException) as error:
        raise InputError(
            f"columns cannot be made of {text!r}: {str(error).splitlines()[0]}",
            culprit=text,
            hint="write them as Spark does, for example 'id STRING NOT NULL, at TIMESTAMP, amount DECIMAL(10,2)'",
        ) from error


def _made(node: ast.expr) -> Any:
    """What Python makes of calls of pyarrow's types, and of nothing else."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_made(one) for one in node.elts] if isinstance(node, ast.List) else tuple(map(_made, node.elts))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        named = {one.arg: _made(one.value) for one in node.keywords if one.arg is not None}
        if node.func.value.id in ("pa", "pyarrow") and _FACTORIES.fullmatch(node.func.attr):
            return getattr(pa, node.func.attr)(*map(_made, node.args), **named)
    raise ValueError(f"{ast.unparse(node)} is no type of pyarrow")


def _of_ddl(text: str) -> pa.Schema:
    import sqlglot
    from sqlglot import exp

    ddl = _DETAILS.sub("", text)
    if _LINES.fullmatch(ddl) is not None:
        ddl = ",\n".join(line.strip().rstrip(",") for line in ddl.splitlines() if line.strip())
    for pattern, spark in _ARROWS:
        ddl = re.sub(pattern, spark, ddl, flags=re.IGNORECASE)
    ddl = _WORD.sub(lambda word: _WORDS[word[1].lower()], ddl)
    if re.match(r"\s*create\s", ddl, re.IGNORECASE) is None:
        ddl = re.sub(r"(^|,)(\s*[\w`\"]+)\s*:\s*", r"\1\2 ", ddl)
        ddl = f"CREATE TABLE t ({ddl.strip().rstrip(',')})"
    try:
        parsed = sqlglot.parse_one(ddl, read="spark")
    except sqlglot.errors.SqlglotError as error:
        raise ValueError(re.sub(r"\x1b\[\d*m", "", str(error))) from error
    columns = parsed.this.expressions if isinstance(parsed, exp.Create) and isinstance(parsed.this, exp.Schema) else []
    fields = [_field(one) for one in columns if isinstance(one, (exp.ColumnDef, exp.Identifier))]
    if not fields:
        raise ValueError("it names no columns")
    return pa.schema(fields)


def _field(column: Any) -> pa.Field:
    kind = column.args.get("kind")
    if kind is None:
        raise ValueError(f"column {column.name!r} has no type")
    marks = [type(one.kind).__name__ for one in column.args.get("constraints", [])]
    can_be_null = not any(mark in ("NotNullColumnConstraint", "PrimaryKeyColumnConstraint") for mark in marks)
    return pa.field(column.name, _type(kind), can_be_null)


def _type(kind: Any) -> pa.DataType:
    name, inner = kind.this.name, kind.expressions
    if name == "DECIMAL":
        digits = [int(one.this.name) for one in inner] or [10]
        return pa.decimal128(digits[0], digits[1] if len(digits) > 1 else 0)
    if name in ("ARRAY", "LIST") and inner:
        return pa.list_(pa.field("element", _type(inner[0])))
    if name == "MAP" and len(inner) > 1:
        return pa.map_(_type(inner[0]), _type(inner[1]))
    if name == "STRUCT" and inner:
        return pa.struct([_field(one) for one in inner])
    if name not in _TYPES:
        raise ValueError(f"a table has no type {kind.sql('spark')}")
    return _TYPES[name]
