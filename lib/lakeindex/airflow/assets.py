"""The asset of a table: an event of it says what a run committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from airflow.sdk import Asset, AssetAlias

from lakeindex.airflow.funnel import fates, funnel_text
from lakeindex.airflow.plan import DagPlan

TABLES_ALIAS: Final = "lakeindex-tables"


def table_asset(name: str, uri: str) -> Asset:
    """The asset of a table; what a DAG that reads the table is scheduled on.

    Args:
        name: the table's name.
        uri: its folder, an absolute path or a URL.
    """
    return Asset(name=name, uri=uri if "://" in uri else f"file://{uri}")


def tell_what_was_done(plan: DagPlan, run: Mapping[str, Any], context: Mapping[str, Any]) -> dict[str, Any]:
    """Print the funnel, and say to the table's asset what was committed.

    The event goes to the outlet that is the table's asset, or to the alias :data:`TABLES_ALIAS`,
    which must be an outlet. By the alias a run that committed nothing makes no event.

    Args:
        plan: the run.
        run: its summary.
        context: of the running task.

    Returns:
        What the task returns as XCom: table, instant, batch id and the counts of rows by fate.
    """
    counts = fates(run)
    print(f"{plan.table}: {plan.uri}\n{funnel_text(run['stages'])}")  # noqa: T201 - Airflow's task log is stdout
    print(f"{counts}\ncommitted: {run['instant'] or 'nothing'}")  # noqa: T201 - as above
    done = {"instant": run["instant"], "batch_id": plan.batch_id, **counts}
    if run["instant"]:
        asset = table_asset(plan.table, plan.uri)
        own = next((one for one in context["task"].outlets if isinstance(one, Asset) and one.uri == asset.uri), None)
        if own is not None:  # Airflow makes its event in any case
            context["outlet_events"][own].extra.update(done)
        else:
            context["outlet_events"][AssetAlias(TABLES_ALIAS)].add(asset, extra=done)
    return {"table": plan.table, **done}
