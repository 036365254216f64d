"""Timestamps in keys and paths as real Hudi 0.15.0 and 1.2.0 spelled them, by the row writer and with its option."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from lakeindex.write.keys.java_text import timestamp_text
from lakeindex.write.keys.key_generators import PARTITION_PATH_PART, RECORD_KEY_PART, KeyGenerator, KeySpec

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "key_timestamps.json").read_text(encoding="utf-8")
)
TEXTS = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
D = dt.date
ROWS = pa.table(
    {
        "id": [f"k{number}" for number in (0, 1, 2, 3, 4, 5, 6, 7, 9)],
        "ts": pa.array(VECTORS["instants"], pa.int64()).cast(pa.timestamp("us", "UTC")),
        "d": pa.array(
            [D(2020, 1, 1), D(1969, 12, 31), D(1500, 1, 1), D(1, 1, 1), D(9999, 12, 31), None, D(1582, 10, 15),
             D(1582, 10, 4), D(2021, 11, 7)]
        ),
        "b": [True, False] * 4 + [True],
    }
)  # fmt: skip


def spec_of(case: dict[str, Any]) -> KeySpec:
    """As the table's properties and what the operation does say it."""
    times = {f"hoodie.keygen.timebased.{name}": text for name, text in case["times"].items()}
    texts = {}
    by_row_writer = case["operation"] == "bulk_insert"
    if case["consistent"] or by_row_writer:
        # without the option, the row writer leaves the keys of a custom generator numbers
        only_paths = case["generator"] == "CustomKeyGenerator" and not case["consistent"]
        texts = {TEXTS: "true", "lakeindex.keygenerator.timestamp.timezone": case["zone"]}
        texts |= {"lakeindex.keygenerator.timestamp.parts": PARTITION_PATH_PART} if only_paths else {}
    return KeySpec.from_properties(
        {
            "hoodie.table.recordkey.fields": case["key"],
            "hoodie.table.partition.fields": case["partition"],
            "hoodie.table.keygenerator.class": f"org.apache.hudi.keygen.{case['generator']}",
            "hoodie.datasource.write.partitionpath.urlencode": str(case["urlencode"]).lower(),
            "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd HH",
            "hoodie.keygen.timebased.timezone": "UTC",
            "hoodie.keygen.timebased.timestamp.scalar.time.unit": "MICROSECONDS",
            **times,
            **texts,
        }
    )


def test_keys_and_paths_are_hudis() -> None:
    wrong = []
    for case in VECTORS["cases"]:
        rows = ROWS.slice(0, len(case["record_key"]))
        keyed = KeyGenerator(spec_of(case)).keys_of(rows)
        made = keyed.record_key.to_pylist(), keyed.partition_path.to_pylist()
        if made != (case["record_key"], case["partition_path"]):
            wrong.append((case, made))
    assert not wrong
    assert len(VECTORS["cases"]) == 66


def test_both_parts_are_texts_unless_one_is_named() -> None:
    base = {"hoodie.table.recordkey.fields": "ts", "hoodie.table.partition.fields": "", TEXTS: "true"}
    assert KeySpec.from_properties(base).timestamp_texts == {RECORD_KEY_PART, PARTITION_PATH_PART}
    assert KeySpec.from_properties({**base, TEXTS: "false"}).timestamp_texts == frozenset()


def test_edges_of_a_text() -> None:
    def text(unit: str, *values: int | None) -> list[str | None]:
        found: list[str | None] = timestamp_text(pa.array(values, pa.timestamp(unit, "UTC")), dt.UTC).to_pylist()
        return found

    assert text("us") == []
    assert text("us", None, 0) == [None, "1970-01-01 00:00:00.0"]
    assert text("s", 1) == ["1970-01-01 00:00:01.0"]
    assert text("ns", 10_999_999, -10_999_999) == ["1970-01-01 00:00:00.01", "1969-12-31 23:59:59.99"]
    assert text("ms", 253_402_300_800_000) == ["10000-01-01 00:00:00.0"]
    assert text("ms", -12_219_292_800_000, -12_219_292_800_001) == ["1582-10-15 00:00:00.0", "1582-10-04 23:59:59.999"]
    assert text("us", *VECTORS["instants"]) == VECTORS["UTC"]


def test_the_hour_of_a_change_of_clocks() -> None:
    zone = ZoneInfo("Europe/Berlin")
    instants = [dt.datetime(2021, 3, 28, hour, minute, tzinfo=dt.UTC) for hour, minute in ((0, 59), (1, 0), (23, 0))]
    found = timestamp_text(pa.array(instants, pa.timestamp("us", "UTC")), zone).to_pylist()
    assert found == ["2021-03-28 01:59:00.0", "2021-03-28 03:00:00.0", "2021-03-29 01:00:00.0"]


def test_a_timestamp_without_a_zone_stays_a_number() -> None:
    spec = KeySpec.from_properties({"hoodie.table.recordkey.fields": "ts", TEXTS: "true"})
    plain = pa.table({"ts": ROWS["ts"].cast(pa.timestamp("us")).slice(0, 1)})
    assert KeyGenerator(spec).keys_of(plain).record_key.to_pylist() == ["1483005240000000"]


def test_the_days_on_both_sides_of_where_texts_change_their_form() -> None:
    """The change of calendars, the end of years of four digits, the epoch."""
    for milliseconds, text in {
        -12_219_292_800_000: "1582-10-15 00:00:00.0",
        -12_219_292_800_001: "1582-10-04 23:59:59.999",
        253_402_300_799_999: "9999-12-31 23:59:59.999",
        253_402_300_800_000: "10000-01-01 00:00:00.0",
        253_402_300_800_120: "10000-01-01 00:00:00.12",
        -12_219_292_800_900: "1582-10-04 23:59:59.1",
        0: "1970-01-01 00:00:00.0",
        -1: "1969-12-31 23:59:59.999",
    }.items():
        array = pa.array([milliseconds, None], pa.timestamp("ms"))
        assert timestamp_text(array, dt.UTC).to_pylist() == [text, None]


def test_the_option_says_nothing_of_columns_that_are_no_timestamps() -> None:
    """Numbers and texts become paths by the time options, with it or without; timestamps do not."""
    seconds = [0, 86_399, 1_700_000_000, None]
    columns = {
        "EPOCHMILLISECONDS": pa.array(seconds, pa.int64()),
        "UNIX_TIMESTAMP": pa.array(seconds, pa.int32()),
        "DATE_STRING": pa.array(["1970-01-01", "2023-11-14", "2023-11-15", None]),
        "SCALAR": pa.array([0.0, 1.0, 20_000.0, None]),
    }
    for kind, column in columns.items():
        base = {
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "at",
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
            "hoodie.keygen.timebased.timestamp.type": kind,
            "hoodie.keygen.timebased.timestamp.scalar.time.unit": "DAYS",
            "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
            "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd HH:mm:ss",
            "hoodie.keygen.timebased.timezone": "UTC",
        }
        rows = pa.table({"id": ["a", "b", "c", "d"], "at": column})
        told = {"lakeindex.keygenerator.timestamp.timezone": "America/New_York", TEXTS: "true"}
        without, with_it = (
            KeyGenerator(KeySpec.from_properties(some)).partition_paths(rows)[0].to_pylist()
            for some in (base, {**base, **told})
        )
        assert with_it == without, kind
        assert len(set(without)) > 1
