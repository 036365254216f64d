"""One option, an area of options, and the functions that make a value of an option's text.

Parsers, error messages and the tables of docs/options.md are made from the options. A function that reads a text
raises ValueError for a text that it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from lakeindex.errors import OptionError
from lakeindex.frozen import Frozen
from lakeindex.model import INDEX_ALIASES, IndexType, KeyGeneratorType
from lakeindex.options.types import MetadataTablePolicy, WriteConfig

Bound: TypeAlias = dict[str, str]
"""Options that are bound with an index: name -> text."""


class Option(Frozen):
    """One option: the name users write, the field it sets, how its text is read, and what is valid.

    Attributes:
        field: field of the area's class; of a core option, of the write's or the table's configuration.
        parse: value of a text; raises ValueError for what it does not know.
        valid: valid texts, in words.
        bound: all writers must agree on it; it is bound when the table is created.
        bound_default: text that is bound if the option is not given.
        area: class that has the field; None: the write's or the table's configuration.
        bound_with: index types that it is bound for; with others it has no meaning.
        default: the value when the option is not given.
    """

    key: str
    field: str
    parse: Callable[[str], Any]
    valid: str
    text: str
    bound: bool = False
    bound_default: str = ""
    area: type | None = None
    bound_with: tuple[IndexType, ...] = ()
    default: Any = None


class OptionArea(Frozen):
    """The options of an index kind.

    Attributes:
        title: heading in docs/options.md.
        config: frozen dataclass whose fields the options set; :meth:`lakeindex.options.types.Config.of` returns it.
        options: the rows.
        complete: what is bound, from what was given or stands as default, and the fields of the record key;
            raises OptionError. None: as it stands.
        check: raises OptionError where options of a write contradict each other; None: they cannot.
    """

    title: str
    config: type
    options: tuple[Option, ...]
    complete: Callable[[Bound, Sequence[str]], Bound] | None = None
    check: Callable[[WriteConfig], None] | None = None


KEY_GENERATOR_CLASSES: Final[dict[str, KeyGeneratorType]] = {
    "org.apache.hudi.keygen.SimpleKeyGenerator": KeyGeneratorType.SIMPLE,
    "org.apache.hudi.keygen.ComplexKeyGenerator": KeyGeneratorType.COMPLEX,
    "org.apache.hudi.keygen.NonpartitionedKeyGenerator": KeyGeneratorType.NON_PARTITION,
    "org.apache.hudi.keygen.TimestampBasedKeyGenerator": KeyGeneratorType.TIMESTAMP,
    "org.apache.hudi.keygen.CustomKeyGenerator": KeyGeneratorType.CUSTOM,
}
"""Key generators by the Java class that Hudi 0.15 names in a table's properties."""

_E = TypeVar("_E", bound=StrEnum)
FLAG: Final = "true | false"


