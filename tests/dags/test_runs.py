"""Whole DAG runs in this process; only spark-submit itself is replaced, by a stub that leaves a job's files behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.airflow.dag_plan import DagPlan
from lakeindex.api.creating import create_table
from lakeindex.errors import (
    AccessDeniedError,
    FencedError,
    InvariantError,
    LakeIndexError,
    OptionError,
    QuarantineExceededError,
    StorageError,
    TableCorruptError,
)
from lakeindex.pipeline import Stage
from tests.dags.jobs import FATES, Jobs, asset_events, states
from tests.unit.runners.test_job_arguments import CSV_OPTIONS, CSV_ROWS, CSV_STORED

pytestmark = [pytest.mark.dag, pytest.mark.usefixtures("airflow_db")]


@dataclass
class Lake:
    """A folder with one table, with and without a schedule, and the DAGs made for it."""

    folder: Path
    manual: Any
    daily: Any


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    from airflow.dag_processing.dagbag import DagBag

    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "trips.yaml").write_text(
        f"uri: {tmp_path}/trips\nschedule: '@daily'\nstart_date: 2013-12-01\n"
        f"input: {tmp_path}/in/{{{{ data_interval_start | ds }}}}.csv\n"
    )
    monkeypatch.setenv("LAKEINDEX_TABLES", str(conf))
    (tmp_path / "in").mkdir()
    (tmp_path / "trips").mkdir()
    bag = DagBag(dag_folder=str(Path(__file__).resolve().parents[2] / "dags/upsert_table.py"))
    return Lake(tmp_path, bag.dags["upsert_table"], bag.dags["upsert_trips"])


def test_a_scheduled_run_takes_its_intervals_input_and_says_what_it_did(
    lake: Lake, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    (lake.folder / "in/2013-12-01.csv").write_text("x")
    run = lake.daily.test(logical_date=datetime(2013, 12, 2, tzinfo=UTC))
    assert set(states(run).values()) == {"success"}
    assert [stage for stage, _ in jobs.submitted] == [str(s) for s in Stage]
    words = jobs.submitted[0][1]
    assert words[words.index("--input") + 1] == f"{lake.folder}/in/2013-12-01.csv"
    assert words[words.index("--batch-id") + 1] == f"upsert_trips/{run.run_id}/-1"
    assert all(other == words for _, other in jobs.submitted)
    assert "90.00 %" in capsys.readouterr().out
    events = asset_events("trips")
    assert events[-1]["instant"] == "20131202000000000"
    assert {name: events[-1][name] for name in FATES} == FATES


def test_a_single_run_submits_one_job_and_shows_every_stage(lake: Lake, jobs: Jobs) -> None:
    (lake.folder / "in/a.csv").write_text("x")
    conf = {"table": "trips", "input": f"{lake.folder}/in/a.csv", "execution": "single"}
    run = lake.manual.test(run_conf=conf)
    assert set(states(run).values()) == {"success"}
    assert [job for job, _ in jobs.submitted] == ["upsert"]
    (lookup,) = (ti for ti in run.get_task_instances() if ti.task_id == "index_lookup")
    assert lookup.xcom_pull(task_ids="index_lookup")["pairs_in"] == 90
    assert asset_events("trips")[-1]["inserts"] == 4


def test_spark_settings_of_one_of_several_tables_reach_spark_submit(
    lake: Lake, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    commands: list[list[str]] = []

    def submit(self: Any, application: str = "", **_: Any) -> None:
        commands.append(self._build_spark_submit_command(application))
        jobs.run(application, self._application_args)

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    (lake.folder / "in/a.csv").write_text("x")
    (lake.folder / "conf/cabs.yaml").write_text(
        f"uri: {lake.folder}/cabs\nspark: {{driver_memory: 700m, conf: {{spark.executor.memory: 3g}}}}\n"
    )
    dag = DagBag(dag_folder=str(Path(__file__).resolve().parents[2] / "dags/upsert_table.py")).dags["upsert_table"]
    cases = (("cabs", "staged", "700m", 1), ("trips", "single", "1g", 0))
    for table, execution, memory, executors in cases:
        commands.clear()
        run = dag.test(run_conf={"table": table, "input": f"{lake.folder}/in/a.csv", "execution": execution})
        assert set(states(run).values()) == {"success"}
        assert len(commands) == (len(Stage) if execution == "staged" else 1)
        for command in commands:
            assert command[command.index("--driver-memory") + 1] == memory
            assert command.count("spark.executor.memory=3g") == executors
            assert "spark.ui.enabled=false" in command


def test_the_history_tab_knows_the_tables_of_a_dag_by_what_its_runs_left(
    lake: Lake, jobs: Jobs, api: Callable[..., Any]
) -> None:
    (lake.folder / "in/a.csv").write_text("x")
    lake.manual.test(run_conf={"table": "trips", "input": f"{lake.folder}/in/a.csv", "execution": "single"})
    listed = api(f"/lakeindex/history/{lake.manual.dag_id}?table={quote(f'{lake.folder}/trips')}", "viewer")
    assert f"no Hudi table at file://{lake.folder}/trips" in listed.text  # the stub of a job makes none


def test_a_local_run_upserts_in_a_process_of_the_worker(lake: Lake, jobs: Jobs) -> None:
    """The job itself: no stub, no spark-submit. A retry after it is no second commit; a wrong input fails at once."""
    rows = pa.table({"id": ["a", "b"], "n": [1, 2]})
    table = create_table(lake.folder / "trips", rows.schema, key="id")
    pq.write_table(rows, lake.folder / "in/a.parquet")
    conf = {"table": "trips", "input": f"{lake.folder}/in/a.parquet", "execution": "local"}
    run = lake.manual.test(run_conf=conf)
    assert set(states(run).values()) == {"success"}
    assert jobs.submitted == []
    assert sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == rows.to_pylist()
    (event,) = (one for one in asset_events("trips") if one["batch_id"] == f"upsert_table/{run.run_id}/-1")
    assert event["inserts"] == 2
    (lookup,) = (ti for ti in run.get_task_instances() if ti.task_id == "index_lookup")
    assert lookup.xcom_pull(task_ids="index_lookup")["rows_in"] == 2
    pq.write_table(pa.table({"id": pa.array([None], pa.string()), "n": [1]}), lake.folder / "in/bad.parquet")
    run = lake.manual.test(run_conf={**conf, "input": f"{lake.folder}/in/bad.parquet"})
    assert states(run)["stage_input"] == "failed"
    assert table.scan().count() == 2


def test_a_local_run_is_done_where_the_worker_is(lake: Lake, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a spark-submit is: relative places of a run are the same by both."""
    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

    monkeypatch.chdir(lake.folder)
    rows = pa.table({"id": ["a", "b"], "n": [1, 2]})
    table = create_table(lake.folder / "trips", rows.schema, key="id")
    pq.write_table(rows, lake.folder / "in/a.parquet")
    options = {"lakeindex.metrics.textfile": "m.prom"}
    given = {"table": table.uri, "inputs": "in/*.parquet", "execution": "local", "options": options, "batch_id": "b"}
    task = LakeIndexUpsertOperator(task_id="t", **given)
    ti = type("TI", (), {"xcom_push": lambda *_, **__: None})()
    events = type("Events", (), {"__getitem__": lambda *_: SimpleNamespace(add=lambda *_, **__: None)})()
    done = task.execute({"ti": ti, "task": task, "outlet_events": events})
    assert done["inserts"] == table.count() == 2
    assert (lake.folder / "m.prom").is_file()


