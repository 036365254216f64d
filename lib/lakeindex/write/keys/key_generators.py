"""Record keys and partition paths of a batch, as Hudi's key generators make them, vectorised over Arrow; and what a
table says about them: fields, generator, and how a partition path is spelled.

* one bare key field: its text. Null or empty: the row has no key.
* named parts: ``f1:v1,f2:v2``; a null part is ``__null__``, an empty one ``__empty__``; all parts null or empty:
  the row has no key. Nothing is escaped.
* partition path: a level a field, ``/`` between; null or empty is ``__HIVE_DEFAULT_PARTITION__``.

A row without a key, or whose partition path would leave the table's folder, gets a reason instead of an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import OptionError, SchemaMismatchError, TableUnsupportedError
from lakeindex.format.partitions import DEFAULT_PARTITION, escape_partition_value, partition_path_problem
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import plain_strings
from lakeindex.model import KeyGeneratorType
from lakeindex.options.option import TIMESTAMP_TEXT_OPTION, TIMESTAMP_ZONE_OPTION
from lakeindex.write.keys.java_text import is_instant, java_text
from lakeindex.write.keys.joda import zone_of
from lakeindex.write.keys.time_partitions import TimeOptions, TimePartitioner


class PartitionKind(StrEnum):
    """How one partition field becomes a level of the path."""

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"


_CLASSES: Final[dict[str, KeyGeneratorType]] = {
    "Simple": KeyGeneratorType.SIMPLE,
    "Complex": KeyGeneratorType.COMPLEX,
    "Nonpartitioned": KeyGeneratorType.NON_PARTITION,
    "TimestampBased": KeyGeneratorType.TIMESTAMP,
    "Custom": KeyGeneratorType.CUSTOM,
}
_KEY_FIELDS: Final = ("hoodie.table.recordkey.fields", "hoodie.datasource.write.recordkey.field")
_PARTITION_FIELDS: Final = ("hoodie.datasource.write.partitionpath.field", "hoodie.table.partition.fields")
_CLASS: Final = ("hoodie.table.keygenerator.class", "hoodie.datasource.write.keygenerator.class")
_TYPE: Final = ("hoodie.table.keygenerator.type", "hoodie.datasource.write.keygenerator.type")
_TIME_TYPE: Final = (
    "hoodie.keygen.timebased.timestamp.type",
    "hoodie.deltastreamer.keygen.timebased.timestamp.type",
)
_NEW_ENCODING: Final = "hoodie.write.complex.keygen.new.encoding"
TIMESTAMP_PARTS: Final = "lakeindex.keygenerator.timestamp.parts"
"""What has timestamps as texts, if not both: Hudi's custom key generator spells them as texts in paths alone."""

RECORD_KEY_PART: Final = "record_key"
PARTITION_PATH_PART: Final = "partition_path"
_NOT_FOLLOWED: Final = {
    "hoodie.datasource.write.slash.separated.date.partitioning": "dates as three folders",
}


