"""What Airflow sees when it reads the DAG files: order, rules, form, and how little is loaded."""

from __future__ import annotations

import copy
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakeindex.pipeline import Stage
from tests.dags.conftest import ROOT

pytestmark = pytest.mark.dag

HEAVY = (
    "adbc_driver_manager",
    "duckdb",
    "fastavro",
    "mmh3",
    "numpy",
    "obstore",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
)
FILES = sorted(map(str, (ROOT / "dags").glob("*.py")))
ALL = ["check_input", *(str(s) for s in Stage), "summary"]


def test_dags_are_the_manual_one_and_one_a_schedule(dags: dict[str, Any]) -> None:
    assert set(dags) == {"upsert_table", "upsert_flights", "upsert_tables", "maintain_tables", "example_consumer"}
    for dag in dags.values():
        assert dag.doc_md
        assert dag.max_active_runs == 1 or dag.dag_id == "example_consumer"


@pytest.mark.parametrize("dag_id", ["upsert_table", "upsert_flights"])
def test_tasks_stand_in_the_order_of_the_pipeline(dags: dict[str, Any], dag_id: str) -> None:
    tasks = dags[dag_id].task_dict
    assert list(tasks) == ALL
    for before, after in itertools.pairwise(ALL):
        assert before in tasks[after].upstream_task_ids


def test_a_task_after_an_optional_stage_runs_past_a_skip_but_not_past_a_failure(dags: dict[str, Any]) -> None:
    verify = dags["upsert_table"].task_dict["verify_keys"]
    assert verify.trigger_rule == "none_failed_min_one_success"
    assert verify.upstream_task_ids == {"index_lookup", "bloom_check"}


def test_stages_are_retried_with_growing_delays(dags: dict[str, Any]) -> None:
    for stage in Stage:
        task = dags["upsert_table"].task_dict[str(stage)]
        assert task.retries == 2
        assert task.retry_exponential_backoff


def test_schedule_gives_data_intervals(dags: dict[str, Any]) -> None:
    assert type(dags["upsert_flights"].timetable).__name__ == "CronDataIntervalTimetable"
    assert type(dags["upsert_table"].timetable).__name__ == "NullTimetable"


def test_form_offers_table_names_and_shows_everyday_params_open(dags: dict[str, Any]) -> None:
    params = dags["upsert_table"].params
    form = {name: params.get_param(name).schema for name in params}
    assert form["table"]["enum"] == ["flights"]
    assert form["table"]["values_display"] == {"flights": "Flights from New York, 2013"}
    assert "BLOOM" in form["index_type"]["enum"]
    assert {name for name, schema in form.items() if "section" not in schema} == {
        "table",
        "input",
        "index_type",
        "max_quarantined",
    }


@pytest.mark.parametrize(("name", "value"), [("table", "../x"), ("max_quarantined", -1), ("index_type", "MAGIC")])
def test_form_refuses_values_that_are_not_valid(dags: dict[str, Any], name: str, value: object) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = copy.deepcopy(dags["upsert_table"].params)
    with pytest.raises(ParamValidationError, match=name):
        params[name] = value


@pytest.mark.parametrize("stage", list(Stage))
def test_spark_submit_command_names_job_and_master(dags: dict[str, Any], stage: Stage) -> None:
    task = dags["upsert_flights"].task_dict[str(stage)]
    command = task._get_hook()._build_spark_submit_command(task.application)
    # a connection that Airflow cannot parse silently becomes `--master yarn`
    assert command[:3] == ["spark-submit", "--master", "local[2]"]
    assert str(ROOT / "jobs" / f"{stage}.py") in command


@pytest.mark.few(0)
def test_parsing_loads_no_data_library_and_the_package_not_even_airflow() -> None:
    code = (
        "import json, runpy, sys, lakeindex.airflow; print('AIRFLOW', 'airflow' in sys.modules);"
        f"from lakeindex.airflow import LakeIndexUpsertOperator; [runpy.run_path(f) for f in {FILES!r}];"
        f"print('LOADED', json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=120
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("LOADED"))
    assert json.loads(line.removeprefix("LOADED ")) == []
    assert "AIRFLOW False" in done.stdout


def test_a_table_file_that_is_wrong_is_an_import_error_that_names_it(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.dag_processing.dagbag import DagBag

    (tmp_path / "orders.yaml").write_text("uri: /lake/orders\nschedule: '@daily'\nstart_date: 2026-01-01\ninput: x\n")
    (tmp_path / "taxis.yaml").write_text("uri: [1]\n")
    (tmp_path / "trips.yaml").write_text("uri: /lake/trips\nkeys: [id]\n")
    monkeypatch.setenv("LAKEINDEX_TABLES", str(tmp_path))
    bag = DagBag(dag_folder=str(ROOT / "dags"))
    ((file, said),) = bag.import_errors.items()
    assert Path(file).name == "table_files.py"
    assert f"{tmp_path}/trips.yaml:2: keys is unknown" in said
    assert f"{tmp_path}/taxis.yaml:1: uri" in said
    assert {"upsert_table", "upsert_orders", "example_consumer"} < set(bag.dags)
    assert bag.dags["upsert_table"].params.get_param("table").schema["enum"] == ["orders"]
