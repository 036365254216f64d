"""What the path of a partition says of the values in its rows.

A path is evidence only where a key is unique in its partition: under a global index an update may leave a row in its
old partition with a new value. A text counts if it is the only one that the key generator makes of the value.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakeindex.format.partition_paths import DEFAULT_PARTITION, unescape_partition_value
from lakeindex.predicates.bounds import Bounds
from lakeindex.predicates.nodes import Path, Value
from lakeindex.write.keys.java_text import java_text
from lakeindex.write.keys.key_spec import PARTITION_PATH_PART, KeySpec, PartitionKind
from lakeindex.write.keys.time_partitions import TimePartitioner

_PLAIN: Final = (
    pa.types.is_string,
    pa.types.is_int32,
    pa.types.is_int64,
    pa.types.is_boolean,
    pa.types.is_date32,
)


def path_facts(path: str, spec: KeySpec, schema: pa.Schema) -> dict[Path, Bounds]:
    """What is known of the partition fields of all rows of a partition.

    Args:
        spec: how the table makes paths.
    """
    fields = spec.partition_fields
    levels = path.split("/") if len(fields) > 1 or spec.url_encode else [path]
    if len(levels) != len(fields):
        return {}  # a value with a slash in it
    found: dict[Path, Bounds] = {}
    for level, (name, kind) in zip(levels, fields, strict=True):
        if name not in schema.names:
            continue
        text = _text_of(level, name, spec)
        if kind is PartitionKind.TIMESTAMP:
            found.update(_times(text, (name,), spec, schema.field(name).type))
            continue
        value = None if text is None else _value_of(text, schema.field(name).type)
        if value is not None:
            found[(name,)] = Bounds(value, value, may_be_null=False)
    return found


def _times(text: str | None, path: Path, spec: KeySpec, kind: pa.DataType) -> dict[Path, Bounds]:
    """What a time says of the dates, timestamps or whole numbers that it was made of."""
    if text is None or spec.time_options is None or PARTITION_PATH_PART in spec.timestamp_texts:
        return {}
    unit = kind.unit if pa.types.is_timestamp(kind) else None
    if not (pa.types.is_date32(kind) or pa.types.is_integer(kind) or unit in ("ms", "us")):
        return {}
    known = TimePartitioner(spec.time_options).values_of(text)
    return {} if known is None else {path: Bounds(known[0], known[1], may_be_null=known[2])}


def _text_of(level: str, name: str, spec: KeySpec) -> str | None:
    """The value's text; None where it stands for more than one value."""
    if spec.hive_style:
        if not level.startswith(f"{name}="):
            return None
        level = level[len(name) + 1 :]
    text = unescape_partition_value(level) if spec.url_encode else level
    return None if level == DEFAULT_PARTITION or not text else text


def _value_of(text: str, kind: pa.DataType) -> Value | None:
    """The one value of which a key generator makes this text; None if that is not known."""
    if not any(is_plain(kind) for is_plain in _PLAIN):
        return None
    try:
        value = pa.array([text]).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if java_text(value, "value").to_pylist() != [text]:
        return None
    stored: Value = (value.cast(pa.int32()) if pa.types.is_date32(kind) else value)[0].as_py()
    return stored
