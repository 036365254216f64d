"""What OpenLineage is told by Airflow's provider of it: a whole run, its events in a file, the job without a JVM."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.airflow.dag_plan import DagPlan
from lakeindex.pipeline import Stage, run_id_of
from tests.builders import make_table

pytestmark = [pytest.mark.slow, pytest.mark.dag, pytest.mark.usefixtures("airflow_db")]

ROOT = Path(__file__).resolve().parents[2]
DAG = """
from datetime import datetime, timezone
from airflow.sdk import DAG
from lakeindex.airflow import LakeIndexUpsertOperator

with DAG("traced", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)):
    LakeIndexUpsertOperator(
        task_id="up", table="{folder}/t", inputs="{folder}/in.parquet", checkpoints="{folder}/runs", batch_id="b"
    )
"""
#: A small batch needs no executors, so its job runs without Spark: from the application on it is a Python program.
SUBMIT = """#!/bin/sh
for word; do case "$word" in *.py) exec {python} "$@" ;; *) shift ;; esac; done
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory, airflow_db: None) -> tuple[Path, list[dict[str, Any]]]:
    """A run of the operator: its folder, and the events that the provider emitted."""
    folder = tmp_path_factory.mktemp("traced")
    for name in ("dags", "bin"):
        (folder / name).mkdir()
    (folder / "dags/traced.py").write_text(DAG.format(folder=folder))
    (folder / "bin/spark-submit").write_text(SUBMIT.format(python=sys.executable))
    (folder / "bin/spark-submit").chmod(0o755)
    rows = pa.table({"id": ["a", "b", "c"], "ts": [1, 1, 1]})
    make_table(str(folder / "t"), schema=rows.schema, keys=("id",), partitions=(), ordering="ts")
    pq.write_table(rows, folder / "in.parquet")
    log = folder / "events.jsonl"
    env = {
        **os.environ,
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps({"type": "file", "log_file_path": str(log), "append": True}),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "lake",
        "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}",
    }
    command = [str(Path(sys.executable).with_name("airflow")), "dags", "test", "traced"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert pq.read_table(folder / "t", columns=["id"]).num_rows == 3
    return folder, [json.loads(line) for line in log.read_text().splitlines()]


def test_the_task_that_upserts_names_input_and_table(traced: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, events = traced
    started, done = (one for one in events if one["job"]["name"] == "traced.up")
    assert (started["eventType"], done["eventType"], done["job"]["namespace"]) == ("START", "COMPLETE", "lake")
    (source,), (target,) = done["inputs"], done["outputs"]
    assert (source["namespace"], source["name"]) == ("file", f"{folder}/in.parquet")
    assert source["inputFacets"]["inputStatistics"]["rowCount"] == 3
    assert (target["namespace"], target["name"]) == ("file", f"{folder}/t")
    assert [(one["name"], one["type"]) for one in target["facets"]["schema"]["fields"]] == [
        ("id", "string"),
        ("ts", "int64"),
    ]
    assert target["outputFacets"]["outputStatistics"]["rowCount"] == 3
    (commit,) = (folder / "t/.hoodie").glob("*.commit")
    assert target["facets"]["version"]["datasetVersion"] == commit.stem


@pytest.mark.parametrize("stage", list(Stage))
def test_of_five_jobs_the_last_does(traced: tuple[Path, list[dict[str, Any]]], stage: Stage) -> None:
    from airflow.providers.openlineage.extractors.manager import ExtractorManager
    from airflow.utils.state import TaskInstanceState

    from lakeindex.airflow.operator import StageOperator

    folder, _ = traced
    plan = DagPlan(
        "t", f"{folder}/t", f"{folder}/runs", run_id_of("b"), "b", (f"{folder}/in.parquet",), execution="single"
    )
    task = StageOperator(stage=stage, application="x.py")
    ti = SimpleNamespace(xcom_pull=lambda *_, **__: plan.to_xcom(), xcom_push=lambda *_, **__: None)
    if stage is not Stage.STAGE_INPUT:  # which would submit the job
        task.execute({"ti": ti})
    found = ExtractorManager().extract_metadata(
        dagrun=SimpleNamespace(run_id="r"), task=task, task_instance_state=TaskInstanceState.SUCCESS, task_instance=ti
    )
    assert [one.name for one in found.outputs] == ([f"{folder}/t"] if stage is Stage.MERGE_WRITE else [])
    assert len(found.inputs) == len(found.outputs)
