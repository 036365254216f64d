"""Values of columns as they are compared and computed with: whole numbers of the column's units, floats, texts, bytes,
booleans.

In sums and products whole numbers and decimals are computed exactly, as decimals of as many digits as the result may
have; so nothing overflows. If one side is a float, or for a quotient, both are doubles. A quotient by zero is null.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from decimal import Context, Decimal, InvalidOperation
from enum import Enum
from fractions import Fraction
from math import floor, isinf
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import UsageError
from lakeindex.frozen import Frozen
from lakeindex.predicates.nodes import Arithmetic, Comparison, Number, Value

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


class Literal(Frozen):
    """A value as the text of a condition has it.

    Attributes:
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


class Settling(Frozen):
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
    """Bring a literal into a column's type, without any rounding: ``n > 1.5`` of a whole number is ``n > 1``. Beside
    a float it is the nearest one.

    Raises:
        UsageError: a literal that a column of this type is not compared with.
    """
    family = family_of(kind)
    if not _fits(literal, family):
        raise _does_not_fit(literal, kind, column, family)
    if family is Family.FLOAT:
        return _settle_float(how, _float(literal, kind, column), literal, kind)
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


def _float(literal: Literal, kind: pa.DataType, column: str) -> float:
    try:
        with np.errstate(over="ignore"):
            return float(np.dtype(kind.to_pandas_dtype()).type(literal.text))
    except ValueError:
        raise UsageError(
            f"{literal.text!r} is nothing that column {column!r} ({kind}) can be compared with: it is no number",
            culprit=literal.text,
            hint=f"give {Family.FLOAT.value}",
        ) from None


def _settle_float(how: Comparison, value: float, literal: Literal, kind: pa.DataType) -> Settling:
    """Beyond all numbers of the type is not infinite, but where no double is as large: so infinity is written."""
    if not isinf(value) or isinf(float(literal.text)):
        return Settling(how, value)
    if how in (Comparison.EQUAL, Comparison.NOT_EQUAL):
        return Settling(None, answer=how is not Comparison.EQUAL)
    is_greater = how in (Comparison.GREATER, Comparison.GREATER_EQUAL)
    ends = np.finfo(kind.to_pandas_dtype())
    if value > 0:
        return Settling(Comparison.GREATER if is_greater else Comparison.LESS_EQUAL, float(ends.max))
    return Settling(Comparison.GREATER_EQUAL if is_greater else Comparison.LESS, float(ends.min))


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


_EXACT_OPERATIONS: Final = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_DIGITS_128: Final = 38
_DIGITS_256: Final = 76
_MOST_NUMBER_EXPONENT: Final = 100


def number_of(text: str) -> Number | None:
    """A number as it is written, exactly; None if it has more than 76 digits."""
    value = Decimal(text)
    if abs(value.adjusted()) > _MOST_NUMBER_EXPONENT:
        return None
    digits = format(value, "f").lstrip("-").replace(".", "").lstrip("0")
    scale = max(-int(value.as_tuple().exponent), 0)
    precision = max(len(digits), scale, 1)
    if precision > _DIGITS_256:
        return None
    kind = _decimal(precision, scale)
    return Number(text, pa.scalar(Decimal(format(value, "f")), kind), kind)


