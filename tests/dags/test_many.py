"""upsert_tables and the DAG that reads its events: whole runs, only spark-submit replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lakeindex.errors import TableCorruptError
from tests.dags.jobs import FATES, Jobs, asset_events

pytestmark = [pytest.mark.dag, pytest.mark.usefixtures("airflow_db")]

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Lake:
    """Five tables, of which two can be upserted."""

    folder: Path
    dags: dict[str, Any]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    from airflow.dag_processing.dagbag import DagBag

    conf = tmp_path / "conf"
    conf.mkdir()
    for name in ("apples", "berries"):
        (conf / f"{name}.yaml").write_text(
            f"uri: {tmp_path}/{name}\ninput: {tmp_path}/in.csv\nspark: {{driver_memory: 700m}}\n"
            "max_quarantined: 3\noptions: {lakeindex.footer.cache: false}\n"
        )
    (conf / "cherries.yaml").write_text(f"uri: {tmp_path}/cherries\ninput: {tmp_path}/not-yet.csv\n")
    (conf / "dates.yaml").write_text(f"uri: {tmp_path}/dates\n")
    (conf / "figs.yaml").write_text(f"uri: {tmp_path}/figs\ninput: {tmp_path}/in.csv\noption: {{}}\n")
    (tmp_path / "in.csv").write_text("x")
    monkeypatch.setenv("LAKEINDEX_TABLES", str(conf))
    return Lake(tmp_path, dict(DagBag(dag_folder=str(ROOT / "dags/upsert_tables.py")).dags))


def states(run: Any) -> dict[str, str]:
    """State of each mapped task instance, by task and the name the UI shows."""
    return {
        f"{ti.task_id} {ti.rendered_map_index}": str(ti.state) for ti in run.get_task_instances() if ti.map_index >= 0
    }


@pytest.mark.few(0)
def test_every_table_is_an_instance_and_one_that_fails_stops_no_other(
    lake: Lake, jobs: Jobs, api: Callable[..., Any], capfd: pytest.CaptureFixture[str]
) -> None:
    jobs.errors["upsert"] = [TableCorruptError("torn")]
    jobs.failing_table = f"{lake.folder}/apples"
    run = lake.dags["upsert_tables"].test(run_conf={"lock_wait": 7})
    assert states(run) == {
        "table.check_input apples": "success",
        "table.check_input berries": "success",
        "table.check_input cherries": "skipped",
        "table.check_input dates": "skipped",
        "table.check_input figs": "failed",
        "table.upsert apples": "failed",
        "table.upsert berries": "success",
        "table.upsert 2": "skipped",
        "table.upsert 3": "skipped",
        "table.upsert 4": "upstream_failed",
        "table.sync 0": "upstream_failed",
        "table.sync berries": "skipped",
        "table.sync 2": "skipped",
        "table.sync 3": "skipped",
        "table.sync 4": "upstream_failed",
    }
    assert f"AirflowFailException: {lake.folder}/conf/figs.yaml:3: option is unknown" in capfd.readouterr().out

    (words,) = (words for _, words in jobs.submitted if f"{lake.folder}/berries" in words)
    assert words[words.index("--batch-id") + 1] == f"upsert_tables/{run.run_id}/berries"
    assert words[words.index("--max-quarantined") + 1] == "3"
    assert {"lakeindex.footer.cache=false", "lakeindex.lock.wait=7"} < set(words)
    assert asset_events("berries")[-1]["inserts"] == FATES["inserts"]
    assert asset_events("apples") == []

    path = f"/lakeindex/report/upsert_tables/{quote(run.run_id)}"
    page = api(path, "viewer").text
    assert "TableCorruptError: torn" in page
    assert f"committed {jobs.instant}" in page
    one = api(f"{path}?task_id=table.upsert&map_index=0", "viewer").text
    assert "upsert failed: TableCorruptError" in one
    assert "tasks/table.upsert/mapped/0?try_number=" in one
    assert "mapped/4" not in one


@pytest.mark.few(0)
def test_a_run_may_name_its_tables(lake: Lake, jobs: Jobs) -> None:
    run = lake.dags["upsert_tables"].test(run_conf={"tables": ["berries"]})
    assert [words[words.index("--table") + 1] for _, words in jobs.submitted] == [f"{lake.folder}/berries"]
    assert str(run.state) == "success"


def test_a_name_that_is_no_table_fails_with_those_that_are(
    lake: Lake, jobs: Jobs, capfd: pytest.CaptureFixture[str]
) -> None:
    run = lake.dags["upsert_tables"].test(run_conf={"tables": ["pears"]})
    assert str(run.state) == "failed"
    assert "no table pears" in capfd.readouterr().out
    assert jobs.submitted == []


@pytest.mark.few(0)
def test_spark_settings_of_the_table_reach_spark_submit(
    lake: Lake, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    commands: list[list[str]] = []

    def submit(self: Any, application: str = "", **_: Any) -> None:
        commands.append(self._build_spark_submit_command(application))
        jobs.run(application, commands[-1])

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    lake.dags["upsert_tables"].test(run_conf={"tables": ["berries"]})
    (command,) = commands
    assert command[:3] == ["spark-submit", "--master", "local[2]"]
    assert "spark.driver.memory=700m" in command
    assert "--driver-memory" not in command


def test_the_dag_is_capped(lake: Lake) -> None:
    upsert = lake.dags["upsert_tables"].task_dict["table.upsert"]
    assert (upsert.pool, upsert.max_active_tis_per_dagrun) == ("default_pool", 2)
