from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakeindex.errors import OptionError, TableCorruptError
from lakeindex.format.instants import (
    comparable,
    completed_action,
    completed_name,
    inflight_name,
    instant_file_name,
    instant_time_of,
    instant_time_to_ms,
    iso_of_instant_time,
    next_instant_time,
    parse_instant,
    parse_point_in_time,
    previous_instant_time,
    requested_name,
)
from lakeindex.model import Instant, InstantState

T = "20261121014450420"
ACTIONS = (
    "commit", "deltacommit", "replacecommit", "clustering", "compaction", "logcompaction", "clean", "rollback",
    "savepoint", "restore", "indexing", "schemacommit", "somethingnew",
)  # fmt: skip
MOMENTS = st.integers(0, 253_402_300_799_999).map(lambda ms: dt.datetime.fromtimestamp(ms / 1000, dt.UTC))
TIMES = st.one_of(
    MOMENTS.map(lambda m: f"{m.year:04d}{m:%m%d%H%M%S}{m.microsecond // 1000:03d}"),
    MOMENTS.map(lambda m: f"{m.year:04d}{m:%m%d%H%M%S}"),
    st.text("0123456789", min_size=14, max_size=20),
)


@given(TIMES, st.sampled_from(ACTIONS), st.sampled_from(InstantState), st.none() | TIMES)
def test_parse_undoes_format(time: str, action: str, state: InstantState, completion: str | None) -> None:
    instant = Instant(time, action, state, completion if state is InstantState.COMPLETED else None)
    assert parse_instant(instant_file_name(instant)) == instant


@pytest.mark.parametrize(
    ("name", "instant"),
    [
        (f"{T}.commit", Instant(T, "commit", InstantState.COMPLETED)),
        (f"{T}.commit.requested", Instant(T, "commit", InstantState.REQUESTED)),
        (f"{T}.inflight", Instant(T, "commit", InstantState.INFLIGHT)),
        (f"{T}.commit.inflight", Instant(T, "commit", InstantState.INFLIGHT)),
        (f"{T}.replacecommit.inflight", Instant(T, "replacecommit", InstantState.INFLIGHT)),
        (f"{T}.savepoint", Instant(T, "savepoint", InstantState.COMPLETED)),
        (f"{T}_20261121014509870.commit", Instant(T, "commit", InstantState.COMPLETED, "20261121014509870")),
        (f"{T}.clustering.requested", Instant(T, "clustering", InstantState.REQUESTED)),
        ("00000000000002.commit", Instant("00000000000002", "commit", InstantState.COMPLETED)),
    ],
)
def test_names_that_hudi_writes(name: str, instant: Instant) -> None:
    assert parse_instant(name) == instant


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties", ".hoodie.properties.crc", f".{T}.commit.crc", f"{T}.commit.crc", f"{T}.requested", T,
        f"{T}.", f"{T}.commit.done", f"{T}_{T}.commit.requested", f"{T}_{T}.inflight", "2026.commit", "archived", "",
        f"{T}.commit.requested.x", f"x{T}.commit", "２０２６１１２１０１４４５０４２０.commit",
    ],
)  # fmt: skip
def test_other_files_are_no_instants(name: str) -> None:
    assert parse_instant(name) is None


def test_names_of_one_commit() -> None:
    assert (requested_name(T), inflight_name(T), completed_name(T)) == (
        f"{T}.commit.requested",
        f"{T}.inflight",
        f"{T}.commit",
    )
    assert inflight_name(T, "rollback") == f"{T}.rollback.inflight"


def test_a_clustering_completes_as_a_replacecommit() -> None:
    assert completed_action("clustering") == "replacecommit"
    assert completed_action("clean") == "clean"


def test_old_times_count_as_the_last_millisecond() -> None:
    times = ["20260101000000500", "20260101000000", "20260101000001000", "20260101000000998"]
    assert sorted(times, key=comparable) == [times[0], times[3], times[1], times[2]]


@given(st.integers(0, 253_402_300_799_999))
def test_clock_readings_become_instants_and_back(now_ms: int) -> None:
    time = instant_time_of(now_ms)
    assert len(time) == 17
    assert instant_time_to_ms(time) == now_ms
    iso = iso_of_instant_time(time)
    assert iso is not None
    assert parse_point_in_time(iso) == time


@given(st.integers(0, 253_402_300_799_999), st.integers(0, 253_402_300_799_999))
def test_instants_sort_like_the_clock(one: int, other: int) -> None:
    assert (instant_time_of(one) < instant_time_of(other)) == (one < other)


@given(st.none() | TIMES, st.integers(0, 4_102_444_800_000))
def test_the_next_instant_is_greater_and_never_before_the_clock(after: str | None, now_ms: int) -> None:
    assume(after is None or not after.startswith("9" * 14))
    time = next_instant_time(after, now_ms)
    assert len(time) == 17
    assert time >= instant_time_of(now_ms)
    assert after is None or time > comparable(after)


def test_a_clock_that_went_back_gives_the_millisecond_after() -> None:
    assert next_instant_time("20260131235959999", 0) == "20260201000000000"
    assert next_instant_time("19700101000000000", 0) == "19700101000000001"  # the clock's own
    assert next_instant_time("20260131235959", 0) == "20260201000000000"
    assert next_instant_time("20269999999999999", 0) == "20270000000000000"
    with pytest.raises(TableCorruptError, match="no instant can follow"):
        next_instant_time("9" * 20, 0)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        (T, T),
        (f" {T} ", T),
        ("20260131235959", "20260131235959999"),
        ("2026-01-31T23:59:59Z", "20260131235959000"),
        ("2026-01-31T23:59:59.1239", "20260131235959123"),
        ("2026-01-31 23:59:59+02:00", "20260131215959000"),
        ("2026-01-31", "20260131000000000"),
    ],
)
def test_points_in_time(text: str, time: str) -> None:
    assert parse_point_in_time(text) == time


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026", "20260131", "202601312359591", "2026-13-01", "0001-01-01T00:00+14:00"]
)
def test_points_in_time_that_are_none(text: str) -> None:
    with pytest.raises(OptionError, match="--since cannot be"):
        parse_point_in_time(text, "--since")


@pytest.mark.parametrize("time", ["00000000000002", "20261399000000000", "2026"])
def test_instants_that_are_no_dates(time: str) -> None:
    assert iso_of_instant_time(time) is None
    with pytest.raises(ValueError, match=r"\d|month|day|year"):
        instant_time_to_ms(time)


def test_the_millisecond_before() -> None:
    for time, before in {
        "20260101000000000": "20251231235959999",
        "20260301000000000": "20260228235959999",
        "20260101000000001": "20260101000000000",
        "20260199000000010": "20260199000000009",  # no date, but in order
    }.items():
        assert previous_instant_time(time) == before
