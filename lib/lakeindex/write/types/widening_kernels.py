"""Compiled (numba, imported late): the double that Java reads from the text it prints of a float."""

from __future__ import annotations

from typing import Any, Final

import numba
import numpy as np
import numpy.typing as npt

from lakeindex.hashing.compile_cache import njit_inline, njit_kernel

_FRACTION_BITS: Final = 52
_FLOAT_FRACTION_BITS: Final = 23
_FLOAT_BIAS: Final = 127
_DOUBLE_BIAS: Final = 1023
_MOST_EXACT_POWER: Final = 22
_POWERS: Final[Any] = np.array([10.0**n for n in range(_MOST_EXACT_POWER + 1)])
_FIVES: Final[Any] = np.array([5**n for n in range(28)], dtype=np.uint64).astype(np.int64)
_FIVES_BITS: Final[Any] = np.array([(5**n).bit_length() for n in range(28)], dtype=np.int64)
# number of decimal digits below a power of two that carry no information, as in java_text
_INSIGNIFICANT: Final[Any] = np.array(
    [0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10,
     11, 11, 11, 12, 12, 12, 12, 13, 13, 13, 14, 14, 14, 15, 15, 15, 15, 16, 16, 16, 17, 17, 17, 18, 18, 18, 19],
    dtype=np.int64,
)  # fmt: skip


@njit_inline
def _wrapped(value: np.int64, narrow: bool) -> np.int64:  # noqa: FBT001 - compiled: no keywords
    """As Java's ints overflow; longs do so by themselves."""
    return np.int64(np.int32(value & np.int64(0xFFFFFFFF))) if narrow else value


@njit_inline
def _scaled(number: np.int64, power: int) -> float:
    """``number * 10**power``, correctly rounded since both are exact; NaN where they are not."""
    if number >= np.int64(1) << np.int64(53) or power > _MOST_EXACT_POWER or power < -_MOST_EXACT_POWER:
        return np.nan
    return number * _POWERS[power] if power >= 0 else number / _POWERS[-power]


@njit_inline
def _whole(fraction: np.int64, exponent: int, significant: int) -> float:
    excess = exponent - significant - 1
    skip = _INSIGNIFICANT[excess] if exponent > significant and 1 < excess < len(_INSIGNIFICANT) else 0
    if exponent >= _FRACTION_BITS:
        number = fraction << np.int64(exponent - _FRACTION_BITS)
    else:
        number = fraction >> np.int64(_FRACTION_BITS - exponent)
    if number < 0:
        return np.nan
    power = np.int64(1)
    for _ in range(skip):
        power *= 10
    rest = number % power
    number //= power
    if skip and rest >= power >> np.int64(1):
        number += 1
    return _scaled(number, skip)


@njit_kernel(numba.float32[::1], numba.float64[::1])
def doubles_of_texts(  # noqa: C901, PLR0912, PLR0915 - one loop
    values: npt.NDArray[np.float32], out: npt.NDArray[np.float64]
) -> None:
    """``Double.parseDouble(Float.toString(value))`` of each finite value; NaN where that takes more than 64 bits."""
    patterns: Any = values.view(np.int32)
    for place in range(len(values)):
        bits: Any = np.int64(patterns[place])
        exponent = (bits >> 23) & 0xFF
        fraction = bits & ((1 << _FLOAT_FRACTION_BITS) - 1)
        if exponent == 0 and fraction == 0:
            out[place] = np.float64(values[place])
            continue
        if exponent == 0 or exponent == 0xFF:  # noqa: PLR1714 - compiled
            out[place] = np.nan
            continue
        significant = _FLOAT_FRACTION_BITS + 1
        exponent -= _FLOAT_BIAS
        fraction = (fraction | (1 << _FLOAT_FRACTION_BITS)) << (_FRACTION_BITS - _FLOAT_FRACTION_BITS)
        whole_fraction = fraction
        tail = 0
        while not fraction & 1:
            fraction >>= 1
            tail += 1
        fraction_bits = _FRACTION_BITS + 1 - tail
        tiny_bits = max(0, fraction_bits - exponent - 1)
        if exponent <= 62 and tiny_bits == 0:
            found = _whole(whole_fraction, exponent, significant)
            out[place] = -found if bits < 0 else found
            continue
        mantissa = whole_fraction / 4503599627370496.0
        estimate = (mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981
        decimal = int(np.floor(estimate))
        b5 = max(0, -decimal)
        s5 = max(0, decimal)
        b2 = b5 + tiny_bits + exponent
        s2 = s5 + tiny_bits
        m2 = b2 - significant
        b2 -= fraction_bits - 1
        common = min(b2, s2)
        b2 -= common
        s2 -= common
        m2 -= common
        if fraction_bits == 1:
            m2 -= 1
        if m2 < 0:
            b2 -= m2
            s2 -= m2
            m2 = 0
        out[place] = np.nan
        if b5 >= 27 or s5 + 1 >= 27:
            continue
        b_bits = fraction_bits + b2 + (_FIVES_BITS[b5])
        tens_bits = s2 + 1 + (_FIVES_BITS[s5 + 1])
        if b_bits >= 64 or tens_bits >= 64:
            continue
        narrow = b_bits < 32 and tens_bits < 32
        b = (fraction * _FIVES[b5]) << b2
        s = _FIVES[s5] << s2
        m = _FIVES[b5] << m2
        tens = np.int64(10) * s
        digit = b // s
        b = 10 * (b % s)
        m = _wrapped(m * 10, narrow)
        low = b < m
        high = _wrapped(b + m, narrow) > tens
        number: Any = np.int64(0)
        digits = 0
        last: Any = np.int64(0)
        if digit == 0 and not high:
            decimal -= 1
        else:
            number = digit
            last = digit
            digits = 1
        if decimal < -3 or decimal >= 8:
            low = False
            high = False
        while not low and not high:
            digit = b // s
            b = 10 * (b % s)
            m = _wrapped(m * 10, narrow)
            if m > 0:
                low = b < m
                high = _wrapped(b + m, narrow) > tens
            else:
                low = True
                high = True
            number = number * 10 + digit
            last = digit
            digits += 1
        difference = _wrapped(_wrapped(2 * b, narrow) - tens, narrow)
        if high and (not low or difference > 0 or (difference == 0 and last % 2 == 1)):
            number += 1
        found = _scaled(number, decimal + 1 - digits)
        out[place] = -found if bits < 0 else found
