"""The task after the commit that lets catalogs know of it, on moto's server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.creating import create_table
from tests.dags.jobs import asset_events, states
from tests.moto_server import moto_here, use_aws

pytestmark = [pytest.mark.dag, pytest.mark.usefixtures("airflow_db")]

ROWS = pa.table({"id": ["a", "b"], "day": ["mon", "tue"]})


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with moto_here() as endpoint:
        use_aws(monkeypatch, endpoint)
        yield boto3.client("glue", region_name="us-east-1")


def dags(folder: Path, options: str, monkeypatch: pytest.MonkeyPatch, uri: str = "") -> Any:
    from airflow.dag_processing.dagbag import DagBag

    conf = folder / "conf"
    conf.mkdir()
    (conf / "visits.yaml").write_text(
        f"uri: {uri or f'{folder}/visits'}\nexecution: local\ninput: {folder}/a.parquet\n{options}"
    )
    (conf / "others.yaml").write_text(f"uri: {folder}/others\n")
    monkeypatch.setenv("LAKEINDEX_TABLES", str(conf))
    bag = DagBag(dag_folder=str(Path(__file__).resolve().parents[2] / "dags"))
    assert not bag.import_errors
    for dag in (one for name, one in bag.dags.items() if name.startswith("upsert_")):
        for task in dag.tasks:
            task.retries = 0
    return bag.dags


@pytest.mark.few(0)
def test_a_run_ends_with_a_sync_and_an_event(tmp_path: Path, glue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = "options:\n  lakeindex.sync: glue\n  hoodie.datasource.hive_sync.database: shop\n"
    dag = dags(tmp_path, options, monkeypatch)["upsert_table"]
    create_table(tmp_path / "visits", ROWS.schema, key="id", partition="day")
    pq.write_table(ROWS, tmp_path / "a.parquet")
    conf = {"table": "visits", "input": f"{tmp_path}/a.parquet", "execution": "local"}
    run = dag.test(run_conf=conf)
    assert set(states(run).values()) == {"success"}
    found = glue.get_partitions(DatabaseName="shop", TableName="visits")["Partitions"]
    assert sorted(one["Values"] for one in found) == [["mon"], ["tue"]]
    [event] = asset_events("glue shop.visits")
    assert event["uri"].endswith("/visits")
    assert event["instant"] == asset_events("visits")[-1]["instant"]

    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    run = dag.test(run_conf=conf)
    assert (states(run)["merge_write"], states(run)["sync"]) == ("success", "failed"), "it hurts no commit"


def test_without_a_catalog_there_is_no_such_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sync" not in dags(tmp_path, "", monkeypatch)["upsert_table"].task_dict


@pytest.mark.slow
def test_each_of_several_tables_has_its_own(tmp_path: Path, glue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = "options:\n  lakeindex.sync: glue\n  hoodie.datasource.hive_sync.database: many\n"
    dag = dags(tmp_path, options, monkeypatch)["upsert_tables"]
    for name in ("visits", "others"):
        create_table(tmp_path / name, ROWS.schema, key="id", partition="day")
    pq.write_table(ROWS, tmp_path / "a.parquet")
    others = tmp_path / "conf/others.yaml"
    others.write_text(f"{others.read_text()}execution: local\ninput: {tmp_path}/a.parquet\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    def run() -> dict[str, str]:
        found = dag.test().get_task_instances()
        return {f"{one.task_id} {one.rendered_map_index}": str(one.state) for one in found if one.map_index >= 0}

    expected = {
        f"table.{task} {name}": "success" for task in ("check_input", "upsert") for name in ("visits", "others")
    }
    assert run() == {**expected, "table.sync visits": "failed", "table.sync others": "skipped"}, "it hurts no commit"
    monkeypatch.setenv("AWS_ENDPOINT_URL", str(glue.meta.endpoint_url))
    assert run() == {**expected, "table.sync visits": "success", "table.sync others": "skipped"}
    assert len(glue.get_partitions(DatabaseName="many", TableName="visits")["Partitions"]) == 2
    [event] = asset_events("glue many.visits")
    assert event["uri"].endswith("/visits")
    assert event["instant"] == asset_events("visits")[-1]["instant"]


@pytest.mark.slow
def test_a_table_that_its_file_names_by_a_catalog(tmp_path: Path, glue: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakeindex.airflow.dags import take_step

    options = {"lakeindex.sync": "glue", "hoodie.datasource.hive_sync.database": "named"}
    create_table(tmp_path / "visits", ROWS.schema, key="id", partition="day").sync(options=options)
    pq.write_table(ROWS, tmp_path / "a.parquet")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")  # no DAG file asks a catalog
    every = dags(tmp_path, "", monkeypatch, uri="glue://named/visits")
    monkeypatch.setenv("AWS_ENDPOINT_URL", str(glue.meta.endpoint_url))
    run = every["upsert_table"].test(run_conf={"table": "visits", "input": f"{tmp_path}/a.parquet"})
    assert set(states(run).values()) == {"success"}
    assert len([*(tmp_path / "visits").glob("*/*.parquet")]) == 2
    assert (tmp_path / "visits.lakeindex").is_dir(), "run folders are beside the table"
    assert asset_events("visits")[-1]["uri"] == f"{tmp_path}/visits"
    run = every["upsert_tables"].test(run_conf={"tables": ["visits"]})
    assert states(run)["table.upsert"] == "success"
    assert take_step(tmp_path / "conf/visits.yaml", tmp_path, "clean")["table"] == "visits"
