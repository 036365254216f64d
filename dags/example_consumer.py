"""An example to copy: a DAG that runs when a table has changed, and reads what the commits did."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import DAG, task

from lakeindex.airflow.assets import table_asset
from lakeindex.airflow.tables import load_table, project_root, tables_folder

ROOT = project_root(__file__)
TABLE = load_table(min(tables_folder(ROOT).glob("*.yaml")), ROOT, os.environ)  # the first one; name yours

with DAG(
    "example_consumer",
    schedule=[table_asset(TABLE.name, TABLE.uri)],
    tags=["lakeindex", "example"],
    doc_md="Runs after each commit into a table, whatever DAG made it, and adds up the counts of its events.",
) as dag:

    @task
    def read_counts(**context: Any) -> dict[str, int]:
        """Sum of the rows of all commits since the last run, by what became of them."""
        totals: dict[str, int] = {}
        for asset, events in context["triggering_asset_events"].items():
            for event in events:
                print(f"{asset.name} {event.extra['instant']}: {event.extra}")  # noqa: T201 - goes to the task's log
                for name in ("inserts", "updates", "deletes"):
                    totals[name] = totals.get(name, 0) + event.extra[name]
        return totals

    read_counts()
