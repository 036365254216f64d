"""Columns that an update cannot change, because the record key or the partition path spells them out."""

from __future__ import annotations

import pyarrow as pa

from lakeindex.format.partition_paths import DEFAULT_PARTITION
from lakeindex.write.keys.key_spec import KeySpec, PartitionKind


def fixed_columns(spec: KeySpec, schema: pa.Schema, partition_path: str | None) -> frozenset[str]:
    """Columns of which an updated row has the stored row's value, whatever the batch.

    The stored row has the same record key and, where paths are believed, the same partition path. A field's
    value follows from that where its text is its value (texts and whole numbers) and where it can be told from
    the texts beside it: several texts joined with commas can be cut in more than one way, a null and the text
    that stands for it are one.

    Args:
        spec: how keys are made.
        partition_path: the file's; None if it does not say the columns of its rows: a global index that moves no rows
            keeps them where they are, with the partition columns of the incoming row.

    Returns:
        Names of top-level columns.
    """
    of_partition = () if partition_path is None else _of_partition(spec, schema, partition_path)
    return frozenset(_of_record_key(spec, schema)) | frozenset(of_partition)


def _of_record_key(spec: KeySpec, schema: pa.Schema) -> tuple[str, ...]:
    fields = spec.record_key_fields
    if not all(name in schema.names for name in fields):
        return ()
    kinds = [schema.field(name).type for name in fields]
    if len(fields) == 1:  # null and empty are refused: there is no text that stands for them
        return fields if pa.types.is_integer(kinds[0]) or _is_text(kinds[0]) else ()
    return fields if all(map(pa.types.is_integer, kinds)) else ()


def _of_partition(spec: KeySpec, schema: pa.Schema, partition_path: str) -> tuple[str, ...]:
    fields = [name for name, _ in spec.partition_fields]
    if any(kind is not PartitionKind.SIMPLE for _, kind in spec.partition_fields):
        return ()
    if DEFAULT_PARTITION in partition_path or partition_path.count("/") != len(fields) - 1:
        return ()
    kinds = [schema.field(name).type if name in schema.names else None for name in fields]
    fits = all(kind is not None and (pa.types.is_integer(kind) or _is_text(kind)) for kind in kinds)
    return tuple(fields) if fits else ()


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
