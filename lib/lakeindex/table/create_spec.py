"""What is to be made, and whether the choices fit together, before anything is written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakeindex.errors import OptionError
from lakeindex.model import KeyGeneratorType
from lakeindex.options.types import CreateConfig, Version10
from lakeindex.options.values import INDEX_OPTION, TABLE_VERSION_OPTION, TIMEBASED_PREFIX, VERSION10_OPTION
from lakeindex.table.property_keys import POPULATE_META_FIELDS
from lakeindex.table.version import SEVERAL_ORDERING_FIELDS, VERSION_9, VERSION_10
from lakeindex.table.virtual_key_rules import generator_problem, index_problem

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_META_COLUMN_PREFIX: Final = "_hoodie_"
GENERATOR_OPTION: Final = "hoodie.table.keygenerator.type"
_PARTITION_TYPES: Final = ("SIMPLE", "TIMESTAMP")


@dataclass(frozen=True, slots=True)
class CreateSpec:
    """A table to be made.

    Attributes:
        columns: names of the table's columns, without meta columns; ``a.b`` names a field of a struct.
        key_fields: columns of the record key, in order.
        partition_fields: columns of the partition path, in order; ``field:SIMPLE`` or ``field:TIMESTAMP`` with the
            custom key generator.
        ordering_fields: columns that say which version of a record is newer, the first one first; several in version 9.
        schema_text: Avro schema without meta columns, so that an empty table can be read; optional.
    """

    name: str
    columns: Sequence[str]
    key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    ordering_fields: tuple[str, ...] = ()
    config: CreateConfig = field(default_factory=CreateConfig)
    schema_text: str | None = None


def table_name_of(uri: str) -> str:
    """The table's name: the last element of its path.

    Raises:
        OptionError: it is empty or has characters that are not safe in the names Hudi derives from it.
    """
    name = uri.partition("://")[2] if "://" in uri else uri
    name = name.rstrip("/").rpartition("/")[2]
    if _NAME.fullmatch(name) is None:
        raise OptionError(
            f"{name!r} cannot be a table name",
            culprit=uri,
            hint="the last element of the path names the table: letters, digits, '_', '-' and '.', not starting with "
            "'-' or '.'",
        )
    return name


def generator_of(spec: CreateSpec) -> KeyGeneratorType:
    """The key generator asked for, or the one that fits the number of fields."""
    if spec.config.key_generator is not None:
        return spec.config.key_generator
    if not spec.partition_fields:
        return KeyGeneratorType.NON_PARTITION
    simple = (len(spec.key_fields), len(spec.partition_fields)) == (1, 1)
    return KeyGeneratorType.SIMPLE if simple else KeyGeneratorType.COMPLEX


def partition_fields_of(spec: CreateSpec) -> Iterator[tuple[str, str]]:
    """Name and type (upper case, empty if none is given) of each partition field."""
    for text in spec.partition_fields:
        name, _, kind = text.partition(":")
        yield name, kind.upper()


def key_entries(spec: CreateSpec) -> dict[str, str]:
    """All that makes keys and partition paths, under the names that key generation reads."""
    typed = (f"{name}:{kind}" if kind else name for name, kind in partition_fields_of(spec))
    return {
        "hoodie.table.recordkey.fields": ",".join(spec.key_fields),
        "hoodie.table.partition.fields": ",".join(typed),
        GENERATOR_OPTION: generator_of(spec).value,
        **{TIMEBASED_PREFIX + option: text for option, text in spec.config.timebased.items()},
        **dict(spec.config.key_options),
    }


def check_spec(spec: CreateSpec) -> None:
    """Refuse choices that make no table. Raises: OptionError."""
    if _NAME.fullmatch(spec.name) is None:
        table_name_of(spec.name)
    if not spec.key_fields:
        raise OptionError("a table needs at least one key field", culprit="--key", hint="name it with --key")
    partitions = tuple(name for name, _ in partition_fields_of(spec))
    for option, names in (
        ("--key", spec.key_fields),
        ("--partition", partitions),
        ("--ordering", spec.ordering_fields),
    ):
        for name in names:
            check_column(option, name, spec.columns)
        if len(set(names)) < len(names):
            raise OptionError(f"{option} names a column twice: {','.join(names)}", culprit=option)
    if len(spec.ordering_fields) > 1 and spec.config.table_version < SEVERAL_ORDERING_FIELDS:
        raise OptionError(
            f"a table of version {spec.config.table_version} cannot have {len(spec.ordering_fields)} ordering fields "
            f"({', '.join(spec.ordering_fields)})",
            culprit="--ordering",
            hint=f"name one, or make a table of version {SEVERAL_ORDERING_FIELDS}: "
            "Hudi before 1.1, which reads the others, knows one",
        )
    if spec.config.table_version == VERSION_10.number and spec.config.version10 is Version10.REFUSE:
        raise OptionError(
            f"a table of version {VERSION_10.number} is made only for who asks for it: no release of Hudi reads one",
            culprit=TABLE_VERSION_OPTION,
            hint=f"Hudi 1.2 makes {VERSION_9.number}; -o {VERSION10_OPTION}={Version10.WRITE} makes it all the same",
        )
    reserved = [name for name in spec.columns if name.startswith(_META_COLUMN_PREFIX) and name != "_hoodie_is_deleted"]
    if reserved:
        raise OptionError(f"the column {reserved[0]} is one of Hudi's own", culprit=reserved[0], hint="leave it out")
    if not spec.config.populate_meta_fields:
        _check_virtual(spec)
    _check_generator(spec, generator_of(spec), tuple(kind for _, kind in partition_fields_of(spec)))


def _check_virtual(spec: CreateSpec) -> None:
    index_type = spec.config.index_type
    problems = (
        (GENERATOR_OPTION, generator_problem(generator_of(spec), len(spec.key_fields))),
        (INDEX_OPTION, None if index_type is None else index_problem(index_type)),
    )
    for option, problem in problems:
        if problem is not None:
            raise OptionError(
                f"a table with {POPULATE_META_FIELDS[0]}=false cannot be made: {problem[0]}",
                culprit=option,
                hint=problem[1],
            )


def check_column(option: str, name: str, columns: Sequence[str]) -> None:
    """Refuse a name that is no column, or that a table's properties cannot hold. Raises: OptionError."""
    if name not in columns:
        raise OptionError(
            f"{option} names {name!r}, which is no column",
            culprit=name,
            hint=f"columns: {', '.join(columns)}",
        )
    if "," in name or ":" in name or name.strip() != name or not name:
        raise OptionError(
            f"{option} cannot be {name!r}", culprit=name, hint="',' and ':' separate names in a table's properties"
        )


