"""The part of Joda-Time's patterns that partition paths use: printing and parsing times.

====== =============================  ====== =============================
letter meaning                        letter meaning
====== =============================  ====== =============================
y, Y   year                           H, k   hour of day 0..23, 1..24
x, w   week year, week                K, h   hour of half day 0..11, 1..12
M      month (3: ``Jan``, 4 name)     m, s   minute, second
d, D   day of month, of year          S      fraction of a second
e, E   day of week, its name          a      AM or PM
Z      ``+0100``, ZZ ``+01:00``       '...'  text as it stands
====== =============================  ====== =============================

Other letters are refused, and so is what would not be as in Joda-Time: ``ZZZ`` (a zone's name), and where texts are
read, years of two digits and a field that is read twice. Names are English. Years are the proleptic ISO calendar's and
may have any number of digits.
"""

from __future__ import annotations

import datetime as dt
import re
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakeindex.errors import OptionError
from lakeindex.frozen import Frozen

_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_GMT_OFFSET: Final = re.compile(r"(?:GMT|UTC)([+-])(\d{1,2})(?::?(\d{2}))?")
_PRINTABLE: Final = frozenset("yYxwMdDeEHkKhmsSaZ")
_PARSABLE: Final = frozenset("yYMdDHkKhmsSaZE")
_SAME_FIELD: Final = {"Y": "y", "k": "H", "K": "h"}
_OFFSET: Final = (
    r"(Z|[+-](?:[01]\d|2[0-3])(?:(?![:\d])|:[0-5]\d(?:(?!:)|:[0-5]\d(?:(?![.,])|[.,]\d{1,3}+))"
    r"|[0-5]\d(?:(?!\d)|[0-5]\d(?:(?!\d)|\d{1,3}+))))"
)
"""All that Joda-Time takes for an offset, which ends where nothing more of one may follow."""
_DAY_MS: Final = 86_400_000
_CYCLE: Final = 146_097 * 86_400
"""Seconds of 400 years, after which days of the week, and with them changes of clocks, come again."""
_LAST_YEAR: Final = 292_278_993
_YEARS: Final = {"y": range(-292_275_054, _LAST_YEAR + 1), "Y": range(1, _LAST_YEAR + 1)}
_YEAR_OF_NONE: Final = "2000"
"""Of a day or month without one."""


def zone_of(name: str | None) -> dt.tzinfo | None:
    """Zone of a name as ``java.util.TimeZone`` knows it: an IANA name, ``GMT`` or ``GMT+5:30``; None for none.

    Raises:
        OptionError: no such zone (Java would silently take GMT).
    """
    text = (name or "").strip()
    if not text:
        return None
    if text in ("UTC", "GMT", "Z"):
        return dt.UTC
    match = _GMT_OFFSET.fullmatch(text)
    if match is not None:
        minutes = int(match[2]) * 60 + int(match[3] or 0)
        return dt.timezone(dt.timedelta(minutes=-minutes if match[1] == "-" else minutes))
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # unknown, not a name at all, or a folder of zones
        raise OptionError(
            f"time zone {text!r} is not known", culprit=text, hint="use an IANA name such as Europe/Paris, or GMT+5:30"
        ) from None


def _tokens(pattern: str, known: frozenset[str]) -> list[tuple[str, int, str]]:
    """(letter, count, "") of a field, ("", 0, text) of text."""
    found: list[tuple[str, int, str]] = []
    end = 0
    for match in _TOKEN.finditer(pattern):
        if match.start() != end:
            break
        end = match.end()
        letter, text = match[2], match[0]
        if letter is not None:
            if letter not in known or text.startswith("ZZZ"):
                raise _refused(pattern, text)
            found.append((letter, len(text), ""))
        elif match[1] is not None:
            found.append(("", 0, match[1].replace("''", "'") or "'"))
        else:
            found.append(("", 0, text))
    if end != len(pattern):
        raise _refused(pattern, pattern[end:])
    return found


def _refused(pattern: str, part: str) -> OptionError:
    return OptionError(
        f"date format {pattern!r}: {part!r} is not understood",
        culprit=pattern,
        hint="use yyyy MM dd DDD HH kk hh KK mm ss SSS a EEE Z or ZZ, each field once, and '...' for text; to be "
        "printed may be xxxx ww e and yy, too; a table with another format takes rows by Hudi",
    )


class _Moment(Frozen):
    """A time in fields."""

    year: int
    month: int
    day: int
    day_of_year: int
    week_year: int
    week: int
    week_day: int
    millis_of_day: int
    offset: int


def _moment(millis: int, zone: dt.tzinfo) -> _Moment:
    offset = _offset_in(zone, millis)
    if not -(2**63) <= millis + offset < 2**63:
        offset = 0
    days, rest = divmod(millis + offset, _DAY_MS)
    year, month, day = _civil(days)
    day_of_year = days - _days(year, 1, 1) + 1
    week_day = (days + 3) % 7 + 1
    # the ISO week belongs to the year of its Thursday
    thursday = days - week_day + 4
    week_year = _civil(thursday)[0]
    week = (thursday - _days(week_year, 1, 1)) // 7 + 1
    return _Moment(year, month, day, day_of_year, week_year, week, week_day, rest, offset)


