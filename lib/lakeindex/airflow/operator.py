"""Operators that submit a job of the library, understand what it left behind and link to the plugin's pages on it.

A task fails for good if trying again would not help, and never without a word in the report tab.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.hooks.subprocess import SubprocessHook
from airflow.sdk import BaseOperatorLink
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from lakeindex.airflow.dag_plan import DagPlan
from lakeindex.airflow.tables import LOCAL, SparkConf
from lakeindex.errors import code_may_pass, described, in_our_words, may_pass, noted
from lakeindex.model import IndexType
from lakeindex.pipeline import STAGE_TITLES, Stage, stages_for
from lakeindex.runners.spark_settings import FAST_WORKERS

if TYPE_CHECKING:
    from lakeindex.telemetry.lineage import LineageFacets

#: Key of the XCom by which the report tab finds why a task failed that no job could say it for.
ERROR_KEY: Final = "lakeindex_error"


@contextmanager
def reporting_failures(context: Any) -> Iterator[None]:
    """Push what goes wrong inside as XCom, for the report tab, and let the task fail for good or be tried again.

    Raises:
        AirflowFailException: trying again would not help.
        LakeIndexError: it may pass, like a store that does not answer: Airflow tries again.
    """
    try:
        yield
    except AirflowSkipException:
        raise
    except Exception as raised:
        ours = in_our_words(raised)
        passes = may_pass(ours or raised) and not isinstance(raised, AirflowFailException)
        said = {**described(raised), "transient": passes}
        left = noted(
            "the report tab will not say why this failed",
            lambda: context["ti"].xcom_push(key=ERROR_KEY, value=said),
        )
        for note in left:
            print(note)  # noqa: T201 - Airflow's task log is stdout
        if ours is None or (passes and ours is raised):
            raise
        if passes:
            raise ours from raised
        raise AirflowFailException(str(ours)) from raised


PLAN_TASK: Final = "check_input"
#: Key of the XCom by which the report tab finds a run: the plan, of whatever task of whatever DAG.
PLAN_KEY: Final = "lakeindex_run"
#: Left by the last job in the run's folder: the JSON of ``lakeindex upsert``.
RUN_SUMMARY: Final = "summary.json"
_SUBMIT_FAILED: Final = re.compile(r"Error code is: ([0-9]+)")
SPARK_CONF: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.log.level": "WARN",
    "spark.sql.shuffle.partitions": "2",
    **FAST_WORKERS,
}
RETRIES: Final[Mapping[str, Any]] = {
    "retries": 2,
    "retry_delay": timedelta(seconds=15),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=10),
}
#: Where the plugin's pages are.
PREFIX: Final = "/lakeindex"
#: The job that does all stages, beside the stages' own.
WHOLE_RUN: Final = "upsert"


def base_path() -> str:
    """Path below which Airflow is served, without a slash at its end."""
    from airflow.configuration import conf

    return urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")


def report_url(dag_id: str, run_id: str, task_id: str, map_index: int) -> str:
    """The report of what a task upserted, or of what the plan says that the task left."""
    query = urlencode({"task_id": task_id, "map_index": map_index})
    return f"{base_path()}{PREFIX}/report/{quote(dag_id)}/{quote(run_id)}?{query}"


def history_url(dag_id: str, uri: str | None) -> str:
    """The history of a table of a DAG; without a table a list of the DAG's."""
    query = f"?{urlencode({'table': uri})}" if uri else ""
    return f"{base_path()}{PREFIX}/history/{quote(dag_id)}{query}"


class RunReportLink(BaseOperatorLink):
    """From a task that submits a job to the report of its run."""

    name = "Run report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The URL; Airflow asks when the task has ended, however it did."""
        task_id = operator.plan_task or ti_key.task_id
        return report_url(ti_key.dag_id, ti_key.run_id, task_id, ti_key.map_index)


class TableHistoryLink(BaseOperatorLink):
    """From a task that submits a job to the history of its table."""

    name = "Table history"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """The URL; Airflow asks when the task has ended, however it did."""
        plan = operator.plan_of_run
        return history_url(ti_key.dag_id, None if plan is None else plan.uri)


