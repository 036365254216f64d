"""Paths from times and texts of rare values that real Hudi made (recipes/KeyTexts.java).

0.15.0 and 1.2.0 gave the same, but that 0.15.0 has no EPOCHMICROSECONDS.
"""

from __future__ import annotations

import decimal
import json
import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeindex.errors import OptionError, SchemaMismatchError
from lakeindex.write.keys.java_text import java_double, java_float, java_text
from lakeindex.write.keys.joda import JodaFormat, JodaParser, zone_of
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec
from lakeindex.write.keys.time_partitions import TimeOptions, TimePartitioner, TimeType

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "vectors" / "key_texts.json").read_text(encoding="utf-8")
)
TYPES = {
    "long": pa.int64(), "int": pa.int32(), "double": pa.float64(), "float": pa.float32(), "string": pa.string(),
    "date": pa.date32(), "decimal7": pa.decimal128(20, 7), "decimal20": pa.decimal128(38, 20),
}  # fmt: skip


def column_of(case: dict[str, Any]) -> pa.Array:
    field, value = case["field"], case["value"]
    if value is None:
        return pa.nulls(1, TYPES[field])
    if field == "date":
        return pa.array([value], pa.int32()).cast(pa.date32())
    if field.startswith("decimal"):
        return pa.array([decimal.Decimal(value)], TYPES[field])
    if field == "double" and isinstance(value, str):  # its bits
        (value,) = struct.unpack(">d", struct.pack(">q", int(value)))
    if field == "float" and isinstance(value, str):
        (value,) = struct.unpack(">f", struct.pack(">i", int(value)))
    return pa.array([value], TYPES[field])


def test_there_are_779_vectors() -> None:
    assert len(CASES) == 779


@pytest.mark.parametrize("part", range(20))
def test_paths_are_hudis(part: int) -> None:
    for case in CASES[part::20]:
        properties = {
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": case["field"],
            "hoodie.table.keygenerator.class": f"org.apache.hudi.keygen.{case['generator']}KeyGenerator",
        }
        spec = KeySpec.from_properties(properties | case["settings"])
        keyed = KeyGenerator(spec).keys_of(pa.table({"id": ["a"], case["field"]: column_of(case)}))
        assert keyed.partition_path.to_pylist() == [case.get("path")], case
        assert (keyed.bad_rows == 1) == ("error" in case), case


def test_columns_of_many_values_and_nulls() -> None:
    values = pa.chunked_array([[1.5, None], [1e20, -0.0, 0.0, 1.5]])
    assert java_text(values, "d").to_pylist() == ["1.5", None, "1.0E20", "-0.0", "0.0", "1.5"]
    assert java_text(values.cast(pa.float32()), "f").to_pylist()[2] == "1.0E20"
    assert java_text(pa.array([None, None]), "n").to_pylist() == [None, None]
    assert java_text(pa.array(["a", None]).dictionary_encode(), "s").to_pylist() == ["a", None]


def test_times_are_the_numbers_hudi_stores() -> None:
    instants = pa.array([1_500_000_000_123_456, -1], pa.timestamp("us", "UTC"))
    assert java_text(instants, "t").to_pylist() == ["1500000000123456", "-1"]
    assert java_text(pa.array([1_500_000_000_123, -1], pa.timestamp("ms")), "t").to_pylist() == ["1500000000123", "-1"]
    assert java_text(pa.array([1_500], pa.timestamp("ns")), "t").to_pylist() == ["1"]
    assert java_text(pa.array([7], pa.timestamp("s")), "t").to_pylist() == ["7000000"]
    assert java_text(pa.array([5], pa.time32("s")), "t").to_pylist() == ["5000"]
    assert java_text(pa.array([5_000], pa.time64("ns")), "t").to_pylist() == ["5"]


def test_numbers_that_are_none() -> None:
    assert [java_double(float(x)) for x in ("nan", "inf", "-inf")] == ["NaN", "Infinity", "-Infinity"]
    assert [java_float(float(x)) for x in ("nan", "inf", "-inf")] == ["NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize("name", ["Mars/Olympus", "PST8", "../etc", "GMT5", "Europe"])
def test_zone_that_is_not_known_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="not known"):
        zone_of(name)


def test_no_zone() -> None:
    assert zone_of(None) is None
    assert zone_of(" ") is None


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd Q", "yyyy'", "GG", "yyyy z", "yyyy ZZZ"])
def test_pattern_that_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(OptionError, match="not understood"):
        JodaFormat(pattern)
    with pytest.raises(OptionError, match="not understood"):
        JodaParser(pattern)


