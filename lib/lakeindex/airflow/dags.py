"""The DAGs: one to start by hand for any table, one for each table with a schedule, and two over all tables.

*Of one table*: ``check_input`` -> the five stages -> ``summary``. All five stages are there; one that the index does
not need is skipped when it is its turn. Each task after it has the trigger rule ``none_failed_min_one_success`` and
also depends on the stage before it, so that it runs past a skipped stage, and is skipped itself when there was no
input at all.

*Of all tables of* ``conf/tables``: a mapped task group, an instance for each table, which upserts, or maintains the
table in one task for each step. The tables are read by tasks, not when the DAG file is parsed: a new table needs no
parsing, and a file that is wrong fails the instance of its table alone.

Parsing this module loads Airflow and the standard library, no data library.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, AssetAlias, CronDataIntervalTimetable, Param, TriggerRule, chain, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

from lakeindex.airflow.assets import CATALOGS_ALIAS, TABLES_ALIAS, announce_commit, announce_sync
from lakeindex.airflow.dag_plan import AS_THE_TABLE_SAYS, DagPlan, batch_of_run, plan_run
from lakeindex.airflow.operator import PLAN_KEY, PLAN_TASK, RETRIES, SPARK_CONF, StageOperator, reporting_failures
from lakeindex.airflow.tables import EXECUTIONS, LOCAL, SINGLE, SparkConf, TableConf, load_table
from lakeindex.airflow.upsert_operator import ARGUMENTS, LakeIndexUpsertOperator
from lakeindex.errors import UsageError
from lakeindex.model import BATCH_OPERATIONS, SYNC_OPTION, IndexType, Operation
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
| `sync` | if options of a table name catalogs: lets them know of the commit, emits an event of the name there |

Each stage is a spark-submit job of its own and leaves its checkpoint, so a retry goes on where the last attempt
stopped (with execution `single` or `local` the first job does all stages, and leaves the same checkpoints). Wrong data,
a refused table or a broken invariant (exit codes 2, 3, 4, 6) fails at once; everything else is tried again. A run is
committed once, however often its tasks run, unless it is forced.
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
    first = _check_input_task(tables, root)
    before, previous = None, first
    for stage in Stage:
        job = _stage_task(stage, root, tables)
        previous >> job
        if before is not None and job.trigger_rule != TriggerRule.ALL_SUCCESS:
            before >> job
        before, previous = previous, job
    summary = _summary_task()
    previous >> summary
    if any(table.options.get(SYNC_OPTION, "").strip() for table in tables.values()):
        summary >> _sync_task()


def _stage_task(stage: Stage, root: Path, tables: Mapping[str, TableConf]) -> StageOperator:
    follows_optional = stage is Stage.VERIFY_KEYS
    by_table = {name: table.spark for name, table in tables.items()}
    only = next(iter(by_table.values())) if len(by_table) == 1 else SparkConf()
    return StageOperator(
        stage=stage,
        application=str(jobs_folder(root) / f"{stage}.py"),
        conf={**SPARK_CONF, **only.conf},
        driver_memory=only.driver_memory or "1g",
        by_table=by_table if len(by_table) > 1 else {},
        trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS if follows_optional else TriggerRule.ALL_SUCCESS,
    )


def _check_input_task(tables: Mapping[str, TableConf], root: Path) -> Any:
    @task(task_id=PLAN_TASK, multiple_outputs=False)
    def check_input(**context: Any) -> dict[str, Any]:
        """Work out the run's plan; skip a scheduled run without data, fail one by hand."""
        by_hand, ti = "table" in context["params"], context["ti"]
        table = tables[context["params"]["table"]] if by_hand else next(iter(tables.values()))
        batch_id = batch_of_run(ti.dag_id, ti.run_id, ti.map_index)
        may_skip = table.schedule is not None and not by_hand
        with reporting_failures(context):
            plan = plan_run(table, context, batch_id=batch_id, may_skip=may_skip, root=str(root)).to_xcom()
        ti.xcom_push(key=PLAN_KEY, value=plan)
        return plan

    return check_input()