@pytest.mark.slow
def test_the_conf_of_a_run_says_how_a_csv_file_is_written(lake: Lake, jobs: Jobs) -> None:
    table = create_table(lake.folder / "trips", "id STRING, v STRING, n INT", key="id")
    (lake.folder / "in/b.csv").write_text(CSV_ROWS)
    conf = {"table": "trips", "input": f"{lake.folder}/in/b.csv", "execution": "local", "options": CSV_OPTIONS}
    run = lake.manual.test(run_conf=conf)
    assert set(states(run).values()) == {"success"}
    assert sorted(table.read(meta=False).to_pylist(), key=lambda row: row["id"]) == CSV_STORED
    lake.manual.test(run_conf={**conf, "execution": "single"})
    (_, words) = jobs.submitted[-1]
    assert {f"{name}={text}" for name, text in CSV_OPTIONS.items()} <= set(words)


@pytest.mark.few(0)
def test_a_single_run_of_an_index_without_filters_skips_their_stage(lake: Lake, jobs: Jobs) -> None:
    jobs.index_type = "SIMPLE"
    (lake.folder / "in/a.csv").write_text("x")
    run = lake.manual.test(run_conf={"table": "trips", "input": f"{lake.folder}/in/a.csv", "execution": "single"})
    found = states(run)
    assert found.pop("bloom_check") == "skipped"
    assert set(found.values()) == {"success"}


