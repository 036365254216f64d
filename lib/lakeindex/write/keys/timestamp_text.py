"""Timestamps as Hudi's row writer puts them into keys: ``java.sql.Timestamp.toString``, of whole milliseconds.

Measured with Hudi 0.15 and 1.2: ``2016-12-29 09:54:00.0``, ``.123`` for 123,456 microseconds (cut towards zero, before
the epoch too), in the zone of the JVM whatever the session's zone is. Before 1582-10-15 the day is that of the Julian
calendar, and before 1900 the zone has the offset that it had on 1900-01-01.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
    """Text of each timestamp; null where it is null.

    Args:
        array: timestamps of any unit.
        zone: of the JVM that the keys were made in.
    """
    whole = np.asarray(array.cast(pa.int64()).fill_null(0))
    local = _milliseconds(whole, array.type.unit)
    local = local + _offsets(local, zone)
    is_plain = (local >= _FIRST_GREGORIAN) & (local <= _LAST_PLAIN)
    plain = pa.array(np.where(is_plain, local, 0)).cast(pa.timestamp("ms")).cast(pa.string())
    text = pc.replace_substring_regex(plain, _FRACTION_ZEROS, "")
    if not is_plain.all():
        odd = pa.array([_odd_text(int(one)) for one in local[~is_plain]], pa.string())
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


def _odd_text(milliseconds: int) -> str:
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
