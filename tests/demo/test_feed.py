"""The feed is what its text says, the same every time, and the oracle applies it as it says."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import mmh3
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from demo.feed import (
    BASE_UNTIL,
    DELETE_MARK,
    FIRST_PUBLISHED,
    LAST_PUBLISHED,
    MESSAGES,
    SCHEMA,
    Feed,
    load_flights,
    make_feed,
    write_feed,
)
from demo.make_data import KEY, ROWS
from demo.oracle import Oracle, messages_of
from demo.readback import Comparison


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return load_flights()


@pytest.fixture(scope="module")
def feed(flights: pa.Table) -> Feed:
    return make_feed(flights)


def test_key_is_unique(flights: pa.Table) -> None:
    assert flights.num_rows == ROWS
    assert flights.group_by(list(KEY)).aggregate([]).num_rows == ROWS


@pytest.mark.slow
def test_most_flights_are_announced_and_none_is_lost(feed: Feed) -> None:
    statuses = Counter(feed.messages["status"].to_pylist())
    assert 0.90 * ROWS < statuses["scheduled"] < 0.93 * ROWS
    assert statuses["landed"] + statuses["cancelled"] == ROWS
    assert statuses["cancelled"] == 8_255 == pc.sum(feed.messages[DELETE_MARK]).as_py()
    assert 30_000 < statuses["departed"] < 36_000
    assert 7_500 < statuses["corrected"] < 8_700


def test_files_hold_the_next_days_schedule_and_the_days_actuals(feed: Feed) -> None:
    day = feed.between(date(2013, 12, 1), date(2013, 12, 1))
    days_of = {
        status: set(pc.unique(day.filter(pc.equal(day["status"], status))["day"]).to_pylist())
        for status in ("scheduled", "landed", "departed", "cancelled", "corrected")
    }
    assert days_of["scheduled"] == {date(2013, 12, 2)}
    assert days_of["landed"] == days_of["departed"] == days_of["cancelled"] == {date(2013, 12, 1)}
    assert days_of["corrected"] <= {date(2013, 11, n) for n in range(25, 31)}
    assert day.filter(pc.equal(day["status"], "scheduled"))["dep_time"].null_count == 919


def test_corrections_are_newer_equal_and_older_in_about_equal_parts(feed: Feed) -> None:
    rows = feed.messages
    landed = rows.filter(pc.equal(rows["status"], "landed")).select([*KEY, "event_ms"])
    late = rows.filter(pc.equal(rows["status"], "corrected")).select([*KEY, "event_ms"])
    joined = late.join(landed, list(KEY), right_suffix="_landed")
    sign = Counter(pc.sign(pc.subtract(joined["event_ms"], joined["event_ms_landed"])).to_pylist())
    assert set(sign) == {-1, 0, 1}
    assert min(sign.values()) > 0.3 * sum(sign.values())


@pytest.mark.slow
def test_batches_cover_the_year_once_and_hold_keys_twice(feed: Feed, tmp_path: Path) -> None:
    write_feed(tmp_path)
    files = sorted(tmp_path.rglob("20*.parquet"))
    assert len(list((tmp_path / "base").iterdir())) == 12
    assert sum(pq.read_metadata(f).num_rows for f in files) == feed.messages.num_rows
    assert feed.between(FIRST_PUBLISHED, LAST_PUBLISHED).num_rows == feed.messages.num_rows
    assert feed.between(FIRST_PUBLISHED, BASE_UNTIL).num_rows == 630_060
    assert pq.read_schema(tmp_path / "like.parquet").equals(SCHEMA)
    day = pq.read_table(tmp_path / "2013-12-01.parquet")
    assert day.schema.equals(MESSAGES)
    assert day.num_rows - day.group_by(list(KEY)).aggregate([]).num_rows == 86


def test_feed_never_changes(feed: Feed) -> None:
    text = "\n".join(str(row) for row in feed.between(date(2013, 12, 1), date(2013, 12, 1)).to_pylist())
    assert mmh3.hash_bytes(text.encode()).hex() == "5e777b20d2241865fe6477d502ea96bb"


def message(flight: int, event_ms: int, *, deleted: bool = False, status: str = "x") -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(SCHEMA.names)
    return row | {
        "month": "m",
        "time_hour": "t",
        "carrier": "c",
        "flight": flight,
        "event_ms": event_ms,
        "status": status,
        DELETE_MARK: deleted,
    }


def test_oracle_counts_every_fate() -> None:
    oracle = Oracle()
    first = oracle.upsert([message(1, 10), message(1, 5), message(2, 10), message(3, 10), message(9, 1, deleted=True)])
    assert first.as_dict() == {"rows_in": 5, "combined": 1, "inserts": 3, "updates": 0, "deletes": 0, "ignored": 1}
    second = oracle.upsert(
        [
            message(1, 9),
            message(2, 10, status="tie"),
            message(3, 11, deleted=True),
            message(4, 1),
            message(1, 10, deleted=True),
        ]
    )
    assert second.as_dict() == {"rows_in": 5, "combined": 1, "inserts": 1, "updates": 1, "deletes": 2, "ignored": 0}
    assert {key[2]: row["status"] for key, row in oracle.rows.items()} == {2: "tie", 4: "x"}
    assert oracle.upsert([message(2, 9), message(2, 8, deleted=True)]).ignored == 1


def test_oracle_reads_files_in_order(tmp_path: Path) -> None:
    for name, status in (("a", "first"), ("b", "second")):
        pq.write_table(pa.Table.from_pylist([message(1, 7, status=status)], schema=MESSAGES), tmp_path / name)
    oracle = Oracle()
    oracle.upsert(messages_of([tmp_path / "a", tmp_path / "b"]))
    assert [row["status"] for row in oracle.rows.values()] == ["second"]


def test_a_comparison_holds_only_if_equal() -> None:
    assert Comparison("x", 1, 1).holds
    assert not Comparison("x", 1, None).holds