@pytest.mark.few(0)
def test_a_single_run_of_an_empty_batch_ends_well(lake: Lake, jobs: Jobs) -> None:
    jobs.stages, jobs.instant = (Stage.STAGE_INPUT, Stage.MERGE_WRITE), None
    (lake.folder / "in/a.csv").write_text("x")
    run = lake.manual.test(run_conf={"table": "trips", "input": f"{lake.folder}/in/a.csv", "execution": "single"})
    assert set(states(run).values()) == {"success"}


def test_a_single_run_that_fails_says_why(lake: Lake, jobs: Jobs, capfd: pytest.CaptureFixture[str]) -> None:
    jobs.errors["upsert"] = [TableCorruptError("torn")]
    (lake.folder / "in/a.csv").write_text("x")
    run = lake.manual.test(run_conf={"table": "trips", "input": f"{lake.folder}/in/a.csv", "execution": "single"})
    assert states(run)["stage_input"] == "failed"
    assert states(run)["merge_write"] == "upstream_failed"
    assert len(jobs.submitted) == 1


def test_the_report_of_a_failed_run_says_why(lake: Lake, jobs: Jobs, api: Callable[..., Any]) -> None:
    jobs.errors["index_lookup"] = [TableCorruptError("<torn>")]
    (lake.folder / "in/a.csv").write_text("x")
    run = lake.manual.test(run_conf={"table": "trips", "input": f"{lake.folder}/in/a.csv"})
    assert states(run)["index_lookup"] == "failed"
    page = api(f"/lakeindex/report/{run.dag_id}/{quote(run.run_id)}", "viewer")
    assert page.status_code == 200
    assert "index_lookup failed: TableCorruptError" in page.text
    assert "&lt;torn&gt;" in page.text


def test_a_scheduled_run_without_data_is_skipped_from_end_to_end(lake: Lake, jobs: Jobs) -> None:
    run = lake.daily.test(logical_date=datetime(2013, 12, 3, tzinfo=UTC))
    assert set(states(run).values()) == {"skipped"}
    assert str(run.state) == "success"
    assert jobs.submitted == []


@pytest.mark.few(0)
def test_a_run_by_hand_needs_no_logical_date(lake: Lake, jobs: Jobs) -> None:
    (lake.folder / "in/a.csv").write_text("x")
    conf = {"table": "trips", "input": f"{lake.folder}/in/*.csv", "force": True}
    run = lake.manual.test(logical_date=None, run_conf=conf)
    assert set(states(run).values()) == {"success"}
    assert "--force" in jobs.submitted[0][1]


@pytest.mark.parametrize("given", ["{folder}/in/nothing.csv", None])
def test_a_run_by_hand_without_input_fails_at_once(lake: Lake, jobs: Jobs, given: str | None) -> None:
    conf = {"table": "trips", "input": given.format(folder=lake.folder) if given else None}
    run = lake.manual.test(logical_date=None, run_conf=conf)
    assert states(run)["check_input"] == "failed"
    assert states(run)["summary"] == "upstream_failed"
    assert jobs.submitted == []


def test_a_stage_the_index_does_without_is_skipped_and_the_rest_runs(lake: Lake, jobs: Jobs) -> None:
    jobs.index_type = "RECORD_INDEX"
    (lake.folder / "in/2013-12-03.csv").write_text("x")
    run = lake.daily.test(logical_date=datetime(2013, 12, 4, tzinfo=UTC))
    found = states(run)
    assert found.pop("bloom_check") == "skipped"
    assert set(found.values()) == {"success"}
    assert [stage for stage, _ in jobs.submitted] == ["stage_input", "index_lookup", "verify_keys", "merge_write"]


@pytest.mark.few(0)
def test_a_run_that_commits_nothing_emits_no_event(lake: Lake, jobs: Jobs) -> None:
    before = len(asset_events("trips"))
    jobs.instant = None
    (lake.folder / "in/2013-12-04.csv").write_text("x")
    run = lake.daily.test(logical_date=datetime(2013, 12, 5, tzinfo=UTC))
    assert set(states(run).values()) == {"success"}
    assert len(asset_events("trips")) == before


