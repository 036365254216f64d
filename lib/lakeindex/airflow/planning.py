"""What the first task of a run works out: which input, and whether it is there. Looks at storage, so tasks call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow.sdk.exceptions import AirflowSkipException

from lakeindex.airflow.plan import DagPlan, make_plan
from lakeindex.airflow.run_fields import rendered
from lakeindex.airflow.tables import TableConf
from lakeindex.errors import InputError, UsageError
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
        InputError: input that a person named is not there.
        UsageError: no input was named, a template is wrong, or a backfill is refused.
        StorageError: the store does not answer, or refuses.
    """
    from lakeindex.airflow import files

    params = context["params"]
    given = params.get("input")
    inputs = rendered(given.splitlines() if given else table.inputs, context)
    plan = make_plan(table, params, inputs, batch_id=batch_id)
    missing = [place for place in plan.inputs if not files.is_there(place)]
    if missing and may_skip:
        raise AirflowSkipException(f"no data yet: {', '.join(missing)}")
    if missing:
        raise InputError(
            f"no input at {', '.join(missing)}",
            culprit=missing[0],
            hint="name files, folders or * patterns that are there, as the Airflow worker sees them",
        )
    refuse_backfill(plan, context)
    return plan


def refuse_backfill(plan: DagPlan, context: Mapping[str, Any]) -> None:
    """Refuse a run of a backfill that would put older rows over newer ones.

    Raises:
        UsageError: the table has no ordering field that says which row is newer, or rows are to be deleted or replaced.
        TableError: there is no table, or it is damaged.
    """
    from lakeindex.airflow import files

    run = context.get("dag_run")
    if run is None or run.run_type != BACKFILL:
        return
    by_hand = "trigger the intervals by hand, oldest first, and those after them again"
    name = plan.table
    if plan.operation == Operation.DELETE:
        raise _refused(plan, f"{name}: a backfill cannot delete, for a delete by key wins over newer rows", by_hand)
    if plan.operation in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE):
        raise _refused(plan, f"{name}: a backfill cannot overwrite, for it would replace newer rows, too", by_hand)
    mode = files.merge_mode(plan.uri) or dict(plan.options).get(MERGE_OPTION)
    if mode != MergeMode.EVENT_TIME_ORDERING:
        why = "no field orders its rows, so an older interval would overwrite newer ones"
        cure = f"create the table with an ordering field, or {by_hand}"
        raise _refused(plan, f"a backfill of {name} is refused: {why}", cure)


def _refused(plan: DagPlan, why: str, hint: str) -> UsageError:
    return UsageError(why, culprit=plan.uri, hint=hint)