class KeySpec(Frozen):
    """All that key generation needs.

    Attributes:
        record_key_fields: columns of the record key, in order; ``a.b`` is field ``b`` of struct ``a``.
        partition_fields: columns of the partition path with their kind, in order; empty: not partitioned.
        hive_style: levels are ``field=value``.
        url_encode: values are escaped, see :mod:`lakeindex.format.partitions`.
        time_options: how fields of kind TIMESTAMP are read and printed.
        complex_new_encoding: a one-field key of the complex generator is the bare ``value`` (True) or ``field:value``
            (False). Releases differ: the stored keys tell (:mod:`lakeindex.table.stored_keys`).
        timestamp_texts: what has timestamps as texts: ``record_key``, ``partition_path``, both or (most tables) none.
        timestamp_zone: zone of these texts.
    """

    record_key_fields: tuple[str, ...]
    partition_fields: tuple[tuple[str, PartitionKind], ...] = ()
    generator: KeyGeneratorType = KeyGeneratorType.SIMPLE
    hive_style: bool = False
    url_encode: bool = False
    time_options: TimeOptions | None = None
    complex_new_encoding: bool = False
    timestamp_texts: frozenset[str] = frozenset()
    timestamp_zone: str = "UTC"

    def __repr__(self) -> str:
        """Without what says how texts are read: older checkpoints name a key by this."""
        shown = (name for name in self.__struct_fields__ if not name.startswith("timestamp_"))
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __post_init__(self) -> None:
        if not self.record_key_fields:
            raise TableUnsupportedError(
                "the table has no record key field",
                culprit=_KEY_FIELDS[0],
                hint="tables with generated keys cannot be upserted into; create the table with --key",
            )
        if self.needs_time_options and self.time_options is None:
            raise OptionError(
                "the table partitions by time, but does not say how",
                culprit=_TIME_TYPE[0],
                hint=f"give {_TIME_TYPE[0]} and hoodie.keygen.timebased.output.dateformat",
            )

    @property
    def timestamp_mark(self) -> tuple[str, ...]:
        """How timestamps are spelled, for a digest; nothing where they are numbers, as they all were once."""
        return (*sorted(self.timestamp_texts), self.timestamp_zone) if self.timestamp_texts else ()

    @property
    def needs_time_options(self) -> bool:
        return any(kind is PartitionKind.TIMESTAMP for _, kind in self.partition_fields)

    @property
    def has_named_parts(self) -> bool:
        """Whether record keys are ``field:value`` parts rather than one bare value."""
        if len(self.record_key_fields) > 1:
            return True
        return self.generator is KeyGeneratorType.COMPLEX and not self.complex_new_encoding

    @property
    def encoding_is_open(self) -> bool:
        """Whether stored keys must be looked at to know the encoding: one field, complex generator."""
        return self.generator is KeyGeneratorType.COMPLEX and len(self.record_key_fields) == 1

    @property
    def columns(self) -> tuple[str, ...]:
        """Top-level columns that key generation reads, each once."""
        keys = [name.split(".")[0] for name in self.record_key_fields]
        return tuple(dict.fromkeys([*keys, *self.path_columns]))

    @property
    def path_columns(self) -> tuple[str, ...]:
        """Those of them that make the partition path."""
        return tuple(dict.fromkeys(field.split(".")[0] for field, _ in self.partition_fields))

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, complex_new_encoding: bool | None = None) -> KeySpec:
        """The spec of a table from its ``hoodie.properties`` (either spelling), with options laid over them.

        Args:
            complex_new_encoding: wins over ``hoodie.write.complex.keygen.new.encoding``.

        Raises:
            TableUnsupportedError: a key generator or feature that is not followed.
            OptionError: a time option is missing or wrong.
        """
        for key, what in _NOT_FOLLOWED.items():
            if _flag(properties, key):
                raise TableUnsupportedError(
                    f"the table sets {key}=true ({what}), which is not supported",
                    culprit=key,
                    hint="write to this table with Hudi itself",
                )
        key_fields = _fields(properties, _KEY_FIELDS)
        partition_texts = _fields(properties, _PARTITION_FIELDS)
        generator = _generator(properties, key_fields, partition_texts)
        partition_fields = _partition_fields(generator, partition_texts, properties)
        times = any(kind is PartitionKind.TIMESTAMP for _, kind in partition_fields)
        new_encoding = _flag(properties, _NEW_ENCODING) if complex_new_encoding is None else complex_new_encoding
        return cls(
            key_fields,
            partition_fields,
            generator,
            _flag(properties, "hoodie.datasource.write.hive_style_partitioning"),
            _flag(properties, "hoodie.datasource.write.partitionpath.urlencode"),
            TimeOptions.from_properties(properties) if times else None,
            new_encoding,
            _timestamp_texts(properties),
            _first(properties, (TIMESTAMP_ZONE_OPTION,)) or "UTC",
        )


