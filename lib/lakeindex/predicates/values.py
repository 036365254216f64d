"""Values of columns as they are compared: whole numbers of the column's units, floats, texts, bytes, booleans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from enum import Enum
from fractions import Fraction
from math import floor
from typing import Final

import numpy as np
import pyarrow as pa

from lakeindex.errors import UsageError
from lakeindex.predicates.nodes import Comparison, Value

_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAY_NS: Final = 86_400 * 10**9
_NS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_MS: Final = 86_400_000
_MOST_EXPONENT: Final = 400
_MOMENT: Final = re.compile(
    r"(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[ T](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?"
    r" ?(?P<zone>Z|[+-]\d{2}:?\d{2})?)?"
)
_CLOCK: Final = re.compile(r"(?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?")


class Family(Enum):
    """Types that are compared with the same kind of literal."""

    NUMBER = "a number"
    FLOAT = "a number, which is a float"
    TEXT = "a text in single quotes"
    BYTES = "bytes such as x'00ff'"
    BOOLEAN = "true or false"
    MOMENT = "a date or timestamp in single quotes, such as '2026-01-31' or '2026-01-31 12:00:00'"
    CLOCK = "a time in single quotes, such as '12:00:00'"
    OTHER = "nothing"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value as the text of a condition has it.

    Attributes:
        text: as it is written.
        family: NUMBER, TEXT, BYTES, BOOLEAN, or MOMENT if it is said to be a date or timestamp.
    """

    text: str
    family: Family


def family_of(kind: pa.DataType) -> Family:
    """What values of an Arrow type are compared with."""
    types = pa.types
    if types.is_boolean(kind):
        return Family.BOOLEAN
    if types.is_integer(kind) or types.is_decimal(kind):
        return Family.NUMBER
    if types.is_floating(kind):
        return Family.FLOAT
    if types.is_string(kind) or types.is_large_string(kind):
        return Family.TEXT
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return Family.BYTES
    if types.is_date(kind) or types.is_timestamp(kind):
        return Family.MOMENT
    return Family.CLOCK if types.is_time(kind) else Family.OTHER


@dataclass(frozen=True, slots=True)
class Settling:
    """A comparison in the values of a column's type.

    Attributes:
        how: the comparison; None if ``answer`` says all.
        value: what is compared with.
        answer: what the comparison says of every value of the type.
    """

    how: Comparison | None
    value: Value | None = None
    answer: bool = False


def settle(how: Comparison, literal: Literal, kind: pa.DataType, column: str) -> Settling:
    """Bring a literal into a column's type, without any rounding: ``n > 1.5`` of a whole number is ``n > 1``.

    Args:
        how: the comparison.
        literal: what the column is compared with.
        kind: the column's type.
        column: its name, for messages.

    Raises:
        UsageError: a literal that a column of this type is not compared with.
    """
    family = family_of(kind)
    if not _fits(literal, family):
        raise _does_not_fit(literal, kind, column, family)
    if family is Family.FLOAT:
        return Settling(how, _float(literal, kind))
    if family is Family.BOOLEAN:
        return Settling(how, literal.text == "true")
    if family is Family.TEXT:
        return Settling(how, literal.text)
    if family is Family.BYTES:
        return Settling(how, bytes.fromhex(literal.text))
    return _settle_units(how, _units(literal, kind, column, family), kind)


def scalar_of(value: Value, kind: pa.DataType) -> pa.Scalar:
    """A value of a column's type as Arrow computes with it."""
    return array_of([value], kind)[0]


def array_of(values: Sequence[Value], kind: pa.DataType) -> pa.Array:
    """Values of a column's type as Arrow computes with them."""
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(int(value)).scaleb(-kind.scale, _EXACT) for value in values], kind)
    if pa.types.is_date64(kind):
        return pa.array([int(value) * _DAY_MS for value in values], pa.int64()).cast(kind)
    if pa.types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
    return pa.array(values, kind)


_EXACT: Final = Context(prec=100)


