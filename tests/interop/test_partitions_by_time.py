"""Partitions by year, month, day and hour: Hudi puts every row where we put it, and finds it there."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import lakeindex
from tests.interop.hudi_client import HudiServer, keep_options

pytestmark = pytest.mark.interop

COLUMNS = pa.schema(
    [
        ("id", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("city", pa.string()),
        ("ts", pa.int64()),
    ]
)
TIMES = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=dt.UTC),
    dt.datetime(1970, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 2, 29, 23, 59, 59, 999_999, tzinfo=dt.UTC),
    dt.datetime(2024, 3, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 3, 31, 1, 30, tzinfo=dt.UTC),  # the hour that Europe's clocks leave out
    dt.datetime(2025, 12, 31, 23, tzinfo=dt.UTC),
]
CASES = ("day:year", "day:month", "day:day", "at:month", "at:day", "at:hour", "city,day:month")


def rows(first: int, last: int, ts: int) -> pa.Table:
    times = TIMES[first:last]
    return pa.table(
        {
            "id": [f"k{number}" for number in range(first, last)],
            "day": [one.date() for one in times],
            "at": times,
            "city": ["rome" if number % 2 else "oslo" for number in range(first, last)],
            "ts": [ts] * len(times),
        },
        schema=COLUMNS,
    )


def options_of(hudi: HudiServer, table: lakeindex.LakeTable, partition: str) -> dict[str, str]:
    """What docs/format.md says that a job of Hudi gives."""
    properties = table.properties
    fields = [name.partition(":") for name in partition.split(",")]
    custom = len(fields) > 1
    typed = ",".join(f"{name}:{'TIMESTAMP' if kind else 'SIMPLE'}" for name, _, kind in fields)
    kind = "Custom" if custom else "TimestampBased"
    return keep_options(hudi.version, hudi.table_version) | {
        "hoodie.table.name": table.uri.rpartition("/")[2],
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": typed if custom else fields[0][0],
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{kind}KeyGenerator",
        **{name: text for name, text in properties.items() if name.startswith("hoodie.keygen.timebased.")},
    }


def paths(table: lakeindex.LakeTable) -> dict[str, tuple[str, int]]:
    found = table.read(meta=True)
    names = ("_hoodie_record_key", "_hoodie_partition_path", "ts")
    return {key: (path, ts) for key, path, ts in zip(*(found[name].to_pylist() for name in names), strict=True)}


def test_turns(hudi: HudiServer, folder: Path) -> None:
    """We write four rows, Hudi updates two of them and adds two, we update all: nothing is stored twice."""
    wrong: dict[str, object] = {}
    for partition in CASES:
        table = lakeindex.create_table(
            folder / partition.replace(":", "_").replace(",", "_"),
            COLUMNS,
            key="id",
            partition=partition.split(","),
            ordering="ts",
            table_version=hudi.table_version,
            metadata=False,
        )
        table.upsert(rows(0, 4, 1))
        before = paths(table)
        hudi.write(table.uri, rows(2, 6, 2), options_of(hudi, table, partition))
        seen = paths(table)
        expected = lakeindex.create_table(
            folder / f"alone-{len(wrong)}-{partition.replace(':', '_').replace(',', '_')}",
            COLUMNS,
            key="id",
            partition=partition.split(","),
            ordering="ts",
        )
        expected.upsert(rows(0, 6, 2))
        wanted = {key: path for key, (path, _) in paths(expected).items()}
        if {key: path for key, (path, _) in seen.items()} != wanted or table.count() != 6:
            wrong[partition] = {"before": before, "Hudi's": seen, "ours": wanted}
            continue
        table.upsert(rows(0, 6, 3))
        if {ts for _, ts in paths(table).values()} != {3} or table.count() != 6 or not table.check().ok:
            wrong[partition] = table.check().violations
        if hudi.version == "0.15.0":
            continue  # it reads the column's values from the path, or fails, of tables that it made itself, too
        wanted_rows = sorted((row["id"], str(row["day"]), str(row["at"])[:19]) for row in rows(0, 6, 3).to_pylist())
        seen_rows = hudi.read(table.uri).select(["id", "day", "at"]).to_pylist()
        if sorted((row["id"], str(row["day"]), str(row["at"])[:19]) for row in seen_rows) != wanted_rows:
            wrong[f"{partition}: read by Hudi"] = seen_rows
    assert wrong == {}
