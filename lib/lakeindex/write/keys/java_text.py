"""Column values as the text that Hudi's key generators make of them, vectorised over Arrow.

======================  ======================================================================
Arrow type              text
======================  ======================================================================
string                  itself
bool                    ``true``, ``false``
integers                decimal
float, double           Java's ``toString`` of releases 8 to 18: ``1.5``, ``100.0``, ``1.0E20``
date                    ``2020-01-01`` (``java.time.LocalDate``)
timestamp, time         the stored number: microseconds, milliseconds of a millisecond column; or the text of
                        :func:`timestamp_text`, of timestamps that are instants (have a zone)
decimal                 ``java.math.BigDecimal.toString``: ``1234.56``, ``0.00``, ``1E-7``
dictionary              as its values
======================  ======================================================================

Java 19 changed ``Double.toString``; Hudi 0.15 and 1.x run on 8, 11 and 17, whose digits are not always the
shortest (``2.0E-3f`` and ``3.4e10f -> 3.3999999E10``). Their algorithm is followed here (Steele and White's
free-format printing with the JDK's stopping rules), so keys stay equal across writers.

Timestamps as texts are those of Hudi's row writer: ``java.sql.Timestamp.toString``, of whole milliseconds. Measured
with Hudi 0.15 and 1.2: ``2016-12-29 09:54:00.0``, ``.123`` for 123,456 microseconds (cut towards zero, before the epoch
too), in the zone of the JVM whatever the session's zone is. Before 1582-10-15 the day is that of the Julian calendar,
and before 1900 the zone has the offset that it had on 1900-01-01.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import SchemaMismatchError
from lakeindex.hashing.arrow import plain_strings

_FRACTION_BITS: Final = 52
_HIDDEN_BIT: Final = 1 << _FRACTION_BITS
_DOUBLE_BIAS: Final = 1023
_FLOAT_BIAS: Final = 127
_FLOAT_FRACTION_BITS: Final = 23
# number of decimal digits below a power of two that carry no information (JDK FloatingDecimal)
_INSIGNIFICANT: Final = (
    0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10,
    11, 11, 11, 12, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15, 15, 15, 16, 16, 16, 17, 17, 17, 18, 18, 18, 19,
)  # fmt: skip


def java_text(column: pa.Array | pa.ChunkedArray, name: str, zone: dt.tzinfo | None = None) -> pa.Array:
    """Text of each value, null where the value is null.

    Args:
        column: the values, any type of the table above.
        zone: in which timestamps are texts; None: they are numbers.

    Raises:
        SchemaMismatchError: values of this type cannot be part of a key.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if pa.types.is_dictionary(kind):
        return java_text(array.dictionary, name, zone).take(array.indices)
    if pa.types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if _is_text(kind):
        return plain_strings(array)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.string())
    if pa.types.is_floating(kind):
        return _floating_text(array)
    if pa.types.is_date(kind):
        return _date_text(array)
    if zone is not None and is_instant(kind):
        return timestamp_text(array, zone)
    if pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        return _stored_number(array).cast(pa.string())
    raise SchemaMismatchError(
        f"column {name!r} of type {kind} cannot be part of a record key or partition path",
        culprit=name,
        hint="use a text, number, boolean, date, timestamp or decimal column",
    )


def is_instant(kind: pa.DataType) -> bool:
    """Whether Hudi knows values as points in time: a timestamp without a zone is a number in every key."""
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _date_text(array: pa.Array) -> pa.Array:
    text = array.cast(pa.date32()).cast(pa.string())
    # LocalDate writes a sign before years of more than four digits
    far = pc.and_(pc.greater(pc.binary_length(text), 10), pc.invert(pc.starts_with(text, "-")))
    if not pc.any(far).as_py():
        return text
    return pc.if_else(far, pc.binary_join_element_wise("+", text, ""), text)


