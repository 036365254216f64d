"""maintain_tables on real tables: a task a step, an instance a table; what helps to try again is tried again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeindex.lock.write_context import locked
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from tests.builders import make_table

pytestmark = [pytest.mark.dag, pytest.mark.usefixtures("airflow_db")]

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64())])


@pytest.fixture
def dag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two tables of four commits, one that is not there yet, and a broken file."""
    from airflow.dag_processing.dagbag import DagBag

    conf = tmp_path / "conf"
    conf.mkdir()
    options = "options: {hoodie.cleaner.commits.retained: 1, hoodie.keep.min.commits: 2, lakeindex.lock.wait: 0}\n"
    for name in ("apples", "berries", "cherries"):
        (conf / f"{name}.yaml").write_text(f"uri: {tmp_path}/{name}\n{options}")
    (conf / "figs.yaml").write_text(f"uri: {tmp_path}/figs\noption: 1\n")
    for name in ("apples", "berries"):
        table = make_table(str(tmp_path / name), schema=SCHEMA, keys=("id",), partitions=(), ordering="ts")
        for version in range(4):
            table.upsert(pa.table({"id": ["a", "b"], "ts": [version, version]}, schema=SCHEMA))
    monkeypatch.setenv("LAKEINDEX_TABLES", str(conf))
    return DagBag(dag_folder=str(ROOT / "dags/maintain_tables.py")).dags["maintain_tables"]


def results(run: Any, table: str) -> dict[str, str]:
    """State of each step of a table."""
    return {
        ti.task_id.removeprefix("table."): str(ti.state)
        for ti in run.get_task_instances()
        if ti.rendered_map_index == table
    }


@pytest.mark.few(0)
def test_every_table_step_by_step(dag: Any, tmp_path: Path) -> None:
    run = dag.test()
    steps = ("settle", "savepoint", "clean", "metadata", "archive", "compact", "cache", "runs", "sync")
    for table in ("apples", "berries"):
        assert results(run, table) == {
            **dict.fromkeys(steps, "success"),
            **dict.fromkeys(("repair", "cluster", "check"), "skipped"),
        }
    assert results(run, "cherries")["settle"] == "skipped"
    assert results(run, "figs")["settle"] == "failed"
    assert len(list((tmp_path / "apples/.hoodie").glob("*.commit"))) == 2
    assert len(list((tmp_path / "apples").glob("*.parquet"))) == 2
    assert list((tmp_path / "apples/.hoodie/archived").iterdir())


@pytest.mark.few(0)
def test_a_locked_table_is_tried_again_and_another_goes_on(dag: Any, tmp_path: Path) -> None:
    for task in dag.tasks:
        task.retries = 0
    with locked(open_storage(str(tmp_path / "apples")), WriteConfig(), "a long write"):
        run = dag.test(run_conf={"tables": ["apples", "berries"], "check": True})
    assert results(run, "apples")["settle"] == "failed"
    assert results(run, "apples")["check"] == "success"  # it is asked most where something went wrong
    assert results(run, "berries").items() >= {"archive": "success", "check": "success"}.items()


def test_the_schedule_comes_from_the_environment(dag: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.dag_processing.dagbag import DagBag

    assert dag.schedule is None
    monkeypatch.setitem(os.environ, "LAKEINDEX_MAINTENANCE", "@daily")
    again = DagBag(dag_folder=str(ROOT / "dags/maintain_tables.py")).dags["maintain_tables"]
    assert again.schedule == "@daily"
    assert (dag.task_dict["table.clean"].retries, dag.task_dict["table.clean"].max_active_tis_per_dagrun) == (2, 2)
