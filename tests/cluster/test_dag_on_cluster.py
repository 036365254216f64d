"""The DAG through Airflow's scheduler and its REST API, on PostgreSQL, Spark's standalone cluster and S3.

Every count is held against a plain dictionary, every row is read back by hudi-rs and DuckDB (:mod:`demo.readback`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import requests

from demo.airflow_api import DONE
from demo.cluster import DAG, ClusterDemo
from demo.commands import lakeindex
from lakeindex.pipeline import Stage
from lakeindex.storage import open_storage
from scripts.cluster import Cluster
from scripts.cluster_services import WORKER

pytestmark = pytest.mark.cluster

TASKS = {"check_input", *map(str, Stage), "summary"}
PATIENCE_SECONDS = 600


def until(flights: ClusterDemo, run_id: str, what: str, found: Callable[[], Any]) -> Any:
    """The first true answer while the run goes on."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        answer = found()
        if answer:
            return answer
        if flights.airflow.state(DAG, run_id) in DONE:
            break
        time.sleep(0.2)
    pytest.fail(f"{what}: not before {run_id} ended, nor in {PATIENCE_SECONDS} s: {flights.airflow.tries(DAG, run_id)}")


def master(cluster: Cluster) -> dict[str, Any]:
    """What the Spark master says of its workers and applications."""
    told: dict[str, Any] = requests.get(f"{cluster.layout.url('spark-ui')}/json/", timeout=10).json()
    return told


def has_executor(cluster: Cluster, stage: Stage) -> bool:
    """Whether the stage's application is running on the worker."""
    wanted = f"lakeindex {stage} flights"
    return any(a["name"] == wanted and a["state"] == "RUNNING" for a in master(cluster)["activeapps"])


def driver(cluster: Cluster, stage: Stage) -> psutil.Process | None:
    """The spark-submit of a stage: a child of the scheduler, whose executor is LocalExecutor."""
    scheduler = cluster.processes.find("scheduler")
    assert scheduler is not None
    for process in scheduler.children(recursive=True):
        try:
            words = process.cmdline()
        except psutil.NoSuchProcess:
            continue
        if "org.apache.spark.deploy.SparkSubmit" in words and any(w.endswith(f"{stage}.py") for w in words):
            return process
    return None


def assert_equal_to_the_dictionary(flights: ClusterDemo, summary: dict[str, Any]) -> None:
    comparisons = flights.verify(summary)
    assert len(comparisons) >= 18
    assert [c for c in comparisons if not c.holds] == []


def test_dag_is_right_though_the_worker_and_a_driver_are_killed(cluster: Cluster, flights: ClusterDemo) -> None:
    run_id = flights.trigger(date(2013, 12, 1))

    until(flights, run_id, "index_lookup runs", lambda: has_executor(cluster, Stage.INDEX_LOOKUP))
    cluster.kill(WORKER)
    assert not cluster.processes.runs(WORKER)
    cluster.launch(WORKER)

    until(flights, run_id, "verify_keys is submitted", lambda: driver(cluster, Stage.VERIFY_KEYS)).kill()
    cluster.wait(WORKER)

    summary = flights.finish(date(2013, 12, 1), run_id)
    tries = flights.airflow.tries(DAG, run_id)
    assert {task: state for task, (state, _) in tries.items()} == dict.fromkeys(TASKS, "success")
    assert tries["verify_keys"] == ("success", 2)
    assert tries["index_lookup"] == ("success", 1), "Spark itself gives the lost executor's tasks to the next one"
    assert [stage["name"] for stage in summary["stages"]] == [str(stage) for stage in Stage]
    assert summary["inserts"] > 900
    assert summary["updates"] > 800
    assert_equal_to_the_dictionary(flights, summary)


def test_one_application_for_all_stages_gives_the_same(cluster: Cluster, flights: ClusterDemo) -> None:
    run_id = flights.trigger(date(2013, 12, 2), execution="single")
    summary = flights.finish(date(2013, 12, 2), run_id)
    assert {task for task, (state, _) in flights.airflow.tries(DAG, run_id).items() if state == "success"} == TASKS
    finished = {app["name"] for app in master(cluster)["completedapps"]}
    assert "lakeindex upsert flights" in finished
    assert_equal_to_the_dictionary(flights, summary)


def test_bad_rows_fail_at_once_and_change_nothing(flights: ClusterDemo) -> None:
    before = {found.path for found in open_storage(flights.table.uri).list()}
    day = date(2013, 12, 3)
    file = flights.home / "feed" / f"{day}.parquet"
    rows = pq.read_table(file)
    bad = rows.set_column(rows.column_names.index("carrier"), "carrier", pa.nulls(rows.num_rows, pa.string()))
    pq.write_table(bad, file)

    run_id = flights.trigger(day)
    assert flights.airflow.wait(DAG, run_id, PATIENCE_SECONDS) == "failed"
    tries = flights.airflow.tries(DAG, run_id)
    assert tries["stage_input"] == ("failed", 1)
    assert tries["merge_write"][0] == "upstream_failed"
    runs = open_storage(flights.table.checkpoints)
    errors = [json.loads(runs.read(f.path)) for f in runs.list() if f.path.endswith("stage_input.error.json")]
    assert [(e["error"], e["exit_code"]) for e in errors] == [("QuarantineExceededError", 3)]
    assert {found.path for found in open_storage(flights.table.uri).list()} == before


def test_dag_looks_keys_up_in_hbase(flights: ClusterDemo) -> None:
    server = {
        "lakeindex.hbase.thrift.host": os.environ["LAKEINDEX_HBASE_HOST"],
        "lakeindex.hbase.thrift.port": os.environ["LAKEINDEX_HBASE_PORT"],
    }
    given = {**server, "lakeindex.hbase.create.table": "true"}
    words = [word for key, value in given.items() for word in ("-o", f"{key}={value}")]
    lakeindex(flights.env, "index", "migrate", flights.table.uri, "--to", "HBASE", *words)

    run_id = flights.trigger(date(2013, 12, 4), options=server)
    summary = flights.finish(date(2013, 12, 4), run_id)
    looked_up = next(stage for stage in summary["stages"] if stage["name"] == Stage.INDEX_LOOKUP)
    assert looked_up["counters"]["keys_unknown"] == 0, "HBase knew every key, or that there is none"
    assert summary["inserts"] > 800
    assert summary["updates"] > 0
    lakeindex(flights.env, "index", "verify", flights.table.uri, *words)
    assert_equal_to_the_dictionary(flights, summary)