def _summary_task() -> Any:
    @task(task_id="summary", outlets=[AssetAlias(TABLES_ALIAS)], multiple_outputs=False)
    def summary(**context: Any) -> dict[str, Any]:
        """Print the funnel; say to the asset what was committed."""
        ti = context["ti"]
        plan = DagPlan.from_xcom(ti.xcom_pull(task_ids=PLAN_TASK))
        return announce_commit(plan, ti.xcom_pull(task_ids=str(Stage.MERGE_WRITE)), context)

    return summary()


def _sync_task() -> Any:
    @task(task_id="sync", outlets=[AssetAlias(CATALOGS_ALIAS)], multiple_outputs=False)
    def sync(**context: Any) -> list[dict[str, Any]]:
        """Let the catalogs of the table's options know of the commit."""
        plan = DagPlan.from_xcom(context["ti"].xcom_pull(task_ids=PLAN_TASK))
        return sync_table(plan.table, plan.uri, dict(plan.options), context)

    return sync()


def sync_table(table: str, uri: str, options: Mapping[str, str], context: Any) -> list[dict[str, Any]]:
    """What the tasks ``sync`` do: let the catalogs of a table's options know of its commits; an event for each.

    Raises:
        AirflowSkipException: the options name none.
    """
    if not options.get(SYNC_OPTION, "").strip():
        raise AirflowSkipException(f"{table} names no catalog: option {SYNC_OPTION}")
    with reporting_failures(context):
        return announce_sync(uri, options, context)


TABLES_DAG: Final = "upsert_tables"
_TABLES_DOC: Final = """\
### Upsert into all tables

| task | does |
|---|---|
| `find_tables` | lists the files of `conf/tables`, or those that the form names |
| `table.check_input` | reads the table's file, works out its input; no data yet skips the table |
| `table.upsert` | all five stages in one spark-submit; the event of the table's asset has the counts |
| `table.sync` | if the table's options name catalogs: lets them know of the commit, emits an event of the name there |

Every table has an instance of its own; one that fails does not stop the others. *Run report* lists them all.
"""


def tables_dag(folder: Path, root: Path, *, pool: str = "default_pool", at_once: int = 2) -> DAG:
    """The DAG.

    Args:
        folder: where the tables' ``*.yaml`` files are.
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
        doc_md=_TABLES_DOC,
    ) as dag:

        @task
        def find_tables(**context: Any) -> list[str]:
            """Names of the tables of this run."""
            with reporting_failures(context):
                return table_names(folder, context["params"].get("tables"))

        @task(task_id=PLAN_TASK, multiple_outputs=True, map_index_template="{{ task.op_kwargs['table'] }}")
        def check_input(table: str, **context: Any) -> dict[str, Any]:
            """What the table's operator is given."""
            with reporting_failures(context):
                return upsert_arguments(folder / f"{table}.yaml", root, context)

        @task(
            outlets=[AssetAlias(CATALOGS_ALIAS)],
            multiple_outputs=False,
            map_index_template="{{ task.op_kwargs['table_name'] }}",
        )
        def sync(table: str, table_name: str, options: Any, **context: Any) -> list[dict[str, Any]]:
            """Let the catalogs of the table's options know of the commit."""
            return sync_table(table_name, table, options, context)

        @task_group(group_id="table")
        def upsert_one(table: str) -> None:
            """One table."""
            given: Any = check_input(table=table)
            upserted = LakeIndexUpsertOperator(
                task_id="upsert",
                map_index_template="{{ task.table_name }}",
                pool=pool,
                max_active_tis_per_dagrun=at_once,
                **{name: given[name] for name in (*ARGUMENTS, "conf")},
            )
            upserted >> sync(**{name: given[name] for name in ("table", "table_name", "options")})

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
    batch_id = f"{run.dag_id}/{run.run_id}/{table.name}"
    plan = plan_run(table, context, batch_id=batch_id, may_skip=True, root=str(root))
    memory = {"spark.driver.memory": table.spark.driver_memory} if table.spark.driver_memory else {}
    return {
        **{name: one for name, one in plan.to_xcom().items() if name in ARGUMENTS},
        "table": plan.uri,
        "table_name": plan.table,
        "options": dict(plan.options),
        "execution": LOCAL if plan.execution == LOCAL else SINGLE,
        "conf": {**memory, **table.spark.conf},
    }


