"""``lakeindex read`` with a condition, columns and partitions."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from tests.builders import Row, batch_of, make_table
from tests.cli_support import lakeindex as command
from tests.cli_support import validate


@pytest.fixture
def table(tmp_path: Path) -> str:
    made = make_table(tmp_path / "t")
    made.upsert(batch_of([Row(f"k{n}", f"d{n % 3}", n, "x") for n in range(30)]))
    return made.uri


def test_a_condition_columns_and_partitions_choose(table: str, tmp_path: Path):
    out = tmp_path / "out.parquet"
    done = command(
        "read", table, "--where", "ts >= 10 AND id != 'k11'", "--columns", "ts,id", "--partition", "d1",
        "--partition", "d2", "--out", str(out), "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    rows = pq.read_table(out)
    assert rows.column_names == ["ts", "id"]
    assert sorted(rows["ts"].to_pylist()) == [n for n in range(10, 30) if n % 3 and n != 11]
    assert (said["rows"], said["files"], said["files_pruned"]) == (rows.num_rows, 2, 1)


def test_without_columns_the_meta_columns_come_first(table: str, tmp_path: Path):
    out = tmp_path / "out.parquet"
    done = command("read", table, "--where", "id = 'k7'", "--out", str(out))
    assert done.exit_code == 0, done.stderr
    assert "1 rows" in done.stdout
    assert "left out" in done.stdout
    assert pq.read_table(out)["_hoodie_record_key"].to_pylist() == ["k7"]


def test_a_condition_that_is_not_valid_is_wrong_usage(table: str, tmp_path: Path):
    out = tmp_path / "out.parquet"
    done = command("read", table, "--where", "nope = 1", "--out", str(out))
    assert done.exit_code == 2
    assert "no column 'nope'" in done.stderr
    assert not out.exists()


def test_changes_are_written_and_counted(table: str, tmp_path: Path):
    out, lake = tmp_path / "changes.parquet", LakeTable(table)
    first = lake.history()[0].instant
    lake.upsert(batch_of([Row("k1", "d1", 99, "y"), Row("new", "d1", 1, "x"), Row("k2", "d2", 99, "x", deleted=True)]))
    done = command("changes", table, "--since", first, "--out", str(out), "--json")
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["inserts"], said["updates"], said["deletes"]) == (1, 1, 1)
    assert (said["since"], said["until"]) == (first, lake.history()[0].instant)
    validate("changes", said)
    kinds = sorted(pq.read_table(out)["_change_type"].to_pylist())
    assert kinds == ["delete", "insert", "update_postimage", "update_preimage"]
    again = command("changes", table, "--since", said["until"], "--columns", "id", "--out", str(out))
    assert "0 inserts, 0 updates and 0 deletes" in again.stdout
    assert pq.read_table(out).column_names == ["id", "_change_type", "_commit_instant"]
