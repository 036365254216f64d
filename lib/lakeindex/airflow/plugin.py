"""The run's report as a tab of the DAG run, and a table's history as one of the DAG, for who may see the DAG's runs.

Found by Airflow through the entry point ``airflow.plugins``. The app is made where somebody asks for it,
which only the API server does: schedulers, DAG processors and workers load this module, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from airflow.plugins_manager import AirflowPlugin

from lakeindex.airflow.dag_plan import DagPlan
from lakeindex.airflow.operator import ERROR_KEY, PLAN_KEY, PREFIX, base_path, history_url, report_url
from lakeindex.errors import LakeIndexError
from lakeindex.frozen import Frozen

#: Plans that are looked through for the tables of a DAG; each run has one for every table.
_NEWEST_PLANS: Final = 500
#: A document without scripts; of this origin, or its links would be followed without the cookie
#: that signs the reader in.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; "
    "sandbox allow-same-origin allow-popups allow-popups-to-escape-sandbox allow-top-navigation-by-user-activation",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def report_app() -> Any:
    """The FastAPI app: ``/report/<dag id>/<run id>``, and ``/history/<dag id>``, ``?table=<uri>`` of one of several."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.common.db.common import SessionDep
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from fastapi import Depends, FastAPI
    from fastapi.responses import HTMLResponse

    app = FastAPI(title="lakeindex reports", docs_url=None, redoc_url=None, openapi_url=None)
    may_see_runs = Depends(requires_access_dag("GET", DagAccessEntity.RUN))

    def report(dag_id: str, run_id: str, session: Any, task_id: str = "", map_index: int = -1) -> HTMLResponse:
        """The report of a run, or how far it came; of one of its tasks, if there are several that upsert."""
        upserts = _upserts(session, dag_id, run_id)
        failed = _failed(session, dag_id, run_id)
        if task_id:
            upserts = [one for one in upserts if (one.task_id, one.map_index) == (task_id, map_index)]
            failed = [one for one in failed if one.map_index == map_index]
        return HTMLResponse(page_of(f"{dag_id}, run {run_id}", upserts, failed), headers=_HEADERS)

    def history(dag_id: str, session: Any, table: str = "") -> HTMLResponse:
        """A table that the DAG writes over its runs; a list of them, if there are several."""
        return HTMLResponse(history_of(dag_id, _tables(session, dag_id), table), headers=_HEADERS)

    for page in (report, history):
        page.__annotations__["session"] = SessionDep
    app.get("/history/{dag_id}", response_class=HTMLResponse, dependencies=[may_see_runs])(history)
    app.get("/report/{dag_id}/{run_id:path}", response_class=HTMLResponse, dependencies=[may_see_runs])(report)
    return app


class Upsert(Frozen):
    """One upsert of a DAG run: which task did it, and the plan it left as XCom."""

    task_id: str
    map_index: int
    plan: DagPlan
    url: str


class FailedTask(Frozen):
    """A task that failed.

    Attributes:
        map_index: which instance of it; -1 if it is not mapped.
    """

    task_id: str
    map_index: int
    url: str
    waits: bool = False
    said: Mapping[str, Any] | None = None

    @property
    def label(self) -> str:
        """The task as a reader knows it."""
        return _label(self.task_id, self.map_index)


def page_of(title: str, upserts: Sequence[Upsert], failed: Sequence[FailedTask] = ()) -> str:
    """What the tab shows: the page of the one upsert of the run, or a list of several."""
    from lakeindex.report.progress import Failures, Link, overview_page, run_outcome, run_page

    failures = Failures(
        tuple(Link(one.label, one.url) for one in failed),
        tuple({**one.said, "stage": one.label} for one in failed if one.said),
        waits=bool(failed) and all(one.waits for one in failed),
    )
    if not upserts:
        return run_page(None, "", title, failures)
    if len(upserts) == 1:
        plan = upserts[0].plan
        return run_page(plan.checkpoints, plan.run_id, plan.uri, failures)
    lines = [
        (Link(f"{one.plan.table} ({_label(one.task_id, one.map_index)})", one.url),
         run_outcome(one.plan.checkpoints, one.plan.run_id))
        for one in upserts
    ]  # fmt: skip
    return overview_page(title, lines, failures)