def _stored_number(array: pa.Array) -> pa.Array:
    """The number Hudi stores: it knows milliseconds and microseconds only."""
    kind = array.type
    if pa.types.is_time32(kind):
        return array.cast(pa.time32("ms")).cast(pa.int32())
    if pa.types.is_time64(kind):
        return array.cast(pa.time64("us"), safe=False).cast(pa.int64())
    if kind.unit in ("us", "ms"):
        return array.cast(pa.int64())
    return array.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())


def _floating_text(array: pa.Array) -> pa.Array:
    double = pa.types.is_float64(array.type)
    print_one = java_double if double else java_float
    # per distinct bit pattern: 0.0 and -0.0 are different texts
    numbers = array.cast(pa.float64() if double else pa.float32()).fill_null(0.0).to_numpy(zero_copy_only=False)
    patterns, places = np.unique(numbers.view(np.int64 if double else np.int32), return_inverse=True)
    texts = pa.array([print_one(float(value)) for value in patterns.view(numbers.dtype)], pa.string())
    text = texts.take(pa.array(places.reshape(-1)))
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string())) if array.null_count else text


def java_double(value: float) -> str:
    """``Double.toString(value)``."""
    (bits,) = struct.unpack(">q", struct.pack(">d", value))
    exponent = (bits >> _FRACTION_BITS) & 0x7FF
    fraction = bits & (_HIDDEN_BIT - 1)
    return _java_number(value, exponent, fraction, _DOUBLE_BIAS, _FRACTION_BITS)


def java_float(value: float) -> str:
    """``Float.toString(value)`` of a value that a 32-bit float holds."""
    (bits,) = struct.unpack(">i", struct.pack(">f", value))
    exponent = (bits >> _FLOAT_FRACTION_BITS) & 0xFF
    fraction = bits & ((1 << _FLOAT_FRACTION_BITS) - 1)
    return _java_number(value, exponent, fraction, _FLOAT_BIAS, _FLOAT_FRACTION_BITS)


def _java_number(value: float, exponent: int, fraction: int, bias: int, fraction_bits: int) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0.0:
        return f"{sign}0.0"
    if exponent:
        fraction |= 1 << fraction_bits
        significant = fraction_bits + 1
    else:
        significant = fraction.bit_length()
        shift = fraction_bits + 1 - significant
        fraction <<= shift
        exponent = 1 - shift
    digits, point = _digits(fraction << (_FRACTION_BITS - fraction_bits), exponent - bias, significant)
    return sign + _layout(digits, point)


def _layout(digits: str, point: int) -> str:
    """Digits with the decimal point behind the first ``point`` of them, plain or with an exponent."""
    if 0 < point < 8:
        return f"{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"
    if -3 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    """Decimal digits of ``fraction / 2**52 * 2**exponent`` and where the point stands (JDK ``FloatingDecimal.dtoa``).

    Args:
        fraction: 53 bits, the highest one set.
        significant: bits of the original's fraction that mean something.
    """
    tail = (fraction & -fraction).bit_length() - 1
    fraction_bits = _FRACTION_BITS + 1 - tail
    tiny_bits = max(0, fraction_bits - exponent - 1)
    if exponent <= 62 and tiny_bits == 0:
        return _whole_number_digits(fraction, exponent, significant)
    decimal = _estimated_exponent(fraction, exponent)
    # value = b / s * 10**decimal, m = half the distance to the next number, all scaled to integers
    b5, s5 = max(0, -decimal), max(0, decimal)
    b2, s2 = b5 + tiny_bits + exponent, s5 + tiny_bits
    m2 = b2 - significant
    fraction >>= tail
    b2 -= fraction_bits - 1
    common = min(b2, s2)
    b2, s2, m2 = b2 - common, s2 - common, m2 - common
    if fraction_bits == 1:
        m2 -= 1  # below a power of two the numbers lie twice as dense
    if m2 < 0:
        b2, s2, m2 = b2 - m2, s2 - m2, 0
    width = _java_width(fraction_bits, b2, b5, s2, s5)
    return _develop((fraction * 5**b5) << b2, 5**s5 << s2, 5**b5 << m2, decimal, width)


