"""The report in Airflow's API server: found by its entry point, shown to who may see the run, to nobody else."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from msgspec.structs import replace

import lakeindex
from lakeindex.airflow.dag_plan import DagPlan
from lakeindex.pipeline import default_checkpoints
from tests.unit.cli.tables import new_table
from tests.unit.report.test_report import rows

if TYPE_CHECKING:
    from lakeindex.airflow.plugin import Upsert

pytestmark = pytest.mark.dag

DAG, RUN = "upsert_table", "manual__2026-11-21T00:00:00+00:00"


def test_airflow_finds_the_plugin():
    from lakeindex.airflow.plugin import LakeIndexPlugin

    (found,) = [one for one in entry_points(group="airflow.plugins") if one.name == "lakeindex"]
    assert found.load() is LakeIndexPlugin
    report, history = LakeIndexPlugin.external_views
    assert (report["destination"], report["href"]) == ("dag_run", "/lakeindex/report/{DAG_ID}/{RUN_ID}")
    assert (history["destination"], history["href"]) == ("dag", "/lakeindex/history/{DAG_ID}")


def plan_of(table: Path, run_id: str) -> list[Upsert]:
    from lakeindex.airflow.plugin import Upsert

    plan = DagPlan("t", str(table), default_checkpoints(str(table)), run_id, "b", ("in",), options=(("a", "b"),))
    return [Upsert("upsert", -1, plan, "/u")]


def test_the_page_of_a_plan(tmp_path: Path):
    from lakeindex.airflow.plugin import FailedTask, page_of

    table = new_table(tmp_path)
    run = lakeindex.open_table(str(table)).upsert(rows(0, 5, 1))
    assert "What happened to the rows" in page_of("d", plan_of(table, run.run_id))
    assert "The run has not finished" in page_of("d", plan_of(table, "other"))
    assert "no task has said what it upserts" in page_of("d", [])
    failed = page_of("d", [], [FailedTask("check_input", 2, "/dags/d/runs/r/tasks/check_input/mapped/2")])
    assert "failed before it began" in failed
    assert '<a href="/dags/d/runs/r/tasks/check_input/mapped/2">check_input [2]</a>' in failed


def test_the_page_of_a_run_that_upserts_several_tables(tmp_path: Path):
    from lakeindex.airflow.plugin import FailedTask, page_of

    table = new_table(tmp_path)
    run = lakeindex.open_table(str(table)).upsert(rows(0, 5, 1))
    page = page_of("d", [*plan_of(table, run.run_id), *plan_of(table, "other")], [FailedTask("upsert", 1, "/log")])
    assert f"committed {run.instant}, 5 inserts" in page
    assert "not finished" in page
    assert '<a href="/u">t (upsert)</a>' in page
    assert '<a href="/log">upsert [1]</a>' in page


def test_a_run_has_failed_if_one_of_its_tasks_is_not_tried_again():
    from lakeindex.airflow.plugin import FailedTask, page_of

    waits = [FailedTask("check_input", number, "/log", waits=number == 0) for number in range(2)]
    assert "The run failed before it began" in page_of("d", [], waits)
    assert "what failed is tried again" in page_of("d", [], waits[:1])
    assert "no task has said what it upserts" in page_of("d", [])


def test_only_who_may_see_the_run_sees_its_report(api: Callable[..., Any]):
    path = f"/lakeindex/report/{DAG}/{RUN}"
    assert api(path).status_code == 401
    assert api(path, None).status_code == 403
    answer = api(path, "viewer")
    assert answer.status_code == 200, answer.text
    assert "no task has said what it upserts" in answer.text
    assert "sandbox" in answer.headers["content-security-policy"]


def test_the_history_of_a_dag_s_table(tmp_path: Path):
    from lakeindex.airflow.plugin import history_of

    table = new_table(tmp_path)
    run = lakeindex.open_table(str(table)).upsert(rows(0, 5, 1))
    (plan,) = (one.plan for one in plan_of(table, run.run_id))
    assert "What this page can show" in history_of("d", [plan])
    assert "No run of this DAG has said which table" in history_of("d", [])
    other = replace(plan, table="other", uri=f"{tmp_path}/none")
    listed = history_of("d", [plan, other])
    assert f'<a href="/lakeindex/history/d?{urlencode({"table": other.uri})}">other</a>' in listed
    assert "The history cannot be shown" in history_of("d", [plan, other], other.uri)
    assert "What this page can show" in history_of("d", [plan, other], plan.uri)
    assert "No run of this DAG has said which table" in history_of("d", [plan], f"{tmp_path}/elsewhere")


def test_only_who_may_see_the_runs_sees_the_history(api: Callable[..., Any]):
    path = "/lakeindex/history/example_consumer"  # which upserts nothing
    assert api(path).status_code == 401
    assert api(path, None).status_code == 403
    answer = api(path, "viewer")
    assert answer.status_code == 200, answer.text
    assert "No run of this DAG has said which table" in answer.text
    assert "sandbox" in answer.headers["content-security-policy"]
