"""What the first task of a run works out: which input, and whether it is there. Looks at storage, so tasks call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from lakeindex.airflow.plan import DagPlan, make_plan
from lakeindex.airflow.run_fields import rendered
from lakeindex.airflow.tables import TableConf
from lakeindex.errors import LakeIndexError, UsageError
from lakeindex.model import MergeMode, Operation

#: Airflow's type of the runs of a backfill.
BACKFILL: Final = "backfill"
MERGE_OPTION: Final = "hoodie.write.record.merge.mode"


def plan_run(table: TableConf, context: Mapping[str, Any], *, batch_id: str, may_skip: bool) -> DagPlan:
    """The plan of the running DAG run, its input looked up.

    Args:
        table: the table.
        context: of the running task; its params may say more than the table's file.
        batch_id: names the batch.
        may_skip: whether input that is not there yet skips the task.

    Raises:
        AirflowSkipException: the input is not there yet.
        AirflowFailException: input that a person named is not there, or no input was named.
    """
    from lakeindex.airflow import files

    params = context["params"]
    given = params.get("input")
    try:
        inputs = rendered(given.splitlines() if given else table.inputs, context)
        plan = make_plan(table, params, inputs, batch_id=batch_id)
    except UsageError as error:
        raise AirflowFailException(str(error)) from error
    missing = [place for place in plan.inputs if not files.is_there(place)]
    if missing and may_skip:
        raise AirflowSkipException(f"no data yet: {', '.join(missing)}")
    if missing:
        raise AirflowFailException(f"no input at {', '.join(missing)}")
    refuse_backfill(plan, context)
    return as_it_began(plan)


def as_it_began(plan: DagPlan) -> DagPlan:
    """The plan with the name of the run that an older release began, if it did:
    a retry takes it over, and fences it.
    """
    from lakeindex.airflow import files

    return replace(plan, run_id=files.run_id_for(plan.batch_id, plan.uri, plan.checkpoints))


def refuse_backfill(plan: DagPlan, context: Mapping[str, Any]) -> None:
    """Refuse a run of a backfill that would put older rows over newer ones.

    Raises:
        AirflowFailException: the table has no ordering field that says which row is newer,
            or the rows are to be deleted.
    """
    from lakeindex.airflow import files

    run = context.get("dag_run")
    if run is None or run.run_type != BACKFILL:
        return
    by_hand = "or trigger the intervals by hand, oldest first, and those after them again"
    if plan.operation == Operation.DELETE:
        raise AirflowFailException(
            f"{plan.table}: a backfill cannot delete, for a delete by key wins over newer rows ({by_hand[3:]})"
        )
    if plan.operation in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE):
        raise AirflowFailException(
            f"{plan.table}: a backfill cannot overwrite, for it would replace newer rows, too ({by_hand[3:]})"
        )
    try:
        mode = files.merge_mode(plan.uri) or dict(plan.options).get(MERGE_OPTION)
    except LakeIndexError as error:
        raise AirflowFailException(str(error)) from error
    if mode != MergeMode.EVENT_TIME_ORDERING:
        raise AirflowFailException(
            f"a backfill of {plan.table} is refused: its rows are not ordered by a field, so an older interval would "
            f"overwrite newer rows (create the table with an ordering field, {by_hand})"
        )
