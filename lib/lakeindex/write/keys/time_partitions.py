"""Partition paths made from times: Hudi's timestamp-based key generator.

A value is a number (of seconds, milliseconds, ... by ``hoodie.keygen.timebased.timestamp.type``) or a text in one
of the input formats; the path is that time in the output format. Formats are Joda-Time patterns. A null becomes 1
unit after the epoch, as in Hudi. Where a table names no output zone, Hudi takes the zone of its process; we take UTC.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import OptionError, SchemaMismatchError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import without_dictionary
from lakeindex.write.keys.java_text import milliseconds_of
from lakeindex.write.keys.joda import JodaFormat, JodaParser, zone_of

_PREFIXES: Final = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")
_GENERATOR_OPTION: Final = "hoodie.table.keygenerator.type"
_LONG_MAX: Final = 2**63 - 1
_LONG_MIN: Final = -(2**63)
# milliseconds of one unit, as (multiply by, divide by)
_UNITS: Final[dict[str, tuple[int, int]]] = {
    "NANOSECONDS": (1, 1_000_000),
    "MICROSECONDS": (1, 1_000),
    "MILLISECONDS": (1, 1),
    "SECONDS": (1_000, 1),
    "MINUTES": (60_000, 1),
    "HOURS": (3_600_000, 1),
    "DAYS": (86_400_000, 1),
}


TRANSFORMS: Final[Mapping[str, str]] = {
    "year": "yyyy",
    "month": "yyyy-MM",
    "day": "yyyy-MM-dd",
    "hour": "yyyy-MM-dd-HH",
}
"""Parts of a time that a partition can be of, and the format of its path."""

_CALENDAR: Final = ("yyyy", "MM", "dd", "HH")
_LETTERS: Final = re.compile(r"([A-Za-z])\1*|'[^']*'")


class TimeType(StrEnum):
    """``hoodie.keygen.timebased.timestamp.type``."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    DATE_STRING = "DATE_STRING"
    MIXED = "MIXED"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    SCALAR = "SCALAR"


_FIXED_UNITS: Final = {
    TimeType.UNIX_TIMESTAMP: "SECONDS",
    TimeType.EPOCHMILLISECONDS: "MILLISECONDS",
    TimeType.EPOCHMICROSECONDS: "MICROSECONDS",
}


class TimeOptions(Frozen):
    """How a time becomes a partition path.

    Attributes:
        output_format: Joda-Time pattern of the path.
        input_formats: Joda-Time patterns of texts; the first that takes all of a text is asked, even if its numbers are
            no time by it (a month 13) and would be one by the next.
        input_zone: zone of texts that name none; None: the text's own offset, else UTC.
        output_zone: zone of the path; None: the text's own offset, else UTC.
        scalar_unit: unit of numbers (``java.util.concurrent.TimeUnit``) for SCALAR.
    """

    time_type: TimeType
    output_format: str
    input_formats: tuple[str, ...] = ()
    input_zone: str | None = None
    output_zone: str | None = None
    scalar_unit: str = "SECONDS"

    @classmethod
    def of_transform(cls, transform: str, kind: pa.DataType, name: str) -> dict[str, str]:
        """The ``hoodie.keygen.timebased.*`` options, by their ends, with which Hudi makes these paths of a column.

        Args:
            transform: one of :data:`TRANSFORMS`.

        Raises:
            OptionError: a column that is no date or timestamp, or a date by hours.
        """
        if pa.types.is_date(kind) and transform != "hour":
            unit = "DAYS"
        elif pa.types.is_timestamp(kind):
            unit = "MILLISECONDS" if kind.unit == "ms" else "MICROSECONDS"  # Hudi 0.15 has no EPOCHMICROSECONDS
        else:
            raise OptionError(
                f"column {name!r} is {kind}, which has no partitions by {transform}",
                culprit=name,
                hint="a date has them by year, month and day, a timestamp also by hour; texts and numbers that say "
                f"times need -o {_GENERATOR_OPTION}=TIMESTAMP, -o {_PREFIXES[0]}timestamp.type=... and "
                f"-o {_PREFIXES[0]}output.dateformat={TRANSFORMS[transform]}",
            )
        scalar = {"timestamp.type": TimeType.SCALAR.value, "timestamp.scalar.time.unit": unit}
        return {**scalar, "output.dateformat": TRANSFORMS[transform]}

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> TimeOptions:
        """The ``hoodie.keygen.timebased.*`` options (or their old ``deltastreamer`` spelling).

        Raises:
            OptionError: a needed option is missing or not valid.
        """

        def get(name: str) -> str | None:
            return next((properties[p + name] for p in _PREFIXES if properties.get(p + name)), None)

        time_type = get("timestamp.type")
        if time_type not in set(TimeType):
            raise _bad("timestamp.type", time_type, " | ".join(TimeType))
        output_format = get("output.dateformat")
        if output_format is None:
            raise _bad("output.dateformat", output_format, "a Joda-Time pattern such as yyyy/MM/dd")
        unit = (get("timestamp.scalar.time.unit") or "SECONDS").upper()
        if unit not in _UNITS:
            raise _bad("timestamp.scalar.time.unit", unit, " | ".join(_UNITS))
        formats = re.split(get("input.dateformat.list.delimiter.regex") or ",", get("input.dateformat") or "")
        both = get("timezone")
        return cls(
            TimeType(time_type),
            output_format,
            tuple(text.strip() for text in formats if text.strip()),
            both or get("input.timezone"),
            both or get("output.timezone"),
            unit,
        )


