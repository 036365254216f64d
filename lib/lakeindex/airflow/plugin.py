"""The run's report as a tab of the DAG run, for those who may see the DAG's runs.

Found by Airflow through the entry point ``airflow.plugins``. The app is made where somebody asks for it, which only the API
server does: schedulers, DAG processors and workers load this module, too.
"""

from __future__ import annotations

from typing import Any, Final

from airflow.plugins_manager import AirflowPlugin

from lakeindex.airflow.operator import PLAN_TASK
from lakeindex.airflow.plan import RunPlan

PREFIX: Final = "/lakeindex"
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def report_app() -> Any:
    """The FastAPI app that shows reports: ``/report/<dag id>/<run id>``."""
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
    from airflow.api_fastapi.common.db.common import SessionDep
    from airflow.api_fastapi.core_api.security import requires_access_dag
    from airflow.models.xcom import XComModel
    from fastapi import Depends, FastAPI
    from fastapi.responses import HTMLResponse

    app = FastAPI(title="lakeindex reports", docs_url=None, redoc_url=None, openapi_url=None)
    may_see_runs = Depends(requires_access_dag("GET", DagAccessEntity.RUN))

    def report(dag_id: str, run_id: str, session: Any) -> HTMLResponse:
        """The report of a run, or how far it came."""
        query = XComModel.get_many(run_id=run_id, key="return_value", task_ids=PLAN_TASK, dag_ids=dag_id)
        found = session.scalars(query).first()
        return HTMLResponse(page_of(None if found is None else XComModel.deserialize_value(found)), headers=_HEADERS)

    report.__annotations__["session"] = SessionDep
    app.get("/report/{dag_id}/{run_id:path}", response_class=HTMLResponse, dependencies=[may_see_runs])(report)
    return app


def page_of(plan: Any) -> str:
    """What the tab shows, from what the first task of the run returned."""
    from lakeindex.report.progress import run_page

    if not isinstance(plan, dict):
        return run_page(None, "", "")
    parsed = RunPlan.from_xcom(plan)
    return run_page(parsed.checkpoints, parsed.run_id, parsed.uri)


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
    ]
