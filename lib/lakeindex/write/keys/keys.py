"""Record keys and partition paths of a batch, as Hudi's key generators make them, vectorised over Arrow.

* one bare key field: its text. Null or empty: the row has no key.
* named parts: ``f1:v1,f2:v2``; a null part is ``__null__``, an empty one ``__empty__``; all parts null or empty:
  the row has no key. Nothing is escaped.
* partition path: a level a field, ``/`` between; null or empty is ``__HIVE_DEFAULT_PARTITION__``.

A row without a key, or whose partition path would leave the table's folder, gets a reason instead of an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import SchemaMismatchError
from lakeindex.format.partition_paths import DEFAULT_PARTITION, escape_partition_value, partition_path_problem
from lakeindex.hashing.arrow import plain_strings
from lakeindex.write.keys.java_text import is_instant, java_text
from lakeindex.write.keys.joda import zone_of
from lakeindex.write.keys.key_spec import PARTITION_PATH_PART, RECORD_KEY_PART, KeySpec, PartitionKind
from lakeindex.write.keys.time_partitions import TimePartitioner

NULL_PART: Final = "__null__"
EMPTY_PART: Final = "__empty__"

_NO_TEXT: Final = pa.scalar(None, pa.string())


@dataclass(frozen=True, slots=True, eq=False)
class KeyedColumns:
    """Keys of a batch, row by row.

    Attributes:
        record_key: string [rows]; null where the row has none.
        partition_path: string [rows]; null where the row has none.
        problem: string [rows]: why the row cannot be written; null for a good row.
    """

    record_key: pa.Array
    partition_path: pa.Array
    problem: pa.Array

    @property
    def bad_rows(self) -> int:
        """Rows that have a problem."""
        return len(self.problem) - int(self.problem.null_count)


class KeyGenerator:
    """Makes the keys of a table's rows."""

    def __init__(self, spec: KeySpec) -> None:
        self.spec = spec
        self._times = TimePartitioner(spec.time_options) if spec.time_options is not None else None
        zone = zone_of(spec.timestamp_zone)
        self._key_zone = zone if RECORD_KEY_PART in spec.timestamp_texts else None
        self._path_zone = zone if PARTITION_PATH_PART in spec.timestamp_texts else None

    def keys_of(self, batch: pa.Table | pa.RecordBatch) -> KeyedColumns:
        """Keys of each row.

        Raises:
            SchemaMismatchError: a key or partition column is missing, or its type cannot be part of a key.
        """
        record_key, key_problem = self.record_keys(batch)
        partition_path, path_problem = self.partition_paths(batch)
        return KeyedColumns(record_key, partition_path, first_problem(key_problem, path_problem))

    def record_keys(self, batch: pa.Table | pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Record key of each row and, where there is none, the reason (else null)."""
        fields = self.spec.record_key_fields
        texts = [java_text(column_at(batch, field), field, self._key_zone) for field in fields]
        if not self.spec.has_named_parts:
            return _bare_key(texts[0], fields[0])
        parts = [
            pc.binary_join_element_wise(f"{field}:", _part_text(text), "")
            for field, text in zip(fields, texts, strict=True)
        ]
        key = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ",")
        nothing = reduce(pc.and_, [_is_blank(text) for text in texts])
        reason = f"record key fields {', '.join(map(repr, fields))} are all null or empty"
        return pc.if_else(nothing, _NO_TEXT, _small(key)), pc.if_else(nothing, reason, _NO_TEXT)

    def partition_paths(self, batch: pa.Table | pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Partition path of each row and, where it cannot be written to, the reason (else null)."""
        if not self.spec.partition_fields:
            rows = batch.num_rows
            return pa.repeat(pa.scalar("", pa.string()), rows), pa.nulls(rows, pa.string())
        levels = [self._level(batch, field, kind) for field, kind in self.spec.partition_fields]
        path = levels[0][0] if len(levels) == 1 else pc.binary_join_element_wise(*(text for text, _ in levels), "/")
        problem = first_problem(*(reason for _, reason in levels))
        reasons = {text: partition_path_problem(text) for text in pc.unique(path).drop_null().to_pylist()}
        if any(reasons.values()):
            problem = first_problem(problem, _per_distinct(path, reasons.get))
        if problem.null_count == len(problem):
            return path, problem
        return pc.if_else(problem.is_valid(), _NO_TEXT, path), problem

    def _level(self, batch: pa.Table | pa.RecordBatch, field: str, kind: PartitionKind) -> tuple[pa.Array, pa.Array]:
        """One level of the path and why it is missing (else null)."""
        column = column_at(batch, field)
        prefix = f"{field}=" if self.spec.hive_style else ""
        encode = escape_partition_value if self.spec.url_encode else str
        if kind is PartitionKind.TIMESTAMP and self._times is not None:
            # as a text a timestamp is a point in time, whatever the options say of numbers
            are_times = self._path_zone is not None and is_instant(column.type)
            text, reason = self._times.times(column) if are_times else self._times.paths(column, field)
            return _per_distinct(text, lambda t: None if t is None else prefix + encode(t)), reason
        text = java_text(column, field, self._path_zone)
        # the default partition is never escaped: it holds no character that would be
        level = _per_distinct(text, lambda t: prefix + (encode(t) if t else DEFAULT_PARTITION))
        return level, pa.nulls(len(text), pa.string())


def first_problem(*problems: pa.Array) -> pa.Array:
    """Of each row the first problem that is there (else null); most batches have none."""
    found = [problem for problem in problems if problem.null_count < len(problem)]
    return pc.coalesce(*found) if found else problems[0]


def column_at(batch: pa.Table | pa.RecordBatch, path: str) -> pa.Array:
    """The column of a field path; ``a.b`` is field ``b`` of struct ``a``, null where ``a`` is. A column whose own
    name has a dot wins.

    Raises:
        SchemaMismatchError: there is no such column.
    """
    if path in batch.schema.names:
        return _whole(batch.column(path))
    first, *rest = path.split(".")
    if first not in batch.schema.names:
        raise _missing(path, batch.schema)
    column = _whole(batch.column(first))
    for name in rest:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            raise _missing(path, batch.schema)
        column = pc.struct_field(column, name)
    return column


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _missing(path: str, schema: pa.Schema) -> SchemaMismatchError:
    return SchemaMismatchError(
        f"the batch has no column {path!r}, which is part of the table's keys",
        culprit=path,
        hint=f"its columns are {', '.join(schema.names)}",
    )


def _bare_key(text: pa.Array, field: str) -> tuple[pa.Array, pa.Array]:
    blank = _is_blank(text)
    if not pc.any(blank).as_py():
        return _small(text), pa.nulls(len(text), pa.string())
    reason = pc.if_else(
        text.is_null(),
        f"record key field {field!r} is null",
        pc.if_else(blank, f"record key field {field!r} is empty", _NO_TEXT),
    )
    return pc.if_else(blank, _NO_TEXT, _small(text)), reason


def _part_text(text: pa.Array) -> pa.Array:
    small = _small(text)
    return pc.if_else(text.is_null(), NULL_PART, pc.if_else(_is_blank(text), EMPTY_PART, small))


def _is_blank(text: pa.Array) -> pa.Array:
    """Null or empty."""
    return pc.equal(pc.fill_null(pc.binary_length(text), 0), 0)


def _small(text: pa.Array) -> pa.Array:
    """As ``string``: batches are far below the 2 GiB that its offsets can address."""
    return text if pa.types.is_string(text.type) else text.cast(pa.string())


def _per_distinct(texts: pa.Array, change: Callable[[str | None], str | None]) -> pa.Array:
    """``change`` of each text, called once a distinct one (partition values repeat a lot)."""
    plain = plain_strings(texts)
    coded = plain.dictionary_encode()
    distinct = coded.dictionary.to_pylist()
    changed = [change(text) for text in distinct]
    if changed == distinct and not plain.null_count:
        return _small(plain)
    with_null = pa.array([*changed, change(None)], pa.string())
    return with_null.take(pc.fill_null(coded.indices.cast(pa.int64()), len(distinct)))


__all__ = ["KeyGenerator", "KeySpec", "KeyedColumns", "PartitionKind"]