@pytest.mark.parametrize("pattern", ["yy", "YY", "yyyy YYYY", "kk:mm HH", "hh a KK", "MM MMM", "yyyy-MM-dd d"])
def test_two_digit_years_and_fields_that_are_said_twice_are_not_read(pattern: str) -> None:
    """Joda-Time asks today's date for the century; which of two counts is not where they stand."""
    last = re.split(r"\W", pattern)[-1]
    with pytest.raises(OptionError, match=f"'{last}' is not understood"):
        JodaParser(pattern)
    JodaFormat(pattern)


@pytest.mark.parametrize(
    ("pattern", "zone", "millis", "text"),
    [
        ("y Y yy YY x xx", "UTC", -62_167_219_200_001, "-1 2 01 01 -1 01"),
        ("Y YYYY", "UTC", -62_135_596_800_001, "1 0001"),
        ("Y YYYY", "UTC", -62_135_596_800_000, "1 0001"),
        ("yyyy-MM-dd HH ZZ", "America/New_York", 284_006_052_000_000, "10969-10-16 22 -04:00"),
        ("yyyy-MM-dd HH ZZ", "America/New_York", 283_996_452_000_000, "10969-06-27 19 -04:00"),
        ("yyyy-MM-dd HH ZZ", "America/New_York", 284_012_052_000_000, "10969-12-25 07 -05:00"),
        ("yyyy HH ZZ", "Asia/Kathmandu", 2**63 - 1, "292278994 07 +00:00"),
        ("yyyy HH ZZ", "America/New_York", -(2**63), "-292275055 16 +00:00"),
    ],
)
def test_years_far_away_are_printed_as_by_joda(pattern: str, zone: str, millis: int, text: str) -> None:
    found = zone_of(zone)
    assert found is not None
    assert JodaFormat(pattern).text(millis, found) == text


def test_the_first_format_that_takes_all_of_a_text_is_asked() -> None:
    """Of 31-01 the month 31, though the next format would have read it; Hudi fails there."""
    options = TimeOptions(TimeType.DATE_STRING, "yyyy/MM/dd", ("yyyy-MM-dd HH", "yyyy-dd-MM", "yyyy-MM-dd"))
    paths, reasons = TimePartitioner(options).paths(pa.array(["2020-12-01", "2020-01-31", "2020-01-31 5"]), "day")
    assert paths.to_pylist() == ["2020/01/12", None, "2020/01/31"]
    assert [reason and "'2020-01-31' fits none" in reason for reason in reasons.to_pylist()] == [None, True, None]


def read(pattern: str, text: str, zone: str | None = None) -> int | None:
    """The moment that a text says, in milliseconds; None if it says none."""
    found = JodaParser(pattern).parse(text, None if zone is None else zone_of(zone))
    return None if found is None else found[0]


def test_texts_are_read_as_joda_reads_them() -> None:
    """Random ones; recipes/joda_texts.py."""
    said = json.loads((Path(__file__).parents[2] / "vectors" / "joda_texts.json").read_text())
    assert len(said) == 500
    wrong = []
    for pattern, text, millis in said:
        found = read(pattern, text)
        if found != millis:
            wrong.append((pattern, text, found, millis))
    assert wrong == []


@pytest.mark.parametrize(
    ("pattern", "text", "millis"),
    [
        ("EEE yyyy-MM-dd", "Mon 2020-02-29", 1_582_502_400_000),
        ("EEE, dd MMM yyyy", "Sun, 31 Jan 2020", 1_580_601_600_000),
        ("yyyy-dd EEE", "2020-31 Sun", None),
        ("MM-dd", "02-29", 951_782_400_000),
        ("dd/MM", "31/12", 978_220_800_000),
        ("HH:mm", "07:30", 27_000_000),
        ("yMMMd", "2020FEB29", 1_582_934_400_000),
        ("yyyy a", "2020 PM", 1_577_880_000_000),
        ("yyyy-MM-dd'T'HH:mmZ", "2020-01-01T00:00+24:00", None),
        ("yyyy-MM-dd'T'HH:mmZ", "2020-01-01T00:00+23:59", 1_577_750_460_000),
        ("yyyy-MM-dd'T'HH:mmZ", "2020-01-01T00:00-01:60", None),
        ("yyyy DDD MM", "2020 366 02", 1_609_372_800_000),
        ("YYYY-MM-dd", "0000-01-01", None),
        ("YYYY-MM-dd", "+2020-01-01", None),
        ("mms", "77", None),
        ("DDDm", "060", None),
        ("DDDm", "0607", 951_782_820_000),
        ("yyyyMM", "202013", None),
        ("yMM", "-502", None),
        ("MMM'r'", "Mar", None),
        ("yyyy Z", "1970 +01:00:30", -3_630_000),
        ("yyyy Z", "1970 -010030.5", None),
        ("yyyy Z", "1970 -01:00:30.5", 3_630_500),
        ("yyyy Z", "1970 -0100305", 3_630_500),
        ("yyyy Z:mm", "1970 +01:07", None),
        ("yyyy Z mm", "1970 +01 07", -3_180_000),
        ("yyyy Zmm", "1970 +0107", None),
        ("yyyy DDD", "2020 060", 1_582_934_400_000),
        ("yyyy DDD", "2020 366", 1_609_372_800_000),
        ("yyyy DDD", "2021 366", None),
        ("yyyy DDD", "2021 000", None),
        ("EEE, d MMM yyyy kk:mm", "Sat, 29 feb 2020 24:05", 1_582_934_700_000),
        ("yyyy-MM-dd KK:mm a", "2020-02-29 11:00 PM", 1_583_017_200_000),
        ("yyyy-MM-dd hh", "2020-02-29 13", None),
        ("HH:mm", "25:00", None),
        ("HH:mm", "23:60", None),
    ],
)
def test_other_letters_are_read(pattern: str, text: str, millis: int | None) -> None:
    assert read(pattern, text) == millis