def _bad(name: str, value: str | None, valid: str) -> OptionError:
    key = _PREFIXES[0] + name
    said = "is missing" if value is None else f"cannot be {value!r}"
    return OptionError(f"option {key} {said}", culprit=key, hint=f"give it with -o {key}=...; valid: {valid}")


class TimePartitioner:
    """Formats one partition field's values.

    Raises:
        OptionError: a format or zone is not understood, or a text type has no input format.
    """

    def __init__(self, options: TimeOptions) -> None:
        self._options = options
        self._unit = _UNITS.get(_FIXED_UNITS.get(options.time_type, ""), None)
        if options.time_type is TimeType.SCALAR:
            self._unit = _UNITS[options.scalar_unit]
        self._output_zone = zone_of(options.output_zone)
        self._input_zone = zone_of(options.input_zone)
        self._format = JodaFormat(options.output_format)
        reads_text = options.time_type in (TimeType.DATE_STRING, TimeType.MIXED)
        if reads_text and not options.input_formats:
            raise _bad("input.dateformat", None, "a Joda-Time pattern such as yyyy-MM-dd")
        self._parsers = tuple(JodaParser(pattern) for pattern in options.input_formats) if reads_text else ()

    def paths(self, column: pa.Array | pa.ChunkedArray, name: str) -> tuple[pa.Array, pa.Array]:
        """Path of each value and, where there is none, the reason (else null). Works per distinct value.

        Raises:
            SchemaMismatchError: the column is of a type that says no time.
        """
        array = without_dictionary(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
        return _by_distinct(self._values(array, name), lambda value: self._path(value, name))

    def times(self, array: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The same of timestamps that are points in time, whatever kind of number or text the options expect."""
        zone = self._output_zone or dt.UTC

        def path(value: int | str | None) -> tuple[str | None, str | None]:
            return (self._format.text(value, zone) if isinstance(value, int) else self._default()), None

        return _by_distinct(milliseconds_of(array), path)

    def values_of(self, path: str) -> tuple[int, int, bool] | None:
        """The least and the greatest number of which a path is made, and whether it is that of nulls, too; None where
        that is not known: another output zone than UTC, a format that is not that of a calendar, or texts.
        """
        letters = [found[0] for found in _LETTERS.finditer(self._options.output_format) if found[1]]
        depth, unit = len(letters), self._unit
        if unit is None or not depth or letters != list(_CALENDAR[:depth]) or (self._output_zone or dt.UTC) != dt.UTC:
            return None
        parsed = JodaParser(self._options.output_format).parse(path, dt.UTC)
        if parsed is None or self._format.text(parsed[0], dt.UTC) != path:
            return None
        epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        try:
            first = epoch + dt.timedelta(milliseconds=parsed[0])
            end = _after(first, depth)
        except (OverflowError, ValueError):
            return None
        multiply, divide = unit
        start, stop = ((one - epoch) // dt.timedelta(milliseconds=1) for one in (first, end))
        # of numbers below zero the rest of a division goes up, as in Java
        least = -(-start * divide // multiply) if start > 0 else (start - 1) * divide // multiply + 1
        greatest = -(-stop * divide // multiply) - 1 if stop > 0 else (stop - 1) * divide // multiply
        return least, greatest, path == self._default()

    def _values(self, array: pa.Array, name: str) -> pa.Array:
        """Whole numbers of the field's unit, or texts."""
        kind = array.type
        if pa.types.is_null(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return array.cast(pa.string())
        if pa.types.is_integer(kind):
            return array.cast(pa.int64())
        if pa.types.is_timestamp(kind):
            unit = "ms" if kind.unit == "ms" else "us"
            return array.cast(pa.timestamp(unit, kind.tz), safe=False).cast(pa.int64())
        if pa.types.is_date(kind):
            return array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return pc.trunc(array).cast(pa.int64(), safe=False)
        raise SchemaMismatchError(
            f"column {name!r} of type {kind} cannot make a partition path from times",
            culprit=name,
            hint="use a number, timestamp, date, decimal or text column",
        )

    def _path(self, value: int | str | None, name: str) -> tuple[str | None, str | None]:
        if value is None:
            return self._default(), None
        if isinstance(value, int):
            if self._unit is None:
                return None, f"partition field {name!r} is the number {value}, but its time type has no unit"
            return self._format.text(_to_millis(value, self._unit), self._output_zone or dt.UTC), None
        if not self._parsers:
            return None, f"partition field {name!r} is the text {value!r}, but its time type takes numbers"
        parser = next((one for one in self._parsers if one.takes(value)), None)
        found = parser and parser.parse(value, self._input_zone)
        if found:
            return self._format.text(found[0], self._output_zone or found[1]), None
        return None, f"partition field {name!r}: {value!r} fits none of {', '.join(self._options.input_formats)}"

    def _default(self) -> str:
        """Path of a null: the number 1, or for texts one millisecond after the epoch in the first input format."""
        if self._unit is not None:
            return self._format.text(_to_millis(1, self._unit), self._output_zone or dt.UTC)
        zone = self._input_zone or self._output_zone or dt.UTC
        text = JodaFormat(self._options.input_formats[0]).text(1, zone)
        found = self._parsers[0].parse(text, self._input_zone)
        millis, parsed_zone = found if found is not None else (1, zone)
        return self._format.text(millis, self._output_zone or parsed_zone)


def _by_distinct(
    values: pa.Array, path: Callable[[int | str | None], tuple[str | None, str | None]]
) -> tuple[pa.Array, pa.Array]:
    """Path and reason of each value, asked once a distinct one."""
    coded = values.dictionary_encode()
    found = [path(value) for value in [*coded.dictionary.to_pylist(), None]]
    places = pc.fill_null(coded.indices.cast(pa.int64()), len(found) - 1)
    texts, reasons = (pa.array(column, pa.string()).take(places) for column in zip(*found, strict=True))
    return texts, reasons


def _after(first: dt.datetime, depth: int) -> dt.datetime:
    """The beginning of the next year, month, day or hour."""
    if depth == 1:
        return first.replace(year=first.year + 1)
    if depth == 2:
        return first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return first + (dt.timedelta(days=1) if depth == 3 else dt.timedelta(hours=1))


def _to_millis(value: int, unit: tuple[int, int]) -> int:
    """``TimeUnit.MILLISECONDS.convert``: divides towards zero, and stops at the ends of a long."""
    multiply, divide = unit
    millis = abs(value) * multiply // divide
    return max(_LONG_MIN, min(_LONG_MAX, millis if value >= 0 else -millis))
