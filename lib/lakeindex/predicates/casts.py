"""CAST as Spark's SQL has it with ANSI rules: what does not fit is an error when rows are computed, no other value.

Decimals are rounded half up. A float becomes the decimal of its shortest text, as ``1.005`` for the double next to it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.predicates.values import Family, family_of

_DIGITS: Final = 76
_NUMBERS: Final = (Family.NUMBER, Family.FLOAT)


def cast_to(value: pc.Expression, source: pa.DataType, target: pa.DataType) -> pc.Expression | None:
    """A value in another type.

    Args:
        value: as Arrow computes it.
        source: its type.
        target: the type that is wanted.

    Returns:
        The value; None if there is no such cast, or none that means what Spark's does.
    """
    if source == target:
        return value
    have, want = family_of(source), family_of(target)
    if want is Family.TEXT:
        return _text_of(value, source)
    if have is Family.TEXT:
        return _of_text(value, target)
    if have in _NUMBERS and want in _NUMBERS:
        return _number(value, source, target)
    if pa.types.is_integer(source) and pa.types.is_timestamp(target):
        return value.cast(pa.int64()).cast(pa.timestamp("s")).cast(target)
    moments = have is Family.MOMENT and want is Family.MOMENT
    truths = have is Family.BOOLEAN or want is Family.BOOLEAN
    if moments or (truths and {have, want} <= {Family.BOOLEAN, *_NUMBERS} and not _has_decimal(source, target)):
        return value.cast(options=pc.CastOptions(target, allow_time_truncate=True))
    return None


def rounded(value: pc.Expression, source: pa.DataType, target: pa.DataType) -> pc.Expression:
    """A decimal with the digits of another, rounded half up."""
    if source.scale > target.scale:
        wide = value.cast(pa.decimal256(_DIGITS, source.scale))
        value = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    return value.cast(target)


def common_type(kinds: set[pa.DataType]) -> pa.DataType | None:
    """The type of the values of CASE and COALESCE, of several types of numbers; None if there is none."""
    if any(map(pa.types.is_floating, kinds)):
        return pa.float64()
    if not any(map(pa.types.is_decimal, kinds)):
        return max(kinds, key=lambda kind: kind.bit_width)
    digits = [(kind.precision, kind.scale) if pa.types.is_decimal(kind) else (whole_digits(kind), 0) for kind in kinds]
    scale = max(scale for _, scale in digits)
    precision = scale + max(precision - scale for precision, scale in digits)
    return pa.decimal128(precision, scale) if precision <= 38 else None


def whole_digits(kind: pa.DataType) -> int:
    """Digits of a type of whole numbers."""
    return 10 if kind.bit_width <= 32 else 20


def _number(value: pc.Expression, source: pa.DataType, target: pa.DataType) -> pc.Expression:
    types = pa.types
    if types.is_decimal(target):
        if types.is_floating(source):
            return _of_text(value.cast(pa.float64()).cast(pa.string()), target)  # as Spark does with 32 bits, too
        if types.is_integer(source):
            digits = pa.decimal256(whole_digits(source), 0)
            return value.cast(digits).cast(pa.decimal256(_DIGITS, target.scale)).cast(target)
        return rounded(value, source, target)
    if types.is_floating(target):
        return value.cast(target, safe=False)  # rounded to the nearest
    if types.is_floating(source):
        value = pc.trunc(value)  # a cast that truncates by itself would make a number of NaN, too
    return value.cast(options=pc.CastOptions(target, allow_decimal_truncate=True))


def _of_text(value: pc.Expression, target: pa.DataType) -> pc.Expression | None:
    if family_of(target) in (Family.BYTES, Family.CLOCK, Family.OTHER):
        return None
    value = pc.utf8_trim_whitespace(value)
    if pa.types.is_integer(target):  # Arrow reads hexadecimal digits, too, and no plus
        value = pc.replace_substring_regex(value, "^[+-]?0[xX]", "x")
        value = pc.replace_substring_regex(value, r"^\+(\d)", r"\1")
    if pa.types.is_decimal(target):
        wide = pa.decimal256(_DIGITS, target.scale + 1)
        return rounded(value.cast(options=pc.CastOptions(wide, allow_decimal_truncate=True)), wide, target)
    return value.cast(target)


def _text_of(value: pc.Expression, source: pa.DataType) -> pc.Expression | None:
    """Numbers as Arrow writes them in full; of a float Spark's text cannot be had (``1.0E20``)."""
    family = family_of(source)
    if family in (Family.FLOAT, Family.CLOCK, Family.OTHER):
        return None
    if pa.types.is_timestamp(source):
        if source.tz is not None:
            value = pc.local_timestamp(value)
        text = value.cast(pa.string())
        return text if source.unit == "s" else pc.replace_substring_regex(text, r"\.?0+$", "")
    return value.cast(pa.string())


def _has_decimal(*kinds: pa.DataType) -> bool:
    return any(map(pa.types.is_decimal, kinds))