@pytest.mark.parametrize(
    ("zone", "text", "millis"),
    [
        ("Europe/Paris", "2020-10-25 01:59:59", 1_603_583_999_000),
        ("Europe/Paris", "2020-10-25 02:00:00", 1_603_584_000_000),
        ("Europe/Paris", "2020-10-25 02:59:59", 1_603_587_599_000),
        ("Europe/Paris", "2020-10-25 03:00:00", 1_603_591_200_000),
        ("Europe/Paris", "2020-03-29 01:59:59", 1_585_443_599_000),
        ("Europe/Paris", "2020-03-29 02:00:00", None),
        ("Europe/Paris", "2020-03-29 02:59:59", None),
        ("Europe/Paris", "2020-03-29 03:00:00", 1_585_443_600_000),
        ("Europe/London", "2005-10-30 01:21:30", 1_130_631_690_000),
        ("America/New_York", "2020-11-01 01:30:00", 1_604_208_600_000),
        ("America/New_York", "2020-03-08 02:30:00", None),
        ("Australia/Lord_Howe", "2020-04-05 01:45:00", 1_586_011_500_000),
    ],
)
def test_times_around_the_change_of_clocks_are_read_as_joda_reads_them(
    zone: str, text: str, millis: int | None
) -> None:
    """Of the two that clocks show alike it is the first."""
    assert read("yyyy-MM-dd HH:mm:ss", text, zone) == millis


@pytest.mark.parametrize(
    ("zone", "millis", "text"),
    [
        ("Europe/Paris", -2_208_989_361_000, "1900-01-01 00:00:00 +0009"),
        ("America/St_Johns", -2_208_988_800_000, "1899-12-31 20:29:08 -0330"),
    ],
)
def test_clocks_of_before_there_were_zones_are_seconds_off(zone: str, millis: int, text: str) -> None:
    assert JodaFormat("yyyy-MM-dd HH:mm:ss Z").text(millis, zone_of(zone)) == text
    assert JodaParser("yyyy-MM-dd HH:mm:ss").parse(text[:19], zone_of(zone)) == (millis, zone_of(zone))


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "timestamp.type"),
        ({"timestamp.type": "HOURS"}, "timestamp.type"),
        ({"timestamp.type": "SCALAR"}, "output.dateformat"),
        ({"timestamp.type": "SCALAR", "output.dateformat": "yyyy", "timestamp.scalar.time.unit": "WEEKS"}, "time.unit"),
    ],
)
def test_time_options_say_what_is_valid(settings: dict[str, str], name: str) -> None:
    for prefix in ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased."):
        with pytest.raises(OptionError, match=name) as caught:
            TimeOptions.from_properties({prefix + key: value for key, value in settings.items()})
        assert caught.value.hint is not None
        assert "valid: " in caught.value.hint


def test_texts_need_an_input_format() -> None:
    with pytest.raises(OptionError, match=r"input\.dateformat is missing"):
        TimePartitioner(TimeOptions(TimeType.DATE_STRING, "yyyy"))


def test_timestamp_and_flag_columns() -> None:
    micros = TimePartitioner(TimeOptions(TimeType.EPOCHMICROSECONDS, "yyyy/MM/dd"))
    column = pa.array([1_609_459_200_000_000], pa.timestamp("us", "UTC"))
    assert micros.paths(column, "t")[0].to_pylist() == ["2021/01/01"]
    assert micros.paths(column.dictionary_encode(), "t")[0].to_pylist() == ["2021/01/01"]
    with pytest.raises(SchemaMismatchError, match="cannot make a partition path"):
        micros.paths(pa.array([True]), "t")