def history_of(dag_id: str, plans: Sequence[DagPlan], wanted: str = "") -> str:
    """What the tab of a DAG shows: the history of its one table, or a list of several.

    Args:
        plans: the newest of each table that the DAG has written.
        wanted: the table's folder, if there are several; only those of the plans are shown.
    """
    from lakeindex.report.progress import Link, history_list, no_history

    shown = [one for one in plans if not wanted or one.uri == wanted]
    if len(shown) != 1:
        return history_list(dag_id, [Link(one.table, history_url(dag_id, one.uri)) for one in shown])
    from lakeindex.operations.look.report_history import table_report
    from lakeindex.report.page import render_history

    try:
        return render_history(table_report(shown[0].uri, shown[0].checkpoints))
    except LakeIndexError as error:
        return no_history(shown[0].uri, error)


def _label(task_id: str, map_index: int) -> str:
    return task_id if map_index < 0 else f"{task_id} [{map_index}]"


def _upserts(session: Any, dag_id: str, run_id: str) -> list[Upsert]:
    """The plans that tasks of the run pushed. A run counts once, as its last task has it; two tables may have one each
    of one name, where a DAG names its batches.
    """
    from airflow.models.xcom import XComModel

    found = {}
    for row in session.scalars(XComModel.get_many(run_id=run_id, key=PLAN_KEY, dag_ids=dag_id)):
        plan = DagPlan.from_xcom(XComModel.deserialize_value(row))
        url = report_url(dag_id, run_id, row.task_id, row.map_index)
        found[plan.checkpoints, plan.run_id] = Upsert(row.task_id, row.map_index, plan, url)
    return sorted(found.values(), key=lambda one: (one.task_id, one.map_index))


def _tables(session: Any, dag_id: str) -> list[DagPlan]:
    """The newest plan of each table that the newest runs of a DAG have written, by the table's name."""
    from airflow.models.xcom import XComModel
    from sqlalchemy import select

    told = select(XComModel).where(XComModel.dag_id == dag_id, XComModel.key == PLAN_KEY)
    newest: dict[str, DagPlan] = {}
    for row in session.scalars(told.order_by(XComModel.timestamp.desc()).limit(_NEWEST_PLANS)):
        plan = DagPlan.from_xcom(XComModel.deserialize_value(row))
        newest.setdefault(plan.uri, plan)
    return sorted(newest.values(), key=lambda one: (one.table, one.uri))


def _failed(session: Any, dag_id: str, run_id: str) -> list[FailedTask]:
    """The tasks of the run that failed, with what they left to say why."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.state import TaskInstanceState
    from sqlalchemy import select

    said = {
        (row.task_id, row.map_index): XComModel.deserialize_value(row)
        for row in session.scalars(XComModel.get_many(run_id=run_id, key=ERROR_KEY, dag_ids=dag_id))
    }
    states = (TaskInstanceState.FAILED, TaskInstanceState.UP_FOR_RETRY)
    columns = (TaskInstance.task_id, TaskInstance.map_index, TaskInstance.try_number, TaskInstance.state)
    query = select(*columns).where(
        TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.state.in_(states)
    )
    run = f"{base_path()}/dags/{quote(dag_id)}/runs/{quote(run_id)}"
    return [
        FailedTask(
            task,
            index,
            f"{run}/tasks/{quote(task)}{f'/mapped/{index}' if index >= 0 else ''}?try_number={number}",
            state == TaskInstanceState.UP_FOR_RETRY,
            said.get((task, index)),
        )
        for task, index, number, state in sorted(map(tuple, session.execute(query)))
    ]


class _Apps:
    """Made when it is asked for."""

    def __get__(self, _: Any, __: Any) -> list[dict[str, Any]]:
        return [{"app": report_app(), "url_prefix": PREFIX, "name": "lakeindex reports"}]


class LakeIndexPlugin(AirflowPlugin):
    """What the library adds to Airflow."""

    name = "lakeindex"
    fastapi_apps = _Apps()
    external_views = [  # noqa: RUF012 - Airflow reads a list of the class; nobody changes it
        {
            "name": "Run report",
            "href": f"{PREFIX}/report/{{DAG_ID}}/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "lakeindex-report",
        },
        {
            "name": "Table history",
            "href": f"{PREFIX}/history/{{DAG_ID}}",
            "destination": "dag",
            "url_route": "lakeindex-history",
        },
    ]