def key_properties(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Of a table's properties those by which its keys and partition paths are made, sorted by name."""
    named = {*_KEY_FIELDS, *_PARTITION_FIELDS}
    return tuple(sorted((name, text) for name, text in properties.items() if name in named or "keygen" in name))


def _timestamp_texts(properties: Mapping[str, str]) -> frozenset[str]:
    if not _flag(properties, TIMESTAMP_TEXT_OPTION):
        return frozenset()
    return frozenset(_fields(properties, (TIMESTAMP_PARTS,)) or (RECORD_KEY_PART, PARTITION_PATH_PART))


def _flag(properties: Mapping[str, str], key: str) -> bool:
    return properties.get(key, "false").strip().lower() == "true"


def _first(properties: Mapping[str, str], keys: tuple[str, ...]) -> str:
    return next((properties[key].strip() for key in keys if properties.get(key, "").strip()), "")


def _fields(properties: Mapping[str, str], keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for name in _first(properties, keys).split(",") if name.strip())


def _generator(
    properties: Mapping[str, str], key_fields: tuple[str, ...], partitions: tuple[str, ...]
) -> KeyGeneratorType:
    """The generator a table names, by class or by type; else Hudi's inference from the number of fields."""
    class_name = _first(properties, _CLASS)
    if class_name:
        short = class_name.rsplit(".", 1)[-1].removesuffix("KeyGenerator").removesuffix("Avro")
        found = _CLASSES.get("Nonpartitioned" if short == "NonPartitioned" else short)
        if found is None:
            raise _unknown(class_name)
        return found
    type_name = _first(properties, _TYPE).upper().removesuffix("_AVRO")
    if type_name:
        if type_name not in set(KeyGeneratorType):
            raise _unknown(type_name)
        return KeyGeneratorType(type_name)
    if not partitions:
        return KeyGeneratorType.NON_PARTITION
    if ":" in partitions[0]:
        return KeyGeneratorType.CUSTOM
    return KeyGeneratorType.SIMPLE if len(partitions) == len(key_fields) == 1 else KeyGeneratorType.COMPLEX


def _unknown(name: str) -> TableUnsupportedError:
    return TableUnsupportedError(
        f"key generator {name!r} is not supported",
        culprit=name,
        hint=f"supported: {', '.join(KeyGeneratorType)}",
    )


def _partition_fields(
    generator: KeyGeneratorType, texts: tuple[str, ...], properties: Mapping[str, str]
) -> tuple[tuple[str, PartitionKind], ...]:
    if generator is KeyGeneratorType.NON_PARTITION:
        return ()
    if generator is KeyGeneratorType.CUSTOM:
        return tuple(_custom_field(text, properties) for text in texts)
    kind = PartitionKind.TIMESTAMP if generator is KeyGeneratorType.TIMESTAMP else PartitionKind.SIMPLE
    return tuple((text.split(":")[0], kind) for text in texts)


def _custom_field(text: str, properties: Mapping[str, str]) -> tuple[str, PartitionKind]:
    """``field:KIND``; tables of version 6 store only the field: then without any time option it is SIMPLE."""
    field, _, kind = text.partition(":")
    if kind.upper() in set(PartitionKind):
        return field, PartitionKind(kind.upper())
    if not kind and not _first(properties, _TIME_TYPE):
        return field, PartitionKind.SIMPLE
    raise OptionError(
        f"partition field {text!r} of the custom key generator has no kind",
        culprit=_PARTITION_FIELDS[0],
        hint=f"give {_PARTITION_FIELDS[0]} as field:SIMPLE or field:TIMESTAMP, separated by commas",
    )


NULL_PART: Final = "__null__"
EMPTY_PART: Final = "__empty__"

_NO_TEXT: Final = pa.scalar(None, pa.string())


class KeyedColumns(Frozen, eq=False):
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
        blanks = [_is_blank(text) for text in texts]
        parts: list[pa.Array | str] = []
        for name, text, blank in zip(fields, texts, blanks, strict=True):
            parts += [f"{',' if parts else ''}{name}:", _part_text(text, blank)]
        key = pc.binary_join_element_wise(*parts, "")
        nothing = reduce(pc.and_, blanks)
        if not pc.any(nothing).as_py():
            return key, pa.nulls(len(key), pa.string())
        reason = f"record key fields {', '.join(map(repr, fields))} are all null or empty"
        return pc.if_else(nothing, _NO_TEXT, key), pc.if_else(nothing, reason, _NO_TEXT)

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


def _part_text(text: pa.Array, blank: pa.Array) -> pa.Array:
    if not pc.any(blank).as_py():
        return _small(text)
    return pc.if_else(text.is_null(), NULL_PART, pc.if_else(blank, EMPTY_PART, _small(text)))


def _is_blank(text: pa.Array) -> pa.Array:
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
