"""The operator of one stage: submit the job, understand what it left behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from lakeindex.airflow.plan import RunPlan
from lakeindex.model import IndexType
from lakeindex.pipeline import STAGE_TITLES, Stage, stages_for

PLAN_TASK: Final = "check_input"
#: Left by the last job in the run's folder: the JSON of ``lakeindex upsert``.
RUN_SUMMARY: Final = "summary.json"
#: Exit codes that a retry cannot mend: usage, input, table, invariant. A conflict (5) and anything else (1) may pass.
NOT_RETRIED: Final = frozenset({2, 3, 4, 6})


#: The job that does all stages, beside the stages' own.
WHOLE_RUN: Final = "upsert"


class StageOperator(SparkSubmitOperator):
    """Submits ``jobs/<stage>.py`` and returns the stage's counters.

    In a ``single`` run the first stage's task submits ``jobs/upsert.py``, which does all of them; the other tasks only take
    what their stage left behind.

    The run's arguments come from the task ``check_input``. A stage that the table's index does not need is skipped. A
    job that says that its data or its table is wrong fails the task for good; any other failure is retried, which the
    stages allow: a checkpoint counts when its manifest is there, and a batch is committed once.
    """

    def __init__(self, *, stage: Stage, **kwargs: Any) -> None:
        kwargs.setdefault("task_id", str(stage))
        kwargs.setdefault("doc_md", STAGE_TITLES[stage])
        super().__init__(**kwargs)
        self.stage = stage

    def execute(self, context: Any) -> dict[str, Any]:  # type: ignore[override] # Airflow takes the value as XCom
        """Run the stage; the return value is what it counted."""
        from lakeindex.airflow import files

        plan = RunPlan.from_xcom(context["ti"].xcom_pull(task_ids=PLAN_TASK))
        self._skip_if_not_needed(plan)
        job = str(self.stage)
        if plan.is_single:
            if self.stage is not Stage.STAGE_INPUT:
                return self._left_behind(plan)
            job = WHOLE_RUN
            self.application = str(PurePosixPath(self.application).with_name(f"{job}.py"))
        error_file = f"{plan.run_id}/{job}.error.json"
        files.delete(plan.checkpoints, error_file)  # an earlier attempt's, or it would be taken for this one's
        self.application_args = plan.arguments()
        self.name = f"lakeindex {job} {plan.table}"
        try:
            super().execute(context)
        except AirflowException as failure:
            error = files.read_json(plan.checkpoints, error_file)
            if error is None:
                raise
            message = describe(error)
            if error.get("exit_code") in NOT_RETRIED:
                raise AirflowFailException(message) from failure
            raise AirflowException(message) from failure
        return self._left_behind(plan)

    def _left_behind(self, plan: RunPlan) -> dict[str, Any]:
        """Counters and costs of the stage; the last stage leaves the summary of the whole run."""
        from lakeindex.airflow import files

        name = RUN_SUMMARY if self.stage is Stage.MERGE_WRITE else f"{self.stage}.json"
        found = files.read_json(plan.checkpoints, f"{plan.run_id}/{name}")
        if found is None and plan.is_single and self.stage is not Stage.MERGE_WRITE:
            return {"name": str(self.stage)}  # an empty batch ends with its first stage
        if found is None:
            raise AirflowException(f"{self.stage} ended well but left no {name} in {plan.checkpoints}/{plan.run_id}")
        if self.stage is Stage.MERGE_WRITE:
            return found
        return {"name": str(self.stage), **found.get("counters", {}), **found.get("costs", {})}

    def _skip_if_not_needed(self, plan: RunPlan) -> None:
        """Skip a stage that the table's index does without; the first stage has left the index type in its manifest."""
        from lakeindex.airflow import files

        staged = files.read_json(plan.checkpoints, f"{plan.run_id}/{Stage.STAGE_INPUT}.json") or {}
        kind = staged.get("facts", {}).get("index_type")
        if kind in set(IndexType) and self.stage not in stages_for(IndexType(kind)):
            raise AirflowSkipException(f"index type {kind} needs no {self.stage}")


def describe(error: Mapping[str, Any]) -> str:
    """A job's error as one line: class, message, culprit, cure."""
    text = f"{error.get('error', 'error')}: {error.get('message', 'no message')}"
    if error.get("culprit"):
        text += f" [{error['culprit']}]"
    return f"{text} ({error['hint']})" if error.get("hint") else text
