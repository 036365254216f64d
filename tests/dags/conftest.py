"""A hermetic Airflow: its own home, an SQLite file, no network, no JVM. Set before anything imports airflow."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dags.jobs import Jobs

ROOT = Path(__file__).resolve().parents[2]
_HOME = Path(tempfile.mkdtemp(prefix="lakeindex-airflow-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)

if "airflow.configuration" in sys.modules:
    raise RuntimeError(
        "another module has imported Airflow before: these tests would use its database, and leave theirs"
    )
os.environ.update(
    {
        "AIRFLOW_HOME": str(_HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__API_AUTH__JWT_SECRET": "0123456789abcdef" * 4,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(_HOME / "plugins"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME}/airflow.db",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(_HOME / "logs"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "LAKEINDEX_DEMO": str(_HOME / "demo"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
)


@pytest.fixture(autouse=True)
def no_context_left() -> Iterator[None]:
    """A task that ran in this process leaves its run in the environment, by which others would take themselves for tasks."""
    yield
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CTX_")]:
        del os.environ[name]


@pytest.fixture(scope="session")
def airflow_db() -> Iterator[None]:
    """Migrated once a process. ``DAG.test`` sleeps a second whenever no task can run until it looks again: here it looks at once.

    Airflow checks the schemas of the params, which stay what they are, whenever a task looks at one: here once each.
    """
    from airflow.utils.db import initdb
    from jsonschema import Draft202012Validator as Validator

    initdb()
    really_check, checked = Validator.check_schema, set[str]()

    def check_schema(schema: Any) -> None:
        text = json.dumps(schema, sort_keys=True, default=repr)
        if text not in checked:
            really_check(schema)
            checked.add(text)

    really_sleep = time.sleep

    def sleep(seconds: float) -> None:
        if sys._getframe(1).f_globals["__name__"] != "airflow.sdk.definitions.dag":
            really_sleep(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", sleep)
        patch.setattr(Validator, "check_schema", check_schema)
        yield


@pytest.fixture(scope="session")
def dags() -> dict[str, Any]:
    """Every DAG of the project's folder, by id; parsing needs no database."""
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(ROOT / "dags"))
    assert bag.import_errors == {}
    return dict(bag.dags)


_ALL_ADMINS = "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS"


@pytest.fixture(scope="session")
def api_client(airflow_db: None) -> Iterator[Any]:
    """Airflow's API server; making it takes a second."""
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(_ALL_ADMINS, "False")
        client = TestClient(create_app(apps="core"))
        client.__enter__()
    yield client
    client.__exit__()


@pytest.fixture
def api(api_client: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """GET from Airflow's API server as nobody, or as a user with a role."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    monkeypatch.setenv(_ALL_ADMINS, "False")

    def get(path: str, *roles: str | None) -> Any:
        headers = {}
        for role in roles:
            token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="ann", role=role))
            headers["Authorization"] = f"Bearer {token}"
        return api_client.get(path, headers=headers)

    return get


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    jobs = Jobs()

    def submit(self: Any, application: str = "", **_: Any) -> None:
        jobs.run(application, self._application_args)

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    return jobs