@pytest.fixture
def stage_task(lake: Lake) -> Callable[[str], Any]:
    """Runs one stage's operator on a plan."""

    def execute(stage: str) -> Any:
        plan = {
            "table": "trips",
            "uri": f"{lake.folder}/trips",
            "checkpoints": f"{lake.folder}/runs",
            "run_id": "r",
            "batch_id": "b",
            "inputs": ["x"],
            "options": [],
        }
        ti = type("TI", (), {"xcom_pull": lambda *_, **__: plan, "xcom_push": lambda *_, **__: None})()
        return lake.daily.task_dict[stage].execute({"ti": ti})

    return execute


@pytest.mark.parametrize(
    "kind", [OptionError, QuarantineExceededError, TableCorruptError, InvariantError, AccessDeniedError]
)
def test_wrong_data_is_not_tried_again(
    stage_task: Callable[[str], Any], jobs: Jobs, kind: type[LakeIndexError]
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    jobs.errors["stage_input"] = [kind("7 bad rows", culprit="q.parquet")]
    with pytest.raises(AirflowFailException, match=rf"{kind.__name__}: 7 bad rows \[q.parquet\]"):
        stage_task("stage_input")


@pytest.mark.parametrize("kind", [StorageError, FencedError])
def test_what_may_pass_is_tried_again(stage_task: Callable[[str], Any], jobs: Jobs, kind: type[LakeIndexError]) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    jobs.errors["merge_write"] = [kind("not now")]
    with pytest.raises(AirflowException) as raised:
        stage_task("merge_write")
    assert not isinstance(raised.value, AirflowFailException)
    assert stage_task("merge_write")["instant"] == "20131202000000000"


def test_an_older_attempts_error_is_not_taken_for_this_ones(
    stage_task: Callable[[str], Any], jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    jobs.errors["stage_input"] = [QuarantineExceededError("7 bad rows")]
    with pytest.raises(AirflowFailException):
        stage_task("stage_input")

    def dies_before_python(*_: Any) -> None:
        raise AirflowException("java: not found")

    monkeypatch.setattr(Jobs, "run", dies_before_python)
    with pytest.raises(AirflowException, match="java: not found") as raised:
        stage_task("stage_input")
    assert not isinstance(raised.value, AirflowFailException)


def test_a_job_that_leaves_nothing_is_a_failure(
    stage_task: Callable[[str], Any], jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.sdk.exceptions import AirflowException

    monkeypatch.setattr(Jobs, "run", lambda *_: None)
    with pytest.raises(AirflowException, match=r"left no bloom_check\.json"):
        stage_task("bloom_check")


@pytest.mark.parametrize("execution", ["staged", "single"])
def test_what_goes_wrong_beside_a_job_is_told_in_the_tab(
    lake: Lake, jobs: Jobs, monkeypatch: pytest.MonkeyPatch, execution: str
) -> None:
    """The job has ended well, or there is none: the worker does not see the run's folder, or may not."""
    from airflow.sdk.exceptions import AirflowException

    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

    monkeypatch.setattr(Jobs, "run", lambda *_: None)
    runs, pushed = lake.folder / "runs", list[dict[str, Any]]()
    plan = DagPlan("trips", f"{lake.folder}/trips", str(runs), "r", "b", ("x",), execution=execution).to_xcom()
    given = {"xcom_pull": lambda *_, **__: plan, "xcom_push": lambda _, key, value: pushed.append({key: value})}
    context = {"ti": type("TI", (), given)()}
    own = LakeIndexUpsertOperator(task_id="t", table=plan["uri"], inputs="x", checkpoints=str(runs), batch_id="b")
    for task in (lake.daily.task_dict["merge_write"], own):
        with pytest.raises(AirflowException, match=r"left no summary\.json"):
            task.execute(context)
        assert "left no summary.json" in pushed.pop()["lakeindex_error"]["message"]
    runs.symlink_to(runs)
    with pytest.raises(StorageError, match="symbolic links"):
        lake.daily.task_dict["merge_write"].execute(context)
    assert pushed.pop()["lakeindex_error"]["error"] == "StorageError"


def test_an_index_of_a_later_release_skips_no_stage(stage_task: Callable[[str], Any], jobs: Jobs) -> None:
    """What the job says of it is told, and nothing else."""
    jobs.index_type = "OF_A_LATER_RELEASE"
    for stage in ("stage_input", "index_lookup", "bloom_check"):
        assert stage_task(stage)["pairs_in"] == 90
