"""What a table says about its keys: fields, generator, and how a partition path is spelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lakeindex.errors import OptionError, TableUnsupportedError
from lakeindex.model import KeyGeneratorType
from lakeindex.options.option import TIMESTAMP_TEXT_OPTION, TIMESTAMP_ZONE_OPTION
from lakeindex.write.keys.time_partitions import TimeOptions


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


@dataclass(frozen=True, slots=True)
class KeySpec:
    """All that key generation needs.

    Attributes:
        record_key_fields: columns of the record key, in order; ``a.b`` is field ``b`` of struct ``a``.
        partition_fields: columns of the partition path with their kind, in order; empty: not partitioned.
        hive_style: levels are ``field=value``.
        url_encode: values are escaped, see :mod:`lakeindex.format.partition_paths`.
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
    timestamp_texts: frozenset[str] = field(
        default=frozenset(), repr=False
    )  # older checkpoints name a key by this repr
    timestamp_zone: str = field(default="UTC", repr=False)

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
        """Whether a partition field is a time."""
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
        names = [*self.record_key_fields, *(field for field, _ in self.partition_fields)]
        return tuple(dict.fromkeys(name.split(".")[0] for name in names))

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, complex_new_encoding: bool | None = None) -> KeySpec:
        """The spec of a table from its ``hoodie.properties`` (either spelling), with options laid over them.

        Args:
            properties: names and texts, ``hoodie.properties`` of the table and what the user adds.
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
