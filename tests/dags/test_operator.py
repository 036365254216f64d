"""LakeIndexUpsertOperator in somebody else's DAG: the example of the docs, what it hands on, how it fails."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lakeindex.airflow.dag_plan import DagPlan
from lakeindex.errors import (
    AccessDeniedError,
    ConflictError,
    InputError,
    InvariantError,
    SchemaMismatchError,
    StorageError,
    TableError,
    UsageError,
)
from tests.dags.jobs import FATES, Jobs, asset_events, states

pytestmark = [pytest.mark.dag, pytest.mark.usefixtures("airflow_db")]

ROOT = Path(__file__).resolve().parents[2]
DAY = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The DAG of docs/airflow.md, its folders below a temporary one."""
    from airflow import settings
    from airflow.dag_processing.dagbag import DagBag

    (code,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs/airflow.md").read_text().split("## The operator")[1], re.DOTALL
    )
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags/orders.py").write_text(code.replace('"/', f'"{tmp_path}/'))
    monkeypatch.setattr(settings, "DAGS_FOLDER", str(tmp_path / "dags"))
    bag = DagBag(dag_folder=str(tmp_path / "dags"))
    assert bag.import_errors == {}
    return bag.dags["orders"]


def test_the_docs_example_runs_and_hands_on_the_counts(
    example: Any, jobs: Jobs, tmp_path: Path, api: Callable[..., Any]
) -> None:
    run = example.test(logical_date=DAY)
    assert set(states(run).values()) == {"success"}
    ((job, words),) = jobs.submitted
    assert job == "upsert"
    assert words[words.index("--input") + 1] == f"{tmp_path}/feed/orders/2026-01-02/*.parquet"
    assert words[words.index("--batch-id") + 1] == f"orders/{run.run_id}/upsert_orders/-1"
    assert "lakeindex.lock.wait=60" in words
    assert words[words.index("--max-quarantined") + 1] == "10"
    (ti,) = run.get_task_instances()
    done = {"instant": jobs.instant, "batch_id": f"orders/{run.run_id}/upsert_orders/-1", **FATES}
    assert ti.xcom_pull(task_ids="upsert_orders") == {"table": "orders", **done}
    told = {**done, "uri": f"{tmp_path}/lake/orders", "noop": False}
    assert asset_events("orders")[-1] == told  # no table is there, so that nobody knows the point before
    # the report tab finds the run of a DAG that is not ours
    page = api(f"/lakeindex/report/orders/{quote(run.run_id)}", "viewer")
    assert page.status_code == 200
    assert f"{tmp_path}/lake/orders" in page.text


def test_a_run_that_fails_links_to_the_log_of_its_task(example: Any, jobs: Jobs, api: Callable[..., Any]) -> None:
    jobs.errors["upsert"] = [SchemaMismatchError("no column id")]
    run = example.test(logical_date=DAY + timedelta(days=1))
    assert states(run) == {"upsert_orders": "failed"}
    assert len(jobs.submitted) == 1
    page = api(f"/lakeindex/report/orders/{quote(run.run_id)}", "viewer").text
    assert "SchemaMismatchError" in page
    log = f'<a href="/dags/orders/runs/{quote(run.run_id)}/tasks/upsert_orders?try_number='
    assert log in page


@pytest.fixture
def execute(jobs: Jobs, tmp_path: Path) -> Callable[..., Any]:
    """Runs the operator outside a DAG run; gives its return value."""

    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

    def run(**arguments: Any) -> Any:
        pushed: dict[str, Any] = {}
        task = LakeIndexUpsertOperator(task_id="t", **{"table": f"{tmp_path}/t", "inputs": "x", **arguments})
        ti = type("TI", (), {"xcom_push": lambda _, key, value: pushed.update({key: value})})()
        events = type("Events", (dict,), {"__missing__": lambda self, key: self.setdefault(key, Event())})()
        done = task.execute({"ti": ti, "task": task, "outlet_events": events})
        assert DagPlan.from_xcom(pushed["lakeindex_run"]).is_single
        return done, events

    class Event:
        def __init__(self) -> None:
            self.extra: dict[str, Any] = {}
            self.added: list[Any] = []

        def add(self, asset: Any, extra: dict[str, Any]) -> None:
            self.added.append((asset, extra))

    return run


def test_counts_go_to_the_outlet_that_is_the_tables_asset(execute: Callable[..., Any], tmp_path: Path) -> None:
    from airflow.sdk import Asset

    mine = Asset(name="mine", uri=f"file://{tmp_path}/t")
    done, events = execute(outlets=[mine])
    assert events[mine].extra["inserts"] == done["inserts"] == FATES["inserts"]
    assert [event.added for event in events.values()] == [[]]


