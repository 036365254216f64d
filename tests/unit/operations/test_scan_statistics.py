"""What statistics say of a condition: never that a row cannot be there which is, in whatever type or form it is stored."""

from __future__ import annotations

import datetime as dt
import itertools
import operator
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.files.footers import ParquetFooter
from lakeindex.format.instants import parse_point_in_time
from lakeindex.metadata import content_records
from lakeindex.metadata.column_ranges import ValueKind, ValueType
from lakeindex.metadata.column_stats import FIELD
from lakeindex.metadata.metadata_records import Record
from lakeindex.model import BaseFile
from lakeindex.operations.rows.file_reader import _newer
from lakeindex.operations.rows.known_bounds import FooterStatistics, converted
from lakeindex.operations.rows.time_travel import LaterWrites
from lakeindex.predicates.bounds import ALL_NULL, UNKNOWN, Bounds
from lakeindex.predicates.nodes import Path as Column
from lakeindex.predicates.predicate import predicate_of
from tests.builders import SCHEMA, Row, batch_of, make_table
from tests.told_tables import tell
from tests.unit.operations.tables import live_files, rewrite

GROUP = 4
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC).replace(tzinfo=None)


def written(rows: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=GROUP, **options)
    return sink.getvalue().to_pybytes()


def edited(data: bytes, was: bytes, now: bytes) -> bytes:
    """The file with something else in its footer."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert data[start:].count(was) == 1, was
    return data[:start] + data[start:].replace(was, now)


def footer_of(data: bytes) -> ParquetFooter:
    file = pq.ParquetFile(pa.BufferReader(data))
    return ParquetFooter(file.metadata, file.schema_arrow, tuple(map(".".join, file.reader.column_paths)))


def known(data: bytes, condition: str, schema: pa.Schema, group: int = 0) -> dict[Column, Bounds]:
    predicate = predicate_of(condition, schema)
    return FooterStatistics(footer_of(data), predicate).of(group)


def test_a_group_is_left_out_only_if_no_row_of_it_meets_the_condition():
    """Of random rows, in the types that an older file may have of the table's columns."""
    chance = random.Random(3)
    stored = {
        "i": (pa.int32(), pa.int64(), lambda: chance.randint(-3, 3)),
        "f": (pa.float32(), pa.float64(), lambda: chance.choice([0.1, -0.0, 0.0, 2.5, float("nan")])),
        "d": (pa.decimal128(5, 1), pa.decimal128(9, 3), lambda: Decimal(chance.randint(-30, 30)).scaleb(-1)),
        "t": (pa.timestamp("ms"), pa.timestamp("us"), lambda: EPOCH + dt.timedelta(milliseconds=chance.choice([0, 1]))),
        "s": (pa.string(), pa.string(), lambda: chance.choice(["", "a", "ab", "b"])),
        "p": (pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int64())]), lambda: {"x": chance.choice([None, 1, 2])}),
        "l": (pa.list_(pa.int32()), pa.list_(pa.int32()), lambda: chance.choice([[], [1], [None]])),
    }  # fmt: skip
    conditions = [
        "i = 2", "i > 1.5", "NOT (i < 3)", "i IS NULL", "f > 2", "f = 0.1", "f < 0", "f <= 0", "NOT (f = 2.5)", "f IS NOT NULL",
        "d = 0.1", "d > 2.95", "d <= -3", "t = '1970-01-01'", "t > '1970-01-01 00:00:00.0005'", "NOT (s LIKE 'a%')", "s = ''",
        "s IN ('ab', 'c')", "p.x = 2", "p.x IS NULL", "p IS NULL", "p IS NOT NULL", "l IS NULL", "l IS NOT NULL", "gone IS NULL",
        "gone = 1", "NOT (gone = 1)",
    ]  # fmt: skip
    wide = pa.schema([*((name, kind) for name, (_, kind, _) in stored.items()), ("gone", pa.int64())])
    wrong, left_out = [], 0
    for _ in range(12):
        empty = {name: chance.random() for name in stored}
        columns = {
            name: pa.array([None if chance.random() < empty[name] else value() for _ in range(2 * GROUP)], kind)
            for name, (kind, _, value) in stored.items()
        }
        rows = pa.table(columns)
        footer = footer_of(written(rows))
        now = rows.append_column("gone", pa.nulls(2 * GROUP, pa.int64()))
        widened = pa.table(
            [now.column(name).cast(kind) for name, kind in zip(wide.names, wide.types, strict=True)], wide
        )
        widened = widened.set_column(1, "f", pa.array([float(f"{v:.7g}") if v is not None else None
                                                      for v in rows.column("f").to_pylist()], pa.float64()))  # fmt: skip
        for condition in conditions:
            predicate = predicate_of(condition, wide)
            statistics = FooterStatistics(footer, predicate)
            for group in range(2):
                is_read = predicate.may_match(statistics.of(group))
                found = predicate.filter(widened.slice(group * GROUP, GROUP)).num_rows
                left_out += not is_read
                wrong += [(condition, widened.slice(group * GROUP, GROUP).to_pylist())] if found and not is_read else []
    assert not wrong, wrong[0]
    assert left_out > 120


