"""The operator for DAGs of one's own: one upsert of one table, as one spark-submit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.sdk import AssetAlias

from lakeindex.airflow.assets import TABLES_ALIAS, announce_commit
from lakeindex.airflow.dag_plan import DagPlan, refuse_backfill
from lakeindex.airflow.operator import (
    PLAN_KEY,
    RETRIES,
    RUN_SUMMARY,
    SPARK_CONF,
    WHOLE_RUN,
    JobOperator,
    reporting_failures,
)
from lakeindex.airflow.tables import LOCAL, SINGLE
from lakeindex.catalogs.places import located
from lakeindex.errors import UsageError
from lakeindex.model import BATCH_OPERATIONS, Operation
from lakeindex.options.parse import parse_options
from lakeindex.pipeline import default_checkpoints, run_id_of
from lakeindex.runners.shipped_files import jobs_folder
from lakeindex.storage.paths import absolute, plain

#: The job, of the checkout or the installed package: a file to submit, not a module to import.
APPLICATION: Final = jobs_folder() / "upsert.py"
#: Its own arguments.
ARGUMENTS: Final = (
    "table",
    "inputs",
    "table_name",
    "checkpoints",
    "operation",
    "options",
    "max_quarantined",
    "force",
    "batch_id",
    "execution",
)
BATCH_ID: Final = "{{ dag.dag_id }}/{{ run_id }}/{{ ti.task_id }}/{{ ti.map_index }}"


class LakeIndexUpsertOperator(JobOperator):
    """Upserts a batch into a table, or deletes keys from it, in one Spark application, or without a JVM.

    Returns table, instant, batch id and the counts of rows by fate. A commit makes an event of the table's asset, whose
    extra also says where the commit is on the timeline. Retried with growing waits (unless ``retries`` says otherwise),
    but not if the data, the table or the usage is wrong. A batch is committed once, however often the task runs.

    All arguments are templates. Those of ``SparkSubmitOperator`` (``conf``, ``conn_id``, ``driver_memory``,
    ...) are taken too.

    Args:
        table: the table's folder, an absolute path or a URL; or its name in a catalog, ``glue://database/table``.
        inputs: files, folders or ``*`` patterns, one or several.
        table_name: name of the table's asset, the same wherever the table is written; default: the folder's name.
        checkpoints: root of the run folders, for worker and driver; default: ``<table>.lakeindex``.
        operation: ``UPSERT``, ``INSERT``, ``BULK_INSERT``, ``INSERT_OVERWRITE``, ``INSERT_OVERWRITE_TABLE`` or
            ``DELETE``.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        max_quarantined: bad rows allowed; more fail the task.
        force: commit a used batch id again, and roll back other writers' unfinished instants whatever their age.
        batch_id: names the batch for good; default: ``<DAG>/<run>/<task>/<map index>``.
        execution: ``single``, a spark-submit; or ``local``, a process of the worker without a JVM.
    """

    template_fields: Sequence[str] = (*ARGUMENTS, *JobOperator.template_fields)

    def __init__(  # noqa: PLR0913 - an operator's arguments are its template fields
        self,
        *,
        table: str,
        inputs: str | Sequence[str],
        table_name: str | None = None,
        checkpoints: str | None = None,
        operation: str = str(Operation.UPSERT),
        options: Mapping[str, object] | None = None,
        max_quarantined: int | str = 0,
        force: bool | str = False,
        batch_id: str = BATCH_ID,
        execution: str = SINGLE,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("application", str(APPLICATION))
        inherited = kwargs.get("default_args") or {}
        for name, value in RETRIES.items():
            if name not in inherited:
                kwargs.setdefault(name, value)
        outlets = kwargs.pop("outlets", None) or []
        outlets = list(outlets) if isinstance(outlets, Sequence) else [outlets]
        alias = AssetAlias(TABLES_ALIAS)
        super().__init__(outlets=outlets if alias in outlets else [*outlets, alias], **kwargs)
        self.table = table
        self.inputs = inputs
        self.table_name = table_name
        self.checkpoints = checkpoints
        self.operation = operation
        self.options = options
        self.max_quarantined = max_quarantined
        self.force = force
        self.batch_id = batch_id
        self.execution = execution

    def execute(self, context: Any) -> dict[str, Any]:  # type: ignore[override] # Airflow takes the value as XCom
        """Run the upsert; the return value says what became of the rows."""
        with reporting_failures(context):
            plan = self.plan()
            refuse_backfill(plan, context)
            self.plan_of_run = plan
        context["ti"].xcom_push(key=PLAN_KEY, value=plan.to_xcom())
        self.conf = {**SPARK_CONF, **(self.conf or {})}
        self.submit_job_of(plan, WHOLE_RUN, context)
        with reporting_failures(context):
            left = self.read_left(plan, RUN_SUMMARY)
        return announce_commit(plan, left, context)

    def plan(self) -> DagPlan:
        """The run, from the rendered arguments.

        Raises:
            UsageError: an argument or option is not valid.
        """
        table = located(str(self.table))
        uri = plain(table, "/")
        if uri != plain(table, "/elsewhere"):
            hint = "give an absolute path or a URL: the job runs in a folder of its own"
            raise self._wrong("table", str(self.table), hint)
        inputs = [self.inputs] if isinstance(self.inputs, str) else [str(place) for place in self.inputs or ()]
        if not inputs or not all(inputs):
            raise self._wrong("inputs", inputs, "give a file, a folder or a * pattern, or a list of them")
        if self.operation not in BATCH_OPERATIONS:
            raise self._wrong("operation", self.operation, f"give {' or '.join(BATCH_OPERATIONS)}")
        if self.execution not in {SINGLE, LOCAL}:
            raise self._wrong("execution", self.execution, f"give {SINGLE} or {LOCAL}: one task is one job")
        if not str(self.max_quarantined).isdecimal():
            raise self._wrong("max_quarantined", self.max_quarantined, "give a whole number, 0 or more")
        if str(self.force).lower() not in {"true", "false"}:
            raise self._wrong("force", self.force, "give true or false")
        options = {str(key): _text(value) for key, value in (self.options or {}).items()}
        parse_options(options)
        return DagPlan(
            table=self.table_name or uri.rpartition("/")[2],
            uri=uri,
            checkpoints=plain(self.checkpoints or default_checkpoints(absolute(uri))),
            run_id=run_id_of(self.batch_id),
            batch_id=self.batch_id,
            inputs=tuple(inputs),
            operation=self.operation,
            options=tuple(sorted(options.items())),
            max_quarantined=int(self.max_quarantined),
            force=str(self.force).lower() == "true",
            execution=self.execution,
        )

    def _wrong(self, argument: str, value: object, hint: str) -> UsageError:
        return UsageError(f"{self.task_id}: {argument} cannot be {value!r}", culprit=argument, hint=hint)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
