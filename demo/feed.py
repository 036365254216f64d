"""The flights of 2013 as an airline's feed: what each day's file would have held.

A day's feed comes out when the day is over. It holds, in no order:

* the *schedule* of the next day: a row a flight, actual times null. One flight in twelve is put on at short notice and
  is not in it: what happened to it is the first that is heard of it;
* for the flights of the day: what happened to each. One in ten sends two messages (departed, then landed), so a file
  holds keys twice. A cancelled flight is marked ``_hoodie_is_deleted``;
* *corrections* of flights of the six days before: one in forty flights gets one. A third of them is newer than what
  is known and wins, a third has the same event time (sent again: the later one wins), a third is older, a message
  that was long on its way: it must lose.

Every message has an event time (``event_ms``). All is a function of the shipped data: no randomness, no clock.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from demo.make_data import DATA

DELETE_MARK: Final = "_hoodie_is_deleted"
FIRST_PUBLISHED: Final = date(2012, 12, 31)  # the schedule of the year's first day
BASE_UNTIL: Final = date(2013, 11, 30)
LAST_PUBLISHED: Final = date(2013, 12, 31)

SCHEMA: Final = pa.schema(
    [
        pa.field("time_hour", pa.string(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("month", pa.string(), nullable=False),
        ("day", pa.date32()),
        ("status", pa.string()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("tailnum", pa.string()),
        ("distance", pa.int32()),
        ("sched_dep_time", pa.int32()),
        ("dep_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("sched_arr_time", pa.int32()),
        ("arr_time", pa.int32()),
        ("arr_delay", pa.int32()),
        ("air_time", pa.int32()),
        pa.field("event_ms", pa.int64(), nullable=False),
    ]
)
#: The table's columns: the feed's without the delete mark.
MESSAGES: Final = SCHEMA.append(pa.field(DELETE_MARK, pa.bool_(), nullable=False))

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
_ACTUALS: Final = ("tailnum", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
_ARRIVAL: Final = ("arr_time", "arr_delay", "air_time")

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def load_flights() -> pa.Table:
    """The shipped data in the feed's types, one row a flight, sorted by key."""
    raw = pq.read_table(DATA)
    return pa.table(
        {
            **{name: raw[name].cast(SCHEMA.field(name).type) for name in raw.column_names if name != "time_hour"},
            "time_hour": pc.strftime(raw["time_hour"], format="%Y-%m-%dT%H:00:00Z"),
            "month": pc.strftime(raw["day"], format="%Y-%m"),
        }
    )


@dataclass(frozen=True, slots=True)
class Feed:
    """Every message of the year, one row each, with the day its file comes out; sorted by that day."""

    messages: pa.Table
    published: Ints

    def between(self, first: date, last: date) -> pa.Table:
        """Messages of the files of these days, both included."""
        start = np.searchsorted(self.published, _days(first), "left")
        stop = np.searchsorted(self.published, _days(last), "right")
        return self.messages.slice(start, stop - start)