def test_columns_of_other_shapes():
    schema = pa.schema([("p", pa.struct([("x", pa.int64()), ("y", pa.int64())])), ("n", pa.int64()), ("q", pa.int64())])
    rows = pa.table({"p": [{"x": 1}, {"x": None}], "n": [1, 2]})
    assert known(written(rows), "p IS NULL", schema) == {("p",): UNKNOWN}, "its fields are there"
    assert known(written(rows), "p.y = 1 OR q = 1", schema) == {("p", "y"): ALL_NULL, ("q",): ALL_NULL}
    assert known(written(pa.table({"p": [1, 2]})), "p.x = 1", schema) == {("p", "x"): UNKNOWN}, "it was no struct"
    plain = written(pa.table({"n": [1, None]}))
    assert known(plain, "n = 1", schema) == {("n",): Bounds(1, 1)}
    listed = edited(plain, b"\x25\x02\x18\x01n", b"\x25\x04\x18\x01n")  # repeated: a list of the oldest form
    assert pa.types.is_list(pq.ParquetFile(pa.BufferReader(listed)).schema_arrow.field("n").type)
    assert known(listed, "n = 1", schema) == {("n",): UNKNOWN}


def test_nulls_that_nobody_counted():
    schema = pa.schema([("n", pa.int64())])
    data = written(pa.table({"n": [5, 5, 5]}))
    assert known(data, "n = 1", schema) == {("n",): Bounds(5, 5, may_be_null=False)}
    uncounted = edited(data, b"\x16\x00\x28\x08\x05", b"\x26\x00\x18\x08\x05")  # 4 distinct_count for 3 null_count
    assert pq.ParquetFile(pa.BufferReader(uncounted)).metadata.row_group(0).column(0).statistics.null_count is None
    assert known(uncounted, "n = 1", schema) == {("n",): Bounds(5, 5)}
    required = written(pa.table({"n": [5]}, pa.schema([pa.field("n", pa.int64(), nullable=False)])))
    unsaid = edited(required, b"\x16\x00\x28\x08\x05", b"\x26\x00\x18\x08\x05")
    assert known(unsaid, "n = 1", schema) == {("n",): Bounds(5, 5, may_be_null=False)}


def test_ends_are_brought_into_the_units_of_the_table_and_never_inwards():
    ms, us, date = (
        ValueKind(ValueType.TIMESTAMP_MILLIS),
        ValueKind(ValueType.TIMESTAMP_MICROS),
        ValueKind(ValueType.DATE),
    )
    clock, long = ValueKind(ValueType.TIME_MICROS), ValueKind(ValueType.LONG)
    small, large = ValueKind(ValueType.DECIMAL, 5, 1), ValueKind(ValueType.DECIMAL, 9, 3)
    text, raw, flag = (ValueKind(one) for one in (ValueType.STRING, ValueType.BYTES, ValueType.BOOLEAN))
    float_, double = ValueKind(ValueType.FLOAT), ValueKind(ValueType.DOUBLE)
    cases = [
        (us, (1_500, 2_500), pa.timestamp("ms"), (1, 3)),
        (us, (-1_500, -500), pa.timestamp("s", "UTC"), (-1, 0)),
        (us, (-1_500, -500), pa.timestamp("ms", "UTC"), (-1_500, -500)),
        (ValueKind(ValueType.LOCAL_TIMESTAMP_MICROS), (-1_500, -500), pa.timestamp("ms"), (-2, 0)),
        (ms, (1, 2), pa.timestamp("us"), (1_000, 2_000)),
        (clock, (1, 1), pa.time32("ms"), (0, 1)),
        (date, (1, 2), pa.date32(), (1, 2)),
        (date, (1, 2), pa.timestamp("us"), None),
        (us, (1, 2), pa.date32(), None),
        (us, (1, 2), pa.time64("us"), None),
        (clock, (1, 2), pa.timestamp("us"), None),
        (small, (-15, 25), pa.decimal128(9, 3), (-1_500, 2_500)),
        (large, (-15, 25), pa.decimal128(9, 1), None),
        (long, (1, 2), pa.decimal128(9, 1), None),
        (small, (1, 2), pa.int64(), None),
        (long, (2**53 + 1, 2**53 + 1), pa.float64(), (2.0**53, 2.0**53)),
        (double, (0.5, 1.5), pa.float64(), (0.5, 1.5)),
        (double, (0.5, 1.5), pa.float32(), None),
        (double, (0.5, float("nan")), pa.float64(), None),
        (float_, (float("nan"), 1.0), pa.float32(), None),
        (text, ("a", "b"), pa.large_string(), ("a", "b")),
        (text, ("a", "b"), pa.binary(), None),
        (raw, (b"a", b"b"), pa.binary(), (b"a", b"b")),
        (raw, (b"a", b"b"), pa.string(), None),
        (flag, (False, True), pa.bool_(), (False, True)),
        (flag, (False, True), pa.int64(), None),
        (long, (0, 1), pa.bool_(), None),
        (long, (0, 1), pa.string(), None),
    ]
    wrong = [(one, found) for *one, wanted in cases if (found := converted(one[1], one[0], one[2])) != wanted]
    assert not wrong