def _develop(b: int, s: int, m: int, decimal: int, width: int | None) -> tuple[str, int]:
    """Digits until the rest is below the distance to the neighbouring numbers.

    Args:
        b: the value, scaled so that ``b / s`` has one digit before the point.
        s: the scale.
        m: half the distance to the next number, scaled alike.
        decimal: decimal exponent of the first digit.
        width: 32 or 64 where Java calculates in ints or longs, whose overflow decides some last digits.
    """
    tens = 10 * s
    digit, b, m = b // s, 10 * (b % s), _wrapped(m * 10, width)
    low, high = b < m, _wrapped(b + m, width) > tens
    digits = []
    if digit == 0 and not high:
        decimal -= 1
    else:
        digits.append(digit)
    if decimal < -3 or decimal >= 8:
        low = high = False  # Java prints at least one digit behind the point
    while not low and not high:
        digit, b, m = b // s, 10 * (b % s), _wrapped(m * 10, width)
        low, high = (b < m, _wrapped(b + m, width) > tens) if m > 0 else (True, True)
        digits.append(digit)
    difference = _wrapped(_wrapped(2 * b, width) - tens, width)
    up = high and (not low or difference > 0 or (difference == 0 and digits[-1] % 2 == 1))
    number = int("".join(map(str, digits))) + (1 if up else 0)
    text = str(number).rjust(len(digits), "0")
    decimal += 1 + len(text) - len(digits)
    return text.rstrip("0") or "0", decimal


def _wrapped(value: int, width: int | None) -> int:
    if width is None:
        return value
    half = 1 << (width - 1)
    return (value + half) % (2 * half) - half


def _java_width(fraction_bits: int, b2: int, b5: int, s2: int, s5: int) -> int | None:
    """Bits of the integers Java calculates with; None: big integers, which do not overflow."""
    b_bits = fraction_bits + b2 + _bits_of_power_of_5(b5)
    tens_bits = s2 + 1 + _bits_of_power_of_5(s5 + 1)
    if b_bits >= 64 or tens_bits >= 64:
        return None
    return 32 if b_bits < 32 and tens_bits < 32 else 64


def _bits_of_power_of_5(exponent: int) -> int:
    return (5**exponent).bit_length() if exponent < 27 else exponent * 3


def _whole_number_digits(fraction: int, exponent: int, significant: int) -> tuple[str, int]:
    excess = exponent - significant - 1
    skip = _INSIGNIFICANT[excess] if exponent > significant and 1 < excess < len(_INSIGNIFICANT) else 0
    number = (
        fraction << (exponent - _FRACTION_BITS)
        if exponent >= _FRACTION_BITS
        else fraction >> (_FRACTION_BITS - exponent)
    )
    if skip:
        power = 10**skip
        number, rest = divmod(number, power)
        number += rest >= power >> 1
    text = str(number)
    return text.rstrip("0") or "0", len(text) + skip


def _estimated_exponent(fraction: int, exponent: int) -> int:
    """``floor(log10(value))`` or one more (Taylor series of the logarithm about 1.5)."""
    (mantissa,) = struct.unpack(
        ">d", struct.pack(">q", (_DOUBLE_BIAS << _FRACTION_BITS) | (fraction & (_HIDDEN_BIT - 1)))
    )
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


_DAY_MS: Final = 86_400_000
_STEP_MS: Final = 900_000
"""Offsets change at quarters of an hour at most, since 1900."""
_FIRST_GREGORIAN: Final = -12_219_292_800_000
_LAST_PLAIN: Final = 253_402_300_799_999
_OFFSETS_FROM: Final = -2_208_988_800_000
_OFFSETS_TO: Final = 253_370_764_800_000
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FRACTION_ZEROS: Final = "0{1,2}$"


