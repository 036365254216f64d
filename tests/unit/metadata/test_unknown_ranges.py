"""Columns whose bounds no footer tells, or no record can hold: readers skip nothing by them, and verify says what would."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.metadata import column_ranges, content_records
from lakeindex.metadata.column_ranges import ColumnRange, ValueKind, ValueType
from lakeindex.metadata.column_stats import FIELD, has_form, holds_all
from lakeindex.metadata.indexed_columns import StatsEncoding
from lakeindex.metadata.metadata_table import COLUMN_STATS, PARTITION_STATS
from tests.builders import make_table
from tests.unit.metadata.test_partition_stats import view_of

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "day": pa.string(),
        "ts": pa.int64(),
        "d": pa.float64(),
        "f": pa.float32(),
        "m": pa.decimal128(38, 18),
        "w": pa.decimal128(38, 2),
    }
)
NAN = math.nan
PARTITIONS = {"6": ["files", "column_stats"], "9": ["files", "column_stats", "partition_stats"]}


def made(folder: Path, version: str) -> LakeTable:
    table = make_table(folder / "t", schema=SCHEMA, hoodie__write__table__version=version)
    table.metadata_drop()
    table.metadata_build(PARTITIONS[version])
    return table


def rows(day: str, d: list[float], m: list[str], w: list[int]) -> pa.Table:
    count = len(d)
    columns: list[list[Any]] = [[f"{day}{n}" for n in range(count)], [day] * count, [1] * count, d, d]
    return pa.table([*columns, [Decimal(one) for one in m], [Decimal(one) for one in w]], schema=SCHEMA)


def said(table: LakeTable, partition: str, column: str) -> set[tuple[str, str]]:
    """Ends by the records of a column."""
    view = view_of(table)
    records = [one[FIELD] for part in view.slices(partition) for one in view.records(part).values()]
    return {
        tuple(repr(one[end] and one[end][1]["value"]) for end in ("minValue", "maxValue"))  # type: ignore[misc] # two
        for one in records
        if one["columnName"] == column and not one["isDeleted"]
    }


def columns_of(table: LakeTable, day: str) -> set[str]:
    """Columns of which there are records of a partition's files."""
    names = {path.name for path in (Path(table.uri) / day).glob("*.parquet")}
    view = view_of(table)
    records = [one[FIELD] for part in view.slices(COLUMN_STATS) for one in view.records(part).values()]
    return {one["columnName"] for one in records if one["fileName"] in names and not one["isDeleted"]}


def test_nan_ends_no_range_and_a_later_file_has_its_own(tmp_path: Path) -> None:
    table = made(tmp_path, "9")
    table.upsert(rows("p", [0.5, NAN, -3.0], ["1", "2", "3"], [1, 2, 3]))
    for partition in (COLUMN_STATS, PARTITION_STATS):
        assert said(table, partition, "d") == said(table, partition, "f") == {("-inf", "inf")}
    assert table.metadata_verify().ok
    table.upsert(rows("p", [0.5, 2.0, -3.0], ["1", "2", "3"], [1, 2, 3]))
    assert said(table, PARTITION_STATS, "d") == {("-3.0", "2.0")}
    assert ("-3.0", "2.0") in said(table, COLUMN_STATS, "d")
    assert table.metadata_verify().ok


def test_nan_that_an_earlier_release_wrote_is_found_left_by_no_commit_and_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, "9")
    with monkeypatch.context() as patch:
        for kind in (ValueType.FLOAT, ValueType.DOUBLE):
            patch.setitem(column_ranges._WIDEST, kind, (-math.inf, NAN))
        table.upsert(rows("p", [0.5, NAN, -3.0], ["1", "2", "3"], [1, 2, 3]))
    found = table.metadata_verify()
    assert (found.ok, set(found.counts)) == (False, {"statistics"})
    assert {one.said for one in found.examples} == {"-inf to nan"}
    other = rows("p", [7.0], ["1"], [1]).set_column(0, "id", [["other"]])
    table.upsert(other, options={"hoodie.parquet.small.file.limit": "0"})
    assert said(table, PARTITION_STATS, "d") == {("-inf", "inf")}, "of files that stay, NaN is taken for infinity"
    assert table.scan(where="d > 0.4").to_arrow().num_rows == 3
    for partition in (COLUMN_STATS, PARTITION_STATS):
        table.metadata_drop([partition])
        table.metadata_build([partition])
    assert table.metadata_verify().ok