class JobOperator(SparkSubmitOperator):
    """Submits a job of the library, or runs it in a process beside the task, and understands how it ended.

    A job that says that its data or its table is wrong fails the task for good; any other failure is retried, which the
    jobs allow: a checkpoint counts when its manifest is there, and a batch is committed once.

    Attributes:
        plan_task: the task that left the plan as XCom; None: this one.
    """

    operator_extra_links = (RunReportLink(), TableHistoryLink())
    plan_task: str | None = None
    plan_of_run: DagPlan | None = None
    _summary: Mapping[str, Any] | None = None
    _process: SubprocessHook | None = None

    def __init__(self, **kwargs: Any) -> None:
        if not kwargs.get("yarn_track_via_rm_api") and "durable" not in (kwargs.get("default_args") or {}):
            # the provider would find the job of the attempt before, which needs YARN's REST API; here a retry fences it
            kwargs.setdefault("durable", False)
        super().__init__(**kwargs)

    def submit_job_of(self, plan: DagPlan, job: str, context: Any) -> None:
        """Submit ``self.application`` with the plan's arguments.

        Args:
            job: the stage, or :data:`WHOLE_RUN`; names what the job leaves when it fails.

        Raises:
            AirflowFailException: what went wrong will go wrong again.
            AirflowException: it may pass.
        """
        from lakeindex.airflow import files

        error_file = f"{plan.run_id}/{job}.error.json"
        self.application_args = plan.arguments()
        self.name = f"lakeindex {job} {plan.table}"
        said: dict[str, Any] | None = None
        cause: AirflowException | None = None
        with reporting_failures(context):
            files.delete(plan.checkpoints, error_file)  # an earlier attempt's, or it would be taken for this one's
            try:
                self._run_job(plan, context)
            except AirflowException as failure:
                said, cause = files.read_json(plan.checkpoints, error_file), failure
                if said is None and not _code_may_pass(failure):  # where run folders are refused no file is left
                    raise AirflowFailException(f"{failure} The task's log has the error.") from failure
                if said is None:
                    raise
        if said is not None:  # the report tab reads the file
            raise (AirflowException if said["transient"] else AirflowFailException)(describe(said)) from cause

    def _run_job(self, plan: DagPlan, context: Any) -> None:
        if plan.execution != LOCAL:
            super().execute(context)
            return
        self._process = SubprocessHook()
        command = [sys.executable, str(self.application), *plan.arguments()]
        code = self._process.run_command(command, cwd=str(Path.cwd())).exit_code  # as of spark-submit
        if code:
            raise AirflowException(f"{self.name} ended with an error. Error code is: {code}.")

    def on_kill(self) -> None:
        """End the job with its task."""
        if self._process is None:
            super().on_kill()
        else:
            self._process.send_sigterm()  # type: ignore[no-untyped-call] # the provider's

    def read_left(self, plan: DagPlan, name: str) -> dict[str, Any]:
        """What a job that ended well left in the run's folder."""
        from lakeindex.airflow import files

        found = files.read_json(plan.checkpoints, f"{plan.run_id}/{name}")
        if found is not None and name == RUN_SUMMARY:
            self._summary = found
        if found is None:
            raise AirflowException(
                f"{self.task_id} ended well but left no {name} in {plan.checkpoints}/{plan.run_id}: "
                "can the Airflow worker and the Spark driver both reach that folder?"
            )
        return found

    def get_openlineage_facets_on_complete(self, _: Any) -> LineageFacets | None:
        """Inputs and output of the run for OpenLineage, of the task that knows what was committed.

        The Airflow provider of OpenLineage calls this, and only that needs openlineage-python.
        """
        if self.plan_of_run is None or self._summary is None:
            return None
        from lakeindex.airflow import files

        plan = self.plan_of_run
        return files.lineage_facets(plan.uri, plan.inputs, self._summary, dict(plan.options))


class StageOperator(JobOperator):
    """Submits ``jobs/<stage>.py`` and returns the stage's counters.

    In a ``single`` or ``local`` run the first stage's task runs ``jobs/upsert.py``, which does all of them;
    the other tasks only take what their stage left behind.

    The run's arguments come from the task ``check_input``. A stage that the table's index does not need is skipped.

    Args:
        by_table: what spark-submit is told for each table that a run may be of, over the DAG's own settings.
    """

    plan_task = PLAN_TASK

    def __init__(self, *, stage: Stage, by_table: Mapping[str, SparkConf] | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("task_id", str(stage))
        kwargs.setdefault("doc_md", STAGE_TITLES[stage])
        super().__init__(**kwargs)
        self.stage = stage
        self.by_table = by_table or {}

    def execute(self, context: Any) -> dict[str, Any]:  # type: ignore[override] # Airflow takes the value as XCom
        """Run the stage; the return value is what it counted."""
        plan = self.plan_of_run = DagPlan.from_xcom(context["ti"].xcom_pull(task_ids=PLAN_TASK))
        with reporting_failures(context):
            self._skip_if_not_needed(plan)
        if not plan.is_single or self.stage is Stage.STAGE_INPUT:
            self._submit(plan, context)
        with reporting_failures(context):
            return self._left_behind(plan)

    def _submit(self, plan: DagPlan, context: Any) -> None:
        job = str(self.stage)
        if plan.is_single:
            job = WHOLE_RUN
            self.application = str(PurePosixPath(self.application).with_name(f"{job}.py"))
        spark = self.by_table.get(plan.table, SparkConf())
        self.conf = {**(self.conf or {}), **spark.conf}
        self._driver_memory = spark.driver_memory or self._driver_memory
        self.submit_job_of(plan, job, context)

    def _left_behind(self, plan: DagPlan) -> dict[str, Any]:
        """Counters and costs of the stage; the last stage leaves the summary of the whole run."""
        from lakeindex.airflow import files

        if self.stage is Stage.MERGE_WRITE:
            return self.read_left(plan, RUN_SUMMARY)
        manifest = f"{self.stage}.json"
        if plan.is_single and files.read_json(plan.checkpoints, f"{plan.run_id}/{manifest}") is None:
            return {"name": str(self.stage)}  # an empty batch ends with its first stage
        found = self.read_left(plan, manifest)
        return {"name": str(self.stage), **found.get("counters", {}), **found.get("costs", {})}

    def _skip_if_not_needed(self, plan: DagPlan) -> None:
        """Skip a stage that the table's index does without; the first stage has left the index type in its manifest."""
        from lakeindex.airflow import files

        staged = files.read_json(plan.checkpoints, f"{plan.run_id}/{Stage.STAGE_INPUT}.json") or {}
        kind = staged.get("facts", {}).get("index_type")
        if kind in set(IndexType) and self.stage not in stages_for(IndexType(kind)):
            raise AirflowSkipException(f"index type {kind} needs no {self.stage}")


def _code_may_pass(failure: AirflowException) -> bool:
    """What the exit code of a job says, where Spark's hook passes it on."""
    said = _SUBMIT_FAILED.search(str(failure))
    return code_may_pass(int(said[1])) if said else True


def describe(error: Mapping[str, Any]) -> str:
    """A job's error as one line: class, message, culprit, cure."""
    text = f"{error.get('error', 'error')}: {error.get('message', 'no message')}"
    if error.get("culprit"):
        text += f" [{error['culprit']}]"
    return f"{text} ({error['hint']})" if error.get("hint") else text