def test_a_record_of_another_file_or_column_says_nothing(tmp_path: Path):
    """A wrong bit, or two keys of one hash: what is believed must say whose it is."""
    for number, (name, other) in enumerate((("fileName", "other.parquet"), ("columnName", "ts"))):
        table = make_table(tmp_path / f"t{number}")
        table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]))

        def elsewhere(file: BaseFile, record: dict[str, Any], name: str = name, other: str = other) -> Record:
            ends = {end: (record[FIELD][end][0], {"value": "zz"}) for end in ("minValue", "maxValue")}
            return {**record, FIELD: {**record[FIELD], **ends, name: other}}

        tell(table, stats=elsewhere)
        found = table.scan(where="_hoodie_record_key = 'a'").to_arrow()
        assert found["id"].to_pylist() == ["a"], name


JAVAS: dict[str, tuple[list[Any], Any, Any]] = {
    "s": (["a", "b", "c"], "a", "c"),
    "t": (["a", "\uffee", "\U0001f600"], "a", "\uffee"),
    "u": (["\uffee", "\U0001f600", "\U0001f600"], "\U0001f600", "\uffee"),
    "b": ([b"\x10", b"\x20", b"\xff"], b"\x10", b"\x10"),
}
"""Columns of three rows, and the ends that Hudi's records have of them where each is a row group; of ``b`` the last two are one."""


@pytest.mark.parametrize("version", ["6", "9"])
def test_ends_that_hudi_united_in_javas_order_leave_no_file_out(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
):
    """U+1F600 is before U+FFEE in UTF-16, and bytes are signed numbers in a ByteBuffer."""
    kinds = [(name, pa.binary() if name == "b" else pa.string()) for name in JAVAS]
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), *kinds])
    right = content_records.column_ranges

    def hudis(*asked: Any) -> tuple[Any, ...]:
        return tuple(
            replace(one, least=JAVAS[one.column][1], greatest=JAVAS[one.column][2]) if one.column in JAVAS else one
            for one in right(*asked)
        )

    table = make_table(tmp_path / "t", partitions=(), schema=schema, hoodie__write__table__version=version)
    rows = {"id": ["1", "2", "3"], "ts": [1, 1, 1]} | {name: values for name, (values, _, _) in JAVAS.items()}
    table.upsert(pa.table(rows, schema=schema))
    with monkeypatch.context() as patch:
        patch.setattr(content_records, "column_ranges", hudis)
        table.metadata_build(("files", "column_stats"))
    wanted = {"t = '\U0001f600'": "3", "t > '\uffee'": "3", "u = '\uffee'": "1", "u >= '\U0001f600'": "23"}
    wanted |= {"b = x'ff'": "3", "b > x'10'": "23", "b IS NOT NULL": "123", "s = 'c'": "3"}
    found = {where: "".join(sorted(table.scan(where=where).to_arrow()["id"].to_pylist())) for where in wanted}
    assert found == wanted
    assert table.scan(where="s > 'c'").explain().files_pruned_by_statistics == 1
    assert table.delete(where="b = x'ff'").deletes == 1


