"""Metrics of runs in Prometheus's text format."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.errors import OptionError, QuarantineExceededError, TableNotFoundError, UsageError
from lakeindex.model import Operation
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.telemetry import observer as observing
from lakeindex.telemetry.metrics import MetricsFile, file_name
from lakeindex.telemetry.outcome import RunEnding, RunOutcome, ended_well
from tests.cli_support import lakeindex as command
from tests.unit.cli.tables import batch, new_table, row, upserted

HOSTILE = 'a"b\\c\nd{e="f"} 1'


def rows(first: int, count: int, ts: int, *, keyed: bool = True) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(
                [f"k{number:05d}" if keyed else None for number in range(first, first + count)], pa.string()
            ),
            "region": ["eu"] * count,
            "ts": pa.array([ts] * count, pa.int64()),
            "val": [f"v{ts}"] * count,
        }
    )


class Samples:
    """A file's samples, as Prometheus's own parser reads them."""

    def __init__(self, path: Path) -> None:
        self._found = [one for f in text_string_to_metric_families(path.read_text()) for one in f.samples]

    def of(self, name: str, **labels: str) -> float | None:
        """The one sample of a name with (at least) these labels; None if there is none."""
        fitting = [s for s in self._found if s.name == f"lakeindex_{name}" and labels.items() <= s.labels.items()]
        assert len(fitting) <= 1, fitting
        return fitting[0].value if fitting else None

    def tables(self) -> set[str]:
        return {one.labels["table"] for one in self._found}


def options(place: Path) -> dict[str, str]:
    return {"lakeindex.metrics.textfile": str(place)}


def test_counters_go_on_and_gauges_are_of_the_last_run(tmp_path: Path):
    table = lakeindex.open_table(str(new_table(tmp_path)))
    file = tmp_path / "metrics" / "t.prom"
    first = table.upsert(rows(0, 500, 1), options=options(file))
    second = table.upsert(pa.concat_tables([rows(400, 200, 2), rows(400, 10, 1)]), options=options(file))
    assert first.notes == second.notes == ()
    found = Samples(file)
    assert found.of("runs_total", outcome="committed", operation="upsert") == 2
    assert found.of("records_in_total") == 710
    assert found.of("records_total", fate="inserts") == 600
    assert found.of("last_run_records", fate="inserts") == 100
    assert found.of("last_run_records", fate="updates") == 100
    assert found.of("records_total", fate="combined") == found.of("last_run_records", fate="combined") == 10
    assert found.of("candidate_pairs_total", step="possible") == found.of("last_run_candidate_pairs", step="possible")
    assert found.of("last_run_candidate_pairs", step="possible") == 200
    assert found.of("last_run_candidate_pairs", step="after_ranges") == 100
    assert found.of("last_run_candidate_pairs", step="after_filters") == 100
    assert found.of("files_total", action="created") == 1
    assert found.of("files_total", action="rewritten") == 1
    assert found.of("file_bytes_written_total") == first.bytes_written + second.bytes_written
    for stage in second.stages:
        before = next(one for one in first.stages if one.name == stage.name)
        assert found.of("stage_requests_total", stage=stage.name) == before.requests + stage.requests > 0
        assert found.of("stage_read_bytes_total", stage=stage.name) == before.bytes_read + stage.bytes_read
        assert found.of("stage_written_bytes_total", stage=stage.name) == before.bytes_written + stage.bytes_written
        assert found.of("last_run_stage_seconds", stage=stage.name) == stage.seconds > 0
    assert found.of("last_run_outcome", outcome="committed") == 1
    assert found.of("last_run_outcome", outcome="failed") == found.of("last_run_outcome", outcome="noop") == 0
    assert found.of("last_run_exit_code") == 0
    assert found.of("last_success_timestamp_seconds") == found.of("last_run_timestamp_seconds")


def test_a_failed_run_is_written_and_the_last_success_stays(tmp_path: Path):
    table = lakeindex.open_table(str(new_table(tmp_path)))
    file = tmp_path / "t.prom"
    table.upsert(rows(0, 50, 1), options=options(file))
    before = Samples(file)
    with pytest.raises(QuarantineExceededError):
        table.upsert(rows(50, 5, 1, keyed=False), options=options(file))
    found = Samples(file)
    assert found.of("runs_total", outcome="failed") == found.of("runs_total", outcome="committed") == 1
    assert found.of("last_run_outcome", outcome="failed") == 1
    assert found.of("last_run_outcome", outcome="committed") == 0
    assert found.of("last_run_exit_code") == 3
    assert found.of("last_run_records", fate="inserts") is None
    assert found.of("records_in_total") == 50
    assert found.of("last_success_timestamp_seconds") == before.of("last_success_timestamp_seconds")
    assert (found.of("last_run_timestamp_seconds") or 0) > (before.of("last_run_timestamp_seconds") or 0)


def test_a_table_that_is_not_there_is_a_failed_run(tmp_path: Path):
    file = tmp_path / "t.prom"
    with pytest.raises(TableNotFoundError):
        LakeTable(str(tmp_path / "nowhere")).upsert(rows(0, 5, 1), options=options(file))
    found = Samples(file)
    assert found.of("runs_total", outcome="failed") == 1
    assert found.of("last_run_exit_code") == 4
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == []


def test_a_batch_that_was_committed_before_is_not_counted_twice(tmp_path: Path):
    table = lakeindex.open_table(str(new_table(tmp_path)))
    file = tmp_path / "t.prom"
    for _ in range(2):
        table.upsert(rows(0, 50, 1), batch_id="day-1", options=options(file))
    found = Samples(file)
    assert found.of("runs_total", outcome="noop") == found.of("runs_total", outcome="committed") == 1
    assert found.of("records_in_total") == 50
    assert found.of("last_run_outcome", outcome="noop") == 1
    assert found.of("last_run_stage_seconds", stage="stage_input") is None, "those stages were the other run's"


def test_tables_share_a_folder_or_a_file(tmp_path: Path):
    names = ["one", "two"]
    for name in names:
        (tmp_path / name).mkdir()
        table = lakeindex.open_table(str(new_table(tmp_path / name)))
        table.upsert(rows(0, 5, 1), options=options(tmp_path / "folder"))
        table.upsert(rows(0, 7, 2), options=options(tmp_path / "both.prom"))
    uris = {str(tmp_path / name / "t") for name in names}
    files = sorted((tmp_path / "folder").glob("*.prom"))
    assert {file.name for file in files} == {file_name(uri) for uri in uris}
    assert len(files) == 2  # though both tables are called t
    both = Samples(tmp_path / "both.prom")
    assert both.tables() == uris
    assert all(both.of("records_in_total", table=uri) == 7 for uri in uris)


def test_command_line_and_an_empty_batch(tmp_path: Path):
    table = new_table(tmp_path)
    option = f"lakeindex.metrics.textfile={tmp_path / 'x.prom'}"
    empty = command("upsert", table, batch(tmp_path / "empty.parquet", []), "-o", option, "--json")
    assert empty.exit_code == 0
    found = Samples(tmp_path / "x.prom")
    assert found.of("last_run_outcome", outcome="noop") == 1
    assert (found.of("last_run_records", fate="inserts"), found.of("records_in_total")) == (0, 0)
    upserted(command("upsert", table, batch(tmp_path / "b.parquet", [row(1)]), "-o", option, "--json"))
    assert Samples(tmp_path / "x.prom").of("last_run_outcome", outcome="committed") == 1


def test_a_file_that_cannot_be_written_is_a_note_and_no_failure(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    table = lakeindex.open_table(str(new_table(tmp_path)))
    (tmp_path / "file").write_text("in the way")
    run = table.upsert(rows(0, 5, 1), options=options(tmp_path / "file" / "t.prom"))
    assert run.instant is not None
    (note,) = run.notes
    assert note.startswith("the run's metrics could not be written: ")
    with caplog.at_level(logging.WARNING, "lakeindex"), pytest.raises(QuarantineExceededError):
        table.upsert(rows(50, 5, 1, keyed=False), options=options(tmp_path / "file" / "t.prom"))
    assert "the run's metrics could not be written" in caplog.text


def test_a_damaged_file_starts_anew(tmp_path: Path):
    table = lakeindex.open_table(str(new_table(tmp_path)))
    file = tmp_path / "t.prom"
    file.write_bytes(b"lakeindex_runs_total{table= \xff\x00 1\n")
    assert table.upsert(rows(0, 5, 1), options=options(file)).notes == ()
    assert Samples(file).of("runs_total") == 1


def test_the_place_must_be_local_and_the_library_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = lakeindex.open_table(str(new_table(tmp_path)))
    with pytest.raises(OptionError, match=r"lakeindex\.metrics\.textfile cannot be 's3://b/x\.prom'"):
        table.upsert(rows(0, 5, 1), options={"lakeindex.metrics.textfile": "s3://b/x.prom"})
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match="needs the package prometheus-client") as caught:
        table.upsert(rows(0, 5, 1), options=options(tmp_path / "t.prom"))
    assert "lakeindex[metrics]" in (caught.value.hint or "")
    assert table.history() == ()


def spec(table: str) -> RunSpec:
    return RunSpec(table, "/checkpoints", "r", "r", Operation.UPSERT, ())


def test_stages_of_a_failed_run_are_told_and_those_of_another_run_are_not(tmp_path: Path):
    file = MetricsFile(tmp_path / "t.prom")
    stage = StageSummary("index_lookup", 1.5, 1, 1, 0, 0, 10, 1, peak_bytes=7)
    committed = RunSummary("20260101000000000", "b", "r", "UPSERT", noop=False, stages=(stage,))
    for ending, seconds, runs in (
        (RunEnding(RunOutcome.FAILED, 1.0, 6, None, (stage,), ValueError()), 1.5, None),
        (ended_well(committed, 2.0), 1.5, 1.5),
        (ended_well(replace(committed, noop=True), 3.0), None, 1.5),
        (ended_well(replace(committed, noop=True, instant=None), 4.0), 1.5, 3.0),
    ):
        file.update(spec("t"), ending)
        found = Samples(file.path)
        assert found.of("last_run_stage_seconds", stage="index_lookup") == seconds, ending
        assert found.of("last_run_stage_peak_bytes", stage="index_lookup") == (seconds and 7), ending
        assert found.of("stage_seconds_total", stage="index_lookup") == runs, ending


def test_names_of_tables_are_data(tmp_path: Path):
    file = MetricsFile(tmp_path / "t.prom")
    for _ in range(2):
        file.update(spec(HOSTILE), RunEnding(RunOutcome.NOOP, 1.0))
    assert Samples(file.path).tables() == {HOSTILE}
    assert Samples(file.path).of("runs_total") == 2
    assert "/" not in file_name("/x/" + HOSTILE)


def test_writers_at_the_same_time_lose_no_count(tmp_path: Path):
    file = MetricsFile(tmp_path / "t.prom")
    tables = ["a", "b"]

    def work(table: str) -> None:
        for _ in range(10):
            file.update(spec(table), RunEnding(RunOutcome.COMMITTED, 1.0))

    threads = [threading.Thread(target=work, args=(table,)) for table in tables for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(Samples(file.path).of("runs_total", table=table) == 20 for table in tables)
    assert [p.name for p in tmp_path.glob("*.prom")] == ["t.prom"]


def test_an_interrupt_is_a_failure(tmp_path: Path):
    told = RunSpec("/t", "/c", "r", "r", Operation.UPSERT, (), (("lakeindex.metrics.textfile", str(tmp_path)),))
    with pytest.raises(KeyboardInterrupt), observing.RunObserver(told):
        raise KeyboardInterrupt
    assert Samples(tmp_path / file_name("/t")).of("last_run_exit_code") == 130
