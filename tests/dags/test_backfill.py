"""Runs of a backfill: which are refused. tests/browser runs one with Airflow's scheduler."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from lakeindex.airflow.tables import TableConf
from lakeindex.errors import TableNotFoundError, UsageError
from tests.cli_support import lakeindex
from tests.unit.cli.tables import SCHEMA

pytestmark = pytest.mark.dag


def made(tmp_path: Path, *words: str) -> TableConf:
    import pyarrow.parquet as pq

    pq.write_table(SCHEMA.empty_table(), tmp_path / "like.parquet")
    place = str(tmp_path / "t")
    answer = lakeindex("create", place, "--like", str(tmp_path / "like.parquet"), "--key", "id", *words)
    assert answer.exit_code == 0, answer
    return TableConf("t", "t", place, f"{place}.lakeindex", inputs=(str(tmp_path / "like.parquet"),))


def test_an_option_that_the_table_overrules_lets_no_backfill_through(tmp_path: Path) -> None:
    """What the table stores decides which row is kept, whatever a run says."""
    mode = "hoodie.write.record.merge.mode"
    for stored, said, may in (("COMMIT", "EVENT", False), ("EVENT", "COMMIT", True)):
        (tmp_path / stored).mkdir()
        table = made(tmp_path / stored, "--ordering", "ts", "-o", f"{mode}={stored}_TIME_ORDERING")
        told = replace(table, options={mode: f"{said}_TIME_ORDERING"})
        if may:
            assert plan(told, "backfill").table == "t"
        else:
            with pytest.raises(UsageError, match="a backfill of t is refused"):
                plan(told, "backfill")


def plan(table: TableConf, run_type: str, **params: Any) -> Any:
    from lakeindex.airflow.dag_plan import plan_run

    task = SimpleNamespace(render_template=lambda text, _: text)
    context = {"params": params, "task": task, "dag_run": SimpleNamespace(run_type=run_type)}
    return plan_run(table, context, batch_id="d/r/-1", may_skip=False)


def test_a_table_that_says_which_row_is_newer_can_be_backfilled(tmp_path: Path) -> None:
    assert plan(made(tmp_path, "--ordering", "ts"), "backfill").table == "t"


@pytest.mark.parametrize(
    "words", [(), ("--ordering", "ts", "-o", "hoodie.write.record.merge.mode=COMMIT_TIME_ORDERING")]
)
def test_a_table_where_the_last_run_wins_cannot(tmp_path: Path, words: tuple[str, ...]) -> None:
    table = made(tmp_path, *words)
    with pytest.raises(UsageError, match=r"a backfill of t is refused.*ordering field"):
        plan(table, "backfill")
    assert plan(table, "scheduled").table == "t"


def test_deletes_and_a_table_that_is_not_there_cannot(tmp_path: Path) -> None:
    table = made(tmp_path, "--ordering", "ts")
    with pytest.raises(UsageError, match="t: a backfill cannot delete"):
        plan(table, "backfill", operation="DELETE")
    for operation in ("INSERT_OVERWRITE", "INSERT_OVERWRITE_TABLE"):
        with pytest.raises(UsageError, match="t: a backfill cannot overwrite"):
            plan(table, "backfill", operation=operation)
        assert plan(table, "scheduled", operation=operation).operation == operation
    gone = TableConf("u", "u", str(tmp_path / "u"), str(tmp_path / "runs"), inputs=table.inputs)
    with pytest.raises(TableNotFoundError, match=str(tmp_path / "u")):
        plan(gone, "backfill")


@pytest.mark.few(0)
def test_the_operator_refuses_one_too(tmp_path: Path) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from lakeindex.airflow.dag_plan import refuse_backfill
    from lakeindex.airflow.upsert_operator import LakeIndexUpsertOperator

    table = made(tmp_path)
    task = LakeIndexUpsertOperator(task_id="t", table=table.uri, inputs="x")
    told: dict[str, Any] = {}
    with pytest.raises(AirflowFailException, match="a backfill of t is refused"):
        task.execute({"dag_run": SimpleNamespace(run_type="backfill"), "ti": SimpleNamespace(xcom_push=told.update)})
    assert (told["key"], told["value"]["error"], told["value"]["transient"]) == ("lakeindex_error", "UsageError", False)
    refuse_backfill(task.plan(), {"dag_run": SimpleNamespace(run_type="manual")})