def timestamp_text(array: pa.Array, zone: dt.tzinfo) -> pa.Array:
    """Text of each timestamp, of any unit, in the zone of the JVM that the keys were made in; null where it is null."""
    whole = np.asarray(array.cast(pa.int64()).fill_null(0))
    local = _milliseconds(whole, array.type.unit)
    local = local + _offsets(local, zone)
    is_plain = (local >= _FIRST_GREGORIAN) & (local <= _LAST_PLAIN)
    plain = pa.array(np.where(is_plain, local, 0)).cast(pa.timestamp("ms")).cast(pa.string())
    text = pc.replace_substring_regex(plain, _FRACTION_ZEROS, "")
    if not is_plain.all():
        odd = pa.array([_rare_timestamp_text(int(one)) for one in local[~is_plain]], pa.string())
        text = pc.replace_with_mask(text, pa.array(~is_plain), odd)
    return pc.if_else(array.is_valid(), text, pa.scalar(None, pa.string())) if array.null_count else text


def milliseconds_of(array: pa.Array) -> pa.Array:
    """Whole milliseconds since the epoch of each timestamp, as ``java.sql.Timestamp.getTime``."""
    made = pa.array(_milliseconds(np.asarray(array.cast(pa.int64()).fill_null(0)), array.type.unit))
    return pc.if_else(array.is_valid(), made, pa.scalar(None, pa.int64()))


def _milliseconds(whole: npt.NDArray[np.int64], unit: str) -> npt.NDArray[np.int64]:
    if unit == "s":
        return whole * 1_000
    divisor = {"ms": 1, "us": 1_000, "ns": 1_000_000}[unit]
    return np.where(whole >= 0, whole // divisor, -(-whole // divisor))


def _offsets(milliseconds: npt.NDArray[np.int64], zone: dt.tzinfo) -> npt.NDArray[np.int64]:
    """By which local time is ahead, in milliseconds: asked once a day, of days with a change once a step."""
    offsets = np.zeros_like(milliseconds)
    if zone is dt.UTC or not len(milliseconds):
        return offsets
    known = np.clip(milliseconds, _OFFSETS_FROM, _OFFSETS_TO)
    days, places = np.unique(known // _DAY_MS, return_inverse=True)
    first, last = (np.array([_offset(int(day + end) * _DAY_MS, zone) for day in days], np.int64) for end in (0, 1))
    offsets += first[places.reshape(-1)]
    changes = (first != last)[places.reshape(-1)]
    if changes.any():
        steps, at = np.unique(known[changes] // _STEP_MS, return_inverse=True)
        offsets[changes] = np.array([_offset(int(step) * _STEP_MS, zone) for step in steps], np.int64)[at.reshape(-1)]
    return offsets


def _offset(milliseconds: int, zone: dt.tzinfo) -> int:
    offset = (_EPOCH + dt.timedelta(milliseconds=milliseconds)).astimezone(zone).utcoffset() or dt.timedelta()
    return offset // dt.timedelta(milliseconds=1)


def _rare_timestamp_text(milliseconds: int) -> str:
    """Of a day of the Julian calendar, or of a year with more than four digits."""
    days, rest = divmod(milliseconds, _DAY_MS)
    year, month, day = _julian_day(days) if milliseconds < _FIRST_GREGORIAN else _gregorian_day(days)
    seconds, thousandths = divmod(rest, 1_000)
    clock = f"{seconds // 3_600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{year:04d}-{month:02d}-{day:02d} {clock}.{f'{thousandths:03d}'.rstrip('0') or '0'}"


def _julian_day(days: int) -> tuple[int, int, int]:
    """Year, month and day of the Julian calendar; years begin in March here."""
    count = days + 719_470  # from 0000-03-01
    cycles, in_cycle = divmod(count, 1_461)
    years = min(in_cycle // 365, 3)
    return _date(4 * cycles + years, in_cycle - 365 * years)


def _gregorian_day(days: int) -> tuple[int, int, int]:
    cycles, in_cycle = divmod(days + 719_468, 146_097)
    years = (in_cycle - in_cycle // 1_460 + in_cycle // 36_524 - in_cycle // 146_096) // 365
    return _date(400 * cycles + years, in_cycle - (365 * years + years // 4 - years // 100))


def _date(year: int, day_of_year: int) -> tuple[int, int, int]:
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    return year + (month >= 10), month + 3 if month < 10 else month - 9, day
