"""The DAG that upserts into every table of ``conf/tables``: a mapped task group, an instance a table.

The tables are read by tasks, not when the DAG file is parsed: a new table needs no parsing, and a file that is wrong
fails the instance of its table alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, Param, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

from lakeindex.airflow.dag import advanced_params
from lakeindex.airflow.failures import told_failures
from lakeindex.airflow.operator import PLAN_TASK, RETRIES
from lakeindex.airflow.plan_run import plan_run
from lakeindex.airflow.tables import LOCAL, SINGLE, load_table
from lakeindex.airflow.upsert_operator import ARGUMENTS, LakeIndexUpsertOperator
from lakeindex.errors import UsageError

TABLES_DAG: Final = "upsert_tables"
_DOC: Final = """\
### Upsert into all tables

| task | does |
|---|---|
| `find_tables` | lists the files of `conf/tables`, or those that the form names |
| `table.check_input` | reads the table's file, works out its input; no data yet skips the table |
| `table.upsert` | all five stages in one spark-submit; the event of the table's asset has the counts |

Every table has an instance of its own; one that fails does not stop the others. *Run report* lists them all.
"""


def tables_dag(folder: Path, root: Path, *, pool: str = "default_pool", at_once: int = 2) -> DAG:
    """The DAG.

    Args:
        folder: where the tables' ``*.yaml`` files are.
        root: what relative paths in them are relative to.
        pool: Airflow's pool for the spark-submits; it must exist.
        at_once: spark-submits of one run that run at once.
    """
    with DAG(
        dag_id=TABLES_DAG,
        schedule=None,
        params={
            "tables": tables_param("all that have an input"),
            **advanced_params(),
        },
        max_active_runs=1,
        default_args={"owner": "lakeindex", **RETRIES},
        tags=["lakeindex", "hudi"],
        doc_md=_DOC,
    ) as dag:

        @task
        def find_tables(**context: Any) -> list[str]:
            """Names of the tables of this run."""
            with told_failures(context):
                return table_names(folder, context["params"].get("tables"))

        @task(task_id=PLAN_TASK, multiple_outputs=True, map_index_template="{{ task.op_kwargs['table'] }}")
        def check_input(table: str, **context: Any) -> dict[str, Any]:
            """What the table's operator is given."""
            with told_failures(context):
                return upsert_arguments(folder / f"{table}.yaml", root, context)

        @task_group(group_id="table")
        def upsert_one(table: str) -> None:
            """One table."""
            given: Any = check_input(table=table)
            LakeIndexUpsertOperator(
                task_id="upsert",
                map_index_template="{{ task.table_name }}",
                pool=pool,
                max_active_tis_per_dagrun=at_once,
                **{name: given[name] for name in (*ARGUMENTS, "conf")},
            )

        upsert_one.expand(table=find_tables())
    return dag


def tables_param(otherwise: str) -> Param:
    """The form's field for the tables of a run.

    Args:
        otherwise: which tables an empty field means.
    """
    description = f"Names of conf/tables, one on each line; empty: {otherwise}"
    return Param(None, type=["null", "array"], items={"type": "string"}, title="Tables", description=description)


def table_names(folder: Path, wanted: list[str] | None) -> list[str]:
    """Names of the files of a folder, or of those that are wanted.

    Raises:
        UsageError: there is none, or one that is wanted is not there.
    """
    there = sorted(file.stem for file in folder.glob("*.yaml"))
    unknown = sorted(set(wanted or ()) - set(there))
    if unknown or not there:
        raise UsageError(
            f"no table {', '.join(unknown)} in {folder}",
            culprit=str(folder),
            hint=f"there are: {', '.join(there) or 'none'}",
        )
    return [name for name in there if not wanted or name in wanted]


def upsert_arguments(file: Path, root: Path, context: Any) -> dict[str, Any]:
    """The operator's arguments for a table.

    Raises:
        AirflowSkipException: the table has no input, or it is not there yet.
        LakeIndexError: the table's file is wrong (names file, line and key), or its input cannot be looked up.
    """
    table = load_table(file, root, os.environ)
    if not table.inputs:
        raise AirflowSkipException(f"{file} names no input")
    run = context["dag_run"]
    plan = plan_run(table, context, batch_id=f"{run.dag_id}/{run.run_id}/{table.name}", may_skip=True)
    memory = {"spark.driver.memory": table.spark.driver_memory} if table.spark.driver_memory else {}
    return {
        **{name: one for name, one in plan.to_xcom().items() if name in ARGUMENTS},
        "table": plan.uri,
        "table_name": plan.table,
        "options": dict(plan.options),
        "execution": LOCAL if plan.execution == LOCAL else SINGLE,
        "conf": {**memory, **table.spark.conf},
    }
