"""``lakeindex read`` with a condition, columns and partitions."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.operations.rows.out_file import as_texts
from tests.builders import Row, batch_of, make_table
from tests.cli_support import lakeindex as command
from tests.cli_support import validate
from tests.golden import table_of


@pytest.fixture
def table(tmp_path: Path) -> str:
    return table_of(tmp_path / "t", [Row(f"k{n}", f"d{n % 3}", n, "x") for n in range(30)]).uri


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


def test_the_name_of_the_file_says_its_format(tmp_path: Path):
    """Each command that writes a file; what it writes is read again as a batch."""
    fields = [
        pa.field("id", pa.string(), nullable=False),
        ("day", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("d", pa.decimal128(10, 2)),
        ("v", pa.string()),
        ("l", pa.list_(pa.struct([("x", pa.int32())]))),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("b", pa.binary()),
    ]
    schema, at = pa.schema(fields), datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    rows = [
        {"id": "a", "day": date(2026, 1, 2), "t": at, "d": Decimal("1.50"), "v": "", "l": [{"x": 1}], "m": [("k", 2)]},
        {"id": "b", "v": 'x,"\n', "b": b"\x00"},
    ]
    made = make_table(tmp_path / "t", schema=schema, partitions=(), ordering=None)
    made.upsert(pa.Table.from_pylist(rows, schema))
    outs = {name: str(tmp_path / f"out{name}") for name in (".parquet", ".csv", ".json", ".jsonl", ".arrow", "")}
    for out in outs.values():
        for words in (("read", "--columns", ",".join(schema.names)), ("changes",)):
            done = command(words[0], made.uri, *words[1:], "--out", out)
            assert done.exit_code == 0, done.stderr
        assert command("get", made.uri, "a", "b", "--columns", ",".join(schema.names), "--out", out).exit_code == 0
    wanted = pq.read_table(outs[".parquet"]).sort_by("id")
    assert pq.read_table(outs[""]).num_rows == 2
    assert pa.ipc.open_file(outs[".arrow"]).read_all().sort_by("id").equals(wanted)
    lines = sorted(Path(outs[".jsonl"]).read_text().splitlines())
    assert sorted(Path(outs[".json"]).read_text().splitlines()) == lines
    first = {"id": "a", "day": "2026-01-02", "t": at.isoformat(), "d": "1.50", "v": ""}
    assert json.loads(lines[0]) == {**first, "l": [{"x": 1}], "m": {"k": 2}, "b": None}
    csv = Path(outs[".csv"]).read_text()
    assert csv.startswith('"id","day"')
    assert '"",' in csv, "an empty text is no null"
    assert '"AA=="' in csv, "bytes as JSON has them, those of another writer's fixed length, too"
    fixed = pa.table({"f": pa.array([b"\x00\xff", None], pa.binary(2))})
    assert as_texts(fixed).to_pydict() == {"f": ["AP8=", None]}
    for name in ("x.xlsx", "x.csv.gz", "x.txt"):
        refused = command("read", made.uri, "--out", str(tmp_path / name), "--json")
        assert refused.error["exit_code"] == 2
        assert ".jsonl" in refused.error["hint"]
        assert not (tmp_path / name).exists()
