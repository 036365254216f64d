"""The DAG that maintains every table of ``conf/tables``: a mapped task group, an instance a table, a task a step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, Param, TriggerRule, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

from lakeindex.airflow.failures import told_failures
from lakeindex.airflow.many import table_names, tables_param
from lakeindex.airflow.operator import RETRIES
from lakeindex.airflow.tables import load_table

MAINTAIN_DAG: Final = "maintain_tables"
_DOC: Final = """\
### Maintain all tables

| task | does |
|---|---|
| `find_tables` | lists the files of `conf/tables`, or those that the form names |
| `table.settle` | finishes or rolls back what dead writers left |
| `table.clean` | deletes base files that none of the last commits needs |
| `table.archive` | takes old instants off the timeline, after sweeping strays |
| `table.compact` | folds the deltas of a stored index into what was built |
| `table.cache` | enters footers that the footer cache lacks |
| `table.runs` | deletes the folders of runs that never finished and are a month old |
| `table.check` | reads the whole table and proves its invariants, if the form says so |

No step needs Spark. Another writer in flight, or the lock held by one, fails a step that is tried again later; each
step does what is left to do. How many commits stay: `hoodie.cleaner.commits.retained` and `hoodie.keep.min.commits` in
the table's `options`.
"""


def maintenance_dag(folder: Path, root: Path, *, schedule: str | None = None, at_once: int = 2) -> DAG:
    """The DAG.

    Args:
        folder: where the tables' ``*.yaml`` files are.
        root: what relative paths in them are relative to.
        schedule: when it runs by itself; None: only by hand.
        at_once: instances of one step that run at once.
    """
    with DAG(
        dag_id=MAINTAIN_DAG,
        schedule=schedule,
        params={
            "tables": tables_param("all"),
            "check": Param(
                False, type="boolean", title="Check", description="Read every table completely and check its invariants"
            ),
        },
        max_active_runs=1,
        default_args={"owner": "lakeindex", "max_active_tis_per_dagrun": at_once, **RETRIES},
        tags=["lakeindex", "hudi"],
        doc_md=_DOC,
    ) as dag:

        @task
        def find_tables(**context: Any) -> list[str]:
            """Names of the tables of this run."""
            with told_failures(context):
                return table_names(folder, context["params"].get("tables"))

        @task(multiple_outputs=False, map_index_template="{{ task.op_kwargs['table'] }}")
        def step(table: str, name: str, **context: Any) -> dict[str, Any]:
            """One step for one table."""
            if name == "check" and not context["params"].get("check"):
                raise AirflowSkipException("the form does not ask for it")
            with told_failures(context):
                return take_step(folder / f"{table}.yaml", root, name)

        @task_group(group_id="table")
        def maintain_one(table: str) -> None:
            """One table."""
            taken = {
                name: step.override(task_id=name)(table=table, name=name)
                for name in ("settle", "clean", "metadata", "archive", "compact", "cache", "runs")
            }
            check = step.override(task_id="check", trigger_rule=TriggerRule.ALL_DONE)(table=table, name="check")
            taken["settle"] >> taken["clean"] >> taken["metadata"] >> taken["archive"] >> check
            taken["settle"] >> [taken["compact"], taken["cache"], taken["runs"]] >> check

        maintain_one.expand(table=find_tables())
    return dag


def take_step(file: Path, root: Path, step: str) -> dict[str, Any]:
    """Take one step of a table's maintenance; what it did, as
    :class:`lakeindex.operations.maintain.StepSummary` says it.

    Raises:
        AirflowSkipException: the table is not there yet.
        LakeIndexError: the table's file is wrong, the table is refused or broken, another writer is at work, or the
            storage failed.
    """
    from lakeindex.airflow.files import maintenance_step, table_is_there

    table = load_table(file, root, os.environ)
    if not table_is_there(table.uri):
        raise AirflowSkipException(f"there is no table at {table.uri} yet")
    return maintenance_step(table.uri, step, table.checkpoints, table.options)
