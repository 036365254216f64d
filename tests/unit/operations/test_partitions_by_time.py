"""Partitions by year, month, day or hour of a column: paths, scans and deletes that take whole partitions."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.errors import OptionError, TableExistsError
from tests.cli_support import lakeindex as command

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("city", pa.string()),
        ("ts", pa.int64()),
    ]
)
START = dt.datetime(2024, 1, 30, 22, tzinfo=dt.UTC)


def rows(count: int = 90, ts: int = 1) -> pa.Table:
    times = [START + dt.timedelta(hours=17 * n) for n in range(count)]
    return pa.table(
        {
            "id": [f"k{n}" for n in range(count)],
            "day": [one.date() for one in times],
            "at": times,
            "city": ["rome" if n % 2 else "oslo" for n in range(count)],
            "ts": [ts] * count,
        },
        schema=COLUMNS,
    )


@pytest.mark.parametrize(
    ("partition", "path", "version"),
    [
        ("day:year", "2024", 6),
        ("day:month", "2024-01", 9),
        pytest.param("day:day", "2024-01-30", 6, marks=pytest.mark.slow),
        pytest.param("at:year", "2024", 9, marks=pytest.mark.slow),
        ("at:MONTH", "2024-01", 6),
        ("at:day", "2024-01-30", 9),
        pytest.param("at:hour", "2024-01-30-22", 6, marks=pytest.mark.slow),
        ("at:hour", "2024-01-30-22", 9),
        (["city", "day:month"], "oslo/2024-01", 9),
        (["at:month", "city"], "2024-01/oslo", 6),
    ],
)
@pytest.mark.few(3)
def test_rows_scans_and_deletes(tmp_path: Path, partition: str | list[str], path: str, version: int) -> None:
    table = lakeindex.create_table(
        tmp_path / "t", COLUMNS, key="id", partition=partition, ordering="ts", table_version=version, metadata=False
    )
    table.upsert(rows())
    assert path in [one.path for one in table.partitions()]
    assert table.upsert(rows(20, ts=2)).fates == {"updates": 20}  # each where it was
    assert table.check().ok
    for where, wanted in (
        ("day < '2024-02-10'", lambda row: row["day"] < dt.date(2024, 2, 10)),
        ("at >= '2024-03-01 00:00:00'", lambda row: row["at"] >= dt.datetime(2024, 3, 1, tzinfo=dt.UTC)),
        ("day = '2024-02-29'", lambda row: row["day"] == dt.date(2024, 2, 29)),
        (
            "at BETWEEN '2024-01-31' AND '2024-02-01'",
            lambda row: "2024-01-31" <= str(row["at"]) <= "2024-02-01 00:00:00",
        ),
    ):
        scan = table.scan(where=where)
        names = {row["id"] for row in rows().to_pylist() if wanted(row)}
        assert set(scan.to_arrow()["id"].to_pylist()) == names
        asks_it = f"{where.split()[0]}:" in str(partition)
        assert (scan.explain().files_pruned_by_partition > 0) is (asks_it and "year" not in str(partition)), where
    gone = table.delete(where="day < '2024-02-01'" if "day:" in str(partition) else "at < '2024-02-01'")
    early = [row["id"] for row in rows().to_pylist() if str(row["day"]) < "2024-02-01"]
    assert table.count() == 90 - len(early)
    assert (gone.operation == "DELETE_PARTITION") is ("year" not in str(partition))  # whole partitions, no row is read


def test_nulls_lie_in_the_first_partition_of_the_epoch(tmp_path: Path) -> None:
    table = lakeindex.create_table(tmp_path / "t", COLUMNS, key="id", partition="day:month", ordering="ts")
    table.upsert(pa.table({"id": ["a", "b"], "day": [None, dt.date(1970, 1, 9)], "ts": [1, 1]}), partial=True)
    assert [one.path for one in table.partitions()] == ["1970-01"]
    assert table.scan(where="day IS NULL").to_arrow()["id"].to_pylist() == ["a"]
    assert table.scan(where="day < '1980-01-01'").count() == 1
    assert table.delete(where="day < '1980-01-01'").deletes == 1  # by rows: the null stays
    assert table.count() == 1
    # a format in which only Hudi writes keeps nobody from reading
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("dateformat=yyyy-MM", "dateformat=yyyy-MM G"))
    assert lakeindex.open_table(tmp_path / "t").scan(where="day IS NULL").count() == 1


def test_the_same_table_is_found_again_and_another_is_not(tmp_path: Path) -> None:
    made = {"key": "id", "ordering": "ts", "exists": "ok"}
    lakeindex.create_table(tmp_path / "t", COLUMNS, partition="day:month", **made)
    lakeindex.create_table(tmp_path / "t", COLUMNS, partition="day:month", **made)
    with pytest.raises(TableExistsError, match=r"output.dateformat|time-based"):
        lakeindex.create_table(tmp_path / "t", COLUMNS, partition="day:year", **made)


def test_the_command_line_has_it(tmp_path: Path) -> None:
    ddl = "id STRING, day DATE, ts BIGINT"
    said = command("create", tmp_path / "t", "--like", ddl, "--key", "id", "--partition", "day:month", "--json").json
    assert (said["key_generator"], said["partition_fields"]) == ("TIMESTAMP", ["day"])
    assert "Hudi 0.15 on Spark" in said["unread_by"]


WRONG = {
    "city:month": "city' is string",
    "day:hour": "no partitions by hour",
    "gone:month": "which is no column",
    "day:week": "takes no types",
    ("day:month", "at:day"): "one partition field by time",
    ("day:month", "day"): "twice",
}


def test_what_cannot_be_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    answers = {}
    for partition in WRONG:
        names = [partition] if isinstance(partition, str) else list(partition)
        with pytest.raises(OptionError) as found:
            lakeindex.create_table(tmp_path / "t", COLUMNS, key="id", partition=names, ordering="ts")
        answers[partition] = str(found.value)
    for name, text in (("output.dateformat", "yyyy"), ("timestamp.type", "UNIX_TIMESTAMP")):
        with pytest.raises(OptionError, match="leave the option out"):
            lakeindex.create_table(
                tmp_path / "t",
                COLUMNS,
                key="id",
                partition="day:month",
                properties={f"hoodie.keygen.timebased.{name}": text},
            )
    with pytest.raises(OptionError, match="leave the option out"):
        lakeindex.create_table(
            tmp_path / "t",
            COLUMNS,
            key="id",
            partition="day:month",
            properties={"hoodie.table.keygenerator.type": "SIMPLE"},
        )
    assert [partition for partition, text in WRONG.items() if text not in answers[partition]] == []
    assert list(tmp_path.iterdir()) == []