@pytest.mark.parametrize("version", ["6", "9"])
def test_dates_of_before_1582_are_others_in_records_of_v1(
    tmp_path: Path, version: str, monkeypatch: pytest.MonkeyPatch
):
    """Hudi takes them from texts of Parquet's, which were those of the Julian calendar up to 1.11 (Spark 2.4 to 3.1)."""
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("d", pa.date32()), ("e", pa.date32())])
    right, epoch = content_records.column_ranges, dt.date(1970, 1, 1)
    julian = [(one - epoch).days for one in (dt.date(1, 1, 3), dt.date(1499, 12, 27))]

    def hudis(*asked: Any) -> tuple[Any, ...]:
        return tuple(
            replace(one, least=julian[0], greatest=julian[1]) if one.column == "d" and version == "6" else one
            for one in right(*asked)
        )

    table = make_table(tmp_path / "t", partitions=(), schema=schema, hoodie__write__table__version=version)
    days = [[dt.date(1, 1, 1), dt.date(1500, 1, 5)], [dt.date(1582, 10, 25), dt.date(2026, 1, 1)]]
    table.upsert(pa.table([["1", "2"], [1, 1], *days], schema=schema))
    with monkeypatch.context() as patch:
        patch.setattr(content_records, "column_ranges", hudis)
        table.metadata_build(("files", "column_stats"))
    for where, wanted in (
        ("d = '0001-01-01'", "1"),
        ("d = '1500-01-05'", "2"),
        ("d IS NULL", ""),
        ("e > '2025-01-01'", "2"),
    ):
        assert "".join(table.scan(where=where).to_arrow()["id"].to_pylist()) == wanted, where
    pruned = {
        where: table.scan(where=where).explain().files_pruned_by_statistics
        for where in ("d > '1600-01-01'", "e < '1582-10-25'")
    }
    assert list(pruned.values()) == [int(version == "9"), 1]


def test_rows_since_a_point_are_looked_for_in_newer_files_only(tmp_path: Path):
    table = make_table(tmp_path / "t")
    first = table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "y", 1, "1")])).instant
    table.upsert(batch_of([Row("c", "z", 1, "1")]))
    scan = table.scan(since=first)
    assert scan.to_arrow()["id"].to_pylist() == ["c"]
    assert scan.explain().files_left == 1


def test_rows_are_those_of_the_writes_that_count_as_later():
    """Of instants with milliseconds and, of old releases, without, which are the last of their second."""
    times = ["20260101000000", "20260101000000999", "20260101000001", "20260101000001000", "20260101000000500"]
    rows = pa.table({"_hoodie_commit_time": times})
    points = [parse_point_in_time(one) for one in times]
    for point, known in itertools.product(points, ({}, {times[1]: True, times[3]: False}, {times[2]: False})):
        later = LaterWrites(point, known)
        found = _newer(rows, later)["_hoodie_commit_time"].to_pylist()
        assert found == [one for one in times if later.has(one)], (point, known)


DAYS = ("1969-12-25", "1970-01-01", "1970-01-02", "1975-06-01", "2026-01-01", "9999-12-31")
COMPARED: dict[str, Callable[[str, str], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    ">=": operator.ge,
    ">": operator.gt,
}


def of_times(folder: Path, version: str, stored_as: str, days: tuple[str, ...] = DAYS, **more: Any) -> LakeTable:
    """A table that says microseconds of its column ``at``, and whose files, one a day, have it in some unit."""
    schema = pa.schema([*SCHEMA, pa.field("at", pa.timestamp("us"))])
    table = make_table(folder, schema=schema, hoodie__write__table__version=version, **more)
    ids, times = [str(number) for number in range(len(days))], [dt.datetime.fromisoformat(day) for day in days]
    table.upsert(pa.table({"id": ids, "day": days, "ts": [1] * len(days), "v": ids, "at": times}, schema))

    def in_unit(rows: pa.Table) -> pa.Table:
        place = rows.schema.get_field_index("at")
        return rows.set_column(place, "at", rows.column(place).cast(pa.timestamp(stored_as)))

    for path in live_files(folder):
        rewrite(path, in_unit)
    return table


@pytest.mark.parametrize("version", ["6", "9"])
def test_statistics_that_say_no_unit_are_those_of_a_file_in_any(tmp_path: Path, version: str):
    """Hudi takes columns of milliseconds and of microseconds for the same, and up to version 8 statistics do not say which they are
    of."""
    for stored_as in ("ms", "us"):
        table = of_times(tmp_path / stored_as, version, stored_as)
        table.metadata_build(["files", "column_stats"])
        for day, word in itertools.product(DAYS, COMPARED):
            scan = table.scan(where=f"at {word} TIMESTAMP '{day} 00:00:00'")
            expected = [one for one in DAYS if COMPARED[word](one, day)]
            assert sorted(scan.to_arrow()["day"].to_pylist()) == expected, (stored_as, word, day)
    after = table.scan(where="at > TIMESTAMP '2026-01-01 00:00:00'").explain()
    assert after.files_pruned_by_statistics >= 3, "microseconds of our days are no milliseconds of the years to 9999"
    both = of_times(tmp_path / "both", version, "us", ("1970-01-02", "2026-01-01"), partitions=())
    both.metadata_build(["files", "column_stats"])
    after = both.scan(where="at > TIMESTAMP '2026-01-01 00:00:00'").explain()
    assert after.files_pruned_by_statistics == 1, "though the first of them may be milliseconds"