def _check_generator(spec: CreateSpec, generator: KeyGeneratorType, types: tuple[str, ...]) -> None:
    keys_and_levels = (len(spec.key_fields), len(types))
    fits = {
        KeyGeneratorType.SIMPLE: keys_and_levels == (1, 1),
        KeyGeneratorType.COMPLEX: keys_and_levels[1] >= 1,
        KeyGeneratorType.NON_PARTITION: keys_and_levels[1] == 0,
        KeyGeneratorType.TIMESTAMP: keys_and_levels == (1, 1),
        KeyGeneratorType.CUSTOM: keys_and_levels[1] >= 1,
    }
    needs = {
        KeyGeneratorType.SIMPLE: "one key field and one partition field",
        KeyGeneratorType.COMPLEX: "at least one partition field",
        KeyGeneratorType.NON_PARTITION: "no partition field",
        KeyGeneratorType.TIMESTAMP: "one key field and one partition field",
        KeyGeneratorType.CUSTOM: "at least one partition field",
    }
    if not fits[generator]:
        raise OptionError(
            f"the key generator {generator} does not fit {keys_and_levels[0]} key field(s) and {keys_and_levels[1]} "
            "partition field(s)",
            culprit=GENERATOR_OPTION,
            hint=f"{generator} takes {needs[generator]}",
        )
    _check_types(generator, types)
    _check_timebased(spec, generator, types)


def _check_types(generator: KeyGeneratorType, types: tuple[str, ...]) -> None:
    if generator is KeyGeneratorType.CUSTOM:
        wrong = [kind for kind in types if kind not in _PARTITION_TYPES]
        if wrong:
            raise OptionError(
                f"a partition field of the custom key generator has the type {wrong[0] or 'none'!r}",
                culprit="--partition",
                hint=f"write field:TYPE with one of {', '.join(_PARTITION_TYPES)}",
            )
    elif any(types):
        raise OptionError(
            f"the key generator {generator} takes no types of partition fields",
            culprit="--partition",
            hint=f"leave ':{next(filter(None, types))}' out, or use -o {GENERATOR_OPTION}=CUSTOM",
        )


def _check_timebased(spec: CreateSpec, generator: KeyGeneratorType, types: tuple[str, ...]) -> None:
    wanted = generator is KeyGeneratorType.TIMESTAMP or "TIMESTAMP" in types
    given = spec.config.timebased
    if given and not wanted:
        option = TIMEBASED_PREFIX + next(iter(given))
        raise OptionError(
            f"option {option} has no meaning for the key generator {generator}",
            culprit=option,
            hint=f"it belongs to {KeyGeneratorType.TIMESTAMP} and {KeyGeneratorType.CUSTOM}",
        )
    required = ("timestamp.type", "output.dateformat") if wanted else ()
    if given.get("timestamp.type") in ("DATE_STRING", "MIXED"):
        required = (*required, "input.dateformat")
    for name in required:
        if name not in given:
            raise OptionError(
                f"the key generator {generator} needs the option {TIMEBASED_PREFIX}{name}",
                culprit=TIMEBASED_PREFIX + name,
                hint="give it with -o",
            )