def type_range(kind: pa.DataType) -> tuple[int, int]:
    """Least and greatest value that a type can hold, in its units. Of numbers, decimals, dates and times only."""
    if pa.types.is_decimal(kind):
        most = 10**kind.precision - 1
        return -most, most
    bits = 32 if pa.types.is_date(kind) else kind.bit_width
    if pa.types.is_unsigned_integer(kind):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _settle_units(how: Comparison, exact: Fraction, kind: pa.DataType) -> Settling:
    least, greatest = type_range(kind)
    whole = floor(exact)
    is_greater = how in (Comparison.GREATER, Comparison.GREATER_EQUAL)
    if how in (Comparison.EQUAL, Comparison.NOT_EQUAL):
        if whole != exact or not least <= whole <= greatest:
            return Settling(None, answer=how is Comparison.NOT_EQUAL)
        return Settling(how, whole)
    if exact < least:
        return Settling(None, answer=is_greater)
    if exact > greatest:
        return Settling(None, answer=not is_greater)
    if whole != exact:
        how = Comparison.GREATER if is_greater else Comparison.LESS_EQUAL
    return Settling(how, whole)


def _fits(literal: Literal, family: Family) -> bool:
    if family is Family.FLOAT:
        return literal.family is Family.NUMBER
    if family in (Family.MOMENT, Family.CLOCK):
        return literal.family in (Family.TEXT, Family.MOMENT)
    return family is not Family.OTHER and literal.family is family


def _float(literal: Literal, kind: pa.DataType) -> float:
    with np.errstate(over="ignore"):
        return float(np.dtype(kind.to_pandas_dtype()).type(literal.text))


def _units(literal: Literal, kind: pa.DataType, column: str, family: Family) -> Fraction:
    try:
        if family is Family.NUMBER:
            number = Decimal(literal.text)
            if abs(number.adjusted()) > _MOST_EXPONENT:
                raise ValueError(f"its exponent is beyond {_MOST_EXPONENT}")  # noqa: TRY301 - told with the others
            return Fraction(number) * (10**kind.scale if pa.types.is_decimal(kind) else 1)
        return _time_units(literal.text, kind, family)
    except (ValueError, InvalidOperation) as error:
        raise UsageError(
            f"{literal.text!r} is nothing that column {column!r} ({kind}) can be compared with: {error}",
            culprit=literal.text,
            hint=f"give {family.value}",
        ) from None


def _time_units(text: str, kind: pa.DataType, family: Family) -> Fraction:
    found = (_CLOCK if family is Family.CLOCK else _MOMENT).fullmatch(text.strip())
    if found is None:
        raise ValueError("it does not have that form")
    part = found.groupdict()
    hour, minute, second = (int(part.get(name) or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("there is no such time of the day")
    moment = (hour * 3600 + minute * 60 + second) * 10**9 + int((part.get("fraction") or "").ljust(9, "0"))
    if family is Family.CLOCK:
        return Fraction(moment, _NS[kind.unit])
    moment += (date.fromisoformat(part["day"]).toordinal() - _EPOCH) * _DAY_NS
    zone = part["zone"]
    if zone is not None:
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            raise ValueError("the column's values have no time zone")
        moment -= _zone_ns(zone)
    return Fraction(moment, _DAY_NS if pa.types.is_date(kind) else _NS[kind.unit])


def _zone_ns(zone: str) -> int:
    if zone == "Z":
        return 0
    digits = zone[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return (-1 if zone[0] == "-" else 1) * minutes * 60 * 10**9


def _does_not_fit(literal: Literal, kind: pa.DataType, column: str, family: Family) -> UsageError:
    if family is Family.OTHER:
        return UsageError(
            f"column {column!r} is {kind}, which is not compared with values",
            culprit=column,
            hint="of such a column only IS NULL and IS NOT NULL can be asked; fields of a struct are named by dots",
        )
    shown = f"'{literal.text}'" if literal.family in (Family.TEXT, Family.MOMENT) else literal.text
    return UsageError(
        f"column {column!r} is {kind}, and cannot be compared with {shown}",
        culprit=literal.text,
        hint=f"give {family.value}",
    )
