"""What is shown of a run that has not finished, or failed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.errors import QuarantineExceededError
from lakeindex.model import Operation
from lakeindex.pipeline import default_checkpoints
from lakeindex.report.progress import Failures, Link, run_outcome, run_page
from lakeindex.run.run_folders import begin_run
from lakeindex.run.spec import RunSpec
from tests.unit.cli.tables import new_table
from tests.unit.report.test_report import HOSTILE, rows


def test_a_finished_run_is_its_report(tmp_path: Path):
    table = new_table(tmp_path)
    run = lakeindex.open_table(str(table)).upsert(rows(0, 5, 1))
    assert "What happened to the rows" in run_page(default_checkpoints(str(table)), run.run_id, str(table))


def test_a_run_that_nobody_has_begun():
    assert "no task has said what it upserts" in run_page(None, "", "")


def test_a_failed_run_shows_the_error_and_the_rows(tmp_path: Path):
    table = new_table(tmp_path)
    bad = rows(0, 30, 1).set_column(0, "id", pa.array([None] * 25 + [f"k{n}" for n in range(5)], pa.string()))
    bad = bad.set_column(3, "val", pa.array([HOSTILE] * 30))
    with pytest.raises(QuarantineExceededError) as raised:
        lakeindex.open_table(str(table)).upsert(bad, run_id="r")
    root = default_checkpoints(str(table))
    failed = {
        "error": "QuarantineExceededError",
        "message": raised.value.message,
        "culprit": raised.value.culprit,
        "hint": raised.value.hint,
        "transient": False,
    }
    (Path(root) / "r" / "stage_input.error.json").write_text(json.dumps(failed))
    page = run_page(root, "r", str(table))
    assert "stage_input failed: QuarantineExceededError" in page
    assert "25 bad rows, 0 allowed" in page
    assert "The first 20 of 25" in page
    assert "alert(1)" in page
    assert "<script" not in page


def test_a_run_that_is_tried_again_has_not_failed(tmp_path: Path):
    (tmp_path / "r").mkdir()
    error = {"error": "StorageError", "message": "no answer", "culprit": None, "hint": None, "transient": True}
    (tmp_path / "r" / "stage_input.error.json").write_text(json.dumps(error))
    for waits, title in ((True, "The run has not finished"), (False, "The run failed")):
        page = run_page(str(tmp_path), "r", "t", Failures((Link("stage_input", "/log"),), waits=waits))
        assert f"<h1>{title}</h1>" in page
        assert "stage_input failed: StorageError" in page


def test_a_summary_that_is_none(tmp_path: Path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "summary.json").write_text('{"stages": []}')
    assert "its report cannot be made" in run_page(str(tmp_path), "r", "t")


def test_an_error_file_that_is_no_json(tmp_path: Path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "merge_write.error.json").write_text("[1")
    assert "merge_write.error.json cannot be read" in run_page(str(tmp_path), "r", "t")
    assert "The run has not finished" in run_page(str(tmp_path), "other", "t")


def test_a_run_that_begins_again_and_fails_is_not_shown_as_it_ended_before(tmp_path: Path):
    """Its task was cleared: the summary of the first time is still there."""
    table = new_table(tmp_path)
    root = default_checkpoints(str(table))
    lakeindex.open_table(str(table)).upsert(rows(0, 5, 1), run_id="r")
    assert run_outcome(root, "r").startswith("committed ")
    begin_run(RunSpec(str(table), root, "r", "r", Operation.UPSERT, ()))
    os.utime(Path(root) / "r" / "run.json", (time.time() + 1,) * 2)
    assert run_outcome(root, "r") == "not finished"
    assert "The run has not finished" in run_page(root, "r", str(table))
    error = {"error": "TableCorruptError", "message": "torn", "culprit": None, "hint": None, "transient": False}
    (Path(root) / "r" / "stage_input.error.json").write_text(json.dumps(error))
    assert run_outcome(root, "r") == "TableCorruptError: torn"
    assert "stage_input failed: TableCorruptError" in run_page(root, "r", str(table))
    os.utime(Path(root) / "r" / "run.json", (Path(root, "r", "summary.json").stat().st_mtime,) * 2)
    assert run_outcome(root, "r").startswith("committed "), "a store may tell times by the second"
