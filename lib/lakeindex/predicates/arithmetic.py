"""Sums and products of numbers: their types, and how Arrow computes them.

Whole numbers and decimals are computed exactly, as decimals of as many digits as the result may have; so nothing
overflows. If one side is a float, or for a quotient, both are doubles. A quotient by zero is null.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.predicates.nodes import Arithmetic, Number
from lakeindex.predicates.values import Family, family_of

_EXACT: Final = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_DIGITS_128: Final = 38
_DIGITS_256: Final = 76
_MOST_EXPONENT: Final = 100


def number_of(text: str) -> Number | None:
    """A number as it is written, exactly; None if it has more than 76 digits."""
    value = Decimal(text)
    if abs(value.adjusted()) > _MOST_EXPONENT:
        return None
    digits = format(value, "f").lstrip("-").replace(".", "").lstrip("0")
    scale = max(-int(value.as_tuple().exponent), 0)
    precision = max(len(digits), scale, 1)
    if precision > _DIGITS_256:
        return None
    kind = _decimal(precision, scale)
    return Number(text, pa.scalar(Decimal(format(value, "f")), kind), kind)


def type_of(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Type of a sum, difference, product or quotient; None if there is none of these two types.

    Args:
        operator: ``+``, ``-``, ``*`` or ``/``.
        left: type of the left side.
        right: type of the right side.
    """
    families = {family_of(left), family_of(right)}
    if not families <= {Family.NUMBER, Family.FLOAT}:
        return None
    if operator == "/" or Family.FLOAT in families:
        return pa.float64()
    sides = [pa.nulls(0, pa.decimal256(*_digits(kind))) for kind in (left, right)]
    try:
        kind = _EXACT[operator](*sides).type
    except pa.ArrowInvalid:
        return None
    return _decimal(kind.precision, kind.scale)


def common_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """Type that holds all values of two types of whole numbers or decimals; None if there is none."""
    (digits, scale), (others, other) = _digits(left), _digits(right)
    precision = max(digits - scale, others - other) + max(scale, other)
    return _decimal(precision, max(scale, other)) if precision <= _DIGITS_256 else None


def computed(node: Arithmetic, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    """What Arrow computes.

    Args:
        node: what is to be computed.
        left: its left side.
        right: its right side.
    """
    if pa.types.is_floating(node.type):
        one, other = left.cast(pa.float64(), safe=False), right.cast(pa.float64(), safe=False)
        return quotient(one, other, pa.float64()) if node.operator == "/" else _EXACT[node.operator](one, other)
    wide = pa.decimal256 if pa.types.is_decimal256(node.type) else pa.decimal128
    sides = (side.cast(wide(*_digits(kind.type))) for side, kind in ((left, node.left), (right, node.right)))
    return _EXACT[node.operator](*sides)


def decimal_type(operator: str, left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """Type that Spark has for a sum, difference, product or quotient of decimals or whole numbers: at most 38 digits,
    six of which at least stay behind the point.

    Args:
        operator: ``+``, ``-``, ``*`` or ``/``.
        left: type of the left side.
        right: type of the right side.
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

    Args:
        operator: ``+``, ``-``, ``*`` or ``/``.
        left: the left side and its type.
        right: the right side and its type.

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
    found = quotient(one, two, kinds[1]) if operator == "/" else _EXACT[operator](one, two)
    arrow = pc.divide if operator == "/" else _EXACT[operator]
    return found, arrow(*(pa.nulls(0, kind) for kind in kinds)).type


def quotient(one: pc.Expression, other: pc.Expression, divisor: pa.DataType) -> pc.Expression:
    """One number divided by another; null if that is zero, as DuckDB and Spark's SQL (not ANSI) have it.

    Args:
        one: the dividend.
        other: the divisor.
        divisor: its type.
    """
    nothing = pc.scalar(pa.scalar(None, divisor))
    return pc.divide_checked(one, pc.if_else(other == pc.scalar(pa.scalar(0, divisor)), nothing, other))


def _decimal(precision: int, scale: int) -> pa.DataType:
    return pa.decimal128(precision, scale) if precision <= _DIGITS_128 else pa.decimal256(precision, scale)


def _digits(kind: pa.DataType) -> tuple[int, int]:
    """Digits of all values of a type, and how many of them are behind the point."""
    if pa.types.is_decimal(kind):
        return kind.precision, kind.scale
    return len(str(2**kind.bit_width)), 0