def _offset_in(zone: dt.tzinfo, millis: int) -> int:
    """Milliseconds: before there were zones, clocks of a place were a few seconds off from whole minutes, too."""
    if zone is dt.UTC:
        return 0
    near = max(-62_135_000_000, millis // 1000)
    near -= max(0, near - 253_402_200_000 + _CYCLE) // _CYCLE * _CYCLE
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=near)
    offset = moment.astimezone(zone).utcoffset()
    return 0 if offset is None else offset // dt.timedelta(milliseconds=1)


def _civil(days: int) -> tuple[int, int, int]:
    """Year, month, day of a day number since 1970-01-01 (Hinnant, ``civil_from_days``)."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    part = (5 * day_of_year + 2) // 153
    month = part + 3 if part < 10 else part - 9
    return era * 400 + year_of_era + (month <= 2), month, day_of_year - (153 * part + 2) // 5 + 1


def _days(year: int, month: int, day: int) -> int:
    """Day number since 1970-01-01 (Hinnant, ``days_from_civil``)."""
    era, year_of_era = divmod(year - (month <= 2), 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


class JodaFormat:
    """Prints times by a pattern. Raises: OptionError for a letter that is not known."""

    def __init__(self, pattern: str) -> None:
        self._tokens = _tokens(pattern, _PRINTABLE)

    def text(self, millis: int, zone: dt.tzinfo) -> str:
        """The time ``millis`` after the epoch, in ``zone``."""
        moment = _moment(millis, zone)
        return "".join(text if not letter else _printed(letter, count, moment) for letter, count, text in self._tokens)


def _printed(letter: str, count: int, at: _Moment) -> str:
    hour, rest = divmod(at.millis_of_day, 3_600_000)
    if letter in "yYx":
        year = at.week_year if letter == "x" else at.year
        # Y counts the years before the first anew, YY does not
        return _printed_year(1 - year if letter == "Y" and year <= 0 and count != 2 else year, count)
    if letter == "M" and count >= 3:
        return _MONTHS[at.month - 1] if count > 3 else _MONTHS[at.month - 1][:3]
    if letter == "E":
        return _DAYS[at.week_day - 1] if count > 3 else _DAYS[at.week_day - 1][:3]
    if letter == "a":
        return "AM" if hour < 12 else "PM"
    if letter == "S":
        return f"{rest % 1000:03d}".ljust(count, "0")[:count]
    if letter == "Z":
        return _printed_offset(at.offset, ":" if count > 1 else "")
    numbers = {
        "w": at.week, "M": at.month, "d": at.day, "D": at.day_of_year, "e": at.week_day,
        "H": hour, "k": hour or 24, "K": hour % 12, "h": hour % 12 or 12,
        "m": rest // 60_000, "s": rest // 1000 % 60,
    }  # fmt: skip
    return str(numbers[letter]).rjust(count, "0")


def _printed_year(year: int, count: int) -> str:
    if count == 2:
        return f"{abs(year) % 100:02d}"
    return f"{'-' if year < 0 else ''}{str(abs(year)).rjust(count, '0')}"


def _printed_offset(millis: int, between: str) -> str:
    hours, rest = divmod(abs(millis) // 60_000, 60)
    return f"{'-' if millis < 0 else '+'}{hours:02d}{between}{rest:02d}"


class JodaParser:
    """Reads times by a pattern, as lenient in the number of digits as Joda-Time, and as greedy.

    Raises:
        OptionError: a letter that is not known, ``yy``, whose century Joda-Time takes from today's date, or two that
            say the same field.
    """

    def __init__(self, pattern: str) -> None:
        tokens = _tokens(pattern, _PARSABLE)
        self._letters = [letter for letter, _, _ in tokens if letter]
        parts = []
        for place, (letter, count, text) in enumerate(tokens):
            said = [_SAME_FIELD.get(one, one) for one, _, _ in tokens[: place + 1] if one]
            if letter and ((letter in "yY" and count == 2) or said.count(said[-1]) > 1):
                raise _refused(pattern, letter * count)
            following, its_count, _ = tokens[place + 1] if place + 1 < len(tokens) else ("", 0, "")
            digits_follow = following in tuple("yYdDHkKhmsS") or (following == "M" and its_count < 3)
            parts.append(_expression(letter, count, text, digits_follow=digits_follow))
        self._expression = re.compile("".join(parts), re.IGNORECASE)

    def takes(self, text: str) -> bool:
        """Whether a text has this form, whatever its numbers are."""
        return self._expression.fullmatch(text) is not None

    def parse(self, text: str, zone: dt.tzinfo | None) -> tuple[int, dt.tzinfo] | None:
        """Milliseconds since the epoch and the text's zone, else ``zone`` (None: UTC); None if it does not fit."""
        match = self._expression.fullmatch(text)
        if match is None:
            return None
        fields = {letter: match[place + 1] for place, letter in enumerate(self._letters)}
        local = _local_millis(fields)
        if local is None:
            return None
        if "Z" in fields:
            offset = _offset_of(fields["Z"])
            return local - offset // dt.timedelta(milliseconds=1), zone or dt.timezone(offset)
        own = zone or dt.UTC
        millis = _in_zone(local, own)
        return None if millis is None else (millis, own)