def make_feed(flights: pa.Table) -> Feed:
    """All messages about these flights."""
    count = flights.num_rows
    day = flights["day"].cast(pa.int32()).to_numpy().astype(np.int64)
    chance = _mixed(np.arange(count, dtype=np.uint64))
    flew = flights["dep_time"].is_valid().to_numpy()
    is_corrected = flew & (chance % 40 == 0)
    kind = (chance // 40) % 3  # 0: newer, 1: same event time, 2: older
    planned_ms = day * _DAY_MS + _clock_ms(flights["sched_dep_time"])
    left_ms = planned_ms + pc.fill_null(flights["dep_delay"], 0).to_numpy().astype(np.int64) * _MINUTE_MS
    landed_ms = left_ms + 8 * _HOUR_MS
    is_announced = (chance // 720) % 12 != 0
    first_report_off = is_corrected & (kind != 2)
    scheduled = _Message("scheduled", day - 1, (day - 1) * _DAY_MS + 18 * _HOUR_MS, blank=_ACTUALS)
    corrected_ms = landed_ms + np.array([5, 0, -1])[kind] * _HOUR_MS
    corrected = _Message("corrected", day + 1 + (chance // 120) % 6, corrected_ms)
    parts = [
        _part(flights, is_announced, scheduled),
        _part(flights, flew & (chance % 10 == 3), _Message("departed", day, left_ms, blank=_ARRIVAL)),
        _part(flights, flew, _Message("landed", day, landed_ms), arrival_off=first_report_off * 7),
        _part(flights, ~flew, _Message("cancelled", day, planned_ms - _HOUR_MS, deleted=True, blank=_ACTUALS)),
        _part(flights, is_corrected, corrected, arrival_off=(kind == 2) * 99),
    ]
    messages = pa.concat_tables([table for table, _ in parts])
    published = np.concatenate([days for _, days in parts])
    in_year = published <= _days(LAST_PUBLISHED)
    order = np.lexsort((_mixed(np.arange(len(published), dtype=np.uint64)), published))
    order = order[in_year[order]]
    return Feed(messages.take(pa.array(order)), published[order])


def write_feed(folder: Path) -> None:
    """Write ``base/<month>.parquet`` up to November, then one ``<day>.parquet`` a day, and ``like.parquet``.

    ``like.parquet`` is empty and has the table's columns: what ``lakeindex create --like`` is given.
    """
    feed = make_feed(load_flights())
    (folder / "base").mkdir(parents=True, exist_ok=True)
    pq.write_table(SCHEMA.empty_table(), folder / "like.parquet")
    for first, last in _months(FIRST_PUBLISHED, BASE_UNTIL):
        pq.write_table(feed.between(first, last), folder / "base" / f"{first:%Y-%m}.parquet", compression="zstd")
    day = BASE_UNTIL + timedelta(days=1)
    while day <= LAST_PUBLISHED:
        pq.write_table(feed.between(day, day), folder / f"{day}.parquet", compression="zstd")
        day += timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Message:
    """A kind of message: the status it tells, by flight the day it comes out and its event time, and what it lacks."""

    status: str
    published: Ints
    event_ms: Ints
    deleted: bool = False
    blank: tuple[str, ...] = ()


def _part(
    flights: pa.Table, which: Bools, message: _Message, *, arrival_off: Ints | None = None
) -> tuple[pa.Table, Ints]:
    """One kind of message for the flights in ``which``, and the day each comes out."""
    rows = flights.filter(pa.array(which))
    count = rows.num_rows
    columns = {name: rows[name] for name in rows.column_names}
    columns["status"] = pa.repeat(pa.scalar(message.status), count)
    columns["event_ms"] = pa.array(message.event_ms[which])
    columns[DELETE_MARK] = pa.repeat(pa.scalar(message.deleted), count)
    for name in message.blank:
        columns[name] = pa.nulls(count, SCHEMA.field(name).type)
    if arrival_off is not None:
        off = pa.array(arrival_off[which].astype(np.int32))
        columns["arr_delay"] = pc.add(rows["arr_delay"], off)
    return pa.table({name: columns[name] for name in MESSAGES.names}, schema=MESSAGES), message.published[which]


def _clock_ms(column: pa.ChunkedArray) -> Ints:
    """Times such as 1730 as milliseconds since midnight."""
    clock: Ints = column.to_numpy().astype(np.int64)
    result: Ints = (clock // 100 * 60 + clock % 100) * _MINUTE_MS
    return result


def _mixed(numbers: npt.NDArray[np.uint64]) -> Ints:
    """Well spread numbers, the same everywhere: the finaliser of SplitMix64, upper 31 bits."""
    mixed = (numbers + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(33)).astype(np.int64)


def _days(day: date) -> int:
    return (day - date(1970, 1, 1)).days


def _months(first: date, last: date) -> Iterator[tuple[date, date]]:
    """First and last day of every month in a range, cut to the range."""
    while first <= last:
        following = (first.replace(day=1) + timedelta(days=32)).replace(day=1)
        yield first, min(last, following - timedelta(days=1))
        first = following


def main() -> None:
    """``python -m demo.feed FOLDER`` writes the feed."""
    parser = argparse.ArgumentParser(prog="python -m demo.feed", description="Write the feed of the flights of 2013.")
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    write_feed(folder)
    print(f"{len(list(folder.rglob('20*.parquet')))} files in {folder}")


if __name__ == "__main__":
    main()
