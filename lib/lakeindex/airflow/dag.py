"""DAGs of the pipeline: one to start by hand for any table, and one for each table that has a schedule.

``check_input`` -> the five stages -> ``summary``. All five stages are there; one that the index does not need is
skipped when it is its turn. Whatever follows it has the trigger rule ``none_failed_min_one_success`` and also hangs on
the stage before it, so that it runs past a skipped stage, and is skipped itself when there was no input at all.

Parsing this loads Airflow and the standard library, no data library.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, AssetAlias, CronDataIntervalTimetable, Param, TriggerRule, task

from lakeindex.airflow.assets import TABLES_ALIAS, tell_what_was_done
from lakeindex.airflow.dag_plan import AS_THE_TABLE_SAYS, DagPlan, batch_of_run
from lakeindex.airflow.failures import told_failures
from lakeindex.airflow.operator import PLAN_KEY, PLAN_TASK, RETRIES, SPARK_CONF, StageOperator
from lakeindex.airflow.plan_run import plan_run
from lakeindex.airflow.tables import EXECUTIONS, TableConf
from lakeindex.errors import UsageError
from lakeindex.model import BATCH_OPERATIONS, IndexType, Operation
from lakeindex.pipeline import STAGE_TITLES, Stage
from lakeindex.runners.shipped_files import jobs_folder

MANUAL_DAG: Final = "upsert_table"


_FLOW_MD: Final = "\n".join(f"| `{stage}` | {title.split(': ', 1)[1]} |" for stage, title in STAGE_TITLES.items())
_DOC: Final = f"""\
Finds where every incoming key lives now, in five stages anyone can watch, and rewrites only what has to change.

| task | does |
|---|---|
| `{PLAN_TASK}` | works out table and input; no data yet skips a scheduled run |
{_FLOW_MD}
| `summary` | prints the funnel, emits an event of the table's asset with the counts |

