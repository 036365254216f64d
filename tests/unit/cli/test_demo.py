"""``lakeindex demo``: a run that needs neither a checkout nor data, and finds out by itself whether it is right."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeindex as library
from lakeindex.cli import demo
from lakeindex.pipeline import Stage
from tests.cli_support import lakeindex, validate


def replayed() -> dict[str, dict[str, object]]:
    """The table as a dictionary says: the newer version of an order wins, deletes take it away."""
    stored = {row["order_id"]: row for row in demo.first_days().to_pylist()}
    for row in demo.seventh_day()[0].to_pylist():
        deleted, key = row.pop(demo.DELETE_MARK), row["order_id"]
        if key is None or row["updated_at"] < stored.get(key, row)["updated_at"]:
            continue
        stored.pop(key, None) if deleted else stored.update({key: row})
    return stored


def test_it_tells_each_stage_and_leaves_table_and_report(tmp_path: Path):
    told = lakeindex("demo", "--folder", tmp_path / "d")
    assert told.exit_code == 0, told.stderr
    table = tmp_path / "d" / "orders"
    (report,) = Path(f"{table}.lakeindex").glob("batch-seventh-day-*/report.html")
    for text in (*Stage, str(table), str(report), "1,200 inserts, 660 updates", "paid", "every invariant holds"):
        assert str(text) in told.stdout
    found = library.open_table(table).scan(columns=demo.SCHEMA.names).to_arrow()
    assert {row["order_id"]: row for row in found.to_pylist()} == replayed()


@pytest.mark.slow
def test_it_answers_in_json_from_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    told = lakeindex("demo", "--json").json
    validate("demo", told)
    assert Path(told["folder"]).parent == tmp_path
    assert told["batches"][1] == demo.seventh_day()[1]
    assert (told["before"]["status"], told["after"]["status"]) == ("placed", "paid")


def test_it_touches_no_folder_that_holds_something(tmp_path: Path):
    (tmp_path / "mine").touch()
    refused = lakeindex("demo", "--folder", tmp_path, "--json")
    assert (refused.exit_code, refused.error["culprit"]) == (2, str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_count_that_the_data_do_not_say_is_a_broken_invariant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    batch, expected = demo.seventh_day()
    fewer = batch.filter(pc.not_equal(batch["status"], "returned"))
    monkeypatch.setattr(demo, "seventh_day", lambda: (fewer, expected))
    refused = lakeindex("demo", "--folder", tmp_path / "d", "--json")
    assert refused.exit_code == 6
    assert "660" in refused.error["message"]
    assert "600" in refused.error["message"]


def test_its_data_are_the_same_each_time():
    assert demo.first_days().equals(demo.first_days())
    assert pa.concat_tables([demo.first_days()]).num_rows == 58_800
