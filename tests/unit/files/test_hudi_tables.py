"""Tables that Hudi 0.15.0 and 1.2.0 wrote, read through timeline and snapshot: exactly the rows Hudi read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.files.file_system_view import Snapshot
from lakeindex.storage.opening import open_storage
from lakeindex.table.handle import Table
from tests.vectors_support import commit_instants, expected_rows, table_names, unpack_table

COLUMNS = [
    "_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name",
    "id", "k2", "region", "ts", "i", "d", "val",
]  # fmt: skip
NAMES = [name for name in table_names() if not name.startswith("py_")]


def open_table(name: str, folder: Path) -> Table:
    return Table.open(open_storage(str(unpack_table(name, folder))))


def rows_of(table: Table, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Rows of the live files, without nulls, sorted by key and partition."""
    rows: list[dict[str, Any]] = []
    for file in snapshot.base_files_all():
        read = pq.ParquetFile(pa.BufferReader(table.storage.read(file.path))).read(columns=COLUMNS)
        rows += [{key: value for key, value in row.items() if value is not None} for row in read.to_pylist()]
    return in_order(rows)


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["_hoodie_partition_path"], row["_hoodie_record_key"]))


@pytest.mark.parametrize("name", NAMES)
def test_the_live_files_hold_what_hudi_read(name: str, tmp_path: Path) -> None:
    table = open_table(name, tmp_path)
    expected = [
        {column: row[column] for column in COLUMNS if column in row}
        for row in expected_rows(tmp_path / name)
    ]  # fmt: skip
    found = rows_of(table, table.snapshot())
    assert len(found) == len(expected) >= 15
    assert found == in_order(expected)


@pytest.mark.parametrize("name", NAMES)
def test_partitions_and_sizes(name: str, tmp_path: Path) -> None:
    snapshot = open_table(name, tmp_path).snapshot()
    files = snapshot.base_files_all()
    assert {file.partition_path for file in files} == set(snapshot.partitions())
    for file in files:
        assert file.size_bytes == (tmp_path / name / file.path).stat().st_size
    groups = [(file.partition_path, file.file_id) for file in files]
    assert len(set(groups)) == len(groups)
    for partition in snapshot.partitions():
        assert not snapshot.files_of(partition).doubles


@pytest.mark.parametrize("name", [name for name in table_names() if name.startswith("py_")])
def test_time_travel(name: str, tmp_path: Path) -> None:
    table = open_table(name, tmp_path)
    first, second, third = commit_instants(tmp_path / name)
    rows = {instant: rows_of(table, table.snapshot(instant)) for instant in (first, second, third)}
    assert [len(found) for found in rows.values()] == [200, 230, 220]
    assert rows_of(table, table.snapshot()) == rows[third]
    assert {row["_hoodie_commit_time"] for row in rows[second]} == {first, second}
    numbers = {int(row["id"][1:6]) for row in rows[third]}
    assert numbers == set(range(230)) - set(range(90, 100))
    versions = {int(row["id"][1:6]): row["val"].partition("-")[0] for row in rows[second]}
    assert {number for number, version in versions.items() if version == "v2"} == {*range(50), *range(200, 230)}


def test_time_travel_between_and_before_commits(tmp_path: Path) -> None:
    table = open_table("py_simple", tmp_path)
    first, second, _ = commit_instants(tmp_path / "py_simple")
    between = str(int(second) - 1)
    assert rows_of(table, table.snapshot(between)) == rows_of(table, table.snapshot(first))
    assert table.snapshot(between).instant_time == first
    before = table.snapshot(str(int(first) - 1))
    assert before.base_files_all() == ()
    assert before.instant_time is None


@pytest.mark.parametrize("name", ["h0150_v6_main", "h120_v6_main", "h120_v8_main", "h120_v9_main"])
def test_time_travel_to_before_a_clustering(name: str, tmp_path: Path) -> None:
    table = open_table(name, tmp_path)
    timeline = table.load_timeline()
    clustered, before = timeline.completed_writes[-1], timeline.completed_writes[-2]
    now, then = table.snapshot(), table.snapshot(before.time)
    assert {file.instant_time for file in now.base_files_all()} == {clustered.time}
    assert {file.instant_time for file in then.base_files_all()} == {before.time}
    texts = [[(row["id"], row["val"]) for row in rows_of(table, snapshot)] for snapshot in (now, then)]
    assert texts[0] == texts[1]


def test_files_of_failed_writes_are_seen_as_such(tmp_path: Path) -> None:
    for name in ("h120_v6_inflight", "h120_v6_rolledback"):
        snapshot = open_table(name, tmp_path).snapshot()
        unseen = [file for partition in snapshot.partitions() for file in snapshot.files_of(partition).unseen]
        assert {file.instant_time for file in unseen} == {"20261121014524919"}
        assert len(unseen) == 3