def type_of(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Type of a sum, difference, product or quotient; None if there is none of these two types."""
    families = {family_of(left), family_of(right)}
    if not families <= {Family.NUMBER, Family.FLOAT}:
        return None
    if operator == "/" or Family.FLOAT in families:
        return pa.float64()
    sides = [pa.nulls(0, pa.decimal256(*_digits(kind))) for kind in (left, right)]
    try:
        kind = _EXACT_OPERATIONS[operator](*sides).type
    except pa.ArrowInvalid:
        return None
    return _decimal(kind.precision, kind.scale)


def common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Type that holds all values of two types of whole numbers or decimals; None if there is none."""
    (digits, scale), (others, other) = _digits(left), _digits(right)
    precision = max(digits - scale, others - other) + max(scale, other)
    return _decimal(precision, max(scale, other)) if precision <= _DIGITS_256 else None


def as_float(value: Any, source: pa.DataType, kind: pa.DataType) -> Any:
    """Numbers (an array or an expression) as the nearest floats. Of decimals by way of their digits: Arrow's own cast
    multiplies, and makes 38426.090000000004 of 38426.09.
    """
    return value.cast(pa.string()).cast(kind) if pa.types.is_decimal(source) else value.cast(kind, safe=False)


def computed(node: Arithmetic, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    """What Arrow computes."""
    if pa.types.is_floating(node.type):
        one, other = as_float(left, node.left.type, pa.float64()), as_float(right, node.right.type, pa.float64())
        return (
            quotient(one, other, pa.float64()) if node.operator == "/" else _EXACT_OPERATIONS[node.operator](one, other)
        )
    wide = pa.decimal256 if pa.types.is_decimal256(node.type) else pa.decimal128
    sides = (side.cast(wide(*_digits(kind.type))) for side, kind in ((left, node.left), (right, node.right)))
    return _EXACT_OPERATIONS[node.operator](*sides)


def decimal_type(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Type that Spark has for a sum, difference, product or quotient of decimals or whole numbers: at most 38 digits,
    six of which at least stay behind the point.
    """
    (digits, scale), (others, other) = _digits(left), _digits(right)
    match operator:
        case "*":
            wanted, behind = digits + others + 1, scale + other
        case "/":
            behind = max(6, scale + others + 1)
            wanted = digits - scale + other + behind
        case _:
            behind = max(scale, other)
            wanted = max(digits - scale, others - other) + behind + 1
    if wanted > _DIGITS_128:
        behind = max(_DIGITS_128 - (wanted - behind), min(behind, 6))
    return pa.decimal128(min(wanted, _DIGITS_128), behind)


def in_decimals(
    operator: str, left: tuple[pc.Expression, pa.DataType], right: tuple[pc.Expression, pa.DataType]
) -> tuple[pc.Expression, pa.DataType]:
    """What is computed of decimals or whole numbers, and its exact type of at most 76 digits; a quotient has a digit
    more than :func:`decimal_type` says, to be rounded by.

    Raises:
        ArrowInvalid: it has more digits.
    """
    (digits, scale), (others, other) = _digits(left[1]), _digits(right[1])
    if operator == "/":
        more = max(decimal_type(operator, left[1], right[1]).scale + other - others - scale, 0)
        digits, scale = digits + more, scale + more
    kinds = pa.decimal256(digits, scale), pa.decimal256(others, other)
    one = left[0].cast(pa.decimal256(*_digits(left[1]))).cast(kinds[0])
    two = right[0].cast(kinds[1])
    found = quotient(one, two, kinds[1]) if operator == "/" else _EXACT_OPERATIONS[operator](one, two)
    arrow = pc.divide if operator == "/" else _EXACT_OPERATIONS[operator]
    return found, arrow(*(pa.nulls(0, kind) for kind in kinds)).type


def quotient(one: pc.Expression, other: pc.Expression, divisor: pa.DataType) -> pc.Expression:
    """``one`` / ``other`` of type ``divisor``; null if that is zero, as DuckDB and Spark's SQL (not ANSI) have it."""
    nothing = pc.scalar(pa.scalar(None, divisor))
    return pc.divide_checked(one, pc.if_else(other == pc.scalar(pa.scalar(0, divisor)), nothing, other))


def _decimal(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale) if precision <= _DIGITS_128 else pa.decimal256(precision, scale)


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Digits of all values of a type, and how many of them are behind the point."""
    if pa.types.is_decimal(kind):
        return kind.precision, kind.scale
    return len(str(2**kind.bit_width)), 0