def _in_zone(local: int, zone: dt.tzinfo) -> int | None:
    """The first moment at which clocks show a time; None if they went forward over it."""
    near = local - _offset_in(zone, local)
    offsets = {_offset_in(zone, moment) for moment in (local - _DAY_MS, near, local + _DAY_MS)}
    moments = (local - offset for offset in sorted(offsets, reverse=True))
    return next((one for one in moments if one + _offset_in(zone, one) == local), None)


def _expression(letter: str, count: int, text: str, *, digits_follow: bool) -> str:
    if not letter:
        return re.escape(text)
    if letter in "yY":
        sign = "[+-]?" if letter == "y" and not (digits_follow and count == 1) else ""
        return rf"({sign}\d{{1,{count if digits_follow else 9}}}+)"
    if letter == "M" and count >= 3:
        return f"((?>{'|'.join(f'{name}|{name[:3]}' for name in _MONTHS)}))"
    if letter == "E":
        return f"((?>{'|'.join(f'{name}|{name[:3]}' for name in _DAYS)}))"
    if letter == "a":
        return "(AM|PM)"
    if letter == "Z":
        return _OFFSET
    if letter == "S":
        return rf"(\d{{1,{count}}}+)"
    return rf"(\d{{1,{max(count, 3 if letter == 'D' else 2)}}}+)"


def _offset_of(text: str) -> dt.timedelta:
    digits = re.sub(r"\D", "", text).ljust(9, "0")
    hours, minutes, seconds = (int(digits[at : at + 2]) for at in (0, 2, 4))
    offset = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=int(digits[6:]))
    return -offset if text[0] == "-" else offset


def _local_millis(fields: dict[str, str]) -> int | None:
    """Milliseconds since the epoch of the fields, without a zone; None if there is no such time."""
    days, hour = _day_number(fields), _hour_of(fields)
    minute, second = int(fields.get("m", "0")), int(fields.get("s", "0"))
    if days is None or hour is None or minute > 59 or second > 59:
        return None
    millis = int(fields.get("S", "0").ljust(3, "0")[:3])
    return days * _DAY_MS + hour * 3_600_000 + minute * 60_000 + second * 1000 + millis


def _day_number(fields: dict[str, str]) -> int | None:
    """Days since 1970 as Joda-Time makes them: field after field, those of longer times first. Then it sets all once
    more, so that a day that a later field has moved into another month may be none of that month.
    """
    given = [(letter, fields[letter]) for letter in "yYMDdE" if letter in fields]
    if given and given[0][0] not in "yY":
        given.insert(0, ("y", _YEAR_OF_NONE))
    days: int | None = 0
    for letter, text in [*given, *given] if "D" in fields or "E" in fields else given:
        days = None if days is None else _day_with(days, letter, text)
    return days


def _day_with(days: int, letter: str, text: str) -> int | None:
    """The day that is left of another one when a field of it is set; None if it cannot have that value."""
    year, month, day = _civil(days)
    if letter == "E":
        names = [name[:3].lower() for name in _DAYS]
        return days - (days + 3) % 7 + names.index(text[:3].lower())
    number = _month_of(text) if letter == "M" and not text.isdigit() else int(text)
    if letter in "yY":
        return _days(number, month, min(day, _days_in(number, month))) if number in _YEARS[letter] else None
    if letter == "M":
        return _days(year, number, min(day, _days_in(year, number))) if 1 <= number <= 12 else None
    if letter == "D":
        return _days(year, 1, number) if 1 <= number <= _days(year + 1, 1, 1) - _days(year, 1, 1) else None
    return _days(year, month, number) if 1 <= number <= _days_in(year, month) else None


def _month_of(name: str) -> int:
    return next(n for n, month in enumerate(_MONTHS, 1) if month[:3].lower() == name[:3].lower())


def _days_in(year: int, month: int) -> int:
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return _days(*following, 1) - _days(year, month, 1)


def _hour_of(fields: dict[str, str]) -> int | None:
    """The hour of all fields that say one: a half of the day is set first, then an hour of it, then one of the half."""
    hour = 0
    if "a" in fields:
        hour = 12 if fields["a"].upper() == "PM" else 0
    for letter, low, high in (("H", 0, 23), ("k", 1, 24), ("h", 1, 12), ("K", 0, 11)):
        if letter not in fields:
            continue
        number = int(fields[letter])
        if not low <= number <= high:
            return None
        hour = number % 24 if letter in "Hk" else hour // 12 * 12 + number % 12
    return hour