MAINTAIN_DAG: Final = "maintain_tables"
_MAINTENANCE_DOC: Final = """\
### Maintain all tables

| task | does |
|---|---|
| `find_tables` | lists the files of `conf/tables`, or those that the form names |
| `table.settle` | finishes or rolls back what dead writers left |
| `table.repair` | mends what changes no row, if the form says so |
| `table.cluster` | puts small and overlapping base files together, if the form says so |
| `table.clean` | deletes base files that none of the last commits needs |
| `table.archive` | takes old instants off the timeline, after sweeping strays |
| `table.compact` | folds the deltas of a stored index into what was built |
| `table.cache` | enters footers that the footer cache lacks |
| `table.runs` | deletes the folders of runs that never finished and are a month old |
| `table.sync` | lets the catalogs of the option `lakeindex.sync` know of the table |
| `table.check` | reads the whole table and proves its invariants, if the form says so |

No step needs Spark. Another writer in flight, or the lock held by one, fails a step that is tried again later; each
step does what is left to do. How many commits stay: `hoodie.cleaner.commits.retained` and `hoodie.keep.min.commits` in
the table's `options`.
"""


_ASKED = {
    "check": "Read every table completely and check its invariants",
    "cluster": "Put small and overlapping base files together and sort their rows by key",
    "repair": "Mend what changes no row: partition metadata, files of nobody, what dead writers left",
}
"""Steps that are skipped unless the form asks for them, and what it says of each."""


def maintenance_dag(folder: Path, root: Path, *, schedule: str | None = None, at_once: int = 2) -> DAG:
    """The DAG.

    Args:
        schedule: when it runs by itself; None: only by hand.
        at_once: instances of one step that run at once.
    """
    with DAG(
        dag_id=MAINTAIN_DAG,
        schedule=schedule,
        params={
            "tables": tables_param("all"),
            **{
                name: Param(False, type="boolean", title=name.title(), description=text)
                for name, text in _ASKED.items()
            },
        },
        max_active_runs=1,
        default_args={"owner": "lakeindex", "max_active_tis_per_dagrun": at_once, **RETRIES},
        tags=["lakeindex", "hudi"],
        doc_md=_MAINTENANCE_DOC,
    ) as dag:

        @task
        def find_tables(**context: Any) -> list[str]:
            """Names of the tables of this run."""
            with reporting_failures(context):
                return table_names(folder, context["params"].get("tables"))

        @task(multiple_outputs=False, map_index_template="{{ task.op_kwargs['table'] }}")
        def step(table: str, name: str, **context: Any) -> dict[str, Any]:
            """One step for one table."""
            if name in _ASKED and not context["params"].get(name):
                raise AirflowSkipException("the form does not ask for it")
            with reporting_failures(context):
                return take_step(folder / f"{table}.yaml", root, name)

        @task_group(group_id="table")
        def maintain_one(table: str) -> None:
            """One table."""
            in_turn = ("settle", "repair", "savepoint", "cluster", "clean", "metadata", "archive")
            # the steps before them, of which the form does not ask, are skipped
            held = dict.fromkeys(("savepoint", "clean"), TriggerRule.NONE_FAILED)
            taken = {
                name: step.override(task_id=name, trigger_rule=held.get(name, TriggerRule.ALL_SUCCESS))(
                    table=table, name=name
                )
                for name in (*in_turn, "compact", "cache", "runs", "sync")
            }
            check = step.override(task_id="check", trigger_rule=TriggerRule.ALL_DONE)(table=table, name="check")
            chain(*(taken[name] for name in in_turn), check)
            taken["settle"] >> [taken["compact"], taken["cache"], taken["runs"], taken["sync"]] >> check

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
    from lakeindex.airflow.files import maintenance_step, placed, table_is_there

    table = load_table(file, root, os.environ)
    if table_is_there(table.uri):
        table = placed(table)
    else:
        raise AirflowSkipException(f"there is no table at {table.uri} yet")
    return maintenance_step(table.uri, step, table.checkpoints, table.options)
