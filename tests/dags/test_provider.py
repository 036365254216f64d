"""lakeindex as a provider: Airflow lists it, its tasks link to their pages, its jobs go to a YARN cluster as well."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points, metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lakeindex.airflow import get_provider_info
from tests.dags.jobs import Jobs

pytestmark = [pytest.mark.dag, pytest.mark.usefixtures("airflow_db")]

AIRFLOW = str(Path(sys.executable).with_name("airflow"))


@pytest.mark.slow
def test_airflow_lists_the_provider_and_its_links() -> None:
    told = subprocess.run([AIRFLOW, "providers", "list", "-o", "json"], capture_output=True, text=True, check=True)
    (found,) = (one for one in json.loads(told.stdout) if one["package_name"] == "lakeindex")
    assert found["version"] == metadata("lakeindex")["Version"]
    assert found["description"] == get_provider_info()["description"]


def test_what_the_provider_says_is_there_is_there() -> None:
    from importlib import import_module

    from airflow.providers_manager import ProvidersManager

    (entry,) = entry_points(group="apache_airflow_provider", name="provider_info").select(
        value="lakeindex.airflow:get_provider_info"
    )
    info = entry.load()()
    manager = ProvidersManager()
    assert {*info["extra-links"]} <= {*manager.extra_links_class_names}
    for operators in info["operators"]:
        for module in operators["python-modules"]:
            import_module(module)
    assert not {"connection-types", "hook-class-names"} & {*info}  # docs/airflow.md says why


DAGS = """
from datetime import datetime, timezone
from airflow.sdk import DAG
from lakeindex.airflow import LakeIndexUpsertOperator

given = {{"task_id": "up", "inputs": "{folder}/x.csv", "batch_id": "day 1"}}  # of each table
for name in ("one", "wrong"):
    with DAG("linked_" + name, schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as dag:
        LakeIndexUpsertOperator(table="{folder}/{{{{ 'a' }}}}" if name == "one" else "lake/<t>", **given)
    globals()[name] = dag
with DAG("linked_two", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc)) as two:
    LakeIndexUpsertOperator.partial(**given).expand(table=["{folder}/a", "{folder}/b"])
"""


@pytest.fixture
def run_of(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Runs a DAG of one operator, or of one that is mapped over two tables."""
    from airflow import settings
    from airflow.dag_processing.dagbag import DagBag

    (tmp_path / "dags").mkdir()
    (tmp_path / "dags/linked.py").write_text(DAGS.format(folder=tmp_path))
    monkeypatch.setattr(settings, "DAGS_FOLDER", str(tmp_path / "dags"))
    bag = DagBag(dag_folder=str(tmp_path / "dags"))
    assert bag.import_errors == {}
    return lambda name: bag.dags[f"linked_{name}"].test()


def links(run: Any, map_index: int = -1) -> dict[str, str]:
    (ti,) = (ti for ti in run.get_task_instances() if ti.map_index == map_index)
    found = {
        name: ti.xcom_pull(task_ids=ti.task_id, map_indexes=map_index, key=f"_link_{name}")
        for name in ("RunReportLink", "TableHistoryLink")
    }
    assert all(found.values())
    return found


def test_a_task_links_to_its_report_and_to_its_tables_history(
    run_of: Callable[[str], Any], api: Callable[..., Any], tmp_path: Path
) -> None:
    run = run_of("one")
    found = links(run)
    assert found["RunReportLink"] == f"/lakeindex/report/linked_one/{quote(run.run_id)}?task_id=up&map_index=-1"
    report, history = api(found["RunReportLink"], "viewer"), api(found["TableHistoryLink"], "viewer")
    assert f"{tmp_path}/a" in report.text
    assert f"no Hudi table at file://{tmp_path}/a" in history.text  # the stub of a job makes none


def test_an_instance_of_a_mapped_task_links_to_its_own(
    run_of: Callable[[str], Any], api: Callable[..., Any], tmp_path: Path
) -> None:
    run = run_of("two")
    for index, table in enumerate(("a", "b")):
        found = links(run, index)
        assert f"{tmp_path}/{table}" in api(found["RunReportLink"], "viewer").text
        assert f"file://{tmp_path}/{table}" in api(found["TableHistoryLink"], "viewer").text


def test_a_task_that_failed_before_it_knew_its_table_links_to_why(
    run_of: Callable[[str], Any], api: Callable[..., Any]
) -> None:
    run = run_of("wrong")
    assert str(run.state) == "failed"
    found = links(run)
    page = api(found["RunReportLink"], "viewer").text
    assert "The run failed before it began" in page
    assert "up failed: UsageError" in page
    assert "up: table cannot be &#39;lake/&lt;t&gt;&#39;" in page
    assert "What to do: give an absolute path or a URL" in page
    assert "the task is not tried again" in page
    assert "No run of this DAG has said which table" in api(found["TableHistoryLink"], "viewer").text


@pytest.mark.parametrize("extra", [{}, {"yarn_resourcemanager_webapp_address": "http://rm:8088"}])
def test_jobs_go_to_a_yarn_cluster_by_the_connection_of_the_docs(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: dict[str, str]
) -> None:
    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

    yarn = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster", **extra}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(yarn))
    task = LakeIndexUpsertOperator(task_id="t", table=f"{tmp_path}/t", inputs="x")
    ti = type("TI", (), {"xcom_push": lambda *_, **__: None})()
    task.execute({"ti": ti, "task": task, "outlet_events": _Events()})
    assert [job for job, _ in jobs.submitted] == ["upsert"]


def test_what_the_dag_says_of_reconnecting_stays() -> None:
    from airflow.sdk import DAG

    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

    given = {"table": "/t", "inputs": "x"}
    assert LakeIndexUpsertOperator(task_id="a", **given).durable is False
    assert LakeIndexUpsertOperator(task_id="b", durable=True, **given).durable is True
    assert LakeIndexUpsertOperator(task_id="c", yarn_track_via_rm_api=True, **given).durable is True
    with DAG("d", schedule=None, default_args={"durable": True}):
        assert LakeIndexUpsertOperator(task_id="e", **given).durable is True


class _Events(dict[Any, Any]):
    def __missing__(self, key: Any) -> Any:
        return type("Event", (), {"add": lambda *_, **__: None})()