Each stage is a spark-submit job of its own and leaves its checkpoint, so a retry goes on where the last attempt
stopped (with execution `single` or `local` the first job does all stages, and leaves the same checkpoints). Wrong data,
a refused table or a broken invariant (exit codes 2, 3, 4, 6) fails at once; everything else is tried again. A run is
committed once, however often its tasks run.
"""


def manual_dag(tables: Mapping[str, TableConf], root: Path) -> DAG:
    """The DAG to start by hand: the trigger form asks for the table and the input."""
    names = sorted(tables)
    form = {
        "table": Param(
            names[0],
            type="string",
            enum=names,
            values_display={name: tables[name].title for name in names},
            title="Table",
            description="A table of conf/tables",
        ),
        **_form(None),
    }
    with DAG(
        dag_id=MANUAL_DAG,
        schedule=None,
        params=form,
        doc_md=f"### Upsert a batch into a table\n\n{_DOC}",
        **_common(),
    ) as dag:
        _wire(tables, root)
    return dag


def table_dag(table: TableConf, root: Path) -> DAG:
    """The DAG of a table with a schedule: a run takes the input of its data interval."""
    if table.schedule is None:
        raise UsageError(
            f"table {table.name} has no schedule", culprit="schedule", hint="only scheduled tables get a DAG"
        )
    with DAG(
        dag_id=f"upsert_{table.name}",
        # data intervals, which Airflow 3 no longer gives a bare cron text
        schedule=CronDataIntervalTimetable(table.schedule, timezone="UTC"),
        start_date=table.start_date,
        end_date=table.end_date,
        catchup=table.catchup,
        params=_form(table),
        doc_md=f"### Upsert into {table.title}\n\n{_DOC}",
        **_common(),
    ) as dag:
        _wire({table.name: table}, root)
    return dag


def _common() -> dict[str, Any]:
    return {
        "max_active_runs": 1,  # commits of one table follow each other
        "default_args": {"owner": "lakeindex", **RETRIES},
        "tags": ["lakeindex", "hudi"],
        "render_template_as_native_obj": False,
    }


def _form(table: TableConf | None) -> dict[str, Param]:
    """Everyday params without a section (shown open), the rest in a section (folded)."""
    return {
        "input": Param(
            "\n".join(table.inputs) if table else None,
            type=["null", "string"],
            format="multiline",
            title="Input",
            description_md="Files, folders or `*` patterns, one on each line; may contain templates over the run's "
            "dates, such as `{{ data_interval_start | ds }}`. Empty: the input of the table's yaml.",
        ),
        "index_type": Param(
            AS_THE_TABLE_SAYS,
            type="string",
            enum=[AS_THE_TABLE_SAYS, *(str(kind) for kind in IndexType)],
            title="Index type",
            description="Bound when a table is created; a different type is refused",
        ),
        "max_quarantined": Param(
            table.max_quarantined if table else None,
            type=["null", "integer"],
            minimum=0,
            title="Bad rows tolerated",
            description="A run with more bad rows fails; in both cases they are in the quarantine file",
        ),
        **advanced_params(),
        "execution": Param(
            AS_THE_TABLE_SAYS,
            type="string",
            enum=[AS_THE_TABLE_SAYS, *EXECUTIONS],
            title="Execution",
            description="staged: one spark-submit for each stage, retried separately; single: "
            "one for all stages, faster; local: a process of the worker without a JVM, the fastest for small batches",
            section="Advanced",
        ),
    }


def advanced_params() -> dict[str, Param]:
    """Params of every DAG that upserts, folded in the form."""
    return {
        "operation": Param(
            str(Operation.UPSERT),
            type="string",
            enum=[str(operation) for operation in BATCH_OPERATIONS],
            title="Operation",
            description="DELETE: the input has the keys of the rows to delete. INSERT_OVERWRITE: it takes the place of "
            "all rows of its partitions, INSERT_OVERWRITE_TABLE of all rows of the table",
            section="Advanced",
        ),
        "lock_wait": Param(
            None,
            type=["null", "integer"],
            minimum=0,
            title="Seconds to wait for another writer",
            description="How long a task waits for the table's lock before it fails and is retried. Empty: "
            "lakeindex.lock.wait, 300",
            section="Advanced",
        ),
        "force": Param(
            False,
            type="boolean",
            title="Force",
            description="Commit a used batch id again; roll back other writers' unfinished instants whatever their age",
            section="Advanced",
        ),
        "options": Param(
            None,
            type=["null", "object"],
            title="Options",
            description="hoodie.* and lakeindex.* options, which override those of the yaml: "
            '{"hoodie.index.bloom.fpp": "1e-4"}',
            section="Advanced",
        ),
    }


def _wire(tables: Mapping[str, TableConf], root: Path) -> None:
    """Tasks and their order, inside the DAG that is being made."""
    first = _check_input_task(tables)
    only = next(iter(tables.values())) if len(tables) == 1 else None
    before, previous = None, first
    for stage in Stage:
        job = _stage_task(stage, root, only)
        previous >> job
        if before is not None and job.trigger_rule != TriggerRule.ALL_SUCCESS:
            before >> job
        before, previous = previous, job
    previous >> _summary_task()


def _stage_task(stage: Stage, root: Path, table: TableConf | None) -> StageOperator:
    follows_optional = stage is Stage.VERIFY_KEYS
    spark = table.spark if table else None
    return StageOperator(
        stage=stage,
        application=str(jobs_folder(root) / f"{stage}.py"),
        conf={**SPARK_CONF, **(spark.conf if spark else {})},
        driver_memory=(spark.driver_memory if spark else None) or "1g",
        trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS if follows_optional else TriggerRule.ALL_SUCCESS,
    )


def _check_input_task(tables: Mapping[str, TableConf]) -> Any:
    @task(task_id=PLAN_TASK, multiple_outputs=False)
    def check_input(**context: Any) -> dict[str, Any]:
        """Work out the run's plan; skip a scheduled run without data, fail one by hand."""
        by_hand, ti = "table" in context["params"], context["ti"]
        table = tables[context["params"]["table"]] if by_hand else next(iter(tables.values()))
        batch_id = batch_of_run(ti.dag_id, ti.run_id, ti.map_index)
        may_skip = table.schedule is not None and not by_hand
        with told_failures(context):
            plan = plan_run(table, context, batch_id=batch_id, may_skip=may_skip).to_xcom()
        ti.xcom_push(key=PLAN_KEY, value=plan)
        return plan

    return check_input()


def _summary_task() -> Any:
    @task(task_id="summary", outlets=[AssetAlias(TABLES_ALIAS)], multiple_outputs=False)
    def summary(**context: Any) -> dict[str, Any]:
        """Print the funnel; say to the asset what was committed."""
        ti = context["ti"]
        plan = DagPlan.from_xcom(ti.xcom_pull(task_ids=PLAN_TASK))
        return tell_what_was_done(plan, ti.xcom_pull(task_ids=str(Stage.MERGE_WRITE)), context)

    return summary()