def test_decimals_of_version_6_are_held_or_their_file_has_no_record(tmp_path: Path) -> None:
    table = made(tmp_path, "6")
    table.upsert(rows("p", [1.0, 2.0], ["3.000000000000000001", "5.123456789012345678"], [1, 2]))
    low, high = Decimal(3), Decimal("5.123456789012346")
    assert {tuple(map(Decimal, map(eval_decimal, ends))) for ends in said(table, COLUMN_STATS, "m")} == {(low, high)}
    table.upsert(rows("q", [1.0, 2.0], ["1", "2"], [1, 10**17]))
    assert columns_of(table, "q") == {"_hoodie_record_key"}, "Hudi skips a file by the record that it lacks"
    assert "w" in columns_of(table, "p")
    assert table.metadata_verify().ok
    table.upsert(rows("q", [1.0, 2.0], ["1", "2"], [1, 10**15 - 1]))
    assert "w" in columns_of(table, "q")
    assert table.metadata_verify().ok


def test_of_decimals_that_may_not_fit_no_partition_of_version_6_has_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, "6")
    table.metadata_build([PARTITION_STATS])
    with monkeypatch.context() as patch:  # as an earlier release did, as long as the values fit
        patch.setattr(content_records, "holds_all", lambda *_: True)
        table.upsert(rows("p", [1.0, 2.0], ["1", "2"], [1, 2]))
    found = table.metadata_verify()
    assert (found.ok, len({one.path for one in found.examples})) == (False, 2)
    assert {one.is_so for one in found.examples} == {"bounds of a column that no record can hold"}
    table.metadata_drop([PARTITION_STATS])
    table.metadata_build([PARTITION_STATS])
    for greatest in (2, 10**17):
        table.upsert(rows("p", [1.0, 2.0], ["1", "2"], [1, greatest]))
        assert said(table, PARTITION_STATS, "w") == said(table, PARTITION_STATS, "m") == set()
        assert said(table, PARTITION_STATS, "d") == {("1.0", "2.0")}
        assert table.metadata_verify().ok


def test_what_is_said_to_be_held_is_held_at_its_edge() -> None:
    """Of 15 digits before the point nines are rounded outwards to 16, if there are more than 15 behind it."""
    for whole, behind in ((15, 15), (14, 16), (14, 20), (15, 0), (15, 16), (16, 0), (16, 2)):
        kind = ValueKind(ValueType.DECIMAL, whole + behind, behind)
        most = 10 ** (whole + behind) - 1  # unscaled
        ends = ColumnRange("w", kind, -most, most, 2, 0, 0, 0)
        assert holds_all(kind, StatsEncoding.V1) is has_form(ends, StatsEncoding.V1), (whole, behind)
        assert holds_all(kind, StatsEncoding.V2)


def eval_decimal(text: str) -> str:
    return text.removeprefix("Decimal('").removesuffix("')")


def test_records_beside_one_that_cannot_be_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an earlier release wrote them: the one without ends, and those of other columns of the file."""
    table = made(tmp_path, "6")
    with monkeypatch.context() as patch:
        patch.setattr(content_records, "has_form", lambda *_: True)
        table.upsert(rows("p", [1.0, 2.0], ["1", "2"], [1, 10**17]))
    assert said(table, COLUMN_STATS, "w") == {("Decimal('1.000000000000000')", "None")}
    found = table.metadata_verify()
    assert (found.ok, set(found.counts)) == (False, {"statistics"})
    assert "no record can hold" in found.examples[0].is_so
    table.metadata_drop([COLUMN_STATS])
    table.metadata_build([COLUMN_STATS])
    assert table.metadata_verify().ok


def test_a_range_of_hudis_that_misses_values_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ends of a file with NaN, and none of one with values."""
    for least, greatest in ((0.0, 0.0), (-5.0, 6.0), (None, None)):
        table = made(tmp_path / repr(greatest), "9")
        with monkeypatch.context() as patch:
            patch.setitem(column_ranges._WIDEST, ValueType.DOUBLE, (least, greatest))
            table.upsert(rows("p", [0.5, NAN], ["1", "2"], [1, 2]))
        found = table.metadata_verify()
        assert (found.ok, found.counts) == (False, {"statistics": 2}), (least, greatest)


def test_records_that_an_upgrade_left_in_the_older_encoding_are_understood(tmp_path: Path) -> None:
    """Hudi 1.1 says V2 of a table that it upgrades, and keeps the records of V1."""
    table = made(tmp_path, "9")
    definitions = tmp_path / "t/.hoodie/.index_defs/index.json"
    newer = definitions.read_text()
    definitions.write_text(newer.replace('"V2"', '"V1"'))
    table.upsert(rows("x", [-1.5, 2.5], ["-1.25", "3"], [-7, 12]))
    older = view_of(table)
    assert all(
        one[FIELD]["valueType"] is None for part in older.slices(COLUMN_STATS) for one in older.records(part).values()
    )
    definitions.write_text(newer)
    assert table.metadata_verify().ok
    table.upsert(rows("x", [-1.0, 9.5, 4.0], ["-9.5", "1", "4"], [-1, 2, 30]))
    assert table.metadata_verify().ok
    assert table.scan(where="w = 30").to_arrow().num_rows == 1