def test_a_run_that_commits_nothing_tells_the_asset_nothing(execute: Callable[..., Any], jobs: Jobs) -> None:
    jobs.instant = None
    done, events = execute()
    assert done["instant"] is None
    assert events == {}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"table": "lake/t"}, "table cannot be 'lake/t' (give an absolute path"),
        ({"table": "./lake/../t"}, "table cannot be './lake/../t' (give an absolute path"),
        ({"table": "dbfs:/t"}, "unknown scheme 'dbfs'"),
        ({"inputs": []}, "inputs cannot be []"),
        ({"inputs": ["a", ""]}, "inputs cannot be"),
        ({"operation": "MERGE"}, "operation cannot be 'MERGE' (give UPSERT or INSERT or BULK_INSERT or "),
        ({"max_quarantined": "-1"}, "max_quarantined cannot be '-1'"),
        ({"force": "maybe"}, "force cannot be 'maybe'"),
        ({"execution": "staged"}, "execution cannot be 'staged' (give single or local"),
        ({"options": {"hoodie.magic": 1}}, "unknown option 'hoodie.magic'"),
    ],
)
def test_wrong_arguments_fail_for_good_before_a_job_is_started(
    execute: Callable[..., Any], jobs: Jobs, arguments: dict[str, Any], said: str
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match=re.escape(said)):
        execute(**arguments)
    assert jobs.submitted == []


@pytest.mark.parametrize(
    ("error", "for_good"),
    [
        *((kind("why"), True) for kind in (UsageError, InputError, TableError, InvariantError, AccessDeniedError)),
        *((kind("why"), False) for kind in (StorageError, ConflictError, ValueError)),
    ],
    ids=lambda one: type(one).__name__,
)
def test_only_what_may_pass_is_tried_again(
    execute: Callable[..., Any], jobs: Jobs, error: Exception, *, for_good: bool
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    jobs.errors["upsert"] = [error]
    with pytest.raises(AirflowException, match=f"{type(error).__name__}: why") as raised:
        execute()
    assert isinstance(raised.value, AirflowFailException) is for_good


def test_the_error_of_an_earlier_attempt_is_not_that_of_this_one(execute: Callable[..., Any], jobs: Jobs) -> None:
    """The second one dies without a word, which may pass."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    jobs.errors["upsert"] = [SchemaMismatchError("no column id")]
    with pytest.raises(AirflowFailException, match="no column id"):
        execute()
    jobs.refused = 137
    with pytest.raises(AirflowException, match="Error code is: 137") as raised:
        execute()
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize(("exit_code", "for_good"), [(2, True), (1, False)])
def test_a_job_that_may_not_leave_a_file_is_not_tried_again_in_vain(
    execute: Callable[..., Any], jobs: Jobs, exit_code: int, *, for_good: bool
) -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    jobs.refused = exit_code
    with pytest.raises(AirflowException, match=f"Error code is: {exit_code}") as raised:
        execute()
    assert isinstance(raised.value, AirflowFailException) is for_good


def test_it_is_retried_unless_the_dag_says_otherwise() -> None:
    from airflow.sdk import DAG

    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

    given = {"table": "/t", "inputs": "x"}
    assert LakeIndexUpsertOperator(task_id="a", **given).retries == 2
    assert LakeIndexUpsertOperator(task_id="b", retries=0, **given).retries == 0
    with DAG("d", schedule=None, default_args={"retries": 7}):
        assert LakeIndexUpsertOperator(task_id="c", **given).retries == 7


def test_all_of_its_arguments_are_templates_and_the_job_is_there() -> None:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from lakeindex.airflow.upsert_operator import APPLICATION, LakeIndexUpsertOperator

    fields = set(LakeIndexUpsertOperator.template_fields)
    own = set(LakeIndexUpsertOperator.__init__.__annotations__) - {"return", "kwargs"}
    assert fields >= own | set(SparkSubmitOperator.template_fields)
    assert APPLICATION.is_file()


def test_what_a_template_renders_to_is_a_truth() -> None:
    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

    for force, meant in (
        (True, True),
        ("True", True),
        ("true", True),
        (False, False),
        ("False", False),
        ("false", False),
    ):
        task = LakeIndexUpsertOperator(task_id="t", table="/lake/t", inputs="x", force=force)
        assert task.plan().force is meant, force


def test_what_the_library_takes_is_said_as_python_and_airflow_say_it() -> None:
    """An outlet that stands alone, and flags that are no texts."""
    from airflow.sdk import Asset, AssetAlias

    from lakeindex.airflow.assets import TABLES_ALIAS
    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

    alias, mine = AssetAlias(TABLES_ALIAS), Asset(name="mine", uri="file:///lake/t")
    for given, all_of_them in (({}, [alias]), ({"outlets": mine}, [mine, alias]), ({"outlets": [alias]}, [alias])):
        task = LakeIndexUpsertOperator(task_id="t", table="/lake/t", inputs="x", **given)
        assert task.outlets == all_of_them, given
    options = {"lakeindex.footer.cache": False, "lakeindex.lock.wait": 0}
    task = LakeIndexUpsertOperator(task_id="t", table="/lake/t", inputs="x", options=options)
    assert task.plan().options == (("lakeindex.footer.cache", "false"), ("lakeindex.lock.wait", "0"))
