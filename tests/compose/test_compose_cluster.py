"""The cluster of ``docker-compose.yaml`` for real: the demo, a run started by hand in Chromium whose worker is killed, HBase.

Every count is held against a plain dictionary (:mod:`demo.oracle`), every row read back by hudi-rs and DuckDB.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import expect, sync_playwright

from demo.airflow_api import DONE, Airflow
from demo.cluster import DAG, ClusterDemo
from demo.commands import lakeindex
from lakeindex.pipeline import Stage
from scripts.browser import ensure
from tests.compose.conftest import AIRFLOW, FIRST_MONTH, ROOT, Compose

pytestmark = [pytest.mark.compose, pytest.mark.timeout(3600)]

RUN_SECONDS = 900
SPARK = "http://127.0.0.1:8081/json/"
HBASE = {"lakeindex.hbase.thrift.host": "hbase", "lakeindex.hbase.create.table": "true"}

METASTORE = ("-o", "hoodie.datasource.hive_sync.metastore.uris=thrift://metastore:9083")


@pytest.fixture(scope="module")
def flights(compose: Compose, store: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterDemo]:
    """The demo's table on the cluster's store, loaded from here."""
    demo = ClusterDemo(tmp_path_factory.mktemp("flights"), "s3://lake", Airflow(AIRFLOW))
    with compose.timed("load November from outside"):
        demo.prepare(FIRST_MONTH)
    yield demo
    assert [one for one in demo.comparisons if not one.holds] == []


def test_a_person_starts_a_run_whose_worker_is_killed(compose: Compose, flights: ClusterDemo, tmp_path: Path) -> None:
    day = date(2013, 12, 1)
    source = flights._upload(flights.home / "feed" / f"{day}.parquet")
    with compose.timed("a run of five jobs, its worker killed"):
        run = started_by_hand(source)
        until(flights, run, lambda: any(app["name"].endswith(f"{Stage.INDEX_LOOKUP} flights") for app in active()))
        for container in compose.containers("spark-worker"):
            subprocess.run(["docker", "kill", container], check=True, capture_output=True)
        compose("up", "--detach", "--wait", "--no-deps", "spark-worker")
        summary = flights.finish(day, run)
    tries = flights.airflow.tries(DAG, run)
    assert {state for state, _ in tries.values()} == {"success"}
    assert [stage["name"] for stage in summary["stages"]] == [str(stage) for stage in Stage]
    assert summary["inserts"] > 900
    comparisons = flights.verify(summary)
    assert len(comparisons) >= 18
    assert [one for one in comparisons if not one.holds] == []


def test_keys_are_looked_up_in_the_hbase_of_the_profile(compose: Compose, flights: ClusterDemo) -> None:
    with compose.timed("build hbase"):
        compose("--profile", "hbase", "build", "hbase")
    with compose.timed("hbase healthy"):
        compose("--profile", "hbase", "up", "--detach", "--wait", "--wait-timeout", "300", "hbase")
    words = [word for key, value in HBASE.items() for word in ("-o", f"{key}={value}")]
    compose.inside("lakeindex", "index", "migrate", flights.table.uri, "--to", "HBASE", *words)
    day = date(2013, 12, 2)
    with compose.timed("a run in one job, its index in HBase"):
        summary = flights.finish(day, flights.trigger(day, execution="single", options=HBASE))
    looked_up = next(stage for stage in summary["stages"] if stage["name"] == Stage.INDEX_LOOKUP)
    assert looked_up["counters"]["keys_unknown"] == 0
    compose.inside("lakeindex", "index", "verify", flights.table.uri, *words)
    lakeindex(flights.env, "check", flights.table.uri)
    assert [one for one in flights.verify(summary) if not one.holds] == []


def test_the_metastore_of_the_profile_knows_the_table(compose: Compose, flights: ClusterDemo) -> None:
    with compose.timed("build metastore"):
        compose("--profile", "metastore", "build", "metastore")
    with compose.timed("metastore healthy"):
        compose("--profile", "metastore", "up", "--detach", "--wait", "--wait-timeout", "300", "metastore")
    day = date(2013, 12, 3)
    flights.finish(day, flights.trigger(day, execution="single", options={"lakeindex.sync": "hive"}))
    named = "hive://metastore:9083/default/flights"
    assert compose.inside("lakeindex", "sync", named, "--catalog", "hive", *METASTORE, "--check").count("agrees") == 1
    lines = compose.inside("lakeindex", "count", named).splitlines()
    assert lines == compose.inside("lakeindex", "count", flights.table.uri).splitlines()


def test_the_smoke_run_passes_from_an_empty_state_and_leaves_nothing(compose: Compose) -> None:
    compose("--profile", "*", "down", "--volumes", "--timeout", "30")  # the ports are the same
    with compose.timed("docker/smoke.sh"):
        done = subprocess.run(["sh", "docker/smoke.sh"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    left = subprocess.run(["docker", "volume", "ls", "--quiet"], capture_output=True, text=True, check=True).stdout
    assert [one for one in left.split() if one.startswith("lakeindex-smoke")] == []


def started_by_hand(source: str) -> str:
    """Fill in the DAG's form in Chromium, as a person does it; the run's id."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=ensure(), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        expect.set_options(timeout=60_000)
        page.set_default_timeout(60_000)
        page.goto(f"{AIRFLOW}/dags/{DAG}")
        page.get_by_role("button", name=re.compile("trigger", re.IGNORECASE)).first.click()
        form = page.get_by_role("dialog")
        field = form.locator("textarea[name=element_input]")
        field.fill(source)
        field.blur()
        form.get_by_role("button", name="Trigger", exact=True).click()
        expect(form).to_be_hidden()
        answer = page.request.get(f"{AIRFLOW}/api/v2/dags/{DAG}/dagRuns?order_by=-run_after&limit=1")
        assert answer.ok, answer.text()
        found = json.loads(answer.body())
        browser.close()
    return str(found["dag_runs"][0]["dag_run_id"])


def active() -> list[dict[str, Any]]:
    """Applications that Spark's master runs."""
    told: list[dict[str, Any]] = requests.get(SPARK, timeout=10).json()["activeapps"]
    return [app for app in told if app["state"] == "RUNNING"]


def until(flights: ClusterDemo, run: str, found: Any) -> None:
    """Wait for something while the run goes on."""
    deadline = time.monotonic() + RUN_SECONDS
    while time.monotonic() < deadline and flights.airflow.state(DAG, run) not in DONE:
        if found():
            return
        time.sleep(0.2)
    pytest.fail(f"not before {run} ended: {flights.airflow.tries(DAG, run)}")