def flag(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


TABLE_VERSION_OPTION: Final = "hoodie.write.table.version"
INDEX_OPTION: Final = "hoodie.index.type"
TIMEBASED_PREFIX: Final = "hoodie.keygen.timebased."
"""Options of the timestamp-based key generator; the table's properties keep them under the same names."""

TIMESTAMP_TEXT_OPTION: Final = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
TIMESTAMP_ZONE_OPTION: Final = "lakeindex.keygenerator.timestamp.timezone"
PARTITION_FIELDS_OPTION: Final = "hoodie.datasource.write.partitionpath.field"
TABLE_VERSIONS: Final = (6, 8, 9, 10)
"""Table versions that are written, the last one only for who asks for it."""


def number_of(*numbers: int) -> Callable[[str], int]:
    """One of some whole numbers."""

    def parse(text: str) -> int:
        value = int(text)
        if value not in numbers:
            raise ValueError(text)
        return value

    return parse


def whole(low: int, high: int = 2**62) -> Callable[[str], int]:
    """A whole number between two bounds, both inclusive."""

    def parse(text: str) -> int:
        value = int(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return parse


_UNITS: Final = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_LEAST_MEMORY: Final = 64 * 2**20
DUPLICATES_OPTION: Final = "hoodie.datasource.insert.dup.policy"
MEMORY_OPTION: Final = "lakeindex.memory"
SCHEMA_MODE_OPTION: Final = "lakeindex.schema.mode"
CSV_DELIMITER_OPTION: Final = "lakeindex.csv.delimiter"
NULL_FOR_MISSING_OPTION: Final = "hoodie.write.set.null.for.missing.columns"
CONDITION_OPTIONS: Final = {
    "update_if": "lakeindex.update.if",
    "delete_if": "lakeindex.delete.if",
    "insert_if": "lakeindex.insert.if",
}
"""Options with the conditions of an upsert, by the names of its arguments."""
UNKNOWN_PROPERTIES_OPTION: Final = "lakeindex.unknown.properties"
VERSION10_OPTION: Final = "lakeindex.table.version10"
MERGE_OPTION: Final = "lakeindex.merge.function"
PARTIAL_OPTION: Final = "lakeindex.partial.update"


def csv_character(text: str) -> str:
    """One character of CSV files: itself, or ``tab``."""
    found = {"tab": "\t", "\\t": "\t"}.get(text.lower(), text)
    if len(found) != 1 or not found.isascii() or found in "\r\n\0":
        raise ValueError(text)
    return found


def csv_quote(text: str) -> str:
    """The same, or ``none``."""
    return "" if text.lower() == "none" else csv_character(text)


def csv_words(text: str) -> tuple[str, ...]:
    """Words between commas, without blanks around them; the empty text is one, too, and so are blanks alone."""
    return tuple(dict.fromkeys(word.strip() if text.strip() else word for word in text.split(",")))


def memory(text: str) -> int:
    """Bytes: a number, with k, m or g for powers of 1024."""
    found = re.fullmatch(r"([0-9]{1,15})([kmg]?)", text.strip().lower())
    if found is None:
        raise ValueError(text)
    value = int(found[1]) * _UNITS[found[2]]
    if value < _LEAST_MEMORY:
        raise ValueError(text)
    return value


def days(text: str) -> float:
    """Days, with fractions."""
    value = float(text)
    if not 0.0 <= value < 1e6:
        raise ValueError(text)
    return value


def growth(text: str) -> float:
    """A factor of 1 or more."""
    value = float(text)
    if not 1.0 <= value < 1e6:
        raise ValueError(text)
    return value


def probability(text: str) -> float:
    """Between 0 and 1, both exclusive."""
    value = float(text)
    if not 0.0 < value < 1.0:
        raise ValueError(text)
    return value


def share(text: str) -> float:
    """Above 0, up to 1."""
    value = float(text)
    if not 0.0 < value <= 1.0:
        raise ValueError(text)
    return value


def one_of(kind: type[_E]) -> Callable[[str], _E]:
    """A value of an enumeration, in any case."""
    by_name = {member.value.lower(): member for member in kind}

    def parse(text: str) -> _E:
        try:
            return by_name[text.strip().lower()]
        except KeyError:
            raise ValueError(text) from None

    return parse


def metadata_policy(text: str) -> MetadataTablePolicy:
    """What to do with a metadata table. Raises: OptionError: it is to be dropped: that is no option."""
    if text.strip().lower() == "drop":
        raise OptionError(
            "lakeindex.metadata.table=drop would take the metadata table, and every index in it, away in each run",
            culprit="lakeindex.metadata.table",
            hint="leave the option out: it is kept up; `lakeindex metadata drop TABLE` takes it away once",
        )
    return one_of(MetadataTablePolicy)(text)


def index_type_named(text: str) -> IndexType:
    """An index type, or another name of one."""
    upper = text.strip().upper()
    return INDEX_ALIASES.get(upper) or one_of(IndexType)(upper)


def generator_class(text: str) -> KeyGeneratorType:
    """A key generator by its Java class."""
    try:
        return KEY_GENERATOR_CLASSES[text.strip()]
    except KeyError:
        raise ValueError(text) from None


def some_text(text: str) -> str:
    """Any text but an empty one."""
    if not text.strip():
        raise ValueError(text)
    return text


def listed(text: str) -> str:
    """Texts between commas, as they are bound and compared: without blanks around them, and without empty ones."""
    found = ",".join(part.strip() for part in text.split(",") if part.strip())
    return some_text(found)


def typed_fields(text: str) -> str:
    """``field:KIND`` between commas, as it is bound and compared."""
    fields = [one.partition(":") for one in listed(text).split(",")]
    return ",".join(f"{name.strip()}{colon}{kind.strip().upper()}" for name, colon, kind in fields)


def function_name(text: str) -> str:
    """``module:function``."""
    module, colon, name = text.strip().partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), *name.split("."))):
        raise ValueError(text)
    return text.strip()


def choice_of(*values: str) -> Callable[[str], str]:
    """One of some texts, in any case."""

    def parse(text: str) -> str:
        if text.strip().upper() not in values:
            raise ValueError(text)
        return text.strip().upper()

    return parse


def names_of(kind: type[StrEnum]) -> str:
    return " | ".join(member.value for member in kind)


TIMESTAMP_TYPES: Final = ("EPOCHMILLISECONDS", "UNIX_TIMESTAMP", "DATE_STRING", "MIXED", "SCALAR")
TIME_UNITS: Final = ("NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS")
